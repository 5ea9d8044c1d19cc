package daemon

import (
	"runtime"
	"time"

	"heddle/ib"
	"heddle/mad"
	"heddle/sa"
	"heddle/shell"
)

const (
	// ownMost is how many quick requests may wait for the receiver. With more, workers are
	// woken.
	ownMost = 4 * maxBatch
	// ownBatch is how many requests the receiver answers before it looks into the port again:
	// a request that comes meanwhile waits for these answers, and one more call for each batch
	// is what it costs.
	ownBatch = 4
	// slowPoll is how long such a look may take. A device that FUSE serves takes longer, and gets
	// batches of maxBatch.
	slowPoll = 5 * time.Microsecond
	// drainMost is how many packets are received before the receiver answers
	// some again. What waits in the port is not fair to anybody.
	drainMost = 256
)

// receiver is what the goroutine that receives keeps. To wake a worker for
// each request costs more than its answer, so this goroutine answers those that
// are quick itself, once the port has nothing more for it. They go through the
// same queue as all others, which is what is fair, and the receiver never waits
// for the port to take an answer.
type receiver struct {
	port   mad.Burster // nil: one that sends or receives one packet at a time
	tables bool        // port takes RMPP messages without waiting
	w      worker
	n      int // answered requests of w.batch, whose packets are to be returned
	// handed says that another goroutine has new work, which does not run while this thread
	// blocks in a call.
	handed bool
	mine   bool // quick requests wait, and no worker was woken
	// polls is the mean time of a look into the port after a batch.
	polls time.Duration

	standIn shell.StandIn

	refused  int // BUSY answers that are held until the port has nothing more
	refusals [maxBatch]mad.Packet
	busy     [maxBatch][ib.MADLen]byte
}

// most is the largest number of requests that may wait for the receiver.
func (r *receiver) most() int {
	if r.port == nil {
		return 0
	}
	return ownMost
}

// burstsOf returns the port if it moves several packets at once, or nil.
func burstsOf(t mad.Transport) mad.Burster {
	if b, ok := t.(mad.Burster); ok && b.Bursts() {
		return b
	}
	return nil
}

// receive distributes received packets, and answers quick requests. It returns when the port is
// closed or lost.
func (d *Daemon) receive() {
	r := &d.recv
	if r.port = burstsOf(d.cfg.Port); r.port != nil {
		r.tables = r.port.BurstsRMPP()
	}
	r.w = worker{d: d, from: d.queries, burst: r.port, stats: &d.sa.receiving, refused: r.pass}
	p := d.packet(nil)
	for drained := 0; ; {
		ok, err := true, error(nil)
		switch {
		case r.handed && r.port != nil:
			// Goroutines with new work run on this thread now.
			r.handed = false
			runtime.Gosched()
			if ok, err = r.port.TryRecv(p); !ok && err == nil {
				ok, err = r.port.TryRecv(p) // read again after the other goroutines ran
			}
			if !ok && err == nil {
				continue
			}
		case !r.mine && r.refused == 0:
			err = d.cfg.Port.Recv(p)
		case drained >= drainMost:
			ok = false
		case drained == 0:
			began := d.now()
			ok, err = r.port.TryRecv(p)
			r.polled(d.now().Sub(began))
		default:
			ok, err = r.port.TryRecv(p)
		}
		switch {
		case err != nil:
			d.lost <- err
			return
		case ok:
			p = d.sort(p)
			drained++
		default:
			r.answer()
			drained = 0
		}
	}
}

// answer answers a batch of requests that wait for the receiver.
func (r *receiver) answer() {
	r.release()
	if !r.mine {
		return
	}
	w := &r.w
	r.n, r.mine = w.from.takeQuick(w.batch[:r.own()], w.batch[:r.n])
	w.serveAll(w.batch[:r.n])
}

// polled notes how long a look into the port took. One that was interrupted counts little.
func (r *receiver) polled(took time.Duration) {
	r.polls += (min(took, 4*slowPoll) - r.polls) / 8
}

// own is how many requests the receiver answers before it looks again.
func (r *receiver) own() int {
	if r.polls > slowPoll {
		return maxBatch
	}
	return ownBatch
}

// refuse answers p BUSY, together with others: during a stampede of more requests than places,
// that would cost the receiver more than all else.
func (r *receiver) refuse(d *Daemon, p *mad.Packet, why busyReason) {
	if r.port == nil {
		d.busy(p, why, &d.sa.receiving)
		return
	}
	data, ok := sa.Busy(&sa.Request{From: p.Addr, Data: p.Data}, r.busy[r.refused][:0])
	if !ok {
		bump(&d.sa.receiving.dropped)
		return
	}
	bump(&d.sa.receiving.busy[why])
	r.refusals[r.refused] = mad.Packet{Addr: p.Addr, LocalQP: 1, Data: data}
	if r.refused++; r.refused == len(r.refusals) {
		r.release()
	}
}

// release sends the BUSY answers that are held. Those that the port does not take now are lost,
// and their requesters repeat the requests.
func (r *receiver) release() {
	for i := 0; i < r.refused; {
		n, err := r.port.TrySend(r.refusals[i:r.refused])
		i += n
		switch {
		case err != nil:
			i++
			bump(&r.w.stats.unsent)
		case n == 0:
			for ; i < r.refused; i++ {
				bump(&r.w.stats.unsent)
			}
		}
	}
	r.refused = 0
}

// pass hands a request to the workers because its answer would block on the port.
func (r *receiver) pass(q *query) {
	x := query{p: q.p, at: q.at}
	q.p = nil
	if _, _, no := r.w.from.add(r.w.d.requester(x.p.Addr.LID), x, 0); no != accepted {
		bump(&r.w.stats.unsent) // the requester repeats the request
	}
}

// standsIn answers p if the loop is not to do that. What the port does not take is repeated.
func (r *receiver) standsIn(d *Daemon, p *mad.Packet) bool {
	came, done := d.packets.Counts()
	answer, ok := r.standIn.Answer(d.now(), p, came+1, done)
	switch q := [1]mad.Packet{{Addr: p.Addr, Data: answer[:]}}; {
	case !ok:
	case r.port != nil:
		_, _ = r.port.TrySend(q[:])
	default:
		_ = d.cfg.Port.Send(&q[0])
	}
	return ok
}

// sort distributes a received packet: SMPs to the manager's loop, SA requests to the queues,
// responses to Reports to the SA's loop. It drops other packets, because the manager has no
// agents for them. It returns a packet for the next receive.
func (d *Daemon) sort(p *mad.Packet) *mad.Packet {
	switch kind := shell.KindOf(p); kind {
	case shell.SMP:
		if shell.AsksSMInfo(p) && d.recv.standsIn(d, p) {
			return p
		}
		most := smpQueue
		if p.Status == mad.Received && !ib.Method(p.Data[3]).IsResponse() {
			// It is unsolicited, a trap for example. A storm of traps must not displace answers
			// to the manager or requests to the SA.
			most = smpQueue/2 + 1
		}
		if spare, ok := d.packets.Put(p, most); ok {
			d.recv.handed = true
			return d.packet(spare)
		}
		// Responses without a request, or the loop waits for its disk. The loop repeats
		// requests whose responses are missing, so the SA need not wait for it.
		bump(&d.smpsCut)
	case shell.Counters:
		return d.answered(&d.perf.agentSide, p)
	case shell.Settings:
		return d.answered(&d.congestion.agentSide, p)
	case shell.Other:
	default:
		return d.packet(d.receiveSA(p, kind))
	}
	return p
}
