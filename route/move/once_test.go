package move_test

import (
	"slices"
	"testing"

	"heddle/fabric"
	"heddle/ib"
	"heddle/internal/need"
	"heddle/internal/routetest"
	"heddle/route"
	"heddle/route/check"
	"heddle/route/move"
)

// orders searches for an order in which the blocks of LIDs can be written one by one, each
// once, with a drain between any two: packets go round at no moment, and no credit cycle is
// possible, whatever else is in the tables.
type orders struct {
	g        *fabric.Graph
	a, b     *route.Tables
	lids     []ib.LID
	base     [][]int32 // by channel: channels that packets to others take next
	changed  []route.BlockDiff
	hopeless map[uint32]bool
}

func newOrders(g *fabric.Graph, a, b *route.Tables, lids []ib.LID, blocks []route.BlockDiff) *orders {
	o := &orders{g: g, a: a, b: b, lids: lids, changed: blocks, base: make([][]int32, len(g.Channels)), hopeless: map[uint32]bool{}}
	for d, e := range g.LIDOwner {
		if e >= 0 && !slices.Contains(lids, ib.LID(d)) {
			o.depend(o.base, func(s int32) byte { return a.Entry(s, ib.LID(d)) })
		}
	}
	return o
}

// channel is what entry e of switch s leads to, -1 if that is no switch.
func (o *orders) channel(s int32, e byte) int32 {
	if int(e) >= len(o.g.PortChannel[s]) {
		return -1
	}
	return o.g.PortChannel[s][e]
}

func (o *orders) depend(list [][]int32, entry func(s int32) byte) {
	for s := range int32(len(o.g.Switches)) {
		c := o.channel(s, entry(s))
		if c < 0 {
			continue
		}
		v := o.g.Channels[c].To
		if d := o.channel(v, entry(v)); d >= 0 {
			list[c] = append(list[c], d)
		}
	}
}

// mix is the entry of l at a switch when the blocks of set are written.
func (o *orders) mix(set uint32, l ib.LID) func(s int32) byte {
	return func(s int32) byte {
		for i, c := range o.changed {
			if c.Switch == s && int(c.Block) == int(l)/route.BlockLen && set>>i&1 == 1 {
				return o.b.Entry(s, l)
			}
		}
		return o.a.Entry(s, l)
	}
}

// rounds reports whether packets go round.
func (o *orders) rounds(entry func(s int32) byte) bool {
	for s := range int32(len(o.g.Switches)) {
		u, n := s, 0
		for c := o.channel(u, entry(u)); c >= 0; c = o.channel(u, entry(u)) {
			if u = o.g.Channels[c].To; n > len(o.g.Switches) {
				return true
			}
			n++
		}
	}
	return false
}

// safe reports whether one may pass from set to next.
func (o *orders) safe(set, next uint32) bool {
	deps := make([][]int32, len(o.base))
	for c := range o.base {
		deps[c] = slices.Clone(o.base[c])
	}
	for _, l := range o.lids {
		if o.rounds(o.mix(next, l)) {
			return false
		}
		o.depend(deps, o.mix(set, l))
		o.depend(deps, o.mix(next, l))
	}
	state := make([]uint8, len(deps))
	var visit func(c int32) bool
	visit = func(c int32) bool {
		state[c] = 1
		for _, d := range deps[c] {
			if state[d] == 1 || state[d] == 0 && !visit(d) {
				return false
			}
		}
		state[c] = 2
		return true
	}
	for c := range deps {
		if state[c] == 0 && !visit(int32(c)) {
			return false
		}
	}
	return true
}

func (o *orders) exists(set uint32) bool {
	if set == 1<<len(o.changed)-1 {
		return true
	}
	if o.hopeless[set] {
		return false
	}
	for i := range o.changed {
		if next := set | 1<<i; next != set && o.safe(set, next) && o.exists(next) {
			return true
		}
	}
	o.hopeless[set] = true
	return false
}

// mostWrites is how often a block is written at most.
func mostWrites(r *move.Result) (most int) {
	n := map[route.BlockDiff]int{}
	for _, st := range r.Stages {
		for _, b := range st.Blocks {
			n[b]++
			most = max(most, n[b])
		}
	}
	return most
}

// TestWrittenOnce: a move writes each block once and drops no entry, under both
// policies; so do moves in one batch, if such an order exists (the search tries all).
// Otherwise a block is written once for each of its LIDs, and once more if entries are
// dropped. With several lanes a block is written twice only for destinations that are
// dropped because hosts must use other levels first.
func TestWrittenOnce(t *testing.T) {
	var moves, many, twice, must, missed, open, lanes, discards int
	for _, seed := range need.Seeds(60, 500) {
		rnd := routetest.Draws(seed, 92)
		g := routetest.Random(4+rnd(12), rnd(24), 2, 2, rnd).Graph()
		if len(hosts(g)) < 4 {
			continue
		}
		for _, e := range engines {
			tb, err := e.Compute(g, route.Options{Workers: 2})
			if err != nil {
				continue
			}
			p := check.Prove(g, tb, check.Options{})
			if !p.OK() {
				continue
			}
			for range 12 {
				var list []move.Request
				var lids []ib.LID
				for range []int{1, 1, 2, 3}[rnd(4)] {
					q := draw(g, rnd)
					q.Kind = move.Copy
					if l := g.EndPorts[g.LIDOwner[q.LID]].LID; l == q.LID || slices.Contains(lids, q.LID) {
						continue
					}
					list, lids = append(list, q), append(lids, q.LID)
				}
				if len(list) == 0 {
					continue
				}
				o := options
				o.NoWait, o.Repath = rnd(2) == 1, true
				o.RepathTime = o.HOQLife
				r, err := move.New(p, list, o)
				if err != nil {
					t.Fatalf("seed %d, %s: %v", seed, e.Name(), err)
				}
				most := mostWrites(r)
				if tb.SL != nil || tb.Lanes != nil {
					lanes++
					if len(r.Discarded) > 0 {
						discards++
					}
					if len(list) == 1 && (most > 2 || most > 1 && len(r.Discarded) == 0) {
						t.Fatalf("seed %d, %s, %+v: a block is written %d times, %d destinations dropped: %s", seed, e.Name(), list, most, len(r.Discarded), r.Reason)
					}
					continue
				}
				moves++
				if len(list) > 1 {
					many++
				}
				if most > len(list)+min(r.Held, 1) {
					t.Fatalf("seed %d, %s, %+v: a block is written %d times: %s", seed, e.Name(), list, most, r.Reason)
				}
				if most <= 1 && r.Held == 0 {
					continue
				}
				twice++
				x := newOrders(g, tb, r.Tables, lids, r.Blocks)
				switch {
				case len(x.changed) > 14:
					open++
				case !x.exists(0):
					must++
				case len(list) == 1:
					t.Fatalf("seed %d, %s, %+v: %d entries held, a block is written %d times, and need not be: %s", seed, e.Name(), list, r.Held, most, r.Reason)
				default:
					missed++
				}
			}
		}
	}
	t.Logf("%d moves, %d of several LIDs; %d write a block twice or drop entries, %d of them must, %d would wait longer otherwise, %d are too large to say; with lanes: %d, %d drop destinations",
		moves, many, twice, must, missed, open, lanes, discards)
	if len(need.Seeds(60, 500)) > 1 && (moves < 500 || many < 100 || lanes < 50 || 3*twice > many || 3*missed > twice) {
		t.Errorf("too few moves, or too many that write twice")
	}
}
