package sm

import (
	"slices"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sm/notice"
	"heddle/sm/topo"
	"heddle/sm/work"
	"heddle/subnet"
)

// While a sweep is under way or LIDs are being moved, peeks look for further faults. Peeks
// are requests that no phase waits for:
//
//   - Trap 128: its switch is asked for PortStateChange. The sweep has cleared that
//     where it knew of a change, so if it is set there is news, and the ports that lead
//     to other switches are read. The ports on the path to the switch are read at the
//     same time: the link that is down may be one of them.
//   - A light-sweep interval has passed: all switches are asked in this way.
//   - Answers are awaited and none has come for a while: the ports on the paths to the
//     nodes that owe them are read. The last port that is reached shows where a path
//     is cut.
//
// A port that is read as down, or as trained anew, breaks the sweep off. A trap whose sweep
// is deferred because there were many is looked into in the same way.

// stallPart: paths are looked at when nothing was answered for this part of SMPTimeout, then
// at intervals that double.
const stallPart = 8

// maxStalls is how often the interval doubles.
const maxStalls = 10

// maxPeeks bounds the ports that are asked at a time because of a stall.
const maxPeeks = 256

// peekable reports whether the sweep under way has cleared PortStateChange of the
// switches that it knew to have changed: a switch that has it set has news.
func (c *Core) peekable() bool {
	switch c.Phase {
	case notice.PhaseReadback, notice.PhaseRoute, notice.PhaseDiscard, notice.PhaseDrain, notice.PhaseDistribute, notice.PhaseTop, notice.PhaseLanes, notice.PhaseArm, notice.PhaseActivate, notice.PhaseMove:
		return c.Running() && c.Fabric.Graph != nil
	}
	return false
}

// peekAt has a switch looked at that a trap named.
func (c *Core) peekAt(g ib.GUID) {
	if g != 0 && !slices.Contains(c.peeking.switches, g) {
		c.peeking.switches = append(c.peeking.switches, g)
	}
}

// peek sends the peeks that are due.
func (c *Core) peek() {
	if !c.Running() || c.Fabric.Graph == nil || c.Phase == notice.PhaseDiscover || c.Phase == notice.PhaseAssign {
		return
	}
	if len(c.peeking.switches) > 0 {
		var ports []ref
		for _, g := range c.peeking.switches {
			if n, ok := c.Fabric.Find(g); ok && c.Fabric.Nodes[n].IsSwitch() {
				c.askBeside(work.Make(work.OpPeek, n, 0, 0), mad.Urgent)
				ports = c.onPath(ports, c.Fabric.Nodes[n].Via) // over which the link may be that is down
			}
		}
		c.peeking.switches = c.peeking.switches[:0]
		for _, v := range ports {
			c.askBeside(work.Make(work.OpPeekPort, v.Node, v.Port, 0), mad.Urgent)
		}
	}
	if c.light.Next() <= c.Now && c.peekable() {
		c.light.Postpone()
		for _, n := range c.Fabric.SwitchNode {
			c.askBeside(work.Make(work.OpPeek, n, 0, 0), mad.Normal)
		}
	}
}

// askBeside sends a request that the phase does not wait for.
func (c *Core) askBeside(it work.Item, p mad.Priority) {
	if c.build(it, &c.req) {
		c.req.Token, c.req.Priority = uint64(it), p
		_ = c.Engine.Submit(&c.req) // a full queue has requests that tell as much
	}
}

// onPeek takes the SwitchInfo of a switch that may have news.
func (c *Core) onPeek(it work.Item, comp *mad.Completion) {
	var sw smp.SwitchInfo
	if work.Answer(comp) != nil || sw.Decode(smp.Data(comp.MAD)) != nil || !sw.PortStateChange {
		return
	}
	f := c.Fabric
	n := it.Node()
	if !f.Has(ref{Node: n}) {
		return // asked in a discovery that began anew since
	}
	if c.peekable() && !c.BetweenSweeps() {
		c.askRegion(n, "a port changed state at "+f.Where(n, -1).String())
	}
	for i := range f.NodePorts(n) {
		if p := f.PortOf(n, uint8(i)); p.Num != 0 && p.Has(topo.PortLinked) && f.Nodes[p.Peer.Node].IsSwitch() {
			c.askBeside(work.Make(work.OpPeekPort, n, p.Num, 0), mad.Urgent)
		}
	}
}

// onPeekPort takes the state of a port that leads to another switch.
func (c *Core) onPeekPort(it work.Item, comp *mad.Completion) {
	var pi smp.PortInfo
	if !c.Running() || work.Answer(comp) != nil || pi.Decode(smp.Data(comp.MAD)) != nil {
		return
	}
	if !c.Fabric.Has(ref{Node: it.Node(), Port: it.Port()}) {
		return // as in onPeek
	}
	p := c.Fabric.PortOf(it.Node(), it.Port())
	if !p.Has(topo.PortKnown) || pi.PortState >= p.Info.PortState || pi.PortState > ib.StateDown && p.Info.PortState < ib.StateArmed {
		return
	}
	if pi.PortState >= ib.StateArmed {
		return // it may have been read before it was made Active
	}
	// Switches at the other ends of a dead one are about to answer too.
	why := "a link went down at " + c.Fabric.Where(it.Node(), int(it.Port())).String()
	soon := c.Now.Add(pressTime)
	switch {
	case c.BetweenSweeps():
		c.router.Sign()
		c.suspectNode(it.Node())
		if c.traps.Hasten(soon) {
			c.next.why = why
		}
	case c.breaking.at == mad.Never:
		c.breaking.at, c.breaking.why = soon, why
		fallthrough
	default:
		c.askRegion(it.Node(), why)
	}
}

// moving notes that the phase gets on. An answer that shows a port on a path as it was is
// not enough: the looks at a path to a node that is mute would never become less frequent.
func (c *Core) moving() { c.peeking.answeredAt, c.peeking.stalls = c.Now, 0 }

// stallAt is when the paths are to be looked at because nothing is answered.
func (c *Core) stallAt() mad.Time {
	if c.Pending == 0 || c.Engine.Outstanding() == 0 || !c.Running() {
		return mad.Never
	}
	switch c.Phase {
	case notice.PhaseDiscover, notice.PhaseAssign, notice.PhaseReadback, notice.PhaseDiscard, notice.PhaseDistribute, notice.PhaseTop, notice.PhaseLanes, notice.PhaseArm, notice.PhaseActivate, notice.PhaseMove:
		wait := c.Config.SMPTimeout / stallPart
		t := max(c.peeking.answeredAt, c.PhaseStart).Add(wait << min(c.peeking.stalls, maxStalls))
		if c.peeking.stalls > maxStalls { // it is past already
			t = max(t, c.peeking.stalledAt.Add(wait<<maxStalls))
		}
		return t
	}
	return mad.Never
}

// onPath appends the ports on the path that ends with v which are not in the list.
func (c *Core) onPath(ports []ref, v ref) []ref {
	for v.Node >= 0 && len(ports) < maxPeeks && !slices.Contains(ports, v) {
		ports = append(ports, v)
		v = c.Fabric.Nodes[v.Node].Via
	}
	return ports
}

// lookAtPaths asks the ports on the paths to nodes that owe answers.
func (c *Core) lookAtPaths() {
	c.peeking.stalls++
	c.peeking.stalledAt = c.Now
	var ports, asked []ref
	f := c.Fabric
	c.Engine.Pending(func(token uint64, _ bool) {
		it := work.Item(token)
		if it.Beside() || it.Node() < 0 {
			return
		}
		if it.Op() == work.OpReread {
			asked = append(asked, ref{Node: it.Node(), Port: it.Port()})
		}
		n := it.Node()
		v := f.Nodes[n].Via
		if q := f.PortOf(n, it.Port()); !f.Nodes[n].IsSwitch() && q.Peer != subnet.NoRef() && n != f.Self.Node {
			v = q.Peer
		}
		ports = c.onPath(ports, v)
	})
	for _, v := range ports {
		if !c.Region || c.Phase != notice.PhaseDiscover {
			c.askBeside(work.Make(work.OpPeekPort, v.Node, v.Port, 0), mad.Urgent)
			continue
		}
		// Its link may have gone down after it was read in this sweep.
		if !slices.Contains(asked, v) {
			f.Port(v).Flags |= topo.PortAsked
			c.touch(v.Node)
			c.Add(work.Make(work.OpReread, v.Node, v.Port, work.RereadPath))
		}
	}
}

// resend sends the unanswered requests of a sweep of a region again whose path leads over
// a link that was found to be down, by another path: nobody waits for their time-outs.
func (c *Core) resend() {
	c.peeking.cutNew = false
	if c.Phase != notice.PhaseDiscover || !c.Region || c.reg.give != "" || c.Pending == 0 {
		return
	}
	f := c.Fabric
	type sent struct {
		it   work.Item
		path topo.PathRef
	}
	var list []sent
	path := func(it work.Item) topo.PathRef {
		nd := &f.Nodes[it.Node()]
		if q := f.PortOf(it.Node(), it.Port()); !nd.IsSwitch() && q.Path.Set {
			return q.Path
		}
		return nd.Path
	}
	c.Engine.Pending(func(token uint64, _ bool) {
		if it := work.Item(token); !it.Beside() && it.Node() >= 0 {
			list = append(list, sent{it, path(it)})
		}
	})
	c.reg.moved = c.Fabric.Repath(c.reg.cut, c.reg.nodes) || c.reg.moved
	for _, s := range list {
		now := path(s.it)
		if now == s.path {
			continue
		}
		for range c.Engine.Cancel(uint64(s.it), uint64(s.it)) {
			c.Finish()
			if now.Set {
				c.Add(s.it)
			} else {
				c.Fabric.Nodes[s.it.Node()].Flags &^= topo.NodeRead
			}
		}
	}
}
