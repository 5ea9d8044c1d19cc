package check_test

import (
	"slices"
	"testing"

	"heddle/fabric"
	"heddle/ib"
	"heddle/internal/routetest"
	"heddle/route"
	"heddle/route/check"
	"heddle/route/engine/updn"
)

// shifts is the naive twin of the Shift pattern: maps, and a walk for each
// flow.
func shifts(g *fabric.Graph, t *route.Tables) (res check.PatternResult) {
	var ports []int
	for e := range g.EndPorts {
		if g.EndPorts[e].Type == ib.NodeCA && g.EndPorts[e].Switch >= 0 {
			ports = append(ports, e)
		}
	}
	slices.SortFunc(ports, func(a, b int) int {
		p, q := g.EndPorts[a], g.EndPorts[b]
		return (int(p.Switch)<<8 | int(p.Port)) - (int(q.Switch)<<8 | int(q.Port))
	})
	sum, share := 0, 0.0
	for k := 1; k < len(ports); k++ {
		load := map[[2]int32]int{}
		var paths [][][2]int32
		most := 0
		for i, e := range ports {
			dst := g.EndPorts[ports[(i+k)%len(ports)]]
			at := g.EndPorts[e].Switch
			var path [][2]int32
			ok := true
			for at != dst.Switch && ok {
				p := t.Entry(at, dst.LID)
				ok = int(p) < len(g.PortChannel[at]) && g.PortChannel[at][p] >= 0 && len(path) <= len(g.Switches)
				if ok {
					path = append(path, [2]int32{at, int32(p)})
					at = g.Channels[g.PortChannel[at][p]].To
				}
			}
			res.Flows++
			if !ok || t.Entry(at, dst.LID) != dst.Port {
				res.Lost++
				continue
			}
			paths = append(paths, path)
			for _, c := range path {
				load[c]++
				most = max(most, load[c])
			}
		}
		for _, path := range paths {
			worst := 1
			for _, c := range path {
				worst = max(worst, load[c])
			}
			share += 1 / float64(worst)
		}
		res.Rounds++
		res.MaxLoad = max(res.MaxLoad, most)
		sum += most
	}
	res.MeanMaxLoad = float64(sum) / float64(res.Rounds)
	res.MeanShare = share / float64(res.Flows)
	return res
}

func TestShifts(t *testing.T) {
	g := routetest.Torus(4, 4, 3).Graph()
	tb := tables(t, updn.Engine{}, g)
	for i := range 60 { // holes and loops
		tb.LFT[i%16][(7*i)%int(tb.TopLID)+1] = byte(i % 9)
	}
	want := shifts(g, tb)
	if want.Lost == 0 {
		t.Error("nothing is lost")
	}
	for w := 1; w <= 8; w++ {
		got := check.PatternLoad(g, tb, check.Shift, check.PatternOptions{Workers: w})
		if !close(got.MeanShare, want.MeanShare) {
			t.Errorf("%d workers: share %v, want %v", w, got.MeanShare, want.MeanShare)
		}
		if got.MeanShare = want.MeanShare; got != want {
			t.Errorf("%d workers: %+v, want %+v", w, got, want)
		}
	}
}

// TestShiftOverOneLink: two switches with four hosts each and one link. A shift by k
// sends over it one flow for each host that changes sides.
func TestShiftOverOneLink(t *testing.T) {
	b := &routetest.Net{}
	b.Switches(2)
	b.Link(0, 1)
	for i := range 8 {
		b.Host(i/4, 1)
	}
	g := b.Graph()
	tb := tables(t, updn.Engine{}, g)
	r := check.PatternLoad(g, tb, check.Shift, check.PatternOptions{})
	// Shifts 1..7 load the cable with 1, 2, 3, 4, 3, 2, 1.
	if r.Rounds != 7 || r.Flows != 56 || r.MaxLoad != 4 || r.MeanMaxLoad != 16.0/7 {
		t.Errorf("%+v", r)
	}
	one := check.PatternLoad(g, tb, check.Shift, check.PatternOptions{Order: []int32{0, 4}})
	if one != (check.PatternResult{Rounds: 1, Flows: 2, MaxLoad: 1, MeanMaxLoad: 1, MeanShare: 1}) {
		t.Errorf("%+v", one)
	}
	if few := check.PatternLoad(g, tb, check.Shift, check.PatternOptions{Rounds: 3, Seed: 1}); few.Rounds != 3 || few.Flows != 24 {
		t.Errorf("%+v", few)
	}
	// Of a random permutation about half the flows change sides: 16/7 on
	// average each way.
	p := check.PatternLoad(g, tb, check.Permutation, check.PatternOptions{Rounds: 4000, Seed: 3, Workers: 2})
	if p.Flows < 27000 || p.Flows > 29000 || p.MaxLoad != 4 || p.MeanMaxLoad < 1.9 || p.MeanMaxLoad > 2.1 || p.Lost != 0 {
		t.Errorf("%+v", p)
	}
	bi := check.PatternLoad(g, tb, check.Bisect, check.PatternOptions{Rounds: 4000, Seed: 3, Workers: 2})
	if bi.Flows != 16000 || bi.MaxLoad != 4 || bi.MeanShare < 0.7 || bi.MeanShare > 0.9 {
		t.Errorf("%+v", bi)
	}
	if again := check.PatternLoad(g, tb, check.Bisect, check.PatternOptions{Rounds: 4000, Seed: 3}); again != bi {
		t.Errorf("%+v with one worker, %+v with two", again, bi)
	}
}

// TestFullTree: on a full two-level tree with d-mod-k routes no two flows of a
// shift share a channel.
func TestFullTree(t *testing.T) {
	const k = 6
	g := routetest.Tree2(4, k, k).Graph()
	tb := route.New("d-mod-k", len(g.Switches), g.TopLID)
	pos := map[ib.LID]int{}
	for e := range g.EndPorts {
		if g.EndPorts[e].Type == ib.NodeCA {
			pos[g.EndPorts[e].LID] = len(pos)
		}
	}
	for s := range int32(len(g.Switches)) {
		for l := ib.LID(1); l <= g.TopLID; l++ {
			dst := g.EndPorts[g.LIDOwner[l]]
			tb.LFT[s][l] = dst.Port
			if dst.Switch == s {
				continue
			}
			up := 0
			for _, c := range g.Channels[g.Off[s]:g.Off[s+1]] {
				if c.To == dst.Switch || s < 4 && up == pos[l]%k {
					tb.LFT[s][l] = c.OutPort
				}
				up++
			}
		}
	}
	r := check.PatternLoad(g, tb, check.Shift, check.PatternOptions{})
	if r.MaxLoad != 1 || r.MeanShare != 1 || r.Lost != 0 || r.Rounds != 4*k-1 {
		t.Errorf("%+v", r)
	}
}

func BenchmarkPatterns(b *testing.B) {
	g := routetest.Tree(36, 18).Graph()
	tb, err := updn.Engine{}.Compute(g, route.Options{Workers: 2})
	if err != nil {
		b.Fatal(err)
	}
	for name, p := range map[string]check.Pattern{"shift": check.Shift, "permutation": check.Permutation, "bisect": check.Bisect} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if r := check.PatternLoad(g, tb, p, check.PatternOptions{Rounds: 200, Workers: 2}); r.Lost > 0 {
					b.Fatal(r)
				}
			}
		})
	}
}
