package lab

import (
	"strings"
	"testing"
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/sim"
	"heddle/sm"
)

// TestVPortTrapsLost: the next light sweep finds changes whose traps were lost.
func TestVPortTrapsLost(t *testing.T) {
	c, m := bringUp(t, gen(t, "torus", "3x3"), sim.Config{NoTraps: true}, DefaultConfig())
	h := hostNames(c)[3]
	hypervisor(t, c, h, sim.Hypervisor{Model: sim.VPorts, VFs: 200}, 0)
	m.Sweep(false)
	c.Run(time.Second)
	sweeps := m.Status().Sweeps
	for _, i := range []int{1, 127, 128, 200} {
		enableVPort(t, c, h, i)
	}
	mustShow(t, c, m, h, 200, 11*time.Second)
	disableVPort(t, c, h, 128)
	mustShow(t, c, m, h, 200, 11*time.Second)
	// One that waits in Init may be another when it is looked at again.
	place := func(name string, i int, g ib.GUID) {
		if err := c.Sim.PlaceVM(name, vf(t, c, h, i), sim.VMOptions{GUID: g}); err != nil {
			t.Fatal(err)
		}
	}
	place("a", 11, vGUID(1))
	mustShow(t, c, m, h, 200, 11*time.Second)
	place("b", 12, vGUID(1))
	c.Run(25 * time.Second)
	if err := c.Sim.RemoveVM("b"); err != nil {
		t.Fatal(err)
	}
	place("c", 12, vGUID(2))
	mustShow(t, c, m, h, 200, 11*time.Second)
	if n := m.Status().Sweeps; n != sweeps {
		t.Errorf("%d sweeps", n-sweeps)
	}
	if len(m.Traps) != 0 {
		t.Errorf("%d traps", len(m.Traps))
	}
}

// TestVPortTraps: trap 1144 causes descriptions to be read again; 1257 and 1258 are logged and
// forwarded, with no other effect; a storm is ignored until it stops.
func TestVPortTraps(t *testing.T) {
	for _, vendor := range []bool{false, true} {
		c, m := bringUp(t, gen(t, "torus", "3x3"), sim.Config{TrapMinInterval: time.Millisecond}, DefaultConfig())
		h := hostNames(c)[3]
		hypervisor(t, c, h, sim.Hypervisor{Model: sim.VPorts, VFs: 8, VendorTraps: vendor}, 3)
		m.Sweep(false)
		mustShow(t, c, m, h, 8, time.Minute)
		c.Run(11 * time.Second)
		desc := func() string {
			port := m.Snap.PortByPortGUID(c.Fabric.Nodes[c.Fabric.Find(h)].Ports[1].GUID)
			return m.Snap.Ports[m.Snap.VPort(port, 2)].Virtual.Desc
		}
		if err := c.Sim.SetVPortDescription(vf(t, c, h, 2), "another"); err != nil {
			t.Fatal(err)
		}
		if err := c.RunUntil(3*time.Second, func() bool { return desc() == "another" }); err != nil {
			t.Fatalf("%v: %q\n%s", err, desc(), tail(m))
		}
		c.Run(11 * time.Second)
		for _, trap := range []uint16{smp.TrapVPortBadPKey, smp.TrapVPortBadQKey} {
			m.Traps, m.Notices = nil, nil
			_, sets := virtualSMPs(m, func() {
				if err := c.Sim.InjectVPortTrap(vf(t, c, h, 2), trap); err != nil {
					t.Fatal(err)
				}
				c.Run(3 * time.Second)
			})
			if l := told(m, sm.KindSecurity); len(l) != 1 || !strings.Contains(l[0], "VPort 2") {
				t.Errorf("trap %d is told as %q", trap, l)
			}
			if len(m.Traps) != 1 || len(sets) != 0 {
				t.Errorf("trap %d: %d handed on, Sets %v", trap, len(m.Traps), sets)
			}
		}
		m.Traps, m.Notices = nil, nil
		gets, _ := virtualSMPs(m, func() {
			for range 300 {
				if err := c.Sim.InjectVPortTrap(vf(t, c, h, 2), smp.TrapVPortState); err != nil {
					t.Fatal(err)
				}
				c.Run(100 * time.Millisecond)
			}
		})
		if n := gets[smp.AttrVPortState]; n < 9 || n > 30 || len(m.Traps) < 9 || len(m.Traps) > 30 || len(told(m, sm.KindTrapStorm)) == 0 {
			t.Errorf("a storm: states read %d times, %d traps handed on, told %q", n, len(m.Traps), told(m, sm.KindTrapStorm))
		}
		c.Run(15 * time.Second)
		disableVPort(t, c, h, 1)
		if err := c.RunUntil(3*time.Second, func() bool { return m.Snap.Counts.VPorts == 2 }); err != nil {
			t.Errorf("after the storm: %v\n%s", err, tail(m))
		}
	}
}
