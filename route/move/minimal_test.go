package move_test

import (
	"math/bits"
	"testing"

	"heddle/fabric"
	"heddle/ib"
	"heddle/internal/need"
	"heddle/internal/routetest"
	"heddle/route"
	"heddle/route/check"
	"heddle/route/engine/minhop"
	"heddle/route/engine/nue"
	"heddle/route/engine/updn"
	"heddle/route/move"
)

// arrives reports whether packets to a LID with these entries come to port of switch dst
// from every switch.
func arrives(g *fabric.Graph, col []byte, dst int32, port uint8) bool {
	for s := range int32(len(col)) {
		u := s
		for n := 0; u != dst; n++ {
			e := col[u]
			if n > len(col) || int(e) >= len(g.PortChannel[u]) || g.PortChannel[u][e] < 0 {
				return false
			}
			u = g.Channels[g.PortChannel[u][e]].To
		}
	}
	return col[dst] == port
}

// subsets lists the sets of switches, as bits, that may take model's entries
// so that mine arrives at to's place.
func subsets(g *fabric.Graph, mine, model []byte, to *fabric.EndPort) (list []uint) {
	col := make([]byte, len(mine))
	for set := range uint(1) << len(mine) {
		whole := true
		for s := range mine {
			col[s] = mine[s]
			if set>>s&1 != 0 {
				whole = whole && mine[s] != model[s]
				col[s] = model[s]
			}
		}
		if whole && arrives(g, col, to.Switch, to.Port) {
			list = append(list, set)
		}
	}
	return list
}

func fewest(list []uint) int {
	best := 99
	for _, set := range list {
		best = min(best, bits.OnesCount(set))
	}
	return best
}

// TestFewest compares minimal moves with all sets of switches.
func TestFewest(t *testing.T) {
	pairs, shared, more := 0, 0, 0
	for _, seed := range need.Seeds(60, 1000) {
		rnd := routetest.Draws(seed, 41)
		n := 2 + rnd(7)
		g := routetest.Random(n, rnd(2*n), 2, 2, rnd).Graph()
		lids := hosts(g)
		if len(lids) < 2 {
			continue
		}
		for _, e := range []route.Engine{minhop.Engine{}, updn.Engine{}, nue.Engine{}} {
			tb, err := e.Compute(g, route.Options{})
			if err != nil {
				continue
			}
			p := check.Prove(g, tb, check.Options{})
			tb = shuffled(p, rnd)
			for range 6 {
				a, b := lids[rnd(len(lids))], lids[rnd(len(lids))]
				if a == b {
					continue
				}
				colA, colB := entries(tb, a), entries(tb, b)
				pa, pb := &g.EndPorts[g.LIDOwner[a]], &g.EndPorts[g.LIDOwner[b]]
				there := subsets(g, colA, colB, pb)
				back := subsets(g, colB, colA, pa)
				one := func(kind move.Kind) int {
					s, err := move.Sample(g, tb, kind, move.Minimal, 1, func() (ib.LID, ib.LID) { return a, b })
					if err != nil {
						t.Fatal(err)
					}
					return s.Min
				}
				if got, want := one(move.Copy), fewest(there); got != want {
					t.Fatalf("seed %d, %s: LID %d to LID %d: %d switches, %d would do", seed, e.Name(), a, b, got, want)
				}
				pairs++
				// A swap changes the fewest entries; LIDs of one block may share a switch's
				// SMP, and then other sets may share more.
				best := 99
				for _, x := range there {
					for _, y := range back {
						k := bits.OnesCount(x) + bits.OnesCount(y)
						if a/route.BlockLen == b/route.BlockLen {
							k = bits.OnesCount(x | y)
						}
						best = min(best, k)
					}
				}
				got := one(move.Swap)
				if got < best || got > fewest(there)+fewest(back) {
					t.Fatalf("seed %d, %s: LIDs %d and %d swapped: %d SMPs; %d at best", seed, e.Name(), a, b, got, best)
				}
				shared++
				if got > best {
					more++
				}
			}
		}
	}
	if pairs < 200 {
		t.Fatalf("only %d pairs", pairs)
	}
	t.Logf("%d pairs; %d of %d swaps inside a block could share more", pairs, more, shared)
}

// shuffled are tables after some minimal moves, so that paths are not shortest ones.
func shuffled(p *check.Proof, rnd func(k int) int) *route.Tables {
	o := options
	o.Unsafe = true
	for range rnd(6) {
		q := draw(p.Graph(), rnd)
		q.Kind, q.Mode = move.Swap, move.Minimal
		if r, err := move.New(p, []move.Request{q}, o); err == nil {
			back, err := move.New(r.Proof, []move.Request{q}, o)
			if err == nil { // everybody is where they were, by other paths maybe
				p = back.Proof
			}
		}
	}
	return p.Tables()
}

func entries(t *route.Tables, l ib.LID) []byte {
	col := make([]byte, t.Switches())
	for s := range col {
		col[s] = t.Entry(int32(s), l)
	}
	return col
}
