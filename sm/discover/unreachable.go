package discover

import (
	"slices"

	"heddle/sm/notice"
	"heddle/sm/topo"
	"heddle/subnet"
)

// regionRead ends the discovery of a region: it drops what cannot be reached any more, and reports
// what changed.
func (d *Discovery) regionRead() Outcome {
	f, r := d.Fabric, &d.r
	for i := 0; i < len(r.nodes); i++ {
		if n := r.nodes[i]; n != f.Self.Node {
			d.dropUnreachable(n)
		}
	}
	// Behind a switch that is gone there may be others that are not suspects.
	if r.died {
		for i := range f.Nodes {
			if n := &f.Nodes[i]; n.Flags&(topo.NodeGone|topo.NodeTouched) == 0 && n.IsSwitch() && !n.Path.Set {
				d.Touch(int32(i))
				d.dropUnreachable(int32(i))
			}
		}
	}
	for i := 0; i < len(r.nodes); i++ { // hosts of the switches just dropped
		if n := r.nodes[i]; n != f.Self.Node && f.Nodes[n].Flags&topo.NodeGone == 0 {
			d.dropUnreachable(n)
		}
	}
	d.needs.Sweeps.SettleMute()
	if r.died && len(f.Problems) > 0 {
		d.GiveUp("nodes left, and others were excluded before")
	}
	for _, n := range r.nodes {
		nd := &f.Nodes[n]
		if nd.Flags&topo.NodeGone != 0 {
			continue
		}
		for i := range f.NodePorts(n) {
			p := f.PortOf(n, uint8(i))
			if p.Has(topo.PortMeasured) && !p.Has(topo.PortLinked) && !p.Has(topo.PortHeld) {
				d.GiveUp("the ends of the link at " + f.Where(n, i).String() + " disagree")
			}
		}
		if nd.IsSwitch() && (nd.Flags&topo.NodeSwitchInfo == 0 || !f.PortOf(n, 0).Has(topo.PortKnown)) {
			d.GiveUp("a switch could not be read")
		}
	}
	if r.give != "" {
		return d.waveDone()
	}
	d.reportRegion()
	f.PackPaths()
	return Read
}

// dropUnreachable removes a node that no link joins with us, or the ports of a CA whose links are
// down.
func (d *Discovery) dropUnreachable(n int32) {
	f := d.Fabric
	nd := &f.Nodes[n]
	if nd.Flags&topo.NodeGone != 0 {
		return
	}
	if nd.IsSwitch() && nd.Path.Set || !nd.IsSwitch() && d.dropPorts(n) {
		return
	}
	d.r.died = true
	for i := range f.NodePorts(n) {
		p := f.PortOf(n, uint8(i))
		if p.Peer.Node >= 0 {
			q := f.Port(p.Peer)
			if q.Peer == (ref{Node: n, Port: p.Num}) {
				q.Peer = subnet.NoRef()
				q.Flags &^= topo.PortLinked | topo.PortMeasured | topo.PortProved
			}
			d.Touch(p.Peer.Node)
		}
		*p = topo.Port{Node: n, Num: p.Num, Peer: subnet.NoRef(), GUID: p.GUID}
	}
	if d.r.gone++; d.r.gone <= maxReported {
		d.Notify(notice.Notice{
			Kind: notice.KindNodeGone, Level: notice.Info, Text: "left the subnet",
			Where: notice.Where{Node: nd.Info.NodeGUID, Desc: nd.Desc, Port: -1, Path: slices.Clone(f.Path(nd.Path)), Known: true},
		})
	}
	nd.Flags = nd.Flags&topo.NodeTouched | topo.NodeGone | topo.NodeOut | topo.NodeDesc
	nd.Path.Set, nd.LFT, nd.MFT, nd.GraphSwitch = false, nil, nil, -1
	f.Gone++
}

// dropPorts drops the ports of a CA or router whose links are down. It reports whether the node
// has another link; then the route over that link is the node's.
func (d *Discovery) dropPorts(n int32) bool {
	f := d.Fabric
	var first *topo.Port
	for i := range f.NodePorts(n) {
		p := f.PortOf(n, uint8(i))
		switch {
		case p.Num == 0:
		case p.Has(topo.PortLinked):
			if first == nil {
				first = p
			}
		case p.Has(topo.PortKnown):
			d.r.died = d.r.died || p.LID != 0
			*p = topo.Port{Node: n, Num: p.Num, Peer: subnet.NoRef(), GUID: p.GUID}
		}
	}
	if first == nil {
		return false
	}
	if nd := &f.Nodes[n]; nd.Via.Node < 0 || f.Port(nd.Via).Peer.Node != n {
		nd.Via, nd.Path = first.Peer, first.Path
		nd.Info.LocalPortNum, nd.Info.PortGUID = first.Num, first.GUID
	}
	return true
}
