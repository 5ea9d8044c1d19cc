package lab

import (
	"slices"
	"testing"
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sim"
)

// keySets keeps a copy of each Set of the P_Key table of a virtual port that m sends.
func keySets(m *Manager) *[]mad.Packet {
	sets := &[]mad.Packet{}
	m.OnSend = func(p *mad.Packet) {
		if k := (*ib.MAD)(p.Data); k.Method() == ib.MethodSet && k.AttrID() == smp.AttrVPortPartitionTable {
			q := *p
			q.Data = slices.Clone(p.Data)
			*sets = append(*sets, q)
		}
	}
	return sets
}

// TestVPortKeysAtOnce: the table of a virtual port that comes up is written once, also where
// keys are removed and added. A second write would make the first one's late copies harmful.
func TestVPortKeysAtOnce(t *testing.T) {
	c, m, h := vmBed(t, sim.Config{})
	m.apply(t, policyOf(t, c, "Default:ALL=limited,SELF=full;"), 1)
	m.addMembers(t, 2, vmKeys("vm", 6, 1))
	sets := keySets(m)
	placeVM(t, c, 1, h[0], 1)
	mustKeys(t, c, m, h[0], 1, 0x7FFF, 0x8006)
	c.Run(10 * time.Second)
	if len(*sets) != 1 {
		t.Errorf("the table was written %d times", len(*sets))
	}
}

// TestVPortKeysLateCopy: where the table of a virtual port was written twice before it may come
// up, and a late copy of the first Set undoes the second, the manager detects and corrects this
// before the port is Active.
func TestVPortKeysLateCopy(t *testing.T) {
	for _, late := range []bool{false, true} {
		c, m, h := vmBed(t, sim.Config{})
		m.apply(t, policyOf(t, c, "Default:ALL=full;"), 1)
		m.addMembers(t, 2, vmKeys("vm", 6, 1))
		placeVM(t, c, 1, h[0], 1)
		mustKeys(t, c, m, h[0], 1, 0xFFFF, 0x8006)
		c.Run(10 * time.Second)
		sets := keySets(m)
		// Another one shows its GUID, and waits for it in Init.
		if err := c.Sim.PlaceVM("twin", vf(t, c, h[1], 1), sim.VMOptions{GUID: vmGUID(1)}); err != nil {
			t.Fatal(err)
		}
		c.Run(time.Second)
		m.addMembers(t, 3, vmKeys("vm", 6, 1), vmKeys("more", 7, 1))
		n := len(*sets)
		if got := vportTable(t, c, h[1], 1); !slices.Equal(got, []ib.PKey{0xFFFF, 0x8006, 0x8007}) || n < 2 {
			t.Fatalf("the one that waits holds %v after %d Sets", got, n)
		}
		if late {
			m.ep.Send(&(*sets)[0])
			c.Run(100 * time.Millisecond)
			if got := vportTable(t, c, h[1], 1); slices.Contains(got, 0x8007) {
				t.Fatalf("the old copy does no harm: %v", got)
			}
		}
		active := 0
		c.Sim.OnChange = func(x sim.Change) {
			if x.Kind != sim.ChangeVPort || x.New != ib.StateActive {
				return
			}
			active++
			if got := vportTable(t, c, c.Fabric.Nodes[x.Node].ID, int(x.VPort)); !slices.Equal(got, []ib.PKey{0xFFFF, 0x8006, 0x8007}) {
				t.Errorf("late %v: it is made Active with %v", late, got)
			}
		}
		if err := c.Sim.DetachVM("vm1"); err != nil {
			t.Fatal(err)
		}
		mustKeys(t, c, m, h[1], 1, 0xFFFF, 0x8006, 0x8007)
		if active != 1 {
			t.Errorf("%d virtual ports were made Active", active)
		}
	}
}
