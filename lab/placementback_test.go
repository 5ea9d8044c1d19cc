package lab

import (
	"testing"
	"time"

	"heddle/sim"
	"heddle/sm"
	"heddle/subnet"
)

// TestPlacementHostBack: a placement that was set while its host was away is carried out when
// the host is back, without another request.
func TestPlacementHostBack(t *testing.T) {
	for _, h := range []sim.Hypervisor{
		{Model: sim.SharedPort, VFs: 4}, {Model: sim.VSwitch, VFs: 4}, {Model: sim.VPorts, VFs: 4},
	} {
		t.Run(h.Model.String(), func(t *testing.T) {
			k := layCloud(t, 3, 3, h, sim.Config{Seed: 1}, nil)
			if err := k.Sim.LinkDown(k.hosts[4], 1); err != nil {
				t.Fatal(err)
			}
			k.start(nil) // a manager that has never seen the host
			k.up()
			kind := subnet.SharedLID
			if h.Model == sim.VSwitch {
				kind = subnet.OwnLID
			}
			l := k.put("a", 4, 2, kind)
			k.m.SetPlacements(sm.SetPlacements{Put: []subnet.Placement{l}})
			k.Run(time.Second)
			if r, _ := k.last(l.GUID); r.State != subnet.PlacementWaiting {
				t.Fatalf("the placement is %v (%s)", r.State, r.Reason)
			}
			if err := k.Sim.LinkUp(k.hosts[4], 1); err != nil {
				t.Fatal(err)
			}
			k.wait(subnet.PlacementPlaced, l)
			k.checkTables()
		})
	}
}
