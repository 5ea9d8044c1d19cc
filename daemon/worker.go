package daemon

import (
	"context"
	"runtime"

	"heddle/mad"
	"heddle/sa"
)

// worker answers queries from the state that is published when it serves them.
type worker struct {
	d     *Daemon
	from  *queue
	peers int // workers that take from it, this one included
	most  int // requests it takes at a time, up to maxBatch
	src   sa.Source
	req   sa.Request
	reply mad.Packet
	buf   []byte
	batch [maxBatch]query
	stats *answerStats
	// refused gets the requests whose answers the port does not take without waiting; nil: the
	// worker waits.
	refused func(q *query)

	// Answers held until the end of the batch, if the port sends several of their kind at once,
	// and their requests.
	burst   mad.Burster
	held    int
	answers [maxBatch]mad.Packet
	of      [maxBatch]*query
	bufs    [maxBatch][]byte
}

func (w *worker) run(ctx context.Context) {
	n, looked := 0, false
	for {
		n = w.from.take(w.batch[:w.most], w.batch[:n], 2*w.peers)
		switch {
		case n > 0:
			looked = false
		case !looked:
			// Polling once more after the receiver has run is cheaper than blocking and being
			// woken.
			looked = true
			runtime.Gosched()
			continue
		default:
			looked = false
			select {
			case <-ctx.Done():
				return
			case <-w.from.bell:
			}
			continue
		}
		w.serveAll(w.batch[:n])
		// The receiver may have returned from a call of the kernel and wait for a processor.
		// Without this it would wait until the runtime interrupts a worker, up to 10 ms, and
		// all that arrives would wait with it.
		runtime.Gosched()
	}
}

// serveAll answers queries. Answers for sources that have asked little do not wait for those for
// others.
func (w *worker) serveAll(qs []query) {
	now := w.d.now()
	for i := range qs {
		if w.held > 0 && !qs[i].light && w.of[w.held-1].light {
			w.release()
		}
		now = w.serve(&qs[i], now)
	}
	w.release()
}

// release sends the answers that are held. Those that the port does not take at once are for
// refused, or wait here.
func (w *worker) release() {
	for i := w.flush(); i < w.held; i++ {
		if w.refused != nil {
			w.refused(w.of[i])
		} else {
			w.send(w.of[i], &w.answers[i])
		}
	}
	w.held = 0
}

// serve answers one query at time now, and returns the time after it. A query that turns out to
// be a change is passed to the loop of changes.
func (w *worker) serve(q *query, now mad.Time) mad.Time {
	d := w.d
	if now.Sub(q.at) > lateAfter {
		d.busy(q.p, busyLate, w.stats)
		return now
	}
	buf := &w.buf
	if w.burst != nil {
		buf = &w.bufs[w.held]
	}
	data, v := d.compose(q.p, &w.src, &w.req, *buf)
	if *buf = data; cap(data) > keptAnswer {
		*buf = nil
	}
	switch v {
	case sa.Answered:
		answer := mad.Packet{Addr: q.p.Addr, LocalQP: 1, Data: data}
		if w.burst != nil && (w.burst.BurstsRMPP() || !segmented(data)) {
			w.answers[w.held], w.of[w.held] = answer, q
			w.held++
			return now
		}
		w.reply = answer
		return w.send(q, &w.reply)
	case sa.ForCore:
		if _, no := d.changes.put(d.requester(q.p.Addr.LID), q.p, q.at); no != accepted {
			d.busy(q.p, refusals[no], w.stats)
		} else {
			q.p = nil
		}
		return now
	default:
		bump(&w.stats.dropped)
	}
	now = d.now()
	w.took(q, now)
	return now
}

// send sends the answer to q and returns the time after it.
func (w *worker) send(q *query, answer *mad.Packet) mad.Time {
	w.d.reply(q.p, answer, w.stats)
	now := w.d.now()
	w.took(q, now)
	return now
}

// took counts q, finished at now.
func (w *worker) took(q *query, now mad.Time) {
	w.stats.took[attrSlot(q.p.Data)].addTime(now.Sub(q.at))
}

// flush sends the answers that are held, as far as the port takes them without
// waiting. It returns the number of the first that is left.
func (w *worker) flush() (i int) {
	for i < w.held {
		n, err := w.burst.TrySend(w.answers[i:w.held])
		if n > 0 {
			now := w.d.now()
			for _, q := range w.of[i : i+n] {
				w.took(q, now)
			}
		}
		i += n
		if err == nil {
			break
		}
		if p := w.of[i].p; !w.d.giveBack(p) {
			w.d.unsent(p, err, w.stats)
		}
		i++
	}
	return i
}
