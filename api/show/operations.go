package show

import (
	"fmt"
	"slices"

	"heddle/api"
	"heddle/ib"
	"heddle/partition"
	"heddle/subnet"
	"heddle/vm"
)

// HypervisorPort resolves a hypervisor's name: the GUID of its port or node, or
// its node description. A port GUID need not be on the fabric.
func HypervisorPort(s *subnet.Snapshot, name string) (ib.GUID, error) {
	if name == "" {
		return 0, fmt.Errorf("%w: which hypervisor? Name it by port GUID, node GUID or node description", vm.ErrInvalid)
	}
	g, err := ib.ParseGUID(name)
	isGUID := err == nil && g != 0 && len(name) >= 16
	if s != nil {
		if i := s.PortByPortGUID(g); isGUID && i >= 0 && s.Ports[i].Adapter != nil {
			return g, nil // with every move: no list of all ports
		}
		found := ib.GUID(0)
		for i := range s.Ports {
			p := s.Ports[i]
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
		return 0, fmt.Errorf("%w: the subnet is not up yet, so the name %q is unknown", api.ErrBusy, name)
	}
	return 0, fmt.Errorf("%w: no port with virtual functions has this port GUID, node GUID or node description: %q ('heddle ctl hypervisors' lists them)", vm.ErrInvalid, name)
}

// unseen is the port of a node without known virtual functions: the address
// manager waits until they are known, or reports why the port cannot be used.
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

// PKey reads a P_Key without its membership bit.
func PKey(s string) (ib.PKey, error) {
	k, err := ib.ParsePKey(s)
	if err != nil || k == 0 || k.IsFull() {
		return 0, fmt.Errorf("%w: P_Key %q: want 0x0001 to 0x7fff; whether a member is a full one is said by itself", vm.ErrInvalid, s)
	}
	return k, nil
}

func vmKeys(list []api.VMKey) ([]vm.Membership, error) {
	out := make([]vm.Membership, len(list))
	for i, k := range list {
		key, err := PKey(k.PKey)
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

// interfaceOf is the interface that an operation creates.
func interfaceOf(op *api.VMOperation) (vm.Interface, error) {
	x := vm.Interface{Name: op.Name, GUIDKind: guidKinds[op.GUIDKind], LIDKind: lidKinds[op.LIDKind], LID: ib.LID(op.LID), Mode: moveModes[op.Mode]}
	switch op.Name {
	case "pools", ".", "..":
		return x, fmt.Errorf("%w: name %q is reserved in the API", vm.ErrInvalid, op.Name)
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
		return x, fmt.Errorf("%w: guid_kind static needs a guid; give one, or omit guid_kind for one from the pool", vm.ErrInvalid)
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

// MayHave refuses P_Keys of an operation that are not, or not any more, its tenant's.
func MayHave(op *api.VMOperation, base *partition.Policy) error {
	if op.Scope == nil {
		return nil
	}
	for _, x := range op.Keys {
		k, err := ib.ParsePKey(x.PKey)
		if err == nil && slices.Contains(op.Scope.PKeys, k.Base()) {
			continue
		}
		if err == nil && base != nil {
			if q := base.Find(k); q != nil && api.OwnsPartition(op.Scope, q.Name, q.PKey) {
				continue
			}
		}
		return fmt.Errorf("%w: P_Key %s is not one of its partitions", api.ErrForbidden, x.PKey)
	}
	return nil
}

// Operation converts an operation of the API to one of the address manager; s may
// be nil.
func Operation(s *subnet.Snapshot, op *api.VMOperation) (vm.Op, error) {
	var at subnet.Place
	if op.Hypervisor != "" || op.Op == "attach" || op.Op == "migrate" || op.Op == "move" {
		port, err := HypervisorPort(s, op.Hypervisor)
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
		x.Place = at
		return vm.Create{I: x}, nil
	case "attach":
		return vm.Attach{Name: op.Name, At: at}, nil
	case "migrate":
		return vm.Migrate{Name: op.Name, To: at}, nil
	case "move":
		return vm.Move{Name: op.Name, To: at}, nil
	case "finish":
		return vm.Finish{Name: op.Name}, nil
	case "rollback":
		return vm.RollBack{Name: op.Name}, nil
	case "detach":
		return vm.Detach{Name: op.Name}, nil
	case "delete":
		return vm.Delete{Name: op.Name, Force: op.Force}, nil
	case "keys":
		keys, err := vmKeys(op.Keys)
		return vm.SetKeys{Name: op.Name, Keys: keys}, err
	}
	return nil, fmt.Errorf("%w: no operation is called %q", vm.ErrInvalid, op.Op)
}
