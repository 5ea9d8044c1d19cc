package discover

import (
	"heddle/sm/notice"
	"heddle/sm/topo"
)

// maxReported bounds the nodes that are reported one by one, and the links; the report of the sweep
// has their number.
const maxReported = 64

// ReportChanges reports which nodes and links came and went since the last subnet was read, if
// there is one.
func (d *Discovery) ReportChanges() {
	if d.Last == nil || d.Fabric == nil || len(d.Fabric.Nodes) == 0 {
		return
	}
	report := func(a, b *topo.Topology, k notice.Kind, text string) {
		n := 0
		for i := range a.Nodes {
			if _, ok := b.Find(a.Nodes[i].Info.NodeGUID); ok || a.Nodes[i].Flags&topo.NodeGone != 0 {
				continue
			}
			if n++; n > maxReported {
				break
			}
			d.Notify(notice.Notice{Kind: k, Level: notice.Info, Where: a.Where(int32(i), -1), Text: text})
		}
	}
	report(d.Fabric, d.Last, notice.KindNodeNew, "joined the subnet")
	report(d.Last, d.Fabric, notice.KindNodeGone, "left the subnet")
	d.reportLinks()
}

// reportLinks reports the links of switches that came and went.
func (d *Discovery) reportLinks() {
	f, g := d.Fabric, d.Last
	n := 0
	for i := range f.Nodes {
		if !f.Nodes[i].IsSwitch() {
			continue
		}
		j, ok := g.Find(f.Nodes[i].Info.NodeGUID)
		if !ok || g.Nodes[j].Info.NumPorts != f.Nodes[i].Info.NumPorts {
			continue
		}
		for k := 1; k <= int(f.Nodes[i].Info.NumPorts); k++ {
			p, q := f.PortOf(int32(i), uint8(k)), g.PortOf(j, uint8(k))
			if p.Has(topo.PortLinked) == q.Has(topo.PortLinked) {
				continue
			}
			if n++; n > maxReported {
				return
			}
			kind, text := notice.KindLinkUp, "the link is up"
			if q.Has(topo.PortLinked) {
				kind, text = notice.KindLinkDown, "the link is down"
			}
			d.Notify(notice.Notice{Kind: kind, Level: notice.Info, Where: f.Where(int32(i), k), Text: text})
		}
	}
}

// reportRegion reports which nodes and links of the region came and went.
func (d *Discovery) reportRegion() {
	f, r := d.Fabric, &d.r
	if r.told {
		return
	}
	r.told = true
	reported := 0
	for _, x := range r.cut {
		p := f.Port(x[0])
		if p.Has(topo.PortLinked) && p.Peer == x[1] {
			continue // it is back already
		}
		for _, a := range x {
			if n := &f.Nodes[a.Node]; n.Flags&topo.NodeGone != 0 || !n.IsSwitch() {
				continue
			}
			if reported++; reported <= maxReported {
				d.Notify(notice.Notice{Kind: notice.KindLinkDown, Level: notice.Info, Where: f.Where(a.Node, int(a.Port)), Text: "the link is down"})
			}
		}
	}
	for _, n := range r.nodes {
		nd := &f.Nodes[n]
		if nd.Flags&(topo.NodeGone|topo.NodeNew) == topo.NodeNew {
			d.Notify(notice.Notice{Kind: notice.KindNodeNew, Level: notice.Info, Where: f.Where(n, -1), Text: "joined the subnet"})
		}
		if !nd.IsSwitch() || nd.Flags&(topo.NodeGone|topo.NodeNew) != 0 {
			continue
		}
		for i := range f.NodePorts(n) {
			p := f.PortOf(n, uint8(i))
			if p.Num == 0 || !p.Has(topo.PortLinked) || d.wasLinked(n, p) {
				continue
			}
			if reported++; reported <= maxReported {
				d.Notify(notice.Notice{Kind: notice.KindLinkUp, Level: notice.Info, Where: f.Where(n, i), Text: "the link is up"})
			}
		}
	}
}

// wasLinked reports whether the last snapshot shows a link at a port.
func (d *Discovery) wasLinked(n int32, p *topo.Port) bool {
	i := d.Snapshot.NodeByGUID(d.Fabric.Nodes[n].Info.NodeGUID)
	return i >= 0 && int(p.Num) <= int(d.Snapshot.Nodes[i].Info.NumPorts) && d.Snapshot.NodePorts(i)[p.Num].Peer.Node >= 0
}
