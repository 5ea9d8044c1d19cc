package nue

import (
	"slices"
	"strconv"
	"testing"

	"heddle/fabric"
	"heddle/ib"
	"heddle/internal/routetest"
	"heddle/route"
	"heddle/route/check"
)

// TestMemory: after every step of random damage, Update's memory agrees with the
// tables: exact loads, counts of all dependencies, and an order in which all of them
// point forward.
func TestMemory(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			draw := routetest.Draws(seed, 5)
			n := 6 + draw(14)
			b := routetest.Random(n, n+draw(n), 3, 2, draw)
			lanes := 1 + draw(4)
			g := b.Graph()
			o := route.Options{MaxVLs: lanes, Workers: 2}
			tb, err := Engine{}.Compute(g, o)
			if err != nil {
				t.Fatal(err)
			}
			remembers(t, g, tb)
			down := map[int32]bool{} // end ports without LIDs
			for range 10 {
				if draw(2) == 0 {
					b = routetest.Damaged(b, 1, draw)
				} else {
					e := int32(draw(len(g.EndPorts)))
					down[e] = !down[e] && g.EndPorts[e].Type != ib.NodeSwitch
				}
				h := b.Graph()
				for l, e := range h.LIDOwner {
					if down[e] {
						h.LIDOwner[l] = fabric.NoLID
					}
				}
				if tb, err = (Engine{}).Update(route.Solution{Graph: g, Tables: tb}, h, fabric.Diff(g, h), o); err != nil {
					t.Fatal(err)
				}
				remembers(t, h, tb)
				g = h
			}
		})
	}
}

// TestHostsMove moves hosts to other switches, adds ports with LIDs above all others,
// and removes LIDs.
func TestHostsMove(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			draw := routetest.Draws(seed, 6)
			n := 5 + draw(12)
			g := routetest.Random(n, n, 3, 2, draw).Graph()
			o := route.Options{MaxVLs: 1 + draw(4), Workers: 2}
			tb, err := Engine{}.Compute(g, o)
			if err != nil {
				t.Fatal(err)
			}
			for range 8 {
				h := *g
				h.EndPorts, h.LIDOwner = slices.Clone(g.EndPorts), slices.Clone(g.LIDOwner)
				h.PortChannel, h.Switches = slices.Clone(g.PortChannel), slices.Clone(g.Switches)
				at := int32(draw(n))
				free := func() uint8 {
					h.PortChannel[at] = append(slices.Clone(h.PortChannel[at]), -1)
					h.Switches[at].NumPorts++
					return h.Switches[at].NumPorts
				}
				e := draw(len(h.EndPorts))
				switch p := &h.EndPorts[e]; {
				case draw(3) == 0:
					h.TopLID++
					h.LIDOwner = append(h.LIDOwner, int32(len(h.EndPorts)))
					h.EndPorts = append(h.EndPorts, fabric.EndPort{
						GUID: 1<<40 + ib.GUID(h.TopLID), Type: ib.NodeCA, PortNum: 1, Switch: at, Port: free(), LID: h.TopLID,
					})
				case p.Type == ib.NodeSwitch:
					continue
				case draw(3) == 0:
					h.LIDOwner[p.LID] = fabric.NoLID
				default:
					p.Switch, p.Port = at, free()
				}
				if tb, err = (Engine{}).Update(route.Solution{Graph: g, Tables: tb}, &h, fabric.Diff(g, &h), o); err != nil {
					t.Fatal(err)
				}
				if err := check.Verify(&h, tb, check.Options{}).Err(); err != nil {
					t.Fatal(err)
				}
				remembers(t, &h, tb)
				g = &h
			}
		})
	}
}

func remembers(t *testing.T, g *fabric.Graph, tb *route.Tables) {
	t.Helper()
	m := tb.Memo.(*memo)
	w := newNet(g)
	load := make([]uint32, len(g.Channels))
	used := make([][]uint16, len(m.order))
	pos := make([][]int, len(m.order))
	for k := range used {
		used[k], pos[k] = make([]uint16, w.deps), make([]int, len(g.Channels))
		for i, c := range m.order[k] {
			pos[k][c] = i
		}
	}
	for d := range int32(w.n) {
		k := m.of[d]
		for i, l := range w.behind(d) {
			next := func(s int32) int32 {
				if p := tb.Entry(s, l); s != d && p != route.Drop {
					return g.PortChannel[s][p]
				}
				return -1
			}
			for s := range int32(w.n) {
				if tb.PathSL(s, l) != ib.SL(k) {
					t.Fatalf("SL %d for LID %d of layer %d", tb.PathSL(s, l), l, k)
				}
				c := next(s)
				if c < 0 {
					continue
				}
				if x := next(g.Channels[c].To); x >= 0 {
					used[k][w.base[c]+x]++
					if pos[k][c] >= pos[k][x] {
						t.Fatalf("layer %d: the dependency of channel %d on %d goes back", k, c, x)
					}
				}
				for u := s; i < int(w.cas[d]) && u != d; {
					c := next(u)
					load[c] += w.hosts[s]
					u = g.Channels[c].To
				}
			}
		}
	}
	for c, k := range load {
		if m.load[c] != k {
			t.Fatalf("load of channel %d is %d, %d remembered", c, k, m.load[c])
		}
	}
	for k := range used {
		for i, n := range used[k] {
			// Escape paths count too.
			if got := m.used[k][i]; got != n && got != n+1 {
				t.Fatalf("layer %d: dependency %d is used by %d trees, %d remembered", k, i, n, got)
			}
		}
	}
}
