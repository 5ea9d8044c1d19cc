package main

import (
	"testing"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/subnet"
)

// TestLook: whatever opensm-subnet.lst shows of a subnet has it written again: also the name of a node
// alone, a cable that goes elsewhere, and a link that came up slower.
func TestLook(t *testing.T) {
	make2 := func(change func(*subnet.Snapshot)) uint64 {
		s := &subnet.Snapshot{
			Nodes: []subnet.Node{
				{Info: smp.NodeInfo{NodeType: ib.NodeSwitch, NodeGUID: 1, NumPorts: 2}, Desc: "one"},
				{Info: smp.NodeInfo{NodeType: ib.NodeSwitch, NodeGUID: 2, NumPorts: 2}, Desc: "two", First: 3},
			},
		}
		for i := range 6 {
			s.Ports = append(s.Ports, &subnet.Port{Node: int32(i / 3), Info: smp.PortInfo{LinkWidthActive: ib.Width4x}})
		}
		s.Ports[1].Peer = subnet.Ref{Node: 1, Port: 1}
		change(s)
		return look(s)
	}
	same := make2(func(*subnet.Snapshot) {})
	if again := make2(func(*subnet.Snapshot) {}); again != same {
		t.Error("equal subnets look different")
	}
	for what, change := range map[string]func(*subnet.Snapshot){
		"name":  func(s *subnet.Snapshot) { s.Nodes[1].Desc = "leaf-2" },
		"cable": func(s *subnet.Snapshot) { s.Ports[1].Peer.Port = 2 },
		"width": func(s *subnet.Snapshot) { s.Ports[1].Info.LinkWidthActive = ib.Width1x },
		"speed": func(s *subnet.Snapshot) { s.Ports[1].Info.LinkSpeedActive = ib.SpeedBitQDR },
		"LID":   func(s *subnet.Snapshot) { s.Ports[3].LID = 7 },
	} {
		if make2(change) == same {
			t.Errorf("another %s is not seen", what)
		}
	}
}
