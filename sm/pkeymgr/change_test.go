package pkeymgr

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"heddle/ib"
	"heddle/partition"
	"heddle/sm/pkey"
	"heddle/subnet"
)

func keyOf(name string, key ib.PKey, guids ...ib.GUID) partition.Partition {
	p := partition.Partition{Name: name, PKey: key}
	for _, g := range guids {
		p.Members = append(p.Members, partition.Member{GUID: g, As: partition.Full})
	}
	return p
}

// TestFreeing: a key is in quarantine from when it leaves a name until it is back
// before anybody else had it, or released.
func TestFreeing(t *testing.T) {
	with := func(l ...partition.Partition) *partition.Policy {
		p, err := partition.Default().With(l)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	type freed = map[ib.PKey][]string
	for _, c := range []struct {
		old, now  *partition.Policy
		was, want freed
	}{
		{with(), with(keyOf("a", 5)), nil, freed{}},
		{with(keyOf("a", 5)), with(keyOf("a", 5, 1)), nil, freed{}},
		{with(keyOf("a", 5)), with(), nil, freed{5: {"a"}}},
		{with(keyOf("a", 5)), with(keyOf("b", 5)), nil, freed{5: {"a"}}},
		{with(keyOf("b", 5)), with(keyOf("c", 5)), freed{5: {"a"}}, freed{5: {"a", "b"}}},
		{with(), with(keyOf("a", 5)), freed{5: {"a"}}, freed{}},
		{with(keyOf("b", 5)), with(keyOf("a", 5)), freed{5: {"a"}}, freed{5: {"a", "b"}}},
	} {
		before := maps.Clone(c.was)
		if got := freeing(c.old, c.now, c.was); !reflect.DeepEqual(got, c.want) || !reflect.DeepEqual(before, c.was) {
			t.Errorf("%v after %v: %v, want %v", c.now.Partitions, c.old.Partitions, got, c.want)
		}
	}
}

// TestMembersBeforeStart: members are in force with what the store held from the
// first moment on. One that does not fit is left out, and told of; the others must
// not suffer. A P_Key that members had under another name when they were last in
// force is in quarantine.
func TestMembersBeforeStart(t *testing.T) {
	group := partition.Group{MGID: ib.GID{0xFF, 0x12, 9}, MTU: 4, Rate: 3}
	base, err := partition.Default().With([]partition.Partition{{Name: "a", PKey: 5, Groups: []partition.Group{group}}})
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := encodePolicy(base)
	if err != nil {
		t.Fatal(err)
	}
	b := newStage(0)
	clash := partition.Partition{Name: "clash", PKey: 8, Groups: []partition.Group{group}}
	b.m.SetMembers([]partition.Partition{keyOf("other", 6, 1), clash, keyOf("vm", 7, 2)}, 0)
	if b.SaveGen > 0 || b.Record() != "nothing\n" {
		t.Error("something happens before the start")
	}
	b.m.Load(records(append(policyOps(encoded), freedOps(nil, map[ib.PKey]string{6: "tenant", 7: "vm"})...)))
	b.m.Start()
	p := b.m.InForce()
	if p.Find(5) == nil || p.Find(6) == nil || p.Find(7) == nil || p.Find(8) != nil || !b.m.base.Equal(base) {
		t.Errorf("in force is %+v", p.Partitions)
	}
	if want := (map[ib.PKey][]string{6: {"tenant"}}); !reflect.DeepEqual(b.m.freed, want) {
		t.Errorf("in quarantine: %v", b.m.freed)
	}
	told := strings.Count(b.Record(), "!! partitions_refused")
	got, err := decodePartitions(records(b.Unsaved))
	added := map[ib.PKey]string{6: "other", 7: "vm"}
	if err != nil || told != 1 || !reflect.DeepEqual(got.added, added) || !reflect.DeepEqual(got.freed, b.m.freed) {
		t.Errorf("told %d times; stored %+v, %v", told, got, err)
	}
	// The policy changes: what did not fit may now.
	b.m.Set(partition.Default(), nil, 1)
	b.m.Saved(b.SaveGen, nil)
	if p := b.m.InForce(); p.Find(5) != nil || p.Find(6) == nil || p.Find(8) == nil {
		t.Errorf("in force is %+v", p.Partitions)
	}
	if b.m.freed[5] == nil {
		t.Error("the key that ended is free at once")
	}
}

// TestDropWhileStored: what is dropped while a policy is being stored does not end the quarantine of
// the keys that the policy frees, neither in memory nor in the store.
func TestDropWhileStored(t *testing.T) {
	b := newStage(2)
	b.m.Load(nil)
	b.m.Start()
	b.m.Set(&partition.Policy{Partitions: []partition.Partition{
		keyOf("five", 5, 1), partition.Default().Partitions[0],
	}}, nil, 1)
	b.m.Saved(b.SaveGen, nil)
	b.m.kept.by[2] = &keptAt{place: subnet.Place{Port: 2}, keys: []ib.PKey{0x8006}}
	b.m.Set(partition.Default(), nil, 2)
	for range 2 { // the second time nothing is kept there
		b.m.DropKept(func(port ib.GUID) bool { return port == 2 })
	}
	want := map[ib.PKey][]string{5: {"five"}, 6: {keptName}}
	st, err := decodePartitions(records(b.Unsaved))
	if err != nil || !reflect.DeepEqual(st.freed, want) {
		t.Errorf("stored as in quarantine: %v, %v", st.freed, err)
	}
	b.m.Saved(b.SaveGen, nil)
	if !reflect.DeepEqual(b.m.freed, want) || len(b.m.Kept()) > 0 {
		t.Errorf("in quarantine: %v; kept %v", b.m.freed, b.m.Kept())
	}
}

// TestKeptByNobody: a holder with GUID 0 keeps nothing. No membership could be made of it, and others
// with GUID 0 would share it.
func TestKeptByNobody(t *testing.T) {
	for _, guid := range []ib.GUID{0, 0xA2} {
		b := newStage(3)
		b.keeps = true
		b.m.Load(nil)
		p := b.Host(t, "h2")
		p.GUID = guid
		*b.m.portTable(p) = pkey.Table{Life: b.m.life, Blocks: 1 << 8, Have: []ib.PKey{0xFFFF, 0x8005}}
		got := b.m.granted(holder{p: p})
		if want := guid != 0; slices.Contains(got, 0x8005) != want || !b.m.kept.met[guid] || len(b.m.Kept()) > 0 != want {
			t.Errorf("%v: granted %v, kept %v", guid, got, b.m.Kept())
		}
	}
}
