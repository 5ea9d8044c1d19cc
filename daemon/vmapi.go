package daemon

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"heddle/api"
	"heddle/ib"
	"heddle/subnet"
	"heddle/vm"
)

// Master implements api.Memberships.
func (d *Daemon) Master() error { return d.master() }

// findInterface looks an interface up by its name; v may be nil.
func findInterface(v *vm.View, name string) (*vm.Interface, bool) {
	if v == nil {
		return nil, false
	}
	x := v.Interface(name)
	return x, x != nil
}

// vmRow shows an interface; s may be nil.
func vmRow(s *subnet.Snapshot, x *vm.Interface) api.VM {
	out := api.VM{
		Name: x.Name, State: x.State.String(), GUIDKind: x.GUIDKind.String(), Dynamic: x.GUIDKind == vm.PoolGUID, LIDKind: x.LIDKind.String(), LID: int(x.LID),
		Pinned: x.Pinned, Mode: x.Mode.String(), Keys: make([]api.VMKey, len(x.Keys)), Doing: x.Doing, Lease: x.Lease.String(), Reason: x.Reason,
		Hypervisor: placeRow(s, x.Place), Dest: placeRow(s, x.Dest),
	}
	if x.Place == (subnet.Place{}) && x.Dest == (subnet.Place{}) && x.Doing == "" {
		out.Lease = "none" // whatever was last said of it: it is nowhere, and is to be nowhere
	}
	if x.GUID != 0 {
		out.GUID = x.GUID.String()
		if s != nil {
			out.GID = ib.MakeGID(s.Prefix, x.GUID).String()
		}
	}
	if x.DestGUID != 0 {
		out.DestGUID = x.DestGUID.String()
	}
	for _, g := range x.Aliases {
		out.Aliases = append(out.Aliases, g.String())
	}
	for i, k := range x.Keys {
		out.Keys[i] = api.VMKey{PKey: k.PKey.String(), Membership: "limited"}
		if k.Full {
			out.Keys[i].Membership = "full"
		}
	}
	return out
}

func placeRow(s *subnet.Snapshot, p subnet.Place) *api.VMPlace {
	if p == (subnet.Place{}) {
		return nil
	}
	out := &api.VMPlace{PortGUID: p.Port.String(), Function: int(p.Function)}
	if s != nil {
		if i := s.PortByGUID(p.Port); i >= 0 {
			out.Description = s.Nodes[s.Ports[i].Node].Desc
		}
	}
	return out
}

// VMs implements api.Machines.
func (d *Daemon) VMs(f api.VMFilter) (api.VMList, error) {
	v, s := d.Interfaces(), d.Snapshot()
	out := api.VMList{}
	if v == nil {
		return out, nil
	}
	var at ib.GUID
	var key ib.PKey
	var err error
	if f.Hypervisor != "" {
		if at, err = hypervisorPort(s, f.Hypervisor); err != nil {
			return out, err
		}
	}
	if f.PKey != "" {
		if key, err = plainKey(f.PKey); err != nil {
			return out, err
		}
	}
	for x := range v.All() {
		switch {
		case f.State != "" && x.State.String() != f.State,
			at != 0 && x.Place.Port != at && x.Dest.Port != at,
			key != 0 && !slices.ContainsFunc(x.Keys, func(k vm.Membership) bool { return k.PKey == key }):
			continue
		}
		out.Total++
		switch {
		case x.Name <= f.After:
		case len(out.VMs) < f.Limit:
			out.VMs = append(out.VMs, vmRow(s, x))
		case out.Next == "":
			out.Next = out.VMs[len(out.VMs)-1].Name
		}
	}
	return out, nil
}

// VM implements api.Machines.
func (d *Daemon) VM(name string) (api.VM, error) {
	x, ok := findInterface(d.Interfaces(), name)
	if !ok {
		return api.VM{}, fmt.Errorf("%w: %q", vm.ErrNotFound, name)
	}
	return vmRow(d.Snapshot(), x), nil
}

// Pools implements api.Machines.
func (d *Daemon) Pools() api.VMPools {
	v := d.Interfaces()
	if v == nil {
		return api.VMPools{}
	}
	p := &v.Pools
	return api.VMPools{GUIDs: p.GUIDs, GUIDsUsed: p.GUIDsUsed, LIDs: p.LIDs, LIDsUsed: p.LIDsUsed, Journal: v.Journal}
}

// Hypervisors implements api.Machines.
func (d *Daemon) Hypervisors() []api.Hypervisor {
	s, v := d.Snapshot(), d.Interfaces()
	if s == nil {
		return nil
	}
	used, vports := map[ib.GUID]int{}, map[int32]int{}
	if v != nil {
		for x := range v.All() {
			for _, p := range [...]subnet.Place{x.Place, x.Dest} {
				if p != (subnet.Place{}) {
					used[p.Port]++
				}
			}
		}
	}
	for i := range s.Ports {
		if x := s.Ports[i].Virtual; x != nil && s.Ports[i].EndPort >= 0 {
			vports[x.Port]++
		}
	}
	var out []api.Hypervisor
	for i := range s.Ports {
		p := &s.Ports[i]
		if p.Adapter == nil {
			continue
		}
		n := &s.Nodes[p.Node]
		row := api.Hypervisor{
			PortGUID: p.GUID.String(), NodeGUID: n.Info.NodeGUID.String(), Description: n.Desc, Port: int(p.Num), LID: int(p.LID),
			State: strings.ToLower(p.State().String()), Model: p.Adapter.Model.String(), Functions: p.Adapter.Functions,
			Used: used[p.GUID], VPorts: vports[int32(i)],
		}
		if v != nil {
			for _, f := range v.GUIDsAt(p.GUID) {
				row.GUIDs = append(row.GUIDs, api.FunctionGUID{Function: int(f.Place.Function), GUID: f.GUID.String()})
			}
		}
		out = append(out, row)
	}
	return out
}

// VPorts implements api.Machines.
func (d *Daemon) VPorts() []api.VPort {
	s := d.Snapshot()
	if s == nil {
		return nil
	}
	var out []api.VPort
	for i := range s.Ports {
		p := &s.Ports[i]
		x := p.Virtual
		if x == nil {
			continue
		}
		n := &s.Nodes[p.Node]
		row := api.VPort{
			GUID: p.GUID.String(), PortGUID: s.Ports[x.Port].GUID.String(), NodeGUID: n.Info.NodeGUID.String(), Node: n.Desc,
			Port: int(p.Num), Index: int(x.Index), Description: x.Desc, LID: int(p.LID), OwnLID: x.OwnLID,
			State: p.State().String(), Keys: []string{}, Reachable: p.EndPort >= 0,
		}
		for _, k := range p.PKeys {
			if !k.IsEmpty() {
				row.Keys = append(row.Keys, k.String())
			}
		}
		for _, g := range p.Aliases {
			if g != 0 {
				row.Aliases = append(row.Aliases, g.String())
			}
		}
		out = append(out, row)
	}
	return out
}

// hypervisorPort resolves what people call a hypervisor by: the GUID of its port
// or node, or its node description. A port GUID need not be on the fabric.
func hypervisorPort(s *subnet.Snapshot, name string) (ib.GUID, error) {
	if name == "" {
		return 0, fmt.Errorf("%w: which hypervisor? Name it by port GUID, node GUID or node description", vm.ErrInvalid)
	}
	g, err := ib.ParseGUID(name)
	isGUID := err == nil && g != 0 && len(name) >= 16
	if s != nil {
		found := ib.GUID(0)
		for i := range s.Ports {
			p := &s.Ports[i]
			if p.Adapter == nil {
				continue
			}
			n := &s.Nodes[p.Node]
			switch {
			case isGUID && p.GUID == g:
				return g, nil
			case isGUID && n.Info.NodeGUID != g, !isGUID && n.Desc != name:
			case found != 0:
				return 0, fmt.Errorf("%w: %q has several ports with virtual functions; name one by its port GUID", vm.ErrInvalid, name)
			default:
				found = p.GUID
			}
		}
		if found != 0 {
			return found, nil
		}
		if at, err := unseen(s, name, g, isGUID); at != 0 || err != nil {
			return at, err
		}
		if i := s.PortByGUID(g); isGUID && i >= 0 {
			if x := s.Ports[i].Virtual; x != nil {
				return 0, fmt.Errorf("%w: %q is a virtual port of %v; name the hypervisor", vm.ErrInvalid, name, s.Ports[x.Port].GUID)
			}
		}
	}
	switch {
	case isGUID:
		return g, nil // not there yet
	case s == nil || !s.Up:
		return 0, fmt.Errorf("%w: the subnet is not up yet, so nobody is known by the name %q", api.ErrBusy, name)
	}
	return 0, fmt.Errorf("%w: no port with virtual functions has this port GUID, node GUID or node description: %q", vm.ErrInvalid, name)
}

// unseen is the port of a node that is not known to have virtual functions, or not
// yet: the address manager waits until it is known, or says why it cannot be used.
func unseen(s *subnet.Snapshot, name string, g ib.GUID, isGUID bool) (found ib.GUID, err error) {
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if isGUID && n.Info.NodeGUID != g || !isGUID && n.Desc != name {
			continue
		}
		for _, p := range s.NodePorts(int32(i)) {
			switch {
			case p.EndPort < 0:
			case found != 0:
				return 0, fmt.Errorf("%w: %q has several ports; name one by its port GUID", vm.ErrInvalid, name)
			default:
				found = p.GUID
			}
			if n.Info.NodeType == ib.NodeSwitch {
				break // all its ports have the LID of port 0
			}
		}
	}
	return found, nil
}

// plainKey reads a P_Key without its membership bit.
func plainKey(s string) (ib.PKey, error) {
	k, err := ib.ParsePKey(s)
	if err != nil || k == 0 || k.IsFull() {
		return 0, fmt.Errorf("%w: P_Key %q: want 0x0001 to 0x7fff; whether a member is a full one is said by itself", vm.ErrInvalid, s)
	}
	return k, nil
}

func vmKeys(list []api.VMKey) ([]vm.Membership, error) {
	out := make([]vm.Membership, len(list))
	for i, k := range list {
		key, err := plainKey(k.PKey)
		if err != nil {
			return nil, err
		}
		out[i] = vm.Membership{PKey: key, Full: k.Membership != "limited"}
	}
	return out, nil
}

var lidKinds = map[string]subnet.LIDKind{"": subnet.SharedLID, "shared": subnet.SharedLID, "own": subnet.OwnLID, "floating": subnet.FloatingLID}

var moveModes = map[string]subnet.MoveMode{"": subnet.MoveAuto, "auto": subnet.MoveAuto, "balanced": subnet.MoveBalanced, "minimal": subnet.MoveMinimal}

var guidKinds = map[string]vm.GUIDKind{"static": vm.StaticGUID, "pool": vm.PoolGUID, "function": vm.FunctionGUID}

// interfaceOf is what an operation wants to create.
func interfaceOf(op *api.VMOperation) (vm.Interface, error) {
	x := vm.Interface{Name: op.Name, GUIDKind: guidKinds[op.GUIDKind], LIDKind: lidKinds[op.LIDKind], LID: ib.LID(op.LID), Mode: moveModes[op.Mode]}
	switch op.Name {
	case "pools", ".", "..":
		return x, fmt.Errorf("%w: name %q means something else in the API", vm.ErrInvalid, op.Name)
	}
	guid := func(s string) (ib.GUID, error) {
		g, err := ib.ParseGUID(s)
		if err != nil || g == 0 {
			return 0, fmt.Errorf("%w: GUID %q: want 16 hex digits, not all zero", vm.ErrInvalid, s)
		}
		return g, nil
	}
	var err error
	if op.GUID != "" {
		if x.GUID, err = guid(op.GUID); err != nil {
			return x, err
		}
	}
	if op.GUIDKind == "static" && op.GUID == "" {
		return x, fmt.Errorf("%w: guid_kind static wants a guid: give one, or leave guid_kind out for one of the pool", vm.ErrInvalid)
	}
	for _, s := range op.Aliases {
		g, err := guid(s)
		if err != nil {
			return x, err
		}
		x.Aliases = append(x.Aliases, g)
	}
	x.Keys, err = vmKeys(op.Keys)
	return x, err
}

// steps are what an operation of the API is made of: each is asked for when the
// one before it is done.
func (d *Daemon) steps(s *subnet.Snapshot, op *api.VMOperation) ([]vm.Op, error) {
	var at subnet.Place
	if op.Hypervisor != "" || op.Op == "attach" || op.Op == "migrate" || op.Op == "move" {
		port, err := hypervisorPort(s, op.Hypervisor)
		if err != nil {
			return nil, err
		}
		at = subnet.Place{Port: port, Function: uint16(op.Function)}
	}
	switch op.Op {
	case "create":
		x, err := interfaceOf(op)
		if err != nil {
			return nil, err
		}
		if op.Function != 0 && at.Port == 0 {
			return nil, fmt.Errorf("%w: interface %q: function %d of which hypervisor?", vm.ErrInvalid, op.Name, op.Function)
		}
		if at != (subnet.Place{}) {
			return []vm.Op{vm.Create{I: x}, vm.Attach{Name: op.Name, At: at}}, nil
		}
		return []vm.Op{vm.Create{I: x}}, nil
	case "attach":
		return []vm.Op{vm.Attach{Name: op.Name, At: at}}, nil
	case "migrate":
		return []vm.Op{vm.Migrate{Name: op.Name, To: at}}, nil
	case "move":
		return []vm.Op{vm.Migrate{Name: op.Name, To: at}, vm.Finish{Name: op.Name}}, nil
	case "finish":
		return []vm.Op{vm.Finish{Name: op.Name}}, nil
	case "rollback":
		return []vm.Op{vm.RollBack{Name: op.Name}}, nil
	case "detach":
		return []vm.Op{vm.Detach{Name: op.Name}}, nil
	case "delete":
		return []vm.Op{vm.Delete{Name: op.Name, Force: op.Force}}, nil
	case "keys":
		keys, err := vmKeys(op.Keys)
		return []vm.Op{vm.SetKeys{Name: op.Name, Keys: keys}}, err
	}
	return nil, fmt.Errorf("%w: no operation is called %q", vm.ErrInvalid, op.Op)
}

// Operate implements api.Machines.
func (d *Daemon) Operate(ctx context.Context, ops []api.VMOperation) ([]api.VMOutcome, error) {
	if err := d.master(); err != nil {
		return nil, err
	}
	out, todo := make([]api.VMOutcome, len(ops)), make([][]vm.Op, len(ops))
	s := d.Snapshot()
	for i := range ops {
		todo[i], out[i].Err = d.steps(s, &ops[i])
	}
	for round := 0; ; round++ {
		var now []vm.Op
		var of []int
		for i := range ops {
			if out[i].Err == nil && round < len(todo[i]) && !out[i].VM.Waiting {
				now, of = append(now, todo[i][round]), append(of, i)
			}
		}
		if len(now) == 0 {
			return out, nil
		}
		replies, err := d.Perform(ctx, now)
		if err != nil {
			if round == 0 {
				return nil, err
			}
			for _, i := range of {
				out[i].Err = err
			}
			return out, nil
		}
		for k, i := range of {
			r := d.outlast(ctx, now[k], replies[k])
			out[i].VM = vmRow(d.Snapshot(), &r.Interface)
			out[i].VM.Waiting = r.Waiting
			switch out[i].Err = r.Err; {
			case r.Err == nil || round == 0:
			case ops[i].Op == "create":
				out[i].Err = fmt.Errorf("it is created, but not attached: %w", r.Err)
			}
		}
	}
}
