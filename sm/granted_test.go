package sm

import (
	"testing"

	"heddle/ib"
	"heddle/sm/config"
	"heddle/sm/placement"
	"heddle/subnet"
)

// TestGrantLIDs: the graph has the LIDs of placements and functions at their ports, and leaves out
// what cannot be: ports that are not there, LIDs of others.
func TestGrantLIDs(t *testing.T) {
	c := found(config.Defaults(), 100, show{guid: 100}, show{guid: 101}, show{guid: 102})
	var put []subnet.Placement
	for i, port := range []ib.GUID{101, 102, 999, 101} {
		put = append(put, subnet.Placement{GUID: 0x1000 + ib.GUID(i), Place: subnet.Place{Port: port, Function: 1}, LIDKind: subnet.OwnLID})
		c.lids.Give(put[i].GUID, 5+ib.LID(i))
	}
	c.placements.Set(placement.Change{Put: put})
	c.assignLIDs()
	c.listGraph()
	c.buildGraph()
	c.lids.Give(0x1003, c.EndPort(102).LID)
	c.lids.SetFunction(subnet.Place{Port: 102, Function: 7}, 30)
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
