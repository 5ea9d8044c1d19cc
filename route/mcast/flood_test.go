package mcast_test

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
)

// flood sends one packet of a group from a member as switches would and
// returns how many copies each end port gets, or an error if a packet comes
// back to a switch or leaves by a port that leads nowhere.
func flood(g *fabric.Graph, t *route.Tree, from int32) (map[int32]int, error) {
	type at struct {
		s  int32
		in uint8
	}
	host := map[[2]int32]int32{} // by switch and port
	for e := range g.EndPorts {
		if p := &g.EndPorts[e]; p.Switch >= 0 {
			host[[2]int32{p.Switch, int32(p.Port)}] = int32(e)
		}
	}
	got := map[int32]int{}
	seen := map[int32]bool{}
	p := &g.EndPorts[from]
	todo := []at{{p.Switch, p.Port}}
	for len(todo) > 0 {
		x := todo[0]
		todo = todo[1:]
		i, ok := slices.BinarySearch(t.Switches, x.s)
		if !ok {
			return nil, fmt.Errorf("switch %d is not in the tree", x.s)
		}
		if seen[x.s] {
			return nil, fmt.Errorf("a second copy comes to switch %d", x.s)
		}
		seen[x.s] = true
		for port := range 256 {
			if t.Ports[i][port>>6]>>(port&63)&1 == 0 || uint8(port) == x.in {
				continue
			}
			if e, ok := host[[2]int32{x.s, int32(port)}]; ok {
				got[e]++
				continue
			}
			if port >= len(g.PortChannel[x.s]) || g.PortChannel[x.s][port] < 0 {
				return nil, fmt.Errorf("switch %d port %d leads nowhere", x.s, port)
			}
			c := &g.Channels[g.PortChannel[x.s][port]]
			todo = append(todo, at{c.To, c.InPort})
		}
	}
	return got, nil
}

// verify checks that every receiver gets exactly one copy of what any member
// sends, and nobody else any.
func verify(g *fabric.Graph, t *route.Tree, grp route.Group) error {
	for _, from := range grp.Members {
		got, err := flood(g, t, from)
		if err != nil {
			return fmt.Errorf("from end port %d: %w", from, err)
		}
		for _, to := range grp.Members {
			want := 1
			if to == from || slices.Contains(grp.Senders, to) {
				want = 0
			}
			if got[to] != want {
				return fmt.Errorf("end port %d gets %d copies from %d, want %d", to, got[to], from, want)
			}
			delete(got, to)
		}
		for to, n := range got {
			if n > 0 {
				return fmt.Errorf("end port %d, no member, gets %d copies from %d", to, n, from)
			}
		}
	}
	return nil
}

// randomGroups draws n groups of up to size members; every eighth member only
// sends.
func randomGroups(g *fabric.Graph, r *rand.Rand, n, size int) []route.Group {
	var list []route.Group
	for k := range n {
		grp := route.Group{MLID: ib.LID(0xC000 + k)}
		for range 1 + r.IntN(size) {
			e := int32(r.IntN(len(g.EndPorts)))
			if g.EndPorts[e].Switch >= 0 && !slices.Contains(grp.Members, e) {
				grp.Members = append(grp.Members, e)
				if r.IntN(8) == 0 {
					grp.Senders = append(grp.Senders, e)
				}
			}
		}
		slices.Sort(grp.Members)
		slices.Sort(grp.Senders)
		if len(grp.Members) > 0 {
			list = append(list, grp)
		}
	}
	return list
}
