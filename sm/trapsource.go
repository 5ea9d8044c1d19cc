package sm

import (
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sm/notice"
	"heddle/sm/topo"
	"heddle/sm/trap"
	"heddle/sm/work"
	"heddle/subnet"
)

// A trap is a hint, and any host can send one. It counts as a trap of the port that it came
// from, whose LID the hardware writes; one that names another node as issuer, and one from a
// LID that nobody has, is false. A false trap is repressed and counted, has one warning in
// trap.Window for each sender, and leads to a light sweep at most, which sees what is true of
// it. What a true one says of its node is read back from there before it counts.

// trapOrigin finds the port of the last snapshot that a trap came from, an index in its Ports;
// -1 if that is nobody's. honest reports whether the trap claims to be from that node.
func (c *Core) trapOrigin(p *mad.Packet, lids [2]ib.LID) (from int32, honest bool) {
	s := c.Snapshot
	if from = s.PortByLID(p.Addr.LID); p.Addr.LID == 0 {
		from = s.PortIndex(s.Self)
	}
	if from < 0 {
		return -1, false
	}
	from = s.Physical(from)
	for _, l := range lids {
		if l == 0 {
			continue
		}
		if i := s.PortByLID(l); i < 0 || s.Ports[s.Physical(i)].Node != s.Ports[from].Node {
			return from, false
		}
	}
	return from, true
}

// falseTrap takes a trap that is not believed.
func (c *Core) falseTrap(n *smp.Notice, from int32, claimed ib.LID) {
	s := trap.Source{Trap: trap.False}
	if from >= 0 {
		s.LID = c.Snapshot.Ports[from].LID
	}
	c.trapping.falseCount++
	if c.trapping.table.Count(c.Now, s) > 1 {
		if c.Phase == notice.PhaseIdle {
			c.light.By(c.Now.Add(trap.Window))
		}
		return
	}
	c.lightSoon()
	text := "trap " + trapName(n) + " came from a LID that nobody has: it does not count"
	if from >= 0 {
		text = "trap " + trapName(n) + " in the name of LID " + claimed.String() + " came from here: it does not count"
	}
	w := notice.Notice{Kind: notice.KindTrapFalse, Level: notice.Warn, Text: text}
	if from >= 0 {
		w.Where = c.snapWhere(from)
	}
	c.Notify(w)
}

// snapWhere is a place for messages from the last snapshot.
func (c *Core) snapWhere(i int32) notice.Where {
	q := &c.Snapshot.Ports[i]
	nd := &c.Snapshot.Nodes[q.Node]
	return notice.Where{Node: nd.Info.NodeGUID, Desc: nd.Desc, Port: int(q.Num), LID: q.LID, Path: nd.Path, Known: true}
}

// askImage reads back the SystemImageGUID of the node that a trap 145 came from. A node that
// the sweep under way has not found yet is read by that.
func (c *Core) askImage(from int32) {
	if c.Fabric == nil {
		return
	}
	q := &c.Snapshot.Ports[from]
	n, ok := c.Fabric.Find(c.Snapshot.Nodes[q.Node].Info.NodeGUID)
	if !ok || !c.Fabric.Nodes[n].OK() {
		return
	}
	port := q.Num
	if c.Fabric.Nodes[n].IsSwitch() {
		port = 0
	}
	if p := c.Fabric.PortOf(n, port); p == nil || !p.Has(topo.PortKnown) && port != 0 {
		return
	}
	c.askBeside(work.Make(work.OpImageNow, n, port, 0), mad.Normal)
}

// onImageNow takes the answer.
func (c *Core) onImageNow(it work.Item, comp *mad.Completion) {
	var ni smp.NodeInfo
	if work.Answer(comp) != nil || ni.Decode(smp.Data(comp.MAD)) != nil || c.Fabric == nil || int(it.Node()) >= len(c.Fabric.Nodes) {
		return
	}
	n := &c.Fabric.Nodes[it.Node()]
	if n.Info.NodeGUID != ni.NodeGUID || n.Info.SystemImageGUID == ni.SystemImageGUID {
		return
	}
	n.Info.SystemImageGUID = ni.SystemImageGUID
	if c.Phase == notice.PhaseIdle && c.State == subnet.Master {
		c.Publish()
	}
}
