package sa

import (
	"fmt"
	"slices"
	"time"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/mad"
)

const (
	// maxWaiting is how many Reports wait for one subscriber; beyond that the
	// oldest is dropped.
	maxWaiting = 64
	// reportWindow is how many Reports to different subscribers are in flight.
	reportWindow = 64
	// After a Report without a response a subscriber gets none for minPause,
	// doubled on each further failure up to maxPause.
	minPause = time.Second
	maxPause = 16 * time.Second
	// minFailed is how many consecutive Reports must fail, over whatever time,
	// before a subscriber is dropped.
	minFailed = 4
	// maxReportWait bounds the response time that a subscriber may request.
	maxReportWait = 4 * time.Second
)

// ReportStats counts Reports since the start.
type ReportStats struct {
	Sent     uint64 // passed to the engine, counted once regardless of retries
	Answered uint64
	Failed   uint64 // without a response
	Dropped  uint64 // not sent: the queue was full, or the subscriber is missing
	Waiting  int    // now
	Peers    int    // subscribers now
}

// reports holds waiting and outstanding Reports. Each subscriber gets one at a
// time, in the order of events, so a slow or dead subscriber delays no other.
// mad.Engine retries a Report; one to a subscriber that did not answer the
// previous Report is sent once.
type reports struct {
	eng     *mad.Engine
	peers   map[peerID]*peer
	byToken map[uint64]*peer
	tokens  uint64
	ready   []*peer   // peers with Reports to send, in order of arrival
	fresh   []*report // of this step
	event   uint64    // event number; prevents a second Report of one event to a peer
	pause   mad.Time  // when the pause of the next ready peer ends
	stats   ReportStats
}

// peerID identifies the address of a subscriber.
type peerID struct {
	port ib.GUID
	qp   uint32
}

// peer is a subscriber's address and its queue.
type peer struct {
	gid    ib.GID
	addr   mad.Addr
	wait   time.Duration // response time that the subscriber requested; 0: the engine's default
	port   int32         // index in the snapshot's Ports; -1: missing
	subs   int
	queue  []*report
	queued bool     // in reports.ready
	busy   bool     // a Report is outstanding
	event  uint64   // the last event queued for it
	failed int      // consecutive Reports without a response
	silent mad.Time // since when it is missing or unresponsive; mad.Never: it is neither
	until  mad.Time // it gets no Reports until then
	token  uint64
	trip   roundTrip // of answered Reports
	path   pathState // of traps 68 and 69
}

// report is one Report, shared by all its recipients.
type report struct {
	data [wire.NoticeLen + wire.PathNoticeLen]byte
	n    int
	gen  uint64 // the store generation that it depends on
	// rests: it is about a change of that generation, not about the subnet.
	rests bool
}

func (x *reports) init(cfg Config) {
	x.eng = mad.NewEngine(mad.Config{
		Window: reportWindow / 4, MaxWindow: reportWindow, FirstTID: cfg.FirstTID, TransportTimed: cfg.TransportTimed,
	})
	x.pause = mad.Never
	x.peers, x.byToken = map[peerID]*peer{}, map[uint64]*peer{}
}

// peer returns the peer of a subscription, and creates it if needed.
func (x *reports) peer(s *Subscription) *peer {
	id := peerID{s.GID.GUID(), s.Addr.QP}
	p := x.peers[id]
	if p == nil {
		x.tokens++
		p = &peer{gid: s.GID, addr: s.Addr, port: -1, silent: mad.Never, token: x.tokens, path: pathState{since: mad.Never}}
		x.peers[id], x.byToken[p.token] = p, p
	}
	return p
}

// heard records that the subscriber of s is active at s.Addr.
func (x *reports) heard(s *Subscription, port int32) {
	p := x.peer(s)
	p.port, p.addr, p.failed, p.silent, p.until = port, s.Addr, 0, mad.Never, 0
	// RespTimeValue: 4.096 µs × 2^n (IBA §13.4.8.3).
	p.wait = min(time.Duration(4096)<<s.Info.RespTimeValue, maxReportWait)
}

// unsubscribed removes a subscriber after its last subscription ended.
func (x *reports) unsubscribed(s *Subscription) {
	p := x.peer(s)
	if p.subs--; p.subs > 0 {
		return
	}
	p.queue = nil
	x.eng.Cancel(p.token, p.token)
	delete(x.byToken, p.token)
	delete(x.peers, peerID{s.GID.GUID(), s.Addr.QP})
}

// away records that the subscriber's port is missing from the subnet.
func (p *peer) away(now mad.Time) {
	if p.silent == mad.Never {
		p.silent = now
	}
	p.port, p.queue = -1, nil
}

// back records that the subscriber's port is in the subnet again.
func (p *peer) back() {
	if p.failed == 0 {
		p.silent = mad.Never
	}
}

// give queues a Report for a subscriber.
func (x *reports) give(c *Core, p *peer, r *report) {
	if p.event == x.event {
		return // it matched another of its subscriptions
	}
	p.event = x.event
	if p.port < 0 {
		x.stats.Dropped++
		return
	}
	if len(p.queue) >= maxWaiting {
		copy(p.queue, p.queue[1:])
		p.queue = p.queue[:len(p.queue)-1]
		x.stats.Dropped++
	}
	p.queue = append(p.queue, r)
	x.wake(p)
}

func (x *reports) wake(p *peer) {
	if !p.queued && !p.busy && len(p.queue) > 0 {
		p.queued = true
		x.ready = append(x.ready, p)
	}
}

// silence drops all Reports, because this manager is no longer master.
func (x *reports) silence() {
	for _, p := range x.peers {
		p.queue, p.busy, p.queued = nil, false, false
		p.path = pathState{subs: p.path.subs, since: mad.Never}
	}
	clear(x.ready)
	x.ready, x.pause = x.ready[:0], mad.Never
	x.eng.CancelAll()
}

// sealed sets the store generation on which the events of this step depend.
func (x *reports) sealed(gen uint64) {
	for _, r := range x.fresh {
		r.gen = gen
	}
	clear(x.fresh)
	x.fresh = x.fresh[:0]
}

// send passes Reports whose generation is durable to the engine, and appends
// the released packets to the output.
func (x *reports) send(c *Core) {
	x.pause = mad.Never
	kept := x.ready[:0]
	for _, p := range x.ready {
		switch {
		case len(p.queue) == 0:
			p.queued = false // it has unsubscribed or is missing
			continue
		case p.until > c.now:
			x.pause = min(x.pause, p.until)
			kept = append(kept, p)
			continue
		case x.eng.Queued() >= 2*reportWindow:
			kept = append(kept, p)
			continue
		}
		i := slices.IndexFunc(p.queue, func(r *report) bool { return r.gen <= c.durable && (!r.rests || r.gen <= c.stored) })
		if i < 0 {
			kept = append(kept, p)
			continue
		}
		r := p.queue[i]
		copy(p.queue[i:], p.queue[i+1:])
		p.queue[len(p.queue)-1] = nil
		if p.queue = p.queue[:len(p.queue)-1]; len(p.queue) == 0 {
			p.queue = nil
		}
		p.queued, p.busy = false, true
		x.submit(p, r)
	}
	clear(x.ready[len(kept):])
	x.ready = kept
	c.signals.send(c)
	x.eng.Poll(c.now, func(k *mad.Packet) {
		out := *k
		out.Data = append([]byte(nil), k.Data...) // the engine reuses its buffer at the next Poll
		c.out.Sends = append(c.out.Sends, out)
	})
}

func (x *reports) submit(p *peer, r *report) {
	q := mad.Request{Addr: p.addr, Token: p.token}
	q.Timeout, q.Retries = p.patience()
	if p.failed > 0 {
		q.Retries = -1
	}
	wire.New(&q.MAD, ib.MethodReport, wire.AttrNotice, 0, 0)
	copy(wire.Data(&q.MAD), r.data[:r.n])
	x.stats.Sent++
	if x.eng.Submit(&q) != nil { // unreachable: Queued is bounded above
		p.busy = false
		x.stats.Dropped++
	}
}

const (
	// reportTimeout is the minimum wait for a response to the first try, as long as no round trip
	// was measured.
	reportTimeout = 200 * time.Millisecond
	// minReportTimeout is the minimum then.
	minReportTimeout = 20 * time.Millisecond
	// reportRetries are those after a first try of reportTimeout.
	reportRetries = 3
)

// patience is the wait for a response to the first try, and the retries. They follow the measured
// round trip, but are never less than the subscriber asked for. Each try waits twice as long as the
// one before, and shorter ones are more: a subscriber is given up after about the same time.
func (p *peer) patience() (first time.Duration, retries int) {
	first, retries = reportTimeout, reportRetries
	if p.trip.mean > 0 {
		first = min(max(p.trip.mean+4*p.trip.dev, minReportTimeout), reportTimeout)
	}
	first = max(first, p.wait)
	for t := first; 2*t <= reportTimeout; t *= 2 {
		retries++
	}
	return first, retries
}

// roundTrip is a moving mean of round trips and of their deviation, as RFC 6298 computes them.
type roundTrip struct{ mean, dev time.Duration }

func (r *roundTrip) add(d time.Duration) {
	if r.mean == 0 {
		r.mean, r.dev = max(d, 1), d/2
		return
	}
	r.dev += ((r.mean - d).Abs() - r.dev) / 4
	r.mean = max(r.mean+(d-r.mean)/8, 1)
}

func (x *reports) received(c *Core, p *mad.Packet) {
	if done, kind := x.eng.Receive(c.now, p); kind == mad.KindCompletion {
		x.done(c, &done)
	}
}

func (x *reports) expire(c *Core) {
	x.eng.Expire(c.now, func(done mad.Completion) { x.done(c, &done) })
}

func (x *reports) nextTimer() mad.Time { return min(x.eng.NextTimer(), x.pause) }

// done ends a Report. Any response counts, even one with an error status.
func (x *reports) done(c *Core, done *mad.Completion) {
	p := x.byToken[done.Token]
	if p == nil {
		return
	}
	p.busy = false
	path := p.path.out
	if done.Err == nil {
		x.stats.Answered++
		p.failed, p.silent = 0, mad.Never
		if done.Tries == 1 { // else it is not known which try was answered
			p.trip.add(done.RTT)
		}
		if path {
			c.signals.done(c, p, true)
		}
		x.wake(p)
		c.signals.resume(p, c.now)
		return
	}
	x.stats.Failed++
	if p.failed++; p.failed == 1 {
		c.out.Notices = append(c.out.Notices, Notice{
			Kind: "report_failed", Warn: true,
			Text: fmt.Sprintf("subscriber %v, LID %d, QP %d does not answer Reports: %v; further Reports are delayed", p.gid, p.addr.LID, p.addr.QP, done.Err),
		})
	}
	if p.silent == mad.Never {
		p.silent = c.now
	}
	p.until = c.now.Add(min(minPause<<min(p.failed-1, 10), maxPause))
	if path {
		c.signals.done(c, p, false)
	}
	if p.failed >= minFailed && c.subscriptions.deadline(p) <= c.now {
		c.subscriptions.giveUp(c, p)
		return
	}
	x.wake(p)
	c.signals.resume(p, c.now)
}
