package sm

import (
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sm/forward"
	"heddle/sm/notice"
	"heddle/sm/topo"
	"heddle/sm/work"
)

// eachLane calls fn for the tables that an opSetSL of a switch is about.
func (c *Core) eachLane(it work.Item, fn func(k forward.LaneKey)) {
	n := &c.Fabric.Nodes[it.Node()]
	if !n.IsSwitch() || it.Port() == 0 {
		return
	}
	for in := range int(n.Info.NumPorts) + 1 {
		if in != int(it.Port()) && (it.Extra()&slAllIn != 0 || uint32(in) == it.Extra()) {
			fn(forward.LaneKey{Node: n.Info.NodeGUID, In: uint8(in), Out: it.Port()})
		}
	}
}

// inTransition reports whether the SL-to-VL tables that are being set are those of a stage.
func (c *Core) inTransition() bool {
	return c.dist.res != nil && c.dist.next > 0 && c.Phase != notice.PhaseLanes
}

// laneWritten notes the answer to a Set of a stage, laneDoubted that there was none.
func (c *Core) laneWritten(it work.Item, row *smp.SLtoVL) {
	c.eachLane(it, func(k forward.LaneKey) {
		c.mix.Wrote[k] = *row
		delete(c.mix.Doubt, k)
	})
}

func (c *Core) laneDoubted(it work.Item) {
	c.eachLane(it, func(k forward.LaneKey) { c.mix.Doubt[k] = true })
}

// dropMix forgets the tables of switches that are gone or were reset: those of their links
// are set up before data flows.
func (c *Core) dropMix() {
	lost := func(k forward.LaneKey) bool {
		ni, ok := c.Fabric.Find(k.Node)
		return !ok || c.Fabric.Nodes[ni].Flags&(topo.NodeNew|topo.NodeReset) != 0 || c.Fabric.Nodes[ni].GraphSwitch < 0 || int(k.Out) > int(c.Fabric.Nodes[ni].Info.NumPorts)
	}
	c.mix.Forget(lost)
}

// doubtedLanes lists the tables in doubt in a fixed order.
func (c *Core) doubtedLanes(fn func(ni int32, k forward.LaneKey)) {
	for _, k := range c.mix.Doubted() {
		if ni, ok := c.Fabric.Find(k.Node); ok {
			fn(ni, k)
		}
	}
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
