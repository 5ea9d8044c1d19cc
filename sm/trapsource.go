package sm

import (
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/subnet"
)

// A trap is a hint, and any host can send one. It counts as a trap of the port that it came
// from, whose LID the hardware writes; one that names another node as issuer, and one from a
// LID that nobody has, is false. A false trap is repressed and counted, has one warning in
// trapWindow for each sender, and leads to a light sweep at most, which sees what is true of
// it. What a true one says of its node is read back from there before it counts.

const (
	trapWindow = 5 * time.Second // a source that is quiet for so long starts anew
	trapNoisy  = 10              // from this arrival in the window on it is ignored
	// maxTrapSources bounds the sources that are remembered, some ten for each port that
	// sends traps of every kind. While there are more within a window, new ones are ignored.
	maxTrapSources = 1 << 14
)

// Numbers of trapSource that are no trap's.
const (
	trapVendor  uint16 = 0xFFFD // of a vendor, in a form that is not known
	trapUnknown uint16 = 0xFFFE // generic, of a number that is not known
	trapFalse   uint16 = 0xFFFF // in the name of another node
)

// trapSource is what arrivals are counted by. The port counts for switches only: a CA's trap
// is about the port that sends it.
type trapSource struct {
	lid  ib.LID // 0: nobody's
	trap uint16
	port uint8
}

type trapCount struct {
	count uint32
	last  mad.Time
}

// trapTable remembers who sent which traps within trapWindow.
type trapTable struct {
	src    map[trapSource]trapCount
	tidyAt mad.Time // before it no entry is old enough to go
}

// count notes an arrival and returns how many there were without a pause of trapWindow.
func (t *trapTable) count(now mad.Time, s trapSource) uint32 {
	if t.src == nil {
		t.src = map[trapSource]trapCount{}
	}
	n, ok := t.src[s]
	if !ok && len(t.src) >= maxTrapSources && !t.tidy(now) {
		return trapNoisy + 1
	}
	if ok && now.Sub(n.last) > trapWindow {
		n.count = 0
	}
	n.count, n.last = n.count+1, now
	t.src[s] = n
	return n.count
}

// tidy forgets sources that start anew anyway. It reports whether there is room.
func (t *trapTable) tidy(now mad.Time) bool {
	if now < t.tidyAt {
		return false
	}
	oldest := now
	for s, n := range t.src {
		if now.Sub(n.last) > trapWindow {
			delete(t.src, s)
		} else {
			oldest = min(oldest, n.last)
		}
	}
	t.tidyAt = oldest.Add(trapWindow)
	return len(t.src) < maxTrapSources
}

// trapKind is the number by which a trap is counted: that of a trap that the manager knows.
func trapKind(n *smp.Notice) uint16 {
	number := n.TrapNumber
	if t, ok := n.Trap(); ok {
		number = t
	} else if !n.IsGeneric {
		return trapVendor
	}
	switch {
	case number >= smp.TrapPortStateChange && number <= smp.TrapFlowCtlWatchdog,
		number == smp.TrapLocalChange, number == smp.TrapSystemImageGUID,
		number >= smp.TrapBadMKey && number <= smp.TrapBadPKeySwitchPort,
		number == smp.TrapVPortChange, number == smp.TrapVPortState, number == smp.TrapVPortBadPKey, number == smp.TrapVPortBadQKey:
		return number
	}
	return trapUnknown
}

// trapClaims are the LIDs that a trap says it is from, and the port that it is about.
func trapClaims(n *smp.Notice) (lids [2]ib.LID, port uint8) {
	lids[0] = n.IssuerLID
	if !n.IsGeneric {
		return lids, 0
	}
	switch {
	case n.TrapNumber == smp.TrapPortStateChange:
		var d smp.DetailLID
		d.Get(&n.DataDetails)
		lids[1] = d.LID
	case n.TrapNumber >= smp.TrapLocalPhyErrors && n.TrapNumber <= smp.TrapFlowCtlWatchdog:
		var d smp.DetailPort
		d.Get(&n.DataDetails)
		lids[1], port = d.LID, d.PortNum
	case n.TrapNumber == smp.TrapLocalChange:
		var d smp.DetailChange
		d.Get(&n.DataDetails)
		lids[1] = d.LID
	case n.TrapNumber == smp.TrapSystemImageGUID:
		var d smp.DetailImage
		d.Get(&n.DataDetails)
		lids[1] = d.LID
	}
	return lids, port
}

// trapOrigin finds the port of the last snapshot that a trap came from, an index in its Ports;
// -1 if that is nobody's. honest reports whether the trap claims to be from that node.
func (c *Core) trapOrigin(p *mad.Packet, lids [2]ib.LID) (from int32, honest bool) {
	s := c.snap
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
	s := trapSource{trap: trapFalse}
	if from >= 0 {
		s.lid = c.snap.Ports[from].LID
	}
	c.falseTraps++
	if c.traps.count(c.now, s) > 1 {
		if c.phase == PhaseIdle {
			c.lightAt = min(c.lightAt, c.now.Add(trapWindow))
		}
		return
	}
	c.lightSoon()
	text := "trap " + trapName(n) + " came from a LID that nobody has: it does not count"
	if from >= 0 {
		text = "trap " + trapName(n) + " in the name of LID " + claimed.String() + " came from here: it does not count"
	}
	w := Notice{Kind: KindTrapFalse, Level: Warn, Text: text}
	if from >= 0 {
		w.Where = c.snapWhere(from)
	}
	c.out.notify(w)
}

// snapWhere is a place for messages from the last snapshot.
func (c *Core) snapWhere(i int32) Where {
	q := &c.snap.Ports[i]
	nd := &c.snap.Nodes[q.Node]
	return Where{Node: nd.Info.NodeGUID, Desc: nd.Desc, Port: int(q.Num), LID: q.LID, Path: nd.Path, set: true}
}

// askImage reads back the SystemImageGUID of the node that a trap 145 came from. A node that
// the sweep under way has not found yet is read by that.
func (c *Core) askImage(from int32) {
	if c.f == nil {
		return
	}
	q := &c.snap.Ports[from]
	n, ok := c.f.find(c.snap.Nodes[q.Node].Info.NodeGUID)
	if !ok || !c.f.nodes[n].ok() {
		return
	}
	port := q.Num
	if c.f.nodes[n].isSwitch() {
		port = 0
	}
	if p := c.f.portOf(n, port); p == nil || !p.has(pKnown) && port != 0 {
		return
	}
	c.askBeside(mk(opImageNow, n, port, 0), mad.Normal)
}

// onImageNow takes the answer.
func (c *Core) onImageNow(it item, comp *mad.Completion) {
	var ni smp.NodeInfo
	if answer(comp) != nil || ni.Decode(smp.Data(comp.MAD)) != nil || c.f == nil || int(it.node()) >= len(c.f.nodes) {
		return
	}
	n := &c.f.nodes[it.node()]
	if n.info.NodeGUID != ni.NodeGUID || n.info.SystemImageGUID == ni.SystemImageGUID {
		return
	}
	n.info.SystemImageGUID = ni.SystemImageGUID
	if c.phase == PhaseIdle && c.state == subnet.Master {
		c.publish()
	}
}
