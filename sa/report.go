package sa

import (
	"fmt"
	"time"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/mad"
)

const (
	// maxWaiting is how many Reports wait for one subscriber; then the oldest
	// one is dropped.
	maxWaiting = 64
	// reportWindow is how many Reports are on their way at once, to
	// different subscribers.
	reportWindow = 64
	// A subscriber that did not answer is left alone for minPause, then twice
	// as long each time up to maxPause.
	minPause = time.Second
	maxPause = 16 * time.Second
	// minFailed is how many Reports in a row must have failed before a
	// subscriber is given up, however long that takes.
	minFailed = 4
	// maxReportWait bounds how long a subscriber may ask to be waited for.
	maxReportWait = 4 * time.Second
)

// ReportStats counts Reports since the start.
type ReportStats struct {
	Sent     uint64 // handed to the engine, each once whatever its tries
	Answered uint64
	Failed   uint64 // not answered
	Dropped  uint64 // not sent: too many waited, or the subscriber is away
	Waiting  int    // now
	Peers    int    // subscribers now
}

// reports are the Reports to be sent, and on their way. Each subscriber gets
// one at a time, in the order in which things happened, so one that is slow or
// dead delays nobody else. A Report is tried as often as mad.Engine does; to a
// subscriber that did not answer the one before, once.
type reports struct {
	eng     *mad.Engine
	peers   map[peerID]*peer
	byToken map[uint64]*peer
	tokens  uint64
	ready   []*peer   // have something to send, in the order in which they came to it
	fresh   []*report // of this step
	event   uint64    // counts events, so that each peer gets each once
	pause   mad.Time  // when the next of ready that is left alone is tried again
	stats   ReportStats
}

// peerID is an address of subscriptions.
type peerID struct {
	port ib.GUID
	qp   uint32
}

// peer is where subscriptions are served.
type peer struct {
	gid    ib.GID
	addr   mad.Addr
	wait   time.Duration // how long it may take to answer, 0: the engine's default
	port   int32         // index in the snapshot's Ports, -1: away
	subs   int
	queue  []*report
	queued bool     // in reports.ready
	busy   bool     // one Report is on its way
	event  uint64   // the last event that it was given
	failed int      // Reports not answered, in a row
	silent mad.Time // since when it is away or deaf, mad.Never
	until  mad.Time // it is left alone until then
	token  uint64
}

// report is one Report, shared by all who get it.
type report struct {
	data [wire.NoticeLen + wire.PathRecordLen]byte
	n    int
	gen  uint64 // it rests on this generation of the store
}

func (x *reports) init(cfg Config) {
	x.eng = mad.NewEngine(mad.Config{
		Window: reportWindow / 4, MaxWindow: reportWindow, FirstTID: cfg.FirstTID, TransportTimed: cfg.TransportTimed,
	})
	x.pause = mad.Never
	x.peers, x.byToken = map[peerID]*peer{}, map[uint64]*peer{}
}

// peer returns where a subscription is served.
func (x *reports) peer(s *Subscription) *peer {
	id := peerID{s.GID.GUID(), s.Addr.QP}
	p := x.peers[id]
	if p == nil {
		x.tokens++
		p = &peer{gid: s.GID, addr: s.Addr, port: -1, silent: mad.Never, token: x.tokens}
		x.peers[id], x.byToken[p.token] = p, p
	}
	return p
}

// heard says that the subscriber of s, a port of the subnet, has just been heard
// of at s.Addr.
func (x *reports) heard(s *Subscription, port int32) {
	p := x.peer(s)
	p.port, p.addr, p.failed, p.silent, p.until = port, s.Addr, 0, mad.Never, 0
	// RespTimeValue: 4.096 µs × 2^n (IBA §13.4.8.3).
	p.wait = min(time.Duration(4096)<<s.Info.RespTimeValue, maxReportWait)
}

// unsubscribed forgets a subscriber with its last subscription.
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

// away says that the subscriber's port is not in the subnet.
func (p *peer) away(now mad.Time) {
	if p.silent == mad.Never {
		p.silent = now
	}
	p.port, p.queue = -1, nil
}

// back says that it is.
func (p *peer) back() {
	if p.failed == 0 {
		p.silent = mad.Never
	}
}

// give queues a Report for a subscriber.
func (x *reports) give(c *Core, p *peer, r *report) {
	if p.event == x.event {
		return // two of its subscriptions ask for it
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

// silence forgets all Reports: this manager is not the master any more.
func (x *reports) silence() {
	for _, p := range x.peers {
		p.queue, p.busy, p.queued = nil, false, false
	}
	clear(x.ready)
	x.ready, x.pause = x.ready[:0], mad.Never
	x.eng.CancelAll()
}

// sealed says on which generation of the store the events of a step rest.
func (x *reports) sealed(gen uint64) {
	for _, r := range x.fresh {
		r.gen = gen
	}
	clear(x.fresh)
	x.fresh = x.fresh[:0]
}

// send hands Reports whose generation is durable to the engine, and what that
// lets out to the output.
func (x *reports) send(c *Core) {
	x.pause = mad.Never
	kept := x.ready[:0]
	for _, p := range x.ready {
		switch {
		case len(p.queue) == 0:
			p.queued = false // it has unsubscribed, or gone away
			continue
		case p.until > c.now:
			x.pause = min(x.pause, p.until)
			kept = append(kept, p)
			continue
		case p.queue[0].gen > c.durable || x.eng.Queued() >= 2*reportWindow:
			kept = append(kept, p)
			continue
		}
		r := p.queue[0]
		copy(p.queue, p.queue[1:])
		p.queue[len(p.queue)-1] = nil
		if p.queue = p.queue[:len(p.queue)-1]; len(p.queue) == 0 {
			p.queue = nil
		}
		p.queued, p.busy = false, true
		x.submit(p, r)
	}
	clear(x.ready[len(kept):])
	x.ready = kept
	x.eng.Poll(c.now, func(k *mad.Packet) {
		out := *k
		out.Data = append([]byte(nil), k.Data...) // the engine's own lives until the next Poll only
		c.out.Sends = append(c.out.Sends, out)
	})
}

func (x *reports) submit(p *peer, r *report) {
	q := mad.Request{Addr: p.addr, Timeout: max(p.wait, reportTimeout), Token: p.token}
	if p.failed > 0 {
		q.Retries = -1
	}
	wire.New(&q.MAD, ib.MethodReport, wire.AttrNotice, 0, 0)
	copy(wire.Data(&q.MAD), r.data[:r.n])
	x.stats.Sent++
	if x.eng.Submit(&q) != nil { // cannot be: Queued is bounded above
		p.busy = false
		x.stats.Dropped++
	}
}

// reportTimeout is how long the first try waits at least.
const reportTimeout = 200 * time.Millisecond

func (x *reports) received(c *Core, p *mad.Packet) {
	if done, kind := x.eng.Receive(c.now, p); kind == mad.KindCompletion {
		x.done(c, &done)
	}
}

func (x *reports) expire(c *Core) {
	x.eng.Expire(c.now, func(done mad.Completion) { x.done(c, &done) })
}

func (x *reports) nextTimer() mad.Time { return min(x.eng.NextTimer(), x.pause) }

// done ends a Report. Whatever is answered, even a status, is an answer.
func (x *reports) done(c *Core, done *mad.Completion) {
	p := x.byToken[done.Token]
	if p == nil {
		return
	}
	p.busy = false
	if done.Err == nil {
		x.stats.Answered++
		p.failed, p.silent = 0, mad.Never
		x.wake(p)
		return
	}
	x.stats.Failed++
	if p.failed++; p.failed == 1 {
		c.out.Notices = append(c.out.Notices, Notice{
			Kind: "report_failed", Warn: true,
			Text: fmt.Sprintf("subscriber %v, LID %d, QP %d does not answer Reports: %v: it is tried less often now", p.gid, p.addr.LID, p.addr.QP, done.Err),
		})
	}
	if p.silent == mad.Never {
		p.silent = c.now
	}
	p.until = c.now.Add(min(minPause<<min(p.failed-1, 10), maxPause))
	if p.failed >= minFailed && c.inform.deadline(p) <= c.now {
		c.inform.giveUp(c, p)
		return
	}
	x.wake(p)
}
