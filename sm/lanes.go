package sm

import (
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/route"
	"heddle/route/transition"
	"heddle/sm/forward"
	"heddle/sm/install"
	"heddle/sm/notice"
	"heddle/sm/topo"
	"heddle/sm/work"
)

// SL2VL and VL arbitration are set up where more than one lane matters: SL2VL
// as the tables say, else identity modulo the lanes of the link, and all lanes
// of a link alike in arbitration. With single-lane tables and no QoS nothing is
// sent: service level 0 is the only one in use, and every agent maps it to lane
// 0 after a reset.
//
// Where traffic may flow tables are read first, and only those that differ are
// written. What an earlier master of a running subnet programmed is found only
// then: until the tables are right it is taken to be the identity.

// laneUse remembers which SL-to-VL tables a switch was programmed with.
type laneUse struct {
	lanes *route.Lanes
	s     int32 // its index there
}

// lanesMatter reports whether SL2VL tables have to be right.
func (c *Core) lanesMatter() bool {
	return c.Config.QoS || c.install.Wanted().NumVLs > 1 || c.install.Wanted().Lanes != nil
}

// startLanes sets the tables of ports whose link comes up; the first time those
// of all.
func (c *Core) startLanes() bool {
	c.enter(notice.PhaseLanes)
	if !c.lanesMatter() {
		// What a port that comes up has from earlier tables, or from its last manager, is read
		// when lanes matter again.
		c.Scope(func(p *topo.Port) {
			c.laneState.lanesSetUp = c.laneState.lanesSetUp && p.Info.PortState != ib.StateInit
		})
		return true
	}
	if c.laneState.lanesSetUp {
		c.Scope(func(p *topo.Port) {
			if p.Info.PortState == ib.StateInit {
				c.portLanes(p)
			}
		})
		c.hostLanes()
		return true
	}
	for i := range c.Fabric.Ports {
		c.portLanes(&c.Fabric.Ports[i])
	}
	return true
}

// portLanes has the tables of one port set.
func (c *Core) portLanes(p *topo.Port) {
	f := c.Fabric
	n := &f.Nodes[p.Node]
	if p.Num == 0 || !c.links.Moves(p) || c.lanes(p) <= 1 {
		return
	}
	if f.AgentPort(p.Node, p.Num).Info.CapabilityMask.Has(ib.CapIsSLMappingSupported) {
		switch {
		case !n.IsSwitch():
			c.Add(work.Make(work.OpGetSL, p.Node, p.Num, 0))
		case p.Info.PortState == ib.StateInit && c.oneTable(p.Node, p.Num):
			c.Add(work.Make(work.OpSetSL, p.Node, p.Num, install.AllInputs))
		default:
			for in := range int(n.Info.NumPorts) + 1 {
				c.Add(work.Make(work.OpGetSL, p.Node, p.Num, uint32(in)))
			}
		}
	}
	if p.Info.VLArbitrationLowCap > 0 {
		c.Add(work.Make(work.OpGetArb, p.Node, p.Num, uint32(smp.VLArbLow0)))
	}
	if p.Info.VLArbitrationHighCap > 0 {
		c.Add(work.Make(work.OpGetArb, p.Node, p.Num, uint32(smp.VLArbHigh0)))
	}
}

// oneTable reports whether one Set can program an output port of a switch for
// all input ports.
func (c *Core) oneTable(n int32, out uint8) bool {
	nd := &c.Fabric.Nodes[n]
	if nd.Switch.OptimizedSLtoVLMappingProgramming&1 == 0 {
		return false
	}
	first := c.slWanted(n, 0, out)
	for in := 1; in <= int(nd.Info.NumPorts); in++ {
		if uint8(in) != out && c.slWanted(n, uint8(in), out) != first {
			return false
		}
	}
	return true
}

// hostLanes sets the tables towards hosts that differ from those last set: the
// transition plan leaves them out, for no host waits for another.
func (c *Core) hostLanes() {
	f := c.Fabric
	for s, ni := range f.SwitchNode {
		n := &f.Nodes[ni]
		was, ok := c.laneState.lanesOf[n.Info.NodeGUID]
		if !ok || was.lanes == c.install.Wanted().Lanes && was.s == int32(s) {
			continue
		}
		for out := 1; out <= int(n.Info.NumPorts); out++ {
			p := f.PortOf(ni, uint8(out))
			if !p.Has(topo.PortLinked) || f.Nodes[p.Peer.Node].IsSwitch() || p.Info.PortState < ib.StateArmed || c.lanes(p) <= 1 {
				continue
			}
			for in := range int(n.Info.NumPorts) + 1 {
				if in != out && forward.SLtoVL(was.lanes, was.s, uint8(in), uint8(out), c.lanes(p)) != c.slWanted(ni, uint8(in), uint8(out)) {
					c.Add(work.Make(work.OpSetSL, ni, uint8(out), uint32(in)))
				}
			}
		}
	}
}

// stageLanes puts the SL2VL tables of a stage of a transition on the list.
func (c *Core) stageLanes(list []transition.LaneTable) {
	for i := 0; i < len(list); {
		x := list[i]
		k := i + 1
		for k < len(list) && list[k].Switch == x.Switch && list[k].Out == x.Out {
			k++
		}
		ni := c.Fabric.SwitchNode[x.Switch]
		if p := c.Fabric.PortOf(ni, x.Out); !p.Has(topo.PortLinked) || c.lanes(p) <= 1 {
			i = k // nothing leaves by it; its tables are set when it comes up
			continue
		}
		if k-i > 1 && c.oneTable(ni, x.Out) {
			c.Add(work.Make(work.OpSetSL, ni, x.Out, install.AllInputs))
		} else {
			for _, y := range list[i:k] {
				c.Add(work.Make(work.OpSetSL, ni, y.Out, uint32(y.In)))
			}
		}
		i = k
	}
}

// needLanesFirst reports whether the lanes have to be set up before tables that
// need them may be written: the subnet ran on single-lane tables so far.
func (c *Core) needLanesFirst() bool {
	return c.lanesMatter() && !c.laneState.lanesSetUp && !c.FirstSweep && !c.install.Quiet()
}

// slMod is the modifier of the SL2VL table for packets from port in to port
// out; a CA has one table.
func slMod(n *topo.Node, in, out uint8) uint32 {
	if !n.IsSwitch() {
		return 0
	}
	return smp.SLtoVLMod(in, out)
}

func arbPort(n *topo.Node, p uint8) uint8 {
	if !n.IsSwitch() {
		return 0
	}
	return p
}

// slWanted is the SL2VL table of a port for packets that came in by port in.
func (c *Core) slWanted(n int32, in, out uint8) smp.SLtoVL {
	nd := &c.Fabric.Nodes[n]
	vls := uint8(1)
	if p := c.Fabric.PortOf(n, out); p.Has(topo.PortLinked) {
		vls = c.lanes(p)
	}
	if c.laneState.lanesPre || nd.GraphSwitch < 0 {
		return forward.SLtoVL(nil, 0, in, out, vls)
	}
	return forward.SLtoVL(c.install.Wanted().Lanes, nd.GraphSwitch, in, out, vls)
}

// arbWanted gives each lane of the link the same low-priority weight and
// leaves the high-priority table empty.
func (c *Core) arbWanted(n int32, num uint8, part uint16) (t smp.VLArb) {
	p := c.Fabric.PortOf(n, num)
	if part != smp.VLArbLow0 {
		return t
	}
	lanes := c.lanes(p)
	for i := range min(int(p.Info.VLArbitrationLowCap), len(t), int(lanes)) {
		t[i] = smp.VLArbEntry{VL: ib.VL(i), Weight: 4}
	}
	return t
}

func (c *Core) onGetSL(it work.Item, comp *mad.Completion) {
	var t smp.SLtoVL
	c.holdLane(it, comp)
	err := work.Answer(comp)
	if err != nil || t.Decode(smp.Data(comp.MAD)) != nil {
		c.laneError(it, err)
		return
	}
	if t != c.slWanted(it.Node(), uint8(it.Extra()), it.Port()) {
		c.Add(work.Make(work.OpSetSL, it.Node(), it.Port(), it.Extra()))
	}
}

func (c *Core) onGetArb(it work.Item, comp *mad.Completion) {
	var t smp.VLArb
	c.holdLane(it, comp)
	err := work.Answer(comp)
	if err != nil || t.Decode(smp.Data(comp.MAD)) != nil {
		c.laneError(it, err)
		return
	}
	w := c.arbWanted(it.Node(), it.Port(), uint16(it.Extra()))
	lc := c.Fabric.PortOf(it.Node(), it.Port()).Info.VLArbitrationLowCap
	if it.Extra() == uint32(smp.VLArbHigh0) {
		lc = c.Fabric.PortOf(it.Node(), it.Port()).Info.VLArbitrationHighCap
	}
	for i := range min(int(lc), len(t)) {
		if t[i].Weight != w[i].Weight || t[i].Weight != 0 && t[i].VL != w[i].VL {
			c.Add(work.Make(work.OpSetArb, it.Node(), it.Port(), it.Extra()))
			return
		}
	}
}

func (c *Core) onSetLane(it work.Item, comp *mad.Completion) {
	c.holdLane(it, comp)
	err := work.Answer(comp)
	if it.Op() == work.OpSetSL && c.install.InStage() {
		c.install.LaneSet(it, comp, err)
	}
	if err != nil && it.Op() == work.OpSetSL && c.install.Stage() >= 0 && c.Phase != notice.PhaseLanes {
		c.laneState.lanesSetUp = false
		c.SetFailed(it.Node(), int(it.Port()), "Set(SLtoVLMappingTable)", err)
		return
	}
	if err != nil {
		c.laneError(it, err)
	}
}

// laneError: an agent without these tables says so with a status, which is
// fine; silence is not, nor is one that is busy.
func (c *Core) laneError(it work.Item, err error) {
	if !work.Refusal(err) {
		c.SetFailed(it.Node(), int(it.Port()), "reading or setting lane tables", err)
	}
}

func (c *Core) lanesSet() bool {
	if c.laneState.lanesPre {
		c.laneState.lanesPre = false
		if c.Errs > 0 {
			c.endSweep()
			return true
		}
		c.laneState.lanesSetUp = true
		for s, ni := range c.Fabric.SwitchNode {
			c.laneState.lanesOf[c.Fabric.Nodes[ni].Info.NodeGUID] = laneUse{nil, int32(s)}
		}
		c.startDistribution(c.routing.result)
		return true
	}
	if c.lanesMatter() && c.Errs == 0 {
		c.laneState.lanesSetUp = true
		if c.routing.changed {
			for s, ni := range c.Fabric.SwitchNode {
				c.laneState.lanesOf[c.Fabric.Nodes[ni].Info.NodeGUID] = laneUse{c.install.Wanted().Lanes, int32(s)}
			}
		}
	}
	c.startArm()
	return true
}
