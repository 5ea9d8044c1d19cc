// Package relay is what a manager does, after it has handed over, with queries that still come to its
// port: it passes them on to the manager that has taken over, and gives hosts the answers of that one.
// Hosts are told of the new manager one after the other, and ask at the old one until then.
//
// A Relay makes no answer, and keeps none: whatever a host gets was made by the active manager for
// this very query, Patience before at most. So it can be no older than an answer that was under way in
// the subnet for that long, whatever this manager knows, or has missed.
//
// A query is passed on again, after pauses that grow, until it is answered: the new manager answers
// none before it has begun, and the stream to it may end. BUSY is no answer in this sense: what the new
// manager could not take in its first moments, queries that were passed on several times above all, it
// gets again. It is a pure core.
package relay

import (
	"cmp"
	"encoding/binary"
	"slices"
	"time"

	"heddle/ib"
	"heddle/ib/sa"
	"heddle/mad"
)

const (
	// Window is for how long after a handover queries are taken. By then the sweep of the new manager
	// has told those hosts too that it did not tell before.
	Window = 10 * time.Second
	// Patience is how long a query waits. Hosts repeat theirs after about as long.
	Patience = time.Second
	// MaxQuery is the largest query that is taken, in bytes.
	MaxQuery = 2 << 10
	// Most is how many queries wait: anybody can ask. Of one LID FewEach may wait in any case, and more as
	// long as they are no more than half of the places that are left: a host that asks every 2 ms has 340
	// of them under way when the new manager needs 0.7 s, and there is always room for another host.
	Most, FewEach = 4096, 32

	// again is the pause before a query is passed on for the second time. Each further one is twice as
	// long as the one before.
	again = 8 * time.Millisecond
	// afterBusy is the pause after which a query is passed on again that the new manager was too busy for.
	afterBusy = 4 * again
	// beat is the unit of the times at which queries are passed on again: all that are due soon go
	// together.
	beat = again / 2
)

// Relay has the queries that wait. The zero value takes none.
type Relay struct {
	until mad.Time // queries are taken before; 0: none is
	wait  map[key]*query
	each  map[ib.LID]int // of wait
	fresh []key          // not passed on yet
	taken uint64         // queries since Open
	next  mad.Time       // when one of wait is to be passed on again; 0: none
	swept mad.Time       // when those that waited for too long are looked for next, without room
	count Counts         // since Open
	past  Counts         // before
}

// Counts are those of queries.
type Counts struct {
	Passed   int // queries that were passed on, each once
	Answered int // queries whose answers hosts got
	Late     int // those that were not answered in time
	Refused  int // those for which there was no room
}

type key struct {
	from mad.Addr
	tid  uint64
}

type query struct {
	n     uint64 // of the queries since Open
	p     mad.Packet
	came  mad.Time
	due   mad.Time
	pause time.Duration
}

// Open has queries taken for the time of Window.
func (r *Relay) Open(now mad.Time) {
	r.Close()
	r.until, r.wait, r.each = now.Add(Window), map[key]*query{}, map[ib.LID]int{}
}

// Close ends that, and forgets those that wait. It returns the counts since Open.
func (r *Relay) Close() (c Counts) {
	c = r.count
	c.Late += len(r.wait)
	*r = Relay{past: r.past.plus(c)}
	return c
}

// Counts are those of all queries that are decided.
func (r *Relay) Counts() Counts { return r.past.plus(r.count) }

func (c Counts) plus(o Counts) Counts {
	return Counts{c.Passed + o.Passed, c.Answered + o.Answered, c.Late + o.Late, c.Refused + o.Refused}
}

// IsOpen reports whether queries are taken.
func (r *Relay) IsOpen() bool { return r.until != 0 }

// Until is when Close is to be called, mad.Never without Open.
func (r *Relay) Until() mad.Time {
	if r.until == 0 {
		return mad.Never
	}
	return r.until
}

// IsQuery reports whether a received packet is a request to the SA that changes nothing.
func IsQuery(p *mad.Packet) bool {
	b := p.Data
	if p.Status != mad.Received || len(b) < sa.HeaderLen || ib.Class(b[1]) != ib.ClassSA || sa.RMPPTypeOf(b) > sa.RMPPData {
		return false
	}
	switch ib.Method(b[3]) {
	case ib.MethodGet, ib.MethodGetTable, ib.MethodGetTraceTable, ib.MethodGetMulti:
		return true
	}
	return false
}

// Take takes a packet that came to the port, if it is a query and queries are taken. It keeps a copy. One
// that waits already is the host's repetition: its answer is awaited anew.
func (r *Relay) Take(now mad.Time, p *mad.Packet) bool {
	if now >= r.until || len(p.Data) > MaxQuery || !IsQuery(p) {
		return false
	}
	k := key{p.Addr, tid(p.Data)}
	if q := r.wait[k]; q != nil {
		q.came = now
		return true
	}
	if len(r.wait) >= Most && now >= r.swept {
		r.expire(now)
		r.swept = now.Add(beat)
	}
	if !r.hasRoom(p.Addr.LID) {
		r.count.Refused++
		return false
	}
	r.taken++
	q := &query{n: r.taken, p: *p, came: now, pause: again}
	q.p.Data = append([]byte(nil), p.Data...)
	r.wait[k] = q
	r.each[p.Addr.LID]++
	r.fresh = append(r.fresh, k)
	return true
}

// hasRoom reports whether one more query of a LID may wait.
func (r *Relay) hasRoom(lid ib.LID) bool {
	left, n := Most-len(r.wait), r.each[lid]
	return left > 0 && (n < FewEach || n < left/2)
}

// Due calls send with each query that is to be passed on now, those that wait longer first, and returns
// when one is next. send must not keep the packet's Data beyond the next call of a method but to read it.
func (r *Relay) Due(now mad.Time, send func(*mad.Packet)) mad.Time {
	if r.next != 0 && r.next <= now {
		r.expire(now)
		r.next = 0
		var due []*query
		for _, q := range r.wait {
			if q.due != 0 && q.due <= now {
				due = append(due, q)
			} else if q.due != 0 {
				r.wake(q.due)
			}
		}
		slices.SortFunc(due, func(a, b *query) int { return cmp.Compare(a.n, b.n) })
		for _, q := range due {
			r.pass(q, now, send)
		}
	}
	for _, k := range r.fresh {
		if q := r.wait[k]; q != nil && q.due == 0 {
			r.pass(q, now, send)
		}
	}
	r.fresh = r.fresh[:0]
	if r.next == 0 {
		return mad.Never
	}
	return r.next
}

func (r *Relay) pass(q *query, now mad.Time, send func(*mad.Packet)) {
	if q.due == 0 {
		r.count.Passed++
	}
	q.due = onBeat(now.Add(q.pause))
	q.pause *= 2
	r.wake(q.due)
	send(&q.p)
}

// onBeat is the next time at which queries are passed on again.
func onBeat(t mad.Time) mad.Time { return (t + mad.Time(beat) - 1) / mad.Time(beat) * mad.Time(beat) }

func (r *Relay) wake(at mad.Time) {
	if r.next == 0 || at < r.next {
		r.next = at
	}
}

// Answer takes an answer of the active manager to a query from an address. It returns the packet that
// the host is to get; false: it is no answer, or BUSY, or nobody waits for it any more.
func (r *Relay) Answer(now mad.Time, from mad.Addr, data []byte) (p mad.Packet, ok bool) {
	if len(data) < sa.HeaderLen || ib.Class(data[1]) != ib.ClassSA || !ib.Method(data[3]).IsResponse() {
		return p, false
	}
	k := key{from, tid(data)}
	q := r.wait[k]
	if q == nil {
		return p, false
	}
	if ib.Status(binary.BigEndian.Uint16(data[4:])) == ib.StatusBusy {
		if q.due != 0 { // it was passed on
			q.due = min(q.due, onBeat(now.Add(afterBusy)))
			r.wake(q.due)
		}
		return p, false
	}
	r.drop(k)
	if now.Sub(q.came) > Patience {
		r.count.Late++
		return p, false
	}
	r.count.Answered++
	return mad.Packet{Addr: q.p.Addr, LocalQP: q.p.LocalQP, Data: data}, true
}

// expire forgets queries that have waited for too long.
func (r *Relay) expire(now mad.Time) {
	for k, q := range r.wait {
		if now.Sub(q.came) > Patience {
			r.drop(k)
			r.count.Late++
		}
	}
}

func (r *Relay) drop(k key) {
	delete(r.wait, k)
	if r.each[k.from.LID]--; r.each[k.from.LID] == 0 {
		delete(r.each, k.from.LID)
	}
}

func tid(b []byte) uint64 { return binary.BigEndian.Uint64(b[8:]) }
