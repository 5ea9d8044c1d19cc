package sm

import (
	"slices"

	"heddle/subnet"
)

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
	c.settleMute()
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
