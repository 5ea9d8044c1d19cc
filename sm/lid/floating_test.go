package lid

import (
	"testing"

	"heddle/ib"
	"heddle/store"
)

// mastership begins a mastership of the first host's port over a subnet as its ports show it, with what st
// has stored. It returns the LIDs of ports, and how many changes it stored.
func mastership(t *testing.T, st map[ib.GUID]store.Op, float bool, lmc uint8, hosts ...shown) (lids map[ib.GUID]ib.LID, stored int) {
	t.Helper()
	tab := New()
	var list []store.LIDEntry
	for g, o := range st {
		list = append(list, store.LIDEntry{GUID: g, LID: o.LID, LMC: o.LMC})
	}
	tab.Load(list)
	if float {
		partner := ib.GUID(20)
		if hosts[0].guid == partner {
			partner = 10
		}
		tab.BeginFloating(hosts[0].guid, partner)
	}
	f := oneSwitch(0x200, hosts)
	var moved []string
	ops := tab.AssignPorts(f, Rules{LMC: lmc, FirstSweep: true}, func(*Space) []store.Op { return nil }, func(r Report) { moved = append(moved, r.Text) })
	if len(moved) > 0 && lmc == 0 {
		t.Errorf("reported: %v", moved)
	}
	for _, o := range ops {
		if o.Kind == store.DeleteLID {
			delete(st, o.GUID)
		} else {
			st[o.GUID] = o
		}
	}
	lids = map[ib.GUID]ib.LID{}
	taken := map[ib.LID]ib.GUID{}
	for i := range f.Ports {
		if p := &f.Ports[i]; p.LID != 0 {
			lids[p.GUID] = p.LID
			for l := range ib.LID(1) << p.LMC {
				if g := taken[p.LID+l]; g != 0 {
					t.Errorf("LID %v belongs to %v and %v", p.LID+l, g, p.GUID)
				}
				taken[p.LID+l] = p.GUID
			}
		}
	}
	return lids, len(ops)
}

// TestFloating: whichever of the ports 10 and 20 is the master's has the LID that the first one had,
// and the other one has the other LID, also if it was away. That takes no write.
func TestFloating(t *testing.T) {
	st := map[ib.GUID]store.Op{}
	first, _ := mastership(t, st, true, 0, shown{guid: 10}, shown{guid: 20}, shown{guid: 30})
	if st[store.ManagerGUID].LID != first[10] {
		t.Fatalf("the LID of the manager is stored as %v, its port has %v", st[store.ManagerGUID].LID, first[10])
	}
	a, b := first[10], first[20]
	for i := range 4 {
		self, other := ib.GUID(20), ib.GUID(10)
		if i%2 == 1 {
			self, other = other, self
		}
		// As the predecessor left them: the other one has the LID that floats.
		got, ops := mastership(t, st, true, 0, shown{self, b, true}, shown{other, a, true}, shown{30, first[30], true})
		if got[self] != a || got[other] != b || got[30] != first[30] || ops != 0 {
			t.Errorf("takeover %d: %v, %d changes", i, got, ops)
		}
	}
	// The partner is off, and a new host comes: it does not get the partner's LID.
	got, _ := mastership(t, st, true, 0, shown{20, b, true}, shown{30, first[30], true}, shown{guid: 40})
	if got[20] != a || got[40] == b || got[40] == a {
		t.Errorf("without the partner: %v", got)
	}
	// It comes back as it was before it died.
	got, _ = mastership(t, st, true, 0, shown{20, a, true}, shown{10, a, true}, shown{30, first[30], true})
	if got[20] != a || got[10] != b {
		t.Errorf("with the partner: %v", got)
	}
	// It is turned off: ports that are in use keep what they have.
	got, _ = mastership(t, st, false, 0, shown{20, a, true}, shown{10, b, true}, shown{30, first[30], true})
	if got[20] != a || got[10] != b || st[20].LID != a || st[10].LID != b {
		t.Errorf("turned off: %v, stored %v", got, st)
	}
}

// TestFloatingLMC: a range floats as a whole. With another LMC it is another one, which is stored.
func TestFloatingLMC(t *testing.T) {
	st := map[ib.GUID]store.Op{}
	first, _ := mastership(t, st, true, 2, shown{guid: 10}, shown{guid: 20}, shown{guid: 30})
	got, ops := mastership(t, st, true, 2, shown{20, first[20], true}, shown{10, first[10], true}, shown{30, first[30], true})
	if got[20] != first[10] || got[10] != first[20] || ops != 0 {
		t.Errorf("%v, before %v, %d changes", got, first, ops)
	}
	got, _ = mastership(t, st, true, 3, shown{10, first[10], true}, shown{20, first[20], true}, shown{30, first[30], true})
	if r := st[store.ManagerGUID]; r.LID != got[10] || r.LMC != 3 {
		t.Errorf("stored %v, LMC %d; the port has %v", r.LID, r.LMC, got[10])
	}
}

// TestFloatingNewPartner: with a partner whose adapter is another one the manager keeps the LID that
// floats, and so does the new partner when it takes over.
func TestFloatingNewPartner(t *testing.T) {
	tab := New()
	tab.Load([]store.LIDEntry{{GUID: 10, LID: 5}, {GUID: 20, LID: 6}, {GUID: store.ManagerGUID, LID: 5}})
	tab.BeginFloating(20, 50) // 10 was replaced by 50 while 20 had LID 5
	own, partner, ok := tab.Floating()
	if !ok || own != One(5) || partner != One(6) {
		t.Errorf("%v %v %v", own, partner, ok)
	}
	if tab.Assign(50, One(6)) != nil {
		t.Error("the partner's LID is stored although it follows")
	}
	tab.BeginFloating(50, 20)
	if own, partner, ok = tab.Floating(); !ok || own != One(5) || partner != One(6) {
		t.Errorf("the new one took over: %v %v %v", own, partner, ok)
	}
	if ops := tab.DropManager(); len(ops) != 1 || ops[0].Kind != store.DeleteLID {
		t.Errorf("%v", ops)
	}
}
