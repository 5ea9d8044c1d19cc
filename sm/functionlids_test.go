package sm

import (
	"testing"

	"heddle/ib"
	"heddle/sm/config"
	"heddle/store"
	"heddle/subnet"
)

// leased makes a core whose ports have LIDs, with leases of some GUIDs.
func leased(t *testing.T, fdbcap uint16, guids ...ib.GUID) *Core {
	t.Helper()
	c := found(config.Defaults(), fdbcap, show{guid: 100}, show{guid: 101}, show{guid: 102})
	for _, g := range guids {
		c.newLease(g)
	}
	c.assignLIDs()
	c.listGraph()
	c.buildGraph()
	return c
}

// lids gives the leases LIDs, in order.
func lids(c *Core, top bool) (got []ib.LID) {
	for _, l := range c.leases.list {
		if c.lidOf(l) == 0 && l.state != stateEnded {
			if free, _ := c.takeLID(top, nil); free != 0 {
				c.lids.Give(l.GUID, free)
			}
		}
		got = append(got, c.lidOf(l))
	}
	return got
}

// TestFunctionLIDOrder: ports first, from the lowest; LIDs of functions are the lowest
// that are left, those that float the highest; none is given twice.
func TestFunctionLIDOrder(t *testing.T) {
	c := leased(t, 10, 0x1000, 0x1001) // ports have 1 to 4
	if got := lids(c, false); got[0] != 5 || got[1] != 6 {
		t.Errorf("LIDs %v, want 5 and 6", got)
	}
	c.newLease(0x1002)
	if got := lids(c, true); got[2] != 9 {
		t.Errorf("a LID that floats is %v, want 9", got[2])
	}
	c.newLease(0x1003)
	c.newLease(0x1004)
	c.newLease(0x1005)
	got := lids(c, false)
	if got[3] != 7 || got[4] != 8 || got[5] != 0 {
		t.Errorf("LIDs %v, want 7, 8 and none", got[3:])
	}
	n := c.countLIDs()
	if n.Limit != 9 || n.Used() != 9 || n.Ports != 4 || n.Placements != 5 {
		t.Errorf("%+v", n)
	}
	if ops := c.loseLID(c.leases.list[3]); len(ops) != 1 || ops[0].Kind != store.DeleteLID || ops[0].GUID != 0x1003 {
		t.Errorf("%+v", ops)
	}
	c.leases.list[3].state = stateEnded
	if got := lids(c, false); got[5] != 7 {
		t.Errorf("LIDs %v: 7 was given back", got)
	}
}

// TestFunctionLIDKept: LIDs of leases are nobody else's when ports are given theirs
// again, whoever shows or stored them; those beyond a smaller table are lost, and said.
func TestFunctionLIDKept(t *testing.T) {
	c := leased(t, 20, 0x1000, 0x1001)
	if got := lids(c, false); got[0] != 5 || got[1] != 6 {
		t.Fatal(got)
	}
	p := c.EndPort(102)
	p.Info.LID, p.Info.PortState = 5, ib.StateActive // it comes back with a LID that was given away
	c.lids.Revoke(102)
	for i := range c.Fabric.Ports {
		c.Fabric.Ports[i].LID = 0
	}
	c.assignLIDs()
	if p := c.EndPort(102); p.LID == 5 || p.LID == 6 || p.LID == 0 || c.lidOf(c.leases.list[0]) != 5 {
		t.Errorf("the port has LID %v, the lease %v", p.LID, c.lidOf(c.leases.list[0]))
	}
	c.Fabric.Nodes[1].Switch.LinearFDBCap = 6
	for i := range c.Fabric.Ports {
		c.Fabric.Ports[i].LID = 0
	}
	ops := c.assignLIDs()
	if l := c.leases.list; c.lidOf(l[0]) != 5 || c.lidOf(l[1]) != 0 || c.storedLID(0x1001) != 0 {
		t.Errorf("LIDs %v and %v with tables of 6", c.lidOf(l[0]), c.lidOf(l[1]))
	}
	if len(ops) == 0 || ops[0].Kind != store.DeleteLID || ops[0].GUID != 0x1001 {
		t.Errorf("%+v", ops)
	}
}

// TestGrantLIDs: the graph has the LIDs of functions at their ports, and leaves out what
// cannot be: ports that are not there, LIDs of others.
func TestGrantLIDs(t *testing.T) {
	c := leased(t, 100, 0x1000, 0x1001, 0x1002, 0x1003)
	lids(c, false)
	for i, port := range []ib.GUID{101, 102, 999, 101} {
		c.leases.list[i].port = port
	}
	c.lids.Give(c.leases.list[3].GUID, c.EndPort(102).LID)
	c.setFunctionLID(subnet.Place{Port: 102, Function: 7}, 30)
	c.buildGraph()
	for lid, want := range map[ib.LID]ib.GUID{5: 101, 6: 102, 7: 0, 30: 102, c.EndPort(102).LID: 102} {
		if got := c.ownerOf(lid); got != want {
			t.Errorf("LID %v leads to port %v, want %v", lid, got, want)
		}
	}
	if g := c.Fabric.Graph; g.TopLID != 30 {
		t.Errorf("top %v", g.TopLID)
	}
}
