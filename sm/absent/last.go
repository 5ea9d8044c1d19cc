package absent

import (
	"heddle/ib"
	"heddle/sm/topo"
	"heddle/subnet"
)

// Kept reports whether nodes of the last subnet stand for those that do not answer.
func (a *Nodes) Kept() bool {
	return !a.Region && a.State == subnet.Master && a.Last != nil && a.Last != a.Fabric && a.Last.Graph != nil && !a.Config.PlanOnly
}

// WasBehind is the port of the last subnet that port r, of the present one, was linked to. The
// link is the same one: it has not come up anew since.
func (a *Nodes) WasBehind(r ref) (ref, bool) {
	if !a.Kept() {
		return subnet.NoRef(), false
	}
	if r.Node < 0 {
		return a.Last.Self, true
	}
	n := &a.Fabric.Nodes[r.Node]
	i, ok := a.Last.Find(n.Info.NodeGUID)
	if !ok || r.Port > a.Last.Nodes[i].Info.NumPorts || a.Last.Nodes[i].Info.NodeType != n.Info.NodeType {
		return subnet.NoRef(), false
	}
	was, now := a.Last.PortOf(i, r.Port), a.Fabric.Port(r)
	if was.Peer.Node < 0 || !now.Has(topo.PortKnown) || !now.LinkUp() || now.Info.PortState < min(was.Info.PortState, ib.StateActive) {
		return subnet.NoRef(), false
	}
	// A port of an excluded switch has no link of the subnet, but a cable.
	return was.Peer, was.Has(topo.PortLinked) || !a.Last.Nodes[was.Peer.Node].OK() || !a.Last.Nodes[i].OK()
}

// LedTo reports whether the link at port from has led to port to since before.
func (a *Nodes) LedTo(from, to ref) bool {
	was, ok := a.WasBehind(from)
	return ok && was.Port == to.Port && a.Last.Nodes[was.Node].Info.NodeGUID == a.Fabric.Nodes[to.Node].Info.NodeGUID
}

// LastNode is a node as it was in the last subnet, nil if it was not there.
func (a *Nodes) LastNode(n int32) *topo.Node {
	if !a.Kept() {
		return nil
	}
	i, ok := a.Last.Find(a.Fabric.Nodes[n].Info.NodeGUID)
	if !ok || a.Last.Nodes[i].Info.NumPorts != a.Fabric.Nodes[n].Info.NumPorts || a.Last.Nodes[i].Info.NodeType != a.Fabric.Nodes[n].Info.NodeType {
		return nil
	}
	return &a.Last.Nodes[i]
}

// LastPort is a port as it was in the last subnet, nil if it was not read then.
func (a *Nodes) LastPort(n int32, num uint8) *topo.Port {
	o := a.LastNode(n)
	if o == nil {
		return nil
	}
	if p := &a.Last.Ports[int(o.First)+int(num)]; p.Has(topo.PortKnown) {
		return p
	}
	return nil
}

// Elsewhere reports whether the node with a GUID was in the last subnet and not behind port from.
// Discovery looks at its old place first: a stranger that has the GUID of a node of the subnet
// gets neither the LIDs nor the P_Keys of that node.
func (a *Nodes) Elsewhere(from ref, g ib.GUID) bool {
	if !a.Kept() || from.Node < 0 {
		return false
	}
	if _, found := a.Fabric.Find(g); found {
		return false
	}
	if _, ok := a.Last.Find(g); !ok {
		return false
	}
	n := &a.Fabric.Nodes[from.Node]
	i, ok := a.Last.Find(n.Info.NodeGUID)
	if !ok || from.Port > a.Last.Nodes[i].Info.NumPorts {
		return true
	}
	p := a.Last.PortOf(i, from.Port)
	return p.Peer.Node < 0 || p.Has(topo.PortBadPeer) || a.Last.Nodes[p.Peer.Node].Info.NodeGUID != g
}
