package daemon

import (
	"runtime"

	"heddle/ib"
	"heddle/mad"
	"heddle/shell"
)

const (
	// ownMost is how many quick requests may wait for the receiver. With more, workers are
	// woken.
	ownMost = 4 * maxBatch
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
	r.w = worker{d: d, from: d.queries, burst: r.port, stats: &d.sa.receiving}
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
		case !r.mine:
			err = d.cfg.Port.Recv(p)
		case drained >= drainMost:
			ok = false
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
	w := &r.w
	r.n, r.mine = w.from.takeQuick(w.batch[:], w.batch[:r.n])
	w.serveAll(w.batch[:r.n])
	for i := w.flush(); i < w.held; i++ {
		r.pass(w.of[i])
	}
	w.held = 0
}

// pass hands a request to the workers because its answer would block on the port.
func (r *receiver) pass(q *query) {
	x := query{p: q.p, at: q.at}
	q.p = nil
	if _, _, no := r.w.from.add(r.w.d.requester(x.p.Addr.LID), x, 0); no != accepted {
		bump(&r.w.stats.unsent) // the requester repeats the request
	}
}

// sort distributes a received packet: SMPs to the manager's loop, SA requests to the queues,
// responses to Reports to the SA's loop. It drops other packets, because the manager has no
// agents for them. It returns a packet for the next receive.
func (d *Daemon) sort(p *mad.Packet) *mad.Packet {
	switch kind := shell.KindOf(p); kind {
	case shell.SMP:
		if p.Status == mad.Received && !ib.Method(p.Data[3]).IsResponse() && len(d.packets) > smpQueue/2 {
			// It is unsolicited, a trap for example. A storm of traps must not displace answers
			// to the manager or requests to the SA.
			bump(&d.smpsCut)
			return p
		}
		select {
		case d.packets <- p:
			d.recv.handed = true
			return d.packet(nil)
		default:
			// Responses without a request, or the loop waits for its disk. The loop repeats
			// requests whose responses are missing, so the SA need not wait for it.
			bump(&d.smpsCut)
		}
	case shell.Counters:
		return d.counted(p)
	case shell.Other:
	default:
		return d.packet(d.receiveSA(p, kind))
	}
	return p
}
