package mad

import (
	"cmp"
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"heddle/ib"
)

// wire delays, loses, repeats and reorders packets as drawn.
type wire struct {
	t       *rapid.T
	loss    int // percent
	dup     int
	jitter  int // microseconds
	packets []flying
	seq     int
}

type flying struct {
	at   Time
	seq  int
	addr Addr
	mad  ib.MAD
	fail bool
}

func (w *wire) chance(percent int, what string) bool {
	return percent > 0 && rapid.IntRange(0, 99).Draw(w.t, what) < percent
}

func (w *wire) put(now Time, f flying) {
	if w.chance(w.loss, "lost") {
		return
	}
	n := 1
	if w.chance(w.dup, "repeated") {
		n = 2
	}
	for range n {
		w.seq++
		f.seq = w.seq
		f.at = now.Add(time.Duration(10+rapid.IntRange(0, w.jitter).Draw(w.t, "delay")) * time.Microsecond)
		w.packets = append(w.packets, f)
	}
	slices.SortFunc(w.packets, func(a, b flying) int { return cmp.Or(cmp.Compare(a.at, b.at), a.seq-b.seq) })
}

// Whatever the fabric does, every request completes exactly once, within the
// sum of its tries' time-outs and waits, and an answer is only ever given to
// the request it belongs to.
func TestEveryRequestCompletesOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{
			Window:    rapid.IntRange(1, 16).Draw(t, "window"),
			MaxWindow: rapid.IntRange(1, 16).Draw(t, "max window"),
			Timeout:   time.Duration(rapid.IntRange(1, 20).Draw(t, "timeout ms")) * time.Millisecond,
			Retries:   rapid.IntRange(1, 4).Draw(t, "retries"),
			FirstTID:  rapid.Uint32().Draw(t, "first TID"),
		}
		w := &wire{
			t: t, loss: rapid.IntRange(0, 60).Draw(t, "loss"), dup: rapid.IntRange(0, 40).Draw(t, "dup"),
			jitter: rapid.SampledFrom([]int{0, 100, 30_000}).Draw(t, "jitter"),
		}
		fails := rapid.IntRange(0, 20).Draw(t, "fails")
		garbles := rapid.IntRange(0, 20).Draw(t, "garbles")
		e := NewEngine(cfg)
		n := rapid.IntRange(1, 60).Draw(t, "requests")
		completed := make([]int, n)
		// All tries, the pauses between failed ones, and for every try the time
		// that all others may hold a window of one.
		bound := time.Duration(0)
		for k := range cfg.Retries + 1 {
			bound += 2*(cfg.Timeout<<min(k, 3)) + time.Duration(n)*cfg.Timeout*8/4
		}
		done := func(c Completion) {
			completed[c.Token]++
			if c.Elapsed > bound {
				t.Fatalf("request %d took %v, more than %v", c.Token, c.Elapsed, bound)
			}
			if c.Err == nil {
				if got := binary.BigEndian.Uint32(c.MAD[64:]); got != uint32(c.Token) {
					t.Fatalf("request %d was given the answer to %d", c.Token, got)
				}
			}
			if got := binary.BigEndian.Uint32(c.Request[64:]); got != uint32(c.Token) {
				t.Fatalf("request %d is said to be %d", c.Token, got)
			}
		}
		send := func(now Time) func(*Packet) {
			return func(p *Packet) {
				if e.charged > e.win.size+1 {
					t.Fatalf("%d in flight, window %d", e.charged, e.win.size)
				}
				f := flying{addr: p.Addr, mad: *(*ib.MAD)(p.Data)}
				if w.chance(fails, "fails") {
					f.fail = true
				} else {
					f.mad = respond(&f.mad)
					if w.chance(garbles, "garbled") {
						f.mad[rapid.IntRange(0, 23).Draw(t, "byte")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
					}
				}
				w.put(now, f)
			}
		}
		now := Time(0)
		submitted := 0
		for steps := 0; submitted < n || !e.Idle(); steps++ {
			if steps > 200_000 {
				t.Fatal("does not end")
			}
			for submitted < n && rapid.Bool().Draw(t, "submit") {
				var r Request
				if submitted%3 == 0 {
					r = toLID(ib.ClassSubnLID, ib.LID(1+submitted%5), ib.MethodGet, 0x11, uint32(submitted/5))
				} else {
					r = dr(ib.MethodGet, 0x11, uint32(submitted/7), 1, byte(submitted%7))
				}
				binary.BigEndian.PutUint32(r.MAD[64:], uint32(submitted))
				r.Token = uint64(submitted)
				if submitted%11 == 0 {
					r.Priority = Urgent
				}
				if err := e.Submit(&r); err != nil {
					t.Fatal(err)
				}
				submitted++
			}
			e.Poll(now, send(now))
			next := e.NextTimer()
			if len(w.packets) > 0 && w.packets[0].at <= next {
				f := w.packets[0]
				w.packets = w.packets[1:]
				now = max(now, f.at)
				p := Packet{Addr: f.addr, Data: f.mad[:]}
				if f.fail {
					p.Status = Failed
				}
				if c, k := e.Receive(now, &p); k == KindCompletion {
					done(c)
				}
			} else if next != Never {
				now = max(now, next)
				e.Expire(now, done)
			}
		}
		for i, k := range completed {
			if k != 1 {
				t.Fatalf("request %d completed %d times", i, k)
			}
		}
		if e.charged != 0 || e.NextTimer() != Never {
			t.Fatalf("left over: %d charged, the next timer is at %d", e.charged, e.NextTimer())
		}
	})
}

// Loss shrinks the window, once for all that was in flight together; after it
// the window grows back to its limit.
func TestWindowRecovers(t *testing.T) {
	var w window
	w.init(64, 64)
	w.onAnswer(5, 4, true)
	w.onAnswer(6, 4, true)
	if w.size != 48 {
		t.Fatalf("%d after one loss", w.size)
	}
	for i := range Time(100) {
		w.onAnswer(10+2*i, 9+2*i, true)
	}
	if w.size != 1 {
		t.Fatalf("%d after nothing but loss", w.size)
	}
	n := 0
	for ; w.size < 64; n++ {
		w.onAnswer(1000, 1000, false)
	}
	if n > 64*64 {
		t.Errorf("took %d answers", n)
	}
}

// A bit may be wrong anywhere; nothing panics, and a foreign answer never
// completes a request.
func FuzzEngineReceive(f *testing.F) {
	r := dr(ib.MethodGet, 0x11, 0, 1, 2)
	r.MAD.SetTID(0x101)
	m := respond(&r.MAD)
	f.Add(m[:], false)
	f.Add(m[:24], true)
	f.Add([]byte{}, false)
	f.Fuzz(func(t *testing.T, b []byte, fail bool) {
		e := NewEngine(Config{Retries: 1})
		for i := range 4 {
			r := dr(ib.MethodGet, 0x11, 0, 1, byte(i+1))
			r.Token = uint64(i)
			e.Submit(&r)
		}
		e.Poll(0, func(*Packet) {})
		p := Packet{Data: b}
		if fail {
			p.Status = Failed
		}
		done := 0
		for now := Time(1); now < 10; now++ {
			c, k := e.Receive(now, &p)
			if k == KindCompletion {
				done++
				if c.Err == nil && (c.MAD.AttrID() != 0x11 || c.MAD[offInitialPath+2] != byte(c.Token)+1) {
					t.Fatalf("token %d completed by % x", c.Token, b)
				}
			}
			e.Expire(now, func(Completion) { done++ })
			e.Poll(now, func(*Packet) {})
		}
		for !e.Idle() {
			now := e.NextTimer()
			e.Expire(now, func(Completion) { done++ })
			e.Poll(now, func(*Packet) {})
		}
		if done != 4 {
			t.Fatalf("%d completions of 4", done)
		}
	})
}
