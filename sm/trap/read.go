package trap

import (
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sm/notice"
	"heddle/sm/topo"
	"heddle/sm/work"
	"heddle/subnet"
)

// What a trap says of its node is read from there before it counts.

// localChange takes trap 144, about capabilities and other local settings. If only the description or
// only capabilities changed, they are read again; otherwise a sweep reads the node.
func (r *Receiver) localChange(n *smp.Notice, issuer ib.LID) {
	var d smp.DetailChange
	d.Get(&n.DataDetails)
	switch {
	case onlyMask(n):
		r.capabilitiesOf(issuer)
	case d.ChangeFlags != smp.ChangeNodeDescription:
		r.sweepChanged(issuer)
	default:
		r.readDescription(issuer)
	}
}

// readDescription reads the NodeDescription of the node that a trap 144 came from.
func (r *Receiver) readDescription(issuer ib.LID) {
	node, port, ok := r.portByLID(issuer)
	if !ok { // the description may have been read before or after the change
		r.needs.Sweeps.ReadAll()
		r.askSweep(0, "trap 144: the description of LID "+issuer.String()+" changed")
		return
	}
	r.Fabric.Nodes[node].Flags &^= topo.NodeDesc // light sweeps ask for it until it is read
	if r.Phase == notice.PhaseIdle {
		r.Ask(work.Make(work.OpDescNow, node, port, 0), smp.AttrNodeDescription, 0, mad.Normal)
	}
}

// readImage reads the SystemImageGUID of the node that a trap 145 came from. If the sweep under
// way has not found the node yet, that sweep reads it.
func (r *Receiver) readImage(from int32) {
	if r.Fabric == nil {
		return
	}
	q := r.Snapshot.Ports[from]
	n, ok := r.Fabric.Find(r.Snapshot.Nodes[q.Node].Info.NodeGUID)
	if !ok || !r.Fabric.Nodes[n].OK() {
		return
	}
	port := q.Num
	if r.Fabric.Nodes[n].IsSwitch() {
		port = 0
	}
	if p := r.Fabric.PortOf(n, port); p == nil || !p.Has(topo.PortKnown) && port != 0 {
		return
	}
	r.Ask(work.Make(work.OpImageNow, n, port, 0), smp.AttrNodeInfo, 0, mad.Normal)
}

// Answered takes the end of a request.
func (r *Receiver) Answered(it work.Item, comp *mad.Completion) {
	if r.Fabric == nil || int(it.Node()) >= len(r.Fabric.Nodes) {
		return // a new discovery has begun
	}
	switch it.Op() {
	case work.OpDescNow:
		if r.Phase == notice.PhaseIdle {
			r.TakeDescription(it, comp)
			r.needs.Publisher.Publish()
		}
	case work.OpImageNow:
		r.answeredImage(it, comp)
	case work.OpCapsNow:
		r.capabilitiesRead(it, comp)
	case work.OpSMNow:
		r.managerRead(it, comp)
	}
}

func (r *Receiver) answeredImage(it work.Item, comp *mad.Completion) {
	var ni smp.NodeInfo
	if work.Answer(comp) != nil || ni.Decode(smp.Data(comp.MAD)) != nil {
		return
	}
	n := &r.Fabric.Nodes[it.Node()]
	if n.Info.NodeGUID != ni.NodeGUID || n.Info.SystemImageGUID == ni.SystemImageGUID {
		return
	}
	n.Info.SystemImageGUID = ni.SystemImageGUID
	if r.Phase == notice.PhaseIdle && r.State == subnet.Master {
		r.needs.Publisher.Publish()
	}
}

// portByLID finds an end port of the discovered subnet.
func (r *Receiver) portByLID(lid ib.LID) (n int32, p uint8, ok bool) {
	f := r.Fabric
	if f == nil || f.Graph == nil || int(lid) >= len(f.Graph.LIDOwner) {
		return 0, 0, false
	}
	e := f.Graph.LIDOwner[lid]
	if e < 0 {
		return 0, 0, false
	}
	q := &f.Ports[f.EndPort[e]]
	return q.Node, q.Num, true
}
