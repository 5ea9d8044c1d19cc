package show

import (
	"fmt"
	"slices"
	"time"

	"heddle/api"
	"heddle/ib"
	"heddle/subnet"
	"heddle/vm"
)

// Kept lists what the manager keeps. started is when its clock was 0.
func Kept(s *subnet.Snapshot, started time.Time) (out []api.Kept) {
	if s == nil {
		return nil
	}
	for i := range s.Kept {
		k := &s.Kept[i]
		x := api.Kept{
			PortGUID: k.Place.Port.String(), Function: int(k.Place.Function), GUID: k.GUID.String(), LID: int(k.LID),
			Since: started.Add(time.Duration(k.Since)).UTC().Truncate(time.Second),
		}
		if p := s.PortByPortGUID(k.Place.Port); p >= 0 {
			n := &s.Nodes[s.Ports[p].Node]
			x.NodeGUID, x.Description = n.Info.NodeGUID.String(), n.Desc
		}
		if k.PKey != 0 {
			x.PKey, x.Membership = k.PKey.Base().String(), "limited"
			if k.PKey.IsFull() {
				x.Membership = "full"
			}
		}
		out = append(out, x)
	}
	return out
}

// KeptAt is the part of what is kept that is at ports, all of it without ports. A port is named by
// its GUID, or by the GUID or the description of its node.
func KeptAt(s *subnet.Snapshot, ports []string) ([]subnet.Kept, []ib.GUID, error) {
	if s == nil {
		return nil, nil, nil
	}
	if len(ports) == 0 {
		return s.Kept, nil, nil
	}
	var guids []ib.GUID
	for _, name := range ports {
		found := false
		for i := range s.Kept {
			if g := s.Kept[i].Place.Port; isPort(s, g, name) {
				guids, found = append(guids, g), true
			}
		}
		if !found {
			return nil, nil, fmt.Errorf("%w: nothing is kept at port %q: name it by port GUID, node GUID or node description", vm.ErrNotFound, name)
		}
	}
	list := slices.DeleteFunc(slices.Clone(s.Kept), func(k subnet.Kept) bool { return !slices.Contains(guids, k.Place.Port) })
	slices.Sort(guids)
	return list, slices.Compact(guids), nil
}

// isPort reports whether name names a port.
func isPort(s *subnet.Snapshot, port ib.GUID, name string) bool {
	g, err := ib.ParseGUID(name)
	if err == nil && g == port {
		return true
	}
	p := s.PortByPortGUID(port)
	if p < 0 {
		return false
	}
	n := &s.Nodes[s.Ports[p].Node]
	return err == nil && n.Info.NodeGUID == g || n.Desc == name
}

// Adoption says for people what an operation of vm.Adopt does.
func Adoption(op vm.Op) string {
	switch op := op.(type) {
	case vm.Create:
		return fmt.Sprintf("interface %s with GUID %v at %v", op.I.Name, op.I.GUID, op.I.Place)
	case vm.AddMembers:
		as := "limited"
		if op.Full {
			as = "full"
		}
		who := fmt.Sprintf("%d %s members", len(op.GUIDs), as)
		if len(op.GUIDs) == 1 {
			who = op.GUIDs[0].String() + " as " + as + " member"
		}
		return fmt.Sprintf("P_Key %v: %s", op.PKey, who)
	}
	return fmt.Sprintf("%T", op)
}
