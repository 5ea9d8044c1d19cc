package sm

import (
	"slices"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/subnet"
)

// A sweep of a region looks only at what a trap or a light sweep named: all
// ports of the switch that reported, of the switches at the far ends of links
// that changed, and whatever is behind links that came up. The rest of the
// fabric stays as it is known and is sent nothing. It works on the fabric at
// hand, in waves, the switches nearest to us first, because what a wave finds
// may change the way to those of the next. Whatever is out of the ordinary (no
// answer, a duplicate, a cable that was moved meanwhile) makes it give up and
// read everything, so a full sweep remains the one place where trouble is
// sorted out.

// wholeSwitch is suspicion.port for a switch with all its ports.
const wholeSwitch = 0xFF

// maxSuspects is how many suspicions are kept; with more a full sweep is as cheap.
const maxSuspects = 256

// suspicion names a switch or an end port that is to be looked at.
type suspicion struct {
	guid ib.GUID // of the node
	port uint8
}

// region is the state of a sweep of a region.
type region struct {
	on    bool
	give  string  // why everything must be read instead
	nodes []int32 // touched, in the order found
	cut   [][2]ref
	born  bool // nodes or end ports came
	died  bool // nodes or end ports went
	gone  int  // nodes that went, for telling
	told  bool
	added []int32 // index in ports of end ports that were given LIDs
	anew  bool    // LIDs of the whole fabric were given out anew
	moved bool    // some directed routes are new
	wide  bool    // ports outside the region were taken down (static2003): all are brought up again
}

// suspect wants a node to be looked at by the next sweep.
func (c *Core) suspect(g ib.GUID, port uint8) {
	s := suspicion{g, port}
	switch {
	case slices.Contains(c.suspects, s):
	case len(c.suspects) >= maxSuspects:
		c.wantFull = true
	default:
		c.suspects = append(c.suspects, s)
	}
}

// suspectLID is suspect for the node that has a LID; all is for its whole
// switch, whose GUID it returns.
func (c *Core) suspectLID(lid ib.LID, all bool) ib.GUID {
	i := int32(-1)
	if c.snap != nil && c.state == subnet.Master {
		i = c.snap.PortByLID(lid)
	}
	if i < 0 {
		c.wantFull = true
		return 0
	}
	p := &c.snap.Ports[i]
	n := &c.snap.Nodes[p.Node]
	if all && n.Info.NodeType == ib.NodeSwitch {
		c.suspect(n.Info.NodeGUID, wholeSwitch)
		return n.Info.NodeGUID
	}
	c.suspect(n.Info.NodeGUID, p.Num)
	return 0
}

// askRegion wants a switch, or a CA and its switch, to be looked at: now if nothing is under way, else
// after it.
func (c *Core) askRegion(n int32, why string) {
	c.suspectNode(n)
	c.ask(why)
}

// suspectNode is suspect for a switch, or a CA and its switch.
func (c *Core) suspectNode(n int32) {
	nd := &c.f.nodes[n]
	if nd.isSwitch() {
		c.suspect(nd.info.NodeGUID, wholeSwitch)
	} else if q := c.f.portOf(n, nd.info.LocalPortNum).peer; q.Node >= 0 && c.f.nodes[q.Node].isSwitch() {
		c.suspect(c.f.nodes[q.Node].info.NodeGUID, wholeSwitch)
		c.suspect(nd.info.NodeGUID, nd.info.LocalPortNum)
	} else {
		c.wantFull = true
	}
}

// regionFits reports whether the next sweep may be one of a region.
func (c *Core) regionFits() bool {
	f := c.f
	if c.wantFull || c.wantAudit || !c.sound || !c.up || c.state != subnet.Master || c.firstTime || c.waitHand || c.cfg.PlanOnly ||
		f == nil || f.graph == nil || f.gone > 64+len(f.nodes)/8 {
		return false
	}
	for _, s := range c.suspects {
		n, ok := f.find(s.guid)
		if !ok || !c.plain(n) {
			return false
		}
	}
	for g := range c.unseen { // what is behind a switch that was left out has no links to be found by
		if n, ok := f.find(g); ok && !f.nodes[n].ok() {
			return false
		}
	}
	return true
}

// plain reports whether nothing was wrong with a node or its ports in the last
// sweep.
func (c *Core) plain(n int32) bool {
	nd := &c.f.nodes[n]
	if !nd.ok() || !nd.path.set || nd.flags&nUnseen != 0 {
		return false
	}
	for i := range c.f.nodePorts(n) {
		if c.f.portOf(n, uint8(i)).flags&(pFailed|pBadPeer|pLeft|pLoop) != 0 {
			return false
		}
	}
	return true
}

// startRegion begins to look at the suspects.
func (c *Core) startRegion() {
	f := c.f
	c.reg = region{on: true, nodes: c.reg.nodes[:0], cut: c.reg.cut[:0]}
	c.enter(PhaseDiscover)
	c.collectKeys()
	for _, s := range c.suspects {
		n, _ := f.find(s.guid)
		if s.port == wholeSwitch {
			c.touch(n)
			f.nodes[n].flags |= nSuspect
			continue
		}
		c.touch(n)
		c.add(mk(opReread, n, s.port, 0))
	}
	c.suspects = c.suspects[:0]
	c.takeOver()
}

// joinRegion has the sweep of a region that is being explored look at the suspects too.
// It reports whether it does.
func (c *Core) joinRegion() bool {
	f := c.f
	if c.phase != PhaseDiscover || !c.reg.on || c.reg.give != "" || c.wantFull {
		return false
	}
	for _, s := range c.suspects {
		if n, ok := f.find(s.guid); !ok || !c.plainBut(n) {
			return false
		}
	}
	for _, s := range c.suspects {
		n, _ := f.find(s.guid)
		c.touch(n)
		switch nd := &f.nodes[n]; {
		case s.port != wholeSwitch:
			c.add(mk(opReread, n, s.port, 0))
		case nd.flags&(nNew|nSuspect|nRead) == nSuspect: // its turn comes
		default: // what was read of it may be of before
			nd.flags = nd.flags&^nRead | nSuspect
			if nd.path.set {
				c.readSwitch(n)
			}
		}
	}
	c.suspects = c.suspects[:0]
	return true
}

// touch makes a node part of the region.
func (c *Core) touch(n int32) {
	if nd := &c.f.nodes[n]; nd.flags&nTouched == 0 {
		nd.flags |= nTouched
		c.reg.nodes = append(c.reg.nodes, n)
	}
}

// endRegion forgets the marks of a sweep of a region.
func (c *Core) endRegion() {
	if !c.reg.on {
		return
	}
	for _, n := range c.reg.nodes {
		c.f.nodes[n].flags &^= nTouched | nSuspect | nRead | nNew | nMoved | nReset | nSeen | nAgain
		ports := c.f.nodePorts(n)
		for i := range ports {
			ports[i].flags &^= pAsked
		}
	}
	c.reg.on = false
}

// lostLinks reports whether the region lost a link between switches. Then traps of
// other faults may have been on paths that were broken, so all switches are
// asked at once instead of waiting for agents to repeat them.
func (c *Core) lostLinks() bool {
	if !c.reg.on {
		return false
	}
	for _, x := range c.reg.cut {
		if !c.f.port(x[0]).has(pLinked) && c.f.nodes[x[0].Node].isSwitch() && c.f.nodes[x[1].Node].isSwitch() {
			return true
		}
	}
	return false
}

// giveUp makes the sweep read everything.
func (c *Core) giveUp(why string) {
	if c.reg.give == "" {
		c.reg.give = why
	}
}

// scope calls fn for the ports that the sweep sets up: those of the region,
// or all.
func (c *Core) scope(fn func(p *port)) {
	f := c.f
	if !c.reg.on || c.reg.wide {
		for i := range f.ports {
			fn(&f.ports[i])
		}
		return
	}
	for _, n := range c.reg.nodes {
		ports := f.nodePorts(n)
		for i := range ports {
			fn(&ports[i])
		}
	}
}

// scopeNodes is scope for nodes.
func (c *Core) scopeNodes(fn func(ni int32, n *node)) {
	f := c.f
	if !c.reg.on || c.reg.wide {
		for i := range f.nodes {
			fn(int32(i), &f.nodes[i])
		}
		return
	}
	for _, n := range c.reg.nodes {
		fn(n, &f.nodes[n])
	}
}

// explored is called when the answers of a wave are in: it starts the next
// one, or ends the exploration.
func (c *Core) explored() bool {
	r := &c.reg
	f := c.f
	if r.give == "" {
		c.relink()
		c.repath()
	}
	if r.give != "" {
		c.report.Reason += "; " + r.give + ", so everything is read"
		c.report.Region = false
		c.tellRegion()
		c.endRegion()
		c.startDiscover()
		return true
	}
	// The nearest suspects that can be reached now.
	best := smp.MaxHops + 1
	for _, n := range r.nodes {
		if nd := &f.nodes[n]; nd.flags&(nSuspect|nRead) == nSuspect && nd.path.set {
			best = min(best, int(nd.path.n))
		}
	}
	if best <= smp.MaxHops {
		for i := 0; i < len(r.nodes); i++ { // touch may make the list longer
			if n := r.nodes[i]; f.nodes[n].flags&(nSuspect|nRead) == nSuspect && f.nodes[n].path.set && int(f.nodes[n].path.n) == best {
				c.readSwitch(n)
			}
		}
		return true
	}
	if c.readFarEnds() {
		return true
	}
	return c.regionKnown()
}

// readFarEnds looks at the far ends of switches that say that a port changed
// state while none shows it, and of those that were reset: a late copy of one of our own Sets may have moved
// a port on after its link had come back. It reports whether it asked anything.
func (c *Core) readFarEnds() bool {
	f := c.f
	asked := false
	for i := 0; i < len(c.reg.nodes); i++ {
		n := c.reg.nodes[i]
		nd := &f.nodes[n]
		if nd.flags&(nRead|nReset|nAgain) == nRead && nd.path.set && c.allInit(n) {
			// It may have been reset after its port 0 was read.
			nd.flags |= nAgain
			c.add(mk(opSwitchInfo, n, 0, 0))
			c.add(mk(opReread, n, 0, 0))
			asked = true
		}
		if nd.flags&(nRead|nSeen) != nRead || nd.flags&(nMoved|nReset) == nMoved || !nd.sw.PortStateChange || !nd.path.set {
			continue
		}
		nd.flags |= nSeen
		for k := range f.nodePorts(n) {
			p := f.portOf(n, uint8(k))
			if p.has(pLinked) && p.num != 0 && f.nodes[p.peer.Node].flags&nRead == 0 {
				c.touch(p.peer.Node)
				c.add(mk(opReread, p.peer.Node, p.peer.Port, 0))
				asked = true
			}
		}
	}
	return asked
}

// readSwitch asks a switch for everything that may have changed. If its way
// leads over a port that was not read in this sweep that port is asked first:
// its link may be the one that is gone.
func (c *Core) readSwitch(n int32) {
	f := c.f
	nd := &f.nodes[n]
	if v := nd.via; v.Node >= 0 && nd.flags&nNew == 0 && f.nodes[v.Node].flags&(nRead|nNew) == 0 && !f.port(v).has(pAsked) {
		f.port(v).flags |= pAsked
		c.touch(v.Node)
		c.add(mk(opReread, v.Node, v.Port, 0))
		return
	}
	nd.flags |= nRead
	c.report.Read++
	c.add(mk(opSwitchInfo, n, 0, 0))
	for p := range f.nodePorts(n) {
		c.add(mk(opReread, n, uint8(p), 0))
	}
}
