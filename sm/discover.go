package sm

import (
	"errors"
	"fmt"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sm/notice"
	"heddle/sm/topo"
	"heddle/sm/work"
	"heddle/subnet"
)

// Discovery reads the fabric from scratch in propagation order (R. Casado et
// al., 2003, §2.2): every answer triggers the questions it makes possible. A
// link between two switches is asked from both ends, except the one by which a
// switch was found, whose answer proves both ends; so a cable, a duplicate
// GUID or a moved node cannot be mistaken silently.

// askSweep wants a full sweep: now if nothing is under way, else after it.
func (c *Core) AskFullSweep(why string) {
	c.next.full = true
	c.AskSweep(why)
}

// ask wants a sweep: of the suspects, unless everything is to be read.
func (c *Core) AskSweep(why string) {
	c.router.Sign()
	if c.BetweenSweeps() {
		c.next.wanted, c.next.why = true, why
		c.next.pressAt = min(c.next.pressAt, c.Now.Add(pressTime))
		return
	}
	c.sweep.again, c.sweep.againWhy = true, why
}

// startAskedSweep starts a sweep that was asked for, if there is one.
func (c *Core) startAskedSweep() bool {
	if !c.next.wanted || c.State == subnet.Standby || c.State == subnet.NotActive {
		return false
	}
	c.startSweep(c.next.why)
	return true
}

// startSweep begins a sweep: of the region that is under suspicion if
// everything else is known for sure, else a full one.
func (c *Core) startSweep(why string) {
	c.endRegion()
	part := c.regionFits()
	c.cancelAll()
	c.pkeys.DropAsked()
	c.mastership.Canceled()
	c.next.wanted, c.sweep.again, c.sweep.recheck = false, false, false
	c.Errs, c.sweep.refused = 0, false
	c.traps.SweepBegins()
	c.light.SweepBegins()
	c.install.NewSweep()
	if !part {
		c.schedule.retryAt = mad.Never // a region may be elsewhere than what was left out
	}
	c.next.pressAt, c.next.urgent, c.breaking.at, c.peeking.switches = mad.Never, false, mad.Never, c.peeking.switches[:0]
	c.Report = notice.SweepReport{Reason: why, Region: part}
	c.next.full, c.sweep.sound = false, false
	c.router.NewSweep(c.next.groups || c.sweep.unfinished)
	c.next.groups, c.sweep.unfinished = false, false
	c.Engine.Stats(&c.sweep.madBase)
	c.PhaseStart, c.sweep.start = c.Now, c.Now
	c.Notify(notice.Notice{Kind: notice.KindSweepStart, Level: notice.Info, Text: why})
	if part {
		c.startRegion()
		return
	}
	c.startDiscover()
}

func (c *Core) startDiscover() {
	c.next.suspects = c.next.suspects[:0]
	c.light.Forget()
	c.breaking.carry = carry{nodes: c.breaking.carry.nodes[:0]}
	c.Engine.Cancel(uint64(work.OpPeek)<<56, uint64(work.OpPeekPort)<<56|1<<56-1)
	c.router.ReadsAll()
	if c.Fabric != nil && c.Fabric.Graph != nil {
		c.Last = c.Fabric
	}
	c.Fabric = topo.New(c.Last)
	c.lanes.NewFabric()
	c.install.NewFabric()
	c.mkeys.Collect()
	c.mastership.Forget()
	c.late = c.late[:0]
	c.enter(notice.PhaseDiscover)
	c.Add(work.Make(work.OpNodeInfo, -1, 0, 0))
}

// onNodeInfo takes the answer of whoever is behind from, or of our own node.
func (c *Core) onNodeInfo(it work.Item, comp *mad.Completion) {
	f := c.Fabric
	from := ref{Node: it.Node(), Port: it.Port()}
	var ni smp.NodeInfo
	err := work.Answer(comp)
	if err == nil {
		if err = ni.Decode(smp.Data(comp.MAD)); err == nil {
			err = saneNodeInfo(&ni, from.Node < 0)
		}
		if err == nil {
			err = c.absent.PlausibleNode(from, &ni)
		}
		if err != nil {
			c.garbage(f.Behind(from), smp.AttrNodeInfo, err)
		}
	} else if mad.Unanswered(err) {
		if _, more := c.mkeys.Guess(from, it.Extra()+1); more {
			c.Add(work.Make(work.OpNodeInfo, it.Node(), it.Port(), it.Extra()+1))
			return
		}
		c.silent(from, err)
	} else {
		c.garbage(f.Behind(from), smp.AttrNodeInfo, err)
	}
	if err != nil {
		if from.Node >= 0 {
			f.Port(from).Flags |= topo.PortSilent
		}
		c.absent.SilentBehind(from)
		return
	}
	used, _ := c.mkeys.Guess(from, it.Extra())
	if c.absent.Elsewhere(from, ni.NodeGUID) {
		c.late = append(c.late, lateNode{from, ni, used})
		return
	}
	c.found(from, &ni, used)
}

// found takes what the node behind from says about itself.
func (c *Core) found(from ref, ni *smp.NodeInfo, used ib.MKey) {
	f := c.Fabric
	idx, known := f.Find(ni.NodeGUID)
	if !known {
		c.newNode(from, ni, used)
		return
	}
	n := &f.Nodes[idx]
	if n.Flags&topo.NodeUnseen != 0 {
		c.absent.Heard(ni.NodeGUID)
		c.AskFullSweep("what did not answer before does now: " + f.Where(idx, -1).String())
	}
	if n.Info.NodeType != ni.NodeType || n.Info.NumPorts != ni.NumPorts ||
		n.IsSwitch() && n.Info.PortGUID != ni.PortGUID {
		c.duplicate(from, idx, int(ni.LocalPortNum), "the two differ in type, port count or port GUID")
		return
	}
	if from.Node < 0 {
		return
	}
	to := ref{Node: idx, Port: ni.LocalPortNum}
	if c.Region {
		if c.metAgain(from, to); c.reg.give != "" {
			return
		}
	}
	c.Fabric.Measure(from, to)
	if q := f.Port(to); !n.IsSwitch() && q.Peer == subnet.NoRef() {
		c.newPort(from, to, ni, used)
	}
}

// saneNodeInfo refuses what no node can say.
func saneNodeInfo(ni *smp.NodeInfo, own bool) error {
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

// newNode adds a node that was not seen before and asks all about it.
func (c *Core) newNode(from ref, ni *smp.NodeInfo, used ib.MKey) {
	f := c.Fabric
	var path topo.PathRef
	if from.Node < 0 {
		path = f.AddPath(nil)
	} else {
		path = f.AddPath(c.Fabric.Hop(from))
	}
	idx := f.AddNode(ni, path)
	n := &f.Nodes[idx]
	n.Via = from
	if c.Region {
		c.touch(idx)
		n.Flags |= topo.NodeNew
		c.reg.born = true
	}
	at := ref{Node: idx, Port: ni.LocalPortNum}
	if from.Node < 0 {
		f.Self = at
		c.Config.PortGUID = ni.PortGUID
	} else {
		c.Fabric.Measure(from, at)
	}
	c.Add(work.Make(work.OpNodeDesc, idx, ni.LocalPortNum, 0))
	if !n.IsSwitch() {
		c.newPort(from, at, ni, used)
		return
	}
	p0 := f.PortOf(idx, 0)
	p0.Path, p0.MKey = path, used
	if from.Node >= 0 {
		q := f.Port(at)
		q.Peer = from
		q.Flags |= topo.PortProved
	}
	c.Add(work.Make(work.OpSwitchInfo, idx, 0, 0))
	for p := 0; p <= int(ni.NumPorts); p++ {
		c.Add(work.Make(work.OpPortInfo, idx, uint8(p), 0))
	}
}

// newPort adds the port of a CA or router by which it was reached.
func (c *Core) newPort(from, at ref, ni *smp.NodeInfo, used ib.MKey) {
	f := c.Fabric
	q := f.Port(at)
	q.GUID = ni.PortGUID
	q.MKey = used
	if c.Region {
		c.touch(at.Node)
		c.reg.born = c.reg.born || q.LID == 0
	}
	if from.Node < 0 {
		q.Path = f.Nodes[at.Node].Path
	} else {
		q.Path = f.AddPath(c.Fabric.Hop(from))
		q.Peer = from
		q.Flags |= topo.PortProved
	}
	c.Add(work.Make(work.OpPortInfo, at.Node, at.Port, 0))
}

// onPortInfo takes a PortInfo of the discovery.
func (c *Core) onPortInfo(it work.Item, comp *mad.Completion) {
	f := c.Fabric
	n, num := it.Node(), it.Port()
	p := f.PortOf(n, num)
	err := work.Answer(comp)
	var se *work.StatusError
	if errors.As(err, &se) && se.Status&ib.StatusInvalidField == ib.StatusInvalidField && it.Extra()&1 == 0 {
		p.Flags |= topo.PortNoExt // an agent that does not know the extended-speed bit
		c.Add(work.Make(work.OpPortInfo, n, num, it.Extra()|1))
		return
	}
	var pi smp.PortInfo
	if err == nil {
		err = pi.Decode(smp.Data(comp.MAD))
	}
	if err == nil && (pi.PortState < ib.StateDown || pi.PortState > ib.StateActiveDefer) && !(f.Nodes[n].IsSwitch() && num == 0) {
		err = fmt.Errorf("port state %d", pi.PortState)
	}
	if err == nil {
		if was := c.absent.LastPort(n, num); was != nil {
			err = c.absent.Plausible(was, &pi)
		}
	}
	if p.Has(topo.PortAsked) && !c.Region {
		if err == nil {
			p.Info.PortState = pi.PortState
		}
		return // only its state was of interest, and the silence behind it is noted
	}
	switch {
	case err == nil:
		p.Info = pi
		p.Flags |= topo.PortKnown
	case it.Extra()>>1 == 0 || !p.Has(topo.PortKnown):
		c.unread(n, int(num), smp.AttrPortInfo, err)
		return
	} // else it was asked with another key, and what it said before stands
	ap := f.AgentPort(n, num)
	if ap == p && p.Info.MKey != 0 {
		p.MKey = p.Info.MKey
	}
	if ap == p && p.Info.MKey == 0 && p.Info.MKeyProtectBits == 1 {
		for try := it.Extra() >> 1; ; try++ {
			k, more := c.mkeys.NextHidden(try)
			if !more {
				break
			}
			if k != p.MKey {
				p.MKey = k
				c.Add(work.Make(work.OpPortInfo, n, num, it.Extra()&1|(try+1)<<1))
				return
			}
		}
	}
	nd := &f.Nodes[n]
	if nd.IsSwitch() {
		if num == 0 {
			c.endPortFound(n, p)
			return
		}
		if p.LinkUp() && !p.Has(topo.PortProved) {
			c.askBehind(n, num)
		}
		return
	}
	c.endPortFound(n, p)
	if n == f.Self.Node && num == f.Self.Port && p.LinkUp() {
		c.askBehind(n, num)
	}
}

// endPortFound asks what only ports with a LID have.
func (c *Core) endPortFound(n int32, p *topo.Port) {
	p.Flags |= topo.PortEnd
	if c.Fabric.Nodes[n].Info.PartitionCap > 0 && !c.Config.PlanOnly {
		c.pkeys.Discovered(p)
	}
	if p.Info.CapabilityMask.Has(ib.CapIsSM) && (ref{Node: n, Port: p.Num}) != c.Fabric.Self {
		c.Add(work.Make(work.OpSMInfo, n, p.Num, 0))
	}
}

// askBehind asks who is at the far end of a port that is up.
func (c *Core) askBehind(n int32, p uint8) {
	if c.links.KeptOut(ref{Node: n, Port: p}, false) {
		return
	}
	if len(c.Fabric.AgentPath(n, p)) >= smp.MaxHops {
		c.Fabric.PortOf(n, p).Flags |= topo.PortSilent
		c.Problem(c.Fabric.Behind(ref{Node: n, Port: p}), notice.Notice{
			Kind: notice.KindTooFar, Level: notice.Warn, Where: c.Fabric.Where(n, int(p)),
			Text: "what is behind this port is more than 63 hops away, which no directed route reaches: run the manager nearer to the middle",
		})
		return
	}
	if at := (ref{Node: n, Port: p}); c.absent.AskedBefore(at) {
		c.Fabric.Port(at).Flags |= topo.PortSilent
		c.silent(at, mad.ErrTimeout)
		return
	}
	c.Add(work.Make(work.OpNodeInfo, n, p, 0))
}

func (c *Core) onSwitchInfo(it work.Item, comp *mad.Completion) {
	n := &c.Fabric.Nodes[it.Node()]
	err := work.Answer(comp)
	var sw smp.SwitchInfo
	if err == nil {
		err = sw.Decode(smp.Data(comp.MAD))
	}
	o := c.absent.LastNode(it.Node())
	if c.Region {
		o = n
	}
	if err == nil && o != nil && o.Flags&topo.NodeSwitchInfo != 0 {
		err = c.absent.PlausibleSwitch(n, &o.Switch, &sw)
	}
	if err != nil {
		c.unread(it.Node(), -1, smp.AttrSwitchInfo, err)
		return
	}
	n.Switch = sw
	n.Flags |= topo.NodeSwitchInfo
}

// discovered ends a discovery.
func (c *Core) discovered() bool {
	if c.Region {
		return c.explored()
	}
	if c.keepUnseen() || c.lateFound() {
		return true
	}
	f := c.Fabric
	if len(f.Nodes) == 0 { // not even our own node answered
		c.Errs++
		c.endSweep()
		return true
	}
	if c.readResetAgain() {
		return true
	}
	own := f.Port(f.Self)
	if !own.Has(topo.PortKnown) || !f.Nodes[f.Self.Node].IsSwitch() && !own.LinkUp() {
		return c.ownPortDown(own.Has(topo.PortKnown))
	}
	for i := range f.Nodes {
		n := &f.Nodes[i]
		if n.IsSwitch() {
			if n.Flags&topo.NodeSwitchInfo == 0 {
				c.Fabric.Exclude(int32(i), "SwitchInfo could not be read")
			} else if !f.PortOf(int32(i), 0).Has(topo.PortKnown) {
				c.Fabric.Exclude(int32(i), "PortInfo of port 0 could not be read")
			}
		}
	}
	if bad := c.checkLinks(false); bad != 0 && bad != c.sweep.conflicts && !c.sweep.recheck {
		// A cable may have been moved while we looked: look once more.
		c.sweep.recheck = true
		c.Report.Reason += "; the ends of a link disagreed, discovered again"
		problems := c.sweep.again
		c.startDiscover()
		c.sweep.again = problems
		return true
	}
	c.absent.Settle()
	c.sweep.conflicts = c.checkLinks(true)
	c.links.Compare()
	c.Fabric.MarkLinks()
	c.markNew()
	if f.Nodes[0].Flags&topo.NodeOut != 0 {
		c.Errs++
		c.endSweep()
		return true
	}
	return c.decide()
}

// readResetAgain asks switches whose links all came up anew, but whose port 0
// showed a LID, once more: they may have been reset after that was read. It
// reports whether it asked any.
func (c *Core) readResetAgain() bool {
	f := c.Fabric
	asked := false
	for i := range f.Nodes {
		n := &f.Nodes[i]
		if !n.IsSwitch() || n.Flags&(topo.NodeSwitchInfo|topo.NodeAgain) != topo.NodeSwitchInfo {
			continue
		}
		if p0 := f.PortOf(int32(i), 0); p0.Has(topo.PortKnown) && p0.Info.LID != 0 && c.Fabric.AllInit(int32(i)) {
			n.Flags |= topo.NodeAgain
			c.Add(work.Make(work.OpSwitchInfo, int32(i), 0, 0))
			c.Add(work.Make(work.OpPortInfo, int32(i), 0, 0))
			asked = true
		}
	}
	return asked
}

// checkLinks compares what the two ends of each link say. It returns a
// fingerprint of the disagreements, 0 if there are none, and reports them if
// told to.
func (c *Core) checkLinks(report bool) int {
	f := c.Fabric
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
		// An end behind which nobody answered, and that led here before, still does.
		if q.Peer == subnet.NoRef() && q.Has(topo.PortSilent) && c.absent.LedTo(b, a) {
			q.Peer = a
			continue
		}
		sum = sum*31 + int(a.Node)<<8 + int(a.Port) + 1
		if !report {
			continue
		}
		switch {
		case q.Peer != subnet.NoRef():
			c.duplicate(a, b.Node, int(b.Port), "seen behind "+f.Where(a.Node, int(a.Port)).String()+
				" and behind "+f.Where(q.Peer.Node, int(q.Peer.Port)).String())
		default:
			p.Flags |= topo.PortBadPeer
			c.Problem(notice.Where{}, notice.Notice{
				Kind: notice.KindLinkMismatch, Level: notice.Warn, Where: f.Where(a.Node, int(a.Port)), Peer: f.Where(b.Node, int(b.Port)),
				Text: "the first end says it leads to the second, but the second is " + q.Info.PortState.String() + " or leads nowhere; the link is left out and looked at again",
			})
		}
	}
	return sum
}

// ownPortDown: our port has no link (or cannot be read), so there is no
// subnet to manage; forget it and look again when it may have come back.
func (c *Core) ownPortDown(read bool) bool {
	text := "our port has no link: check the cable; looked at again every retry interval"
	if !read {
		text = "PortInfo of our own port cannot be read"
	}
	c.Notify(notice.Notice{Kind: notice.KindPortDown, Level: notice.Error, Where: c.Fabric.Where(c.Fabric.Self.Node, int(c.Fabric.Self.Port)), Text: text})
	if c.State == subnet.Master {
		c.Up = false
		c.Last = nil
		c.pkeys.Forget()
		c.mastership.NoLink()
	}
	c.Errs = 0
	c.endSweep()
	c.schedule.retryAt = mad.Never
	c.schedule.reactivateAt = c.Now.Add(c.Config.RetryInterval)
	return true
}
