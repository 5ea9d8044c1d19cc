package flood_test

import (
	"container/heap"
	"math/rand/v2"
	"testing"
	"time"

	"heddle/flood"
	"heddle/ib"
	"heddle/mad"
)

// A testbed is a set of flooders and one SA in virtual time. The SA serves one query
// after the other and takes service for each; a packet is latency on the way.
type testbed struct {
	t        *testing.T
	now      mad.Time
	events   events
	seq      int
	flooders []*flood.Flooder
	service  time.Duration
	latency  time.Duration
	free     mad.Time // when the SA has done all that it has
	inFlight []int    // by flooder
	most     []int
	asked    int
	perPort  []int
	// fate changes an answer, or drops it (false); nil: all are good.
	fate func(n int, m *ib.MAD) bool
}

type event struct {
	at  mad.Time
	seq int
	do  func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].seq < e[j].seq
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	old := *e
	x := old[len(old)-1]
	*e = old[:len(old)-1]
	return x
}

const saLID ib.LID = 7

func newTestbed(t *testing.T, ports int, cfg flood.Config) *testbed {
	w := &testbed{
		t: t, service: 100 * time.Microsecond, latency: 5 * time.Microsecond,
		inFlight: make([]int, ports), most: make([]int, ports), perPort: make([]int, ports),
	}
	for i := range ports {
		c := cfg
		c.Seed += uint64(i)
		c.Target.SA = mad.Addr{LID: saLID}
		c.Target.Own = flood.End{GID: ib.MakeGID(ib.DefaultSubnetPrefix, ib.GUID(0x100+i)), LID: ib.LID(100 + i)}
		for k := range 10 {
			c.Target.Ends = append(c.Target.Ends, flood.End{GID: ib.MakeGID(ib.DefaultSubnetPrefix, ib.GUID(0x900+k)), LID: ib.LID(500 + k)})
		}
		w.flooders = append(w.flooders, flood.New(c))
	}
	return w
}

func (w *testbed) at(t mad.Time, do func()) {
	w.seq++
	heap.Push(&w.events, event{t, w.seq, do})
}

// poll sends what flooder i has to send.
func (w *testbed) poll(i int) {
	w.flooders[i].Poll(w.now, func(p *mad.Packet) {
		if p.Addr.LID != saLID || p.Addr.QP != 1 || p.LocalQP != 1 {
			w.t.Fatalf("a query to LID %d, QP %d from QP %d", p.Addr.LID, p.Addr.QP, p.LocalQP)
		}
		m := *(*ib.MAD)(p.Data)
		w.asked++
		w.perPort[i]++
		w.inFlight[i]++
		w.most[i] = max(w.most[i], w.inFlight[i])
		n := w.asked
		w.at(w.now.Add(w.latency), func() { w.serve(i, n, m) })
	})
}

func (w *testbed) serve(i, n int, m ib.MAD) {
	w.free = max(w.free, w.now).Add(w.service)
	m.SetMethod(m.Method() | ib.MethodResponseBit)
	if w.fate != nil && !w.fate(n, &m) {
		w.inFlight[i]-- // as far as anyone knows
		return
	}
	w.at(w.free.Add(w.latency), func() {
		w.inFlight[i]--
		w.flooders[i].Receive(w.now, &mad.Packet{Addr: mad.Addr{LID: saLID, QP: 1}, LocalQP: 1, Data: m[:]})
		w.poll(i)
	})
}

// run drives a program to its end, or cuts it.
func (w *testbed) run(p flood.Program, cut mad.Time) {
	for {
		next, done := p.Step(w.now)
		if done {
			return
		}
		for i, f := range w.flooders {
			w.poll(i)
			next = min(next, f.NextTimer())
		}
		if len(w.events) > 0 {
			next = min(next, w.events[0].at)
		}
		if next == mad.Never {
			w.t.Fatal("nothing will ever happen, and the program is not done")
		}
		if next >= cut {
			w.now = cut
			p.Cut(w.now)
			return
		}
		w.now = max(w.now, next)
		for len(w.events) > 0 && w.events[0].at <= w.now {
			heap.Pop(&w.events).(event).do()
		}
		for _, f := range w.flooders {
			f.Expire(w.now)
		}
	}
}

func rng(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }
