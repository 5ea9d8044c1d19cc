package lab

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"heddle/ib"
	"heddle/internal/need"
	"heddle/mad"
	"heddle/perf"
	"heddle/sim"
	"heddle/subnet"
)

// TestCountersOfChangingSubnet: hosts and switches go and come back, also within a round. Totals of
// all others are the simulator's, and no port has to wait for a subnet that does not change.
func TestCountersOfChangingSubnet(t *testing.T) {
	for _, seed := range need.Seeds(4, 100) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 16))
			f := gen(t, "mport", "4", "3")
			cfg := perf.Defaults()
			cfg.Period, cfg.Timeout = time.Second, 20*time.Millisecond
			b := newPerfBed(t, f, sim.Config{Seed: seed, HopLatency: time.Microsecond, SMALatency: 5 * time.Microsecond}, cfg)
			touched := map[ib.GUID]bool{}
			// Four hosts and a switch, but not the manager's own: cut off from all others it begins
			// anew with them, and what it read and never published only it can know.
			own := -1
			for a, z := range f.Links {
				if f.Nodes[a.Node].Name() == b.m.Node {
					own = int(z.Node)
				} else if f.Nodes[z.Node].Name() == b.m.Node {
					own = int(a.Node)
				}
			}
			switchesToo := 0
			for len(touched) < 5 {
				i := 1 + r.IntN(len(f.Nodes)-1)
				if f.Nodes[i].IsSwitch() {
					if i == own || switchesToo == 1 {
						continue
					}
					switchesToo++
				}
				touched[f.Nodes[i].GUID] = true
			}
			// A switch between others is not missed by them, one of hosts is.
			beside := map[ib.GUID]bool{}
			for a, z := range f.Links {
				if touched[f.Nodes[a.Node].GUID] || touched[f.Nodes[z.Node].GUID] {
					beside[f.Nodes[a.Node].GUID], beside[f.Nodes[z.Node].GUID] = true, true
				}
			}
			late, all, layouts := 0, 0, map[int]bool{}
			b.m.OnRound(func(r *perf.Round) {
				layouts[len(r.Snap.Nodes)] = true
				for i := range int32(r.Len()) {
					g := r.Snap.Nodes[r.Snap.Ports[i].Node].Info.NodeGUID
					if !touched[g] && !beside[g] && r.Number > 2 {
						if d := r.Elapsed(i); d > 0 {
							all++
							if d > 5*cfg.Period/2 {
								late++
							}
						}
					}
				}
				b.forget(r)
			})
			b.trafficOnly = true // errors come from the faults themselves, also right after a clear
			b.start()
			down, changed := map[int]bool{}, map[int]mad.Time{}
			for range 300 {
				b.c.Run(100 * time.Millisecond)
				for i := range f.Nodes {
					for p := 1; p < len(f.Nodes[i].Ports); p++ {
						if !down[i] {
							b.c.Sim.Count(i, p, littleTraffic(r))
						}
					}
				}
				i := r.IntN(len(f.Nodes))
				if !touched[f.Nodes[i].GUID] || b.c.Sim.Now() < changed[i].Add(8*cfg.Period) {
					continue // what happens between two samples nobody can tell
				}
				changed[i] = b.c.Sim.Now()
				if err := b.c.RunUntil(20*time.Second, func() bool { return b.m.Counters().InFlight == 0 }); err != nil {
					t.Fatal(err)
				}
				var err error
				if down[i] = !down[i]; down[i] {
					b.leaves(i)
					err = b.c.Sim.NodeDown(f.Nodes[i].Name())
				} else {
					err = b.c.Sim.NodeUp(f.Nodes[i].Name())
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if len(changed) == 0 || len(layouts) < 2 && len(changed) > 4 {
				t.Error("the subnet did not change")
			}
			// A port may lose its turn when its request was under way, or until there are routes
			// again, which is often here. None is left out permanently.
			if all < 200 || late > all/8 {
				t.Errorf("%d of %d samples are late", late, all)
			}
			for i := range down {
				if down[i] {
					if err := b.c.Sim.NodeUp(f.Nodes[i].Name()); err != nil {
						t.Fatal(err)
					}
				}
			}
			b.c.Run(20 * cfg.Period)
			for i := range int32(b.last.Len()) {
				p := b.last.Snap.Ports[i]
				if p.Num != 0 && p.Info.PortPhysicalState == ib.PhysLinkUp && !b.last.Flags(i).Has(perf.Sampled) {
					t.Errorf("%v port %d was not read in the last round", b.last.Snap.Nodes[p.Node].Desc, p.Num)
				}
			}
			if b.sets != 0 {
				t.Errorf("%d Sets", b.sets)
			}
		})
	}
}

// littleTraffic is a little traffic.
func littleTraffic(r *rand.Rand) *sim.Tally { return tally(r, 100*time.Millisecond) }

// leaves records that a node loses its counters.
func (b *perfBed) leaves(node int) {
	for port := range b.f.Nodes[node].Ports {
		w := b.of(node, port)
		if w.traffic <= w.at {
			w.gone = b.counted(node, port)
		}
		w.traffic, w.errors = b.c.Sim.Now(), b.c.Sim.Now()
	}
}

// forget drops what is known of nodes that are not in the subnet: they begin anew.
func (b *perfBed) forget(r *perf.Round) {
	there := map[ib.GUID]bool{}
	for i := range r.Snap.Nodes {
		there[r.Snap.Nodes[i].Info.NodeGUID] = true
	}
	for i := range b.f.Nodes {
		if there[b.f.Nodes[i].GUID] {
			continue
		}
		for port := range b.f.Nodes[i].Ports {
			delete(b.truth, subnet.Ref{Node: int32(i), Port: uint8(port)})
		}
	}
}
