package move_test

import (
	"testing"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/internal/need"
	"heddle/internal/routetest"
	"heddle/route"
	"heddle/route/check"
	"heddle/route/move"
)

// circles reports whether packets to l can go in a circle where each switch forwards by either
// of two tables.
func circles(g *fabric.Graph, a, b *route.Tables, l ib.LID) bool {
	const open, done = 1, 2
	state := make([]uint8, len(g.Switches))
	var visit func(s int32) bool
	visit = func(s int32) bool {
		state[s] = open
		for _, t := range [2]*route.Tables{a, b} {
			e := t.Entry(s, l)
			if int(e) >= len(g.PortChannel[s]) || g.PortChannel[s][e] < 0 {
				continue
			}
			v := g.Channels[g.PortChannel[s][e]].To
			if state[v] == open || state[v] == 0 && visit(v) {
				return true
			}
		}
		state[s] = done
		return false
	}
	for s := range state {
		if state[s] == 0 && visit(int32(s)) {
			return true
		}
	}
	return false
}

// TestNoWait: no move waits, drops anything or writes a block twice, packets go round at no
// moment, and where the other policy waits the cycle is named: each of its channels leads
// into the next.
func TestNoWait(t *testing.T) {
	risks, moves, waits := 0, 0, 0
	for _, seed := range need.Seeds(40, 500) {
		rnd := routetest.Draws(seed, 77)
		g := routetest.Random(4+rnd(12), rnd(24), 2, 2, rnd).Graph()
		if len(hosts(g)) < 2 {
			continue
		}
		for _, e := range engines {
			tb, err := e.Compute(g, route.Options{Workers: 2})
			if err != nil {
				continue
			}
			p := check.Prove(g, tb, check.Options{})
			if !p.OK() || tb.SL != nil || tb.Lanes != nil {
				continue
			}
			for range 12 {
				q := draw(g, rnd)
				q.Kind = move.Copy
				if g.EndPorts[g.LIDOwner[q.LID]].LID == q.LID {
					continue
				}
				slow, err := move.New(p, []move.Request{q}, options)
				o := options
				o.NoWait = true
				r, err2 := move.New(p, []move.Request{q}, o)
				if err != nil || err2 != nil {
					t.Fatalf("seed %d, %s: %v, %v", seed, e.Name(), err, err2)
				}
				moves++
				var wait time.Duration
				for _, st := range slow.Stages {
					wait += st.Drain
				}
				if wait > 0 {
					waits++
				}
				if (r.Risk != nil) != (wait > 0) {
					t.Fatalf("seed %d, %s, %+v: the other policy waits %v, the risk is %+v", seed, e.Name(), q, wait, r.Risk)
				}
				if r.Held > 0 || r.Writes != len(r.Blocks) || len(r.Blocks) > 0 && len(r.Stages) == 0 {
					t.Fatalf("seed %d, %s, %+v: %d entries held, %d blocks written %d times in %d stages", seed, e.Name(), q, r.Held, len(r.Blocks), r.Writes, len(r.Stages))
				}
				was := padded(tb, r.Tables)
				for k, now := range after(r, tb) {
					if r.Stages[k].Drain != 0 || r.Stages[k].Repath != 0 {
						t.Fatalf("seed %d, %s, %+v: stage %d waits", seed, e.Name(), q, k)
					}
					if circles(g, was, now, q.LID) {
						t.Fatalf("seed %d, %s, %+v: packets go round in stage %d", seed, e.Name(), q, k)
					}
					was = now
				}
				if !was.Equal(r.Tables) {
					t.Fatalf("seed %d, %s, %+v: the stages do not end at the tables", seed, e.Name(), q)
				}
				if r.Risk != nil {
					risks++
					c := r.Risk.Cycle
					for i, h := range c {
						k := g.PortChannel[h.Switch][h.Port]
						if k < 0 || g.Channels[k].To != c[(i+1)%len(c)].Switch {
							t.Fatalf("seed %d, %s, %+v: %v is no cycle", seed, e.Name(), q, c)
						}
					}
					if len(c) < 2 || r.Risk.Worst != 2*time.Second {
						t.Fatalf("seed %d, %s, %+v: %+v", seed, e.Name(), q, r.Risk)
					}
				}
			}
		}
	}
	if risks < 10 || risks > moves/2 {
		t.Fatalf("%d moves, %d of them at risk", moves, risks)
	}
	t.Logf("%d moves, %d would wait, %d at risk", moves, waits, risks)

	// Without limits of lifetimes a cycle would be permanent.
	o := options
	o.NoWait, o.HOQLife = true, 0
	for _, seed := range need.Seeds(40, 100) {
		rnd := routetest.Draws(seed, 78)
		g := routetest.Random(4+rnd(12), rnd(24), 2, 2, rnd).Graph()
		for _, e := range engines {
			tb, err := e.Compute(g, route.Options{Workers: 2})
			if err != nil || len(hosts(g)) < 2 {
				continue
			}
			if p := check.Prove(g, tb, check.Options{}); p.OK() && tb.SL == nil {
				if r, err := move.New(p, []move.Request{draw(g, rnd)}, o); err == nil && r.Risk != nil {
					t.Fatalf("seed %d, %s: at risk without limits: %+v", seed, e.Name(), r.Risk)
				}
			}
		}
	}
}

// TestMoveInsideLeaf: a move inside a leaf changes no path, with any engine and lanes:
// one block, one stage, no changed level.
func TestMoveInsideLeaf(t *testing.T) {
	seen := map[string]int{}
	for _, seed := range need.Seeds(6, 100) {
		rnd := routetest.Draws(seed, 79)
		for _, net := range []*routetest.Net{routetest.Random(4+rnd(12), rnd(24), 2, 2, rnd), routetest.Torus(4, 4, 2), routetest.Tree2(4, 4, 3)} {
			for s := range 4 {
				net.Host(s, 2)
				net.Host(s, 2)
			}
			g := net.Graph()
			for _, e := range engines {
				tb, err := e.Compute(g, route.Options{Workers: 2})
				if err != nil {
					continue
				}
				p := check.Prove(g, tb, check.Options{})
				if !p.OK() {
					continue
				}
				for _, l := range hosts(g) {
					a := &g.EndPorts[g.LIDOwner[l]]
					to := int32(-1)
					for e := range g.EndPorts {
						if b := &g.EndPorts[e]; b.Switch == a.Switch && b.GUID != a.GUID && b.Type != ib.NodeSwitch {
							to = int32(e)
						}
					}
					if a.LID == l || to < 0 {
						continue
					}
					for _, o := range []move.Options{options, {Workers: 1, NoWait: true, Repath: true, SwitchLifetime: time.Second, HOQLife: time.Second}} {
						r, err := move.New(p, []move.Request{{Kind: move.Copy, Mode: move.Minimal, LID: l, With: g.EndPorts[to].LID}}, o)
						if err != nil {
							t.Fatalf("seed %d, %s: %v", seed, e.Name(), err)
						}
						if !r.Local || len(r.Stages) != 1 || r.Writes != 1 || r.NeedsRepath || r.Risk != nil || !r.Proof.OK() {
							t.Fatalf("seed %d, %s: %+v", seed, e.Name(), r)
						}
						if got := after(r, tb)[0]; !got.Equal(r.Tables) {
							t.Fatalf("seed %d, %s: the stage does not end at the tables", seed, e.Name())
						}
					}
					seen[e.Name()]++
				}
			}
		}
	}
	for _, e := range engines {
		if seen[e.Name()] == 0 {
			t.Errorf("%s moved nothing: %v", e.Name(), seen)
		}
	}
}
