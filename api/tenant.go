package api

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"heddle/access"
	"heddle/ib"
	"heddle/vm"
)

// parts is what handlers of virtual machines need: the machines, and the partitions that say which
// P_Keys belong to a tenant.
type parts interface {
	Machines
	Administration
}

// mine is the view of virtual machines that a caller has.
func mine(ctx context.Context, b parts) Machines {
	if c := callerOf(ctx); c.Role == access.Tenant {
		return &tenant{Machines: b, scope: c.Scope, parts: b}
	}
	return b
}

// tenant restricts Machines to what belongs to a tenant. What it does not override is not in the
// tenant's rows of the table of access.
type tenant struct {
	Machines
	scope access.Scope
	parts Administration
}

// OwnsPartition reports whether a partition is a tenant's by its name. The default partition is nobody's,
// whatever its name. Nor is one whose name is its P_Key, which interfaces of others have made: a prefix may
// be "0".
func OwnsPartition(s *access.Scope, name string, k ib.PKey) bool {
	return s.Owns(name) && k.Base() != ib.PKeyDefaultLimited && name != k.Base().String()
}

// keys are the P_Keys of the tenant: those of its scope, and of its partitions.
func (t *tenant) keys() []ib.PKey {
	keys := slices.Clone(t.scope.PKeys)
	for _, p := range t.parts.Partitions().Partitions {
		if k, err := ib.ParsePKey(p.PKey); err == nil && OwnsPartition(&t.scope, p.Name, k) {
			keys = append(keys, k.Base())
		}
	}
	return keys
}

func (t *tenant) hasKey(keys []ib.PKey, text string) bool {
	k, err := ib.ParsePKey(text)
	return err == nil && slices.Contains(keys, k.Base())
}

// VMs implements Machines, as do the methods below.
func (t *tenant) VMs(f VMFilter) (VMList, error) {
	limit, after := f.Limit, f.After
	f.Limit, f.After = 10_000, ""
	var out VMList
	for {
		page, err := t.Machines.VMs(f)
		if err != nil {
			return VMList{}, err
		}
		for i := range page.VMs {
			v := &page.VMs[i]
			if !t.scope.Owns(v.Name) {
				continue
			}
			out.Total++
			switch {
			case after != "" && v.Name <= after:
			case len(out.VMs) < limit:
				out.VMs = append(out.VMs, *v)
			case out.Next == "":
				out.Next = out.VMs[limit-1].Name
			}
		}
		if page.Next == "" {
			return out, nil
		}
		f.After = page.Next
	}
}

func (t *tenant) VM(name string) (VM, error) {
	if !t.scope.Owns(name) {
		return VM{}, fmt.Errorf("%w: %q", vm.ErrNotFound, name)
	}
	return t.Machines.VM(name)
}

func (t *tenant) Operate(ctx context.Context, ops []VMOperation) ([]VMOutcome, error) {
	keys := t.keys()
	out := make([]VMOutcome, len(ops))
	var own []VMOperation
	var at []int
	for i := range ops {
		if err := t.check(&ops[i], keys); err != nil {
			out[i].Err = err
			continue
		}
		op := ops[i]
		op.Scope = &t.scope // its partitions may be another tenant's by then
		own, at = append(own, op), append(at, i)
	}
	if len(own) == 0 {
		return out, nil
	}
	done, err := t.Machines.Operate(ctx, own)
	if err != nil {
		return nil, err
	}
	for i := range done {
		out[at[i]] = done[i]
	}
	return out, nil
}

// check refuses what a tenant may not do. It may not choose addresses: it could choose those of others.
func (t *tenant) check(op *VMOperation, keys []ib.PKey) error {
	if !t.scope.Owns(op.Name) {
		return fmt.Errorf("%w: the names of its interfaces begin with %q, and %q does not", ErrForbidden, t.scope.Prefix, op.Name)
	}
	if op.GUID != "" || len(op.Aliases) > 0 || op.LID != 0 || op.GUIDKind == "static" || op.LIDKind == "floating" {
		return fmt.Errorf("%w: the manager chooses GUIDs and LIDs", ErrForbidden)
	}
	for _, k := range op.Keys {
		if !t.hasKey(keys, k.PKey) {
			return fmt.Errorf("%w: P_Key %s is not one of its partitions", ErrForbidden, k.PKey)
		}
	}
	if (op.Op == "create" || op.Op == "keys") && len(op.Keys) == 0 {
		return fmt.Errorf("%w: want a P_Key of its own; without one the interface would be in the partitions of all ports", ErrForbidden)
	}
	return nil
}

func (t *tenant) PartitionReady(pkey string) (PartitionReady, error) {
	if !t.hasKey(t.keys(), pkey) {
		return PartitionReady{}, ErrNoPartition
	}
	return t.Machines.PartitionReady(pkey)
}

func (t *tenant) VMChanges(ctx context.Context, since string) (VMChanges, error) {
	c, err := t.Machines.VMChanges(ctx, since)
	c.Changes = slices.DeleteFunc(slices.Clone(c.Changes), func(x VMChange) bool { return !t.scope.Owns(x.Name) })
	return c, err
}

// ownPartitions is what a tenant sees of the partitions.
func ownPartitions(c *access.Caller, p Partitions) Partitions {
	out := Partitions{Partitions: []Partition{}, Settled: p.Settled}
	for _, x := range p.Partitions {
		k, err := ib.ParsePKey(x.PKey)
		if err == nil && (OwnsPartition(&c.Scope, x.Name, k) || slices.Contains(c.Scope.PKeys, k.Base())) {
			out.Partitions = append(out.Partitions, x)
		}
	}
	return out
}

// ownPlan is what a tenant sees of the plan of its own change: no ports of others, no file, no revision. A
// plan has also what is still to be done for changes of interfaces of others.
func ownPlan(s *access.Scope, p *PartitionPlan) *PartitionPlan {
	out := &PartitionPlan{
		Applied: p.Applied, Change: []string{}, Partitions: []PlannedPartition{},
		SwitchNames: []string{}, Memberships: []PlannedMembership{}, Groups: []PlannedGroup{},
	}
	for _, l := range p.Change {
		if !strings.Contains(l, ":") { // the line of the partition, not one of a member or a group
			out.Change = append(out.Change, l)
		}
	}
	for i := range p.Partitions {
		x := &p.Partitions[i]
		if !s.Owns(x.Name) {
			continue
		}
		out.Partitions = append(out.Partitions, PlannedPartition{Name: x.Name, PKey: x.PKey, What: x.What})
	}
	return out
}

// reserved are the P_Keys that tokens give to tenants.
func reserved(r *access.Registry) (list []ib.PKey) {
	if r == nil {
		return nil
	}
	for _, t := range r.List() {
		list = append(list, t.Scope.PKeys...)
	}
	return list
}

// noted performs operations, and notes for the audit log what they changed.
func noted(ctx context.Context, m Machines, ops []VMOperation) ([]VMOutcome, error) {
	if !auditing(ctx) {
		return m.Operate(ctx, ops)
	}
	before := make([]VM, len(ops))
	for i := range ops {
		before[i], _ = m.VM(ops[i].Name) // a new one has no fields
	}
	out, err := m.Operate(ctx, ops)
	if err != nil {
		return out, err
	}
	for i := range out {
		head := ops[i].Op + " " + ops[i].Name
		if out[i].Err != nil {
			changed(ctx, head+": refused: "+out[i].Err.Error())
			continue
		}
		lines := access.Diff(fields(&before[i]), fields(&out[i].VM))
		changed(ctx, head+": "+strings.Join(lines, ", "))
	}
	return out, nil
}

// fields are what an operation changes of an interface.
func fields(v *VM) any {
	if v.Name == "" {
		return nil
	}
	x := *v
	x.Name, x.Lease, x.Migration, x.Blocks = "", "", nil, 0
	return x
}
