package pair

import (
	"os"
	"path/filepath"
	"testing"

	"heddle/ib"
	"heddle/internal/bench/testbed"
	"heddle/store"
	"heddle/store/boltdb"
	"heddle/store/journal"
)

// TestEntries: entries are read from a file that somebody else has open, while the
// process is stopped, which goes on afterward.
func TestEntries(t *testing.T) {
	p := &Pair{dir: t.TempDir()}
	if err := os.Mkdir(p.State(0), 0o700); err != nil {
		t.Fatal(err)
	}
	db, err := boltdb.Open(filepath.Join(p.State(0), boltdb.FileName))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := journal.StartTerm(db, 1, 1, "a test"); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if err := db.Apply([]store.Op{{Kind: store.PutLID, GUID: ib.GUID(1 + i), LID: ib.LID(1 + i)}}); err != nil {
			t.Fatal(err)
		}
	}
	if p.Programs[0], err = testbed.Launch(p.dir, nil, "cat"); err != nil {
		t.Fatal(err)
	}
	defer p.Kill()
	for after, want := range []int{4, 3, 2, 1, 0} {
		list, err := p.Entries(0, uint64(after))
		if err != nil || len(list) != want || want > 0 && list[0].Number != uint64(after)+1 {
			t.Errorf("after %d: %v, %v, want %d entries", after, list, err, want)
		}
	}
	if _, err := p.Programs[0].In.Write([]byte("going on\n")); err != nil {
		t.Fatal(err)
	}
	if err := p.Programs[0].WaitFor("going on", limit); err != nil {
		t.Error(err)
	}
}
