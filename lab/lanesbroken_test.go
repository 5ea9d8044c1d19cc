package lab

import (
	"math/rand/v2"
	"testing"
	"time"

	"heddle/ib/smp"
	"heddle/route"
	"heddle/route/engine/nue"
	"heddle/route/engine/torus"
	"heddle/sim"
	"heddle/sm"
)

// TestLanesBrokenOff: a second fault breaks off a transition that has begun to write
// SL-to-VL tables. The next plan starts from the tables that are there, those in doubt are
// read back, and packets wait for each other at no moment.
func TestLanesBrokenOff(t *testing.T) {
	first, n := seeds(12, 2000)
	broken, all := 0, 0
	for seed := first; seed < first+n; seed++ {
		rng := rand.New(rand.NewPCG(seed, 23))
		f := gen(t, "torus", []string{"3x3", "4x4", "3x4"}[rng.IntN(3)])
		cfg := TrialConfig()
		cfg.Engines = []route.Engine{torus.Engine{}, nue.Engine{}}
		cfg.RepathTime, cfg.DampHold = 100*time.Millisecond, 0
		cfg.Transition = sm.TransitionStrict
		c, m := bringUp(t, f, sim.Config{
			Seed: seed, HopLatency: time.Microsecond, SMALatency: 5 * time.Microsecond, Jitter: 2 * time.Microsecond,
			OptimizedSL2VL: rng.IntN(2) == 0,
		}, cfg)
		w := watchFlights(c, m, &cfg)
		if seed%4 == 3 {
			c.Sim.SetDrop(0.02)
			w.slack = time.Second
		}
		look, seen, begun := c.Sim.OnChange, len(m.Notices), false
		notices := func() {
			for ; seen < len(m.Notices); seen++ {
				switch nt := &m.Notices[seen]; {
				case nt.Kind == sm.KindRouted:
					begun = false
				case nt.Kind == sm.KindSweepEnd && nt.Report.Broken && begun:
					broken++
				}
			}
		}
		cab := cables(f)
		restless := 3
		c.Sim.OnChange = func(ch sim.Change) {
			look(ch)
			notices()
			if ch.Attr != smp.AttrSLtoVL || ch.Kind != sim.ChangeSet {
				return
			}
			if begun = true; restless > 0 && rng.IntN(20) == 0 {
				// Another fault while tables are being written.
				restless--
				r := cab[rng.IntN(len(cab))]
				c.Sim.At(c.Sim.Now().Add(time.Duration(rng.IntN(2000))*time.Microsecond), func() {
					_ = c.Sim.LinkDown(f.Nodes[r.Node].ID, int(r.Port))
				})
			}
		}
		for range 3 {
			r := cab[rng.IntN(len(cab))]
			_ = c.Sim.LinkDown(f.Nodes[r.Node].ID, int(r.Port))
			c.Run(time.Duration(200+rng.IntN(2500)) * time.Millisecond)
			for _, r := range cab {
				_ = c.Sim.LinkUp(f.Nodes[r.Node].ID, int(r.Port))
			}
			c.Run(time.Duration(rng.IntN(2500)) * time.Millisecond)
		}
		c.Sim.SetDrop(0)
		if err := settled(c, m, 30*time.Second); err != nil && w.err == nil {
			w.err = err
		}
		notices()
		if w.err != nil {
			t.Fatalf("replay with HEDDLE_SEED=%d: %v\n%s", seed, w.err, tail(m))
		}
		for i := range m.Notices {
			if r := m.Notices[i].Report; r != nil && r.Broken && m.Notices[i].Kind == sm.KindSweepEnd {
				all++
			}
		}
	}
	t.Logf("%d sweeps broken off, %d of them while SL-to-VL tables were being written", all, broken)
	if n > 5 && broken == 0 {
		t.Error("no transition that writes SL-to-VL tables was broken off")
	}
}
