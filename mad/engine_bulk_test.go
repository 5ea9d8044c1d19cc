package mad

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"heddle/ib"
)

// engineEnd is an engine at one end of a lossy network; agents answer at the
// other.
type engineEnd struct {
	e    *Engine
	l    *lossy
	done func(Completion)
}

func (x engineEnd) Receive(now Time, m *ib.MAD) {
	if c, k := x.e.Receive(now, &Packet{Addr: Addr{LID: ib.LIDPermissive}, Data: m[:]}); k == KindCompletion {
		x.done(c)
	}
	x.poll(now)
}

func (x engineEnd) Expire(now Time) {
	x.e.Expire(now, x.done)
	x.poll(now)
}

func (x engineEnd) poll(now Time) {
	x.e.Poll(now, func(p *Packet) { x.l.to(1)((*ib.MAD)(p.Data)) })
}

func (x engineEnd) NextTimer() Time { return x.e.NextTimer() }

// agents answer every request, except those of silent nodes.
type agents struct {
	l      *lossy
	silent byte
}

func (a agents) Receive(_ Time, m *ib.MAD) {
	if m[offInitialPath+1] == a.silent {
		return
	}
	r := respond(m)
	a.l.to(0)(&r)
}
func (agents) Expire(Time)     {}
func (agents) NextTimer() Time { return Never }

// A sweep's worth of requests on networks from perfect to bad, a few nodes
// silent: all others are answered, and the silent ones do not hold them up.
func TestSweepUnderLoss(t *testing.T) {
	const n, nodes, silent = 20_000, 100, 7
	for _, c := range []struct {
		name  string
		loss  float64
		limit time.Duration
	}{
		// Perfect: a round trip of about 120 µs, 32 at a time, takes 80 ms; then
		// the 200 silent requests, whose last tries wait 1.6 s.
		{"perfect", 0, 8 * time.Second},
		{"5%", 0.05, 30 * time.Second},
		{"20%", 0.20, 2 * time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := &lossy{r: rand.New(rand.NewPCG(1, 1)), loss: c.loss, dup: c.loss, delay: 10 * time.Microsecond, vary: 100 * time.Microsecond}
			e := NewEngine(Config{MaxWindow: 32, Retries: 12, FirstTID: 0xFFFF_0000})
			answered, lost := 0, 0
			x := engineEnd{e, l, func(k Completion) {
				node := k.Request[offInitialPath+1]
				switch {
				case k.Err == nil:
					answered++
					if got := binary.BigEndian.Uint32(k.MAD[64:]); got != uint32(k.Token) || node == silent {
						t.Fatalf("request %d got the answer to %d", k.Token, got)
					}
				case node == silent && k.Err == ErrTimeout:
					lost++
				default:
					t.Fatalf("request %d to node %d: %v", k.Token, node, k.Err)
				}
			}}
			l.ends[0], l.ends[1] = x, agents{l: l, silent: silent}
			for i := range uint32(n) {
				r := dr(ib.MethodGet, 0x15, i/nodes, byte(i%nodes), 2)
				binary.BigEndian.PutUint32(r.MAD[64:], i)
				r.Token = uint64(i)
				if i%nodes == silent {
					r.Retries = 3
				}
				if err := e.Submit(&r); err != nil {
					t.Fatal(err)
				}
			}
			x.poll(0)
			var took time.Duration
			l.run(func() bool {
				if answered+lost == n && took == 0 {
					took = time.Duration(l.now)
				}
				return false
			})
			if answered != n-n/nodes || lost != n/nodes || !e.Idle() {
				t.Fatalf("%d answered, %d lost", answered, lost)
			}
			var s Stats
			e.Stats(&s)
			t.Logf("%v, %d packets, window %d, %d retried, %d stale", took, l.packets, s.Window, s.Attrs[0].Retried, s.Stale)
			if took > c.limit {
				t.Errorf("took %v, limit %v", took, c.limit)
			}
			if c.loss == 0 && s.Window != 32 {
				t.Errorf("silent nodes shrank the window to %d", s.Window)
			}
		})
	}
}
