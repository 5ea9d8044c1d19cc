package show

import (
	"fmt"
	"maps"
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
// its GUID, or by the GUID or the description of its node, which no other node may have.
func KeptAt(s *subnet.Snapshot, ports []string) ([]subnet.Kept, []ib.GUID, error) {
	if s == nil {
		return nil, nil, nil
	}
	if len(ports) == 0 {
		return s.Kept, nil, nil
	}
	byGUID, byDesc := map[ib.GUID][]ib.GUID{}, map[string][]ib.GUID{} // ports, by the names that they have
	for i := range s.Kept {
		g := s.Kept[i].Place.Port
		if i > 0 && g == s.Kept[i-1].Place.Port {
			continue
		}
		byGUID[g] = append(byGUID[g], g)
		if p := s.PortByPortGUID(g); p >= 0 {
			n := &s.Nodes[s.Ports[p].Node]
			byDesc[n.Desc] = append(byDesc[n.Desc], g)
			if n.Info.NodeGUID != g {
				byGUID[n.Info.NodeGUID] = append(byGUID[n.Info.NodeGUID], g)
			}
		}
	}
	called := map[string]int{}
	for i := range s.Nodes {
		called[s.Nodes[i].Desc]++
	}
	named := map[ib.GUID]bool{}
	for _, name := range ports {
		list := byDesc[name]
		if len(list) > 0 && called[name] > 1 { // hosts choose their descriptions
			return nil, nil, fmt.Errorf("%w: %d nodes have the description %q: name the port by port GUID or node GUID", vm.ErrInvalid, called[name], name)
		}
		if g, err := ib.ParseGUID(name); err == nil {
			list = slices.Concat(list, byGUID[g])
		}
		if len(list) == 0 {
			return nil, nil, fmt.Errorf("%w: nothing is kept at port %q: name it by port GUID, node GUID or node description", vm.ErrNotFound, name)
		}
		for _, g := range list {
			named[g] = true
		}
	}
	list := slices.DeleteFunc(slices.Clone(s.Kept), func(k subnet.Kept) bool { return !named[k.Place.Port] })
	return list, slices.Sorted(maps.Keys(named)), nil
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
