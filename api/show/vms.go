package show

import (
	"slices"
	"strings"

	"heddle/api"
	"heddle/ib"
	"heddle/subnet"
	"heddle/vm"
)

// Interface looks an interface up by its name; v may be nil.
func Interface(v *vm.View, name string) (*vm.Interface, bool) {
	if v == nil {
		return nil, false
	}
	x := v.Interface(name)
	return x, x != nil
}

// VM shows an interface; s may be nil.
func VM(s *subnet.Snapshot, x *vm.Interface) api.VM {
	out := api.VM{
		Name: x.Name, State: x.State.String(), GUIDKind: x.GUIDKind.String(), Dynamic: x.GUIDKind == vm.PoolGUID, LIDKind: x.LIDKind.String(), LID: int(x.LID),
		Pinned: x.Pinned, Mode: x.Mode.String(), Keys: make([]api.VMKey, len(x.Keys)), Doing: x.Doing, Placement: x.Placement.String(), Reason: x.Reason,
		Hypervisor: placeRow(s, x.Place), Dest: placeRow(s, x.Dest), Blocks: x.Blocks,
	}
	if x.Place == (subnet.Place{}) && x.Dest == (subnet.Place{}) && x.Doing == "" {
		out.Placement = "none" // regardless of the last report: it is on no function, and none is requested
	}
	out.Lease = out.Placement
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

// VMs lists interfaces by name, a page of them; s and v may be nil.
func VMs(s *subnet.Snapshot, v *vm.View, f api.VMFilter) (api.VMList, error) {
	out := api.VMList{}
	if v == nil {
		return out, nil
	}
	var at ib.GUID
	var key ib.PKey
	var err error
	if f.Hypervisor != "" {
		if at, err = HypervisorPort(s, f.Hypervisor); err != nil {
			return out, err
		}
	}
	if f.PKey != "" {
		if key, err = PKey(f.PKey); err != nil {
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
			out.VMs = append(out.VMs, VM(s, x))
		case out.Next == "":
			out.Next = out.VMs[len(out.VMs)-1].Name
		}
	}
	return out, nil
}

// Pools reports the free GUIDs and LIDs; v may be nil.
func Pools(v *vm.View) api.VMPools {
	if v == nil {
		return api.VMPools{}
	}
	p := &v.Pools
	return api.VMPools{GUIDs: p.GUIDs, GUIDsUsed: p.GUIDsUsed, LIDs: p.LIDs, LIDsUsed: p.LIDsUsed, Journal: v.Journal}
}

// Hypervisors are the ports that can hold virtual functions; s and v may be nil.
func Hypervisors(s *subnet.Snapshot, v *vm.View) []api.Hypervisor {
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
		p := s.Ports[i]
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

// VPorts are the virtual ports and functions that the last sweep saw; s may be nil.
func VPorts(s *subnet.Snapshot) []api.VPort {
	if s == nil {
		return nil
	}
	var out []api.VPort
	for i := range s.Ports {
		p := s.Ports[i]
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
