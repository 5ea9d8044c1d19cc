package lab

import (
	"math/rand/v2"
	"testing"
	"time"

	"heddle/mad"
)

// TestMangled: corrupted responses and requests never stop the manager, and have no lasting
// effect.
func TestMangled(t *testing.T) {
	first, n := seeds(40, 2000)
	engines := inForce{}
	for seed := first; seed < first+n; seed++ {
		d := drawRouting(seed)
		f := d.fabric
		c, err := NewCluster(f, timed(seed))
		if err != nil {
			t.Fatal(err)
		}
		cfg := TrialConfig()
		d.apply(&cfg)
		cfg.LMC = pick[uint8](seed, "LMC", 0, 1, 2)
		m, err := c.Attach(firstCA(f), cfg, nil)
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(seed, 3))
		on := true
		share := pick(seed, "share", 0.002, 0.02, 0.2)
		d.watch(m)
		m.ep.OnPacket = func(p *mad.Packet) {
			if on && rng.Float64() < share && len(p.Data) == 256 {
				for range 1 + rng.IntN(6) {
					at := 64 + rng.IntN(64)
					if rng.IntN(4) == 0 {
						at = rng.IntN(256)
					}
					p.Data[at] = byte(rng.Uint32())
				}
			}
			m.receive(p)
		}
		if err := m.Start(); err != nil {
			t.Fatal(err)
		}
		c.Run(2 * time.Second)
		cab := cables(f)
		for range 3 {
			r := cab[rng.IntN(len(cab))]
			_ = c.Sim.LinkDown(f.Nodes[r.Node].ID, int(r.Port))
			c.Run(300 * time.Millisecond)
			_ = c.Sim.LinkUp(f.Nodes[r.Node].ID, int(r.Port))
			c.Run(300 * time.Millisecond)
		}
		on = false
		clear(c.lids) // a spoiled LID may have been believed
		m.Sweep(true)
		end := c.Sim.Now().Add(40 * time.Second)
		for err = settled(c, m, time.Second); err != nil && c.Sim.Now() < end; err = settled(c, m, time.Second) {
			clear(c.lids)
		}
		if err != nil {
			t.Fatalf("replay with HEDDLE_SEED=%d: %s: %v\n%+v\n%s", seed, d.what, err, m.Status(), tail(m))
		}
		engines.add(d.inForce)
	}
	engines.check(t, n)
}
