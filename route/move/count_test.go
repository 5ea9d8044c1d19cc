package move_test

import (
	"testing"

	"heddle/ib"
	"heddle/internal/need"
	"heddle/internal/routetest"
	"heddle/route"
	"heddle/route/engine/ftree"
	"heddle/route/engine/minhop"
	"heddle/route/move"
)

// TestPublished: the numbers of the paper's SMP table and of §V-A.
func TestPublished(t *testing.T) {
	for _, c := range []struct{ hosts, switches, full int }{
		{324, 36, 216}, {648, 54, 594}, {5832, 972, 104004}, {11664, 1620, 336960},
	} {
		if got := move.FullSMPs(c.switches, ib.LID(c.hosts+c.switches)); got != c.full {
			t.Errorf("%d hosts: %d SMPs, published %d", c.hosts, got, c.full)
		}
	}
	if c := move.PaperCapacity(16); c != (move.Capacity{Hypervisors: 2891, VMs: 46256}) {
		t.Errorf("%+v", c)
	}
	if c := move.TrueCapacity(16, 648); c != (move.Capacity{Hypervisors: 2853, VMs: 45648}) {
		t.Errorf("%+v", c)
	}
	if c := move.TrueCapacity(16, 60000); c != (move.Capacity{}) {
		t.Errorf("%+v", c)
	}
}

// TestSample: inside a leaf one SMP; at most n by copy and 2n by swap.
func TestSample(t *testing.T) {
	sample(t, map[string]*routetest.Net{"324": routetest.Tree2(18, 18, 18), "648": routetest.Tree2(36, 18, 18)})
}

func TestSampleLarge(t *testing.T) {
	need.Long(t)
	sample(t, map[string]*routetest.Net{"5832": routetest.Tree(36, 18), "11664": routetest.Tree(36, 36)})
}

func sample(t *testing.T, nets map[string]*routetest.Net) {
	const pairs = 2000
	for name, net := range nets {
		g := net.Graph()
		n := len(g.Switches)
		lids := hosts(g)
		for _, e := range []route.Engine{minhop.Engine{}, ftree.Engine{}} {
			tb, err := e.Compute(g, route.Options{Workers: 2})
			if err != nil {
				t.Fatal(err)
			}
			for _, kind := range []move.Kind{move.Copy, move.Swap} {
				for _, mode := range []move.Mode{move.Balanced, move.Minimal} {
					rnd := routetest.Draws(need.Seeds(1, 1)[0], uint64(kind))
					s, err := move.Sample(g, tb, kind, mode, pairs, func() (ib.LID, ib.LID) {
						a := rnd(len(lids))
						b := rnd(len(lids) - 1)
						if b >= a {
							b++
						}
						return lids[a], lids[b]
					})
					if err != nil {
						t.Fatal(err)
					}
					t.Logf("%s hosts, %s, %v, %v: %+v (n = %d)", name, e.Name(), kind, mode, s, n)
					limit := n
					if kind == move.Swap {
						limit = 2 * n
					}
					if s.Max > limit || s.MostSwitches > n || mode == move.Minimal && s.Min != 1 && s.Min != 2 {
						t.Errorf("%s hosts, %s, %v, %v: %+v", name, e.Name(), kind, mode, s)
					}
				}
			}
		}
	}
}
