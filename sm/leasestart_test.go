package sm

import (
	"testing"

	"heddle/sm/config"
	"heddle/store"
	"heddle/subnet"
)

// TestLeasesBeforeStart: the leases of a store are set before the start, and their
// LIDs are those that the store held.
func TestLeasesBeforeStart(t *testing.T) {
	cfg := config.Defaults()
	cfg.PortGUID = 1
	c := New(cfg)
	var out Output
	out.Reset()
	c.Step(1, SetLeases{All: true, Put: []subnet.Lease{{GUID: 5, LIDKind: subnet.OwnLID, Place: subnet.Place{Port: 9, Function: 1}}, {GUID: 6}}}, &out)
	out.Reset()
	c.Step(2, Start{Stored: &store.State{LIDs: []store.LIDEntry{{GUID: 1, LID: 1}, {GUID: 5, LID: 23}}}}, &out)
	l := c.leases.byGUID[5]
	if l == nil || c.lidOf(l) != 23 || c.leaseOf(23) != l || l.port != 9 {
		t.Errorf("lease %+v", l)
	}
	if l := c.leases.byGUID[6]; l == nil || c.lidOf(l) != 0 {
		t.Errorf("lease %+v", l)
	}
}
