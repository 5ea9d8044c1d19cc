package sm

import (
	"slices"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/sm/notice"
	"heddle/sm/topo"
	"heddle/sm/work"
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
	case slices.Contains(c.next.suspects, s):
	case len(c.next.suspects) >= maxSuspects:
		c.next.full = true
	default:
		c.next.suspects = append(c.next.suspects, s)
	}
}

// suspectLID is suspect for the node that has a LID; all is for its whole
// switch, whose GUID it returns.
func (c *Core) suspectLID(lid ib.LID, all bool) ib.GUID {
	i := int32(-1)
	if c.Snapshot != nil && c.State == subnet.Master {
		i = c.Snapshot.PortByLID(lid)
	}
	if i < 0 {
		c.next.full = true
		return 0
	}
	p := &c.Snapshot.Ports[i]
	n := &c.Snapshot.Nodes[p.Node]
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
	c.AskSweep(why)
}

// suspectNode is suspect for a switch, or a CA and its switch.
func (c *Core) suspectNode(n int32) {
	nd := &c.Fabric.Nodes[n]
	if nd.IsSwitch() {
		c.suspect(nd.Info.NodeGUID, wholeSwitch)
	} else if q := c.Fabric.PortOf(n, nd.Info.LocalPortNum).Peer; q.Node >= 0 && c.Fabric.Nodes[q.Node].IsSwitch() {
		c.suspect(c.Fabric.Nodes[q.Node].Info.NodeGUID, wholeSwitch)
		c.suspect(nd.Info.NodeGUID, nd.Info.LocalPortNum)
	} else {
		c.next.full = true
	}
}

// regionFits reports whether the next sweep may be one of a region.
func (c *Core) regionFits() bool {
	f := c.Fabric
	if c.next.full || c.next.audit || !c.sweep.sound || !c.Up || c.State != subnet.Master || c.FirstSweep || c.WaitHandover || c.Config.PlanOnly ||
		f == nil || f.Graph == nil || f.Gone > 64+len(f.Nodes)/8 {
		return false
	}
	for _, s := range c.next.suspects {
		n, ok := f.Find(s.guid)
		if !ok || !c.plain(n) {
			return false
		}
	}
	return !c.absent.AnyExcluded()
}

// plain reports whether nothing was wrong with a node or its ports in the last
// sweep.
func (c *Core) plain(n int32) bool {
	nd := &c.Fabric.Nodes[n]
	if !nd.OK() || !nd.Path.Set || nd.Flags&topo.NodeUnseen != 0 {
		return false
	}
	for i := range c.Fabric.NodePorts(n) {
		if c.Fabric.PortOf(n, uint8(i)).Flags&(topo.PortFailed|topo.PortBadPeer|topo.PortLeftOut|topo.PortLoop) != 0 {
			return false
		}
	}
	return true
}

// startRegion begins to look at the suspects.
func (c *Core) startRegion() {
	f := c.Fabric
	c.Region = true
	c.reg = region{nodes: c.reg.nodes[:0], cut: c.reg.cut[:0]}
	c.enter(notice.PhaseDiscover)
	c.mkeys.Collect()
	for _, s := range c.next.suspects {
		n, _ := f.Find(s.guid)
		if s.port == wholeSwitch {
			c.touch(n)
			f.Nodes[n].Flags |= topo.NodeSuspect
			continue
		}
		c.touch(n)
		c.Add(work.Make(work.OpReread, n, s.port, 0))
	}
	c.next.suspects = c.next.suspects[:0]
	c.takeOver()
}

// joinRegion has the sweep of a region that is being explored look at the suspects too.
// It reports whether it does.
func (c *Core) joinRegion() bool {
	f := c.Fabric
	if c.Phase != notice.PhaseDiscover || !c.Region || c.reg.give != "" || c.next.full {
		return false
	}
	for _, s := range c.next.suspects {
		if n, ok := f.Find(s.guid); !ok || !c.plainBut(n) {
			return false
		}
	}
	for _, s := range c.next.suspects {
		n, _ := f.Find(s.guid)
		c.touch(n)
		switch nd := &f.Nodes[n]; {
		case s.port != wholeSwitch:
			c.Add(work.Make(work.OpReread, n, s.port, 0))
		case nd.Flags&(topo.NodeNew|topo.NodeSuspect|topo.NodeRead) == topo.NodeSuspect: // its turn comes
		default: // what was read of it may be of before
			nd.Flags = nd.Flags&^topo.NodeRead | topo.NodeSuspect
			if nd.Path.Set {
				c.readSwitch(n)
			}
		}
	}
	c.next.suspects = c.next.suspects[:0]
	return true
}

// touch makes a node part of the region.
func (c *Core) touch(n int32) {
	if nd := &c.Fabric.Nodes[n]; nd.Flags&topo.NodeTouched == 0 {
		nd.Flags |= topo.NodeTouched
		c.reg.nodes = append(c.reg.nodes, n)
	}
}

// endRegion forgets the marks of a sweep of a region.
func (c *Core) endRegion() {
	if !c.Region {
		return
	}
	for _, n := range c.reg.nodes {
		c.Fabric.Nodes[n].Flags &^= topo.NodeTouched | topo.NodeSuspect | topo.NodeRead | topo.NodeNew | topo.NodeMoved | topo.NodeReset | topo.NodeSeen | topo.NodeAgain
		ports := c.Fabric.NodePorts(n)
		for i := range ports {
			ports[i].Flags &^= topo.PortAsked
		}
	}
	c.Region = false
}

// lostLinks reports whether the region lost a link between switches. Then traps of
// other faults may have been on paths that were broken, so all switches are
// asked at once instead of waiting for agents to repeat them.
func (c *Core) lostLinks() bool {
	if !c.Region {
		return false
	}
	for _, x := range c.reg.cut {
		if !c.Fabric.Port(x[0]).Has(topo.PortLinked) && c.Fabric.Nodes[x[0].Node].IsSwitch() && c.Fabric.Nodes[x[1].Node].IsSwitch() {
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
func (c *Core) Scope(fn func(p *topo.Port)) {
	f := c.Fabric
	if !c.Region || c.reg.wide {
		for i := range f.Ports {
			fn(&f.Ports[i])
		}
		return
	}
	for _, n := range c.reg.nodes {
		ports := f.NodePorts(n)
		for i := range ports {
			fn(&ports[i])
		}
	}
}

// scopeNodes is scope for nodes.
func (c *Core) ScopeNodes(fn func(ni int32, n *topo.Node)) {
	f := c.Fabric
	if !c.Region || c.reg.wide {
		for i := range f.Nodes {
			fn(int32(i), &f.Nodes[i])
		}
		return
	}
	for _, n := range c.reg.nodes {
		fn(n, &f.Nodes[n])
	}
}

// explored is called when the answers of a wave are in: it starts the next
// one, or ends the exploration.
func (c *Core) explored() bool {
	r := &c.reg
	f := c.Fabric
	if r.give == "" {
		c.relink()
		c.reg.moved = c.Fabric.Repath(c.reg.cut, c.reg.nodes) || c.reg.moved
	}
	if r.give != "" {
		c.Report.Reason += "; " + r.give + ", so everything is read"
		c.Report.Region = false
		c.tellRegion()
		c.endRegion()
		c.startDiscover()
		return true
	}
	// The nearest suspects that can be reached now.
	best := smp.MaxHops + 1
	for _, n := range r.nodes {
		if nd := &f.Nodes[n]; nd.Flags&(topo.NodeSuspect|topo.NodeRead) == topo.NodeSuspect && nd.Path.Set {
			best = min(best, int(nd.Path.N))
		}
	}
	if best <= smp.MaxHops {
		for i := 0; i < len(r.nodes); i++ { // touch may make the list longer
			if n := r.nodes[i]; f.Nodes[n].Flags&(topo.NodeSuspect|topo.NodeRead) == topo.NodeSuspect && f.Nodes[n].Path.Set && int(f.Nodes[n].Path.N) == best {
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
	f := c.Fabric
	asked := false
	for i := 0; i < len(c.reg.nodes); i++ {
		n := c.reg.nodes[i]
		nd := &f.Nodes[n]
		if nd.Flags&(topo.NodeRead|topo.NodeReset|topo.NodeAgain) == topo.NodeRead && nd.Path.Set && c.Fabric.AllInit(n) {
			// It may have been reset after its port 0 was read.
			nd.Flags |= topo.NodeAgain
			c.Add(work.Make(work.OpSwitchInfo, n, 0, 0))
			c.Add(work.Make(work.OpReread, n, 0, 0))
			asked = true
		}
		if nd.Flags&(topo.NodeRead|topo.NodeSeen) != topo.NodeRead || nd.Flags&(topo.NodeMoved|topo.NodeReset) == topo.NodeMoved || !nd.Switch.PortStateChange || !nd.Path.Set {
			continue
		}
		nd.Flags |= topo.NodeSeen
		for k := range f.NodePorts(n) {
			p := f.PortOf(n, uint8(k))
			if p.Has(topo.PortLinked) && p.Num != 0 && f.Nodes[p.Peer.Node].Flags&topo.NodeRead == 0 {
				c.touch(p.Peer.Node)
				c.Add(work.Make(work.OpReread, p.Peer.Node, p.Peer.Port, 0))
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
	f := c.Fabric
	nd := &f.Nodes[n]
	if v := nd.Via; v.Node >= 0 && nd.Flags&topo.NodeNew == 0 && f.Nodes[v.Node].Flags&(topo.NodeRead|topo.NodeNew) == 0 && !f.Port(v).Has(topo.PortAsked) {
		f.Port(v).Flags |= topo.PortAsked
		c.touch(v.Node)
		c.Add(work.Make(work.OpReread, v.Node, v.Port, 0))
		return
	}
	nd.Flags |= topo.NodeRead
	c.Report.Read++
	c.Add(work.Make(work.OpSwitchInfo, n, 0, 0))
	for p := range f.NodePorts(n) {
		c.Add(work.Make(work.OpReread, n, uint8(p), 0))
	}
}
