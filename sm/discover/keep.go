package discover

import (
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/sm/topo"
	"heddle/sm/work"
	"heddle/subnet"
)

// lateNode is a node that claims to be one that was elsewhere.
type lateNode struct {
	from ref
	ni   smp.NodeInfo
	used ib.MKey
}

// lateFound takes the nodes that claim to be one that was elsewhere, after discovery has looked at
// the old place. It reports whether there is more to ask.
func (d *Discovery) lateFound() bool {
	list := d.late
	d.late = nil
	for i := range list {
		d.found(list[i].from, &list[i].ni, list[i].used)
	}
	return d.Pending > 0
}

// keepAbsent puts the nodes that do not answer, and have not left, into the topology. It reports
// whether that led to further questions.
func (d *Discovery) keepAbsent() bool {
	if !d.absent.Kept() {
		return false
	}
	f, own := d.Fabric, d.Last.Self
	if len(f.Nodes) == 0 {
		if own.Node < 0 {
			return false
		}
		n := d.keepNode(own, f.AddPath(nil), subnet.NoRef())
		f.Self = ref{Node: n, Port: own.Port}
		d.askThrough(n)
		if d.Pending > 0 {
			return true
		}
	}
	if d.keepParts() {
		return true
	}
	for more := true; more && d.Pending == 0; {
		more = d.keepSilent()
	}
	return d.Pending > 0
}

// keepSilent keeps the nodes behind ports where no node answers, one step farther. It reports
// whether there were any.
func (d *Discovery) keepSilent() bool {
	f := d.Fabric
	type link struct{ at, was ref }
	var silent []link
	for i := range f.Ports {
		p := &f.Ports[i]
		if !p.Has(topo.PortSilent) || p.Has(topo.PortBadPeer) || p.Peer != subnet.NoRef() {
			continue
		}
		at := ref{Node: p.Node, Port: p.Num}
		if was, ok := d.absent.WasBehind(at); ok {
			silent = append(silent, link{at, was})
			if f.Nodes[p.Node].Flags&topo.NodeUnseen == 0 && !p.Has(topo.PortAsked) {
				p.Flags |= topo.PortAsked // the link may have gone down after its port was read
				d.Add(work.Make(work.OpPortInfo, p.Node, p.Num, 0))
			}
		}
	}
	if d.Pending > 0 {
		return false
	}
	before := len(f.Nodes)
	for _, l := range silent {
		d.keepBehind(l.at, l.was)
	}
	return len(f.Nodes) > before
}

// keepBehind keeps the node behind a silent port.
func (d *Discovery) keepBehind(at, was ref) {
	f := d.Fabric
	o := &d.Last.Nodes[was.Node]
	n, found := f.Find(o.Info.NodeGUID)
	switch {
	case !found:
		n = d.keepNode(was, f.AddPath(f.Hop(at)), at)
		d.Fabric.Join(at, ref{Node: n, Port: was.Port})
		d.askThrough(n)
		return
	case !o.IsSwitch() && !f.PortOf(n, was.Port).Has(topo.PortKnown): // reached by another of its ports
		q := f.PortOf(n, was.Port)
		q.Keep(d.Last.Port(was))
		q.Path = f.AddPath(f.Hop(at))
	case f.Nodes[n].Flags&topo.NodeUnseen == 0:
		return // it answers elsewhere: this cable does not carry SMPs
	}
	d.Fabric.Join(at, ref{Node: n, Port: was.Port})
}

// keepNode puts a node of the last topology into this one, as it was last read.
func (d *Discovery) keepNode(was ref, path topo.PathRef, via ref) int32 {
	f := d.Fabric
	o := &d.Last.Nodes[was.Node]
	d.absent.Keep(o.Info.NodeGUID)
	i := f.AddNode(&o.Info, path)
	n := &f.Nodes[i]
	n.Via, n.Switch, n.Desc, n.Said = via, o.Switch, o.Desc, o.Said
	n.Info.LocalPortNum = was.Port
	n.Flags = o.Flags&(topo.NodeSwitchInfo|topo.NodeDesc) | topo.NodeUnseen
	if !o.IsSwitch() {
		f.PortOf(i, was.Port).Keep(d.Last.Port(was))
		f.PortOf(i, was.Port).Path = path
		n.Info.PortGUID = f.PortOf(i, was.Port).GUID
		return i
	}
	for k := range d.Last.NodePorts(was.Node) {
		f.PortOf(i, uint8(k)).Keep(d.Last.PortOf(was.Node, uint8(k)))
	}
	f.PortOf(i, 0).Path = path
	// Our own switch stays: without it there is no subnet.
	near := via.Node < 0 || via.Node == f.Self.Node
	if !o.OK() || d.absent.Overdue(o.Info.NodeGUID) && !near {
		f.Exclude(i, "the switch does not answer, and needs other tables than it has")
	}
	return i
}

// askThrough asks through an absent node for those nodes behind it that were not found yet.
func (d *Discovery) askThrough(n int32) {
	f := d.Fabric
	for k := 1; k <= int(f.Nodes[n].Info.NumPorts); k++ {
		at := ref{Node: n, Port: uint8(k)}
		if p := f.Port(at); !p.Has(topo.PortKnown) || !p.LinkUp() || p.Peer != subnet.NoRef() || at == f.Nodes[n].Via {
			continue
		}
		was, ok := d.absent.WasBehind(at)
		if !ok && (at == f.Self || d.absent.Veiled()) { // a node may be there that has not answered yet
			d.askBehind(n, uint8(k))
			continue
		}
		if !ok {
			switch {
			case at == f.Self: // the node that is there may have fallen silent too
				d.askBehind(n, uint8(k))
			case !f.Port(at).Has(topo.PortLoop):
				f.Port(at).Info.PortState = ib.StateDown // no known node is there
			}
			continue
		}
		m, found := f.Find(d.Last.Nodes[was.Node].Info.NodeGUID)
		if !found {
			d.askBehind(n, uint8(k))
			continue
		}
		to := ref{Node: m, Port: was.Port}
		switch q := f.Port(to); {
		case !q.Has(topo.PortKnown) && f.Nodes[m].Info.NodeType != ib.NodeSwitch:
			d.askBehind(n, uint8(k))
		case q.Peer == subnet.NoRef() && d.absent.LedTo(to, at):
			d.Fabric.Join(at, to)
		default: // the far end says that the link is down, or leads elsewhere
			f.Port(at).Info.PortState = ib.StateDown
		}
	}
}

// keepParts restores what could not be read of nodes that answered and were here before. It reports
// whether there is more to ask.
func (d *Discovery) keepParts() bool {
	f := d.Fabric
	for i := range f.Nodes {
		n := &f.Nodes[i]
		j, ok := d.Last.Find(n.Info.NodeGUID)
		if !ok || n.Flags&topo.NodeUnseen != 0 {
			continue
		}
		o := &d.Last.Nodes[j]
		if o.Info.NumPorts != n.Info.NumPorts || o.Info.NodeType != n.Info.NodeType {
			continue
		}
		if n.Flags&topo.NodeNonsense != 0 {
			d.disbelieve(int32(i))
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
			was := d.Last.PortOf(j, uint8(k))
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
				d.askBehind(at.Node, at.Port)
			}
		}
	}
	return d.Pending > 0
}

// disbelieve forgets all answers of a node in this discovery, as one of them cannot be true.
func (d *Discovery) disbelieve(n int32) {
	nd := &d.Fabric.Nodes[n]
	nd.Flags &^= topo.NodeNonsense | topo.NodeSwitchInfo
	for k := range d.Fabric.NodePorts(n) {
		p := d.Fabric.PortOf(n, uint8(k))
		if o := d.absent.LastPort(n, uint8(k)); o != nil && p.Has(topo.PortKnown) {
			p.Flags &^= topo.PortKnown
		}
	}
}
