package atlas

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"heddle/fabric"
	"heddle/ib"
	"heddle/internal/fabrictest"
	"heddle/subnet/wiring"
)

// kinds are fabrics of every kind, the largest that the manager is tested with among them.
var kinds = []string{
	"fattree 648", "fattree 11664", "xgft 1 4 1", "kary 4 5", "torus 10x10x10", "torus 6x5", "mesh 4x4",
	"hypercube 8", "hyperx 6x6 4", "dragonfly 8 4 4", "dragonfly+ 4 4 4 4", "irregular 200", "irregular 1000",
}

func wire(t testing.TB, kind string) *wiring.Wiring {
	t.Helper()
	words := strings.Fields(kind)
	f, err := fabrictest.Generate(words[0], words[1:], 1)
	if err != nil {
		t.Fatal(err)
	}
	return of(f)
}

func of(f *fabric.Fabric) *wiring.Wiring {
	w := &wiring.Wiring{}
	for i := range f.Nodes {
		n := &f.Nodes[i]
		w.Nodes = append(w.Nodes, wiring.Node{GUID: n.GUID, Name: n.ID, Type: n.Type, Ports: uint8(n.NumPorts)})
	}
	for a, b := range f.Links {
		w.Cables = append(w.Cables, wiring.NewCable(
			wiring.End{GUID: f.Nodes[a.Node].GUID, Port: a.Port}, wiring.End{GUID: f.Nodes[b.Node].GUID, Port: b.Port}, wiring.OK))
	}
	wiring.Sort(w)
	return w
}

// maps are all maps of an atlas.
func maps(t *testing.T, a *Atlas, marks []Mark) (list []*Map) {
	t.Helper()
	add := func(level int, unit ib.GUID) {
		m, err := a.Map(Query{Level: level, Unit: unit, Marks: marks})
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, m)
	}
	add(1, 0)
	add(2, 0)
	for i := range a.groups {
		add(2, a.groups[i].id)
		add(3, a.groups[i].id)
	}
	return list
}

// TestBounds: no map of any fabric has more than MaxShapes shapes, not even when all is broken; all that
// is in a map is within its box, and boxes do not overlap.
func TestBounds(t *testing.T) {
	for _, kind := range kinds {
		for _, broken := range []bool{false, true} {
			w := wire(t, kind)
			if broken {
				for i := range w.Cables {
					w.Cables[i].State = wiring.Held
				}
			}
			a := New(w)
			for _, m := range maps(t, a, nil) {
				what := fmt.Sprintf("%s, broken %v, level %d of %q", kind, broken, m.Level, m.Unit)
				shapes := len(m.Groups) + len(m.Switches) + len(m.Hosts) + len(m.Bundles) + len(m.Problems)
				if shapes > MaxShapes {
					t.Errorf("%s: %d shapes", what, shapes)
				}
				if broken && len(m.Problems)+m.More != len(w.Cables) {
					t.Errorf("%s: %d and %d problems of %d cables", what, len(m.Problems), m.More, len(w.Cables))
				}
				within(t, what, m)
			}
		}
	}
}

func within(t *testing.T, what string, m *Map) {
	t.Helper()
	for i, g := range m.Groups {
		if g.X < 0 || g.Y < 0 || g.X+g.W > m.Width+0.1 || g.Y+g.H > m.Height+0.1 {
			t.Errorf("%s: group %q is outside of the map: %+v", what, g.Name, g)
		}
		for _, h := range m.Groups[:i] {
			if g.X < h.X+h.W && h.X < g.X+g.W && g.Y < h.Y+h.H && h.Y < g.Y+g.H {
				t.Errorf("%s: groups %q and %q overlap", what, g.Name, h.Name)
			}
		}
	}
	seen := map[[2]float32]string{}
	for _, s := range m.Switches {
		g := m.Groups[s.Group]
		if s.X < g.X || s.Y < g.Y || s.X > g.X+g.W || s.Y > g.Y+g.H {
			t.Errorf("%s: switch %s is outside of its group", what, s.Name)
		}
		if o := seen[[2]float32{s.X, s.Y}]; o != "" {
			t.Errorf("%s: %s and %s are in one place", what, s.Name, o)
		}
		seen[[2]float32{s.X, s.Y}] = s.Name
	}
	for _, h := range m.Hosts {
		i := slices.IndexFunc(m.Groups, func(g MapGroup) bool { return g.ID == m.Unit })
		if g := m.Groups[i]; h.X < g.X || h.Y < g.Y || h.X > g.X+g.W || h.Y > g.Y+g.H {
			t.Errorf("%s: host %s is outside of its group", what, h.Name)
		}
	}
	most := int32(len(m.Groups) + len(m.Switches) + len(m.Hosts))
	for _, b := range m.Bundles {
		if b.A < 0 || b.A >= most || b.B < 0 || b.B >= most || b.A == b.B || b.N < 1 || b.Up > b.N {
			t.Fatalf("%s: bundle %+v of %d things", what, b, most)
		}
	}
}

// TestStructure: groups are what people call them.
func TestStructure(t *testing.T) {
	for _, c := range []struct {
		kind, found    string
		groups, in, of int // in: switches of most groups
		first          string
	}{
		{"fattree 11664", Tree, 37, 36, 36, "pod 1"},
		{"fattree 648", Tree, 37, 1, 36, "sw-1-1"},
		{"dragonfly 8 4 4", Dense, 33, 8, 33, "group 1 (sw-0-…)"},
		{"dragonfly+ 4 4 4 4", Dense, 17, 8, 17, "group 1"},
		{"torus 10x10x10", Grid, 10, 100, 10, "plane 1"},
		{"mesh 4x4", Grid, 4, 4, 4, "row 1"},
		{"hypercube 8", Grid, 16, 16, 16, "plane 1"},
		{"xgft 1 4 1", Pieces, 1, 1, 1, "sw-1-1"},
	} {
		a := New(wire(t, c.kind))
		same := 0
		for i := range a.groups {
			if len(a.groups[i].switches) == c.in {
				same++
			}
		}
		if kind, _ := a.Kind(); kind != c.found || len(a.groups) != c.groups || same != c.of || a.groups[0].name != c.first {
			t.Errorf("%s: %s, %d groups, %d of %d switches, the first is %q", c.kind, kind, len(a.groups), same, c.in, a.groups[0].name)
		}
	}
}

// TestSums: all cables between switches are in the bundles of level 1 or inside groups, and all hosts in
// their group.
func TestSums(t *testing.T) {
	for _, kind := range kinds {
		w := wire(t, kind)
		between, hosts := 0, 0
		for i := range w.Cables {
			x, y := w.Find(w.Cables[i].A.GUID), w.Find(w.Cables[i].B.GUID)
			if w.Nodes[x].Type == ib.NodeSwitch && w.Nodes[y].Type == ib.NodeSwitch {
				between++
			}
		}
		for i := range w.Nodes {
			if w.Nodes[i].Type != ib.NodeSwitch {
				hosts++
			}
		}
		m, err := New(w).Map(Query{Level: 1})
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range m.Groups {
			between -= g.Inside
			hosts -= g.Hosts
		}
		for _, b := range m.Bundles {
			between -= int(b.N)
		}
		if between != 0 || hosts != m.Unplaced {
			t.Errorf("%s: %d cables between switches and %d hosts are in no group or bundle", kind, between, hosts)
		}
	}
}

// TestSame: a map depends on the wiring alone.
func TestSame(t *testing.T) {
	for _, kind := range kinds {
		w := wire(t, kind)
		text := func() string {
			b, err := json.Marshal(maps(t, New(w), nil))
			if err != nil {
				t.Fatal(err)
			}
			return string(b)
		}
		if first, again := text(), text(); first != again {
			t.Errorf("%s: two maps of one wiring differ", kind)
		}
	}
}

// TestFaultsMoveNothing: when cables and nodes go, all that was there stays in its place.
func TestFaultsMoveNothing(t *testing.T) {
	for _, kind := range kinds {
		w := wire(t, kind)
		rng := rand.New(rand.NewPCG(1, 2))
		before := New(w)
		for range 3 {
			less := without(w, rng, 2, 1)
			after := New(wiring.Carry(w, less, 100))
			for i := range w.Nodes {
				x, xOK := before.Find(w.Nodes[i].GUID)
				y, yOK := after.Find(w.Nodes[i].GUID)
				if x != y || xOK != yOK {
					t.Fatalf("%s: %s moved from %+v to %+v", kind, w.Nodes[i].Name, x, y)
				}
			}
		}
	}
}

// without is a wiring that lacks some cables and switches, as a manager finds it that starts now.
func without(w *wiring.Wiring, rng *rand.Rand, cables, switches int) *wiring.Wiring {
	out := &wiring.Wiring{Nodes: slices.Clone(w.Nodes), Cables: slices.Clone(w.Cables)}
	for range cables {
		i := rng.IntN(len(out.Cables))
		out.Cables = slices.Delete(out.Cables, i, i+1)
	}
	for range switches {
		i := rng.IntN(len(out.Nodes))
		for out.Nodes[i].Type != ib.NodeSwitch {
			i = (i + 1) % len(out.Nodes)
		}
		g := out.Nodes[i].GUID
		out.Nodes = slices.Delete(out.Nodes, i, i+1)
		out.Cables = slices.DeleteFunc(out.Cables, func(c wiring.Cable) bool { return c.A.GUID == g || c.B.GUID == g })
	}
	return out
}

// TestStable: in trees and dragonflies a manager that starts with a fault, and has no history, finds the
// same groups as without it. In a torus whose dimensions are equal it may cut along another one.
func TestStable(t *testing.T) {
	for _, kind := range []string{"fattree 648", "fattree 11664", "dragonfly 8 4 4", "dragonfly+ 4 4 4 4"} {
		w := wire(t, kind)
		before := companions(New(w))
		rng := rand.New(rand.NewPCG(3, 4))
		for range 4 {
			after := companions(New(without(w, rng, 1, 1)))
			moved := 0
			for s, g := range after {
				other := 0
				for o := range g {
					if !before[s][o] {
						other++
					}
				}
				if other > 0 || len(before[s]) > len(g)+2 {
					moved++
				}
			}
			if moved > len(after)/50+1 {
				t.Errorf("%s: of %d switches %d have other companions after one switch and one cable have gone", kind, len(after), moved)
			}
		}
	}
}

// companions are the switches of the group of each switch.
func companions(a *Atlas) map[ib.GUID]map[ib.GUID]bool {
	out := map[ib.GUID]map[ib.GUID]bool{}
	for i := range a.groups {
		g := map[ib.GUID]bool{}
		for _, s := range a.groups[i].switches {
			guid := a.w.Nodes[a.switches[s].at].GUID
			g[guid] = true
			out[guid] = g
		}
	}
	return out
}

// TestStrayCable: a cable between two pods does not make one pod of them, and a leaf that has lost its
// hosts stays in its pod, as does a pod that has none.
func TestStrayCable(t *testing.T) {
	w := wire(t, "fattree 11664")
	a := New(w)
	leaf := func(g int) ib.GUID {
		for _, s := range a.groups[g].switches {
			if a.switches[s].hosts > 0 {
				return a.w.Nodes[a.switches[s].at].GUID
			}
		}
		return 0
	}
	x, y := leaf(0), leaf(1)
	empty := map[ib.GUID]bool{leaf(2): true}
	for _, s := range a.groups[3].switches {
		empty[a.w.Nodes[a.switches[s].at].GUID] = true
	}
	odd := &wiring.Wiring{Nodes: w.Nodes}
	for _, c := range w.Cables {
		host := w.Nodes[w.Find(c.A.GUID)].Type != ib.NodeSwitch || w.Nodes[w.Find(c.B.GUID)].Type != ib.NodeSwitch
		if !host || !empty[c.A.GUID] && !empty[c.B.GUID] {
			odd.Cables = append(odd.Cables, c)
		}
	}
	odd.Cables = append(odd.Cables, wiring.NewCable(wiring.End{GUID: x, Port: 200}, wiring.End{GUID: y, Port: 200}, wiring.OK))
	wiring.Sort(odd)
	b := New(odd)
	if len(b.groups) != 37 {
		t.Fatalf("%d groups", len(b.groups))
	}
	for i := range b.groups[:36] {
		if len(b.groups[i].switches) != 36 {
			t.Errorf("%s has %d switches", b.groups[i].name, len(b.groups[i].switches))
		}
	}
	if b.unplaced != 19*18 {
		t.Errorf("%d hosts are unplaced", b.unplaced)
	}
}

// TestProblems: what is wrong is shown singly, once, with both ends, in every map.
func TestProblems(t *testing.T) {
	w := wire(t, "fattree 648")
	less := &wiring.Wiring{Nodes: slices.Clone(w.Nodes), Cables: slices.Clone(w.Cables)}
	less.Cables[5].State = wiring.Held
	lost := less.Nodes[7] // a host, with its cable
	less.Nodes = slices.Delete(less.Nodes, 7, 8)
	less.Cables = slices.DeleteFunc(less.Cables, func(c wiring.Cable) bool { return c.A.GUID == lost.GUID || c.B.GUID == lost.GUID })
	cut := less.Cables[20]
	less.Cables = slices.Delete(less.Cables, 20, 21)
	now := wiring.Carry(w, less, 1000)
	marks := []Mark{{End: cut.A, State: "critical", Text: "bit errors"}, {End: wiring.End{GUID: 0x99}, State: "critical", Text: "unknown"}}
	for _, m := range maps(t, New(now), marks) {
		var got []string
		for _, p := range m.Problems {
			got = append(got, fmt.Sprint(p.State, " ", p.AName, ":", p.APort, " ", p.BName, ":", p.BPort, " ", p.Since))
		}
		name := func(e wiring.End) string { return fmt.Sprint(w.Nodes[w.Find(e.GUID)].Name, ":", e.Port) }
		want := []string{
			fmt.Sprintf("critical %s :0 0", name(cut.A)),
			fmt.Sprintf("held down %s %s 0", name(less.Cables[5].A), name(less.Cables[5].B)),
			fmt.Sprintf("gone %s %s 1000", name(cut.A), name(cut.B)),
			fmt.Sprintf("gone %s:0 :0 1000", lost.Name),
		}
		slices.Sort(want[2:])
		slices.Sort(got[min(2, len(got)):])
		if !slices.Equal(got, want) {
			t.Fatalf("level %d of %q: %q, want %q", m.Level, m.Unit, got, want)
		}
	}
	// What an operator did says why a cable is as it is.
	marks = []Mark{
		{End: cut.B, State: "isolated", Since: 7, Instead: true}, {End: less.Cables[9].A, State: "drained", Since: 8, Instead: true},
	}
	a := New(now)
	for _, m := range maps(t, a, marks) {
		var got []string
		for _, p := range m.Problems {
			if p.AID == cut.A.GUID.String() && p.APort == int(cut.A.Port) {
				t.Errorf("the isolated cable is %s too", p.State)
			}
			if p.State == "isolated" || p.State == "drained" {
				got = append(got, fmt.Sprint(p.State, " ", p.AID, ":", p.APort, " ", p.BID, ":", p.BPort, " ", p.Since))
			}
		}
		want := []string{
			fmt.Sprintf("isolated %v:%d %v:%d 7", cut.B.GUID, cut.B.Port, cut.A.GUID, cut.A.Port),
			fmt.Sprintf("drained %v:%d %v:%d 8", less.Cables[9].A.GUID, less.Cables[9].A.Port, less.Cables[9].B.GUID, less.Cables[9].B.Port),
		}
		if !slices.Equal(got, want) {
			t.Fatalf("level %d of %q: %q, want %q", m.Level, m.Unit, got, want)
		}
		// They are no problems of their groups, which have them in a count of their own.
		for _, g := range m.Groups {
			var problems, out int
			for _, p := range m.Problems {
				x, _ := a.Find(guid(t, p.AID))
				y := x
				if p.BID != "" {
					y, _ = a.Find(guid(t, p.BID))
				}
				if x.Group.String() != g.ID && y.Group.String() != g.ID {
					continue
				}
				if p.State == "isolated" || p.State == "drained" {
					out++
				} else {
					problems++
				}
			}
			if g.Problems != problems || g.OutOfUse != out {
				t.Fatalf("level %d of %q: %s has %d problems and %d links out of use, want %d and %d", m.Level, m.Unit, g.Name, g.Problems, g.OutOfUse, problems, out)
			}
		}
	}
}

// guid reads a GUID of a map.
func guid(t *testing.T, text string) ib.GUID {
	t.Helper()
	g, err := ib.ParseGUID(text)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestChanges: what differs from an earlier state is shown, within bounds.
func TestChanges(t *testing.T) {
	w := wire(t, "torus 6x5")
	less := &wiring.Wiring{Nodes: w.Nodes, Cables: slices.Delete(slices.Clone(w.Cables), 3, 4)}
	less.Cables[9].State = wiring.Held
	now := wiring.Carry(w, less, 77)
	m, err := New(now).Map(Query{Level: 1, Since: w})
	if err != nil || len(m.Changes) != 2 || m.Changes[0].State != "gone" || m.Changes[0].Since != 77 || m.Changes[1].State != "held down" {
		t.Errorf("%+v, %v", m.Changes, err)
	}
	m, err = New(w).Map(Query{Level: 1, Since: now})
	if err != nil || len(m.Changes) != 2 || m.Changes[0].State != "new" || m.Changes[0].AName == "" || m.Changes[0].BName == "" {
		t.Errorf("back: %+v, %v", m.Changes, err)
	}
	big := wire(t, "fattree 11664")
	m, err = New(big).Map(Query{Level: 2, Since: &wiring.Wiring{}})
	if err != nil || len(m.Changes) != MaxProblems || m.More != len(big.Nodes)+len(big.Cables)-MaxProblems {
		t.Errorf("%d changes, %d more, %v", len(m.Changes), m.More, err)
	}
	if n := len(m.Groups) + len(m.Switches) + len(m.Bundles) + len(m.Changes); n > MaxShapes {
		t.Errorf("%d shapes", n)
	}
}

// TestUnknownGroup: a node that is in no map is an error, a host names its group.
func TestUnknownGroup(t *testing.T) {
	a := New(wire(t, "torus 6x5"))
	if _, err := a.Map(Query{Level: 2, Unit: 0x77}); err == nil {
		t.Error("a map of a group that does not exist")
	}
	host := a.w.Nodes[a.hosts[3].at].GUID
	m, err := a.Map(Query{Level: 3, Unit: host})
	if err != nil || len(m.Hosts) == 0 {
		t.Fatalf("%v", err)
	}
	if p, ok := a.Find(host); !ok || p.Group.String() != m.Unit {
		t.Errorf("%+v is not in %s", p, m.Unit)
	}
	if m, err := New(&wiring.Wiring{}).Map(Query{Level: 1}); err != nil || len(m.Groups) != 0 {
		t.Errorf("the map of nothing: %+v, %v", m, err)
	}
}

func BenchmarkNew(b *testing.B) {
	w := wire(b, "fattree 11664")
	b.ReportAllocs()
	for b.Loop() {
		New(w)
	}
}
