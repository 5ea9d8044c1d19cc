package live

import (
	"fmt"
	"os"
	"testing"
	"time"

	"heddle/replica"
	"heddle/store"
	"heddle/store/journal"
)

// TestForksBounded: of many fork files the newest are kept, and each that is deleted is reported.
func TestForksBounded(t *testing.T) {
	s := journal.NewMemory(5)
	dir := t.TempDir()
	var told, deleted []string
	d := &disk{p: &Pair{cfg: Config{Store: s, ForkDir: dir, Rules: replica.Config{Me: 1, Peer: 2}, OnFork: func(f Fork, gone bool) {
		x := fmt.Sprintf("%d to %d", f.First.Number, f.Last.Number)
		if _, err := os.Stat(f.File); os.IsNotExist(err) != gone {
			t.Errorf("%s is deleted: %v, but %v", f.File, gone, err)
		}
		if gone {
			deleted = append(deleted, x)
		} else {
			told = append(told, x)
		}
	}}}}
	d.p.log = quiet
	d.p.known.replaced(&d.p.cfg.Rules, &store.State{})
	last := uint64(0)
	for range keptForks + 3 { // alone, and back as the standby of one that was alone longer
		for range 2 {
			last++
			e := journal.Entry{Mark: journal.Mark{Term: journal.Term{Number: last, Owner: 1}, Number: last}}
			if did := d.carryOut(replica.Append{Entry: e}); did.Err != nil {
				t.Fatal(did.Err)
			}
		}
		at := journal.Mark{Term: journal.Term{Number: last, Owner: 2}, Number: last + 10}
		if did := d.carryOut(replica.Replace{State: &store.State{}, At: at, Fork: last - 2, Counted: true}); did.Err != nil {
			t.Fatal(did.Err)
		}
		last += 10
	}
	if len(told) != keptForks+3 || fmt.Sprint(deleted) != "[1 to 2 13 to 14 25 to 26]" {
		t.Errorf("%d told, deleted %v", len(told), deleted)
	}
	if st := d.p.Status(); st.Forks != keptForks || st.ForksDeleted != 3 {
		t.Errorf("status: %d files, %d deleted", st.Forks, st.ForksDeleted)
	}
	if list, err := d.p.Forks(); err != nil || len(list) != keptForks || list[0].First.Number != 37 {
		t.Errorf("%d files are left: %v", len(list), err)
	}
}

// TestSurplus: the bound in bytes counts from the newest file, and the new one stays whatever it has.
func TestSurplus(t *testing.T) {
	var list []Fork
	add := func(name string, size int64) {
		list = append(list, Fork{File: name, Size: size, At: time.Unix(int64(len(list)), 0)})
	}
	for i, c := range []struct {
		name string
		size int64
		want string
	}{
		{"a", 100 << 20, ""},
		{"b", 100 << 20, ""},
		{"c", 100 << 20, "a"},
		{"huge", 2 * keptForkBytes, "a b c"},
	} {
		add(c.name, c.size)
		got := ""
		for _, f := range surplus(list, c.name) {
			if got != "" {
				got += " "
			}
			got += f.File
		}
		if got != c.want {
			t.Errorf("%d: %q is deleted, want %q", i, got, c.want)
		}
	}
	// A clock that went back: the new file is not the newest by its time.
	if gone := surplus([]Fork{{File: "new", Size: keptForkBytes}, {File: "old", Size: 1}}, "new"); len(gone) != 1 || gone[0].File != "old" {
		t.Errorf("with a clock that went back %v is deleted", gone)
	}
}
