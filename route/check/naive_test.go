package check_test

import (
	"testing"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
	"heddle/route/check"
	"heddle/route/engine/minhop"
	"heddle/route/engine/updn"

	"pgregory.net/rapid"
)

// naive is the slow and obvious twin of check.Verify: it walks every path of
// every pair, and finds components by Warshall's transitive closure.
func naive(g *fabric.Graph, t *route.Tables, groups []route.Group) *check.Report {
	r := &check.Report{}
	n := len(g.Switches)
	lanes := 1
	if t.SL != nil || t.Lanes != nil || t.Multicast != nil {
		for _, c := range g.Channels {
			lanes = max(lanes, int(c.VLs))
		}
	}
	entry := func(s int32, l int) byte {
		row := t.LFT[s]
		c := int(g.Switches[s].LinearFDBCap)
		if l >= len(row) || l > int(t.TopLID) || (c > 0 && l >= c) {
			return route.Drop
		}
		return row[l]
	}
	next := func(s int32, l int) int32 { // channel or -1
		p := entry(s, l)
		for c := g.Off[s]; c < g.Off[s+1]; c++ {
			if g.Channels[c].OutPort == p {
				return c
			}
		}
		return -1
	}
	near := make([][]bool, n)
	for s := range near {
		near[s] = make([]bool, n)
		near[s][s] = true
	}
	for _, c := range g.Channels {
		near[c.From][c.To] = true
	}
	closure(near)

	m := len(g.Channels)
	ca, all := square(m*lanes), square(m*lanes) // nodes: channel·lanes + lane
	load := make([]int64, m)
	used := map[int]bool{}
	top1 := 0 // highest lane, plus one
	var hops int64
	top := int(max(g.TopLID, t.TopLID))
	for l := 1; l <= top; l++ {
		// Loops: switches that come back to themselves.
		owner := int32(fabric.NoLID)
		if l < len(g.LIDOwner) {
			owner = g.LIDOwner[l]
		}
		dst := int32(-1)
		if owner != fabric.NoLID {
			dst = g.EndPorts[owner].Switch
		}
		for s := range int32(n) {
			lowest, u := s, s
			for range n + 1 {
				c := next(u, l)
				if u == dst || c < 0 {
					lowest = -1
					break
				}
				u = g.Channels[c].To
				lowest = min(lowest, u)
				if u == s {
					break
				}
			}
			if u == s && lowest == s && s != dst && next(s, l) >= 0 {
				r.Loops++
			}
		}
		if owner == fabric.NoLID {
			continue
		}
		for src := 1; src < len(g.LIDOwner); src++ {
			from := g.LIDOwner[src]
			if from == fabric.NoLID || from == owner {
				continue
			}
			a, b := &g.EndPorts[from], &g.EndPorts[owner]
			if a.Switch < 0 || dst < 0 || !near[a.Switch][dst] {
				r.DisconnectedPairs++
				if a.Switch < 0 || dst < 0 {
					continue
				}
			}
			sl := t.PathSL(a.Switch, ib.LID(l))
			var path, nodes []int32
			u, in, ok := a.Switch, a.Port, false
			for range 3 * n {
				if u == dst {
					ok = entry(u, l) == b.Port && (t.Lanes == nil || b.Port == 0 || t.VL(u, in, b.Port, sl, 15) < 15)
					break
				}
				c := next(u, l)
				if c < 0 {
					break
				}
				lane := t.VL(u, in, g.Channels[c].OutPort, sl, g.Channels[c].VLs)
				if t.SL == nil && t.Lanes == nil {
					lane = 0
				}
				if uint8(lane) >= g.Channels[c].VLs {
					break
				}
				top1 = max(top1, int(lane)+1)
				path = append(path, c)
				nodes = append(nodes, c*int32(lanes)+int32(lane))
				u, in = g.Channels[c].To, g.Channels[c].InPort
			}
			if !ok && near[a.Switch][dst] {
				r.UnreachablePairs++
			}
			isCA := a.Type != ib.NodeSwitch || b.Type != ib.NodeSwitch
			for i, x := range nodes {
				if isCA && ok {
					used[int(x)%lanes] = true
				}
				if i > 0 {
					all[nodes[i-1]][x] = true
					if isCA {
						ca[nodes[i-1]][x] = true
					}
				}
			}
			if ok && a.Type != ib.NodeSwitch && b.Type != ib.NodeSwitch && ib.LID(src) == a.LID {
				r.Paths++
				hops += int64(len(path))
				r.MaxHops = max(r.MaxHops, len(path))
				for _, c := range path {
					load[c]++
				}
			}
		}
	}
	if r.Paths > 0 {
		r.AvgHops = float64(hops) / float64(r.Paths)
	}
	for _, v := range load {
		r.MaxChannelLoad = max(r.MaxChannelLoad, v)
		r.AvgChannelLoad += float64(v)
	}
	if m > 0 {
		r.AvgChannelLoad /= float64(m)
	}
	r.MulticastFailures = naiveTrees(g, t, groups, lanes, near, func(x, y int) { ca[x][y], all[x][y] = true, true }, &top1)
	r.VLsUsed = max(len(used), 1)
	if top1 > t.NumVLs {
		r.Malformed = "claim"
	}
	direct, edges := square(m*lanes), square(m*lanes)
	for i := range direct {
		copy(direct[i], ca[i])
		copy(edges[i], all[i])
	}
	closure(ca)
	r.CreditCycles = len(tangles(ca))
	closure(all)
	for _, comp := range tangles(all) {
		for _, i := range comp {
			for _, j := range comp {
				if edges[i][j] && !direct[i][j] {
					r.CreditCyclesSwitch++
					goto next
				}
			}
		}
	next:
	}
	return r
}

func square(n int) [][]bool {
	a := make([][]bool, n)
	for i := range a {
		a[i] = make([]bool, n)
	}
	return a
}

func closure(a [][]bool) {
	for k := range a {
		for i := range a {
			if a[i][k] {
				for j := range a {
					a[i][j] = a[i][j] || a[k][j]
				}
			}
		}
	}
}

// tangles groups the nodes that reach themselves.
func tangles(a [][]bool) [][]int {
	var out [][]int
	seen := make([]bool, len(a))
	for i := range a {
		if !a[i][i] || seen[i] {
			continue
		}
		var comp []int
		for j := range a {
			if a[i][j] && a[j][i] {
				seen[j] = true
				comp = append(comp, j)
			}
		}
		out = append(out, comp)
	}
	return out
}

// sameVerdict compares what naive knows.
func sameVerdict(t interface{ Fatalf(string, ...any) }, got, want *check.Report) {
	a, b := *got, *want
	a.Failures, a.Cycles, a.Multicast, b.Failures, b.Cycles, b.Multicast = nil, nil, nil, nil, nil, nil
	if !close(a.AvgHops, b.AvgHops) || !close(a.AvgChannelLoad, b.AvgChannelLoad) {
		t.Fatalf("averages: Verify %+v\nnaive %+v", a, b)
	}
	a.AvgHops, a.AvgChannelLoad = b.AvgHops, b.AvgChannelLoad
	if x, y := a, b; !equal(&x, &y) {
		t.Fatalf("Verify %+v\nnaive  %+v", a, b)
	}
}

func close(a, b float64) bool { return a-b < 1e-9 && b-a < 1e-9 }

func equal(a, b *check.Report) bool {
	return a.UnreachablePairs == b.UnreachablePairs && a.DisconnectedPairs == b.DisconnectedPairs && a.Loops == b.Loops &&
		a.CreditCycles == b.CreditCycles && a.CreditCyclesSwitch == b.CreditCyclesSwitch && a.Paths == b.Paths &&
		a.MulticastFailures == b.MulticastFailures && (a.Malformed == "") == (b.Malformed == "") && a.MaxHops == b.MaxHops && a.MaxChannelLoad == b.MaxChannelLoad && a.VLsUsed == b.VLsUsed
}

func TestNaiveTwin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawNet(t)
		var e route.Engine = minhop.Engine{}
		if rapid.Bool().Draw(t, "updn") {
			e = updn.Engine{}
		}
		tb, err := e.Compute(g, route.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(0, 6).Draw(t, "damage") {
			s := rapid.IntRange(0, len(g.Switches)-1).Draw(t, "s")
			l := rapid.IntRange(1, int(g.TopLID)).Draw(t, "l")
			p := rapid.IntRange(-1, int(g.Switches[s].NumPorts)+1).Draw(t, "p")
			tb.LFT[s][l] = byte(p)
		}
		if rapid.IntRange(0, 7).Draw(t, "low top") == 0 {
			tb.TopLID--
		}
		drawLanes(t, g, tb)
		groups := drawTrees(t, g, tb)
		got := check.Verify(g, tb, check.Options{Workers: rapid.IntRange(1, 4).Draw(t, "workers"), Groups: groups})
		sameVerdict(t, got, naive(g, tb, groups))
		for _, c := range got.Cycles {
			checkCycle(t, g, &c)
		}
	})
}
