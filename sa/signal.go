package sa

import (
	"fmt"
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sa/holder"
	"heddle/sa/pathlog"
	"heddle/subnet"
)

// Signal says which subscribers of traps 68 and 69 are notified of changed paths. The first three
// are those of W. L. Guay's thesis, Paper II.
type Signal uint8

// The ways of signaling.
const (
	// SignalTargeted notifies the subscribers that may hold a changed path: of each path, or, if
	// there are many, that any of theirs may have changed.
	SignalTargeted Signal = iota
	// SignalRepath notifies the subscribers of each changed path from their port.
	SignalRepath
	// SignalHybrid notifies all subscribers that any path may have changed, if one did.
	SignalHybrid
	// SignalWildcard notifies all subscribers after every change of tables.
	SignalWildcard
	signalEnd
)

var signalNames = [signalEnd]string{"targeted", "repath", "hybrid", "wildcard"}

// String is the name in the setting "signal".
func (s Signal) String() string {
	if s >= signalEnd {
		return fmt.Sprintf("signal%d", uint8(s))
	}
	return signalNames[s]
}

// most is how many changed paths a subscriber is notified of one by one. Beyond it, it is
// notified that any path from its port may have changed.
func (s Signal) most() int {
	if s == SignalRepath {
		return 1024
	}
	return 32
}

const (
	// compareAtOnce bounds the comparison in one step, in changed LIDs × switches of about 30 ns:
	// joins wait during a step.
	compareAtOnce = 1 << 16
	// maxAgain is how many comparisons in a row a new snapshot may break off. After that any path
	// counts as changed.
	maxAgain = 4
	// evaluateAtOnce is how many subscribers one step looks at.
	evaluateAtOnce = 256
	// settleAfter is how long the paths must have been the same before it is stored that all
	// subscribers have them, which costs a hash of all tables.
	settleAfter = time.Second
	// announceEvery is the shortest time between two values of Output.Notified that are not 0.
	announceEvery = 100 * time.Millisecond
	// signalBurst is how many Reports about paths may be sent at once after a pause.
	signalBurst = 64
	// signalLate is how many of them may be sent at once because a timer was late. The hosts'
	// queries come as the Reports go: many at once would delay those of others.
	signalLate = 2
)

// signals notifies subscribers of changed paths. What a subscriber has to be notified of follows
// from the log and from the generation that it acknowledged. So an unanswered Report loses
// nothing, and several changes of one path are one Report.
type signals struct {
	cfg Config

	log     pathlog.Log
	base    *subnet.Snapshot // compared last; nil: this manager serves no subnet
	cmp     *pathlog.Comparer
	to      *subnet.Snapshot // compared with base
	back    []pathlog.Moved  // lost GUIDs that returned with another LID since base
	anyPath bool             // any path may have changed since base
	again   int

	held     *holder.Table
	veterans map[ib.GUID]bool // ports that may hold paths from before this mastership
	unsure   bool             // hosts were not notified of all that changed before this mastership
	stale    map[ib.GUID]bool // ports in the subnet whose unfinished notification was given up

	history history

	due    [2]queue // by priority: peers whose service levels changed first
	paused queue    // peers that are due, and did not answer a moment ago
	pause  mad.Time // when the pause of the next of them ends
	peers  int      // with subscriptions to traps 68 or 69
	left   int      // peers with a changed service level that have not acknowledged it
	said   Notified // announced last
	saidAt mad.Time
	flight int      // outstanding Reports about paths
	next   mad.Time // when the next Report may be sent
	spare  int      // Reports that may be sent at once, the next one included
	stats  SignalStats
}

// SignalStats counts since the start.
type SignalStats struct {
	Mode        Signal
	Gen         uint64 // newest generation
	Settled     bool   // all subscribers have it
	Subscribers int    // peers (port, QP) with subscriptions to traps 68 or 69
	Due         int    // of them, those to be notified
	Unanswered  int    // Reports about paths that are outstanding
	Levels      int    // peers to be notified of a service level
	Known       int    // ports of which it is known which paths they hold
	Changes     uint64 // changes of paths
	All         uint64 // Reports that any path may have changed
	Paths       uint64 // Reports of one path, or of the paths to one GID
	Failed      uint64 // Reports about paths that were not answered; they are repeated
	Spared      uint64 // subscribers that hold none of the changed paths
	Bytes       uint64 // of Reports about paths, first tries, 256 each
}

// pathState is what a peer was notified of.
type pathState struct {
	subs  int    // its subscriptions to traps 68 and 69
	told  uint64 // the generation that it has
	goal  uint64 // the generation that it has after todo
	todo  []pathReport
	out   bool // the outstanding Report is of todo
	learn bool // and makes the port ask for its paths again
	due   bool // it is in signals.due
	level bool // a service level changed since told
	since mad.Time
}

func (x *signals) init(cfg Config) {
	x.cfg, x.held, x.pause = cfg, new(holder.Table), mad.Never
	x.stale, x.veterans = map[ib.GUID]bool{}, map[ib.GUID]bool{}
}

// Held is where the answers to queries note the paths that they hand out; nil if nobody needs to
// know. It stays the same.
func (c *Core) Held() *holder.Table {
	if c.cfg.Signal != SignalTargeted {
		return nil
	}
	return c.signals.held
}

// queue holds peers in order of arrival.
type queue []*peer

func (q *queue) take() *peer {
	p := (*q)[0]
	(*q)[0] = nil
	*q = (*q)[1:]
	if len(*q) == 0 {
		*q = nil
	}
	return p
}

// add makes a peer due. level says that it has to learn a service level.
func (x *signals) add(p *peer, level bool, now mad.Time) {
	if level && !p.path.level {
		p.path.level = true
		x.left++
	}
	if p.path.due {
		return
	}
	if p.path.since == mad.Never {
		p.path.since = now
	}
	p.path.due = true
	i := 1
	if p.path.level {
		i = 0
	}
	x.due[i] = append(x.due[i], p)
}

// named reports whether a subscription names one of the traps about paths. Subscriptions to all
// traps do not count: few of their owners know what to do with these.
func named(s *Subscription) bool {
	return s.Info.IsGeneric == 1 && (s.Info.TrapNumber == smp.TrapUnPath || s.Info.TrapNumber == smp.TrapRePath)
}

// source is the port of a peer as the log knows it.
func source(s *subnet.Snapshot, port int32) (src pathlog.Source) {
	p := s.Ports[port]
	src = pathlog.Source{Port: p.GUID, Physical: s.Ports[s.Physical(port)].GUID}
	if s.Graph != nil && p.EndPort >= 0 && int(p.EndPort) < len(s.Graph.EndPorts) {
		if sw := s.Graph.EndPorts[p.EndPort].Switch; sw >= 0 {
			src.Switch = s.Graph.Switches[sw].GUID
		}
	}
	return src
}

// published takes a new snapshot.
func (x *signals) published(c *Core, now *subnet.Snapshot) {
	if now.State == subnet.Standby || now.State == subnet.NotActive {
		x.history.other = true
	}
	if !serves(now) {
		x.base, x.to, x.cmp, x.back, x.anyPath = nil, nil, nil, nil, false
		return
	}
	if x.base == nil {
		x.begin(c, now)
		return
	}
	x.ports(c, now)
	if x.cmp != nil {
		x.again++
	}
	x.cmp, x.to = nil, now
	if !pathlog.Differ(x.base, now) && len(x.back) == 0 && !x.anyPath {
		x.base, x.to = now, nil
		return
	}
	if x.peers == 0 { // there is nobody to compare for, except who asks later
		x.base, x.to, x.back, x.again, x.anyPath = now, nil, nil, 0, false
		x.forget(c)
		return
	}
	if x.again >= maxAgain || x.cfg.Signal == SignalWildcard && x.base.Tables != now.Tables && now.Tables != nil && x.base.Tables != nil {
		x.anyPath = true
	}
	if x.anyPath {
		x.changed(c, &pathlog.Change{All: true, SL: !levels(x.base, now)})
		return
	}
	x.cmp = pathlog.Compare(x.base, now, x.back)
	x.step(c)
}

// forget begins a generation before which nothing is known.
func (x *signals) forget(c *Core) {
	x.log.Begin(x.log.Gen() + 1)
	x.history.began(c, x.log.Gen())
	c.changed = true
}

// levels reports whether two snapshots share their service levels.
func levels(a, b *subnet.Snapshot) bool {
	x, y := a.Tables, b.Tables
	return x == y || x != nil && y != nil && len(x.SL) == len(y.SL) && (len(x.SL) == 0 || &x.SL[0] == &y.SL[0])
}

// step compares a part of what is to be compared.
func (x *signals) step(c *Core) {
	if x.cmp == nil {
		return
	}
	if ch := x.cmp.Step(compareAtOnce); ch != nil {
		x.cmp = nil
		x.changed(c, ch)
	}
}

// begin is for the first snapshot of a mastership.
func (x *signals) begin(c *Core, now *subnet.Snapshot) {
	x.base, x.again = now, 0
	clear(x.stale)
	clear(x.veterans)
	x.held.Reset()
	for _, i := range now.EndPortPort {
		x.veterans[now.Ports[i].GUID] = true
	}
	for i := range now.VPorts() {
		x.veterans[now.VPorts()[i].GUID] = true
	}
	x.unsure = !x.history.resume(c, now)
	x.log.Begin(x.history.gen)
	c.changed = true
	x.peers = 0
	c.subscriptions.eachPathPeer(func(p *peer) {
		x.peers++
		if p.path.told = x.log.Gen(); x.unsure {
			p.path.told = 0
			x.add(p, false, c.now)
		}
	})
	x.history.settleSoon(c.now)
}

// ports notes which ports came and left.
func (x *signals) ports(c *Core, now *subnet.Snapshot) {
	subnet.DiffEndPorts(x.base, now,
		func(i int32) {
			if g := x.base.Ports[i].GUID; !c.maybeThere(now, g) {
				delete(x.stale, g)
			}
		},
		func(i int32) {
			p := now.Ports[i]
			switch {
			case now.Veiled:
				x.veterans[p.GUID] = true
			case !x.veterans[p.GUID] && !x.held.Known(p.LID):
				x.held.Clear(p.LID)
			}
		})
}

// changed takes the result of a comparison.
func (x *signals) changed(c *Core, ch *pathlog.Change) {
	x.base, x.to, x.back, x.again, x.anyPath = x.to, nil, nil, 0, false
	x.history.settleSoon(c.now)
	if !ch.Empty() {
		x.record(c, ch, x.base)
	}
}

// record gives a change the next generation, and makes the peers due that it concerns. s is the
// newest snapshot.
func (x *signals) record(c *Core, ch *pathlog.Change, s *subnet.Snapshot) {
	gone := ch.Departures() // of which subscribers hear by trap 65
	if x.cfg.Signal == SignalHybrid && !gone {
		ch = &pathlog.Change{All: true, SL: ch.SL}
	}
	if !gone {
		x.stats.Changes++
	}
	before := x.log.Gen()
	x.log.Add(ch)
	x.history.began(c, x.log.Gen())
	c.changed = true
	c.subscriptions.eachPathPeer(func(p *peer) {
		if p.port < 0 {
			if gone && p.path.told == before {
				p.path.told = ch.Gen
			}
			return // otherwise when it returns
		}
		f := ch.For(source(s, p.port))
		switch {
		case !f.Empty():
			x.add(p, f.SL || ch.All && ch.SL, c.now)
		case p.path.told == before:
			p.path.told = ch.Gen
		}
	})
}

// subscribed is called when a peer has a new subscription to trap 68 or 69.
func (x *signals) subscribed(c *Core, p *peer) {
	if p.path.subs > 1 {
		return
	}
	x.peers++
	if x.base == nil {
		return
	}
	p.path.told = x.log.Gen()
	x.history.settleSoon(c.now)
	if g := p.gid.GUID(); x.stale[g] || x.unsure && x.veterans[g] {
		delete(x.stale, g)
		p.path.told = 0
		if x.history.settled {
			x.history.began(c, x.history.gen) // a manager that starts again must not take it for notified
		}
		x.add(p, false, c.now)
	}
}

// unsubscribed is called when a peer has one subscription less. left says that it gave up.
func (x *signals) unsubscribed(p *peer, left bool, now mad.Time) {
	if p.path.subs--; p.path.subs > 0 {
		return
	}
	x.peers--
	if left && x.base != nil && p.port >= 0 && p.path.told != x.log.Gen() {
		x.stale[p.gid.GUID()] = true
	}
	x.drop(p)
	x.history.settleSoon(now)
}

// drop forgets what a peer has to be notified of.
func (x *signals) drop(p *peer) {
	if p.path.level {
		x.left--
	}
	if p.path.out {
		x.flight--
	}
	p.path = pathState{since: mad.Never} // in a queue it is passed over
}

// resume is called when nothing may be in the way of notifying a peer any more: its port is in the
// subnet again, or another Report to it has ended.
func (x *signals) resume(p *peer, now mad.Time) {
	if p.path.subs > 0 && x.base != nil && p.path.told != x.log.Gen() && !p.path.out {
		x.add(p, false, now)
	}
}

// silence is for a manager that is not master any more.
func (x *signals) silence() {
	x.due, x.paused, x.left, x.flight = [2]queue{}, nil, 0, 0
}

// send submits the Reports that are due, at most the permitted number in a time.
func (x *signals) send(c *Core) {
	if x.history.at > c.durable {
		return
	}
	x.unpause(c.now)
	r := &c.subscriptions.reports
	looked := 0
	for i := range x.due {
		for len(x.due[i]) > 0 && r.eng.Queued() < reportWindow && x.ready(c.now) && looked < evaluateAtOnce {
			looked++
			p := x.due[i].take()
			if !p.path.due {
				continue // it has unsubscribed
			}
			if p.until > c.now {
				x.paused = append(x.paused, p)
				x.pause = min(x.pause, p.until)
				continue
			}
			if p.path.due = false; p.port >= 0 && !p.busy { // else resume is called in time
				x.notify(c, p)
			}
		}
	}
	if len(x.due[0])+len(x.due[1]) > 0 {
		switch {
		case looked >= evaluateAtOnce:
			r.pause = min(r.pause, c.now)
		case x.next > c.now:
			r.pause = min(r.pause, x.next)
		}
	}
	if len(x.paused) > 0 {
		r.pause = min(r.pause, x.pause)
	}
}

// unpause makes peers due whose pause has ended.
func (x *signals) unpause(now mad.Time) {
	if len(x.paused) == 0 || x.pause > now {
		return
	}
	list := x.paused
	x.paused, x.pause = nil, mad.Never
	for _, p := range list {
		switch {
		case !p.path.due: // it has unsubscribed
		case p.until > now:
			x.paused = append(x.paused, p)
			x.pause = min(x.pause, p.until)
		default:
			p.path.due = false
			x.add(p, false, now)
		}
	}
}

// ready reports whether one more Report may be sent now.
func (x *signals) ready(now mad.Time) bool { return x.cfg.SignalRate <= 0 || x.next <= now }

// spend accounts for a Report: SignalRate a second, one after the other, and signalBurst at once
// after a pause in which as many could have been sent.
func (x *signals) spend(now mad.Time) {
	if x.cfg.SignalRate <= 0 {
		return
	}
	each := time.Second / time.Duration(x.cfg.SignalRate)
	if now.Sub(x.next) >= signalBurst*each {
		x.spare = signalBurst
	}
	if x.spare > 1 {
		x.spare--
		x.next = now
		return
	}
	x.spare = 0
	x.next = max(x.next, now.Add(-signalLate*each)).Add(each)
}

// notify sends a peer its next Report, or finds that it needs none.
func (x *signals) notify(c *Core, p *peer) {
	if len(p.path.todo) == 0 {
		x.evaluate(c, p)
	}
	if len(p.path.todo) == 0 {
		x.upToDate(c, p)
		return
	}
	rep, all := x.report(c, p)
	p.busy, p.path.out, p.path.learn = true, true, false
	if all && x.sole(c, p) {
		p.path.learn = true
		x.held.Learn(c.snap.Ports[p.port].LID)
	}
	x.flight++
	x.stats.Bytes += ib.MADLen
	if all {
		x.stats.All++
	} else {
		x.stats.Paths++
	}
	x.spend(c.now)
	c.subscriptions.reports.submit(p, rep)
}

// upToDate is for a peer that has generation goal.
func (x *signals) upToDate(c *Core, p *peer) {
	p.path.told = p.path.goal
	if p.path.told == x.log.Gen() {
		if p.path.level {
			p.path.level = false
			x.left--
		}
		p.path.since = mad.Never
		x.history.settleSoon(c.now)
		return
	}
	x.add(p, false, c.now)
}

// done takes the end of a Report about paths.
func (x *signals) done(c *Core, p *peer, ok bool) {
	p.path.out = false
	x.flight--
	if !ok {
		x.stats.Failed++
		p.path.todo = nil // it is evaluated anew
		x.add(p, false, c.now)
		return
	}
	if p.path.learn && p.port >= 0 {
		x.held.Learned(c.snap.Ports[p.port].LID)
		delete(x.veterans, p.gid.GUID())
	}
	if p.path.todo = p.path.todo[1:]; len(p.path.todo) > 0 {
		x.add(p, false, c.now)
		return
	}
	p.path.todo = nil
	x.upToDate(c, p)
}

// sole reports whether a peer is the only program at its port that is notified of paths, so that
// what it asks for is all that the port holds.
func (x *signals) sole(c *Core, p *peer) bool {
	if x.cfg.Signal != SignalTargeted {
		return false
	}
	for range c.snap.VPortsOf(c.snap.Physical(p.port)) {
		return false
	}
	from, to := c.subscriptions.of(p.gid)
	for _, s := range c.subscriptions.all.list[from:to] {
		if named(s) && s.Addr.QP != p.addr.QP {
			return false
		}
	}
	return true
}

// announce tells the subnet manager how many have to learn a service level.
func (x *signals) announce(c *Core) {
	if x.base == nil || x.cmp != nil || x.left == x.said.Left && (x.left == 0 || x.base.Gen == x.said.Gen) {
		return
	}
	if x.left > 0 && x.said.Left > 0 && c.now < x.saidAt.Add(announceEvery) {
		return
	}
	x.said, x.saidAt = Notified{x.base.Gen, x.left}, c.now
	n := x.said
	c.out.Notified = &n
}

// away is called when the port of a peer is missing: nobody waits for it.
func (x *signals) away(p *peer) {
	if p.path.level {
		p.path.level = false
		x.left--
	}
}

// timers settles what can be.
func (x *signals) timers(c *Core) {
	x.step(c)
	x.history.settle(c)
}

func (x *signals) nextTimer(c *Core) mad.Time {
	if x.cmp != nil {
		return c.now
	}
	if x.history.settling && x.peers > 0 && x.idle() {
		return x.history.quiet
	}
	return mad.Never
}

// idle reports whether nothing is under way.
func (x *signals) idle() bool {
	return x.base != nil && x.cmp == nil && x.flight == 0 && len(x.due[0])+len(x.due[1])+len(x.paused) == 0
}
