package daemon

import (
	"runtime"

	"heddle/ib"
	"heddle/mad"
	"heddle/shell"
)

const (
	// ownMost is how many quick requests may wait for the receiver; where more
	// do, workers are worth waking.
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
	n      int // of w.batch that were answered, to be given back
	// handed says that another goroutine was given something: a thread that
	// waits in a call does not run it.
	handed bool
	mine   bool // quick requests wait, and no worker has been told
}

// most is how many requests may wait for the receiver.
func (r *receiver) most() int {
	if r.port == nil {
		return 0
	}
	return ownMost
}

// burstsOf is the port as one that moves several packets at once, or nil.
func burstsOf(t mad.Transport) mad.Burster {
	if b, ok := t.(mad.Burster); ok && b.Bursts() {
		return b
	}
	return nil
}

// receive takes what the port brings, and answers what is quick. It returns
// when the port is closed or lost.
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
			// Whoever has something from us now runs on this thread, and what
			// he asks may be answered when we are back.
			r.handed = false
			runtime.Gosched()
			if ok, err = r.port.TryRecv(p); !ok && err == nil {
				ok, err = r.port.TryRecv(p) // now it is asked, whatever it had before
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

// answer answers a batch of the requests that wait for the receiver.
func (r *receiver) answer() {
	w := &r.w
	r.n, r.mine = w.from.takeQuick(w.batch[:], w.batch[:r.n])
	w.serveAll(w.batch[:r.n])
	for i := w.flush(); i < w.held; i++ {
		r.pass(w.of[i])
	}
	w.held = 0
}

// pass gives a request whose answer would have to wait for room in the port to
// the workers.
func (r *receiver) pass(q *query) {
	x := query{p: q.p, at: q.at}
	q.p = nil
	if _, _, no := r.w.from.add(r.w.d.requester(x.p.Addr.LID), x, 0); no != accepted {
		bump(&r.w.stats.unsent) // the requester will ask again
	}
}

// sort hands on what was received: SMPs to the manager's loop, SA requests to
// the queues, answers to Reports to the SA's loop. Everything else is for agents
// that this manager does not have. It returns a packet for the next receive.
func (d *Daemon) sort(p *mad.Packet) *mad.Packet {
	switch kind := shell.KindOf(p); kind {
	case shell.SMP:
		if p.Status == mad.Received && !ib.Method(p.Data[3]).IsResponse() && len(d.packets) > smpQueue/2 {
			// Nobody asked for it: a storm of traps, say. It must not keep
			// answers from the manager, nor requests from the SA.
			bump(&d.smpsCut)
			return p
		}
		select {
		case d.packets <- p:
			d.recv.handed = true
			return d.packet(nil)
		default:
			// Answers that nobody asked for, or a loop that waits for its
			// disk: it asks again for those that it misses, and the SA
			// does not wait for it.
			bump(&d.smpsCut)
		}
	case shell.Other:
	default:
		return d.packet(d.receiveSA(p, kind))
	}
	return p
}
