package relay

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"heddle/ib"
	"heddle/ib/sa"
	"heddle/mad"
)

// request is a MAD to the SA of a host.
func request(lid ib.LID, tid uint64, method ib.Method) *mad.Packet {
	var m ib.MAD
	sa.New(&m, method, sa.AttrPathRecord, 0, 0)
	m.SetTID(tid)
	return &mad.Packet{Addr: mad.Addr{LID: lid, QP: 1}, LocalQP: 1, Data: m[:]}
}

// answer is that of a manager to a query; serial tells answers apart.
func answer(q *mad.Packet, serial uint64) []byte {
	b := append([]byte(nil), q.Data...)
	b[3] |= byte(ib.MethodResponseBit)
	binary.BigEndian.PutUint64(b[sa.HeaderLen:], serial)
	return b
}

func at(d time.Duration) mad.Time { return mad.Time(time.Hour + d) }

// due are the transactions that are passed on at a time, and when the next ones are.
func due(r *Relay, now mad.Time) (list []uint64, next mad.Time) {
	next = r.Due(now, func(p *mad.Packet) { list = append(list, tid(p.Data)) })
	return list, next
}

// TestOnlyQueries: what may change something, answers, other classes and packets that came back are not
// taken, and nothing is without a handover or after its window.
func TestOnlyQueries(t *testing.T) {
	var r Relay
	if r.IsOpen() || r.Until() != mad.Never || r.Take(at(0), request(5, 1, ib.MethodGet)) {
		t.Error("a query is taken without a handover")
	}
	r.Open(at(0))
	for _, m := range []ib.Method{ib.MethodSet, ib.MethodDelete, ib.MethodGetResp, ib.MethodReport, ib.MethodReportResp, ib.MethodTrap, ib.MethodSend} {
		if r.Take(at(0), request(5, 1, m)) {
			t.Errorf("method %v is taken", m)
		}
	}
	change := func(f func(*mad.Packet)) *mad.Packet { p := request(5, 1, ib.MethodGet); f(p); return p }
	for what, p := range map[string]*mad.Packet{
		"an SMP":                  change(func(p *mad.Packet) { p.Data[1] = byte(ib.ClassSubnLID) }),
		"one that came back":      change(func(p *mad.Packet) { p.Status = mad.Failed }),
		"a part of a header":      change(func(p *mad.Packet) { p.Data = p.Data[:sa.HeaderLen-1] }),
		"an acknowledged segment": change(func(p *mad.Packet) { p.Data[25] = sa.RMPPData + 1 }),
		"a long one":              change(func(p *mad.Packet) { p.Data = append(p.Data, make([]byte, MaxQuery)...) }),
	} {
		if r.Take(at(0), p) {
			t.Errorf("%s is taken", what)
		}
	}
	for i, m := range []ib.Method{ib.MethodGet, ib.MethodGetTable, ib.MethodGetTraceTable, ib.MethodGetMulti} {
		if !r.Take(at(Window-1), request(5, uint64(i), m)) {
			t.Errorf("method %v is not taken", m)
		}
	}
	if r.Until() != at(Window) || r.Take(at(Window), request(6, 1, ib.MethodGet)) {
		t.Error("a query is taken after the window")
	}
	if c := r.Close(); c.Late != 4 || r.IsOpen() || r.Take(at(0), request(5, 1, ib.MethodGet)) {
		t.Errorf("it is open after Close: %+v", c)
	}
}

// TestAgain: a query is passed on after pauses that grow, until it is answered or Patience has passed. The
// host's buffer is not used after Take.
func TestAgain(t *testing.T) {
	var r Relay
	r.Open(at(0))
	q := request(5, 7, ib.MethodGet)
	kept := *q
	kept.Data = append([]byte(nil), q.Data...)
	if !r.Take(at(0), q) {
		t.Fatal("not taken")
	}
	clear(q.Data)
	var sent []time.Duration
	for now := at(0); now != mad.Never; {
		list, next := due(&r, now)
		for _, id := range list {
			if id != 7 {
				t.Fatalf("query %d is passed on", id)
			}
			sent = append(sent, now.Sub(at(0)))
		}
		if next <= now {
			t.Fatalf("at %v the next one is %v", now, next)
		}
		now = next
	}
	ms := time.Millisecond
	if want := []time.Duration{0, 8 * ms, 24 * ms, 56 * ms, 120 * ms, 248 * ms, 504 * ms}; fmt.Sprint(sent) != fmt.Sprint(want) {
		t.Errorf("passed on after %v, want %v", sent, want)
	}
	if _, ok := r.Answer(at(Patience), kept.Addr, answer(&kept, 1)); ok {
		t.Error("it was forgotten, and is answered")
	}
	r.Take(at(0), &kept)
	if _, ok := r.Answer(at(Patience+1), kept.Addr, answer(&kept, 1)); ok {
		t.Error("a late answer is given")
	}
	r.Take(at(0), &kept)
	r.Take(at(Patience), &kept) // the host repeats it
	for what, bad := range map[string]func() (mad.Packet, bool){
		"an answer to another host": func() (mad.Packet, bool) {
			return r.Answer(at(Patience), mad.Addr{LID: 6, QP: 1}, answer(&kept, 1))
		},
		"one to another query": func() (mad.Packet, bool) {
			return r.Answer(at(Patience), kept.Addr, answer(request(5, 8, ib.MethodGet), 1))
		},
		"a query": func() (mad.Packet, bool) { return r.Answer(at(Patience), kept.Addr, kept.Data) },
		"nothing": func() (mad.Packet, bool) { return r.Answer(at(Patience), kept.Addr, nil) },
	} {
		if _, ok := bad(); ok {
			t.Errorf("%s is given to the host", what)
		}
	}
	p, ok := r.Answer(at(2*Patience), kept.Addr, answer(&kept, 9))
	if !ok || p.Addr != kept.Addr || p.LocalQP != 1 || binary.BigEndian.Uint64(p.Data[sa.HeaderLen:]) != 9 {
		t.Errorf("the answer is %v, %+v", ok, p)
	}
	if _, ok := r.Answer(at(2*Patience), kept.Addr, answer(&kept, 9)); ok {
		t.Error("the host gets it twice")
	}
	if c := r.Close(); c != (Counts{Passed: 1, Answered: 1, Late: 2}) {
		t.Errorf("%+v", c)
	}
}

// TestBounds: hosts cannot have more kept than there is room for. One LID gets much of that as long as
// nobody else wants it, but never that of all.
func TestBounds(t *testing.T) {
	var r Relay
	r.Open(at(0))
	take := func(now mad.Time, lid ib.LID, n int) (took int) {
		for i := range n {
			if r.Take(now, request(lid, uint64(i), ib.MethodGet)) {
				took++
			}
		}
		return took
	}
	if n := take(at(0), 1, 2*Most); n < Most/4 || n > Most/2 {
		t.Errorf("%d queries of one LID wait", n)
	}
	all := r.each[1]
	for lid := ib.LID(2); all < Most; lid++ {
		n := take(at(0), lid, 2*Most)
		if all += n; n < FewEach && all != Most {
			t.Fatalf("%d queries of LID %d wait, and there is room for %d", n, lid, Most-all+n)
		}
	}
	if n := take(at(0), 1000, 1); n != 0 || len(r.wait) != Most {
		t.Errorf("%d queries wait", len(r.wait))
	}
	if !r.Take(at(Patience+beat), request(1, 1<<20, ib.MethodGet)) {
		t.Error("those that wait no more take the room of others")
	}
	if list, _ := due(&r, at(Patience+beat)); len(list) != 1 {
		t.Errorf("%d of them are passed on", len(list))
	}
}

// TestLongWait: a host that asks every 2 ms, and waits for longer than FewEach of its queries take, gets
// all answers. The queries are passed on together, not each at a time of its own.
func TestLongWait(t *testing.T) {
	var r Relay
	r.Open(at(0))
	const wait = 600 * time.Millisecond
	wakes, next := 0, mad.Never
	for d := time.Duration(0); d < wait; d += time.Millisecond / 2 {
		fresh := d%(2*time.Millisecond) == 0
		if fresh && !r.Take(at(d), request(5, uint64(d), ib.MethodGet)) {
			t.Fatalf("the query after %v is refused", d)
		}
		if at(d) >= next {
			wakes++
		}
		if fresh || at(d) >= next {
			_, next = due(&r, at(d))
		}
	}
	if most := int(wait / beat); wakes > most {
		t.Errorf("queries are passed on again at %d times, want %d at most", wakes, most)
	}
	if n := len(r.wait); n != int(wait/(2*time.Millisecond)) || r.Counts().Refused != 0 {
		t.Errorf("%d queries wait, %+v", n, r.Counts())
	}
}

// TestCampaign has hosts ask at a manager that has handed over, by a stream that loses, delays and repeats
// what goes over it and is away for some time, of a new manager that begins late, and changes its state.
// A host gets what the new manager answered, to its own query, not longer than Patience ago and so not
// of a state that is older, and once only. When all goes well all are answered.
func TestCampaign(t *testing.T) {
	for seed := range uint64(60) {
		campaign(t, seed)
	}
}

// message is a query or an answer under way.
type message struct {
	at   mad.Time
	p    mad.Packet
	data []byte // of an answer; nil: a query
}

func campaign(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	var x Relay
	x.Open(at(0))
	bad := r.IntN(3) // 0: nothing is lost
	begins := at(time.Duration(r.Int64N(int64(Patience) / 4)))
	var way []message
	asked := map[uint64]mad.Time{}
	answered := map[uint64]bool{}
	made := map[uint64]mad.Time{} // by serial
	from := map[uint64]uint64{}   // the query of a serial
	serial := uint64(0)
	put := func(now mad.Time, m message) {
		if bad > 0 && r.IntN(8) == 0 {
			return
		}
		most := int64(4 * time.Millisecond)
		if bad == 2 && r.IntN(10) == 0 {
			most = int64(3 * Patience)
		}
		for range 1 + r.IntN(1+bad)/2 {
			m.at = now.Add(time.Duration(r.Int64N(most)))
			way = append(way, m)
		}
	}
	for step := range 4000 {
		now := at(time.Duration(step) * time.Millisecond)
		if step < 2500 && r.IntN(4) == 0 {
			q := request(ib.LID(1+r.IntN(20)), uint64(step), ib.MethodGet)
			if x.Take(now, q) {
				asked[uint64(step)] = now
			}
		}
		x.Due(now, func(p *mad.Packet) { put(now, message{p: *p}) })
		rest := way
		way = nil
		for _, m := range rest {
			switch {
			case m.at > now:
				way = append(way, m)
			case m.data == nil:
				if now < begins {
					continue // it does not serve yet
				}
				serial++
				made[serial], from[serial] = now, tid(m.p.Data)
				a := answer(&m.p, serial)
				if r.IntN(5) == 0 {
					binary.BigEndian.PutUint16(a[4:], uint16(ib.StatusBusy))
				}
				put(now, message{p: m.p, data: a})
			default:
				k, ok := x.Answer(now, m.p.Addr, m.data)
				if !ok {
					continue
				}
				id, by := tid(k.Data), binary.BigEndian.Uint64(k.Data[sa.HeaderLen:])
				switch {
				case k.Data[5] != 0:
					t.Fatalf("seed %d: query %d is answered BUSY", seed, id)
				case answered[id]:
					t.Fatalf("seed %d: query %d has two answers", seed, id)
				case from[by] != id || k.Addr != m.p.Addr:
					t.Fatalf("seed %d: query %d got the answer to %d", seed, id, from[by])
				case made[by] < asked[id] || now.Sub(made[by]) > Patience || now.Sub(asked[id]) > Patience:
					t.Fatalf("seed %d: query %d of %v got at %v the answer of %v", seed, id, asked[id], now, made[by])
				}
				answered[id] = true
			}
		}
	}
	if len(asked) < 400 || bad == 0 && len(answered) != len(asked) {
		t.Errorf("seed %d: %d of %d queries answered", seed, len(answered), len(asked))
	}
	c := x.Close()
	if x.Counts() != c {
		t.Errorf("seed %d: %+v, want %+v", seed, x.Counts(), c)
	}
	if c.Passed != len(asked) || c.Answered != len(answered) || c.Answered+c.Late != len(asked) {
		t.Errorf("seed %d: %+v, of %d queries %d were answered", seed, c, len(asked), len(answered))
	}
}
