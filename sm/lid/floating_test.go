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

// TestFloating: whichever of the ports 10 and 20 is the master's has the LID that the first one had.
// The other one has its own, which nobody gets while it is not used. That takes no write.
func TestFloating(t *testing.T) {
	st := map[ib.GUID]store.Op{}
	first, _ := mastership(t, st, true, 0, shown{guid: 10}, shown{guid: 20}, shown{guid: 30})
	a, own := first[10], map[ib.GUID]ib.LID{10: st[10].LID, 20: st[20].LID}
	if st[store.ManagerGUID].LID != a || own[10] == a || first[20] != own[20] {
		t.Fatalf("the LID of the manager is stored as %v, its port has %v; of their own the ports have %v", st[store.ManagerGUID].LID, a, own)
	}
	for i := range 4 {
		self, other := ib.GUID(20), ib.GUID(10)
		if i%2 == 1 {
			self, other = other, self
		}
		// As the predecessor left them: the other one has the LID that floats.
		got, ops := mastership(t, st, true, 0, shown{self, own[self], true}, shown{other, a, true}, shown{30, first[30], true})
		if got[self] != a || got[other] != own[other] || got[30] != first[30] || ops != 0 {
			t.Errorf("takeover %d: %v, %d changes", i, got, ops)
		}
	}
	// The partner is off, and a new host comes.
	got, _ := mastership(t, st, true, 0, shown{20, own[20], true}, shown{30, first[30], true}, shown{guid: 40})
	if l := got[40]; got[20] != a || l == a || l == own[10] || l == own[20] {
		t.Errorf("without the partner: %v", got)
	}
	// It comes back as it was before it died.
	got, _ = mastership(t, st, true, 0, shown{20, a, true}, shown{10, a, true}, shown{30, first[30], true})
	if got[20] != a || got[10] != own[10] {
		t.Errorf("with the partner: %v", got)
	}
	// It is turned off: ports that are in use keep what they have. Then it is turned on again, at the
	// other manager.
	got, _ = mastership(t, st, false, 0, shown{20, a, true}, shown{10, own[10], true}, shown{30, first[30], true})
	if got[20] != a || got[10] != own[10] || st[20].LID != a || st[10].LID != own[10] {
		t.Errorf("turned off: %v, stored %v", got, st)
	}
	delete(st, store.ManagerGUID)
	got, _ = mastership(t, st, true, 0, shown{10, own[10], true}, shown{20, a, true}, shown{30, first[30], true})
	if f := st[store.ManagerGUID].LID; f != got[10] || st[10].LID == f || st[20].LID == f || got[20] != a {
		t.Errorf("turned on: %v, stored %v", got, st)
	}
}

// TestFloatingLMC: a range floats as a whole. With another LMC it is another one, which is stored.
func TestFloatingLMC(t *testing.T) {
	st := map[ib.GUID]store.Op{}
	first, _ := mastership(t, st, true, 2, shown{guid: 10}, shown{guid: 20}, shown{guid: 30})
	got, ops := mastership(t, st, true, 2, shown{20, first[20], true}, shown{10, first[10], true}, shown{30, first[30], true})
	if got[20] != first[10] || got[10] != st[10].LID || ops != 0 {
		t.Errorf("%v, before %v, %d changes", got, first, ops)
	}
	got, _ = mastership(t, st, true, 3, shown{10, st[10].LID, true}, shown{20, first[10], true}, shown{30, first[30], true})
	if r := st[store.ManagerGUID]; r.LID != got[10] || r.LMC != 3 || st[10].LID == r.LID {
		t.Errorf("stored %v, LMC %d; the port has %v, and %v of its own", r.LID, r.LMC, got[10], st[10].LID)
	}
}

// TestFloatingNewPartner: with a partner whose adapter is another one the manager keeps the LID that
// floats, and the new partner gets a LID of its own.
func TestFloatingNewPartner(t *testing.T) {
	st := map[ib.GUID]store.Op{
		10: {Kind: store.PutLID, GUID: 10, LID: 7}, 20: {Kind: store.PutLID, GUID: 20, LID: 6},
		store.ManagerGUID: {Kind: store.PutLID, GUID: store.ManagerGUID, LID: 5},
	}
	got, _ := mastership(t, st, true, 0, shown{20, 5, true}, shown{guid: 50})
	if l := got[50]; got[20] != 5 || l == 0 || l == 5 || l == 6 || l == 7 || st[20].LID != 6 || st[50].LID != l {
		t.Errorf("%v, stored %v", got, st)
	}
	tab := New()
	tab.Load([]store.LIDEntry{{GUID: 20, LID: 5}, {GUID: store.ManagerGUID, LID: 5}})
	tab.BeginFloating(50, 20)
	if own, partner, ok := tab.Floating(); !ok || own != One(5) || partner.Base != 0 {
		t.Errorf("a partner that has the LID as its own: %v %v %v", own, partner, ok)
	}
	if ops := tab.DropManager(); len(ops) != 1 || ops[0].Kind != store.DeleteLID {
		t.Errorf("%v", ops)
	}
}

// TestFloatingFull: where no LID is left for the manager's port while the partner runs, nothing floats.
func TestFloatingFull(t *testing.T) {
	tab := New()
	tab.BeginFloating(10, 20)
	f := oneSwitch(4, []shown{{guid: 10}, {guid: 20}})
	problems := 0
	tab.AssignPorts(f, Rules{FirstSweep: true}, func(*Space) []store.Op { return nil }, func(r Report) {
		if r.Problem {
			problems++
		}
	})
	if _, _, ok := tab.Floating(); ok || problems != 1 || tab.Manager().Base != 0 {
		t.Errorf("floats: %v, %d problems", ok, problems)
	}
}
