package lab

import (
	"slices"
	"testing"
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sim"
	"heddle/sm"
	"heddle/subnet"
)

// TestVPortsShareALID: a VPort has a LID of its own, and two others use it. They come
// up after it, whatever their indices, and are found at its LID by their GUIDs; the
// LID alone leads to its owner.
func TestVPortsShareALID(t *testing.T) {
	c, m := bringUp(t, gen(t, "torus", "3x3"), sim.Config{HopLatency: time.Microsecond}, DefaultConfig())
	h := hostNames(c)[3]
	hypervisor(t, c, h, sim.Hypervisor{Model: sim.VPorts, VFs: 4}, 0)
	lid := func(i int, own bool, by uint16) {
		if err := c.Sim.SetLIDRequired(vf(t, c, h, i), own, by); err != nil {
			t.Fatal(err)
		}
	}
	lid(2, true, 0)
	lid(1, false, 2)
	lid(3, false, 2)
	var seen []uint16
	c.Sim.OnChange = func(ch sim.Change) {
		if ch.Kind == sim.ChangeVPort && ch.New == ib.StateActive {
			seen = append(seen, ch.VPort)
		}
	}
	for i := 1; i <= 4; i++ {
		if i != 2 {
			enableVPort(t, c, h, i)
		}
	}
	m.Sweep(false)
	c.Run(30 * time.Second)
	if !slices.Equal(seen, []uint16{4}) {
		t.Errorf("before the owner is up: %v are Active\n%s", seen, tail(m))
	}
	enableVPort(t, c, h, 2)
	mustShow(t, c, m, h, 4, 3*time.Second)
	if len(seen) != 4 || seen[1] != 2 {
		t.Errorf("made Active in the order %v", seen)
	}
	own, _ := c.Sim.VPort(vf(t, c, h, 2))
	port := m.Snap.PortByPortGUID(c.Fabric.Nodes[c.Fabric.Find(h)].Ports[1].GUID)
	for i := 1; i <= 3; i++ {
		st, _ := c.Sim.VPort(vf(t, c, h, i))
		e := m.Snap.VPort(port, uint16(i))
		if st.LID != own.LID || m.Snap.Ports[e].LID != own.LID || m.Snap.Ports[e].Virtual.OwnLID != (i == 2) {
			t.Errorf("VPort %d: %+v is shown as %+v", i, st, m.Snap.Ports[e].Virtual)
		}
	}
	if i := m.Snap.PortByLID(own.LID); i != m.Snap.VPort(port, 2) {
		t.Errorf("LID %v leads to port %d", own.LID, i)
	}
	if err := c.Check(m); err != nil {
		t.Error(err)
	}
}

// TestVPortTrustsNoLID: the LID that a VPort in Init shows is an old one and may belong to
// another port now, so the manager does not use it.
func TestVPortTrustsNoLID(t *testing.T) {
	c, m := bringUp(t, gen(t, "torus", "3x3"), sim.Config{HopLatency: time.Microsecond}, DefaultConfig())
	names := hostNames(c)
	h := names[3]
	hypervisor(t, c, h, sim.Hypervisor{Model: sim.VPorts, VFs: 2, OwnLIDs: true}, 1)
	taken := m.Snap.Ports[m.Snap.PortByPortGUID(c.Fabric.Nodes[c.Fabric.Find(names[5])].Ports[1].GUID)].LID
	// It shows the LID of another host.
	m.OnReceive = func(p *mad.Packet) {
		if k := (*ib.MAD)(p.Data); k.AttrID() == smp.AttrVPortInfo && k.Method() == ib.MethodGetResp {
			var v smp.VPortInfo
			_ = v.Decode(smp.Data(k))
			if v.VPortLID == 0 && v.VPortState == ib.StateInit {
				v.VPortLID = taken
				v.Put(smp.Data(k))
			}
		}
	}
	m.Sweep(false)
	mustShow(t, c, m, h, 2, 10*time.Second)
	if st, _ := c.Sim.VPort(vf(t, c, h, 1)); st.LID == taken || st.LID == 0 {
		t.Errorf("it has LID %v", st.LID)
	}
	if err := c.Check(m); err != nil {
		t.Error(err)
	}
}

// TestVPortAliases: further GUIDs of a VPort follow its placement. Entries that the previous VM
// left in a table are cleared before the next one comes up. The snapshot has each GUID.
func TestVPortAliases(t *testing.T) {
	k := newCloud(t, 3, 3, sim.Hypervisor{Model: sim.VPorts, VFs: 4}, sim.Config{Seed: 1, HopLatency: time.Microsecond}, nil)
	k.up()
	a := k.put("a", 1, 1, subnet.SharedLID)
	a.Aliases = []ib.GUID{vGUID(1), 0, vGUID(3)}
	k.placement["a"] = a
	k.set(subnet.PlacementPlaced, a)
	holds := func(host, function int, want ...ib.GUID) {
		t.Helper()
		at := k.place(host, function)
		i := k.m.Snap.VPort(k.m.Snap.PortByPortGUID(at.Port), at.Function)
		if i < 0 {
			t.Fatalf("%v has no entry", at)
		}
		if got := k.m.Snap.Ports[i].Aliases; !slices.Equal(got, want) {
			t.Errorf("%v is shown with %v, want %v", at, got, want)
		}
		for _, g := range want {
			if g != 0 && k.m.Snap.PortByGUID(g) != i {
				t.Errorf("%v leads to port %d, want %d", g, k.m.Snap.PortByGUID(g), i)
			}
		}
	}
	holds(1, 1, 0, vGUID(1), 0, vGUID(3))
	k.set(subnet.PlacementPlaced, k.move("a", 5, 2))
	holds(5, 2, 0, vGUID(1), 0, vGUID(3))
	b := k.put("b", 1, 1, subnet.SharedLID)
	k.set(subnet.PlacementPlaced, b)
	holds(1, 1)
	// Too many: the table has 8 entries, one of which is the VPort's own.
	a = k.placement["a"]
	for i := range 8 {
		a.Aliases = append(a.Aliases, vGUID(10+i))
	}
	k.m.SetPlacements(sm.SetPlacements{Put: []subnet.Placement{a}})
	k.Run(3 * time.Second)
	holds(5, 2, 0, vGUID(1), 0, vGUID(3))
	// A manager that takes over finds them.
	k.m.Kill()
	k.start(k.m.Store)
	k.up()
	k.Run(time.Second)
	holds(5, 2, 0, vGUID(1), 0, vGUID(3))
}
