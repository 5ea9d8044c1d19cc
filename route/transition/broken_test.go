package transition_test

import (
	"math/rand/v2"
	"testing"

	"heddle/fabric"
	"heddle/ib"
	"heddle/internal/routetest"
	"heddle/route"
	"heddle/route/engine/updn"
	"heddle/route/transition"
)

// lostBetween are the ports of h that led to a switch of g and lead to none now.
func lostBetween(g, h *fabric.Graph) (ports []transition.LostPort) {
	d := fabric.Diff(g, h)
	for c, now := range d.OldChannel {
		if s := d.OldSwitch[g.Channels[c].From]; now < 0 && s >= 0 {
			ports = append(ports, transition.LostPort{Switch: s, Port: g.Channels[c].OutPort})
		}
	}
	return ports
}

// naiveBroken walks every pair of h that cables connect.
func naiveBroken(h *fabric.Graph, t *route.Tables) (n int) {
	part := make([]int, len(h.Switches))
	for s := range h.Switches {
		if part[s] != 0 {
			continue
		}
		part[s] = s + 1
		for queue := []int32{int32(s)}; len(queue) > 0; queue = queue[1:] {
			for _, c := range h.Channels[h.Off[queue[0]]:h.Off[queue[0]+1]] {
				if part[c.To] == 0 {
					part[c.To] = s + 1
					queue = append(queue, c.To)
				}
			}
		}
	}
	host := make([]bool, len(h.Switches))
	for _, e := range h.EndPorts {
		if e.Type != ib.NodeSwitch && e.Switch >= 0 {
			host[e.Switch] = true
		}
	}
	for l, e := range h.LIDOwner {
		if e == fabric.NoLID || h.EndPorts[e].Type == ib.NodeSwitch || h.EndPorts[e].Switch < 0 {
			continue
		}
		o := h.EndPorts[e]
	next:
		for s := range h.Switches {
			if !host[s] || part[s] != part[o.Switch] {
				continue
			}
			u := int32(s)
			for range h.Switches {
				p := t.Entry(u, ib.LID(l))
				if u == o.Switch && p == o.Port {
					continue next
				}
				if int(p) >= len(h.PortChannel[u]) || h.PortChannel[u][p] < 0 {
					break
				}
				u = h.Channels[h.PortChannel[u][p]].To
			}
			n++
		}
	}
	return n
}

// TestBroken compares the count with that of a walk over all pairs, on random nets that
// lose links, switches and whole rows.
func TestBroken(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 0))
		net := routetest.Random(6+rng.IntN(20), rng.IntN(20), 2, 1+rng.IntN(2), rng.IntN)
		g := net.Graph()
		old, err := updn.Engine{}.Compute(g, route.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var cables, switches []int32
		for range 1 + rng.IntN(3) {
			if len(g.Channels) > 0 {
				cables = append(cables, int32(rng.IntN(len(g.Channels))))
			}
		}
		if rng.IntN(2) == 0 {
			switches = append(switches, int32(rng.IntN(len(g.Switches))))
		}
		h := routetest.Without(g, switches, cables)
		inst := *old.Remap(g, h)
		var rows []transition.LostRow
		if len(h.Switches) > 0 && rng.IntN(2) == 0 {
			s := int32(rng.IntN(len(h.Switches)))
			rows = append(rows, transition.LostRow{Switch: s, Was: inst.LFT[s]})
			inst.LFT[s] = []byte{}
		}
		b := transition.Broken(h, &inst, lostBetween(g, h), rows)
		if want := naiveBroken(h, &inst); b.N != want {
			t.Errorf("seed %d: %d broken pairs, want %d", seed, b.N, want)
		}
		if n := b.Still(&inst); n != b.N {
			t.Errorf("seed %d: %d of %d pairs are broken by the tables that break them", seed, n, b.N)
		}
		next, err := updn.Engine{}.Compute(h, route.Options{})
		if err != nil {
			continue
		}
		if n := b.Still(next); n != 0 {
			t.Errorf("seed %d: %d pairs are broken by whole tables", seed, n)
		}
		p := transition.New(h, &inst, next, limited)
		writes := 0
		for k, list := range b.Repairs(p) {
			writes += len(list)
			if len(list) > len(p.Stages[k].LFT) {
				t.Errorf("seed %d: stage %d has %d blocks that repair, and %d in all", seed, k, len(list), len(p.Stages[k].LFT))
			}
		}
		if b.N > 0 && writes == 0 && p.Mode != transition.ModeRefused {
			t.Errorf("seed %d: %d broken pairs, %d blocks that repair", seed, b.N, writes)
		}
		if late := b.Late(p); late > b.N {
			t.Errorf("seed %d: %d of %d pairs are late", seed, late, b.N)
		}
	}
}

// BenchmarkBroken counts the pairs that a link or a switch breaks in the fabric
// of 11,664 hosts, and finds the blocks that repair them.
func BenchmarkBroken(b *testing.B) {
	g := routetest.Tree(36, 36).Graph()
	old, err := updn.Engine{}.Compute(g, route.Options{Workers: 2})
	if err != nil {
		b.Fatal(err)
	}
	run := func(name string, switches, cables []int32) {
		h := routetest.Without(g, switches, cables)
		d := fabric.Diff(g, h)
		next, err := updn.Engine{}.Update(route.Solution{Graph: g, Tables: old}, h, d, route.Options{Workers: 2})
		if err != nil {
			b.Fatal(err)
		}
		inst := old.Remap(g, h)
		p := transition.New(h, inst, next, limited)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var n, late, blocks int
			for b.Loop() {
				q := transition.Broken(h, inst, lostBetween(g, h), nil)
				n, late, blocks = q.N, q.Late(p), 0
				for _, list := range q.Repairs(p) {
					blocks += len(list)
				}
			}
			b.ReportMetric(float64(n), "pairs")
			b.ReportMetric(float64(late), "late")
			b.ReportMetric(float64(blocks), "blocks")
		})
	}
	for s := range g.Switches {
		if len(g.Channels[g.Off[s]:g.Off[s+1]]) == 18 { // a leaf: its links go up
			up := g.Channels[g.Off[s]].To
			run("link", nil, []int32{g.Off[s]})
			run("switch", []int32{up}, nil)
			break
		}
	}
}
