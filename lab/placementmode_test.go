package lab

import (
	"testing"
	"time"

	"heddle/sim"
	"heddle/sm"
	"heddle/subnet"
)

// TestPlacementAuto: a placement without a mode moves by one LFT SMP inside a leaf, and to
// other leaves, one VM after the other, without ever waiting for packets to drain. The same
// moves, minimal, do wait under the policy that waits.
func TestPlacementAuto(t *testing.T) {
	for _, mode := range []subnet.MoveMode{subnet.MoveAuto, subnet.MoveMinimal} {
		t.Run(mode.String(), func(t *testing.T) {
			k := newCloud(t, 4, 4, sim.Hypervisor{Model: sim.VPorts, VFs: 8, OwnLIDs: true}, sim.Config{Seed: 1}, func(c *sm.Config) { c.Transition = sm.TransitionStrict })
			k.up()
			names := []string{"a", "b", "c", "d", "e", "f"}
			for i, n := range names {
				k.put(n, 2+2*i, 1+i, subnet.OwnLID)
			}
			k.set(subnet.PlacementPlaced, k.all()...)
			waited := 0
			move := func(n string, host int, leaf bool) {
				l := k.move(n, host, int(k.placement[n].Place.Function))
				l.Mode = mode
				k.Run(time.Second)
				k.lfts = 0
				at := k.Sim.Now()
				k.set(subnet.PlacementPlaced, l)
				k.checkTables()
				if leaf && k.lfts != 1 {
					t.Errorf("%s to %s: %d LFT SMPs inside a leaf", n, k.hosts[host], k.lfts)
				}
				if k.Sim.Now().Sub(at) > time.Second {
					waited++
				}
			}
			for i, n := range names {
				at := 2 + 2*i
				move(n, at^1, true)
				move(n, 4*((at/4+1)%4)+1, false)
				move(n, 4*((at/4+2)%4)+2, false)
				move(n, 4*((at/4+2)%4)+3, true)
			}
			if (waited > 0) != (mode == subnet.MoveMinimal) {
				t.Errorf("%d of %d moves waited", waited, 4*len(names))
			}
		})
	}
}
