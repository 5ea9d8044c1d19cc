package transition_test

import (
	"fmt"
	"slices"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
	"heddle/route/transition"
)

// timeline is what switches hold one after the other, and the oracle of what
// packets can do meanwhile. It shares nothing with the planner but the tables.
//
// While stage k is written a switch sends by the entries before or after it. A
// packet meets stages in the order of time. After a drain every packet is on a
// channel that was chosen since the stage before it was written, so what was
// before does not count any more.
type timeline struct {
	g      *fabric.Graph
	states []*route.Tables // before the first stage, and after each
	drains []bool          // by stage: a wait follows
	before *fabric.Graph
}

func planned(g *fabric.Graph, installed *route.Tables, p *transition.Plan) *timeline {
	tl := &timeline{g: g, states: []*route.Tables{installed}}
	n := len(installed.LFT)
	for k := range p.Stages {
		t := *tl.states[k]
		t.LFT = slices.Clone(t.LFT)
		own := make([]bool, n)
		for _, b := range p.Stages[k].LFT {
			if !own[b.Switch] {
				own[b.Switch] = true
				t.LFT[b.Switch] = slices.Clone(t.LFT[b.Switch])
			}
			var dst [route.BlockLen]byte
			p.Block(k, b, &dst)
			row := t.LFT[b.Switch]
			for len(row) < (int(b.Block)+1)*route.BlockLen {
				row = append(row, route.Drop)
			}
			copy(row[int(b.Block)*route.BlockLen:], dst[:])
			t.LFT[b.Switch] = row
			t.TopLID = max(t.TopLID, ib.LID(len(row)-1))
		}
		tl.states = append(tl.states, &t)
		tl.drains = append(tl.drains, p.Stages[k].Drain != 0)
	}
	return tl
}

// guarded has hosts use the levels of final in the end, and switches discard by its SL-to-VL
// tables from the stage on that writes them.
func (tl *timeline) guarded(p *transition.Plan, final *route.Tables) {
	last := tl.states[len(tl.states)-1]
	last.SL, last.Class, last.NumClasses = final.SL, final.Class, final.NumClasses
	for k := range p.Stages {
		if len(p.Stages[k].SL2VL) > 0 {
			for _, t := range tl.states[k+1:] {
				t.Lanes = final.Lanes
			}
		}
	}
}

// place is where a packet is: on a channel, since stage.
type place struct {
	c     int32
	lane  uint8
	stage int
}

// check looks at all that packets can do while the first n stages are carried
// out: it returns what is wrong, "" if nothing.
func (tl *timeline) check(n int) string {
	for k := range n - 1 {
		if tl.drains[k] {
			first, rest := *tl, *tl
			first.states, first.drains = tl.states[:k+2], tl.drains[:k+1]
			rest.states, rest.drains = tl.states[k+1:], tl.drains[k+1:]
			first.drains = make([]bool, k+1)
			if bad := first.check(k + 1); bad != "" {
				return bad
			}
			return rest.check(n - k - 1)
		}
	}
	g := tl.g
	deps := map[[2]int64]bool{}
	lanes := int64(16)
	hasCA := make([]bool, len(g.Switches))
	for _, e := range g.EndPorts {
		if e.Type != ib.NodeSwitch && e.Switch >= 0 {
			hasCA[e.Switch] = true
		}
	}
	top := tl.states[0].TopLID
	for _, t := range tl.states {
		top = max(top, t.TopLID)
	}
	for l := ib.LID(1); l <= top; l++ {
		anywhere := true
		if int(l) < len(g.LIDOwner) && g.LIDOwner[l] != fabric.NoLID {
			anywhere = g.EndPorts[g.LIDOwner[l]].Type != ib.NodeSwitch
		} else if b := tl.before; b != nil && int(l) < len(b.LIDOwner) && b.LIDOwner[l] != fabric.NoLID {
			anywhere = b.EndPorts[b.LIDOwner[l]].Type != ib.NodeSwitch
		}
		byLevel, told := map[ib.SL][]int32{}, map[ib.SL][]int32{}
		for s := range int32(len(g.Switches)) {
			if anywhere || hasCA[s] {
				a, b := tl.states[0].PathSL(s, l), tl.states[n].PathSL(s, l)
				byLevel[a] = append(byLevel[a], s)
				if b != a {
					told[b] = append(told[b], s)
				}
			}
		}
		for first, starts := range map[int]map[ib.SL][]int32{0: byLevel, max(n-1, 0): told} {
			for sl, from := range starts {
				if bad := tl.follow(l, sl, from, first, n, func(a, b place) {
					deps[[2]int64{int64(a.c)*lanes + int64(a.lane), int64(b.c)*lanes + int64(b.lane)}] = true
				}); bad != "" {
					return bad
				}
			}
		}
	}
	next := map[int64][]int64{}
	for d := range deps {
		next[d[0]] = append(next[d[0]], d[1])
	}
	state := map[int64]int{}
	var visit func(v int64) bool
	visit = func(v int64) bool {
		state[v] = 1
		for _, u := range next[v] {
			if state[u] == 1 || state[u] == 0 && !visit(u) {
				return false
			}
		}
		state[v] = 2
		return true
	}
	for v := range next {
		if state[v] == 0 && !visit(v) {
			return "packets can wait for each other in a circle"
		}
	}
	return ""
}

// follow visits all places that packets of one level from some switches to l, sent
// from stage first on, can come to, and reports what leads to what.
func (tl *timeline) follow(l ib.LID, sl ib.SL, from []int32, first, n int, dep func(a, b place)) string {
	g := tl.g
	state := map[place]int{}
	sends := func(s int32, in uint8, stage int, fn func(b place)) {
		for k := stage; k <= max(n-1, 0); k++ {
			for j := k; j <= min(k+1, n); j++ {
				t := tl.states[j]
				e := t.Entry(s, l)
				if int(e) >= len(g.PortChannel[s]) || g.PortChannel[s][e] < 0 {
					continue
				}
				c := g.PortChannel[s][e]
				fn(place{c, uint8(t.VL(s, in, e, sl, g.Channels[c].VLs)), k})
			}
		}
	}
	var visit func(a place) bool
	visit = func(a place) bool {
		state[a] = 1
		ok := true
		h := g.Channels[a.c]
		sends(h.To, h.InPort, a.stage, func(b place) {
			if b.lane == 15 || !ok || g.Channels[b.c].OutPort == h.InPort {
				return // switches discard what would leave by the port it came in by (IBA §16.1.3.5)
			}
			dep(a, b)
			if state[b] == 1 || state[b] == 0 && !visit(b) {
				ok = false
			}
		})
		state[a] = 2
		return ok
	}
	for _, s := range from {
		bad := false
		for k := first; k < max(n, 1); k++ {
			sends(s, 0, k, func(b place) {
				if b.lane != 15 && state[b] == 0 && !visit(b) {
					bad = true
				}
			})
		}
		if bad {
			return fmt.Sprintf("packets to LID %d can go round", l)
		}
	}
	return ""
}

// keeps says whether what delivered before a stage delivers after it: no stage
// breaks a pair.
func (tl *timeline) keeps() string {
	for l := ib.LID(1); int(l) < len(tl.g.LIDOwner); l++ {
		if tl.g.LIDOwner[l] == fabric.NoLID {
			continue
		}
		var had []bool
		for k, t := range tl.states {
			have := make([]bool, len(t.LFT))
			for s := range have {
				have[s] = tl.delivers(t, int32(s), l)
				if had != nil && had[s] && !have[s] {
					return fmt.Sprintf("stage %d breaks the path from switch %d to LID %d", k-1, s, l)
				}
			}
			had = have
		}
	}
	return ""
}

func (tl *timeline) delivers(t *route.Tables, s int32, l ib.LID) bool {
	g := tl.g
	e := &g.EndPorts[g.LIDOwner[l]]
	for range len(g.Switches) + 1 {
		p := t.Entry(s, l)
		if s == e.Switch {
			return p == e.Port
		}
		if int(p) >= len(g.PortChannel[s]) || g.PortChannel[s][p] < 0 {
			return false
		}
		s = g.Channels[g.PortChannel[s][p]].To
	}
	return false
}

// differ names an entry in which two tables differ, "" if there is none.
func differ(a, b *route.Tables) string {
	for s := range b.LFT {
		for l := ib.LID(1); l <= b.TopLID; l++ {
			if x, y := a.Entry(int32(s), l), b.Entry(int32(s), l); x != y {
				return fmt.Sprintf("switch %d has %d for LID %d, not %d", s, x, l, y)
			}
		}
	}
	return ""
}
