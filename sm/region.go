package sm

import (
	"slices"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
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
// switch.
func (c *Core) suspectLID(lid ib.LID, all bool) {
	i := int32(-1)
	if c.snap != nil && c.state == subnet.Master {
		i = c.snap.PortByLID(lid)
	}
	if i < 0 {
		c.wantFull = true
		return
	}
	p := &c.snap.Ports[i]
	n := &c.snap.Nodes[p.Node]
	if all && n.Info.NodeType == ib.NodeSwitch {
		c.suspect(n.Info.NodeGUID, wholeSwitch)
		return
	}
	c.suspect(n.Info.NodeGUID, p.Num)
}

// askRegion wants a switch to be looked at: now if nothing is under way, else
// after it.
func (c *Core) askRegion(n int32, why string) {
	c.suspect(c.f.nodes[n].info.NodeGUID, wholeSwitch)
	c.ask(why)
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
	return true
}

// plain reports whether nothing was wrong with a node or its ports in the last
// sweep.
func (c *Core) plain(n int32) bool {
	nd := &c.f.nodes[n]
	if !nd.ok() || !nd.path.set {
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
		c.f.nodes[n].flags &^= nTouched | nSuspect | nRead | nNew
		ports := c.f.nodePorts(n)
		for i := range ports {
			ports[i].flags &^= pAsked
		}
	}
	c.reg.on = false
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
	return c.regionKnown()
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

// onReread takes the PortInfo of a port that was known before.
func (c *Core) onReread(it item, comp *mad.Completion) {
	f := c.f
	n, num := it.node(), it.port()
	nd, p := &f.nodes[n], f.portOf(n, num)
	var pi smp.PortInfo
	err := answer(comp)
	if err == nil {
		err = pi.Decode(smp.Data(comp.MAD))
	}
	if err != nil || pi.PortState > ib.StateActiveDefer || pi.PortState < ib.StateDown && !(nd.isSwitch() && num == 0) {
		c.giveUp("no good answer from " + f.where(n, int(num)).String())
		return
	}
	old := p.info
	p.info = pi
	p.flags |= pKnown
	p.flags &^= pFailed
	if c.reg.give != "" {
		return
	}
	if p.has(pEnd) {
		c.managerChanged(n, p, &old)
	}
	at := ref{Node: n, Port: num}
	if f.agentPort(n, num) == p {
		if pi.MKey != 0 {
			p.mkey = pi.MKey
		}
		if pi.LID != old.LID || pi.MKey != old.MKey {
			c.relook(n)
		}
	}
	if num == 0 {
		return
	}
	if p.has(pSilent) {
		if pi.PortState != old.PortState {
			c.giveUp("something was wrong behind " + f.where(n, int(num)).String() + " before")
		}
		return // the light sweeps ask it
	}
	was, peer := p.has(pLinked), p.peer
	switch {
	case !p.upPhys():
		if was {
			c.unlink(at)
		}
		p.peer = subnet.NoRef
		p.flags &^= pMeasured | pProved
	case was && pi.PortState >= ib.StateArmed && old.PortState >= ib.StateArmed:
		return // a link that goes down comes back in Init
	default:
		if was && old.PortState >= ib.StateArmed {
			c.unlink(at)
		}
		if c.noteHeld(at, old.PortState != pi.PortState) {
			return
		}
		if p.peer != subnet.NoRef {
			return // the far end found it already
		}
		if nd.isSwitch() {
			c.askBehind(n, num)
		} else if at == f.self {
			c.giveUp("our own link changed")
		} else if peer.Node >= 0 {
			c.suspicious(peer.Node)
		}
		return
	}
	c.noteHeld(at, old.PortState != pi.PortState)
	if at == f.self {
		c.giveUp("our own link changed")
	}
}

// relook makes sure that a switch whose agent was reset is read whole.
func (c *Core) relook(n int32) {
	if c.f.nodes[n].isSwitch() {
		c.suspicious(n)
	} else {
		c.touch(n)
	}
}

// suspicious has a switch of the region read, if it was not yet.
func (c *Core) suspicious(n int32) {
	c.touch(n)
	nd := &c.f.nodes[n]
	if !nd.isSwitch() || nd.flags&(nSuspect|nNew) != 0 {
		return
	}
	if !c.plainBut(n) {
		c.giveUp("something was wrong with " + c.f.where(n, -1).String() + " before")
		return
	}
	nd.flags |= nSuspect
}

// plainBut is plain for a node that may have lost its path.
func (c *Core) plainBut(n int32) bool {
	was := c.f.nodes[n].path.set
	c.f.nodes[n].path.set = true
	ok := c.plain(n)
	c.f.nodes[n].path.set = was
	return ok
}

// unlink takes a link out that is down or was down.
func (c *Core) unlink(a ref) {
	f := c.f
	p := f.port(a)
	b := p.peer
	q := f.port(b)
	for _, x := range [2]*port{p, q} {
		x.peer = subnet.NoRef
		x.flags &^= pLinked | pMeasured | pProved
	}
	if a == f.self || b == f.self {
		c.giveUp("our own link changed")
		return
	}
	c.reg.cut = append(c.reg.cut, [2]ref{a, b})
	c.noteFlap(a, b)
	c.suspicious(a.Node)
	c.suspicious(b.Node)
}

// managerChanged sees whether a port began or ceased to be a manager's.
func (c *Core) managerChanged(n int32, p *port, old *smp.PortInfo) {
	at := ref{Node: n, Port: p.num}
	if at == c.f.self {
		return
	}
	switch {
	case p.info.CapabilityMask.Has(ib.CapIsSM):
		c.add(mk(opSMInfo, n, p.num, 0))
	case old.CapabilityMask.Has(ib.CapIsSM):
		c.others = slices.DeleteFunc(c.others, func(o otherSM) bool { return o.at == at })
	}
}

// metAgain takes the answer of a known node behind a link that came up.
func (c *Core) metAgain(from, to ref) {
	f := c.f
	nd, q := &f.nodes[to.Node], f.port(to)
	c.touch(to.Node)
	if q.peer != subnet.NoRef && q.peer != from {
		c.giveUp("two links lead to " + f.where(to.Node, int(to.Port)).String())
		return
	}
	if !nd.isSwitch() {
		if nd.path.set || q.peer != subnet.NoRef {
			return
		}
		nd.path, nd.via = f.addPath(c.hop(from)), from
		return
	}
	if !nd.path.set {
		nd.path, nd.via = f.addPath(c.hop(from)), from
	}
	if q.peer == subnet.NoRef {
		// The answer proves the far end as well, as in a full discovery, and
		// that end came up anew too.
		q.peer = from
		q.flags |= pProved
		q.info.PortState = ib.StateInit
	}
	switch {
	case nd.flags&nNew != 0:
	case nd.flags&nSuspect == 0:
		c.suspicious(to.Node)
	case nd.flags&nRead != 0:
		c.add(mk(opReread, to.Node, to.Port, 0)) // it may still have been down when it was read
	}
}

// relink marks the links of the region that both ends agree on.
func (c *Core) relink() {
	f := c.f
	for i := 0; i < len(c.reg.nodes); i++ {
		n := c.reg.nodes[i]
		ports := f.nodePorts(n)
		for k := range ports {
			p := &ports[k]
			if p.has(pLinked) || p.peer == subnet.NoRef || !c.linkable(p) {
				continue
			}
			p.flags |= pLinked
			f.port(p.peer).flags |= pLinked
			c.touch(p.peer.Node)
		}
	}
}

// linkable reports whether a link is part of the subnet: both ends known, up,
// agreeing, and of nodes that are not left out.
func (c *Core) linkable(p *port) bool {
	f := c.f
	if p.peer == subnet.NoRef || !p.has(pKnown) || p.has(pBadPeer|pHeld) {
		return false
	}
	q := f.port(p.peer)
	return q.has(pKnown) && p.upPhys() && q.upPhys() && !q.has(pBadPeer) && !q.has(pHeld) &&
		f.nodes[p.node].ok() && f.nodes[q.node].ok() && q.peer == (ref{Node: p.node, Port: p.num})
}

// repath gives nodes whose directed route leads over a link that is gone
// another one, as short as can be. Nodes that cannot be reached for now have
// none.
func (c *Core) repath() {
	f := c.f
	broken := false
	for _, x := range c.reg.cut {
		for k, a := range x {
			if f.nodes[x[1-k].Node].via == a && !f.port(a).has(pLinked) {
				broken = true
			}
		}
	}
	for _, n := range c.reg.nodes {
		broken = broken || !f.nodes[n].path.set
	}
	if !broken {
		return
	}
	c.reg.moved = true
	const (
		unknown = iota
		good
		bad
	)
	state := make([]uint8, len(f.nodes))
	state[f.self.Node] = good
	stack := make([]int32, 0, 64)
	for i := range f.nodes {
		if f.nodes[i].flags&nGone != 0 || !f.nodes[i].isSwitch() {
			continue
		}
		stack = append(stack[:0], int32(i))
		for len(stack) > 0 {
			n := stack[len(stack)-1]
			nd := &f.nodes[n]
			v := nd.via
			switch {
			case state[n] != unknown:
			case !nd.path.set || v.Node < 0 || !f.port(v).has(pLinked) || f.port(v).peer.Node != n:
				state[n] = bad
			case state[v.Node] == unknown:
				stack = append(stack, v.Node)
				continue
			default:
				state[n] = state[v.Node]
			}
			stack = stack[:len(stack)-1]
		}
	}
	// Breadth first by length, from the switches whose way is good.
	var rings [smp.MaxHops + 1][]int32
	for i := range f.nodes {
		if n := &f.nodes[i]; state[i] == good && (n.isSwitch() || int32(i) == f.self.Node) {
			rings[n.path.n] = append(rings[n.path.n], int32(i))
		} else if n.isSwitch() && n.flags&nGone == 0 {
			n.path.set = false
		}
	}
	for d := range smp.MaxHops {
		for k := 0; k < len(rings[d]); k++ {
			n := rings[d][k]
			ports := f.nodePorts(n)
			for i := range ports {
				p := &ports[i]
				if !p.has(pLinked) || p.num == 0 || !f.nodes[n].isSwitch() && p.num != f.self.Port {
					continue
				}
				q := &f.nodes[p.peer.Node]
				if !q.isSwitch() || q.path.set {
					continue
				}
				at := ref{Node: n, Port: p.num}
				q.path, q.via = f.addPath(c.hop(at)), at
				rings[d+1] = append(rings[d+1], p.peer.Node)
				c.repathHosts(p.peer.Node)
			}
		}
	}
}

// repathHosts gives the CA ports on a switch whose route is new their new one.
func (c *Core) repathHosts(n int32) {
	f := c.f
	ports := f.nodePorts(n)
	for i := range ports {
		p := &ports[i]
		if !p.has(pLinked) || p.num == 0 {
			continue
		}
		q := &f.nodes[p.peer.Node]
		if q.isSwitch() || p.peer.Node == f.self.Node {
			continue
		}
		at := ref{Node: n, Port: p.num}
		f.port(p.peer).path = f.addPath(c.hop(at))
		if q.via == at {
			q.path = f.port(p.peer).path
		}
	}
}

// regionKnown ends the exploration: what cannot be reached any more is
// dropped, and what changed is told.
func (c *Core) regionKnown() bool {
	f, r := c.f, &c.reg
	for i := 0; i < len(r.nodes); i++ {
		if n := r.nodes[i]; n != f.self.Node {
			c.dropUnreachable(n)
		}
	}
	// Behind a switch that is gone there may be others that nobody named.
	if r.died {
		for i := range f.nodes {
			if n := &f.nodes[i]; n.flags&(nGone|nTouched) == 0 && n.isSwitch() && !n.path.set {
				c.touch(int32(i))
				c.dropUnreachable(int32(i))
			}
		}
	}
	for i := 0; i < len(r.nodes); i++ { // hosts of the switches just dropped
		if n := r.nodes[i]; n != f.self.Node && f.nodes[n].flags&nGone == 0 {
			c.dropUnreachable(n)
		}
	}
	if r.died && len(f.problems) > 0 {
		c.giveUp("room was made for what was left out before")
	}
	for _, n := range r.nodes {
		nd := &f.nodes[n]
		if nd.flags&nGone != 0 {
			continue
		}
		for i := range f.nodePorts(n) {
			p := f.portOf(n, uint8(i))
			if p.has(pMeasured) && !p.has(pLinked) && !p.has(pHeld) {
				c.giveUp("the ends of " + f.where(n, i).String() + " do not agree")
			}
		}
		if nd.isSwitch() && (nd.flags&nSwitchInfo == 0 || !f.portOf(n, 0).has(pKnown)) {
			c.giveUp("a switch could not be read")
		}
	}
	if r.give != "" {
		return c.explored()
	}
	c.tellRegion()
	if len(f.paths) > 1<<16 && len(f.paths) > 4*c.pathBytes() {
		c.packPaths()
	}
	c.refreshOthers()
	return c.decide()
}

// dropUnreachable takes a node out that no link joins with us, or the ports of
// a CA that have lost theirs.
func (c *Core) dropUnreachable(n int32) {
	f := c.f
	nd := &f.nodes[n]
	if nd.flags&nGone != 0 {
		return
	}
	if nd.isSwitch() {
		if nd.path.set {
			return
		}
	} else {
		first := int32(-1)
		for i := range f.nodePorts(n) {
			p := f.portOf(n, uint8(i))
			switch {
			case p.num == 0:
			case p.has(pLinked):
				if first < 0 {
					first = int32(i)
				}
			case p.has(pKnown):
				c.reg.died = c.reg.died || p.lid != 0
				*p = port{node: n, num: p.num, peer: subnet.NoRef, guid: p.guid}
			}
		}
		if first >= 0 {
			if q := f.portOf(n, uint8(first)); nd.via.Node < 0 || f.port(nd.via).peer.Node != n {
				nd.via, nd.path = q.peer, q.path
				nd.info.LocalPortNum, nd.info.PortGUID = q.num, q.guid
			}
			return
		}
	}
	c.reg.died = true
	for i := range f.nodePorts(n) {
		p := f.portOf(n, uint8(i))
		if p.peer.Node >= 0 {
			q := f.port(p.peer)
			if q.peer == (ref{Node: n, Port: p.num}) {
				q.peer = subnet.NoRef
				q.flags &^= pLinked | pMeasured | pProved
			}
			c.touch(p.peer.Node)
		}
		*p = port{node: n, num: p.num, peer: subnet.NoRef, guid: p.guid}
	}
	if c.reg.gone++; c.reg.gone <= 64 {
		c.out.notify(Notice{
			Kind: KindNodeGone, Level: Info, Text: "left the subnet",
			Where: Where{Node: nd.info.NodeGUID, Desc: nd.desc, Port: -1, Path: slices.Clone(f.path(nd.path)), set: true},
		})
	}
	nd.flags = nd.flags&nTouched | nGone | nOut | nDesc
	nd.path.set, nd.lft, nd.mft, nd.gsw = false, nil, nil, -1
	f.gone++
}

// tellRegion tells what came and went.
func (c *Core) tellRegion() {
	f, r := c.f, &c.reg
	if r.told {
		return
	}
	r.told = true
	told := 0
	for _, x := range r.cut {
		p := f.port(x[0])
		if p.has(pLinked) && p.peer == x[1] {
			continue // it is back already
		}
		for _, a := range x {
			if n := &f.nodes[a.Node]; n.flags&nGone != 0 || !n.isSwitch() {
				continue
			}
			if told++; told <= 64 {
				c.out.notify(Notice{Kind: KindLinkDown, Level: Info, Where: f.where(a.Node, int(a.Port)), Text: "the link is down"})
			}
		}
	}
	for _, n := range r.nodes {
		nd := &f.nodes[n]
		if nd.flags&(nGone|nNew) == nNew {
			c.out.notify(Notice{Kind: KindNodeNew, Level: Info, Where: f.where(n, -1), Text: "joined the subnet"})
		}
		if !nd.isSwitch() || nd.flags&(nGone|nNew) != 0 {
			continue
		}
		for i := range f.nodePorts(n) {
			p := f.portOf(n, uint8(i))
			if p.num == 0 || !p.has(pLinked) || c.wasLinked(n, p) {
				continue
			}
			if told++; told <= 64 {
				c.out.notify(Notice{Kind: KindLinkUp, Level: Info, Where: f.where(n, i), Text: "the link is up"})
			}
		}
	}
}

// wasLinked reports whether the last snapshot shows a link at a port.
func (c *Core) wasLinked(n int32, p *port) bool {
	i := c.snap.NodeByGUID(c.f.nodes[n].info.NodeGUID)
	return i >= 0 && int(p.num) <= int(c.snap.Nodes[i].Info.NumPorts) && c.snap.NodePorts(i)[p.num].Peer.Node >= 0
}

// refreshOthers brings what is known of other managers up to date with the
// region.
func (c *Core) refreshOthers() {
	f := c.f
	c.others = slices.DeleteFunc(c.others, func(o otherSM) bool {
		return f.nodes[o.at.Node].flags&nGone != 0 || !f.port(o.at).has(pKnown)
	})
	for i := range c.others {
		o := &c.others[i]
		o.path = slices.Clone(f.agentPath(o.at.Node, o.at.Port))
	}
}

// pathBytes is how many bytes of paths are in use.
func (c *Core) pathBytes() (n int) {
	for i := range c.f.nodes {
		n += int(c.f.nodes[i].path.n)
	}
	return 2*n + 1024
}

// packPaths drops the paths that nobody uses any more.
func (c *Core) packPaths() {
	f := c.f
	old := f.paths
	f.paths = make([]byte, 0, c.pathBytes())
	move := func(r *pathRef) {
		if r.set {
			*r = f.addPath(old[r.off : r.off+uint32(r.n)])
		}
	}
	for i := range f.nodes {
		move(&f.nodes[i].path)
	}
	for i := range f.ports {
		move(&f.ports[i].path)
	}
}
