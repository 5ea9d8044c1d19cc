package discover

import (
	"errors"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sm/notice"
	"heddle/sm/topo"
	"heddle/sm/work"
	"heddle/subnet"
)

// nodeInfo takes the answer of the node behind a port, or of our own node.
func (d *Discovery) nodeInfo(it work.Item, comp *mad.Completion) {
	f := d.Fabric
	from := ref{Node: it.Node(), Port: it.Port()}
	var ni smp.NodeInfo
	err := work.Answer(comp)
	if err == nil {
		if err = ni.Decode(smp.Data(comp.MAD)); err == nil {
			err = CheckNodeInfo(&ni, from.Node < 0)
		}
		if err == nil {
			err = d.absent.PlausibleNode(from, &ni)
		}
		if err != nil {
			d.garbage(f.Behind(from), smp.AttrNodeInfo, err)
		}
	} else if mad.Unanswered(err) {
		if _, more := d.needs.Keys.Guess(from, it.Extra()+1); more {
			d.Add(work.Make(work.OpNodeInfo, it.Node(), it.Port(), it.Extra()+1))
			return
		}
		d.silent(from, err)
	} else {
		d.garbage(f.Behind(from), smp.AttrNodeInfo, err)
	}
	if err != nil {
		if from.Node >= 0 {
			f.Port(from).Flags |= topo.PortSilent
		}
		d.absent.SilentBehind(from)
		return
	}
	used, _ := d.needs.Keys.Guess(from, it.Extra())
	if d.absent.Elsewhere(from, ni.NodeGUID) {
		d.late = append(d.late, lateNode{from, ni, used})
		return
	}
	d.found(from, &ni, used)
}

// found takes the NodeInfo of the node behind port from; used is the key of the request.
func (d *Discovery) found(from ref, ni *smp.NodeInfo, used ib.MKey) {
	f := d.Fabric
	idx, known := f.Find(ni.NodeGUID)
	if !known {
		d.newNode(from, ni, used)
		return
	}
	n := &f.Nodes[idx]
	if n.Flags&topo.NodeUnseen != 0 {
		d.absent.Heard(ni.NodeGUID)
		d.Sweeper.AskFullSweep("a node that did not answer answers now: " + f.Where(idx, -1).String())
	}
	if n.Info.NodeType != ni.NodeType || n.Info.NumPorts != ni.NumPorts ||
		n.IsSwitch() && n.Info.PortGUID != ni.PortGUID {
		d.duplicate(from, idx, int(ni.LocalPortNum), "the two differ in type, port count or port GUID")
		return
	}
	if from.Node < 0 {
		return
	}
	to := ref{Node: idx, Port: ni.LocalPortNum}
	if d.Region {
		if d.linkUp(from, to); d.r.give != "" {
			return
		}
	}
	f.Measure(from, to)
	if q := f.Port(to); !n.IsSwitch() && q.Peer == subnet.NoRef() {
		d.newPort(from, to, ni, used)
	}
}

// CheckNodeInfo returns an error if no node can have a NodeInfo; own says that it is of the node
// on which the manager runs.
func CheckNodeInfo(ni *smp.NodeInfo, own bool) error {
	switch {
	case ni.NodeGUID == 0:
		return errors.New("node GUID 0")
	case ni.PortGUID == 0:
		return errors.New("port GUID 0")
	case ni.LocalPortNum == 0 && !(own && ni.NodeType == ib.NodeSwitch):
		return errors.New("local port 0 on a wire")
	}
	return nil
}

// newNode adds a node that was not seen before and asks for its attributes.
func (d *Discovery) newNode(from ref, ni *smp.NodeInfo, used ib.MKey) {
	f := d.Fabric
	var path topo.PathRef
	if from.Node < 0 {
		path = f.AddPath(nil)
	} else {
		path = f.AddPath(f.Hop(from))
	}
	idx := f.AddNode(ni, path)
	n := &f.Nodes[idx]
	n.Via = from
	if d.Region {
		d.Touch(idx)
		n.Flags |= topo.NodeNew
		d.r.born = true
	}
	at := ref{Node: idx, Port: ni.LocalPortNum}
	if from.Node < 0 {
		f.Self = at
		d.Config.PortGUID = ni.PortGUID
	} else {
		f.Measure(from, at)
	}
	d.Add(work.Make(work.OpNodeDesc, idx, ni.LocalPortNum, 0))
	if !n.IsSwitch() {
		d.newPort(from, at, ni, used)
		return
	}
	p0 := f.PortOf(idx, 0)
	p0.Path, p0.MKey = path, used
	if from.Node >= 0 {
		q := f.Port(at)
		q.Peer = from
		q.Flags |= topo.PortProved
	}
	d.Add(work.Make(work.OpSwitchInfo, idx, 0, 0))
	for p := 0; p <= int(ni.NumPorts); p++ {
		d.Add(work.Make(work.OpPortInfo, idx, uint8(p), 0))
	}
}

// newPort adds the port of a CA or router by which the node was reached.
func (d *Discovery) newPort(from, at ref, ni *smp.NodeInfo, used ib.MKey) {
	f := d.Fabric
	q := f.Port(at)
	q.GUID = ni.PortGUID
	q.MKey = used
	if d.Region {
		d.Touch(at.Node)
		d.r.born = d.r.born || q.LID == 0
	}
	if from.Node < 0 {
		q.Path = f.Nodes[at.Node].Path
	} else {
		q.Path = f.AddPath(f.Hop(from))
		q.Peer = from
		q.Flags |= topo.PortProved
	}
	d.Add(work.Make(work.OpPortInfo, at.Node, at.Port, 0))
}

// endPortFound asks for what only end ports have: P_Key tables and, of managers, SMInfo.
func (d *Discovery) endPortFound(n int32, p *topo.Port) {
	p.Flags |= topo.PortEnd
	if d.Fabric.Nodes[n].Info.PartitionCap > 0 && !d.Config.PlanOnly {
		d.needs.PKeys.Discovered(p)
	}
	if d.IsManager(p) {
		d.Add(work.Make(work.OpSMInfo, n, p.Num, 0))
	}
}

// askBehind asks which node is at the far end of a port that is up.
func (d *Discovery) askBehind(n int32, p uint8) {
	if d.needs.Links.KeptOut(ref{Node: n, Port: p}, false) {
		return
	}
	if len(d.Fabric.AgentPath(n, p)) >= smp.MaxHops {
		d.Fabric.PortOf(n, p).Flags |= topo.PortSilent
		d.Problem(d.Fabric.Behind(ref{Node: n, Port: p}), notice.Notice{
			Kind: notice.KindTooFar, Level: notice.Warn, Where: d.Fabric.Where(n, int(p)),
			Text: "the node behind this port is more than 63 hops away, and no directed route reaches it: run the manager closer to the middle of the fabric",
		})
		return
	}
	if at := (ref{Node: n, Port: p}); d.absent.AskedBefore(at) {
		d.Fabric.Port(at).Flags |= topo.PortSilent
		d.silent(at, mad.ErrTimeout)
		return
	}
	d.Add(work.Make(work.OpNodeInfo, n, p, 0))
}

// switchInfo takes the SwitchInfo of a switch.
func (d *Discovery) switchInfo(it work.Item, comp *mad.Completion) {
	n := &d.Fabric.Nodes[it.Node()]
	err := work.Answer(comp)
	var sw smp.SwitchInfo
	if err == nil {
		err = sw.Decode(smp.Data(comp.MAD))
	}
	o := d.absent.LastNode(it.Node())
	if d.Region {
		o = n
	}
	if err == nil && o != nil && o.Flags&topo.NodeSwitchInfo != 0 {
		err = d.absent.PlausibleSwitch(n, &o.Switch, &sw)
	}
	if err != nil {
		d.unread(it.Node(), -1, smp.AttrSwitchInfo, err)
		return
	}
	n.Switch = sw
	n.Flags |= topo.NodeSwitchInfo
}
