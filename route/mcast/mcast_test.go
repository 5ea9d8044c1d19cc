package mcast_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"heddle/fabric"
	"heddle/ib"
	"heddle/internal/fabrictest"
	"heddle/internal/need"
	"heddle/route"
	"heddle/route/check"
	"heddle/route/engine/updn"
	"heddle/route/mcast"
)

type net struct {
	kind   string
	params []string
}

var nets = []net{
	{"fattree", []string{"324"}},
	{"xgft", []string{"3;4,4,4;1,2,2"}},
	{"torus", []string{"4x4"}},
	{"mesh", []string{"3x5"}},
	{"hypercube", []string{"4"}},
	{"irregular", []string{"16"}},
	{"irregular", []string{"32"}},
	{"dragonfly", []string{"4,2,2"}},
}

func graph(t testing.TB, f *fabric.Fabric, up func(fabric.Ref) bool, vls uint8) *fabric.Graph {
	t.Helper()
	g, err := f.Graph(fabric.GraphOptions{Up: up, VLs: vls})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func load(t testing.TB, n net, seed uint64) *fabric.Fabric {
	t.Helper()
	f, err := fabrictest.Generate(n.kind, n.params, seed)
	if err != nil {
		t.Fatal(err)
	}
	if err := fabric.AssignLIDs(f, 1); err != nil {
		t.Fatal(err)
	}
	return f
}

func tables(t testing.TB, g *fabric.Graph) *route.Tables {
	t.Helper()
	tb, err := updn.Engine{}.Compute(g, route.Options{Workers: 2})
	if err != nil {
		t.Fatal(err)
	}
	return tb
}

// TestTrees: on every kind of net random groups get trees that deliver one copy to
// every receiver, and that the verifier finds free of cycles together with the unicast
// tables.
func TestTrees(t *testing.T) {
	for _, n := range nets {
		for _, vls := range []uint8{1, 4} {
			g := graph(t, load(t, n, 3), nil, vls)
			tb := tables(t, g)
			groups := randomGroups(g, rand.New(rand.NewPCG(1, 2)), 24, 12)
			for i := range groups {
				groups[i].SL = ib.SL(i % 3)
			}
			m := mcast.Build(g, tb, groups, mcast.Options{Workers: 2})
			if len(m.Trees)+len(m.Refused) != len(groups) {
				t.Errorf("%v: %d trees and %d refused of %d groups", n, len(m.Trees), len(m.Refused), len(groups))
			}
			if len(m.Refused) > 0 {
				t.Errorf("%v, %d lanes: refused on up*/down* tables: %+v", n, vls, m.Refused)
			}
			i := 0
			for k := range m.Trees {
				for groups[i].MLID != m.Trees[k].MLID {
					i++
				}
				if err := verify(g, &m.Trees[k], groups[i]); err != nil {
					t.Fatalf("%v, group %v: %v", n, groups[i].MLID, err)
				}
			}
			if err := check.Verify(g, mcast.Join(g, tb, m), check.Options{Workers: 2, Groups: groups}).Err(); err != nil {
				t.Errorf("%v: %v", n, err)
			}
			known, _ := check.Prove(g, tb, check.Options{}).Dependencies()
			if !same(m, mcast.Build(g, tb, groups, mcast.Options{Unicast: known})) {
				t.Errorf("%v: other trees from the dependencies that a proof knows", n)
			}
			again := mcast.Build(g, tb, groups, mcast.Options{Workers: 3, Previous: m, PreviousGraph: g})
			if !same(m, again) {
				t.Errorf("%v: the same groups get other trees", n)
			}
		}
	}
}

func same(a, b *route.Multicast) bool {
	return slices.EqualFunc(a.Trees, b.Trees, func(x, y route.Tree) bool {
		return x.MLID == y.MLID && x.SL == y.SL && slices.Equal(x.Switches, y.Switches) && slices.Equal(x.Ports, y.Ports)
	})
}

// TestDepth: in a fat tree the tree of a group that spans leaves is rooted at
// the top, and groups share the top out among them.
func TestDepth(t *testing.T) {
	g := graph(t, load(t, net{"fattree", []string{"324"}}, 1), nil, 1)
	tb := tables(t, g)
	all := route.Group{}
	for e := range g.EndPorts {
		if g.EndPorts[e].Type == ib.NodeCA {
			all.Members = append(all.Members, int32(e))
		}
	}
	var groups []route.Group
	for k := range 36 {
		grp := all
		grp.MLID = ib.LID(0xC000 + k)
		groups = append(groups, grp)
	}
	m := mcast.Build(g, tb, groups, mcast.Options{})
	if len(m.Trees) != len(groups) {
		t.Fatalf("%d trees of %d groups: %+v", len(m.Trees), len(groups), m.Refused)
	}
	spines := map[int32]int{}
	for i := range m.Trees {
		tr := &m.Trees[i]
		leaves := 0
		for _, s := range tr.Switches {
			if hosts(g, s) > 0 {
				leaves++
			} else {
				spines[s]++
			}
		}
		if leaves != 18 || len(tr.Switches) != 19 {
			t.Fatalf("group %v: %d leaves of %d switches, want 18 of 19", tr.MLID, leaves, len(tr.Switches))
		}
	}
	for s, k := range spines {
		if k > 2 {
			t.Errorf("spine %d carries %d of 36 groups; 18 spines could carry 2 each", s, k)
		}
	}
}

func hosts(g *fabric.Graph, s int32) (n int) {
	for e := range g.EndPorts {
		if p := &g.EndPorts[e]; p.Switch == s && p.Port != 0 {
			n++
		}
	}
	return n
}

// TestChange: members join and leave, links and switches fail and return; trees stay
// right, and those of unaffected groups unchanged.
func TestChange(t *testing.T) {
	const steps = 15
	for _, seed := range need.Seeds(1, 40) {
		for _, n := range nets {
			changes(t, n, seed, steps)
		}
	}
}

func changes(t *testing.T, n net, seed uint64, steps int) {
	t.Helper()
	f := load(t, n, 5)
	r := rand.New(rand.NewPCG(seed, uint64(len(n.kind))))
	down := map[fabric.Ref]bool{}
	up := func(x fabric.Ref) bool { return !down[x] }
	g := graph(t, f, up, 2)
	tb := tables(t, g)
	guids := map[ib.LID][]ib.GUID{}
	for _, grp := range randomGroups(g, r, 10, 10) {
		for _, e := range grp.Members {
			guids[grp.MLID] = append(guids[grp.MLID], g.EndPorts[e].GUID)
		}
	}
	groupsOf := func(g *fabric.Graph) (list []route.Group) {
		for l := ib.LID(0xC000); l < 0xC010; l++ {
			grp := route.Group{MLID: l}
			for e := range g.EndPorts {
				if slices.Contains(guids[l], g.EndPorts[e].GUID) {
					grp.Members = append(grp.Members, int32(e))
				}
			}
			if len(grp.Members) > 0 {
				list = append(list, grp)
			}
		}
		return list
	}
	m := mcast.Build(g, tb, groupsOf(g), mcast.Options{})
	for step := range steps {
		was, wasG := m, g
		touched := ib.LID(0xC000 + r.IntN(10))
		cable := false
		switch r.IntN(3) {
		case 0: // a member comes
			guids[touched] = append(guids[touched], g.EndPorts[r.IntN(len(g.EndPorts))].GUID)
		case 1: // a member leaves
			if k := len(guids[touched]); k > 0 {
				guids[touched] = guids[touched][:k-1]
			}
		case 2: // a cable fails or returns
			cable = true
			i := r.IntN(len(f.Nodes))
			p := 1 + r.IntN(f.Nodes[i].NumPorts)
			ref := fabric.Ref{Node: int32(i), Port: uint8(p)}
			down[ref] = !down[ref]
			g = graph(t, f, up, 2)
			tb = tables(t, g)
		}
		groups := groupsOf(g)
		m = mcast.Build(g, tb, groups, mcast.Options{Previous: was, PreviousGraph: wasG})
		for _, grp := range groups {
			i := slices.IndexFunc(m.Trees, func(x route.Tree) bool { return x.MLID == grp.MLID })
			if i < 0 {
				continue
			}
			if err := verify(g, &m.Trees[i], connected(g, grp)); err != nil {
				t.Fatalf("%v step %d, group %v: %v", n, step, grp.MLID, err)
			}
			if cable || grp.MLID == touched {
				continue
			}
			j := slices.IndexFunc(was.Trees, func(x route.Tree) bool { return x.MLID == grp.MLID })
			if j < 0 || !slices.Equal(was.Trees[j].Ports, m.Trees[i].Ports) {
				t.Errorf("%v step %d: group %v has another tree though nobody joined or left", n, step, grp.MLID)
			}
		}
		with := *tb
		with.Multicast = m
		if rep := check.Verify(g, &with, check.Options{}); rep.CreditCycles > 0 {
			t.Fatalf("%v step %d: %v", n, step, rep.Err())
		}
	}
}

// connected leaves in a group the members of the largest part of a net that
// fell apart; of equal parts that of the first member.
func connected(g *fabric.Graph, grp route.Group) route.Group {
	comp := make([]int32, len(g.Switches))
	for s := range comp {
		comp[s] = -1
	}
	for s := range comp {
		if comp[s] >= 0 {
			continue
		}
		comp[s] = int32(s)
		for todo := []int32{int32(s)}; len(todo) > 0; todo = todo[1:] {
			for c := g.Off[todo[0]]; c < g.Off[todo[0]+1]; c++ {
				if v := g.Channels[c].To; comp[v] < 0 {
					comp[v] = int32(s)
					todo = append(todo, v)
				}
			}
		}
	}
	switches := map[int32]map[int32]bool{}
	for _, e := range grp.Members {
		if s := g.EndPorts[e].Switch; s >= 0 {
			if switches[comp[s]] == nil {
				switches[comp[s]] = map[int32]bool{}
			}
			switches[comp[s]][s] = true
		}
	}
	first := int32(1 << 30)
	for _, e := range grp.Members {
		if s := g.EndPorts[e].Switch; s >= 0 {
			first = min(first, s)
		}
	}
	if first == 1<<30 {
		return route.Group{MLID: grp.MLID}
	}
	best := comp[first]
	for s := range comp {
		if c := int32(s); comp[s] == c && len(switches[c]) > len(switches[best]) {
			best = c
		}
	}
	out := route.Group{MLID: grp.MLID}
	for _, e := range grp.Members {
		if s := g.EndPorts[e].Switch; s >= 0 && comp[s] == best {
			out.Members = append(out.Members, e)
		}
	}
	return out
}

// TestNoLane: unicast paths use a ring of four switches in both directions, each with
// one unused turn, at opposite switches. Any tree that spans the ring uses one of the
// two: with one lane there is none, with two the group moves to the other.
func TestNoLane(t *testing.T) {
	f, err := fabrictest.Generate("torus", []string{"4"}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := fabric.AssignLIDs(f, 2); err != nil {
		t.Fatal(err)
	}
	for _, vls := range []uint8{1, 2} {
		g := graph(t, f, nil, vls)
		tb, grp := tight(g)
		m := mcast.Build(g, tb, []route.Group{grp}, mcast.Options{})
		if vls == 1 {
			if len(m.Trees) != 0 || len(m.Refused) != 1 || !strings.Contains(m.Refused[0].Reason, "closes a cycle") {
				t.Errorf("one lane: %+v", m)
			}
			continue
		}
		if len(m.Trees) != 1 || m.Trees[0].SL != 1 {
			t.Fatalf("two lanes: %+v", m)
		}
		if err := verify(g, &m.Trees[0], grp); err != nil {
			t.Error(err)
		}
	}
}

// tight are the tables of TestNoLane, and the group of all hosts.
func tight(g *fabric.Graph) (*route.Tables, route.Group) {
	var ring, cw, ccw [4]int32 // switches in turn; the channel to the next and to the one before
	s, from := int32(0), int32(-1)
	for i := range ring {
		ring[i] = s
		for c := g.Off[s]; c < g.Off[s+1]; c++ {
			if v := g.Channels[c].To; v == from || i == 0 && c == g.Off[s] {
				ccw[i] = c
			} else {
				cw[i] = c
			}
		}
		from, s = s, g.Channels[cw[i]].To
	}
	t := route.New("tight", len(g.Switches), g.TopLID)
	grp := route.Group{MLID: 0xC000}
	for e := range g.EndPorts {
		p := &g.EndPorts[e]
		if p.Type == ib.NodeSwitch {
			continue
		}
		grp.Members = append(grp.Members, int32(e))
		at := slices.Index(ring[:], p.Switch)
		way := func(l ib.LID, next *[4]int32) {
			for i, s := range ring {
				t.LFT[s][l] = g.Channels[next[i]].OutPort
			}
			t.LFT[p.Switch][l] = p.Port
		}
		switch at {
		case 0:
			way(p.LID, &cw)
		case 2:
			way(p.LID, &ccw)
		case 3:
			way(p.LID, &cw)
			way(p.LID+1, &ccw)
		}
	}
	return t, grp
}

// BenchmarkBuild builds the trees of a large fabric: all of them, and after one member
// joined one group, given the verifier's dependencies.
func BenchmarkBuild(b *testing.B) {
	for _, size := range []struct {
		hosts           string
		groups, members int
	}{{"648", 100, 100}, {"5832", 1000, 100}} {
		g := graph(b, load(b, net{"fattree", []string{size.hosts}}, 1), nil, 1)
		tb := tables(b, g)
		groups := randomGroups(g, rand.New(rand.NewPCG(1, 2)), size.groups, size.members)
		b.Run(size.hosts+"/all", func(b *testing.B) {
			for b.Loop() {
				mcast.Build(g, tb, groups, mcast.Options{Workers: 2})
			}
		})
		unicast := mcast.Unicast(g, tb, 2)
		o := mcast.Options{Workers: 2, Previous: mcast.Build(g, tb, groups, mcast.Options{Workers: 2}), PreviousGraph: g, Unicast: unicast}
		more := slices.Clone(groups)
		for e := range int32(len(g.EndPorts)) {
			if g.EndPorts[e].Type == ib.NodeCA && !slices.Contains(more[0].Members, e) {
				more[0].Members = append(slices.Clone(more[0].Members), e)
				break
			}
		}
		b.Run(size.hosts+"/join", func(b *testing.B) {
			for b.Loop() {
				mcast.Build(g, tb, more, o)
			}
		})
	}
}
