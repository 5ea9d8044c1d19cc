package boltdb_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"heddle/ib"
	"heddle/store"
	"heddle/store/boltdb"
	"heddle/store/journal"
)

// TestTornWrite: a loss of power during a write leaves any of the sectors that were not synced.
// bbolt writes pages, syncs, and then writes one of its two meta pages. Whatever subset is there,
// the file has the state, the last entry and the note of before or of after, and takes the next
// entry.
func TestTornWrite(t *testing.T) {
	const sector, page, metas = 512, 4096, 2
	dir := t.TempDir()
	path := filepath.Join(dir, boltdb.FileName)
	r := rand.New(rand.NewPCG(1, 2))
	term := journal.Term{Number: 1, Owner: 5}
	type contents struct {
		State *store.State
		Last  journal.Mark
		Note  string
	}
	read := func(path string) (c contents) {
		t.Helper()
		db, err := boltdb.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if c.State, c.Last, err = db.Contents(); err != nil {
			t.Fatal(err)
		}
		note, err := db.Note()
		if err != nil {
			t.Fatal(err)
		}
		c.Note = string(note)
		return c
	}
	change := func(path string, i int) {
		t.Helper()
		db, err := boltdb.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		last, err := db.Last()
		if err != nil {
			t.Fatal(err)
		}
		if i%5 == 4 {
			err = db.SetNote(bytes.Repeat([]byte{byte(i)}, 82))
		} else {
			ops := []store.Op{{Kind: store.PutLID, GUID: ib.GUID(i % 50), LID: ib.LID(i + 1)}}
			ops = append(ops, store.Op{Kind: store.PutRecord, Record: store.Record{Table: store.TableServices, Key: []byte{byte(i % 20)}, Value: make([]byte, r.IntN(3000))}})
			err = db.Append(&journal.Entry{Mark: journal.Mark{Term: term, Number: last.Number + 1}, Ops: ops})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	change(path, 0)
	olds, news := 0, 0
	for i := 1; i < 60; i++ {
		before, was := bytesOf(t, path), read(path)
		change(path, i)
		after, is := bytesOf(t, path), read(path)
		torn := filepath.Join(dir, "torn")
		for k := range 4 {
			b := bytes.Clone(before)
			if grown := len(after) - len(b); grown > 0 {
				b = append(b, make([]byte, grown)...)
			}
			// Half of the tries stop before the first sync; the others have all pages, and some
			// sectors of the meta page.
			synced := k%2 == 1
			for at := 0; at < len(after); at += sector {
				meta := at < metas*page
				if !meta && synced || meta == synced && r.IntN(2) == 0 {
					copy(b[at:at+sector], after[at:at+sector])
				}
			}
			if err := os.WriteFile(torn, b, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := boltdb.Check(torn); err != nil {
				t.Fatalf("change %d, try %d: %v", i, k, err)
			}
			got := read(torn)
			switch {
			case reflect.DeepEqual(got, was):
				olds++
			case synced && reflect.DeepEqual(got, is):
				news++
			default:
				t.Fatalf("change %d, try %d: %v with note %x; before it was %v, after it %v", i, k, got.Last, got.Note, was.Last, is.Last)
			}
			change(torn, i+1)
			if err := boltdb.Check(torn); err != nil {
				t.Fatalf("change %d, try %d, after the next one: %v", i, k, err)
			}
		}
	}
	if olds < 50 || news < 20 {
		t.Errorf("%d times the state of before, %d times that of after", olds, news)
	}
}

func bytesOf(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
