// Package storetest is a conformance suite for implementations of store.Store.
package storetest

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"heddle/ib"
	"heddle/store"
)

// Run tests the stores that open creates. The first store that a test opens is
// empty; once it is closed, opening again with the same t returns its contents.
// The suite closes what it opens.
func Run(t *testing.T, open func(t *testing.T) store.Store) {
	for _, c := range []struct {
		name string
		run  func(t *testing.T, open func() store.Store)
	}{
		{"Empty", empty},
		{"Kinds", kinds},
		{"Records", records},
		{"RecordLimits", recordLimits},
		{"Sorted", sorted},
		{"LastOpCounts", lastOpCounts},
		{"Atomic", atomic},
		{"RefusesNonsense", refusesNonsense},
		{"Survives", survives},
		{"LoadIsACopy", loadIsACopy},
		{"Closed", closed},
		{"Model", model},
		{"Shared", shared},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.run(t, func() store.Store { return open(t) })
		})
	}
}

func load(t testing.TB, s store.Store) *store.State {
	t.Helper()
	st, err := s.Load()
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func apply(t testing.TB, s store.Store, ops ...store.Op) {
	t.Helper()
	if err := s.Apply(ops); err != nil {
		t.Fatal(err)
	}
}

func holds(t testing.TB, s store.Store, want *store.State) {
	t.Helper()
	got := load(t, s)
	if !equal(want, got) {
		t.Fatalf("the store holds %+v, not %+v", got, want)
	}
}

func equal(a, b *store.State) bool {
	return slices.Equal(a.LIDs, b.LIDs) && slices.Equal(a.MKeys, b.MKeys) && slices.Equal(a.Neighbors, b.Neighbors) &&
		slices.EqualFunc(a.Records, b.Records, func(a, b store.Record) bool {
			return a.Table == b.Table && bytes.Equal(a.Key, b.Key) && bytes.Equal(a.Value, b.Value)
		})
}

// record is a Record of text.
func record(t store.Table, key, value string) store.Record {
	return store.Record{Table: t, Key: []byte(key), Value: []byte(value)}
}

func putRecord(t store.Table, key, value string) store.Op {
	return store.Op{Kind: store.PutRecord, Record: record(t, key, value)}
}

func deleteRecord(t store.Table, key string) store.Op {
	return store.Op{Kind: store.DeleteRecord, Record: record(t, key, "")}
}

func shut(t testing.TB, s store.Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func empty(t *testing.T, open func() store.Store) {
	s := open()
	defer shut(t, s)
	holds(t, s, &store.State{})
	apply(t, s) // nothing to do is no error
	holds(t, s, &store.State{})
	apply(t, s, store.Op{Kind: store.DeleteLID, GUID: 1}, store.Op{Kind: store.DeleteMKey, GUID: 1},
		store.Op{Kind: store.DeleteNeighbor, GUID: 1, Port: 1}, deleteRecord(store.TableGroups, "x")) // forgetting the unknown is none either
	holds(t, s, &store.State{})
}

func kinds(t *testing.T, open func() store.Store) {
	s := open()
	defer shut(t, s)
	apply(t, s,
		store.Op{Kind: store.PutLID, GUID: 0x11, LID: 0x10, LMC: 3},
		store.Op{Kind: store.PutMKey, GUID: 0x11, MKey: 0x1122334455667788},
		store.Op{Kind: store.PutMKey, GUID: 0x12}, // key 0 is a key too: "the port has none"
		store.Op{Kind: store.PutNeighbor, GUID: 0x21, Port: 255, Peer: 0x11},
		store.Op{Kind: store.PutNeighbor, GUID: 0x21, Port: 0, Peer: 0x12})
	holds(t, s, &store.State{
		LIDs:      []store.LIDEntry{{GUID: 0x11, LID: 0x10, LMC: 3}},
		MKeys:     []store.MKeyEntry{{GUID: 0x11, MKey: 0x1122334455667788}, {GUID: 0x12}},
		Neighbors: []store.NeighborEntry{{Node: 0x21, Port: 0, Peer: 0x12}, {Node: 0x21, Port: 255, Peer: 0x11}},
	})
	// The lists are apart: forgetting the LID of a port leaves its key.
	apply(t, s, store.Op{Kind: store.DeleteLID, GUID: 0x11}, store.Op{Kind: store.DeleteNeighbor, GUID: 0x21, Port: 255})
	holds(t, s, &store.State{
		MKeys:     []store.MKeyEntry{{GUID: 0x11, MKey: 0x1122334455667788}, {GUID: 0x12}},
		Neighbors: []store.NeighborEntry{{Node: 0x21, Port: 0, Peer: 0x12}},
	})
	apply(t, s, store.Op{Kind: store.DeleteMKey, GUID: 0x11}, store.Op{Kind: store.DeleteMKey, GUID: 0x12},
		store.Op{Kind: store.DeleteNeighbor, GUID: 0x21})
	holds(t, s, &store.State{})
}

// records: tables are separate, keys are any bytes (one may be a prefix of
// another), a value may be empty, and the order is by table and key.
func records(t *testing.T, open func() store.Store) {
	s := open()
	apply(t, s,
		putRecord(store.TablePartitions, "\x00", "policy"),
		putRecord(store.TableGroups, "b", "1"), putRecord(store.TableGroups, "ab", "2"), putRecord(store.TableGroups, "a", "3"),
		putRecord(store.TableGroups, "\xFF\xFF", ""), putRecord(store.TableMembers, "a", "4"))
	want := []store.Record{
		record(store.TableGroups, "a", "3"), record(store.TableGroups, "ab", "2"), record(store.TableGroups, "b", "1"),
		record(store.TableGroups, "\xFF\xFF", ""), record(store.TableMembers, "a", "4"),
		record(store.TablePartitions, "\x00", "policy"),
	}
	holds(t, s, &store.State{Records: want})
	apply(t, s, deleteRecord(store.TableGroups, "a"), putRecord(store.TableGroups, "b", "five"), deleteRecord(store.TableServices, "a"))
	want = want[1:]
	want[1] = record(store.TableGroups, "b", "five")
	holds(t, s, &store.State{Records: want})

	// The store copies its inputs and outputs.
	op := putRecord(store.TableAliases, "mine", "before")
	apply(t, s, op)
	copy(op.Record.Key, "xxxx")
	copy(op.Record.Value, "xxxxxx")
	got := load(t, s).Records
	copy(got[0].Value, "xxx")
	want = slices.Insert(want, 4, record(store.TableAliases, "mine", "before"))
	holds(t, s, &store.State{Records: want})
	shut(t, s)
	s = open()
	defer shut(t, s)
	holds(t, s, &store.State{Records: want})
}

// recordLimits: the longest key and a value of many pages survive; anything
// beyond the limits is refused and changes nothing.
func recordLimits(t *testing.T, open func() store.Store) {
	s := open()
	rng := rand.New(rand.NewPCG(3, 4))
	noise := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		return string(b)
	}
	key, value := noise(store.MaxRecordKey), noise(1<<20)
	apply(t, s, putRecord(store.TableServices, key, value))
	want := &store.State{Records: []store.Record{record(store.TableServices, key, value)}}
	holds(t, s, want)
	for _, op := range []store.Op{
		putRecord(0, "k", "v"), putRecord(store.TablePortActions+1, "k", "v"), putRecord(255, "k", "v"), deleteRecord(0, "k"),
		putRecord(store.TableGroups, "", "v"), deleteRecord(store.TableGroups, ""),
		putRecord(store.TableGroups, key+"x", "v"), deleteRecord(store.TableGroups, key+"x"),
		{Kind: store.PutRecord, Record: store.Record{Table: store.TableGroups, Key: []byte("k"), Value: make([]byte, store.MaxRecordValue+1)}},
	} {
		if err := s.Apply([]store.Op{deleteRecord(store.TableServices, key), op}); err == nil {
			t.Errorf("kind %d, table %d, a key of %d and a value of %d bytes were accepted", op.Kind, op.Record.Table, len(op.Record.Key), len(op.Record.Value))
		}
	}
	shut(t, s)
	s = open()
	defer shut(t, s)
	holds(t, s, want)
}

func sorted(t *testing.T, open func() store.Store) {
	s := open()
	defer shut(t, s)
	var ops []store.Op
	for _, g := range []ib.GUID{0xFFFFFFFFFFFFFFFF, 3, 0x8000000000000000, 0x100, 0xFF, 1} {
		ops = append(ops, store.Op{Kind: store.PutLID, GUID: g, LID: ib.LID(len(ops) + 1)},
			store.Op{Kind: store.PutMKey, GUID: g, MKey: 1},
			store.Op{Kind: store.PutNeighbor, GUID: g, Port: 200}, store.Op{Kind: store.PutNeighbor, GUID: g, Port: 9})
	}
	apply(t, s, ops...)
	st := load(t, s)
	if len(st.LIDs) != 6 || !slices.IsSortedFunc(st.LIDs, func(a, b store.LIDEntry) int { return cmp.Compare(a.GUID, b.GUID) }) {
		t.Errorf("LIDs %v", st.LIDs)
	}
	if len(st.MKeys) != 6 || !slices.IsSortedFunc(st.MKeys, func(a, b store.MKeyEntry) int { return cmp.Compare(a.GUID, b.GUID) }) {
		t.Errorf("M_Keys %v", st.MKeys)
	}
	if len(st.Neighbors) != 12 || !slices.IsSortedFunc(st.Neighbors, compareNeighbors) {
		t.Errorf("neighbors %v", st.Neighbors)
	}
}

func compareNeighbors(a, b store.NeighborEntry) int {
	return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Port, b.Port))
}

func lastOpCounts(t *testing.T, open func() store.Store) {
	s := open()
	defer shut(t, s)
	apply(t, s,
		store.Op{Kind: store.PutLID, GUID: 1, LID: 1}, store.Op{Kind: store.DeleteLID, GUID: 1},
		store.Op{Kind: store.DeleteLID, GUID: 2}, store.Op{Kind: store.PutLID, GUID: 2, LID: 2},
		store.Op{Kind: store.PutLID, GUID: 3, LID: 3}, store.Op{Kind: store.PutLID, GUID: 3, LID: 4, LMC: 2},
		putRecord(store.TableGroups, "a", "1"), deleteRecord(store.TableGroups, "a"),
		deleteRecord(store.TableGroups, "b"), putRecord(store.TableGroups, "b", "2"), putRecord(store.TableGroups, "b", "3"))
	holds(t, s, &store.State{
		LIDs:    []store.LIDEntry{{GUID: 2, LID: 2}, {GUID: 3, LID: 4, LMC: 2}},
		Records: []store.Record{record(store.TableGroups, "b", "3")},
	})
}

// atomic: a refused operation rejects the whole list, at any position.
func atomic(t *testing.T, open func() store.Store) {
	s := open()
	defer shut(t, s)
	apply(t, s, store.Op{Kind: store.PutLID, GUID: 1, LID: 1})
	good := []store.Op{{Kind: store.DeleteLID, GUID: 1}, {Kind: store.PutLID, GUID: 2, LID: 2}, {Kind: store.PutMKey, GUID: 2, MKey: 9}}
	for at := range len(good) + 1 {
		if err := s.Apply(slices.Insert(slices.Clone(good), at, store.Op{Kind: store.PutLID, GUID: 9})); err == nil {
			t.Fatal("LID 0 was accepted")
		}
		holds(t, s, &store.State{LIDs: []store.LIDEntry{{GUID: 1, LID: 1}}})
	}
	apply(t, s, good...)
	holds(t, s, &store.State{LIDs: []store.LIDEntry{{GUID: 2, LID: 2}}, MKeys: []store.MKeyEntry{{GUID: 2, MKey: 9}}})
}

func refusesNonsense(t *testing.T, open func() store.Store) {
	s := open()
	defer shut(t, s)
	for _, op := range []store.Op{
		{},
		{Kind: store.DeleteRecord + 1, GUID: 1},
		{Kind: 255},
		{Kind: store.PutLID, GUID: 1},
		{Kind: store.PutLID, GUID: 1, LID: 0xC000},
		{Kind: store.PutLID, GUID: 1, LID: 0xFFFF},
		{Kind: store.PutLID, GUID: 1, LID: 1, LMC: 8},
		{Kind: store.PutLID, GUID: 1, LID: 0xBFFF, LMC: 1}, // 0xC000 is multicast
	} {
		if err := s.Apply([]store.Op{op}); err == nil {
			t.Errorf("%+v was accepted", op)
		}
	}
	holds(t, s, &store.State{})
	apply(t, s, store.Op{Kind: store.PutLID, GUID: 1, LID: 0xBFFF}, store.Op{Kind: store.PutLID, GUID: 2, LID: 0xBF80, LMC: 7})
}

func survives(t *testing.T, open func() store.Store) {
	want := &store.State{
		LIDs:      []store.LIDEntry{{GUID: 1, LID: 1}, {GUID: 2, LID: 8, LMC: 3}},
		MKeys:     []store.MKeyEntry{{GUID: 2, MKey: 0xFFFFFFFFFFFFFFFF}},
		Neighbors: []store.NeighborEntry{{Node: 7, Port: 36, Peer: 2}},
		Records:   []store.Record{record(store.TableSubscriptions, "s", "t")},
	}
	s := open()
	apply(t, s, store.Op{Kind: store.PutLID, GUID: 1, LID: 1}, store.Op{Kind: store.PutLID, GUID: 2, LID: 8, LMC: 3},
		store.Op{Kind: store.PutLID, GUID: 3, LID: 3})
	apply(t, s, store.Op{Kind: store.DeleteLID, GUID: 3}, store.Op{Kind: store.PutMKey, GUID: 2, MKey: 0xFFFFFFFFFFFFFFFF},
		store.Op{Kind: store.PutNeighbor, GUID: 7, Port: 36, Peer: 2}, putRecord(store.TableSubscriptions, "s", "t"))
	for range 3 {
		shut(t, s)
		s = open()
		holds(t, s, want)
	}
	shut(t, s)
}

func loadIsACopy(t *testing.T, open func() store.Store) {
	s := open()
	defer shut(t, s)
	apply(t, s, store.Op{Kind: store.PutLID, GUID: 1, LID: 1}, store.Op{Kind: store.PutMKey, GUID: 1, MKey: 5})
	first := load(t, s)
	apply(t, s, store.Op{Kind: store.PutLID, GUID: 1, LID: 2}, store.Op{Kind: store.DeleteMKey, GUID: 1})
	if first.LIDs[0].LID != 1 || first.MKeys[0].MKey != 5 {
		t.Error("a later Apply changed a State that Load had returned")
	}
	first.LIDs[0].LID = 9
	holds(t, s, &store.State{LIDs: []store.LIDEntry{{GUID: 1, LID: 2}}})
}

func closed(t *testing.T, open func() store.Store) {
	s := open()
	apply(t, s, store.Op{Kind: store.PutLID, GUID: 1, LID: 1})
	shut(t, s)
	if _, err := s.Load(); !errors.Is(err, store.ErrClosed) {
		t.Errorf("Load: %v", err)
	}
	for _, ops := range [][]store.Op{nil, {{Kind: store.PutLID, GUID: 2, LID: 2}}} {
		if err := s.Apply(ops); !errors.Is(err, store.ErrClosed) {
			t.Errorf("Apply of %d operations: %v", len(ops), err)
		}
	}
	shut(t, s) // once more does no harm
	s = open()
	defer shut(t, s)
	holds(t, s, &store.State{LIDs: []store.LIDEntry{{GUID: 1, LID: 1}}})
}

// model compares random operations on one store with maps.
func model(t *testing.T, open func() store.Store) {
	s := open()
	type np struct {
		g ib.GUID
		p uint8
	}
	type tk struct {
		t store.Table
		k string
	}
	lids, keys, nbrs := map[ib.GUID]store.LIDEntry{}, map[ib.GUID]ib.MKey{}, map[np]ib.GUID{}
	recs := map[tk]string{}
	want := func() *store.State {
		st := &store.State{}
		for _, e := range lids {
			st.LIDs = append(st.LIDs, e)
		}
		for g, k := range keys {
			st.MKeys = append(st.MKeys, store.MKeyEntry{GUID: g, MKey: k})
		}
		for n, g := range nbrs {
			st.Neighbors = append(st.Neighbors, store.NeighborEntry{Node: n.g, Port: n.p, Peer: g})
		}
		for k, v := range recs {
			st.Records = append(st.Records, record(k.t, k.k, v))
		}
		slices.SortFunc(st.Records, func(a, b store.Record) int {
			return cmp.Or(cmp.Compare(a.Table, b.Table), bytes.Compare(a.Key, b.Key))
		})
		slices.SortFunc(st.LIDs, func(a, b store.LIDEntry) int { return cmp.Compare(a.GUID, b.GUID) })
		slices.SortFunc(st.MKeys, func(a, b store.MKeyEntry) int { return cmp.Compare(a.GUID, b.GUID) })
		slices.SortFunc(st.Neighbors, compareNeighbors)
		return st
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for step := range 40 {
		var ops []store.Op
		for range rng.IntN(12) {
			op := store.Op{
				Kind: store.PutLID + store.OpKind(rng.IntN(int(store.DeleteRecord))),
				GUID: ib.GUID(rng.IntN(10)),
				LID:  ib.LID(1 + rng.IntN(0xBF80)), LMC: uint8(rng.IntN(8)),
				MKey: ib.MKey(rng.Uint64()),
				Port: uint8(rng.IntN(3)), Peer: ib.GUID(rng.Uint64()),
				Record: record(store.TableGroups+store.Table(rng.IntN(6)), fmt.Sprint(rng.IntN(12)), fmt.Sprint(rng.IntN(1e6))),
			}
			ops = append(ops, op)
			switch op.Kind {
			case store.PutLID:
				lids[op.GUID] = store.LIDEntry{GUID: op.GUID, LID: op.LID, LMC: op.LMC}
			case store.DeleteLID:
				delete(lids, op.GUID)
			case store.PutMKey:
				keys[op.GUID] = op.MKey
			case store.DeleteMKey:
				delete(keys, op.GUID)
			case store.PutNeighbor:
				nbrs[np{op.GUID, op.Port}] = op.Peer
			case store.DeleteNeighbor:
				delete(nbrs, np{op.GUID, op.Port})
			case store.PutRecord:
				recs[tk{op.Record.Table, string(op.Record.Key)}] = string(op.Record.Value)
			case store.DeleteRecord:
				delete(recs, tk{op.Record.Table, string(op.Record.Key)})
			}
		}
		apply(t, s, ops...)
		if step%8 == 7 {
			shut(t, s)
			s = open()
		}
		holds(t, s, want())
	}
	shut(t, s)
}

// shared: two managers, each with its own entries, use one store concurrently.
// Load never sees half of a pair of changes.
func shared(t *testing.T, open func() store.Store) {
	s := open()
	const rounds = 20
	var wg sync.WaitGroup
	for _, table := range []store.Table{store.TableGroups, store.TablePathHistory} {
		wg.Go(func() {
			for i := range rounds {
				v := fmt.Sprint(i)
				if err := s.Apply([]store.Op{putRecord(table, "a", v), putRecord(table, "b", v), putRecord(table, "n"+v, v)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Go(func() {
		for range rounds {
			st, err := s.Load()
			if err != nil {
				t.Error(err)
				return
			}
			seen := map[store.Table][]string{}
			for _, r := range st.Records {
				if k := string(r.Key); k == "a" || k == "b" {
					seen[r.Table] = append(seen[r.Table], string(r.Value))
				}
			}
			for table, v := range seen {
				if len(v) != 2 || v[0] != v[1] {
					t.Errorf("table %d: half of an Apply was seen: %v", table, v)
				}
			}
		}
	})
	wg.Wait()
	shut(t, s)
	s = open()
	defer shut(t, s)
	if n := len(load(t, s).Records); n != 2*(rounds+2) {
		t.Errorf("%d records, want %d", n, 2*(rounds+2))
	}
}
