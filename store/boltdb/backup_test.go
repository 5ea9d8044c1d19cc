package boltdb_test

import (
	"bytes"
	"encoding/binary"
	"path/filepath"
	"reflect"
	"testing"

	"heddle/store"
	"heddle/store/backup"
	"heddle/store/boltdb"
)

// joinOps are the changes of entry n: it adds five members and takes out one of an older entry.
func joinOps(n uint64) []store.Op {
	key := func(n, i uint64) []byte {
		return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, n), i)
	}
	var ops []store.Op
	for i := range uint64(5) {
		ops = append(ops, store.Op{Kind: store.PutRecord, Record: store.Record{Table: store.TableMembers, Key: key(n, i), Value: []byte{1}}})
	}
	if n > 20 {
		ops = append(ops, store.Op{Kind: store.DeleteRecord, Record: store.Record{Table: store.TableMembers, Key: key(n-20, n%5)}})
	}
	return ops
}

// TestBackupWhileWriting: each backup that is taken while joins are stored, as fast as the store takes them,
// restores to the state after one entry of the journal: all before it, and nothing after.
func TestBackupWhileWriting(t *testing.T) {
	const entries = 1000
	dir := t.TempDir()
	s, err := boltdb.Open(filepath.Join(dir, boltdb.FileName))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ended := make(chan error, 1)
	first := make(chan struct{})
	go func() {
		for n := uint64(1); n <= entries; n++ {
			if err := s.Apply(joinOps(n)); err != nil {
				ended <- err
				return
			}
			if n == 1 {
				close(first)
			}
		}
		ended <- nil
	}()
	<-first
	want := store.NewMemory() // of the entries up to last
	last, taken := uint64(0), 0
	take := func() {
		t.Helper()
		var b bytes.Buffer
		if err := backup.WriteStore(&b, s); err != nil {
			t.Fatal(err)
		}
		x, err := backup.Read(&b)
		if err != nil {
			t.Fatal(err)
		}
		got, at := x.State, x.At
		if at.Number < last {
			t.Fatalf("a backup of entry %d after one of entry %d", at.Number, last)
		}
		for ; last < at.Number; last++ {
			if err := want.Apply(joinOps(last + 1)); err != nil {
				t.Fatal(err)
			}
		}
		if st, err := want.Load(); err != nil || !reflect.DeepEqual(got, st) {
			t.Fatalf("the backup of entry %d has %d records, and the entries before it make %d (%v)", at.Number, len(got.Records), len(st.Records), err)
		}
		taken++
	}
	for writing := true; writing; {
		select {
		case err := <-ended:
			if err != nil {
				t.Fatal(err)
			}
			writing = false
		default:
		}
		take()
	}
	if last != entries {
		t.Errorf("the last backup is of entry %d of %d", last, entries)
	}
	t.Logf("%d backups", taken)
}
