package lab

import (
	"fmt"
	"testing"
	"time"

	"heddle/ib"
	"heddle/sim"
	"heddle/subnet"
)

// TestPlacementLive: in a live migration the functions at both ends are up, and on VPorts
// show the same GUID. The address goes from one to the other at once; back
// again, as after a rollback, too.
func TestPlacementLive(t *testing.T) {
	for _, x := range []struct {
		h    sim.Hypervisor
		kind subnet.LIDKind
	}{
		{sim.Hypervisor{Model: sim.VSwitch, VFs: 4}, subnet.OwnLID},
		{sim.Hypervisor{Model: sim.SharedPort, VFs: 4}, subnet.SharedLID},
		{sim.Hypervisor{Model: sim.VPorts, VFs: 4}, subnet.SharedLID},
		{sim.Hypervisor{Model: sim.VPorts, VFs: 4}, subnet.OwnLID},
	} {
		t.Run(fmt.Sprintf("%v %v", x.h.Model, x.kind), func(t *testing.T) {
			k := newCloud(t, 3, 3, x.h, sim.Config{Seed: 1, HopLatency: time.Microsecond}, nil)
			k.up()
			k.put("a", 1, 1, x.kind)
			k.put("b", 5, 2, x.kind)
			k.set(subnet.PlacementPlaced, k.all()...)
			k.check()
			for _, host := range []int{2, 7, 4} {
				to := vf(t, k.Cluster, k.hosts[host], 3)
				was, _ := k.Sim.VM("a")
				for _, back := range []bool{true, false} {
					k.does(k.Sim.StopVM("a"))
					k.does(k.Sim.ReadyVM("a", to))
					l := k.placement["a"]
					old := l.Place
					l.Place = k.place(host, 3)
					begun := k.Sim.Now()
					k.set(subnet.PlacementPlaced, l)
					if took := k.Sim.Now().Sub(begun); took > time.Second {
						t.Errorf("to host %d it took %v", host, took)
					}
					if st, err := k.Sim.VPort(to); err != nil || st.State != ib.StateActive || st.GUID != l.GUID {
						t.Errorf("%+v %v", st, err)
					}
					if st, _ := k.Sim.VPort(was.At); st.State == ib.StateActive && st.GUID == l.GUID {
						t.Errorf("the source has the address still: %+v", st)
					}
					if back {
						l.Place = old
						k.set(subnet.PlacementPlaced, l)
						k.does(k.Sim.UnreadyVM("a"))
					} else {
						k.does(k.Sim.SwitchVM("a"))
						k.placement["a"] = l
					}
					k.does(k.Sim.ResumeVM("a"))
					k.check()
				}
			}
		})
	}
}

func (k *cloud) does(err error) {
	k.t.Helper()
	if err != nil {
		k.t.Fatal(err)
	}
}
