package sm

import (
	"slices"

	"heddle/sm/notice"
	"heddle/sm/topo"
	"heddle/subnet"
)

// regionKnown ends the exploration: what cannot be reached any more is
// dropped, and what changed is told.
func (c *Core) regionKnown() bool {
	f, r := c.Fabric, &c.reg
	for i := 0; i < len(r.nodes); i++ {
		if n := r.nodes[i]; n != f.Self.Node {
			c.dropUnreachable(n)
		}
	}
	// Behind a switch that is gone there may be others that nobody named.
	if r.died {
		for i := range f.Nodes {
			if n := &f.Nodes[i]; n.Flags&(topo.NodeGone|topo.NodeTouched) == 0 && n.IsSwitch() && !n.Path.Set {
				c.touch(int32(i))
				c.dropUnreachable(int32(i))
			}
		}
	}
	for i := 0; i < len(r.nodes); i++ { // hosts of the switches just dropped
		if n := r.nodes[i]; n != f.Self.Node && f.Nodes[n].Flags&topo.NodeGone == 0 {
			c.dropUnreachable(n)
		}
	}
	c.light.SettleMute()
	if r.died && len(f.Problems) > 0 {
		c.giveUp("room was made for what was left out before")
	}
	for _, n := range r.nodes {
		nd := &f.Nodes[n]
		if nd.Flags&topo.NodeGone != 0 {
			continue
		}
		for i := range f.NodePorts(n) {
			p := f.PortOf(n, uint8(i))
			if p.Has(topo.PortMeasured) && !p.Has(topo.PortLinked) && !p.Has(topo.PortHeld) {
				c.giveUp("the ends of " + f.Where(n, i).String() + " do not agree")
			}
		}
		if nd.IsSwitch() && (nd.Flags&topo.NodeSwitchInfo == 0 || !f.PortOf(n, 0).Has(topo.PortKnown)) {
			c.giveUp("a switch could not be read")
		}
	}
	if r.give != "" {
		return c.explored()
	}
	c.tellRegion()
	f.PackPaths()
	c.mastership.Refresh()
	return c.decide()
}

// dropUnreachable takes a node out that no link joins with us, or the ports of
// a CA that have lost theirs.
func (c *Core) dropUnreachable(n int32) {
	f := c.Fabric
	nd := &f.Nodes[n]
	if nd.Flags&topo.NodeGone != 0 {
		return
	}
	if nd.IsSwitch() {
		if nd.Path.Set {
			return
		}
	} else {
		first := int32(-1)
		for i := range f.NodePorts(n) {
			p := f.PortOf(n, uint8(i))
			switch {
			case p.Num == 0:
			case p.Has(topo.PortLinked):
				if first < 0 {
					first = int32(i)
				}
			case p.Has(topo.PortKnown):
				c.reg.died = c.reg.died || p.LID != 0
				*p = topo.Port{Node: n, Num: p.Num, Peer: subnet.NoRef(), GUID: p.GUID}
			}
		}
		if first >= 0 {
			if q := f.PortOf(n, uint8(first)); nd.Via.Node < 0 || f.Port(nd.Via).Peer.Node != n {
				nd.Via, nd.Path = q.Peer, q.Path
				nd.Info.LocalPortNum, nd.Info.PortGUID = q.Num, q.GUID
			}
			return
		}
	}
	c.reg.died = true
	for i := range f.NodePorts(n) {
		p := f.PortOf(n, uint8(i))
		if p.Peer.Node >= 0 {
			q := f.Port(p.Peer)
			if q.Peer == (ref{Node: n, Port: p.Num}) {
				q.Peer = subnet.NoRef()
				q.Flags &^= topo.PortLinked | topo.PortMeasured | topo.PortProved
			}
			c.touch(p.Peer.Node)
		}
		*p = topo.Port{Node: n, Num: p.Num, Peer: subnet.NoRef(), GUID: p.GUID}
	}
	if c.reg.gone++; c.reg.gone <= 64 {
		c.Notify(notice.Notice{
			Kind: notice.KindNodeGone, Level: notice.Info, Text: "left the subnet",
			Where: notice.Where{Node: nd.Info.NodeGUID, Desc: nd.Desc, Port: -1, Path: slices.Clone(f.Path(nd.Path)), Known: true},
		})
	}
	nd.Flags = nd.Flags&topo.NodeTouched | topo.NodeGone | topo.NodeOut | topo.NodeDesc
	nd.Path.Set, nd.LFT, nd.MFT, nd.GraphSwitch = false, nil, nil, -1
	f.Gone++
}

// tellRegion tells what came and went.
func (c *Core) tellRegion() {
	f, r := c.Fabric, &c.reg
	if r.told {
		return
	}
	r.told = true
	told := 0
	for _, x := range r.cut {
		p := f.Port(x[0])
		if p.Has(topo.PortLinked) && p.Peer == x[1] {
			continue // it is back already
		}
		for _, a := range x {
			if n := &f.Nodes[a.Node]; n.Flags&topo.NodeGone != 0 || !n.IsSwitch() {
				continue
			}
			if told++; told <= 64 {
				c.Notify(notice.Notice{Kind: notice.KindLinkDown, Level: notice.Info, Where: f.Where(a.Node, int(a.Port)), Text: "the link is down"})
			}
		}
	}
	for _, n := range r.nodes {
		nd := &f.Nodes[n]
		if nd.Flags&(topo.NodeGone|topo.NodeNew) == topo.NodeNew {
			c.Notify(notice.Notice{Kind: notice.KindNodeNew, Level: notice.Info, Where: f.Where(n, -1), Text: "joined the subnet"})
		}
		if !nd.IsSwitch() || nd.Flags&(topo.NodeGone|topo.NodeNew) != 0 {
			continue
		}
		for i := range f.NodePorts(n) {
			p := f.PortOf(n, uint8(i))
			if p.Num == 0 || !p.Has(topo.PortLinked) || c.wasLinked(n, p) {
				continue
			}
			if told++; told <= 64 {
				c.Notify(notice.Notice{Kind: notice.KindLinkUp, Level: notice.Info, Where: f.Where(n, i), Text: "the link is up"})
			}
		}
	}
}

// wasLinked reports whether the last snapshot shows a link at a port.
func (c *Core) wasLinked(n int32, p *topo.Port) bool {
	i := c.Snapshot.NodeByGUID(c.Fabric.Nodes[n].Info.NodeGUID)
	return i >= 0 && int(p.Num) <= int(c.Snapshot.Nodes[i].Info.NumPorts) && c.Snapshot.NodePorts(i)[p.Num].Peer.Node >= 0
}
