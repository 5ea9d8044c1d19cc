package show

import (
	"errors"
	"slices"
	"testing"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/subnet"
	"heddle/vm"
)

// TestKeptAt: what is kept is selected by port GUID, node GUID or description, unless several nodes
// have that: a host chooses its own.
func TestKeptAt(t *testing.T) {
	node := func(guid ib.GUID, desc string, first int32) subnet.Node {
		return subnet.Node{Info: smp.NodeInfo{NodeType: ib.NodeCA, NumPorts: 1, NodeGUID: guid}, Desc: desc, First: first, SwitchIndex: -1, OK: true}
	}
	s := &subnet.Snapshot{Up: true, Nodes: []subnet.Node{node(0x10, "H1", 0), node(0x20, "twin", 2), node(0x30, "twin", 4)}}
	for i := range 3 {
		n := int32(i)
		s.Ports = append(s.Ports, &subnet.Port{EndPort: -1, Peer: subnet.NoRef(), Node: n},
			&subnet.Port{GUID: s.Nodes[i].Info.NodeGUID + 1, Num: 1, LID: ib.LID(i + 1), Peer: subnet.NoRef(), Node: n})
	}
	s.Finish()
	for _, g := range []ib.GUID{0x11, 0x11, 0x21, 0x91} { // the last has left the subnet
		s.Kept = append(s.Kept, subnet.Kept{Place: subnet.Place{Port: g}, GUID: g, PKey: 0x8005})
	}
	for _, c := range []struct {
		ports []string
		want  []ib.GUID
		err   error
	}{
		{nil, nil, nil},
		{[]string{"H1", "0x10"}, []ib.GUID{0x11}, nil},
		{[]string{"0x91", "0x0000000000000020", "0x11"}, []ib.GUID{0x11, 0x21, 0x91}, nil},
		{[]string{"twin"}, nil, vm.ErrInvalid},
		{[]string{"H1", "0x31"}, nil, vm.ErrNotFound},
		{[]string{""}, nil, vm.ErrNotFound},
	} {
		list, guids, err := KeptAt(s, c.ports)
		if !errors.Is(err, c.err) || !slices.Equal(guids, c.want) {
			t.Errorf("%q: %v, %v", c.ports, guids, err)
		}
		at := func(k subnet.Kept) bool { return c.ports == nil || slices.Contains(c.want, k.Place.Port) }
		if want := slices.DeleteFunc(slices.Clone(s.Kept), func(k subnet.Kept) bool { return !at(k) }); err == nil && !slices.Equal(list, want) {
			t.Errorf("%q: %+v", c.ports, list)
		}
	}
}
