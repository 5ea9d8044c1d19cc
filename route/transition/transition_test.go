package transition_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/internal/routetest"
	"heddle/route"
	"heddle/route/check"
	"heddle/route/engine/updn"
	"heddle/route/transition"
)

var limited = transition.Options{
	SwitchLifetime: time.Second, HOQLife: time.Second / 2,
	SMPTime: 30 * time.Microsecond, DirectedTime: 10 * time.Microsecond, Window: 4,
}

// hub is a ring of four switches 0–3 with a hub 4, and four CAs (LIDs 1–4) on
// switch 5 behind the hub; a CA on each ring switch (LIDs 5–8) sends to them.
// For LID i+1, the installed tables send from ring switch i over i+1, the
// wanted ones from i+1 over i+2; everybody else goes straight to the hub.
func hub() (g *fabric.Graph, installed, wanted *route.Tables) {
	b := &routetest.Net{}
	b.Switches(6)
	for i := range 4 {
		b.Link(i, (i+1)%4)
	}
	for i := range 4 {
		b.Link(i, 4)
	}
	b.Link(4, 5)
	for range 4 {
		b.Host(5, 1)
	}
	for i := range 4 {
		b.Host(i, 1)
	}
	g = b.Graph()
	port := func(s, to int32) byte {
		for _, c := range g.Channels[g.Off[s]:g.Off[s+1]] {
			if c.To == to {
				return c.OutPort
			}
		}
		panic("no cable")
	}
	base, err := updn.Engine{}.Compute(g, route.Options{Roots: []ib.GUID{g.Switches[4].GUID}})
	if err != nil {
		panic(err)
	}
	for l := ib.LID(1); l <= g.TopLID; l++ {
		for i := range int32(4) {
			if g.EndPorts[g.LIDOwner[l]].Switch != i {
				base.LFT[i][l] = port(i, 4)
			}
		}
	}
	installed, wanted = base.Clone(), base.Clone()
	for i := range int32(4) {
		l := ib.LID(i + 1)
		installed.LFT[i][l] = port(i, (i+1)%4)
		wanted.LFT[(i+1)%4][l] = port((i+1)%4, (i+2)%4)
	}
	return g, installed, wanted
}

// TestUnionIsNotEnough is the counterexample behind the design: both tables are
// deadlock-free, and so is the union of their dependency graphs, but packets that leave
// one switch by an old entry and the next by a new one close a cycle around the ring.
func TestUnionIsNotEnough(t *testing.T) {
	g, installed, wanted := hub()
	for name, tb := range map[string]*route.Tables{"installed": installed, "wanted": wanted} {
		if r := check.Verify(g, tb, check.Options{}); !r.OK() {
			t.Fatalf("%s: %v", name, r.Err())
		}
	}
	union := func(l ib.LID, s int32) [][]byte { // each table for itself
		return [][]byte{{installed.Entry(s, l)}, {wanted.Entry(s, l)}}
	}
	if cyclic(g, wanted.TopLID, union) {
		t.Fatal("the union of the two dependency graphs has a cycle: no counter-example")
	}
	p := transition.New(g, installed, wanted, limited)
	if p.Mode != transition.ModeStaged || len(p.Stages) != 2 || p.Stages[0].Drain == 0 || len(p.Discard) != 0 {
		t.Fatalf("mode %v (%s), stages %+v; want two, first three destinations, then the last", p.Mode, p.Reason, p.Stages)
	}
	o := limited
	o.Force = transition.ModeDiscard
	p = transition.New(g, installed, wanted, o)
	if p.Mode != transition.ModeDiscard {
		t.Fatalf("mode %v (%s), want discard", p.Mode, p.Reason)
	}
	if !slices.Equal(p.Discard, []ib.LID{4}) {
		t.Errorf("discards %v; leaving out one of the four destinations opens the cycle, here the last", p.Discard)
	}
	if !slices.Equal(p.Stages[0].LFT, []route.BlockDiff{{Switch: 0}, {Switch: 3}}) {
		t.Errorf("first phase %v, want block 0 of switches 0 and 3, whose entries for LID 4 move", p.Stages[0].LFT)
	}
	if p.Stages[0].DrainHops != 4 || p.Drain != 6*time.Second {
		t.Errorf("drain %v over %d switches, want 6s over 4", p.Drain, p.Stages[0].DrainHops)
	}
	if len(p.Stages[1].LFT) != 4 || p.SMPs != 6 || p.Predicted != p.Drain+6*40*time.Microsecond/4 {
		t.Errorf("%d blocks, %d SMPs, %v", len(p.Stages[1].LFT), p.SMPs, p.Predicted)
	}
	var mid [route.BlockLen]byte
	p.Block(0, p.Stages[0].LFT[1], &mid)
	for l := ib.LID(1); l < route.BlockLen; l++ {
		want := installed.Entry(3, l)
		if l == 4 {
			want = route.Drop
		}
		if mid[l] != want {
			t.Errorf("first phase writes %d for LID %d, want %d", mid[l], l, want)
		}
	}

	o = limited
	o.SwitchLifetime = transition.Unlimited
	if p := transition.New(g, installed, wanted, o); p.Mode != transition.ModeRefused || len(p.Stages) != 0 || !strings.Contains(p.Reason, "unlimited") {
		t.Errorf("with unlimited lifetimes: %v (%s), want refused", p.Mode, p.Reason)
	}
	o.Force = transition.ModeDynamic
	if p := transition.New(g, installed, wanted, o); p.Mode != transition.ModeDynamic || !p.Forced || len(p.Stages) != 1 {
		t.Errorf("forced: %v (%s)", p.Mode, p.Reason)
	}
	o = limited
	o.Force = transition.ModeStatic
	if p := transition.New(g, installed, wanted, o); p.Mode != transition.ModeStatic || len(p.Discard) != 4 || len(p.Stages[0].LFT) != 4 {
		t.Errorf("forced: %v, %v", p.Mode, p.Discard)
	}
	o = transition.Options{Quiet: true}
	if p := transition.New(g, installed, wanted, o); p.Mode != transition.ModeDynamic || p.SMPs != 4 {
		t.Errorf("quiet: %v (%s)", p.Mode, p.Reason)
	}
}

func TestNothingToDo(t *testing.T) {
	g, installed, _ := hub()
	if p := transition.New(g, installed, installed.Clone(), limited); p.Mode != transition.ModeNone || p.SMPs != 0 {
		t.Errorf("%+v", p)
	}
}

func TestFirstTables(t *testing.T) {
	g, _, wanted := hub()
	p := transition.New(g, nil, wanted, transition.Options{Quiet: true})
	if p.Mode != transition.ModeDynamic || p.SMPs != len(g.Switches) || p.UnknownRows != len(g.Switches) {
		t.Errorf("nothing known, no traffic: %+v", p)
	}
	empty := route.New("", len(g.Switches), g.TopLID)
	if p := transition.New(g, empty, wanted, limited); p.Mode != transition.ModeDynamic || len(p.Stages) != 1 {
		t.Errorf("empty tables: %+v", p)
	}
	// The destination-rooted order: switch 5 has the first LID.
	if b := p.Stages[0].LFT; b[0].Switch != 5 || b[1].Switch != 4 {
		t.Errorf("order %v, want switches 5, 4, then the ring", b)
	}
}

func TestUnknownRow(t *testing.T) {
	g, installed, _ := hub()
	wanted := installed.Clone()
	installed.LFT[4] = nil
	p := transition.New(g, installed, wanted, limited)
	if p.Mode != transition.ModeDiscard || len(p.Stages) != 2 || p.Stages[0].LFT[0].Switch != 4 || p.Drain == 0 {
		t.Fatalf("%+v", p)
	}
	var mid [route.BlockLen]byte
	p.Block(0, p.Stages[0].LFT[0], &mid)
	for l, e := range mid {
		if e != route.Drop {
			t.Errorf("LID %d: %d", l, e)
		}
	}
	if len(p.Stages[1].LFT) != 1 || p.SMPs != 2 {
		t.Errorf("%+v", p)
	}
}

// TestTransientLoop: two switches that send a LID round by each other's old and
// new entry.
func TestTransientLoop(t *testing.T) {
	b := &routetest.Net{}
	b.Switches(3)
	b.Link(0, 1) // port 1 of both
	b.Link(0, 2) // port 2 of 0
	b.Link(1, 2) // port 2 of 1
	b.Host(2, 1)
	g := b.Graph()
	a := route.New("", 3, g.TopLID)
	a.LFT[2][1] = 3
	w := a.Clone()
	a.LFT[0][1], a.LFT[1][1] = 1, 2
	w.LFT[0][1], w.LFT[1][1] = 2, 1
	p := transition.New(g, a, w, limited)
	if p.Mode != transition.ModeStaged || len(p.Stages) != 2 || p.Stages[0].LFT[0].Switch != 0 || p.Stages[1].LFT[0].Switch != 1 {
		t.Errorf("%v %+v, want switch 0 before switch 1", p.Mode, p.Stages)
	}
	o := limited
	o.Force = transition.ModeDiscard
	p = transition.New(g, a, w, o)
	if p.Mode != transition.ModeDiscard || !slices.Equal(p.Discard, []ib.LID{1}) || !strings.Contains(p.Reason, "1 for loops") {
		t.Errorf("%+v", p)
	}
}

// cyclic says by brute force whether the mix of entries allows a dependency
// cycle for traffic with a CA at one end, or a loop. mix gives the sets of
// entries to hold together: a packet stays within one set if there are several
// (the union of graphs), or moves freely in the one set (the extended graph).
func cyclic(g *fabric.Graph, top ib.LID, mix func(l ib.LID, s int32) [][]byte) bool {
	n, m := len(g.Switches), len(g.Channels)
	dep := make([][]bool, m)
	for c := range dep {
		dep[c] = make([]bool, m)
	}
	ca := make([]bool, n)
	for i := range g.EndPorts {
		if e := &g.EndPorts[i]; e.Type != ib.NodeSwitch {
			ca[e.Switch] = true
		}
	}
	for l := ib.LID(1); l <= top; l++ {
		for k := range mix(l, 0) {
			from := func(s int32) (out []int32) {
				for _, p := range mix(l, s)[k] {
					for c := g.Off[s]; c < g.Off[s+1]; c++ {
						if g.Channels[c].OutPort == p {
							out = append(out, c)
						}
					}
				}
				return out
			}
			seen := make([]bool, n)
			var visit func(s int32)
			visit = func(s int32) {
				if seen[s] {
					return
				}
				seen[s] = true
				for _, c1 := range from(s) {
					for _, c2 := range from(g.Channels[c1].To) {
						dep[c1][c2] = true
					}
					visit(g.Channels[c1].To)
				}
			}
			for s := range int32(n) {
				if ca[s] || g.EndPorts[g.LIDOwner[l]].Type != ib.NodeSwitch {
					visit(s)
				}
			}
			// Loops.
			reach := make([][]bool, n)
			for s := range reach {
				reach[s] = make([]bool, n)
				for _, c := range from(int32(s)) {
					reach[s][g.Channels[c].To] = true
				}
			}
			if selfReach(reach) {
				return true
			}
		}
	}
	return selfReach(dep)
}

func selfReach(a [][]bool) bool {
	for k := range a {
		for i := range a {
			if a[i][k] {
				for j := range a {
					a[i][j] = a[i][j] || a[k][j]
				}
			}
		}
	}
	for i := range a {
		if a[i][i] {
			return true
		}
	}
	return false
}

func TestLifetime(t *testing.T) {
	for _, c := range []struct {
		code uint8
		want time.Duration
	}{{0, 4096 * time.Nanosecond}, {18, 1073741824 * time.Nanosecond}, {19, 2147483648 * time.Nanosecond}, {20, transition.Unlimited}, {31, transition.Unlimited}} {
		if got := transition.Lifetime(c.code); got != c.want {
			t.Errorf("code %d: %v, want %v", c.code, got, c.want)
		}
	}
}

// TestWorkers: a plan does not depend on the number of workers, with a proof at
// hand or without.
func TestWorkers(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 9))
		net := routetest.Random(6+rng.IntN(8), rng.IntN(12), 2, 1, rng.IntN)
		whole := net.Graph()
		g := routetest.Damaged(net, rng.IntN(3), rng.IntN).Graph()
		levels := rng.IntN(3) == 0
		a, b := randomTables(whole, rng, levels, false, levels), randomTables(g, rng, levels, false, levels)
		o := limited
		o.RepathTime = time.Second
		if rng.IntN(2) == 0 {
			o.Proved, o.ProvedOrder = check.Prove(g, b, check.Options{}).Dependencies()
		}
		var first string
		for _, o.Workers = range []int{1, 2, 3, 8} {
			p := transition.New(g, a, b, o)
			var told strings.Builder
			fmt.Fprint(&told, p.Mode, p.Reason, p.Stages, p.Discard, p.Groups, p.SMPs, p.Predicted, p.RepathPairs)
			var blk [route.BlockLen]byte
			for k := range p.Stages {
				for _, d := range p.Stages[k].LFT {
					p.Block(k, d, &blk)
					fmt.Fprint(&told, blk)
				}
			}
			s := told.String()
			if first == "" {
				first = s
			}
			if s != first {
				t.Fatalf("seed %d: %d workers:\n%s\nwant\n%s", seed, o.Workers, s, first)
			}
		}
	}
}

// TestForced compares every mode that can be forced with the oracle.
func TestForced(t *testing.T) {
	first, n := seeds(150, 5000)
	for seed := first; seed < first+n; seed++ {
		rng := rand.New(rand.NewPCG(seed, 11))
		nsw := 3 + rng.IntN(5)
		net := routetest.Random(nsw, rng.IntN(2*nsw), 1, 1, rng.IntN)
		whole := net.Graph()
		g := routetest.Damaged(net, rng.IntN(3), rng.IntN).Graph()
		levels := rng.IntN(2) == 0
		a, b := randomTables(whole, rng, levels, false, false), randomTables(g, rng, levels, false, false)
		if newWire(g, a, a.TopLID).alone(a, nil) != nil || newWire(g, b, b.TopLID).alone(b, nil) != nil {
			continue
		}
		for _, force := range []transition.Mode{transition.ModeStaged, transition.ModeDiscard, transition.ModeStatic} {
			o := limited
			o.Force, o.RepathTime = force, time.Second
			p := transition.New(g, a, b, o)
			if p.Mode != force && force != transition.ModeStaged && p.Mode != transition.ModeNone && p.Mode != transition.ModeStatic {
				t.Fatalf("seed %d: %v forced, is %v (%s)", seed, force, p.Mode, p.Reason)
			}
			if err := play(g, a, b, nil, p, rng); err != nil {
				t.Fatalf("seed %d: %v forced: %v (%s): %v", seed, force, p.Mode, p.Reason, err)
			}
		}
	}
}

// TestFrozen: switches that cannot be written go on forwarding. The graph that
// is managed lacks them; the oracle sees them.
func TestFrozen(t *testing.T) {
	first, n := seeds(400, 20_000)
	met := 0
	for seed := first; seed < first+n; seed++ {
		rng := rand.New(rand.NewPCG(seed, 13))
		nsw := 4 + rng.IntN(4)
		whole := routetest.Random(nsw, rng.IntN(2*nsw), 1, 1, rng.IntN).Graph()
		lost := rng.IntN(nsw)
		wear := routetest.NewWear(whole)
		wear.Switch(lost, false)
		g := wear.Graph()
		a := randomTables(whole, rng, false, false, false)
		d := fabric.Diff(whole, g)
		inst := &route.Tables{LFT: make([][]byte, len(g.Switches)), TopLID: a.TopLID, NumVLs: 1}
		for s := range inst.LFT {
			inst.LFT[s] = a.LFT[d.Switch[s]]
		}
		b := randomTables(g, rng, false, false, false)
		f := transition.Frozen{GUID: whole.Switches[lost].GUID, Row: a.LFT[lost][:int(a.TopLID)+1]}
		for _, c := range whole.Channels[whole.Off[lost]:whole.Off[lost+1]] {
			f.Cables = append(f.Cables, transition.FrozenCable{Port: c.OutPort, Peer: whole.Switches[c.To].GUID, PeerPort: c.InPort, VLs: c.VLs})
		}
		o := limited
		o.Workers, o.Frozen = 1+rng.IntN(3), []transition.Frozen{f}
		p := transition.New(g, inst, b, o)
		if p.Mode == transition.ModeRefused {
			t.Fatalf("seed %d: %s", seed, p.Reason)
		}
		// What the oracle sees: everything, the lost switch with its old row.
		wanted := route.New("", nsw, a.TopLID)
		for s := range nsw {
			if now := d.OldSwitch[s]; now >= 0 {
				copy(wanted.LFT[s], b.LFT[now])
			} else {
				copy(wanted.LFT[s], a.LFT[s])
			}
		}
		if newWire(whole, a, a.TopLID).alone(a, nil) != nil {
			continue
		}
		w := newWire(whole, a, a.TopLID)
		w.levels = func(int32, ib.LID) map[ib.SL]bool { return map[ib.SL]bool{0: true} }
		for k := range p.Stages {
			w.stage = k
			for _, blk := range p.Stages[k].LFT {
				var data [route.BlockLen]byte
				p.Block(k, blk, &data)
				w.write(d.Switch[blk.Switch], blk.Block, &data)
			}
			if err := w.verify(); err != nil {
				t.Fatalf("seed %d: %v (%s), stage %d: %v", seed, p.Mode, p.Reason, k, err)
			}
			if p.Stages[k].Drain > 0 {
				w.drained()
			}
		}
		o.Frozen = nil
		if transition.New(g, inst, b, o).Mode != p.Mode {
			met++
		}
	}
	if n > 1 && met == 0 {
		t.Error("a frozen switch never made a difference")
	}
}

// TestHeldLevels: held levels follow switches and LIDs over changes.
func TestHeldLevels(t *testing.T) {
	g := routetest.Random(6, 6, 1, 1, rand.New(rand.NewPCG(1, 1)).IntN).Graph()
	rng := rand.New(rand.NewPCG(2, 2))
	a, b := randomTables(g, rng, true, false, false), randomTables(g, rng, true, false, false)
	var h *transition.Held
	h = h.Next(a, nil, 6).Next(b, nil, 6)
	wear := routetest.NewWear(g)
	wear.Switch(2, false)
	less := wear.Graph()
	d := fabric.Diff(g, less)
	k := h.Next(a, d, 0)
	plain := randomTables(g, rng, false, false, false)
	if got := (*transition.Held)(nil).Next(plain, nil, 6).Levels(3, g.TopLID); got != 1 {
		t.Errorf("after tables without service levels: %b, want level 0", got)
	}
	for l := ib.LID(1); l <= g.TopLID; l++ {
		for s := range int32(6) {
			want := uint16(1)<<a.PathSL(s, l) | 1<<b.PathSL(s, l)
			if got := h.Levels(s, l); got != want {
				t.Fatalf("switch %d LID %d: %b, want %b", s, l, got, want)
			}
			now := d.OldSwitch[s]
			if now < 0 {
				continue
			}
			if got := k.Levels(now, l); got != want {
				t.Fatalf("after a change: switch %d LID %d: %b, want %b", s, l, got, want)
			}
		}
	}
}

// TestBackToBack: a second and a third transition begin while packets that met the
// first tables are still in flight, with groups that hosts join and leave meanwhile in one seed of three.
func TestBackToBack(t *testing.T) {
	first, n := seeds(500, 30_000)
	waits, none := 0, 0
	for seed := first; seed < first+n; seed++ {
		rng := rand.New(rand.NewPCG(seed, 19))
		nsw := 3 + rng.IntN(6)
		net := routetest.Random(nsw, rng.IntN(2*nsw), 1, 1, rng.IntN)
		whole := net.Graph()
		g := routetest.Damaged(net, rng.IntN(2), rng.IntN).Graph()
		trees := seed%3 == 0
		states := []*route.Tables{randomTables(whole, rng, false, false, trees)}
		for range 3 {
			next := randomTables(g, rng, false, false, trees)
			if last := states[len(states)-1]; rng.IntN(2) == 0 {
				for s := range next.LFT { // a small change
					if rng.IntN(3) > 0 {
						copy(next.LFT[s], last.LFT[s])
					}
				}
			}
			if trees {
				joinAndLeave(g, rng, states[len(states)-1].Multicast, next.Multicast)
			}
			states = append(states, next)
		}
		w := newWire(g, states[0], states[0].TopLID)
		w.levels = func(int32, ib.LID) map[ib.SL]bool { return map[ib.SL]bool{0: true} }
		w.mlanes = func(ib.LID) map[ib.SL]bool { return map[ib.SL]bool{0: true} }
		for _, t := range states {
			w.group(t)
		}
		w.drained()
		if w.verify() != nil {
			continue
		}
		o := limited
		for i, b := range states[1:] {
			if newWire(g, b, b.TopLID).alone(b, nil) != nil {
				break
			}
			o.Proved, o.ProvedOrder = nil, nil
			if rng.IntN(4) > 0 {
				o.Proved, o.ProvedOrder = check.Prove(g, b, check.Options{}).Dependencies()
			}
			p := transition.New(g, states[i], b, o)
			if p.Mode == transition.ModeRefused {
				t.Fatalf("seed %d: %s", seed, p.Reason)
			}
			if len(p.Stages) > 0 && len(o.Recent) > 0 {
				if none++; len(p.Stages[0].LFT) == 0 {
					waits++
				}
			}
			for k := range p.Stages {
				w.stage++
				for _, d := range p.Stages[k].LFT {
					var data [route.BlockLen]byte
					p.Block(k, d, &data)
					w.write(d.Switch, d.Block, &data)
				}
				for _, d := range p.Stages[k].MFT {
					var data [32]uint16
					p.McastBlock(k, d, &data)
					w.writeGroup(d, &data)
				}
				if err := w.verify(); err != nil {
					t.Fatalf("seed %d: change %d: %v (%s), stage %d of %d: %v", seed, i, p.Mode, p.Reason, k, len(p.Stages), err)
				}
				if p.Stages[k].Drain > 0 {
					w.drained()
				}
			}
			for s := range w.now {
				for l := ib.LID(1); l <= b.TopLID; l++ {
					if w.now[s][l] != b.Entry(int32(s), l) {
						t.Fatalf("seed %d: change %d: switch %d holds %d for LID %d, want %d", seed, i, s, w.now[s][l], l, b.Entry(int32(s), l))
					}
				}
			}
			o.Recent = append(o.Recent, transition.Recent{Tables: states[i], Plan: p})
		}
	}
	t.Logf("%d of %d changes wait first", waits, none)
	if n > 100 && (waits == 0 || waits == none) {
		t.Error("not both met")
	}
}

// joinAndLeave makes of most groups of now what they were before, but for some ports: as if hosts had
// joined and left, so that some switches have left the tree too.
func joinAndLeave(g *fabric.Graph, rng *rand.Rand, before, now *route.Multicast) {
	for i := range now.Trees {
		k := slices.IndexFunc(before.Trees, func(t route.Tree) bool { return t.MLID == now.Trees[i].MLID })
		if k < 0 || rng.IntN(4) == 0 {
			continue
		}
		t := &now.Trees[i]
		t.Switches, t.Ports = slices.Clone(before.Trees[k].Switches), slices.Clone(before.Trees[k].Ports)
		for j, s := range t.Switches {
			for _, c := range g.Channels[g.Off[s]:g.Off[s+1]] {
				if rng.IntN(8) == 0 {
					t.Ports[j][c.OutPort/64] &^= 1 << (c.OutPort % 64)
				}
			}
		}
	}
}

// TestTreeDrains: what waits for packets of a multicast tree waits for its longest path, not for all of
// its switches.
func TestTreeDrains(t *testing.T) {
	g, tb, _ := hub()
	tree := func(links ...[2]int32) *route.Multicast {
		ports := map[int32][4]uint64{}
		for _, l := range links {
			for i := range 2 {
				for _, c := range g.Channels[g.Off[l[i]]:g.Off[l[i]+1]] {
					if c.To == l[1-i] {
						p := ports[l[i]]
						p[0] |= 1 << c.OutPort
						ports[l[i]] = p
					}
				}
			}
		}
		out := route.Tree{MLID: 0xC000}
		for s := range int32(len(g.Switches)) {
			if p, ok := ports[s]; ok {
				out.Switches, out.Ports = append(out.Switches, s), append(out.Ports, p)
			}
		}
		return &route.Multicast{Trees: []route.Tree{out}}
	}
	star := tree([2]int32{0, 4}, [2]int32{1, 4}, [2]int32{2, 4}, [2]int32{3, 4}, [2]int32{4, 5})
	ring := tree([2]int32{0, 1}, [2]int32{1, 2}, [2]int32{2, 3})
	for _, c := range []struct {
		name     string
		old, now *route.Multicast
		hops     int
	}{
		{"star", star, ring, 3},
		{"line", ring, star, 4},
		{"circle", tree([2]int32{0, 1}, [2]int32{1, 2}, [2]int32{2, 3}, [2]int32{3, 0}), star, 4}, // no tree: all of its switches
	} {
		t.Run(c.name, func(t *testing.T) {
			installed, wanted := tb.Clone(), tb.Clone()
			installed.Multicast, wanted.Multicast = c.old, c.now
			o := limited
			o.Force = transition.ModeDiscard
			p := transition.New(g, installed, wanted, o)
			if p.Mode != transition.ModeDiscard || !slices.Equal(p.Groups, []ib.LID{0xC000}) {
				t.Fatalf("mode %v (%s), groups %v; want the tree cut first", p.Mode, p.Reason, p.Groups)
			}
			if s := p.Stages[0]; s.DrainHops != c.hops || s.Drain != time.Duration(c.hops)*1500*time.Millisecond {
				t.Errorf("it waits %v, for %d switches; want %d", s.Drain, s.DrainHops, c.hops)
			}
		})
	}
}
