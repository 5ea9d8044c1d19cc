package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"heddle/api"
	"heddle/api/show"
	"heddle/partition"
	"heddle/partition/preview"
	"heddle/sm"
	"heddle/store"
	"heddle/subnet"
)

// Partitions implements api.Backend, as do ChangePartitions and PartitionMembers.
func (d *Daemon) Partitions() api.Partitions {
	p, s := d.policies()
	if s == nil || s.Partitions == nil {
		return api.Partitions{Partitions: []api.Partition{}}
	}
	return show.Partitions(s, p.Base, p.InForce, &p)
}

// policies are the partitions that the core has now, which the snapshot may not show yet, and the snapshot.
func (d *Daemon) policies() (sm.PartitionStatus, *subnet.Snapshot) {
	p, s := d.fresh().Partitions, d.Snapshot()
	if p.Base == nil && s != nil { // the core has not said anything yet
		p.Base, p.InForce = cmp.Or(s.BasePartitions, s.Partitions), s.Partitions
	}
	return p, s
}

// editTries is how often a change of one thing is made anew because a reload came first.
const editTries = 4

func (d *Daemon) ChangePartitions(ctx context.Context, c *api.PartitionsChange) (out api.Partitions, err error) {
	if !c.DryRun {
		select {
		case d.planner.editing <- struct{}{}:
			defer func() { <-d.planner.editing }()
		case <-ctx.Done():
			return out, fmt.Errorf("nothing was changed: %w", context.Cause(ctx))
		}
	}
	for range editTries {
		out, err = d.changePartitions(ctx, c)
		if c.Match != "" || !errors.Is(err, sm.ErrOtherPolicy) {
			break
		}
	}
	switch {
	case errors.Is(err, store.ErrUnavailable):
		err = fmt.Errorf("%w: %w", api.ErrNotStored, err)
	case errors.Is(err, sm.ErrOtherPolicy):
		err = fmt.Errorf("nothing was changed: %w: read them again", api.ErrOutdated)
	}
	return out, err
}

func (d *Daemon) changePartitions(ctx context.Context, c *api.PartitionsChange) (api.Partitions, error) {
	none := api.Partitions{}
	st, s := d.policies()
	if s == nil || s.State != subnet.Master || st.Base == nil {
		return none, errors.New("nothing was changed: this manager is not the master of a subnet; ask the master")
	}
	before := show.Partitions(s, st.Base, st.InForce, &st)
	if c.Match != "" && c.Match != before.Revision {
		return none, fmt.Errorf("nothing was changed: %w: they have the revision %s now", api.ErrOutdated, before.Revision)
	}
	with := *c
	with.Asked = d.vm.asked.list() // after the policies and before the interfaces: see askedKeys
	next, warnings, err := show.EditPartitions(&with, &st, s, d.Interfaces())
	if err != nil {
		return none, fmt.Errorf("nothing was changed: %w", err)
	}
	plan, err := d.planPartitions(c, &st, s, next)
	if err != nil && c.DryRun { // otherwise the core may know members that fit
		return none, err
	}
	was := st.Base
	if c.Op == api.ReplacePartitions && c.Match == "" {
		was = nil // whatever is there is to be replaced
	}
	if !c.DryRun && (was == nil || !next.Equal(was)) {
		if err := d.replacePartitions(ctx, was, next); err != nil {
			return none, err
		}
	}
	after := before
	if !c.DryRun {
		after = d.Partitions()
	}
	for _, w := range warnings {
		after.Warnings = append(after.Warnings, w.String())
	}
	plan.Applied, plan.Notes = !c.DryRun, slices.Concat(after.Warnings, plan.Notes)
	after.Plan = plan
	return after, nil
}

// PlanPartitions says what a policy in place of the present one does; nil: nothing, or this manager is not
// the master of a subnet.
func (d *Daemon) PlanPartitions(next *partition.Policy) (*api.PartitionPlan, error) {
	st, s := d.policies()
	if s == nil || s.State != subnet.Master || st.Base == nil || next.Equal(st.Base) {
		return nil, nil
	}
	return d.planPartitions(&api.PartitionsChange{Op: api.ReplacePartitions}, &st, s, next)
}

// planPartitions says what a change does. With an error the plan has the lines of the policy alone.
func (d *Daemon) planPartitions(c *api.PartitionsChange, st *sm.PartitionStatus, s *subnet.Snapshot, next *partition.Policy) (*api.PartitionPlan, error) {
	p, err := preview.Compute(d.partitionsNow(s, st), next)
	if err != nil {
		p = &preview.Plan{}
	}
	before := show.Partitions(s, st.Base, st.InForce, st)
	out := show.PartitionPlan(s, st.Base, next, p)
	out.Revision, out.Notes = before.Revision, d.partitionNotes(c, s, before.Settled)
	return out, err
}

// partitionNotes are what else to know of a change.
func (d *Daemon) partitionNotes(c *api.PartitionsChange, s *subnet.Snapshot, settled bool) (list []string) {
	if f := d.planner.partitions.Load(); f != nil && *f != "" && c.Op != api.ReplacePartitions {
		list = append(list, fmt.Sprintf("the file %s is not changed: change it too, because a reload applies it again, and so does a start without a partner", *f))
	}
	switch {
	case !s.Up:
		list = append(list, "the subnet is not up: the numbers are those of what is known of it")
	case !settled:
		list = append(list, "an earlier change is not carried out everywhere yet: what is still to be written for it is counted here")
	}
	return list
}

// partitionsNow is the state that a policy meets.
func (d *Daemon) partitionsNow(s *subnet.Snapshot, st *sm.PartitionStatus) *preview.Now {
	c := d.planner.core.Load()
	if c == nil {
		c = &d.cfg.Core
	}
	n := &preview.Now{Snap: s, InForce: st.InForce, Base: st.Base, Quarantined: st.Quarantined, Groups: d.View(), VMs: d.Interfaces()}
	n.EnforceIn, n.EnforceOut = c.PartEnforce.Sides()
	if p := d.shared.Members.Load(); p != nil {
		n.Members = *p
	}
	if p := d.shared.Aliases.Load(); p != nil {
		n.Aliases = *p
	}
	return n
}

func (d *Daemon) PartitionMembers(name string, q api.TableQuery) (api.Table[api.PartitionMember], error) {
	st, s := d.policies()
	return show.PartitionMembers(s, d.Interfaces(), st.Base, st.InForce, name, &q)
}
