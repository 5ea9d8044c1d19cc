package sm

import (
	"slices"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/subnet"
)

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
	if p.has(pKnown) && c.changedNature(p, &pi) {
		c.giveUp("nonsense from " + f.where(n, int(num)).String())
		return
	}
	old := p.info
	p.info = pi
	p.flags |= pKnown
	p.flags &^= pFailed
	if c.reg.give != "" {
		return
	}
	if pi.PortState != old.PortState {
		nd.flags |= nMoved
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
			nd.flags |= nReset
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
			c.cutNew = true
			c.moving()
		}
		p.peer = subnet.NoRef
		p.flags &^= pMeasured | pProved
	case was && pi.PortState >= old.PortState && old.PortState >= ib.StateArmed:
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
		} else if peer.Node >= 0 && f.nodes[peer.Node].flags&nRead != 0 {
			c.add(mk(opReread, peer.Node, peer.Port, 0))
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
