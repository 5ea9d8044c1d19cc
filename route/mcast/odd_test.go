package mcast_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"heddle/fabric"
	"heddle/ib"
	"heddle/internal/need"
	"heddle/route"
	"heddle/route/check"
	"heddle/route/engine/ftree"
	"heddle/route/engine/sssp"
	"heddle/route/engine/torus"
	"heddle/route/engine/updn"
	"heddle/route/mcast"
)

// oddGroups are groups as nobody would form them: members named twice, senders
// alone, all on one switch, switches, on any service level.
func oddGroups(g *fabric.Graph, r *rand.Rand, n int) []route.Group {
	list := randomGroups(g, r, n, 8)
	for i := range list {
		grp := &list[i]
		grp.SL = ib.SL(r.IntN(16))
		switch r.IntN(6) {
		case 0:
			grp.Members = append(grp.Members, grp.Members[0])
		case 1:
			grp.Senders = slices.Clone(grp.Members)
		case 2:
			s := g.EndPorts[grp.Members[0]].Switch
			grp.Members = nil
			for e := range int32(len(g.EndPorts)) {
				if g.EndPorts[e].Switch == s {
					grp.Members = append(grp.Members, e)
				}
			}
		case 3:
			grp.Members = nil
			for s := range g.Switches {
				if r.IntN(3) == 0 || s == 0 {
					grp.Members = append(grp.Members, g.Switches[s].EndPort)
				}
			}
		}
		slices.Sort(grp.Members)
	}
	r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

// again lists m and what Build makes without what it remembered.
func again(g *fabric.Graph, tb *route.Tables, groups []route.Group, before, m *route.Multicast) []*route.Multicast {
	if before == nil {
		return nil
	}
	forgot := *before
	forgot.Memo = nil
	return []*route.Multicast{m, mcast.Build(g, tb, groups, mcast.Options{Previous: &forgot, PreviousGraph: g})}
}

// kept says which group has another tree though neither it nor the fabric has
// changed.
func kept(before, m *route.Multicast, last, groups []route.Group) error {
	find := func(m *route.Multicast, l ib.LID) *route.Multicast {
		if i := slices.IndexFunc(m.Trees, func(t route.Tree) bool { return t.MLID == l }); i >= 0 {
			return &route.Multicast{Trees: m.Trees[i : i+1]}
		}
		return &route.Multicast{}
	}
	for i, x := range groups {
		first := func(y route.Group) bool { return y.MLID == x.MLID }
		k := slices.IndexFunc(last, first)
		if k < 0 || slices.IndexFunc(groups, first) != i || last[k].SL != x.SL ||
			!slices.Equal(last[k].Members, x.Members) || !slices.Equal(last[k].Senders, x.Senders) {
			continue
		}
		if old := find(before, x.MLID); len(old.Trees) > 0 && !same(old, find(m, x.MLID)) {
			return fmt.Errorf("group %#x has another tree", uint16(x.MLID))
		}
	}
	return nil
}

// TestOddGroups: unusual groups with many kinds of tables, including lanes by switch,
// get trees that the verifier accepts; unchanged groups keep theirs.
func TestOddGroups(t *testing.T) {
	cases := []struct {
		net    net
		vls    uint8
		engine route.Engine
	}{
		{net{"fattree", []string{"324"}}, 1, ftree.Engine{}},
		{net{"xgft", []string{"3;4,4,4;1,2,2"}}, 1, updn.Engine{}},
		{net{"torus", []string{"4x4"}}, 4, torus.Engine{}},
		{net{"torus", []string{"4x4"}}, 8, sssp.DFEngine{}},
		{net{"irregular", []string{"16"}}, 2, updn.Engine{}},
		{net{"dragonfly", []string{"4,2,2"}}, 8, sssp.DFEngine{}},
	}
	for _, seed := range need.Seeds(8, 300) {
		for i, k := range cases {
			g := graph(t, load(t, k.net, seed), nil, k.vls)
			tb, err := k.engine.Compute(g, route.Options{Workers: 2})
			if err != nil {
				t.Fatal(err)
			}
			r := rand.New(rand.NewPCG(seed, uint64(i)))
			groups := oddGroups(g, r, 12)
			var before *route.Multicast
			var last []route.Group
			for step := range 6 {
				what := fmt.Sprintf("%s with %s, HEDDLE_SEED=%d, step %d", k.net.kind, k.engine.Name(), seed, step)
				m := mcast.Build(g, tb, groups, mcast.Options{Workers: 2, Previous: before, PreviousGraph: g})
				for _, m := range again(g, tb, groups, before, m) {
					if err := kept(before, m, last, groups); err != nil {
						t.Fatalf("%s: %v", what, err)
					}
				}
				with := mcast.Join(g, tb, m)
				accepted := slices.DeleteFunc(slices.Clone(groups), func(grp route.Group) bool {
					return slices.ContainsFunc(m.Refused, func(x route.RefusedGroup) bool { return x.MLID == grp.MLID })
				})
				if v := check.Verify(g, with, check.Options{Groups: accepted}); !v.OK() {
					t.Fatalf("%s: %v", what, v.Err())
				}
				before, last = m, groups
				groups = slices.Clone(groups)
				for range 1 + r.IntN(3) {
					x := &groups[r.IntN(len(groups))]
					switch r.IntN(4) {
					case 0:
						x.SL = ib.SL(r.IntN(16))
					case 1:
						x.Members, x.Senders = x.Members[:1:1], nil
					default:
						x.Members = append(slices.Clip(x.Members), int32(r.IntN(len(g.EndPorts))))
					}
				}
				if r.IntN(3) == 0 {
					groups = append(groups, oddGroups(g, r, 14)[0])
				}
				if r.IntN(3) == 0 {
					groups = slices.Delete(groups, 0, 1)
				}
			}
		}
	}
}
