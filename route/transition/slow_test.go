package transition_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/internal/routetest"
	"heddle/route"
	"heddle/route/engine/lash"
	"heddle/route/engine/nue"
	"heddle/route/engine/sssp"
	"heddle/route/transition"
)

// TestSlowLane: paths of several layers share a slow lane, and routes change. A plan that knows the
// levels of the tables only may let them close a cycle there; one that holds those of the slow paths
// does not, in any stage.
func TestSlowLane(t *testing.T) {
	first, n := seeds(40, 2000)
	engines := []route.Engine{lash.Engine{}, sssp.DFEngine{}, nue.Engine{}}
	for _, e := range engines {
		cycles, played := 0, 0
		for seed := first; seed < first+n; seed++ {
			rng := rand.New(rand.NewPCG(seed, 0x736c))
			nsw := 8 + rng.IntN(6)
			net := routetest.Random(nsw, nsw/2+rng.IntN(nsw/2), 1, 1, rng.IntN)
			if rng.IntN(2) == 0 {
				net = routetest.Torus(4, 3+rng.IntN(2), 1)
			}
			// A cable that comes back changes routes, and no packet is lost.
			less, g := routetest.Damaged(net, 1+rng.IntN(2), rng.IntN).Graph(), net.Graph()
			a, err := e.Compute(less, route.Options{MaxVLs: 7, Seed: seed})
			if err != nil || len(less.Switches) != len(g.Switches) {
				continue // cut in two
			}
			to := e
			if rng.IntN(2) == 0 {
				to = engines[rng.IntN(len(engines))]
			}
			b, err := to.Compute(g, route.Options{MaxVLs: 7, Seed: seed + 1})
			if err != nil {
				t.Fatal(err)
			}
			if a.OneLane() && b.OneLane() {
				continue
			}
			held := slowPaths(g, a, rng, ib.SL(7))
			played++
			o := limited
			o.RepathTime = time.Second
			if err := play(g, a, b, held, transition.New(g, a, b, o), rng); err != nil {
				if !strings.Contains(err.Error(), "credit cycle") {
					t.Fatalf("%s, seed %d: %v", e.Name(), seed, err)
				}
				cycles++
			}
			o.Held = held
			p := transition.New(g, a, b, o)
			if p.Mode == transition.ModeRefused {
				t.Fatalf("%s, seed %d: %s", e.Name(), seed, p.Reason)
			}
			if err := play(g, a, b, held, p, rng); err != nil {
				t.Fatalf("%s, seed %d: %v (%s): %v", e.Name(), seed, p.Mode, p.Reason, err)
			}
		}
		t.Logf("%s: %d changes, %d with a cycle if the plan does not know the slow paths", e.Name(), played, cycles)
		if n >= 40 && cycles == 0 {
			t.Errorf("%s: %d changes, %d with a cycle", e.Name(), played, cycles)
		}
	}
}

// slowPaths are paths from some hosts to others, and back, on a level: as many hot hosts in random
// order as close no cycle by tables.
func slowPaths(g *fabric.Graph, a *route.Tables, rng *rand.Rand, sl ib.SL) (held *transition.Held) {
	nsw := len(g.Switches)
	var all []transition.HeldLevel
	for _, hot := range rng.Perm(nsw) {
		list := slices.Clone(all)
		for s := range int32(nsw) {
			if int(s) == hot || rng.IntN(4) == 0 {
				continue
			}
			for e := range g.EndPorts {
				switch x := &g.EndPorts[e]; {
				case x.Type == ib.NodeSwitch:
				case int(x.Switch) == hot:
					list = append(list, transition.HeldLevel{LID: x.LID, Switch: s, SL: sl})
				case x.Switch == s:
					list = append(list, transition.HeldLevel{LID: x.LID, Switch: int32(hot), SL: sl})
				}
			}
		}
		with := (*transition.Held)(nil).With(nsw, list)
		if newWire(g, a, a.TopLID).alone(a, with) == nil {
			all, held = list, with
		}
	}
	return held
}

// TestHeldWith: levels are added to those that are held, at the switches and for the LIDs of the list
// only.
func TestHeldWith(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 0x7769))
		const nsw, top = 5, 12
		var h *transition.Held
		if seed%2 == 0 {
			g := routetest.Random(nsw, 3, 1, 1, rng.IntN).Graph()
			h = h.Next(randomTables(g, rng, true, false, false), nil, nsw)
		}
		var list []transition.HeldLevel
		for range rng.IntN(30) {
			list = append(list, transition.HeldLevel{LID: ib.LID(rng.IntN(top + 1)), Switch: int32(rng.IntN(nsw)), SL: ib.SL(rng.IntN(16))})
		}
		was := slices.Clone(list)
		r := h.With(nsw, list)
		if !slices.Equal(list, was) {
			t.Fatal("the list was changed")
		}
		for s := range int32(nsw) {
			for l := range ib.LID(top + 3) {
				want := h.Levels(s, l)
				for _, x := range list {
					if x.Switch == s && x.LID == l {
						want |= 1 << x.SL
					}
				}
				if got := r.Levels(s, l); got != want {
					t.Fatalf("seed %d: switch %d, LID %d: levels %x, want %x", seed, s, l, got, want)
				}
			}
		}
	}
}
