package sm

import (
	"maps"
	"slices"

	"heddle/fabric"
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/route"
	"heddle/sm/notice"
	"heddle/sm/topo"
	"heddle/sm/work"
)

// laneKey names an SL-to-VL table of a switch.
type laneKey struct {
	node    ib.GUID
	in, out uint8
}

// laneMix is what a transition made of SL-to-VL tables that has not ended: those that it
// wrote, and those whose Set was not answered, which are read back. All others are as the
// tables say that were last distributed in full.
type laneMix struct {
	wrote map[laneKey]smp.SLtoVL
	doubt map[laneKey]bool
}

func newLaneMix() laneMix {
	return laneMix{wrote: map[laneKey]smp.SLtoVL{}, doubt: map[laneKey]bool{}}
}

// eachLane calls fn for the tables that an opSetSL of a switch is about.
func (c *Core) eachLane(it work.Item, fn func(k laneKey)) {
	n := &c.Fabric.Nodes[it.Node()]
	if !n.IsSwitch() || it.Port() == 0 {
		return
	}
	for in := range int(n.Info.NumPorts) + 1 {
		if in != int(it.Port()) && (it.Extra()&slAllIn != 0 || uint32(in) == it.Extra()) {
			fn(laneKey{n.Info.NodeGUID, uint8(in), it.Port()})
		}
	}
}

// inTransition reports whether the SL-to-VL tables that are being set are those of a stage.
func (c *Core) inTransition() bool {
	return c.dist.res != nil && c.dist.next > 0 && c.Phase != notice.PhaseLanes
}

// laneWritten notes the answer to a Set of a stage, laneDoubted that there was none.
func (c *Core) laneWritten(it work.Item, row *smp.SLtoVL) {
	c.eachLane(it, func(k laneKey) {
		c.mix.wrote[k] = *row
		delete(c.mix.doubt, k)
	})
}

func (c *Core) laneDoubted(it work.Item) {
	c.eachLane(it, func(k laneKey) { c.mix.doubt[k] = true })
}

// dropMix forgets the tables of switches that are gone or were reset: those of their links
// are set up before data flows.
func (c *Core) dropMix() {
	lost := func(k laneKey) bool {
		ni, ok := c.Fabric.Find(k.node)
		return !ok || c.Fabric.Nodes[ni].Flags&(topo.NodeNew|topo.NodeReset) != 0 || c.Fabric.Nodes[ni].GraphSwitch < 0 || int(k.out) > int(c.Fabric.Nodes[ni].Info.NumPorts)
	}
	for k := range c.mix.wrote {
		if lost(k) {
			delete(c.mix.wrote, k)
		}
	}
	for k := range c.mix.doubt {
		if lost(k) {
			delete(c.mix.doubt, k)
		}
	}
}

// doubtedLanes lists the tables in doubt in a fixed order.
func (c *Core) doubtedLanes(fn func(ni int32, k laneKey)) {
	list := make([]laneKey, 0, len(c.mix.doubt))
	for k := range c.mix.doubt {
		list = append(list, k)
	}
	slices.SortFunc(list, compareLaneKeys)
	for _, k := range list {
		if ni, ok := c.Fabric.Find(k.node); ok {
			fn(ni, k)
		}
	}
}

func compareLaneKeys(a, b laneKey) int {
	switch {
	case a.node != b.node && a.node < b.node:
		return -1
	case a.node != b.node:
		return 1
	case a.out != b.out:
		return int(a.out) - int(b.out)
	}
	return int(a.in) - int(b.in)
}

// onBackSL takes a table that was in doubt.
func (c *Core) onBackSL(it work.Item, comp *mad.Completion) {
	c.holdLane(it, comp)
	var t smp.SLtoVL
	err := work.Answer(comp)
	if err == nil {
		err = t.Decode(smp.Data(comp.MAD))
	}
	if err != nil {
		c.lanesUnsure = true
		c.SetFailed(it.Node(), int(it.Port()), "reading back a lane table", err)
		return
	}
	c.laneWritten(it, &t)
}

// over are the lanes in force: those of base but for what a transition wrote; ok is false
// if there are too many different tables.
func (m *laneMix) over(g *fabric.Graph, base *route.Lanes) (*route.Lanes, bool) {
	if len(m.wrote) == 0 {
		return base, true
	}
	l := &route.Lanes{Index: make([][]uint8, len(g.Switches)), Stride: make([]uint16, len(g.Switches))}
	at := map[[16]ib.VL]uint8{}
	for s := range g.Switches {
		sw := &g.Switches[s]
		n := int(sw.NumPorts) + 1
		l.Stride[s], l.Index[s] = uint16(n), make([]uint8, n*n)
		for out := range n {
			vls := uint8(1)
			if c := g.PortChannel[s][out]; c >= 0 {
				vls = max(g.Channels[c].VLs, 1)
			}
			for in := range n {
				row, ok := m.wrote[laneKey{sw.GUID, uint8(in), uint8(out)}]
				if !ok {
					row = slTable(base, int32(s), uint8(in), uint8(out), vls)
				}
				k, ok := at[row]
				if !ok {
					if len(l.Rows) == 256 {
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

// clone is what a job may read while the core goes on.
func (m *laneMix) clone() laneMix {
	c := newLaneMix()
	maps.Copy(c.wrote, m.wrote)
	return c
}
