package sa_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/mad"
	"heddle/sa"
	"heddle/subnet"
)

const compBlock = wire.GUIDInfoCompLID | wire.GUIDInfoCompBlock

// aliasFixture has hosts with GUIDInfo tables of 12 entries, programmed as the core
// wants when acknowledge is called.
type aliasFixture struct {
	*fixture
	hosts int
}

func newAliasFixture(t testing.TB, hosts int) *aliasFixture {
	r := &aliasFixture{hosts: hosts}
	r.fixture = newFixture(t, r.snapshot(nil), sa.Config{SAKey: saKey, AssignedGUIDByte: 9})
	return r
}

func (r *aliasFixture) snapshot(aliases []subnet.Alias) *subnet.Snapshot {
	s := snapshot(r.hosts, 0)
	s.Nodes[0].Switch.MulticastFDBCap = 64
	for i := range s.Ports {
		s.Ports[i].Info.GUIDCap = 12
	}
	for _, a := range aliases {
		p := s.Ports[s.PortByPortGUID(a.Port)]
		for len(p.Aliases) <= int(a.Index) {
			p.Aliases = append(p.Aliases, 0)
		}
		p.Aliases[a.Index] = a.GUID
	}
	s.Finish()
	return s
}

// acknowledge is what a subnet manager does in the end.
func (r *aliasFixture) acknowledge() { r.publish(r.snapshot(r.aliases)) }

// send sends a request that may not be answered at once.
func (r *aliasFixture) send(from ib.LID, q []byte) {
	r.replies = nil
	r.step(sa.Requests{List: []sa.Request{{From: mad.Addr{LID: from, QP: 1}, Data: q}}})
}

// do sends a request, has the port programmed, and returns the answer.
func (r *aliasFixture) do(from ib.LID, q []byte) (ib.Status, wire.GUIDInfoRecord) {
	r.t.Helper()
	r.send(from, q)
	if len(r.replies) == 0 {
		r.acknowledge()
	}
	if len(r.replies) != 1 {
		r.t.Fatalf("%d replies", len(r.replies))
	}
	b := r.replies[0].Data
	var x wire.GUIDInfoRecord
	if err := x.Decode(b[wire.DataOffset:]); err != nil {
		r.t.Fatal(err)
	}
	return status(b), x
}

func guidInfo(lid ib.LID, block uint8, at map[int]ib.GUID) (*wire.GUIDInfoRecord, wire.CompMask) {
	x := &wire.GUIDInfoRecord{LID: lid, Block: block}
	mask := compBlock
	for i, g := range at {
		x.GUIDInfo[i] = g
		mask |= wire.GUIDInfoCompGUID0 << i
	}
	return x, mask
}

func (r *aliasFixture) set(from, lid ib.LID, block uint8, at map[int]ib.GUID) (ib.Status, wire.GUIDInfoRecord) {
	r.t.Helper()
	x, mask := guidInfo(lid, block, at)
	return r.do(from, set(wire.AttrGUIDInfoRecord, mask, x))
}

func (r *aliasFixture) delete(from, lid ib.LID, block uint8, at map[int]ib.GUID) (ib.Status, wire.GUIDInfoRecord) {
	r.t.Helper()
	x, mask := guidInfo(lid, block, at)
	return r.do(from, del(wire.AttrGUIDInfoRecord, mask, x))
}

func TestAliasStatus(t *testing.T) {
	r := newAliasFixture(t, 3)
	x, mask := guidInfo(2, 0, map[int]ib.GUID{1: 0xA1})
	for _, m := range []ib.Method{ib.MethodSet, ib.MethodDelete} {
		for _, c := range []struct {
			name string
			from ib.LID
			lid  ib.LID
			blk  uint8
			mask wire.CompMask
			want ib.Status
		}{
			{"no LID in the mask", 2, 2, 0, mask &^ wire.GUIDInfoCompLID, 0x0600},
			{"no block in the mask", 2, 2, 0, mask &^ wire.GUIDInfoCompBlock, 0x0600},
			{"an unknown LID", 2, 77, 0, mask, 0x0300},
			{"a block beyond GUIDCap", 2, 2, 2, mask, 0x0300},
			{"index 0", 2, 2, 0, mask | wire.GUIDInfoCompGUID0, 0x0200},
			{"another's port", 3, 2, 0, mask, 0x0200},
		} {
			x.LID, x.Block = c.lid, c.blk
			if st, _ := r.do(c.from, ask(m, wire.AttrGUIDInfoRecord, c.mask, x)); st != c.want {
				t.Errorf("method %#x, %s: %v, want %v", m, c.name, st, c.want)
			}
		}
	}
	if len(r.stored) != 0 || len(r.aliases) != 0 {
		t.Errorf("refused requests left %d records, %v", len(r.stored), r.aliases)
	}
}

func TestAliasAssigned(t *testing.T) {
	r := newAliasFixture(t, 2)
	const first = 0x0014_0509_0000_0001
	st, x := r.set(2, 2, 0, map[int]ib.GUID{1: 0, 3: 0})
	if st != 0 || x.GUIDInfo[0] != 0x1011 || x.GUIDInfo[1] != first || x.GUIDInfo[3] != first+1 || x.GUIDInfo[2] != 0 {
		t.Fatalf("%v %v", st, x.GUIDInfo)
	}
	if p := r.snap.PortByGUID(first); p < 0 || r.snap.Ports[p].LID != 2 {
		t.Error("the alias does not lead to the port")
	}
	// Asking again gives the same, at once.
	r.send(2, set(wire.AttrGUIDInfoRecord, compBlock|wire.GUIDInfoCompGUID0<<3, &wire.GUIDInfoRecord{LID: 2}))
	if len(r.replies) != 1 {
		t.Fatal("nothing changes, and there is no answer")
	}
	// What was assigned to an index comes back to it, also after a restart.
	if st, x = r.delete(2, 2, 0, map[int]ib.GUID{1: 0}); st != 0 || x.GUIDInfo[1] != 0 || x.GUIDInfo[3] != first+1 {
		t.Fatalf("%v %v", st, x.GUIDInfo)
	}
	r.restart()
	r.acknowledge()
	if st, x = r.set(3, 3, 1, map[int]ib.GUID{0: 0}); st != 0 || x.GUIDInfo[0] != first+2 {
		t.Fatalf("%v %v", st, x.GUIDInfo)
	}
	if st, x = r.set(2, 2, 0, map[int]ib.GUID{1: 0}); st != 0 || x.GUIDInfo[1] != first {
		t.Fatalf("%v %v", st, x.GUIDInfo)
	}
}

func TestAliasDuplicates(t *testing.T) {
	r := newAliasFixture(t, 3)
	if st, x := r.set(2, 2, 0, map[int]ib.GUID{1: 0xA1, 2: 0xA1, 3: 0x1021, 4: 0x1020, 5: 0xA5}); st != 0 || x.GUIDInfo != [8]ib.GUID{0x1011, 0xA1, 0, 0, 0, 0xA5} {
		t.Errorf("%v %v", st, x.GUIDInfo)
	}
	if st, x := r.set(3, 3, 0, map[int]ib.GUID{1: 0xA1, 2: 0xB2}); st != 0 || x.GUIDInfo != [8]ib.GUID{0x1021, 0, 0xB2} {
		t.Errorf("%v %v", st, x.GUIDInfo)
	}
	// The trusted may do it for others. Entries beyond GUIDCap are left alone.
	x, mask := guidInfo(4, 1, map[int]ib.GUID{3: 0xC3, 4: 0xC4})
	if st, got := r.do(3, trusted(set(wire.AttrGUIDInfoRecord, mask, x), saKey)); st != 0 || got.GUIDInfo[3] != 0xC3 || got.GUIDInfo[4] != 0 {
		t.Errorf("%v %v", st, got.GUIDInfo)
	}
	want := []subnet.Alias{{Port: 0x1011, Index: 1, GUID: 0xA1}, {Port: 0x1011, Index: 5, GUID: 0xA5}, {Port: 0x1021, Index: 2, GUID: 0xB2}, {Port: 0x1031, Index: 11, GUID: 0xC3, Carries: true}}
	if !slices.Equal(r.aliases, want) {
		t.Errorf("wanted %v", r.aliases)
	}
}

// TestAliasOfEarlierManager: an alias that an earlier manager set stays with its port:
// a request for any GUID keeps it, and it can be deleted.
func TestAliasOfEarlierManager(t *testing.T) {
	r := newAliasFixture(t, 2)
	const theirs = 0x0014_0500_0000_0077
	r.publish(r.snapshot([]subnet.Alias{{Port: 0x1011, Index: 1, GUID: theirs}, {Port: 0x1011, Index: 2, GUID: 0xA2}, {Port: 0x1021, Index: 1, GUID: 0xB1}}))
	r.send(2, set(wire.AttrGUIDInfoRecord, compBlock|wire.GUIDInfoCompGUID0<<1, &wire.GUIDInfoRecord{LID: 2}))
	var x wire.GUIDInfoRecord
	if len(r.replies) != 1 || x.Decode(r.replies[0].Data[wire.DataOffset:]) != nil || x.GUIDInfo[1] != theirs {
		t.Fatalf("replies %+v, %v", r.replies, x.GUIDInfo)
	}
	r.send(2, del(wire.AttrGUIDInfoRecord, compBlock|wire.GUIDInfoCompGUID0<<2, &wire.GUIDInfoRecord{LID: 2}))
	want := []subnet.Alias{{Port: 0x1011, Index: 1, GUID: theirs}, {Port: 0x1011, Index: 2}}
	if !slices.Equal(r.aliases, want) {
		t.Fatalf("wanted %v", r.aliases)
	}
	r.acknowledge()
	if len(r.replies) != 1 || status(r.replies[0].Data) != 0 {
		t.Errorf("%d replies", len(r.replies))
	}
	// Nobody else gets a GUID that a port has.
	if st, y := r.set(3, 3, 0, map[int]ib.GUID{2: theirs}); st != 0 || y.GUIDInfo[2] != 0 {
		t.Errorf("%v %v", st, y.GUIDInfo)
	}
}

// TestAliasInGroup: an alias that is a member of a multicast group cannot be
// taken away.
func TestAliasInGroup(t *testing.T) {
	r := newAliasFixture(t, 2)
	r.set(2, 2, 0, map[int]ib.GUID{1: 0xA1})
	alias := ib.MakeGID(ib.DefaultSubnetPrefix, 0xA1)
	join := &wire.MCMemberRecord{
		MGID: ib.GID{0: 0xFF, 1: 0x12, 2: 0x40, 3: 0x1B, 15: 9}, PortGID: alias, QKey: 1, PKey: ib.PKeyDefaultFull, JoinState: wire.JoinFull,
		MTU: ib.MTU2048, Rate: 3,
	}
	join.MGID[2] = 0 // no IPoIB group
	const mask = wire.MCMemberCompMGID | wire.MCMemberCompPortGID | wire.MCMemberCompJoinState | wire.MCMemberCompQKey |
		wire.MCMemberCompTClass | wire.MCMemberCompPKey | wire.MCMemberCompSL | wire.MCMemberCompFlowLabel
	r.want(2, set(wire.AttrMCMemberRecord, mask, join), 0)
	if st, _ := r.delete(2, 2, 0, map[int]ib.GUID{1: 0}); st != 0x0700 {
		t.Errorf("Delete: %v, want 0x0700", st)
	}
	if st, _ := r.set(2, 2, 0, map[int]ib.GUID{1: 0xA2}); st != 0x0700 {
		t.Errorf("Set of another: %v, want 0x0700", st)
	}
	r.want(2, del(wire.AttrMCMemberRecord, mask, join), 0)
	if st, x := r.delete(2, 2, 0, map[int]ib.GUID{1: 0}); st != 0 || x.GUIDInfo[1] != 0 {
		t.Errorf("after leaving: %v %v", st, x.GUIDInfo)
	}
	if len(r.aliases) != 1 || r.aliases[0].GUID != 0 {
		t.Errorf("wanted %v: the entry is to be emptied", r.aliases)
	}
	r.acknowledge()
	r.restart()
	r.acknowledge()
	if len(r.aliases) != 0 {
		t.Errorf("wanted %v after the port emptied it", r.aliases)
	}
}

// TestAliasWaits: the answer is sent when the port shows the alias. If that takes too
// long the answer is BUSY, and the request stays in force.
func TestAliasWaits(t *testing.T) {
	r := newAliasFixture(t, 2)
	x, mask := guidInfo(2, 0, map[int]ib.GUID{1: 0xA1})
	q := set(wire.AttrGUIDInfoRecord, mask, x)
	r.send(2, q)
	r.until(mad.Time(3 * time.Second))
	r.publish(r.snapshot(nil))
	if len(r.replies) != 0 {
		t.Fatal("answered before the port has the alias")
	}
	r.send(2, q) // repeated: one answer is enough
	r.acknowledge()
	if len(r.replies) != 1 || status(r.replies[0].Data) != 0 {
		t.Fatalf("%d replies", len(r.replies))
	}
	x, mask = guidInfo(2, 0, map[int]ib.GUID{2: 0xA2})
	q = set(wire.AttrGUIDInfoRecord, mask, x)
	r.send(2, q)
	r.until(mad.Time(8*time.Second) - 1)
	if len(r.replies) != 0 {
		t.Fatal("BUSY too early")
	}
	r.until(mad.Time(8 * time.Second))
	if len(r.replies) != 1 || status(r.replies[0].Data) != ib.StatusBusy {
		t.Fatalf("%d replies after 5 s", len(r.replies))
	}
	r.acknowledge()
	if st, got := r.do(2, q); st != 0 || got.GUIDInfo[2] != 0xA2 {
		t.Errorf("asked again: %v %v", st, got.GUIDInfo)
	}
	// A port that leaves meanwhile has no records.
	x, mask = guidInfo(2, 0, map[int]ib.GUID{3: 0xA3})
	r.send(2, set(wire.AttrGUIDInfoRecord, mask, x))
	r.publish(gone(2, 2))
	if len(r.replies) != 1 || status(r.replies[0].Data) != 0x0300 {
		t.Errorf("%d replies after the port left", len(r.replies))
	}
}

// TestAliasesAgainstModel holds random requests and restarts to a naive table.
func TestAliasesAgainstModel(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 3))
		r := newAliasFixture(t, 3)
		model := map[string]ib.GUID{}
		key := func(lid ib.LID, i int) string { return fmt.Sprint(lid, "/", i) }
		for range 200 {
			lid := ib.LID(2 + rng.IntN(3))
			block := rng.IntN(2)
			at := map[int]ib.GUID{}
			for range 1 + rng.IntN(3) {
				i := rng.IntN(8)
				if block == 0 && i == 0 || block == 1 && i > 3 {
					continue
				}
				at[i] = ib.GUID(0xA0 + rng.IntN(6))
			}
			if rng.IntN(2) == 0 {
				st, x := r.set(lid, lid, uint8(block), at)
				if st != 0 {
					t.Fatalf("seed %d: %v", seed, st)
				}
				before := map[ib.GUID]string{}
				for k, g := range model {
					before[g] = k
				}
				for i := range 8 {
					g, ok := at[i]
					k := key(lid, 8*block+i)
					if !ok {
						continue
					}
					// A GUID that an entry has at the time of the request is its own.
					if o := before[g]; o != "" && o != k || o == "" && slices.ContainsFunc(earlier(at, i), func(e ib.GUID) bool { return e == g }) {
						if x.GUIDInfo[i] != 0 {
							t.Fatalf("seed %d: %v was given twice", seed, g)
						}
						continue
					}
					if x.GUIDInfo[i] != g {
						t.Fatalf("seed %d: %v refused: %v", seed, g, x.GUIDInfo)
					}
					model[k] = g
				}
			} else {
				if st, _ := r.delete(lid, lid, uint8(block), at); st != 0 {
					t.Fatalf("seed %d: %v", seed, st)
				}
				for i := range at {
					delete(model, key(lid, 8*block+i))
				}
			}
			if rng.IntN(20) == 0 {
				r.restart()
				r.acknowledge()
			}
			got := map[string]ib.GUID{}
			for _, a := range r.aliases {
				if a.GUID != 0 {
					got[key(r.snap.Ports[r.snap.PortByPortGUID(a.Port)].LID, int(a.Index))] = a.GUID
				}
			}
			if fmt.Sprint(got) != fmt.Sprint(model) {
				t.Fatalf("seed %d: wanted %v, model %v", seed, got, model)
			}
		}
	}
}

func earlier(at map[int]ib.GUID, i int) (list []ib.GUID) {
	for k, g := range at {
		if k < i {
			list = append(list, g)
		}
	}
	return list
}

// TestAliasCarries: an alias gives its port partitions only if a trusted request set
// it, also after a restart. A host that replaces the alias loses them.
func TestAliasCarries(t *testing.T) {
	r := newAliasFixture(t, 2)
	for _, c := range []struct {
		name    string
		trusted bool
		guid    ib.GUID
		carries bool
	}{
		{"a host", false, 0xA1, false},
		{"the administrator gives the same", true, 0xA1, true},
		{"the host asks for what it has", false, 0xA1, true},
		{"the host chooses another", false, 0xA2, false},
		{"the administrator", true, 0xA3, true},
		{"the administrator gives another", true, 0xA4, true},
	} {
		x, mask := guidInfo(2, 0, map[int]ib.GUID{1: c.guid})
		q := set(wire.AttrGUIDInfoRecord, mask, x)
		if c.trusted {
			q = trusted(q, saKey)
		}
		if st, _ := r.do(2, q); st != 0 {
			t.Fatalf("%s: %v", c.name, st)
		}
		for _, restart := range []bool{false, true} {
			if restart {
				s := r.snap
				r.restart()
				r.publish(s)
			}
			if want := []subnet.Alias{{Port: 0x1011, Index: 1, GUID: c.guid, Carries: c.carries}}; !slices.Equal(r.aliases, want) {
				t.Errorf("%s, restart %v: %v, want %v", c.name, restart, r.aliases, want)
			}
		}
	}
}
