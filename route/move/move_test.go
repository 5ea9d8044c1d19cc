package move_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/internal/fabrictest"
	"heddle/internal/need"
	"heddle/internal/routetest"
	"heddle/route"
	"heddle/route/check"
	"heddle/route/engine/dor"
	"heddle/route/engine/ftree"
	"heddle/route/engine/lash"
	"heddle/route/engine/minhop"
	"heddle/route/engine/nue"
	"heddle/route/engine/sssp"
	"heddle/route/engine/torus"
	"heddle/route/engine/updn"
	"heddle/route/engine/vftree"
	"heddle/route/move"
)

var options = move.Options{Workers: 2, SwitchLifetime: time.Second, HOQLife: time.Second}

var engines = []route.Engine{
	minhop.Engine{},
	sssp.Engine{},
	updn.Engine{},
	ftree.Engine{},
	vftree.Engine{},
	nue.Engine{},
	sssp.DFEngine{},
	lash.Engine{},
	dor.Engine{},
	torus.Engine{},
}

// hosts lists the LIDs of CA ports on switches.
func hosts(g *fabric.Graph) (list []ib.LID) {
	for l, e := range g.LIDOwner {
		if e >= 0 && g.EndPorts[e].Type != ib.NodeSwitch && g.EndPorts[e].Switch >= 0 {
			list = append(list, ib.LID(l))
		}
	}
	return list
}

// draw makes a request.
func draw(g *fabric.Graph, rnd func(k int) int) move.Request {
	l := hosts(g)
	q := move.Request{Kind: move.Kind(rnd(2)), Mode: move.Mode(rnd(2)), LID: l[rnd(len(l))], With: l[rnd(len(l))]}
	for q.With == q.LID {
		q.With = l[rnd(len(l))]
	}
	// A port that gives its last LID away would be an end port without any.
	if e := g.LIDOwner[q.LID]; q.Kind == move.Copy && g.EndPorts[e].LID == q.LID {
		q.Kind = move.Swap
	}
	return q
}

// after is what the switches hold after each stage.
func after(r *move.Result, installed *route.Tables) []*route.Tables {
	var list []*route.Tables
	was := installed
	for k, st := range r.Stages {
		now := was.Clone()
		now.TopLID = r.Tables.TopLID
		now.SL, now.Class, now.NumClasses, now.Lanes = r.Tables.SL, r.Tables.Class, r.Tables.NumClasses, r.Tables.Lanes
		for s := range now.LFT {
			for len(now.LFT[s]) < route.RowLen(now.TopLID) {
				now.LFT[s] = append(now.LFT[s], route.Drop)
			}
		}
		for _, b := range st.Blocks {
			var block [route.BlockLen]byte
			r.Block(k, b, &block)
			copy(now.LFT[b.Switch][int(b.Block)*route.BlockLen:], block[:])
		}
		list = append(list, now)
		was = now
	}
	return list
}

// verify compares a result against Verify, and its order against what packets may
// meet; whoever goes by the stages ends at the tables.
func verify(t testing.TB, what string, from route.Solution, r *move.Result, mix bool) {
	t.Helper()
	if rep := check.Verify(r.Graph, r.Tables, check.Options{Workers: 2}); !rep.OK() {
		t.Fatalf("%s: %v", what, rep.Err())
	}
	if !slices.Equal(r.Blocks, routetest.Diff(padded(from.Tables, r.Tables), r.Tables)) {
		t.Fatalf("%s: the blocks are not those that differ", what)
	}
	if len(r.Blocks) > r.Unmerged {
		t.Fatalf("%s: %d blocks merged, %d alone", what, len(r.Blocks), r.Unmerged)
	}
	states := after(r, from.Tables)
	last := padded(from.Tables, r.Tables)
	if len(states) > 0 {
		last = states[len(states)-1]
	}
	if !last.Equal(r.Tables) {
		t.Fatalf("%s: the stages do not end at the tables", what)
	}
	for _, q := range r.Moved {
		limit := 1
		if q.Kind == move.Swap {
			limit = 2
		}
		if q.Blocks > limit || q.SMPs > q.Switches*limit {
			t.Fatalf("%s: %+v", what, q)
		}
	}
	if !mix || r.Tables.SL != nil || r.Tables.Lanes != nil {
		return
	}
	if err := mixes(from, r, states); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// padded is t with rows as long as those of u.
func padded(t, u *route.Tables) *route.Tables {
	if t.TopLID == u.TopLID {
		return t
	}
	c := t.Clone()
	c.TopLID = u.TopLID
	for s := range c.LFT {
		for len(c.LFT[s]) < len(u.Row(int32(s))) {
			c.LFT[s] = append(c.LFT[s], route.Drop)
		}
	}
	return c
}

// refusals are the reasons that a move may be refused for.
var refusals = []string{"must resolve them anew", "must resolve them", "no order of updates is safe", "would not be sound", "would have to be discarded"}

// TestEngines: every engine on every kind of fabric: after many random moves
// tables are as right as before, or the move is refused with a reason.
func TestEngines(t *testing.T) {
	for _, seed := range need.Seeds(1, 4) {
		everyEngine(t, routetest.Kinds(routetest.Draws(seed, 3)), 40, seed)
	}
}

// TestEnginesLong makes thousands of moves with each on the fabrics of route/matrix,
// whole and damaged.
func TestEnginesLong(t *testing.T) {
	need.Long(t)
	var kinds []routetest.Kind
	for _, name := range []string{
		"xgft 2 4,4 1,2", "xgft 3 3,3,3 1,3,3", "kary 3 3", "mport 4 3", "torus 5x5", "torus 4x4", "torus 8x8", "torus 3x4x5",
		"mesh 4x5", "mesh 3x3x3", "hypercube 4", "hypercube 5", "hyperx 4x4", "hyperx 3x4 trunk=2", "dragonfly 4 2 2",
		"dragonfly+ 3 3 2 3", "irregular 16",
	} {
		words := strings.Fields(name)
		f, err := fabrictest.Generate(words[0], words[1:], 3)
		if err == nil {
			err = fabric.AssignLIDs(f, 2)
		}
		if err != nil {
			t.Fatal(err)
		}
		g, err := f.Graph(fabric.GraphOptions{VLs: 8})
		if err != nil {
			t.Fatal(err)
		}
		rnd := routetest.Draws(7, uint64(len(kinds)))
		kinds = append(kinds, routetest.Kind{Name: name, Graph: g}, routetest.Kind{Name: name + " damaged", Graph: routetest.Without(g,
			[]int32{int32(rnd(len(g.Switches)))}, []int32{int32(rnd(len(g.Channels))), int32(rnd(len(g.Channels)))})})
	}
	for _, seed := range need.Seeds(1, 1) {
		everyEngine(t, kinds, 1000, seed)
	}
}

func everyEngine(t *testing.T, kinds []routetest.Kind, moves int, seed uint64) {
	for _, k := range kinds {
		if len(hosts(k.Graph)) < 2 {
			continue
		}
		for _, e := range engines {
			tb, err := e.Compute(k.Graph, route.Options{Workers: 2})
			if err != nil {
				continue
			}
			p := check.Prove(k.Graph, tb, check.Options{Workers: 2})
			o := options
			if !p.OK() {
				if p.Report().UnreachablePairs > 0 {
					t.Fatal(p.Err())
				}
				o.Unsafe = true
			}
			t.Run(fmt.Sprintf("%s on %s", e.Name(), k.Name), func(t *testing.T) { wander(t, p, o, moves, seed) })
		}
	}
}

// wander makes random moves, alone and in batches.
func wander(t *testing.T, p *check.Proof, o move.Options, moves int, seed uint64) {
	rnd := routetest.Draws(seed, 17)
	refused := 0
	for i := range moves {
		var list []move.Request
		for range 1 + rnd(2)*rnd(6) {
			list = append(list, draw(p.Graph(), rnd))
		}
		r, err := move.New(p, list, o)
		if err != nil {
			refused++
			if testing.Verbose() {
				t.Logf("%v", err)
			}
			if !slices.ContainsFunc(refusals, func(s string) bool { return strings.Contains(err.Error(), s) }) {
				t.Fatalf("%+v: %v", list, err)
			}
			continue
		}
		if o.Unsafe {
			if rep := check.Verify(r.Graph, r.Tables, check.Options{}); rep.UnreachablePairs > 0 || rep.Loops > 0 {
				t.Fatal(rep.Err())
			}
			was := p.Tables()
			for k, now := range after(r, was) {
				if l := anyLoop(r.Graph, was, now); l > 0 && r.Tables.SL == nil {
					t.Fatalf("seed %d, move %d: LID %d may loop in stage %d", seed, i, l, k)
				}
				was = now
			}
		} else {
			verify(t, fmt.Sprintf("seed %d, move %d: %+v", seed, i, list), route.Solution{Graph: p.Graph(), Tables: p.Tables()}, r, i%4 == 0)
		}
		for l := range p.Graph().LIDOwner {
			if owned(p.Graph(), l) && !owned(r.Graph, l) {
				t.Fatalf("LID %d is lost", l)
			}
		}
		p = r.Proof
	}
	if refused > 0 {
		t.Logf("%d of %d refused", refused, moves)
	}
}

func owned(g *fabric.Graph, l int) bool { return l < len(g.LIDOwner) && g.LIDOwner[l] >= 0 }

// TestAssignMoveRelease: LIDs beyond the top are assigned, moved and released.
func TestAssignMoveRelease(t *testing.T) {
	g := routetest.Tree(4, 4).Graph()
	tb, err := ftree.Engine{}.Compute(g, route.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p := check.Prove(g, tb, check.Options{})
	rnd := routetest.Draws(5)
	pfs := hosts(g)
	var vms []ib.LID
	next := g.TopLID + 1
	for i := range 300 {
		var q move.Request
		switch k := rnd(3); {
		case k == 0 || len(vms) == 0:
			q = move.Request{Kind: move.Copy, Mode: move.Mode(rnd(2)), LID: next, With: pfs[rnd(len(pfs))]}
			vms = append(vms, next)
			next++
		case k == 1:
			q = move.Request{Kind: move.Copy, Mode: move.Mode(rnd(2)), LID: vms[rnd(len(vms))], With: pfs[rnd(len(pfs))]}
		default:
			at := rnd(len(vms))
			q = move.Request{Kind: move.Release, LID: vms[at]}
			vms = slices.Delete(vms, at, at+1)
		}
		r, err := move.New(p, []move.Request{q}, options)
		if err != nil {
			t.Fatalf("%+v: %v", q, err)
		}
		verify(t, fmt.Sprintf("step %d: %+v", i, q), route.Solution{Graph: p.Graph(), Tables: p.Tables()}, r, true)
		if r.Grown != (r.Tables.TopLID > p.Tables().TopLID) {
			t.Fatalf("step %d: grown: %v", i, r.Grown)
		}
		p = r.Proof
		for _, l := range vms {
			if p.Graph().LIDOwner[l] < 0 {
				t.Fatalf("LID %d is lost", l)
			}
		}
	}
	if p.Graph().TopLID < 100 {
		t.Errorf("the rows never grew: top %d", p.Graph().TopLID)
	}
}

// TestInsideLeaf: between two ports of one leaf the fewest switches are the leaf.
func TestInsideLeaf(t *testing.T) {
	g := routetest.XGFT(3, 3, 3, 3, 3, 81, 17).Graph()
	for _, e := range []route.Engine{ftree.Engine{}, minhop.Engine{}, updn.Engine{}} {
		tb, err := e.Compute(g, route.Options{})
		if err != nil {
			t.Fatal(err)
		}
		p := check.Prove(g, tb, check.Options{})
		// Hosts 0 and 1 are on one leaf: LIDs 1–17 and 18–34; 4 is another, from LID 69 on.
		for _, c := range []struct {
			q        move.Request
			switches int
			smps     int
		}{
			{move.Request{Kind: move.Copy, Mode: move.Minimal, LID: 2, With: 18}, 1, 1},
			{move.Request{Kind: move.Swap, Mode: move.Minimal, LID: 2, With: 19}, 1, 1},
			{move.Request{Kind: move.Copy, Mode: move.Minimal, LID: 2, With: 3}, 0, 0},
		} {
			r, err := move.New(p, []move.Request{c.q}, move.Options{})
			if err != nil {
				t.Fatal(err)
			}
			x := r.Moved[0]
			if x.Mode != c.q.Mode || x.Switches != c.switches || x.SMPs != c.smps || len(r.Blocks) != c.smps || len(r.Stages) > 1 {
				t.Errorf("%s: %+v in %d stages", e.Name(), x, len(r.Stages))
			}
			verify(t, e.Name(), route.Solution{Graph: g, Tables: tb}, r, true)
		}
		// Two LIDs of one leaf in different blocks: 2 SMPs.
		r, err := move.New(p, []move.Request{{Kind: move.Swap, Mode: move.Minimal, LID: 50, With: 67}}, options)
		if err != nil {
			t.Fatal(err)
		}
		if x := r.Moved[0]; x.SMPs < 2 || x.Blocks != 2 {
			t.Errorf("%s: %+v", e.Name(), x)
		}
	}
}

// TestHostile: impossible requests are refused, and the error names the request and the
// reason.
func TestHostile(t *testing.T) {
	b := routetest.Tree2(3, 2, 2)
	b.Host(-1, 1)
	b.Cap = map[int]int{4: 64}
	g := b.Graph()
	tb, err := minhop.Engine{}.Compute(g, route.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p := check.Prove(g, tb, check.Options{})
	if !p.OK() {
		t.Fatal(p.Err())
	}
	sw := g.EndPorts[g.Switches[0].EndPort].LID
	for want, q := range map[string]move.Request{
		"LID 0 is not unicast":        {LID: 0, With: 1},
		"LID 49152 is not unicast":    {LID: 49152, With: 1},
		"LID 65535 is not unicast":    {Kind: move.Swap, LID: 65535, With: 1},
		"no port has LID 40":          {LID: 1, With: 40},
		"no port has LID 41":          {Kind: move.Release, LID: 41},
		"switches do not move":        {LID: sw, With: 1},
		"switches do not":             {Kind: move.Swap, LID: 1, With: sw},
		"its own model":               {LID: 1, With: 1},
		"with itself":                 {Kind: move.Swap, LID: 1, With: 1},
		"cabled to no switch":         {LID: 1, With: 7},
		"below 64 only":               {LID: 64, With: 1},
		"unknown kind 9":              {Kind: 9, LID: 1, With: 2},
		"unknown mode 7":              {Mode: 7, LID: 1, With: 2},
		"request 0, swap of LID 1: a": {Kind: move.Swap, LID: 1, With: 1},
	} {
		if _, err := move.New(p, []move.Request{q}, options); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", q, err, want)
		}
	}
	bad := tb.Clone()
	bad.LFT[0][1] = route.Drop
	if _, err := move.New(check.Prove(g, bad, check.Options{}), []move.Request{{LID: 1, With: 2}}, options); err == nil || !strings.Contains(err.Error(), "do not deliver") {
		t.Errorf("tables that do not deliver: %v", err)
	}
}
