package dataplane

import (
	"fmt"
	"hash/fnv"
	"testing"

	"heddle/fabric"
	"heddle/internal/need"
)

// story is all that must not depend on the number of workers: counts, the hash of
// deliveries, the counters of all ports and lanes, streams, and the deadlock.
func story(e *Engine) string {
	s := e.Stats()
	h := fnv.New64a()
	fmt.Fprintln(h, *s)
	for p := range int32(len(e.out)) {
		r := e.ref(p)
		if e.out[p].source >= 0 && e.top.Nodes[r.Node].Switch {
			continue // the far side of a management port
		}
		fmt.Fprintln(h, e.Port(r))
		for v := range e.cfg.Lanes {
			fmt.Fprintln(h, p, v, e.outLanes[e.port(r)*e.stride+int32(v)].waited)
		}
	}
	for i := range e.streams {
		fmt.Fprintln(h, e.Flow(i))
	}
	d := "no deadlock"
	if x := e.Deadlock(); x != nil {
		d = x.String()
	}
	return fmt.Sprintf("at %v: %d events, %d made, %d delivered, %v lost, %d there, next at %v, hash %x, all %x, %s",
		e.Now(), e.Events(), s.Created, s.Delivered, s.Dropped, e.Live(), e.Next(), s.Hash, h.Sum64(), d)
}

// TestTwins: random fabrics with random traffic and faults have the same history
// with 1, 2, 3 and 8 workers.
func TestTwins(t *testing.T) {
	for _, seed := range need.Seeds(30, 600) {
		want, windows := "", uint64(0)
		for _, n := range []int{1, 2, 3, 8} {
			x := newTrial(t, seed, n)
			x.run(t)
			if n == 1 {
				want = x.story()
			} else if got := x.story(); got != want {
				t.Fatalf("seed %d: with %d workers\n%s\nwith one\n%s", seed, n, got, want)
			}
			windows += x.e.workers.windows
		}
		if seed%4 < 2 && windows == 0 {
			t.Logf("seed %d: no windows", seed)
		}
	}
}

// TestValidationTwins: all engines of all validation cases have the same history
// with 1, 2, 3 and 8 workers, and of the long ones with 1 and 2.
func TestValidationTwins(t *testing.T) {
	defer func() { crew.workers, crew.always, crew.made = 0, false, nil }()
	for _, list := range [][]vcase{pathCases, queueCases, patternCases, hotCases, faultCases, programCases} {
		for _, c := range list {
			t.Run(c.id, func(t *testing.T) {
				if !full() && !quick[c.id] {
					t.Skip("long: runs in make test-long")
				}
				var want []string
				counts := []int{1, 2, 3, 8}
				if c.long {
					counts = counts[:2]
				}
				for _, n := range counts {
					var made []*Engine
					clear(hotRuns) // they are kept between cases
					crew.workers, crew.always, crew.made = n, true, &made
					for _, r := range c.run(t) {
						if !r.ok() {
							t.Errorf("%s with %d workers: %s", c.id, n, r.String())
						}
					}
					var got []string
					for _, e := range made {
						got = append(got, story(e))
					}
					if n == 1 {
						want = got
						continue
					}
					for i := range want {
						if got[i] != want[i] {
							t.Errorf("%s: run %d with %d workers\n%s\nwith one\n%s", c.id, i, n, got[i], want[i])
						}
					}
				}
			})
		}
	}
}

// quick are the validation cases that run with workers even in a short run.
var quick = map[string]bool{
	"V1": true, "V2": true, "V3": true, "V5": true, "V6": true, "V7": true, "V8": true, "V9": true, "V10": true, "V29": true, "V34": true,
	"V37": true, "V39": true,
}

// TestProgramTwins: programs on hosts, and streams that hooks post to, which leave
// no time for windows, have the same history with any number of workers.
func TestProgramTwins(t *testing.T) {
	x := newTree(t, fabric.KAry{K: 4, N: 2}, qdr)
	for _, hooked := range []bool{false, true} {
		want := ""
		for _, n := range []int{1, 2, 3, 8} {
			c := testConfig()
			c.Workers = n
			e := mustNew(t, x.top, x.tables(1), c)
			e.workers.always = true
			hosts := e.NumHosts()
			for h := range hosts {
				p := &echo{back: true, every: 3 * Microsecond}
				attach(t, e, h, p)
				p.door.Wake(Time(h) * Nanosecond)
				if hooked {
					mustAdd(t, e, Stream{Src: h, To: To((h + 5) % hosts), Bytes: rc2k, Arrival: Posted})
				} else {
					mustAdd(t, e, Stream{Src: h, To: ToAny(), Bytes: rc2k, Arrival: Poisson, Gap: Microsecond})
				}
			}
			for h := range hosts {
				d := Door{e, int32(h)}
				d.Send(2*h, &Message{DLID: e.hosts[(h+hosts/2)%hosts].lid, Bytes: rc2k})
				if hooked {
					e.Post(2*h+1, 1)
				}
			}
			if hooked {
				e.SetHooks(Hooks{OnDeliver: func(d *Delivery) {
					if d.Stream%2 == 1 { // the next host's turn
						e.Post((d.Stream+2*int(d.Seq)+2)%(2*hosts), 1)
					}
				}})
			}
			e.Run(200 * Microsecond)
			mustCheck(t, e)
			if e.Stats().Delivered < 1000 || n > 1 && (e.workers.windows == 0) != hooked {
				t.Errorf("%d workers: %d delivered, %d windows", n, e.Stats().Delivered, e.workers.windows)
			}
			if got := story(e); n == 1 {
				want = got
			} else if got != want {
				t.Errorf("%d workers\n%s\none\n%s", n, got, want)
			}
		}
	}
}

// TestSplit: parts of a tree have about equal work; pods stay together.
func TestSplit(t *testing.T) {
	x := newTree(t, fabric.KAry{K: 6, N: 3}, qdr)
	for _, n := range []int{2, 3, 6} {
		part := split(x.top, n)
		load, cut := make([]int, n), 0
		for _, l := range x.top.Links {
			a, b := x.top.Nodes[l.A.Node], x.top.Nodes[l.B.Node]
			for _, r := range []fabric.Ref{l.A, l.B} {
				if x.top.Nodes[r.Node].Switch {
					load[part[r.Node]]++
				}
			}
			if a.Switch && b.Switch && part[l.A.Node] != part[l.B.Node] {
				cut++
			}
		}
		least, most := load[0], load[0]
		for _, w := range load {
			least, most = min(least, w), max(most, w)
		}
		// Half of the cables of a tree of three levels are between pods and roots; of
		// those one in n stays in a part.
		if float64(most) > 1.1*float64(least) || 2*n*cut > len(x.top.Links)*(n-1) {
			t.Errorf("%d parts: loads %v, %d of %d cables between parts", n, load, cut, len(x.top.Links))
		}
	}
}
