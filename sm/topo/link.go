package topo

import (
	"heddle/ib"
	"heddle/subnet"
)

// Measure notes that a question through port a reached port b.
func (f *Topology) Measure(a, b subnet.Ref) {
	p := f.Port(a)
	p.Peer = b
	p.Flags |= PortMeasured
}

// Join notes a link between two ports unless one of them is known to lead elsewhere.
func (f *Topology) Join(a, b subnet.Ref) {
	p, q := f.Port(a), f.Port(b)
	if p.Peer == subnet.NoRef() && q.Peer == subnet.NoRef() {
		p.Peer, q.Peer = b, a
	}
}

// Unlink removes the link at a port from the subnet, at both ends. It returns the far end.
func (f *Topology) Unlink(a subnet.Ref) (b subnet.Ref) {
	p := f.Port(a)
	b = p.Peer
	for _, x := range [2]*Port{p, f.Port(b)} {
		x.Peer = subnet.NoRef()
		x.Flags &^= PortLinked | PortMeasured | PortProved
	}
	return b
}

// Linkable reports whether the link at a port is part of the subnet: both ends were read, are up
// and agree, and neither node is excluded.
func (f *Topology) Linkable(p *Port) bool {
	if p.Peer == subnet.NoRef() || !p.Has(PortKnown) || p.Has(PortBadPeer|PortHeld) {
		return false
	}
	q := f.Port(p.Peer)
	return q.Has(PortKnown) && p.LinkUp() && q.LinkUp() && !q.Has(PortBadPeer) && !q.Has(PortHeld) &&
		f.Nodes[p.Node].OK() && f.Nodes[q.Node].OK() && q.Peer == (subnet.Ref{Node: p.Node, Port: p.Num})
}

// MarkLinks marks the links that are part of the subnet.
func (f *Topology) MarkLinks() {
	for i := range f.Ports {
		if p := &f.Ports[i]; f.Linkable(p) {
			p.Flags |= PortLinked
		}
	}
}

// Exclude removes a node from the subnet; why is for people.
func (f *Topology) Exclude(n int32, why string) {
	nd := &f.Nodes[n]
	nd.Flags |= NodeOut
	nd.Reason = why
	nd.LFT = nil
}

// Excluded counts the nodes that are excluded.
func (f *Topology) Excluded() (n int) {
	for i := range f.Nodes {
		if !f.Nodes[i].OK() {
			n++
		}
	}
	return n
}

// AllInit reports whether a switch has links and all of them are in Init, as after a reset.
func (f *Topology) AllInit(n int32) bool {
	any := false
	for i := range f.NodePorts(n) {
		p := f.PortOf(n, uint8(i))
		if p.Num == 0 || !p.Has(PortKnown) || p.Info.PortState == ib.StateDown {
			continue
		}
		if p.Info.PortState >= ib.StateArmed {
			return false
		}
		any = true
	}
	return any
}
