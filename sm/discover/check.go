package discover

import (
	"heddle/sm/notice"
	"heddle/sm/topo"
	"heddle/sm/work"
	"heddle/subnet"
)

// excludeUnread excludes the switches of which an essential attribute could not be read.
func (d *Discovery) excludeUnread() {
	f := d.Fabric
	for i := range f.Nodes {
		switch n := &f.Nodes[i]; {
		case !n.IsSwitch():
		case n.Flags&topo.NodeSwitchInfo == 0:
			f.Exclude(int32(i), "SwitchInfo could not be read")
		case !f.PortOf(int32(i), 0).Has(topo.PortKnown):
			f.Exclude(int32(i), "PortInfo of port 0 could not be read")
		}
	}
}

// readResetAgain reads port 0 of switches again whose links all came up anew although port 0 showed
// a LID: they may have been reset after that was read. It reports whether there are any.
func (d *Discovery) readResetAgain() bool {
	f := d.Fabric
	asked := false
	for i := range f.Nodes {
		n := &f.Nodes[i]
		if !n.IsSwitch() || n.Flags&(topo.NodeSwitchInfo|topo.NodeAgain) != topo.NodeSwitchInfo {
			continue
		}
		if p0 := f.PortOf(int32(i), 0); p0.Has(topo.PortKnown) && p0.Info.LID != 0 && f.AllInit(int32(i)) {
			n.Flags |= topo.NodeAgain
			d.Add(work.Make(work.OpSwitchInfo, int32(i), 0, 0))
			d.Add(work.Make(work.OpPortInfo, int32(i), 0, 0))
			asked = true
		}
	}
	return asked
}

// checkLinks compares what the two ends of each link say. It returns a fingerprint of the
// disagreements, 0 if there are none, and reports them if report is set.
func (d *Discovery) checkLinks(report bool) int {
	f := d.Fabric
	sum := 0
	for i := range f.Ports {
		p := &f.Ports[i]
		if !p.Has(topo.PortMeasured) || p.Has(topo.PortBadPeer) {
			continue
		}
		a, b := ref{Node: p.Node, Port: p.Num}, p.Peer
		q := f.Port(b)
		if q.Peer == a {
			continue
		}
		// A loopback plug on a switch port answers with the port itself.
		if a == b {
			continue
		}
		// An end that led here before, and behind which no node answered, still leads here.
		if q.Peer == subnet.NoRef() && q.Has(topo.PortSilent) && d.absent.LedTo(b, a) {
			q.Peer = a
			continue
		}
		sum = sum*31 + int(a.Node)<<8 + int(a.Port) + 1
		if !report {
			continue
		}
		switch {
		case q.Peer != subnet.NoRef():
			d.duplicate(a, b.Node, int(b.Port), "seen behind "+f.Where(a.Node, int(a.Port)).String()+
				" and behind "+f.Where(q.Peer.Node, int(q.Peer.Port)).String())
		default:
			p.Flags |= topo.PortBadPeer
			d.Problem(notice.Where{}, notice.Notice{
				Kind: notice.KindLinkMismatch, Level: notice.Warn, Where: f.Where(a.Node, int(a.Port)), Peer: f.Where(b.Node, int(b.Port)),
				Text: f.Where(a.Node, int(a.Port)).String() + " reports a link to " + f.Where(b.Node, int(b.Port)).String() +
					", but the latter is " + q.Info.PortState.String() + " and has no neighbor; the link is excluded until it is read again",
			})
		}
	}
	return sum
}

// markNew marks the nodes that were not in the last snapshot of this mastership.
func (d *Discovery) markNew() {
	for i := range d.Fabric.Nodes {
		n := &d.Fabric.Nodes[i]
		if d.Snapshot == nil || !d.Snapshot.Up || d.Snapshot.NodeByGUID(n.Info.NodeGUID) < 0 {
			n.Flags |= topo.NodeNew
		}
	}
}
