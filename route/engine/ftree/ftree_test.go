package ftree_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"heddle/fabric"
	"heddle/ib"
	"heddle/internal/fabrictest"
	"heddle/internal/need"
	"heddle/internal/routetest"
	"heddle/route"
	"heddle/route/check"
	"heddle/route/engine/ftree"
)

func generate(t testing.TB, kind string, lids int) *fabric.Graph {
	t.Helper()
	words := strings.Fields(kind)
	f, err := fabrictest.Generate(words[0], words[1:], 3)
	if err != nil {
		t.Fatal(err)
	}
	if err := fabric.AssignLIDs(f, lids); err != nil {
		t.Fatal(err)
	}
	g, err := f.Graph(fabric.GraphOptions{VLs: 8})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func compute(t testing.TB, g *fabric.Graph, o route.Options) *route.Tables {
	t.Helper()
	tb, err := ftree.Engine{}.Compute(g, o)
	if err != nil {
		t.Fatal(err)
	}
	return tb
}

// verify proves tables and returns the report.
func verify(t testing.TB, g *fabric.Graph, tb *route.Tables) *check.Report {
	t.Helper()
	r := check.Verify(g, tb, check.Options{Workers: 2})
	if !r.OK() {
		var why strings.Builder
		for _, f := range r.Failures {
			why.WriteString(fmt.Sprintf("\n%v: LID %d at switch %d, entry %d", f.Kind, f.LID, f.Switch, f.Entry))
		}
		for _, c := range r.Cycles {
			why.WriteString("\n" + c.String(g))
		}
		t.Fatalf("%v%s", r.Err(), why.String())
	}
	return r
}

// hosts are the first LIDs of the CA ports, ascending.
func hosts(g *fabric.Graph) []ib.LID {
	var all []ib.LID
	was := int32(-1)
	for l, e := range g.LIDOwner {
		if e != was && e != fabric.NoLID && g.EndPorts[e].Type != ib.NodeSwitch {
			all = append(all, ib.LID(l))
		}
		was = e
	}
	return all
}

// shift counts the paths over every channel when each of some ports sends to
// the LID plane of the port s after it.
func shift(g *fabric.Graph, tb *route.Tables, ports []ib.LID, plane, s int) []int {
	load := make([]int, len(g.Channels))
	for i, from := range ports {
		to := ports[(i+s)%len(ports)]
		l := to + ib.LID(plane)
		for u, d := g.EndPorts[g.LIDOwner[from]].Switch, g.EndPorts[g.LIDOwner[to]].Switch; u != d; {
			c := g.PortChannel[u][tb.Entry(u, l)]
			load[c]++
			u = g.Channels[c].To
		}
	}
	return load
}

// shifts returns the most paths over one channel of any shift.
func shifts(g *fabric.Graph, tb *route.Tables, ports []ib.LID, plane int) int {
	most := 0
	for s := 1; s < len(ports); s++ {
		most = max(most, slices.Max(shift(g, tb, ports, plane, s)))
	}
	return most
}

// TestShiftsFreeOfContention: on complete trees with as many links up as down no two
// paths of a shift permutation share a channel, regardless of numbering and cabling.
func TestShiftsFreeOfContention(t *testing.T) {
	for _, c := range []string{
		"fattree 324", "fattree 648", "xgft 3 4,4,8 1,4,4", "xgft 2 6,4 1,6", "kary 4 3", "kary 2 5", "mport 8 3",
		"xgft 4 3,3,3,6 1,3,3,3", "xgft 3 6,6,3 1,6,6", "xgft 3 2,3,4 1,3,4",
	} {
		t.Run(c, func(t *testing.T) {
			whole := generate(t, c, 1)
			n := int64(len(hosts(whole)))
			for _, g := range []*fabric.Graph{whole, routetest.Shuffle(whole, routetest.Draws(5))} {
				tb := compute(t, g, route.Options{Workers: 2})
				r := verify(t, g, tb)
				if most := shifts(g, tb, hosts(g), 0); most != 1 {
					t.Errorf("%d paths of one shift meet on a channel", most)
				}
				if r.MaxChannelLoad >= n {
					t.Errorf("%d paths on a channel, but only %d hosts", r.MaxChannelLoad, n)
				}
			}
		})
	}
}

// TestShiftLoadIsOne: if every path of a shift leaves its leaf, every channel of a tree
// of full bisection carries exactly one.
func TestShiftLoadIsOne(t *testing.T) {
	for _, c := range []string{"fattree 324", "fattree 648", "mport 8 3", "xgft 4 3,3,3,6 1,3,3,3"} {
		g := generate(t, c, 1)
		tb := compute(t, g, route.Options{})
		all := hosts(g)
		full, links := 0, 2*levels(g)
		for s := 1; s < len(all); s++ {
			load := shift(g, tb, all, 0, s)
			top := true // every path passes a root
			for i, from := range all {
				top = top && length(g, tb, from, all[(i+s)%len(all)]) == links
			}
			for ch, k := range load {
				if k > 1 || top && k != 1 {
					t.Fatalf("%s, shift by %d: %d paths on channel %d", c, s, k, ch)
				}
			}
			if top {
				full++
			}
		}
		if full == 0 {
			t.Errorf("%s: no shift fills the tree", c)
		}
	}
}

// length is the number of links between two ports' switches.
func length(g *fabric.Graph, tb *route.Tables, from, to ib.LID) int {
	k := 0
	for u, d := g.EndPorts[g.LIDOwner[from]].Switch, g.EndPorts[g.LIDOwner[to]].Switch; u != d; k++ {
		u = g.Channels[g.PortChannel[u][tb.Entry(u, to)]].To
	}
	return k
}

// levels is the number of levels above the leaves of a whole tree: the largest
// distance between switches with hosts, halved.
func levels(g *fabric.Graph) int {
	dist := make([]int, len(g.Switches))
	for s := range dist {
		dist[s] = -1
	}
	first := g.EndPorts[g.LIDOwner[hosts(g)[0]]].Switch
	dist[first] = 0
	queue := []int32{first}
	for h := 0; h < len(queue); h++ {
		for _, c := range g.Channels[g.Off[queue[h]]:g.Off[queue[h]+1]] {
			if dist[c.To] < 0 {
				dist[c.To] = dist[queue[h]] + 1
				queue = append(queue, c.To)
			}
		}
	}
	most := 0
	for _, e := range g.EndPorts {
		if e.Type != ib.NodeSwitch {
			most = max(most, dist[e.Switch])
		}
	}
	return most / 2
}

// TestSeveralLIDs: the LIDs of a port use different paths, and the ports' n-th LIDs are
// free of contention for every n.
func TestSeveralLIDs(t *testing.T) {
	for kind, lids := range map[string]int{"xgft 3 4,4,8 1,4,4": 4, "xgft 2 6,6 1,6": 4, "fattree 324": 17} {
		g := generate(t, kind, lids)
		tb := compute(t, g, route.Options{Workers: 2})
		verify(t, g, tb)
		for plane := range lids {
			if most := shifts(g, tb, hosts(g), plane); most != 1 {
				t.Errorf("%s: %d paths to the LIDs %d of a shift meet on a channel", kind, most, plane)
			}
		}
		for s := range int32(len(g.Switches)) {
			for _, l := range hosts(g) {
				e := &g.EndPorts[g.LIDOwner[l]]
				ups := 0
				for _, c := range g.Channels[g.Off[s]:g.Off[s+1]] {
					if g.EndPorts[g.Switches[c.To].EndPort].GUID != 0 {
						ups++
					}
				}
				if s == e.Switch || !hasHosts(g, s) {
					continue
				}
				seen := map[byte]bool{}
				for i := range lids {
					seen[tb.Entry(s, l+ib.LID(i))] = true
				}
				if len(seen) != min(lids, ups) {
					t.Fatalf("%s: %d LIDs leave switch %d by %d ports", kind, lids, s, len(seen))
				}
			}
		}
	}
}

func hasHosts(g *fabric.Graph, s int32) bool {
	for _, e := range g.EndPorts {
		if e.Switch == s && e.Type != ib.NodeSwitch {
			return true
		}
	}
	return false
}

// TestRefusals: a fabric that is not a tree is refused with the reason.
func TestRefusals(t *testing.T) {
	for kind, want := range map[string]string{
		"torus 4x4": "are cabled", "torus 5x5x5": "are cabled", "mesh 3x3": "are cabled", "hypercube 4": "are cabled", "hyperx 3x3": "are cabled",
		"dragonfly 4 2 2": "are cabled", "irregular 16": "are cabled", "irregular 8": "are cabled",
	} {
		_, err := ftree.Engine{}.Compute(generate(t, kind, 1), route.Options{})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "ftree: no tree: switches 0x") {
			t.Errorf("%s: %v", kind, err)
		}
	}
	// Two pods that only share a leaf's neighbor's neighbor: no common top.
	b := &routetest.Net{}
	b.Switches(5)
	for l := range 3 {
		b.Host(l, 1)
	}
	b.Link(0, 3)
	b.Link(1, 3)
	b.Link(1, 4)
	b.Link(2, 4)
	_, err := ftree.Engine{}.Compute(b.Graph(), route.Options{})
	if err == nil || !strings.Contains(err.Error(), "have no path up then down") {
		t.Errorf("leaves without a common top: %v", err)
	}
	b = routetest.Tree2(3, 2, 2)
	b.Cap = map[int]int{4: 5}
	if _, err := (ftree.Engine{}).Compute(b.Graph(), route.Options{}); err == nil || !strings.Contains(err.Error(), "ends at LID 4") {
		t.Errorf("a short table: %v", err)
	}
}

// TestSmall: fabrics that are hardly any are routed.
func TestSmall(t *testing.T) {
	alone := &routetest.Net{}
	alone.Switches(1)
	alone.Host(0, 2)
	alone.Host(0, 1)
	alone.Host(-1, 1)
	bare := &routetest.Net{}
	bare.Switches(5)
	bare.Link(0, 1)
	bare.Link(1, 2)
	bare.Link(2, 0)
	bare.Link(3, 4)
	star := &routetest.Net{}
	star.Switches(4)
	star.Link(0, 1)
	star.Link(0, 2)
	star.Link(0, 3)
	star.Host(2, 1)
	line := &routetest.Net{}
	line.Switches(3)
	line.Link(0, 1)
	line.Link(1, 2)
	line.Host(0, 3)
	line.Host(2, 3)
	for name, b := range map[string]*routetest.Net{"alone": alone, "bare": bare, "star": star, "line": line, "none": {}, "parts": {}} {
		if name == "parts" {
			b = routetest.Tree2(3, 2, 2)
			s := b.Switches(3) // and another tree, and a switch alone
			b.Link(s, s+1)
			b.Host(s, 1)
		}
		g := b.Graph()
		verify(t, g, compute(t, g, route.Options{Workers: 3}))
	}
}

func TestAnyNumberOfWorkers(t *testing.T) {
	draw := routetest.Draws(3)
	for _, k := range trees(t, draw) {
		w := routetest.NewWear(k.Graph)
		for range 4 {
			w.Cable(draw(w.Cables()), false)
		}
		one, err := ftree.Engine{}.Compute(w.Graph(), route.Options{Workers: 1})
		for _, workers := range []int{2, 3, 8} {
			more, err2 := ftree.Engine{}.Compute(w.Graph(), route.Options{Workers: workers})
			if (err == nil) != (err2 == nil) || err == nil && !one.Equal(more) {
				t.Errorf("%s: another result with %d workers", k.Name, workers)
			}
		}
	}
}

func TestRoots(t *testing.T) {
	// The middle of a line of trees: without roots the tops are those that
	// reach most; with them, who is asked for.
	g := generate(t, "xgft 2 4,6 1,3", 1)
	var roots []ib.GUID
	for s := range int32(len(g.Switches)) {
		if !hasHosts(g, s) {
			roots = append(roots, g.Switches[s].GUID)
		}
	}
	tb := compute(t, g, route.Options{Roots: append(roots, 0xdead)})
	verify(t, g, tb)
	if !strings.Contains(tb.Note, "1 of 4 given roots") {
		t.Errorf("note %q", tb.Note)
	}
	if !tb.Equal(compute(t, g, route.Options{})) {
		t.Error("the roots that would be found make another tree")
	}
	tb = compute(t, g, route.Options{Roots: []ib.GUID{0xdead}})
	verify(t, g, tb)
	if tb.Note == "" {
		t.Error("nothing is said of a root that is not there")
	}
	// With one spine as the only root the others are below the leaves.
	verify(t, g, compute(t, g, route.Options{Roots: roots[:1]}))
}

// TestComputeNodes: a shift among some nodes of every leaf, with gaps in their numbers,
// is free of contention if they are given as compute nodes.
func TestComputeNodes(t *testing.T) {
	g := generate(t, "xgft 3 6,4,4 1,4,4", 1)
	all := hosts(g)
	var nodes []ib.LID
	var named []ib.GUID
	for i, l := range all {
		if leaf := i / 6; i%6 != leaf%3 && i%6 != 3+leaf%2 { // four of six
			nodes = append(nodes, l)
			named = append(named, g.EndPorts[g.LIDOwner[l]].GUID)
		}
	}
	tb := compute(t, g, route.Options{ComputeNodes: append(named, 0xbeef)})
	r := verify(t, g, tb)
	if most := shifts(g, tb, nodes, 0); most != 1 {
		t.Errorf("%d paths of one shift meet on a channel", most)
	}
	if plain := compute(t, g, route.Options{}); shifts(g, plain, nodes, 0) == 1 {
		t.Error("the nodes need not have been named")
	}
	if !strings.Contains(tb.Note, "compute nodes") {
		t.Errorf("note %q", tb.Note)
	}
	// Six hosts share four cables: the others are spread too.
	if float64(r.MaxChannelLoad) > 2.01*float64(len(all)-6) {
		t.Errorf("%d paths on a channel, mean %.0f", r.MaxChannelLoad, r.AvgChannelLoad)
	}
}

// TestHostsOnSpines: hosts on spines are reached, and reach each other only as
// I/O nodes.
func TestHostsOnSpines(t *testing.T) {
	b := routetest.Tree2(6, 4, 4)
	b.Host(6, 1)
	g := b.Graph()
	verify(t, g, compute(t, g, route.Options{})) // one does not matter
	b.Host(8, 1)
	g = b.Graph()
	var io []ib.GUID
	for _, e := range g.EndPorts {
		if e.Type != ib.NodeSwitch && e.Switch >= 6 {
			io = append(io, e.GUID)
		}
	}
	if _, err := (ftree.Engine{}).Compute(g, route.Options{}); err == nil || !strings.Contains(err.Error(), "I/O nodes") {
		t.Errorf("nodes on two spines: %v", err)
	}
	if _, err := (ftree.Engine{}).Compute(g, route.Options{IONodes: io}); err == nil {
		t.Error("no reverse hop is allowed, and yet taken")
	}
	verify(t, g, compute(t, g, route.Options{IONodes: io, MaxReverseHops: 1}))

	// Three levels, I/O nodes on tops of two planes: up again twice.
	b = routetest.Tree(4, 4)
	for _, s := range []int{16, 19} {
		b.Host(s, 1)
	}
	g = b.Graph()
	io = nil
	for _, e := range g.EndPorts {
		if e.Type != ib.NodeSwitch && e.Switch >= 16 {
			io = append(io, e.GUID)
		}
	}
	if _, err := (ftree.Engine{}).Compute(g, route.Options{IONodes: io, MaxReverseHops: 1}); err == nil || !strings.Contains(err.Error(), "2 reverse hops, 1 are allowed") {
		t.Errorf("two planes with one reverse hop: %v", err)
	}
	verify(t, g, compute(t, g, route.Options{IONodes: io, MaxReverseHops: 2}))
}

// TestParallelCables: two links to each spine are two digits.
func TestParallelCables(t *testing.T) {
	b := &routetest.Net{}
	b.Switches(9)
	for l := range 6 {
		for range 6 {
			b.Host(l, 1)
		}
		for s := range 3 {
			b.Link(l, 6+s)
			b.Link(l, 6+s)
		}
	}
	g := b.Graph()
	tb := compute(t, g, route.Options{})
	verify(t, g, tb)
	if most := shifts(g, tb, hosts(g), 0); most != 1 {
		t.Errorf("%d paths of one shift meet on a channel", most)
	}
}

// TestLargeShifts samples the shifts of the well-known trees of three levels.
func TestLargeShifts(t *testing.T) {
	for kind, lids := range map[string]int{"fattree 2916": 2, "fattree 5832": 1, "fattree 11664": 1} {
		g := generate(t, kind, lids)
		tb := compute(t, g, route.Options{Workers: 2})
		all := hosts(g)
		draw := routetest.Draws(11)
		for range 20 {
			s := 1 + draw(len(all)-1)
			if most := slices.Max(shift(g, tb, all, draw(lids), s)); most != 1 {
				t.Errorf("%s: %d paths of the shift by %d meet on a channel", kind, most, s)
			}
		}
	}
}

// TestLarge proves the sizes that the targets name.
func TestLarge(t *testing.T) {
	need.Long(t)
	for kind, lids := range map[string]int{"fattree 5832": 1, "fattree 11664": 1, "fattree 2853": 17} {
		g := generate(t, kind, lids)
		r := verify(t, g, compute(t, g, route.Options{Workers: 2}))
		if float64(r.MaxChannelLoad) > 1.1*r.AvgChannelLoad {
			t.Errorf("%s: fullest channel %d, mean %.0f", kind, r.MaxChannelLoad, r.AvgChannelLoad)
		}
	}
}

// TestDamage: in a complete tree that lost a few links, no channel carries much more
// than its share.
func TestDamage(t *testing.T) {
	for _, c := range []struct {
		kind  string
		pulls int
		most  float64 // of the load of the whole tree
	}{
		{"fattree 324", 1, 2.01}, {"fattree 648", 1, 2.01}, {"fattree 324", 6, 2.2}, {"xgft 3 6,6,6 1,6,6", 1, 2.1}, {"xgft 3 6,6,6 1,6,6", 10, 3.1},
	} {
		for seed := range uint64(12) {
			g := generate(t, c.kind, 1)
			whole := verify(t, g, compute(t, g, route.Options{}))
			w := routetest.NewWear(g)
			draw := routetest.Draws(seed)
			for range c.pulls {
				w.Cable(draw(w.Cables()), false)
			}
			h := w.Graph()
			r := verify(t, h, compute(t, h, route.Options{}))
			if x := float64(r.MaxChannelLoad) / float64(whole.MaxChannelLoad); x > c.most {
				t.Errorf("%s less %d cables, seed %d: %.2f times the load", c.kind, c.pulls, seed, x)
			}
			if r.MaxHops > whole.MaxHops {
				t.Errorf("%s less %d cables, seed %d: paths of %d hops", c.kind, c.pulls, seed, r.MaxHops)
			}
		}
	}
}

// TestMissingSwitches: trees without some of their switches, and with leaves
// of all sizes, are routed; on two levels as evenly as can be.
func TestMissingSwitches(t *testing.T) {
	for seed := range uint64(40) {
		draw := routetest.Draws(seed, 3)
		b := &routetest.Net{}
		leaves, spines := 3+draw(8), 2+draw(5)
		b.Switches(leaves + spines)
		n := 0
		for l := range leaves {
			for range 1 + draw(2*spines) {
				b.Host(l, 1)
				n++
			}
			for s := range spines {
				b.Link(l, leaves+s)
			}
		}
		g := b.Graph()
		tb := compute(t, g, route.Options{})
		verify(t, g, tb)
		// Down from a spine to a leaf go the paths to the ports that it
		// serves there: the leaf's ports, evenly.
		load := routetest.Loads(g, tb, nil)
		for c, ch := range g.Channels {
			if int(ch.From) < leaves {
				continue
			}
			k := 0
			for _, e := range g.EndPorts {
				if e.Switch == ch.To && e.Type != ib.NodeSwitch {
					k++
				}
			}
			if most := (k + spines - 1) / spines * (n - k); int(load[c]) > most {
				t.Fatalf("seed %d: %d paths from spine %d to leaf %d, want at most %d", seed, load[c], ch.From, ch.To, most)
			}
		}
	}
	for seed := range uint64(60) {
		g := generate(t, "xgft 3 4,4,4 1,4,4", 1)
		w := routetest.NewWear(g)
		draw := routetest.Draws(seed, 4)
		for range 1 + draw(3) {
			w.Switch(draw(len(g.Switches)), false)
		}
		h := w.Graph()
		verify(t, h, compute(t, h, route.Options{}))
	}
}
