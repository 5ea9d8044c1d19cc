package sm

import (
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/sm/topo"
	"heddle/sm/work"
	"heddle/subnet"
)

// lateNode is a node that says that it is one which was elsewhere.
type lateNode struct {
	from ref
	ni   smp.NodeInfo
	used ib.MKey
}

// lateFound takes the nodes that say that they are one which was elsewhere, now that this
// place was looked at. It reports whether there is more to ask.
func (c *Core) lateFound() bool {
	list := c.late
	c.late = nil
	for i := range list {
		c.found(list[i].from, &list[i].ni, list[i].used)
	}
	return c.Pending > 0
}

// keepUnseen puts the nodes into the fabric that do not answer and about which there is no
// evidence. It reports whether that led to further questions.
func (c *Core) keepUnseen() bool {
	if !c.absent.Kept() {
		return false
	}
	f, own := c.Fabric, c.Last.Self
	if len(f.Nodes) == 0 {
		if own.Node < 0 {
			return false
		}
		n := c.keepNode(own, f.AddPath(nil), subnet.NoRef())
		f.Self = ref{Node: n, Port: own.Port}
		c.askThrough(n)
		if c.Pending > 0 {
			return true
		}
	}
	if c.keepParts() {
		return true
	}
	for more := true; more && c.Pending == 0; {
		more = c.keepSilent()
	}
	return c.Pending > 0
}

// keepSilent keeps what is behind ports where nobody answers, one step farther. It reports
// whether that brought nodes.
func (c *Core) keepSilent() bool {
	f := c.Fabric
	type link struct{ at, was ref }
	var silent []link
	for i := range f.Ports {
		p := &f.Ports[i]
		if !p.Has(topo.PortSilent) || p.Has(topo.PortBadPeer) || p.Peer != subnet.NoRef() {
			continue
		}
		at := ref{Node: p.Node, Port: p.Num}
		if was, ok := c.absent.WasBehind(at); ok {
			silent = append(silent, link{at, was})
			if f.Nodes[p.Node].Flags&topo.NodeUnseen == 0 && !p.Has(topo.PortAsked) {
				p.Flags |= topo.PortAsked // the link may have gone down after its port was read
				c.Add(work.Make(work.OpPortInfo, p.Node, p.Num, 0))
			}
		}
	}
	if c.Pending > 0 {
		return false
	}
	before := len(f.Nodes)
	for _, l := range silent {
		c.keepBehind(l.at, l.was)
	}
	return len(f.Nodes) > before
}

// keepBehind keeps the node behind a silent port.
func (c *Core) keepBehind(at, was ref) {
	f := c.Fabric
	o := &c.Last.Nodes[was.Node]
	n, found := f.Find(o.Info.NodeGUID)
	switch {
	case !found:
		n = c.keepNode(was, f.AddPath(c.Fabric.Hop(at)), at)
		c.Fabric.Join(at, ref{Node: n, Port: was.Port})
		c.askThrough(n)
		return
	case !o.IsSwitch() && !f.PortOf(n, was.Port).Has(topo.PortKnown): // reached by another port of it
		q := f.PortOf(n, was.Port)
		q.Keep(c.Last.Port(was))
		q.Path = f.AddPath(c.Fabric.Hop(at))
	case f.Nodes[n].Flags&topo.NodeUnseen == 0:
		return // it answers elsewhere: it is this cable that does not carry SMPs
	}
	c.Fabric.Join(at, ref{Node: n, Port: was.Port})
}

// keepNode puts a node of the last fabric into this one, as it was last read.
func (c *Core) keepNode(was ref, path topo.PathRef, via ref) int32 {
	f := c.Fabric
	o := &c.Last.Nodes[was.Node]
	c.absent.Keep(o.Info.NodeGUID)
	i := f.AddNode(&o.Info, path)
	n := &f.Nodes[i]
	n.Via, n.Switch, n.Desc = via, o.Switch, o.Desc
	n.Info.LocalPortNum = was.Port
	n.Flags = o.Flags&(topo.NodeSwitchInfo|topo.NodeDesc) | topo.NodeUnseen
	if !o.IsSwitch() {
		f.PortOf(i, was.Port).Keep(c.Last.Port(was))
		f.PortOf(i, was.Port).Path = path
		n.Info.PortGUID = f.PortOf(i, was.Port).GUID
		return i
	}
	for k := range c.Last.NodePorts(was.Node) {
		f.PortOf(i, uint8(k)).Keep(c.Last.PortOf(was.Node, uint8(k)))
	}
	f.PortOf(i, 0).Path = path
	// Our first switch stays: without it there is no subnet.
	near := via.Node < 0 || via.Node == f.Self.Node
	if !o.OK() || c.absent.Overdue(o.Info.NodeGUID) && !near {
		c.Fabric.Exclude(i, "it does not answer, and needs other tables than it has")
	}
	return i
}

// askThrough asks the nodes that are behind an unseen one, of those not found yet.
func (c *Core) askThrough(n int32) {
	f := c.Fabric
	for k := 1; k <= int(f.Nodes[n].Info.NumPorts); k++ {
		at := ref{Node: n, Port: uint8(k)}
		if p := f.Port(at); !p.Has(topo.PortKnown) || !p.LinkUp() || p.Peer != subnet.NoRef() || at == f.Nodes[n].Via {
			continue
		}
		was, ok := c.absent.WasBehind(at)
		if !ok && (at == f.Self || c.absent.Veiled()) { // somebody may be there who has not answered yet
			c.askBehind(n, uint8(k))
			continue
		}
		if !ok {
			switch {
			case at == f.Self: // whoever is there may just have fallen silent too
				c.askBehind(n, uint8(k))
			case !f.Port(at).Has(topo.PortLoop):
				f.Port(at).Info.PortState = ib.StateDown // nothing that we know of is there
			}
			continue
		}
		m, found := f.Find(c.Last.Nodes[was.Node].Info.NodeGUID)
		if !found {
			c.askBehind(n, uint8(k))
			continue
		}
		to := ref{Node: m, Port: was.Port}
		switch q := f.Port(to); {
		case !q.Has(topo.PortKnown) && f.Nodes[m].Info.NodeType != ib.NodeSwitch:
			c.askBehind(n, uint8(k))
		case q.Peer == subnet.NoRef() && c.absent.LedTo(to, at):
			c.Fabric.Join(at, to)
		default: // the far end says that the link is down, or leads elsewhere
			f.Port(at).Info.PortState = ib.StateDown
		}
	}
}

// keepParts restores what could not be read of nodes that say who they are: they were here
// before. It reports whether there is more to ask.
func (c *Core) keepParts() bool {
	f := c.Fabric
	for i := range f.Nodes {
		n := &f.Nodes[i]
		j, ok := c.Last.Find(n.Info.NodeGUID)
		if !ok || n.Flags&topo.NodeUnseen != 0 {
			continue
		}
		o := &c.Last.Nodes[j]
		if o.Info.NumPorts != n.Info.NumPorts || o.Info.NodeType != n.Info.NodeType {
			continue
		}
		if n.Flags&topo.NodeNonsense != 0 {
			c.disbelieve(int32(i))
		}
		if n.IsSwitch() && n.Flags&topo.NodeSwitchInfo == 0 && o.Flags&topo.NodeSwitchInfo != 0 {
			n.Switch = o.Switch
			n.Flags |= topo.NodeSwitchInfo
		}
		for k := range f.NodePorts(int32(i)) {
			p := f.PortOf(int32(i), uint8(k))
			if p.Has(topo.PortKnown) || !n.IsSwitch() && !p.Path.Set {
				continue
			}
			was := c.Last.PortOf(j, uint8(k))
			if !was.Has(topo.PortKnown) {
				continue
			}
			mkey := p.MKey
			p.Keep(was)
			if mkey != 0 {
				p.MKey = mkey
			}
			at := ref{Node: int32(i), Port: uint8(k)}
			if p.Num != 0 && p.LinkUp() && p.Peer == subnet.NoRef() && (n.IsSwitch() || at == f.Self) {
				c.askBehind(at.Node, at.Port)
			}
		}
	}
	return c.Pending > 0
}

// disbelieve forgets all that a node said in this discovery of which a part cannot be true.
func (c *Core) disbelieve(n int32) {
	nd := &c.Fabric.Nodes[n]
	nd.Flags &^= topo.NodeNonsense | topo.NodeSwitchInfo
	for k := range c.Fabric.NodePorts(n) {
		p := c.Fabric.PortOf(n, uint8(k))
		if o := c.absent.LastPort(n, uint8(k)); o != nil && p.Has(topo.PortKnown) {
			p.Flags &^= topo.PortKnown
		}
	}
}

// skip finishes an item about a node that is not asked, because it does not answer.
func (c *Core) skip(it work.Item) {
	c.Finish()
	switch it.Op() {
	case work.OpPKeys, work.OpSetPKeys, work.OpGetVPKeys, work.OpSetVPKeys:
		c.pkeys.Skipped(it)
	default:
		if c.absent.Skipped(it) {
			c.install.NotTaken()
		}
	}
}
