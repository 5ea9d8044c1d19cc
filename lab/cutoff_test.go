package lab

import (
	"testing"
	"time"

	"heddle/partition"
	"heddle/sim"
	"heddle/subnet"
)

// TestOwnNodeSilent: a sweep in which the manager's own node does not answer says
// nothing about the subnet, so what is published of that stays.
func TestOwnNodeSilent(t *testing.T) {
	c, m, h := vmBed(t, sim.Config{})
	placeVM(t, c, 1, h[0], 1)
	mustKeys(t, c, m, h[0], 1, 0xFFFF)
	c.Run(time.Second)
	nodes, ports := len(m.Snap.Nodes), len(m.Snap.Ports)
	published := 0
	m.OnPublish = func() {
		published++
		if s := m.Snap; len(s.Nodes) != nodes || len(s.Ports) != ports || !s.Up || s.State != subnet.Master {
			t.Errorf("a snapshot has %d nodes and %d ports, state %v, up: %v", len(s.Nodes), len(s.Ports), s.State, s.Up)
		}
	}
	if err := c.Sim.MuteSMA(m.Node, true); err != nil {
		t.Fatal(err)
	}
	m.Sweep(false)
	c.Run(10 * time.Second)
	_ = c.Sim.MuteSMA(m.Node, false)
	c.Run(10 * time.Second)
	if published == 0 || !m.Idle() || !m.Up() {
		t.Errorf("%d snapshots were published; it is idle: %v, up: %v", published, m.Idle(), m.Up())
	}
}

// TestMembersWhileCutOff: members may be set at any moment while the manager's link
// goes down, when changes of virtual ports are not published yet.
func TestMembersWhileCutOff(t *testing.T) {
	for wait := time.Duration(0); wait < 40*time.Millisecond; wait += time.Millisecond {
		c, m, h := vmBed(t, sim.Config{})
		placeVM(t, c, 1, h[0], 1)
		placeVM(t, c, 2, h[1], 1)
		mustKeys(t, c, m, h[0], 1, 0xFFFF)
		mustKeys(t, c, m, h[1], 1, 0xFFFF)
		c.Run(time.Second)
		for _, vm := range []string{"vm1", "vm2"} { // the second one is not published at once
			if err := c.Sim.DetachVM(vm); err != nil {
				t.Fatal(err)
			}
			c.Run(5 * time.Millisecond)
		}
		c.Run(wait)
		if err := c.Sim.LinkDown(m.Node, 1); err != nil {
			t.Fatal(err)
		}
		m.Sweep(false)
		if err := c.RunUntil(10*time.Second, func() bool { return m.State() != subnet.Master }); err != nil {
			t.Fatal(err)
		}
		m.SetMembers([]partition.Partition{vmKeys("vm", 6, 1)}, 2)
		if err := c.Sim.LinkUp(m.Node, 1); err != nil {
			t.Fatal(err)
		}
		placeVM(t, c, 1, h[0], 1)
		mustKeys(t, c, m, h[0], 1, 0xFFFF, 0x8006)
	}
}
