package sm

import (
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
)

// startLanes programs SL2VL and VL arbitration where more than one lane
// matters: identity modulo the lanes of the link, and all lanes alike. With
// single-lane tables and no QoS nothing is sent: service level 0 is the only
// one in use, and every agent maps it to lane 0 after a reset. Tables are read
// first and only those that differ are written.
func (c *Core) startLanes() bool {
	c.enter(PhaseLanes)
	if !c.cfg.QoS && c.wanted.NumVLs <= 1 {
		return true
	}
	f := c.f
	for i := range f.ports {
		p := &f.ports[i]
		n := &f.nodes[p.node]
		if p.num == 0 || !c.moves(p) || !c.firstTime && p.info.PortState != ib.StateInit {
			continue
		}
		if c.lanes(p) > 1 && f.agentPort(p.node, p.num).info.CapabilityMask.Has(ib.CapIsSLMappingSupported) {
			if !n.isSwitch() {
				c.add(mk(opGetSL, p.node, p.num, 0))
			}
			for in := 0; n.isSwitch() && in <= int(n.info.NumPorts); in++ {
				c.add(mk(opGetSL, p.node, p.num, uint32(in)))
			}
		}
		if c.lanes(p) > 1 && p.info.VLArbitrationLowCap > 0 {
			c.add(mk(opGetArb, p.node, p.num, uint32(smp.VLArbLow0)))
		}
		if c.lanes(p) > 1 && p.info.VLArbitrationHighCap > 0 {
			c.add(mk(opGetArb, p.node, p.num, uint32(smp.VLArbHigh0)))
		}
	}
	return true
}

// slMod is the modifier of the SL2VL table for packets from port in to port
// out; a CA has one table.
func slMod(n *node, in, out uint8) uint32 {
	if !n.isSwitch() {
		return 0
	}
	return smp.SLtoVLMod(in, out)
}

func arbPort(n *node, p uint8) uint8 {
	if !n.isSwitch() {
		return 0
	}
	return p
}

func (c *Core) slWanted(n int32, out uint8) (t smp.SLtoVL) {
	lanes := c.lanes(c.f.portOf(n, out))
	for sl := range t {
		t[sl] = ib.VL(uint8(sl) % lanes)
	}
	return t
}

// arbWanted gives each lane of the link the same low-priority weight and
// leaves the high-priority table empty.
func (c *Core) arbWanted(n int32, num uint8, part uint16) (t smp.VLArb) {
	p := c.f.portOf(n, num)
	if part != smp.VLArbLow0 {
		return t
	}
	lanes := c.lanes(p)
	for i := range min(int(p.info.VLArbitrationLowCap), len(t), int(lanes)) {
		t[i] = smp.VLArbEntry{VL: ib.VL(i), Weight: 4}
	}
	return t
}

func (c *Core) onGetSL(it item, comp *mad.Completion) {
	var t smp.SLtoVL
	err := answer(comp)
	if err != nil || t.Decode(smp.Data(comp.MAD)) != nil {
		c.laneError(it, err)
		return
	}
	if t != c.slWanted(it.node(), it.port()) {
		c.add(mk(opSetSL, it.node(), it.port(), it.extra()))
	}
}

func (c *Core) onGetArb(it item, comp *mad.Completion) {
	var t smp.VLArb
	err := answer(comp)
	if err != nil || t.Decode(smp.Data(comp.MAD)) != nil {
		c.laneError(it, err)
		return
	}
	w := c.arbWanted(it.node(), it.port(), uint16(it.extra()))
	lc := c.f.portOf(it.node(), it.port()).info.VLArbitrationLowCap
	if it.extra() == uint32(smp.VLArbHigh0) {
		lc = c.f.portOf(it.node(), it.port()).info.VLArbitrationHighCap
	}
	for i := range min(int(lc), len(t)) {
		if t[i].Weight != w[i].Weight || t[i].Weight != 0 && t[i].VL != w[i].VL {
			c.add(mk(opSetArb, it.node(), it.port(), it.extra()))
			return
		}
	}
}

func (c *Core) onSetLane(it item, comp *mad.Completion) {
	if err := answer(comp); err != nil {
		c.laneError(it, err)
	}
}

// laneError: an agent without these tables says so with a status, which is
// fine; silence is not.
func (c *Core) laneError(it item, err error) {
	if mad.Unanswered(err) {
		c.setFailed(it.node(), int(it.port()), "reading or setting lane tables", err)
	}
}

func (c *Core) lanesSet() bool {
	c.startArm()
	return true
}
