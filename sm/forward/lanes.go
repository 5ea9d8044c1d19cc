package forward

import (
	"cmp"
	"maps"
	"slices"

	"heddle/fabric"
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/route"
)

// LaneKey names an SL-to-VL table of a switch: that of packets from port In to port Out.
type LaneKey struct {
	Node    ib.GUID
	In, Out uint8
}

// StagedLanes are the SL-to-VL tables of switches while a transition that writes some is under
// way, and after one that was broken off. Tables in neither map are those of the tables that were
// last distributed in full.
type StagedLanes struct {
	Wrote map[LaneKey]smp.SLtoVL // acknowledged
	Doubt map[LaneKey]bool       // the Set was not answered: to be read back
}

// NewStagedLanes returns the state before anything is written.
func NewStagedLanes() StagedLanes {
	return StagedLanes{Wrote: map[LaneKey]smp.SLtoVL{}, Doubt: map[LaneKey]bool{}}
}

// Doubted lists the tables in doubt, ascending by node, output port and input port.
func (m *StagedLanes) Doubted() []LaneKey {
	list := make([]LaneKey, 0, len(m.Doubt))
	for k := range m.Doubt {
		list = append(list, k)
	}
	slices.SortFunc(list, func(a, b LaneKey) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Out, b.Out), cmp.Compare(a.In, b.In))
	})
	return list
}

// Forget drops the tables for which lost reports true.
func (m *StagedLanes) Forget(lost func(k LaneKey) bool) {
	maps.DeleteFunc(m.Wrote, func(k LaneKey, _ smp.SLtoVL) bool { return lost(k) })
	maps.DeleteFunc(m.Doubt, func(k LaneKey, _ bool) bool { return lost(k) })
}

// Over returns the installed lanes: those of base, with what a transition wrote in their place.
// It reports false if there are more different tables than route.Lanes can hold.
func (m *StagedLanes) Over(g *fabric.Graph, base *route.Lanes) (*route.Lanes, bool) {
	if len(m.Wrote) == 0 {
		return base, true
	}
	l := &route.Lanes{Index: make([][]uint8, len(g.Switches)), Stride: make([]uint16, len(g.Switches)), Guards: base == nil || base.Guards}
	at := map[[16]ib.VL]uint8{}
	for s := range g.Switches {
		sw := &g.Switches[s]
		n := int(sw.NumPorts) + 1
		l.Stride[s], l.Index[s] = uint16(n), make([]uint8, n*n)
		for out := range n {
			vls, link := uint8(1), false
			if c := g.PortChannel[s][out]; c >= 0 {
				vls, link = max(g.Channels[c].VLs, 1), true
			}
			for in := range n {
				row, ok := m.Wrote[LaneKey{Node: sw.GUID, In: uint8(in), Out: uint8(out)}]
				if !ok && !link && (base == nil || base.Row(int32(s), uint8(in), uint8(out)) == nil) {
					l.Index[s][in*n+out] = route.Modulo
					continue
				}
				if !ok {
					row = SLtoVL(base, int32(s), uint8(in), uint8(out), vls)
				}
				l.Guards = l.Guards && guarded(&row, vls)
				k, ok := at[row]
				if !ok {
					if len(l.Rows) == route.Modulo {
						return nil, false
					}
					k = uint8(len(l.Rows))
					at[row] = k
					l.Rows = append(l.Rows, row)
				}
				l.Index[s][in*n+out] = k
			}
		}
	}
	return l, true
}

// guarded reports whether a table is the level modulo the lanes of the link, but for levels that it
// discards.
func guarded(row *smp.SLtoVL, vls uint8) bool {
	for sl, v := range row {
		if v != ib.VL(uint8(sl)%vls) && v != 15 {
			return false
		}
	}
	return true
}

// Clone copies the acknowledged tables, for a job to read while the manager writes more.
func (m *StagedLanes) Clone() StagedLanes {
	c := NewStagedLanes()
	maps.Copy(c.Wrote, m.Wrote)
	return c
}

// SLtoVL is the table of switch s for packets from port in to port out: that of l, or where l has
// none the service level modulo the lanes of the link.
func SLtoVL(l *route.Lanes, s int32, in, out, vls uint8) (t smp.SLtoVL) {
	if l != nil {
		if row := l.Row(s, in, out); row != nil {
			return smp.SLtoVL(*row)
		}
	}
	for sl := range t {
		t[sl] = ib.VL(uint8(sl) % vls)
	}
	return t
}
