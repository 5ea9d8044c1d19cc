package move_test

import (
	"fmt"
	"testing"

	"heddle/fabric"
	"heddle/ib"
	"heddle/internal/routetest"
	"heddle/route"
	"heddle/route/check"
	"heddle/route/engine/minhop"
	"heddle/route/move"
)

// mixes walks the stages of single-lane tables naively: no state that some
// order of writes within a stage makes may loop, and the dependencies of all packets
// that are under way between two drains must be free of cycles.
func mixes(from route.Solution, r *move.Result, states []*route.Tables) error {
	g := r.Graph
	epoch := []*route.Tables{padded(from.Tables, r.Tables)}
	for k := range states {
		if l := anyLoop(g, epoch[len(epoch)-1], states[k]); l > 0 {
			return fmt.Errorf("LID %d may loop in stage %d", l, k)
		}
		epoch = append(epoch, states[k])
		if k+1 < len(states) && r.Stages[k].Drain == 0 {
			continue
		}
		if underWay(from.Graph, epoch) {
			return fmt.Errorf("a credit cycle up to stage %d of %d", k, len(states))
		}
		epoch = epoch[len(epoch)-1:]
	}
	return nil
}

func hop(g *fabric.Graph, t *route.Tables, s int32, l int) int32 {
	if e := t.Entry(s, ib.LID(l)); int(e) < len(g.PortChannel[s]) {
		return g.PortChannel[s][e]
	}
	return -1
}

// anyLoop is a LID that loops in some mix of two states, or 0.
func anyLoop(g *fabric.Graph, a, b *route.Tables) int {
	for l := 1; l <= int(b.TopLID); l++ {
		next := make([][]int32, len(g.Switches))
		for s := range next {
			for _, t := range []*route.Tables{a, b} {
				if c := hop(g, t, int32(s), l); c >= 0 {
					next[s] = append(next[s], g.Channels[c].To)
				}
			}
		}
		if circular(next) {
			return l
		}
	}
	return 0
}

// underWay reports whether packets sent in a row of states, as written one after the
// other without a drain, may wait for each other in a circle. One sent by an entry
// of state i meets, at the next switch, entries of that state or later ones, or of the
// one before while it is being overwritten.
func underWay(g *fabric.Graph, epoch []*route.Tables) bool {
	next := make([][]int32, len(g.Channels))
	had := map[[2]int32]bool{}
	add := func(c1, c2 int32) {
		if c1 >= 0 && c2 >= 0 && !had[[2]int32{c1, c2}] {
			had[[2]int32{c1, c2}] = true
			next[c1] = append(next[c1], c2)
		}
	}
	hasCA := make([]bool, len(g.Switches))
	for i := range g.EndPorts {
		if e := &g.EndPorts[i]; e.Type != ib.NodeSwitch && e.Switch >= 0 {
			hasCA[e.Switch] = true
		}
	}
	for l, e := range g.LIDOwner {
		switch {
		case e < 0 || g.EndPorts[e].Switch < 0:
		case g.EndPorts[e].Type == ib.NodeSwitch: // only CAs send data there; its entries do not change
			for s, ca := range hasCA {
				last := int32(-1)
				for u, n := int32(s), 0; ca && n <= len(g.Switches); n++ {
					c := hop(g, epoch[0], u, l)
					if c < 0 {
						break
					}
					add(last, c)
					last, u = c, g.Channels[c].To
				}
			}
		default:
			for i, t := range epoch {
				for u := range g.Switches {
					c := hop(g, t, int32(u), l)
					if c < 0 {
						continue
					}
					for _, later := range epoch[max(i-1, 0):] {
						add(c, hop(g, later, g.Channels[c].To, l))
					}
				}
			}
		}
	}
	return circular(next)
}

func circular(next [][]int32) bool {
	state := make([]uint8, len(next))
	var visit func(x int32) bool
	visit = func(x int32) bool {
		state[x] = 1
		for _, y := range next[x] {
			if state[y] == 1 || state[y] == 0 && visit(y) {
				return true
			}
		}
		state[x] = 2
		return false
	}
	for x := range next {
		if state[x] == 0 && visit(int32(x)) {
			return true
		}
	}
	return false
}

// TestOrderMatters: a swap between leaves loops or deadlocks if it is written in one
// stage.
func TestOrderMatters(t *testing.T) {
	g := routetest.Tree(4, 4).Graph()
	tb, err := minhop.Engine{}.Compute(g, route.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p := check.Prove(g, tb, check.Options{})
	r, err := move.New(p, []move.Request{{Kind: move.Swap, LID: 1, With: 16}}, options)
	if err != nil {
		t.Fatal(err)
	}
	if anyLoop(r.Graph, tb, r.Tables) == 0 {
		t.Error("written at once it would do no harm")
	}
	drains := 0
	for _, st := range r.Stages {
		if st.Drain > 0 {
			drains++
		}
	}
	if drains == 0 || r.Held > 0 || r.Reason == "" {
		t.Errorf("%d drains, %d held: %s", drains, r.Held, r.Reason)
	}
	for i := range r.Stages {
		r.Stages[i].Drain = 0
	}
	if mixes(route.Solution{Graph: g, Tables: tb}, r, after(r, tb)) == nil {
		t.Error("without the drain it would do no harm")
	}
	// Nobody can say when packets have drained.
	if _, err := move.New(p, []move.Request{{Kind: move.Swap, LID: 1, With: 16}}, move.Options{}); err == nil {
		t.Error("it is not refused where lifetimes have no limit")
	}
}
