package daemon

import (
	"container/heap"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/mad"
	"heddle/sm"
	"heddle/store"
)

// What the manager's work takes in the virtual time of timedPort, in ns. Measured over ibsim's
// protocol, a query costs 4 to 6 µs in all.
const (
	wakeTime    = 5000 // of the thread that waits in a receive
	receiveTime = 1000 // a packet, and its place in the queue
	pollTime    = 500  // a receive that finds nothing
	answerTime  = 2000
	sendTime    = 1000 // a packet
	sendCall    = 1000 // a call that sends several
)

// timedPort is a port in virtual time, with queries of a crowd and of quiet hosts. The receiver
// and the workers share one processor; workers run when the receiver would wait.
type timedPort struct {
	pipe
	now    mad.Time
	next   timedQueries
	first  mad.Packet // the query, but for LIDs
	worker worker

	left map[ib.LID]int // what hosts of the crowd have not asked for yet
	took []time.Duration
	rng  *rand.Rand
	lids []ib.LID
}

// timedQuery is a query that arrives at a time; quiet: its answer is timed.
type timedQuery struct {
	at    mad.Time
	from  ib.LID
	quiet bool
	more  int // that its host asks for when it has answers
}

type timedQueries []timedQuery

func (q timedQueries) Len() int           { return len(q) }
func (q timedQueries) Less(i, j int) bool { return q[i].at < q[j].at }
func (q timedQueries) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *timedQueries) Push(x any)        { *q = append(*q, x.(timedQuery)) }
func (q *timedQueries) Pop() any {
	x := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return x
}

func (p *timedPort) Bursts() bool     { return true }
func (p *timedPort) BurstsRMPP() bool { return false }

func (p *timedPort) Recv(q *mad.Packet) error {
	for rung(p.worker.from) {
		for n := 0; len(p.next) == 0 || p.next[0].at > p.now; {
			if n = p.worker.from.take(p.worker.batch[:], p.worker.batch[:n], 2); n == 0 {
				break
			}
			p.worker.serveAll(p.worker.batch[:n])
		}
		if len(p.next) > 0 && p.next[0].at <= p.now {
			p.worker.from.bell.ring()
			break
		}
	}
	if len(p.next) == 0 {
		return errors.New("the end")
	}
	if at := p.next[0].at; at > p.now {
		p.now = at + wakeTime
	}
	_, err := p.TryRecv(q)
	return err
}

func (p *timedPort) TryRecv(q *mad.Packet) (bool, error) {
	if len(p.next) == 0 || p.next[0].at > p.now {
		p.now += pollTime
		return false, nil
	}
	p.now += receiveTime
	x := heap.Pop(&p.next).(timedQuery)
	p.left[x.from] += x.more
	*q = mad.Packet{Addr: mad.Addr{LID: x.from, QP: 1}, LocalQP: 1, Data: append(q.Data[:0], p.first.Data...)}
	binary.BigEndian.PutUint16(q.Data[wire.DataOffset+40:], uint16(p.lids[p.rng.IntN(len(p.lids))]))
	binary.BigEndian.PutUint16(q.Data[wire.DataOffset+42:], uint16(x.from))
	tid := uint64(x.at) << 1
	if x.quiet {
		tid |= 1
	}
	binary.BigEndian.PutUint64(q.Data[8:], tid)
	return true, nil
}

func (p *timedPort) TrySend(ps []mad.Packet) (int, error) {
	p.now += mad.Time(answerTime*len(ps) + sendCall)
	for i := range ps {
		p.now += sendTime
		tid, from := tidOf(ps[i].Data), ps[i].Addr.LID
		switch {
		case tid&1 != 0:
			p.took = append(p.took, p.now.Sub(mad.Time(tid>>1)))
		case statusOf(ps[i].Data) != 0:
			p.left[from]++
			fallthrough
		case p.left[from] > 0:
			p.left[from]--
			heap.Push(&p.next, timedQuery{at: p.now + 20_000, from: from})
		}
	}
	return len(ps), nil
}

// TestStampede: the receiver and the workers serve a crowd of hosts that were notified, 2,000 a
// second after the first 64 at once, and quiet hosts that ask for a path now and then. The 99th
// percentile of the quiet hosts' times stays within twice that of an idle manager. What arrives
// at the same moment is received first, so that with more queries at once, a quiet host waits for
// as many receives; but not for the answers.
func TestStampede(t *testing.T) {
	snap := bringUp(t, "xgft", "2", "18,36", "1,18")
	all := lids(snap)
	high := func(hosts, rate, window int, length time.Duration) time.Duration {
		quiet, crowd := all[:len(all)/4], all[len(all)/4:]
		p := &timedPort{first: *pathQuery(0, 0, 0), left: map[ib.LID]int{}, rng: rand.New(rand.NewPCG(8, 8)), lids: all}
		p.out = func(q *mad.Packet) error {
			_, err := p.TrySend([]mad.Packet{*q})
			return err
		}
		for at := mad.Time(0); at < mad.Time(length); at = at.Add(time.Duration(p.rng.ExpFloat64() * float64(time.Second) / 2500)) {
			p.next = append(p.next, timedQuery{at: at, from: quiet[p.rng.IntN(len(quiet))], quiet: true})
		}
		for i := range hosts {
			if window == 0 {
				break
			}
			at, lid := mad.Time(0), crowd[i%len(crowd)]
			if i > 64 && rate > 0 {
				at = mad.Time(time.Second) * mad.Time(i-64) / mad.Time(rate)
			}
			for k := range window {
				p.next = append(p.next, timedQuery{at: at, from: lid})
				if k == 0 {
					p.next[len(p.next)-1].more = 32 - window
				}
			}
		}
		heap.Init(&p.next)
		d := New(Config{Port: p, Core: sm.Defaults(), Store: store.NewMemory(), Cores: 1})
		d.clock.virtual = func() mad.Time { return p.now }
		d.shared.Snap.Store(snap)
		p.worker = worker{d: d, from: d.queries, peers: 1, most: maxBatch, stats: &d.sa.workers[0], burst: p}
		d.receive()
		slices.Sort(p.took)
		if n, _ := d.queries.load(); n > 0 {
			t.Errorf("%d requests were left", n)
		}
		return p.took[len(p.took)*99/100]
	}
	for _, c := range []struct {
		what                string
		hosts, rate, window int
		length              time.Duration
		ahead               int // receives that may be ahead of a quiet host; 0: within twice the idle time
	}{
		{"16 queries at once", 2064, 2000, 16, time.Second, 0},
		{"32 queries at once", 2064, 2000, 32, time.Second, 32},
		{"all hosts at once", 500, 0, 16, 100 * time.Millisecond, 500 * 16},
	} {
		idle, busy := high(c.hosts, c.rate, 0, c.length), high(c.hosts, c.rate, c.window, c.length)
		t.Logf("%s: p99 %v idle, %v with the crowd, %.2f times", c.what, idle, busy, float64(busy)/float64(idle))
		most := 2 * idle
		if c.ahead > 0 {
			most = idle + time.Duration(c.ahead*receiveTime)
		}
		if busy > most {
			t.Errorf("%s: p99 %v, want %v", c.what, busy, most)
		}
	}
}
