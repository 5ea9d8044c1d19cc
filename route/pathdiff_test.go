package route_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"heddle/fabric"
	"heddle/ib"
	"heddle/internal/routetest"
	"heddle/route"
	"heddle/route/engine/minhop"
	"heddle/route/engine/updn"
)

// slowPath is the whole path from a switch to a LID, told in what does not
// change with indices; nil if packets do not arrive.
func slowPath(s route.Solution, src int32, l ib.LID) (hops []string, mtu ib.MTU, gbps float32) {
	g := s.Graph
	if int(l) >= len(g.LIDOwner) || g.LIDOwner[l] == fabric.NoLID {
		return nil, 0, 0
	}
	e := &g.EndPorts[g.LIDOwner[l]]
	mtus, rates := []ib.MTU{}, []float32{}
	for range len(g.Switches) + 1 {
		p := s.Tables.Entry(src, l)
		if src == e.Switch {
			if p != e.Port {
				return nil, 0, 0
			}
			if e.MTU > 0 {
				mtus = append(mtus, e.MTU)
			}
			if e.Gbps > 0 {
				rates = append(rates, e.Gbps)
			}
			if len(mtus) > 0 {
				mtu = slices.Min(mtus)
			}
			if len(rates) > 0 {
				gbps = slices.Min(rates)
			}
			return append(hops, fmt.Sprint(g.Switches[src].GUID, p)), mtu, gbps
		}
		if int(p) >= len(g.PortChannel[src]) || g.PortChannel[src][p] < 0 {
			return nil, 0, 0
		}
		c := &g.Channels[g.PortChannel[src][p]]
		hops = append(hops, fmt.Sprint(g.Switches[src].GUID, p, c.InPort))
		if c.MTU > 0 {
			mtus = append(mtus, c.MTU)
		}
		if c.Gbps > 0 {
			rates = append(rates, c.Gbps)
		}
		src = c.To
	}
	return nil, 0, 0
}

func slowKind(old, now route.Solution, d *fabric.Delta, src int32, l ib.LID) (k route.PathKind) {
	var a []string
	var m ib.MTU
	var r float32
	was := d.Switch[src]
	if was >= 0 {
		a, m, r = slowPath(old, was, l)
	}
	b, n, q := slowPath(now, src, l)
	switch {
	case a == nil && b == nil:
		return 0
	case b == nil:
		return route.PathLost
	case a == nil:
		return route.PathGained
	}
	if !slices.Equal(a, b) {
		k |= route.PathPorts
	}
	if m != n {
		k |= route.PathMTU
	}
	if r != q {
		k |= route.PathRate
	}
	if old.Tables.PathSL(was, l) != now.Tables.PathSL(src, l) {
		k |= route.PathSL
	}
	if old.Graph.EndPorts[old.Graph.LIDOwner[l]].GUID != now.Graph.EndPorts[now.Graph.LIDOwner[l]].GUID {
		k |= route.PathOwner
	}
	return k
}

// swapLIDs gives two CA ports each other's LID.
func swapLIDs(g *fabric.Graph, rng *rand.Rand) {
	a, b := rng.IntN(len(g.EndPorts)), rng.IntN(len(g.EndPorts))
	e, f := &g.EndPorts[a], &g.EndPorts[b]
	if e.Type == ib.NodeSwitch || f.Type == ib.NodeSwitch || e.LMC != 0 || f.LMC != 0 {
		return
	}
	e.LID, f.LID = f.LID, e.LID
	g.LIDOwner[e.LID], g.LIDOwner[f.LID] = int32(a), int32(b)
}

// TestDiffPaths compares differences over random histories with paths walked
// one by one, for several numbers of workers.
func TestDiffPaths(t *testing.T) {
	kinds := map[route.PathKind]int{}
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 3))
		list := routetest.Kinds(rng.IntN)
		w := routetest.NewWear(list[rng.IntN(len(list))].Graph)
		var last route.Solution
		for step := range 12 {
			if step > 0 {
				w.Step(rng.IntN)
			}
			g := w.Graph()
			for i := range g.Channels {
				if rng.IntN(20) == 0 {
					g.Channels[i].MTU, g.Channels[i].Gbps = ib.MTU(rng.IntN(6)), float32(rng.IntN(4)*25)
				}
			}
			for i := range g.EndPorts {
				if rng.IntN(20) == 0 {
					g.EndPorts[i].MTU, g.EndPorts[i].Gbps = ib.MTU(rng.IntN(6)), float32(rng.IntN(4)*25)
				}
			}
			if rng.IntN(4) == 0 {
				swapLIDs(g, rng)
			}
			if len(g.Switches) == 0 {
				break
			}
			var tb *route.Tables
			var err error
			if last.Graph != nil && rng.IntN(2) == 0 {
				tb, err = updn.Engine{}.Update(last, g, fabric.Diff(last.Graph, g), route.Options{})
			} else {
				tb, err = updn.Engine{}.Compute(g, route.Options{})
			}
			if err != nil {
				if tb, err = (minhop.Engine{}).Compute(g, route.Options{}); err != nil {
					t.Fatal(err)
				}
			}
			if seed%3 == 0 {
				tb = tb.Clone()
				if last.Tables != nil && rng.IntN(2) == 0 && len(g.Switches) == len(last.Graph.Switches) && len(last.Tables.Class) == int(tb.TopLID)+1 {
					tb.SL, tb.Class, tb.NumClasses = last.Tables.SL, last.Tables.Class, last.Tables.NumClasses
				} else {
					tb.SwitchClasses(g)
					tb.SL = make([]ib.SL, len(g.Switches)*tb.NumClasses)
					for i := range tb.SL {
						tb.SL[i] = ib.SL(rng.IntN(8) / 6)
					}
				}
			}
			now := route.Solution{Graph: g, Tables: tb}
			if last.Graph != nil {
				compareDiff(t, seed, last, now, kinds)
			}
			last = now
		}
	}
	for _, k := range []route.PathKind{route.PathPorts, route.PathSL, route.PathMTU, route.PathRate, route.PathOwner, route.PathGained, route.PathLost} {
		met := 0
		for m, n := range kinds {
			if m&k != 0 {
				met += n
			}
		}
		if met == 0 {
			t.Errorf("kind %b never met", k)
		}
	}
}

// tally adds a path to a count.
func tally(n *route.PathCount, k route.PathKind) {
	n.Paths++
	add := func(which route.PathKind, at *int64) {
		if k&which != 0 {
			*at++
		}
	}
	add(route.PathSL, &n.SL)
	add(route.PathMTU|route.PathRate, &n.Capacity)
	add(route.PathOwner, &n.Owner)
	add(route.PathGained, &n.Gained)
	add(route.PathLost, &n.Lost)
}

func compareDiff(t *testing.T, seed uint64, last, now route.Solution, kinds map[route.PathKind]int) {
	t.Helper()
	g, d := now.Graph, fabric.Diff(last.Graph, now.Graph)
	p := route.DiffPaths(last, now, d, 1)
	pairs := int64(0)
	var count route.PathCount
	sources := map[int]bool{}
	top := ib.LID(max(len(g.LIDOwner), len(last.Graph.LIDOwner)) + 2)
	for l := range top {
		var runs []route.PathKind
		p.To(l, func(from, to int32, k route.PathKind) {
			for len(runs) < int(from) {
				runs = append(runs, 0)
			}
			for range to - from {
				runs = append(runs, k)
			}
		})
		for s := range int32(len(g.Switches)) {
			want := slowKind(last, now, d, s, l)
			kinds[want]++
			if got := p.Kind(s, l); got != want {
				t.Fatalf("seed %d: path from switch %d to LID %d: %b, want %b", seed, s, l, got, want)
			}
			if got := slices.Concat(runs, make([]route.PathKind, len(g.Switches)))[s]; got != want {
				t.Fatalf("seed %d: To: switch %d LID %d: %b, want %b", seed, s, l, got, want)
			}
			if want == 0 {
				continue
			}
			for e := range g.EndPorts {
				if g.EndPorts[e].Switch == s && g.EndPorts[e].LID != 0 && (int(l) >= len(g.LIDOwner) || g.LIDOwner[l] != int32(e)) {
					pairs++
					if g.EndPorts[e].PortNum != 0 && want&route.PathAttributes != 0 {
						sources[e] = true
						tally(&count, want)
					}
				}
			}
		}
	}
	if p.Pairs(now.Graph) != pairs {
		t.Fatalf("seed %d: %d pairs, want %d", seed, p.Pairs(now.Graph), pairs)
	}
	count.Hosts = len(sources)
	if got := p.Count(g); got != count {
		t.Fatalf("seed %d: count %+v, want %+v", seed, got, count)
	}
	differ := route.NewPathDiffer(last, now, d)
	for differ.Left() > 0 {
		l, got := differ.Next()
		for s := range int32(len(g.Switches)) {
			if k := p.Kind(s, l); got == nil && k != 0 || got != nil && got[s] != k {
				t.Fatalf("seed %d: PathDiffer: switch %d LID %d: %v, want %b", seed, s, l, got, k)
			}
		}
	}
	if !slices.Equal(differ.Sources(), p.Sources) {
		t.Fatalf("seed %d: PathDiffer: sources %v, want %v", seed, differ.Sources(), p.Sources)
	}
	if limit := len(p.LIDs())*(len(g.Switches)+11) + 4*len(p.Sources); p.Bytes() > limit {
		t.Fatalf("seed %d: %d bytes, more than %d", seed, p.Bytes(), limit)
	}
	for _, w := range []int{2, 3, 8} {
		q := route.DiffPaths(last, now, nil, w)
		if !slices.Equal(q.LIDs(), p.LIDs()) || q.Bytes() != p.Bytes() {
			t.Fatalf("seed %d: another result with %d workers", seed, w)
		}
		for s := range int32(len(g.Switches)) {
			var a, b []string
			p.From(s, func(l ib.LID, k route.PathKind) { a = append(a, fmt.Sprint(l, k)) })
			q.From(s, func(l ib.LID, k route.PathKind) { b = append(b, fmt.Sprint(l, k)) })
			if !slices.Equal(a, b) {
				t.Fatalf("seed %d: another result with %d workers", seed, w)
			}
		}
	}
	for i := range g.EndPorts {
		e := &g.EndPorts[i]
		want := false
		for j := range last.Graph.EndPorts {
			if f := &last.Graph.EndPorts[j]; f.GUID == e.GUID && (f.MTU != e.MTU || f.Gbps != e.Gbps) {
				want = true
			}
		}
		if _, got := slices.BinarySearch(p.Sources, int32(i)); got != want {
			t.Fatalf("seed %d: end port %d in Sources: %v", seed, i, got)
		}
	}
}

// BenchmarkDiffPaths compares the paths of a full subnet before and after one
// link is lost, and after all is balanced in another order.
func BenchmarkDiffPaths(b *testing.B) {
	net := routetest.FullSubnet()
	g := net.Graph()
	o := route.Options{Workers: 2}
	old, err := updn.Engine{}.Compute(g, o)
	if err != nil {
		b.Fatal(err)
	}
	net.Unlink(0, int(g.Channels[g.Off[0]].To))
	h := net.Graph()
	d := fabric.Diff(g, h)
	link, err := updn.Engine{}.Update(route.Solution{Graph: g, Tables: old}, h, d, o)
	if err != nil {
		b.Fatal(err)
	}
	for i := len(g.EndPorts) - 1; i >= 0; i-- {
		o.RoutingOrder = append(o.RoutingOrder, g.EndPorts[i].GUID)
	}
	all, err := updn.Engine{}.Compute(h, o)
	if err != nil {
		b.Fatal(err)
	}
	for name, t := range map[string]*route.Tables{"link": link, "all": all} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var p *route.PathDiff
			for b.Loop() {
				p = route.DiffPaths(route.Solution{Graph: g, Tables: old}, route.Solution{Graph: h, Tables: t}, d, 2)
			}
			b.ReportMetric(float64(p.Bytes()), "kept-bytes")
			b.ReportMetric(float64(p.Pairs(h)), "pairs")
		})
	}
}
