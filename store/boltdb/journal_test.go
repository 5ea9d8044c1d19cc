package boltdb_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"heddle/ib"
	"heddle/internal/storetest"
	"heddle/store"
	"heddle/store/boltdb"
	"heddle/store/journal"
)

func TestBoltJournal(t *testing.T) {
	dir := t.TempDir()
	storetest.RunJournal(t, func(t *testing.T) journal.Store {
		s, err := boltdb.Open(filepath.Join(dir, strings.ReplaceAll(t.Name(), "/", "_")))
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}

// TestJournalTrim: only the newest entries are kept, and the last one always.
func TestJournalTrim(t *testing.T) {
	s, err := boltdb.Open(filepath.Join(t.TempDir(), boltdb.FileName))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	big := make([]byte, 9<<20)
	kept := func(from uint64) bool {
		t.Helper()
		_, err := s.Entries(from, 1)
		if err != nil && !errors.Is(err, journal.ErrTrimmed) {
			t.Fatal(err)
		}
		return err == nil
	}
	for i := range uint64(10) {
		if err := s.Apply([]store.Op{{Kind: store.PutRecord, Record: store.Record{Table: store.TablePartitions, Key: []byte("k"), Value: big}}}); err != nil {
			t.Fatal(err)
		}
		n := i + 1 // entries of 9 MiB, of which 7 are 63 MiB
		if first := max(n, 7) - 6; !kept(first) || first > 1 && kept(first-1) {
			t.Errorf("after %d entries the first one kept is not %d", n, first)
		}
	}
	if m, err := s.Last(); err != nil || m.Number != 10 {
		t.Errorf("%v, %v", m, err)
	}
}

// TestAppendAll: many entries are written as by Append, or none of them is. The journal is trimmed by
// as many.
func TestAppendAll(t *testing.T) {
	s, err := boltdb.Open(filepath.Join(t.TempDir(), boltdb.FileName))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	// entries has entries of 9 MiB, of which 7 are kept.
	entries := func(first, term uint64, n int) (list []journal.Entry) {
		for i := range uint64(n) {
			list = append(list, journal.Entry{
				Mark: journal.Mark{Term: journal.Term{Number: term}, Number: first + i},
				Ops: []store.Op{{Kind: store.PutLID, GUID: 1, LID: ib.LID(first + i)}, {
					Kind: store.PutRecord, Record: store.Record{Table: store.TablePartitions, Key: []byte("k"), Value: make([]byte, 9<<20)},
				}},
			})
		}
		return list
	}
	check := func(last, first uint64) {
		t.Helper()
		st, at, err := s.Contents()
		if err != nil || at.Number != last || len(st.LIDs) != 1 || st.LIDs[0].LID != ib.LID(last) {
			t.Fatalf("it holds %v at %v, %v; want entry %d", st.LIDs, at, err, last)
		}
		for n := first; n <= last; n++ {
			if list, err := s.Entries(n, 1); err != nil || len(list) != 1 || list[0].Number != n {
				t.Errorf("entry %d: %v", n, err)
			}
		}
		if _, err := s.Entries(first-1, 1); !errors.Is(err, journal.ErrTrimmed) {
			t.Errorf("entry %d, before the first: %v", first-1, err)
		}
	}
	if err := s.AppendAll(nil); err != nil {
		t.Error(err)
	}
	if err := s.AppendAll(entries(1, 5, 3)); err != nil {
		t.Fatal(err)
	}
	check(3, 1)
	if err := s.AppendAll(entries(4, 5, 6)); err != nil {
		t.Fatal(err)
	}
	check(9, 3)
	for _, bad := range []struct {
		list []journal.Entry
		want error
	}{
		{append(entries(10, 5, 2), entries(13, 5, 1)...), journal.ErrGap},
		{append(entries(10, 5, 2), entries(12, 4, 1)...), journal.ErrOldTerm},
	} {
		if err := s.AppendAll(bad.list); !errors.Is(err, bad.want) {
			t.Errorf("%v, want %v", err, bad.want)
		}
		check(9, 3)
	}
	if err := s.AppendAll(entries(10, 6, 1)); err != nil {
		t.Fatal(err)
	}
	check(10, 4)
}

// TestDamagedJournal: an entry that Append did not write is refused by name.
func TestDamagedJournal(t *testing.T) {
	good, err := journal.Append(nil, &journal.Entry{Mark: journal.Mark{Number: 2}, Ops: []store.Op{{Kind: store.PutLID, GUID: 1, LID: ib.LID(7)}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name     string
		key, val []byte
		want     string
	}{
		{"number", []byte{0, 0, 0, 0, 0, 0, 0, 3}, good, "it has number 2"},
		{"gap", []byte{0, 0, 0, 0, 0, 0, 0, 4}, append(append([]byte{}, good[:31]...), append([]byte{4}, good[32:]...)...), "entry 2 is missing"},
		{"short", []byte{0, 0, 0, 0, 0, 0, 0, 2}, good[:5], "cut off"},
		{"checksum", []byte{0, 0, 0, 0, 0, 0, 0, 2}, append(append([]byte{}, good[:len(good)-1]...), ^good[len(good)-1]), "checksum"},
		{"more", []byte{0, 0, 0, 0, 0, 0, 0, 2}, append(append([]byte{}, good...), 0), "1 bytes after its end"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := some(t) // one entry
			edit(t, path, func(tx *bolt.Tx) error { return tx.Bucket([]byte("journal")).Put(c.key, c.val) })
			s, err := boltdb.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			_, err = s.Entries(1, 1<<20)
			var ce *boltdb.CorruptError
			if !errors.As(err, &ce) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v; want %q", err, c.want)
			}
		})
	}
}
