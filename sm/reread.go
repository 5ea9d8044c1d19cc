package sm

import (
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sm/topo"
	"heddle/sm/work"
	"heddle/subnet"
)

// onReread takes the PortInfo of a port that was known before.
func (c *Core) onReread(it work.Item, comp *mad.Completion) {
	f := c.Fabric
	n, num := it.Node(), it.Port()
	nd, p := &f.Nodes[n], f.PortOf(n, num)
	var pi smp.PortInfo
	err := work.Answer(comp)
	if err == nil {
		err = pi.Decode(smp.Data(comp.MAD))
	}
	if err != nil || pi.PortState > ib.StateActiveDefer || pi.PortState < ib.StateDown && !(nd.IsSwitch() && num == 0) {
		c.giveUp("no good answer from " + f.Where(n, int(num)).String())
		return
	}
	if p.Has(topo.PortKnown) && c.absent.Plausible(p, &pi) != nil {
		c.giveUp("nonsense from " + f.Where(n, int(num)).String())
		return
	}
	old := p.Info
	p.Info = pi
	p.Flags |= topo.PortKnown
	p.Flags &^= topo.PortFailed
	if c.reg.give != "" {
		return
	}
	if pi.PortState != old.PortState {
		nd.Flags |= topo.NodeMoved
	}
	if p.Has(topo.PortEnd) {
		c.managerChanged(n, p, &old)
	}
	at := ref{Node: n, Port: num}
	if f.AgentPort(n, num) == p {
		if pi.MKey != 0 {
			p.MKey = pi.MKey
		}
		if pi.LID != old.LID || pi.MKey != old.MKey {
			c.relook(n)
			nd.Flags |= topo.NodeReset
		}
	}
	if num == 0 {
		return
	}
	if p.Has(topo.PortSilent) {
		if pi.PortState != old.PortState {
			c.giveUp("something was wrong behind " + f.Where(n, int(num)).String() + " before")
		}
		return // the light sweeps ask it
	}
	was, peer := p.Has(topo.PortLinked), p.Peer
	switch {
	case !p.LinkUp():
		if was {
			c.unlink(at)
			c.peeking.cutNew = true
			c.moving()
		}
		p.Peer = subnet.NoRef()
		p.Flags &^= topo.PortMeasured | topo.PortProved
	case was && pi.PortState >= old.PortState && old.PortState >= ib.StateArmed:
		return // a link that goes down comes back in Init
	default:
		if was && old.PortState >= ib.StateArmed {
			c.unlink(at)
		}
		if c.links.KeptOut(at, old.PortState != pi.PortState) {
			return
		}
		if p.Peer != subnet.NoRef() {
			return // the far end found it already
		}
		if nd.IsSwitch() {
			c.askBehind(n, num)
		} else if at == f.Self {
			c.giveUp("our own link changed")
		} else if peer.Node >= 0 && f.Nodes[peer.Node].Flags&topo.NodeRead != 0 {
			c.Add(work.Make(work.OpReread, peer.Node, peer.Port, 0))
		} else if peer.Node >= 0 {
			c.suspicious(peer.Node)
		}
		return
	}
	c.links.KeptOut(at, old.PortState != pi.PortState)
	if at == f.Self {
		c.giveUp("our own link changed")
	}
}

// relook makes sure that a switch whose agent was reset is read whole.
func (c *Core) relook(n int32) {
	if c.Fabric.Nodes[n].IsSwitch() {
		c.suspicious(n)
	} else {
		c.touch(n)
	}
}

// suspicious has a switch of the region read, if it was not yet.
func (c *Core) suspicious(n int32) {
	c.touch(n)
	nd := &c.Fabric.Nodes[n]
	if !nd.IsSwitch() || nd.Flags&(topo.NodeSuspect|topo.NodeNew) != 0 {
		return
	}
	if !c.plainBut(n) {
		c.giveUp("something was wrong with " + c.Fabric.Where(n, -1).String() + " before")
		return
	}
	nd.Flags |= topo.NodeSuspect
}

// plainBut is plain for a node that may have lost its path.
func (c *Core) plainBut(n int32) bool {
	was := c.Fabric.Nodes[n].Path.Set
	c.Fabric.Nodes[n].Path.Set = true
	ok := c.plain(n)
	c.Fabric.Nodes[n].Path.Set = was
	return ok
}

// unlink takes a link out that is down or was down.
func (c *Core) unlink(a ref) {
	f := c.Fabric
	b := f.Unlink(a)
	if a == f.Self || b == f.Self {
		c.giveUp("our own link changed")
		return
	}
	c.reg.cut = append(c.reg.cut, [2]ref{a, b})
	c.links.LinkFailed(a, b)
	c.suspicious(a.Node)
	c.suspicious(b.Node)
}

// managerChanged sees whether a port began or ceased to be a manager's.
func (c *Core) managerChanged(n int32, p *topo.Port, old *smp.PortInfo) {
	at := ref{Node: n, Port: p.Num}
	if at == c.Fabric.Self {
		return
	}
	switch {
	case p.Info.CapabilityMask.Has(ib.CapIsSM):
		c.Add(work.Make(work.OpSMInfo, n, p.Num, 0))
	case old.CapabilityMask.Has(ib.CapIsSM):
		c.mastership.Gone(at)
	}
}

// metAgain takes the answer of a known node behind a link that came up.
func (c *Core) metAgain(from, to ref) {
	f := c.Fabric
	nd, q := &f.Nodes[to.Node], f.Port(to)
	c.touch(to.Node)
	if q.Peer != subnet.NoRef() && q.Peer != from {
		c.giveUp("two links lead to " + f.Where(to.Node, int(to.Port)).String())
		return
	}
	if !nd.IsSwitch() {
		if nd.Path.Set || q.Peer != subnet.NoRef() {
			return
		}
		nd.Path, nd.Via = f.AddPath(c.Fabric.Hop(from)), from
		return
	}
	if !nd.Path.Set {
		nd.Path, nd.Via = f.AddPath(c.Fabric.Hop(from)), from
	}
	if q.Peer == subnet.NoRef() {
		// The answer proves the far end as well, as in a full discovery, and
		// that end came up anew too.
		q.Peer = from
		q.Flags |= topo.PortProved
		q.Info.PortState = ib.StateInit
	}
	switch {
	case nd.Flags&topo.NodeNew != 0:
	case nd.Flags&topo.NodeSuspect == 0:
		c.suspicious(to.Node)
	case nd.Flags&topo.NodeRead != 0:
		c.Add(work.Make(work.OpReread, to.Node, to.Port, 0)) // it may still have been down when it was read
	}
}

// relink marks the links of the region that both ends agree on.
func (c *Core) relink() {
	f := c.Fabric
	for i := 0; i < len(c.reg.nodes); i++ {
		n := c.reg.nodes[i]
		ports := f.NodePorts(n)
		for k := range ports {
			p := &ports[k]
			if p.Has(topo.PortLinked) || p.Peer == subnet.NoRef() || !c.Fabric.Linkable(p) {
				continue
			}
			p.Flags |= topo.PortLinked
			f.Port(p.Peer).Flags |= topo.PortLinked
			c.touch(p.Peer.Node)
		}
	}
}
