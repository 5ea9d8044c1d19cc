package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"heddle/ib"
	"heddle/store"
	"heddle/store/journal"
)

// KeepAtLeast is how many entries a store keeps that RunJournal tests.
const KeepAtLeast = 200

// Op returns any operation that Check accepts.
func Op(r *rand.Rand) store.Op {
	guid := ib.GUID(1 + r.IntN(20))
	rec := store.Record{Table: store.Table(1 + r.IntN(11)), Key: fmt.Append(nil, r.IntN(20)), Value: make([]byte, r.IntN(30))}
	for i := range rec.Value {
		rec.Value[i] = byte(r.Uint32())
	}
	switch k := store.OpKind(1 + r.IntN(8)); k {
	case store.PutLID:
		return store.Op{Kind: k, GUID: guid, LID: ib.LID(8 + 8*r.IntN(1000)), LMC: uint8(r.IntN(4))}
	case store.PutMKey:
		return store.Op{Kind: k, GUID: guid, MKey: ib.MKey(r.Uint64())}
	case store.PutNeighbor:
		return store.Op{Kind: k, GUID: guid, Port: uint8(r.IntN(4)), Peer: ib.GUID(r.Uint64())}
	case store.DeleteNeighbor:
		return store.Op{Kind: k, GUID: guid, Port: uint8(r.IntN(4))}
	case store.PutRecord:
		return store.Op{Kind: k, Record: rec}
	case store.DeleteRecord:
		rec.Value = nil
		return store.Op{Kind: k, Record: rec}
	default:
		return store.Op{Kind: k, GUID: guid}
	}
}

// RunJournal tests the journals of the stores that open creates, as Run does the stores.
func RunJournal(t *testing.T, open func(t *testing.T) journal.Store) {
	for _, c := range []struct {
		name string
		run  func(t *testing.T, open func() journal.Store)
	}{
		{"JournalNumbers", journalNumbers},
		{"JournalFollows", journalFollows},
		{"JournalCopies", journalCopies},
		{"JournalReplace", journalReplace},
		{"JournalNote", journalNote},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.run(t, func() journal.Store { return open(t) })
		})
	}
}

func last(t testing.TB, s journal.Store, want journal.Mark) {
	t.Helper()
	if got, err := s.Last(); err != nil || got != want {
		t.Fatalf("the last entry is %v, %v; want %v", got, err, want)
	}
}

func mark(term, number uint64) journal.Mark {
	return journal.Mark{Term: journal.Term{Number: term, Owner: ib.GUID(term)}, Number: number}
}

// journalNumbers: each Apply is one entry of the current term, kept across a restart. One
// that changes nothing or is refused is none.
func journalNumbers(t *testing.T, open func() journal.Store) {
	s := open()
	last(t, s, journal.Mark{})
	apply(t, s)
	last(t, s, journal.Mark{})
	apply(t, s, store.Op{Kind: store.PutLID, GUID: 1, LID: 5})
	last(t, s, journal.Mark{Number: 1})
	if err := s.Apply([]store.Op{{Kind: store.PutLID, GUID: 1, LID: 0}}); err == nil {
		t.Error("LID 0 was accepted")
	}
	last(t, s, journal.Mark{Number: 1})
	begin := &journal.Entry{Mark: mark(7, 2), Begin: &journal.Begin{Had: journal.Mark{Number: 1}, Reason: "test"}}
	if err := s.Append(begin); err != nil {
		t.Fatal(err)
	}
	shut(t, s)
	s = open()
	defer shut(t, s)
	apply(t, s, store.Op{Kind: store.PutMKey, GUID: 2, MKey: 9})
	last(t, s, mark(7, 3))
	list, err := s.Entries(1, 1<<20)
	if err != nil || len(list) != 3 || list[0].Mark != (journal.Mark{Number: 1}) || list[2].Mark != mark(7, 3) {
		t.Fatalf("%+v, %v", list, err)
	}
	if !reflect.DeepEqual(list[1], *begin) {
		t.Errorf("%+v became %+v", begin, list[1])
	}
	if o := list[2].Ops; len(o) != 1 || o[0].MKey != 9 {
		t.Errorf("%+v", list[2])
	}
}

// journalFollows: an entry out of order changes nothing.
func journalFollows(t *testing.T, open func() journal.Store) {
	s := open()
	defer shut(t, s)
	put := func(m journal.Mark) *journal.Entry {
		return &journal.Entry{Mark: m, Ops: []store.Op{{Kind: store.PutLID, GUID: 1, LID: ib.LID(m.Number)}}}
	}
	if err := s.Append(put(mark(5, 1))); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		mark journal.Mark
		want error
	}{{mark(5, 1), journal.ErrGap}, {mark(5, 3), journal.ErrGap}, {mark(4, 2), journal.ErrOldTerm}, {mark(6, 0), journal.ErrGap}} {
		if err := s.Append(put(c.mark)); !errors.Is(err, c.want) {
			t.Errorf("%v: %v, want %v", c.mark, err, c.want)
		}
	}
	holds(t, s, &store.State{LIDs: []store.LIDEntry{{GUID: 1, LID: 1}}})
	last(t, s, mark(5, 1))
}

// journalCopies: a store to which the entries of another one are appended holds the same,
// whatever the pieces in which they are read.
func journalCopies(t *testing.T, open func() journal.Store) {
	r := rand.New(rand.NewPCG(3, 4))
	s, to := open(), journal.NewMemory(1)
	defer shut(t, s)
	for range KeepAtLeast {
		ops := make([]store.Op, 1+r.IntN(4))
		for i := range ops {
			ops[i] = Op(r)
		}
		apply(t, s, ops...)
	}
	for next := uint64(1); next <= KeepAtLeast; {
		list, err := s.Entries(next, r.IntN(2000))
		if err != nil || len(list) == 0 {
			t.Fatalf("entry %d: %d entries, %v", next, len(list), err)
		}
		for i := range list {
			if err := to.Append(&list[i]); err != nil {
				t.Fatal(err)
			}
			next++
		}
	}
	if list, err := s.Entries(KeepAtLeast+1, 1000); err != nil || len(list) != 0 {
		t.Errorf("after the end: %v, %v", list, err)
	}
	holds(t, to, load(t, s))
}

// journalReplace: nothing of before is left, and the journal goes on after the mark.
func journalReplace(t *testing.T, open func() journal.Store) {
	s := open()
	apply(t, s, store.Op{Kind: store.PutLID, GUID: 1, LID: 5}, putRecord(store.TableGroups, "a", "b"))
	want := &store.State{LIDs: []store.LIDEntry{{GUID: 2, LID: 6}}, Records: []store.Record{record(store.TableGroups, "c", "d")}}
	if err := s.Replace(want, mark(3, 40)); err != nil {
		t.Fatal(err)
	}
	shut(t, s)
	s = open()
	defer shut(t, s)
	holds(t, s, want)
	last(t, s, mark(3, 40))
	for _, from := range []uint64{0, 1, 40} {
		if _, err := s.Entries(from, 1000); !errors.Is(err, journal.ErrTrimmed) {
			t.Errorf("entries from %d: %v", from, err)
		}
	}
	apply(t, s, store.Op{Kind: store.DeleteLID, GUID: 2})
	last(t, s, mark(3, 41))
	if list, err := s.Entries(41, 1000); err != nil || len(list) != 1 {
		t.Errorf("%v, %v", list, err)
	}
	if err := s.Replace(&store.State{LIDs: []store.LIDEntry{{GUID: 2, LID: 0}}}, mark(4, 50)); err == nil {
		t.Error("LID 0 was accepted")
	}
	last(t, s, mark(3, 41))
}

// journalNote: a note is no entry and survives.
func journalNote(t *testing.T, open func() journal.Store) {
	s := open()
	note := func(want string) {
		t.Helper()
		if got, err := s.Note(); err != nil || string(got) != want {
			t.Fatalf("%q, %v; want %q", got, err, want)
		}
	}
	note("")
	if err := s.SetNote([]byte("one")); err != nil {
		t.Fatal(err)
	}
	apply(t, s, store.Op{Kind: store.PutLID, GUID: 1, LID: 5})
	if err := s.SetNote([]byte("two")); err != nil {
		t.Fatal(err)
	}
	if err := s.Replace(&store.State{}, mark(1, 9)); err != nil {
		t.Fatal(err)
	}
	shut(t, s)
	s = open()
	defer shut(t, s)
	note("two")
	last(t, s, mark(1, 9))
}
