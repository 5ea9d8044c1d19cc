package sm

import (
	"slices"
	"strconv"
	"time"

	"heddle/ib"
	"heddle/mad"
	"heddle/subnet"
)

// maxAttempts is how many sweeps in a row are made at once when something
// failed or changed meanwhile, before the subnet is declared up without it.
const maxAttempts = 3

// endSweep closes a full sweep: it publishes what was reached, says that the
// subnet is up, and arms what comes next.
func (c *Core) endSweep() {
	finished := c.phase == PhaseActivate
	c.breaks, c.breakAt = 0, mad.Never
	c.enter(PhaseIdle)
	c.sweeps++
	if !c.reg.on {
		c.fullSweeps++
	}
	defer c.forgetNew()
	c.pk.look = true
	// Routes that are refused do not make the fabric less known, but what came
	// up is still to be brought up.
	c.sound = c.errs == 0 && (finished || c.refused)
	if c.sound && c.refused {
		c.armAll = true
	}
	c.wantFull = c.wantFull || c.errs > 0
	c.endRepair()
	r := c.report
	r.Took = c.now.Sub(c.sweepStart)
	c.statSweep(&r)
	c.prune()
	r.Problems = len(c.f.problems)
	c.compare()

	mendable := c.errs > 0 || c.again || c.refused
	if finished {
		c.firstTime = c.firstTime && c.errs > 0
	}
	// The same fabric gives the same tables: there is no haste after a refusal.
	immediately := (c.errs > 0 || c.again) && c.state == subnet.Master && c.attempts < maxAttempts
	if c.again && c.state != subnet.Standby {
		immediately = c.attempts < maxAttempts
	}
	r.Again = immediately
	if c.state == subnet.Master && finished && !immediately && !c.up {
		c.up = true
	}
	c.out.notify(Notice{Kind: KindSweepEnd, Level: Info, Dur: r.Took, Text: r.summary(), Report: &r})
	c.lastReport = &r
	wasUp := c.snap != nil && c.snap.Up
	c.publishSweep()
	c.readSmall()
	if !r.Region {
		c.looked = c.now
	}
	if c.lostLinks() {
		c.cutEndsHoldTraps()
		c.lookNow = true
		c.watch, c.watchAt = 2*watchFirst, c.now.Add(watchFirst)
	}
	c.endRegion()
	if c.up && !wasUp && c.state == subnet.Master {
		counts := c.snap.Counts
		c.upCounts = counts
		c.out.notify(Notice{Kind: KindSubnetUp, Level: Info, Dur: r.Took, Up: &counts, Report: &r, Text: countsText(counts)})
	}
	c.keepSmall(finished)
	switch {
	case immediately:
		c.attempts++
		c.sweepWhy = "something failed in the sweep before"
		if c.again {
			c.sweepWhy = c.againWhy
		}
		c.wantSweep = true
	case c.again && c.state == subnet.Master:
		c.trapAt, c.sweepWhy = c.now.Add(c.cfg.TrapMinGap), c.againWhy
	case mendable && !c.refused || c.errs > 0 || len(c.f.problems) > 0:
		// Left out for now; the interval grows while nothing changes.
		if c.retryAt == mad.Never {
			c.retryAt = c.now.Add(c.cfg.RetryInterval << min(c.retryWait, 4))
			c.retryWait++
		}
	default:
		c.retryAt, c.retryWait = mad.Never, 0
	}
	if !mendable {
		c.attempts = 0
	}
	c.again = false
	c.armLight()
	if c.cfg.FullInterval > 0 && c.fullAt == mad.Never {
		c.fullAt = c.now.Add(c.cfg.FullInterval)
	}
}

// forgetNew: what was new in a full sweep is so no more.
func (c *Core) forgetNew() {
	for i := range c.f.nodes {
		c.f.nodes[i].flags &^= nNew | nAgain
	}
}

// After a fault light sweeps follow each other at growing intervals for a while. The
// traps of a further fault may be lost where the first broke their paths, and an agent
// that has just sent one holds the next back for up to a second.
const (
	watchFirst = 25 * time.Millisecond
	watchLast  = 800 * time.Millisecond
)

// lightWithin brings the next light sweep forward, also if another sweep comes first.
func (c *Core) lightWithin(d time.Duration) {
	c.watchAt = min(c.watchAt, c.now.Add(d))
	c.lightAt = min(c.lightAt, c.watchAt)
}

// watched is called when all switches have been asked.
func (c *Core) watched() {
	c.looked = c.now
	if c.watchAt > c.now {
		return
	}
	c.watchAt = mad.Never
	if c.watch > 0 {
		c.watchAt = c.now.Add(c.watch)
		if c.watch *= 2; c.watch > watchLast {
			c.watch = 0
		}
	}
}

// armLight sets the time of the next light sweep. Sweeps of a region do not put it off:
// with hosts that join and leave all the time there would never be one.
func (c *Core) armLight() {
	c.lightAt = mad.Never
	if c.wantSweep {
		return // it is armed, and what is to be looked at now remembered, until after that
	}
	for _, g := range c.lightMissed {
		_, there := c.f.find(g)
		c.lookNow = c.lookNow || there
	}
	c.lightMissed = c.lightMissed[:0]
	if c.state == subnet.Master && c.cfg.SweepInterval > 0 && !c.waitHand {
		c.lightAt = min(c.looked.Add(c.cfg.SweepInterval), c.watchAt)
		if c.lookNow {
			c.lightAt = c.now
		}
	}
	c.lookNow = false
}

// keepSmall drops what is not needed between sweeps.
func (c *Core) keepSmall(finished bool) {
	if finished && c.state == subnet.Master {
		c.last = nil
	}
	if len(c.todo.buf) > 4096 {
		c.todo = queue{}
	}
	c.result, c.dist.res = nil, nil
}

func countsText(n subnet.Counts) string {
	s := plural(n.Switches, "switch") + ", " + plural(n.CAs, "CA") + ", " + strconv.Itoa(n.LinksActive) + " of " +
		plural(n.Links, "link") + " active, " + plural(n.LIDs, "LID")
	if n.Routers > 0 {
		s += ", " + plural(n.Routers, "router")
	}
	if n.Problems > 0 {
		s += ", " + plural(n.Problems, "problem")
	}
	return s
}

func (r *SweepReport) summary() string {
	what := ""
	if r.Region {
		what = "region of " + plural(r.Read, "switch") + ", "
	}
	return r.Reason + ": " + what + plural(int(r.SMPs), "SMP") + ", " + plural(r.BlocksSent, "LFT block") + " sent, " +
		plural(r.Armed, "port") + " armed, " + plural(r.Problems, "problem")
}

func (c *Core) statSweep(r *SweepReport) {
	var st mad.Stats
	c.eng.Stats(&st)
	for _, a := range st.Attrs {
		r.SMPs += a.Sent - a.Retried
		r.Retried += a.Retried
		r.TimedOut += a.TimedOut
	}
	for _, a := range c.madBase.Attrs {
		r.SMPs -= a.Sent - a.Retried
		r.Retried -= a.Retried
		r.TimedOut -= a.TimedOut
	}
}

// compare tells what appeared and what disappeared since the last sweep, once
// a first one is there to compare with.
func (c *Core) compare() {
	if c.last == nil || c.f == nil || len(c.f.nodes) == 0 {
		return
	}
	report := func(a, b *fab, k Kind, text string) {
		n := 0
		for i := range a.nodes {
			if _, ok := b.find(a.nodes[i].info.NodeGUID); ok || a.nodes[i].flags&nGone != 0 {
				continue
			}
			if n++; n > 64 { // a whole rack: the counts say the rest
				break
			}
			c.out.notify(Notice{Kind: k, Level: Info, Where: a.where(int32(i), -1), Text: text})
		}
	}
	report(c.f, c.last, KindNodeNew, "joined the subnet")
	report(c.last, c.f, KindNodeGone, "left the subnet")
	c.compareLinks()
}

func (c *Core) compareLinks() {
	f, g := c.f, c.last
	n := 0
	for i := range f.nodes {
		if !f.nodes[i].isSwitch() {
			continue
		}
		j, ok := g.find(f.nodes[i].info.NodeGUID)
		if !ok || g.nodes[j].info.NumPorts != f.nodes[i].info.NumPorts {
			continue
		}
		for k := 1; k <= int(f.nodes[i].info.NumPorts); k++ {
			p, q := f.portOf(int32(i), uint8(k)), g.portOf(j, uint8(k))
			if p.has(pLinked) == q.has(pLinked) {
				continue
			}
			if n++; n > 64 {
				return
			}
			kind, text := KindLinkUp, "the link is up"
			if q.has(pLinked) {
				kind, text = KindLinkDown, "the link is down"
			}
			c.out.notify(Notice{Kind: kind, Level: Info, Where: f.where(int32(i), k), Text: text})
		}
	}
}

// markNew finds the nodes that were not in the last sweep of this mastership.
func (c *Core) markNew() {
	for i := range c.f.nodes {
		n := &c.f.nodes[i]
		if c.snap == nil || !c.snap.Up || c.snap.NodeByGUID(n.info.NodeGUID) < 0 {
			n.flags |= nNew
		}
	}
}

// noteOnce reports whether a fact is news: it was not told in this sweep nor
// in the one before.
func (c *Core) noteOnce(key string) bool {
	if c.noted == nil {
		c.noted = map[string]uint64{}
	}
	_, told := c.noted[key]
	c.noted[key] = c.fullSweeps
	return !told
}

// prune forgets the facts that the last sweep did not confirm.
func (c *Core) prune() {
	for k, s := range c.noted {
		if s+1 < c.fullSweeps {
			delete(c.noted, k)
		}
	}
}

// publish builds a snapshot of what is known and hands it out.
func (c *Core) publish() {
	s := c.buildSnapshot()
	c.gen++
	s.Gen = c.gen
	s.Finish()
	c.snap = s
	c.out.Publish = s
}

// publishState publishes the last snapshot again with our new state.
func (c *Core) publishState() {
	s := &subnet.Snapshot{}
	if c.snap != nil {
		*s = *c.snap
	} else {
		s.Self = subnet.NoRef
	}
	c.fillHead(s)
	if c.state != subnet.Master {
		s.Up = false
	}
	c.gen++
	s.Gen = c.gen
	if c.snap == nil {
		s.Finish()
	}
	c.snap = s
	c.out.Publish = s
}

func (c *Core) fillHead(s *subnet.Snapshot) {
	s.State, s.Up = c.state, c.up
	s.Prefix, s.PortGUID, s.Priority = c.cfg.Prefix, c.cfg.PortGUID, c.cfg.Priority
	s.SMKey, s.ActCount = c.cfg.SMKey, c.actCount
	s.Engine, s.PassedOver, s.Transition = c.engine, c.passed, c.transit
	s.PacketLife = c.cfg.SubnetTimeOut
	s.Partitions, s.BasePartitions = c.pk.grants.Policy(), c.pk.base
	s.LID = c.ownLID()
	s.Master = subnet.SM{}
	switch {
	case c.state == subnet.Master && !c.waitHand:
		s.Master = subnet.SM{GUID: c.cfg.PortGUID, LID: s.LID, Priority: c.cfg.Priority, State: subnet.Master, ActCount: c.actCount}
	case c.master.info.GUID != 0:
		s.Master = c.master.public()
	}
	s.SMs = nil
	for i := range c.others {
		s.SMs = append(s.SMs, c.others[i].public())
	}
}

// snapPort is a port as a snapshot shows it; at gives the snapshot's index of
// a node.
func (c *Core) snapPort(at []int32, p *port) subnet.Port {
	f := c.f
	q := subnet.Port{
		GUID: p.guid, Info: p.info, Peer: subnet.NoRef, Node: at[p.node], EndPort: -1,
		Num: p.num, Known: p.has(pKnown), LID: p.lid, LMC: p.lmc, Held: p.has(pHeld), Aliases: c.aliasesOf(p),
		PKeys: c.pKeysOf(p), Adapter: c.adapterOf(p),
	}
	q.Info.MKey = 0 // keys are nobody's business
	if f.nodes[p.node].isSwitch() && p.num > 0 {
		p0 := f.portOf(p.node, 0)
		q.GUID, q.LID, q.LMC = p0.guid, p0.lid, p0.lmc
	}
	if p.has(pLinked) {
		q.Peer = ref{Node: at[p.peer.Node], Port: p.peer.Port}
		q.Rate = c.rate(p)
		q.MTU = p.info.NeighborMTU
	}
	if q.MTU < 1 || q.MTU > 5 {
		q.MTU = min(max(p.info.MTUCap, 1), 5)
	}
	if q.Rate == 0 && p.num == 0 {
		// Port 0 of a switch has no link, but may say how fast it is.
		if q.Rate = c.rate(p); q.Rate == 0 {
			q.Rate = ib.RateOf(ib.Width4x, ib.SpeedSDR)
		}
	}
	return q
}

// publishSweep publishes what a sweep found. After a sweep of a region that
// changed no node and no address the last snapshot is carried over.
func (c *Core) publishSweep() {
	old, r := c.snap, &c.reg
	if c.state == subnet.Master && c.up && c.f.graph == nil && old != nil {
		// It came to nothing, as when our own node did not answer: the subnet is as it
		// was, as far as we know.
		c.publishState()
		return
	}
	if !r.on || old == nil || c.snapOf != c.f || r.born || r.died || r.anew || r.moved || r.wide || c.floatSnap || old.Graph == nil {
		c.publish()
		return
	}
	f := c.f
	s := &subnet.Snapshot{}
	*s = *old
	c.fillHead(s)
	s.SweepNanos = int64(c.now.Sub(c.sweepStart))
	s.Problems = append(c.heldProblems(), f.problems...)
	s.Graph, s.Tables = f.graph, c.told()
	c.movedSnap = false
	touched := make([]int32, 0, len(r.nodes))
	if len(r.nodes) > 0 {
		s.Ports = slices.Clone(old.Ports)
		s.Nodes = slices.Clone(old.Nodes)
	}
	for _, n := range r.nodes {
		if f.nodes[n].flags&nGone != 0 {
			continue
		}
		i := c.snapAt[n]
		nd := &s.Nodes[i]
		nd.Switch = f.nodes[n].sw
		touched = append(touched, i)
		ports := f.nodePorts(n)
		for k := range ports {
			q := &s.Ports[int(nd.First)+k]
			e := q.EndPort
			*q = c.snapPort(c.snapAt, &ports[k])
			q.EndPort = e
		}
	}
	c.carryTables(s, old)
	touched, vports := c.showHeld(s, old, touched)
	if old.Veiled || len(old.Unsure) > 0 {
		c.showVeil(s)
	}
	s.Carry(old, touched, vports...)
	c.gen++
	s.Gen = c.gen
	c.snap = s
	c.out.Publish = s
}

func (c *Core) buildSnapshot() *subnet.Snapshot {
	f := c.f
	s := &subnet.Snapshot{Self: subnet.NoRef, SweepNanos: int64(c.now.Sub(c.sweepStart))}
	c.fillHead(s)
	if f == nil {
		return s
	}
	s.Problems = append(c.heldProblems(), f.problems...)
	order := make([]int32, 0, len(f.nodes)) // snapshot index → fab index
	for i := range f.nodes {
		if f.nodes[i].flags&nGone == 0 {
			order = append(order, int32(i))
		}
	}
	slices.SortFunc(order, func(a, b int32) int {
		switch x, y := f.nodes[a].info.NodeGUID, f.nodes[b].info.NodeGUID; {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
	at := make([]int32, len(f.nodes)) // fab index → snapshot index
	for i, o := range order {
		at[o] = int32(i)
	}
	s.Nodes = make([]subnet.Node, len(order))
	s.Ports = make([]subnet.Port, 0, len(f.ports))
	portAt := make([]int32, len(f.ports))
	paths := slices.Clone(f.paths)
	for i, o := range order {
		n := &f.nodes[o]
		s.Nodes[i] = subnet.Node{
			Info: n.info, Desc: n.desc, First: int32(len(s.Ports)), SwitchIndex: -1, Switch: n.sw,
			Path: paths[n.path.off : n.path.off+uint32(n.path.n) : n.path.off+uint32(n.path.n)], OK: n.ok(),
			Unseen: n.flags&nUnseen != 0,
		}
		for k := range f.nodePorts(o) {
			portAt[int(n.first)+k] = int32(len(s.Ports))
			s.Ports = append(s.Ports, c.snapPort(at, f.portOf(o, uint8(k))))
		}
	}
	c.showVeil(s)
	c.snapOf, c.snapAt = f, at
	c.guids.shown, c.pk.shown, c.pk.news = c.guids.shown[:0], c.pk.shown[:0], false // all is shown
	if f.self.Node >= 0 {
		s.Self = ref{Node: at[f.self.Node], Port: f.self.Port}
	}
	if f.graph == nil {
		// Not ours to manage: the LIDs that ports show are those in force.
		e := int32(0)
		for i := range s.Ports {
			if p := &s.Ports[i]; p.LID == 0 && p.Known && p.Info.LID.IsUnicast() && (p.Num == 0 || s.Nodes[p.Node].Info.NodeType != ib.NodeSwitch) {
				p.LID, p.LMC, p.EndPort = p.Info.LID, p.Info.LMC, e
				e++
			}
		}
		return s
	}
	s.Graph, s.Tables = f.graph, c.told()
	c.movedSnap, c.floatSnap = false, false
	s.SwitchNode = make([]int32, len(f.swNode))
	for i, ni := range f.swNode {
		s.SwitchNode[i] = at[ni]
		s.Nodes[at[ni]].SwitchIndex = int32(i)
	}
	s.EndPortPort = make([]int32, len(f.epPort))
	for e, pi := range f.epPort {
		s.EndPortPort[e] = portAt[pi]
		q := &s.Ports[portAt[pi]]
		q.EndPort, q.LID, q.LMC = int32(e), f.graph.EndPorts[e].LID, f.graph.EndPorts[e].LMC
	}
	c.showVPorts(s)
	c.showTables(s)
	if s.Tables != nil && len(s.Tables.LFT) != len(f.swNode) {
		s.Tables = nil // of another set of switches: nothing was installed for this one
	}
	return s
}
