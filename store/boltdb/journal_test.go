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
