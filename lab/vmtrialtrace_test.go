package lab

import (
	"slices"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/sim"
)

// trace logs what is written to hypervisors, and the states of their functions.
func (t *VMTrial) trace() {
	s, look := t.c.Sim, t.c.Sim.OnChange
	s.OnChange = func(ch sim.Change) {
		look(ch)
		n := &t.Fabric.Nodes[ch.Node]
		if n.IsSwitch() {
			return
		}
		at := t.Judge.place(sim.VF{Node: ch.Node, Port: ch.Port})
		switch {
		case ch.Kind == sim.ChangeVPort:
			t.note("trace: %s %v/%d: %v to %v", n.ID, at.Port, ch.VPort, ch.Old, ch.New)
		case ch.Kind == sim.ChangeState:
			t.note("trace: %s %v: %v to %v", n.ID, at.Port, ch.Old, ch.New)
		case ch.Kind == sim.ChangeReset:
			t.note("trace: %s boots", n.ID)
		case ch.Attr == smp.AttrVPortInfo:
			st, _ := s.VPort(sim.VF{Node: ch.Node, Port: ch.Port, Index: uint16(ch.AttrMod)})
			t.note("trace: %s %v/%d has %+v", n.ID, at.Port, ch.AttrMod, st)
		case ch.Attr == smp.AttrGUIDInfo:
			t.note("trace: %s %v has GUIDs %v", n.ID, at.Port, slices.DeleteFunc(s.GUIDs(ch.Node, int(ch.Port)), func(g ib.GUID) bool { return g == 0 }))
		case ch.Attr == smp.AttrPKeyTable:
			t.note("trace: %s %v has P_Keys %v", n.ID, at.Port, slices.DeleteFunc(s.PKeys(ch.Node, int(ch.Port), nil), ib.PKey.IsEmpty))
		case ch.Attr == smp.AttrVPortPartitionTable:
			list, _ := s.VPortPKeys(sim.VF{Node: ch.Node, Port: ch.Port, Index: uint16(ch.AttrMod >> 16)}, nil)
			t.note("trace: %s %v mod %#x has P_Keys %v", n.ID, at.Port, ch.AttrMod, slices.DeleteFunc(list, ib.PKey.IsEmpty))
		case ch.Attr == smp.AttrPortInfo:
			t.note("trace: %s %v has LID %v", n.ID, at.Port, s.PortInfo(ch.Node, int(ch.Port)).LID)
		}
	}
}
