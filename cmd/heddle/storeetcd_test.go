package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"heddle/internal/etcdtest"
	"heddle/internal/need"
	"heddle/store"
	"heddle/store/backup"
	"heddle/store/boltdb"
	"heddle/store/etcd"
	"heddle/store/journal"
)

// backupOf writes a backup of a state, and returns its name.
func backupOf(t *testing.T, s *store.State) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "backup.jsonl")
	b := &backup.Backup{State: s, At: journal.Mark{Term: journal.Term{Number: 1, Owner: 1}, Number: 1}}
	if err := writeWhole(path, b.Write); err != nil {
		t.Fatal(err)
	}
	return path
}

// heddleStore runs 'heddle store', and returns its exit status and what it wrote.
func heddleStore(args ...string) (code int, out, errs string) {
	var o, e strings.Builder
	code = run(context.Background(), append([]string{"store"}, args...), strings.NewReader(""), &o, &e)
	return code, o.String(), e.String()
}

var oneLID = &store.State{LIDs: []store.LIDEntry{{GUID: 7, LID: 9}}}

// TestImportEmpty: a backup without entries replaces a state that has some only with a flag of its own.
func TestImportEmpty(t *testing.T) {
	empty, full := backupOf(t, &store.State{}), backupOf(t, oneLID)
	c := etcdtest.Start(t, 1)
	for _, state := range []string{filepath.Join(t.TempDir(), boltdb.FileName), etcd.Scheme + c.Endpoints()[0] + "/empty"} {
		has := func(want string) {
			t.Helper()
			if code, out, errs := heddleStore("check", state); code != 0 || !strings.Contains(out, " is sound: "+want) {
				t.Errorf("%s: exit status %d: %s%s", state, code, out, errs)
			}
		}
		imports := func(code int, what string, args ...string) {
			t.Helper()
			if got, out, errs := heddleStore(append([]string{"import"}, args...)...); got != code || !strings.Contains(out+errs, what) {
				t.Errorf("import %v: exit status %d: %s%s", args, got, out, errs)
			}
		}
		imports(0, "0 LIDs", empty, state)
		imports(0, "0 LIDs", empty, state, "--replace") // nothing is lost
		imports(0, "1 LID", full, state, "--replace")
		imports(1, "has 1 LID, 0 M_Keys, 0 neighbors, 0 records, and the backup has no entry: nothing was changed; give --allow-empty", empty, state, "--replace")
		has("1 LID")
		imports(0, "0 LIDs", empty, state, "--replace", "--allow-empty")
		has("0 LIDs")
	}
	damaged := filepath.Join(t.TempDir(), boltdb.FileName)
	if err := os.WriteFile(damaged, make([]byte, 100), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := heddleStore("import", empty, damaged, "--replace"); code != 1 || !strings.Contains(errs, "cannot be read, and the backup has no entry") {
		t.Errorf("exit status %d: %s", code, errs)
	}
}

// TestImportInUse: an import does not replace the state in etcd of a manager that runs, and names it.
func TestImportInUse(t *testing.T) {
	c := etcdtest.Start(t, 1)
	ctx, cancel := context.WithTimeout(t.Context(), need.Patience)
	defer cancel()
	s, err := etcd.Open(ctx, etcd.Options{Endpoints: c.Endpoints(), Prefix: "/used", Name: "host-1", Wait: need.Patience})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Win(ctx, 5, "test"); err != nil {
		t.Fatal(err)
	}
	var stop atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for !stop.Load() {
			if err := s.Attend(ctx); err != nil {
				t.Error(err)
			}
		}
	}()
	full, url := backupOf(t, oneLID), etcd.Scheme+c.Endpoints()[0]+"/used"
	code, out, errs := heddleStore("import", full, url, "--replace")
	want := url + `: the manager on "host-1" (port GUID 0x0000000000000005) uses this state, and nothing was changed: stop all managers of the prefix first`
	if code != 1 || !strings.Contains(errs, want) {
		t.Errorf("exit status %d: %s%s", code, out, errs)
	}
	stop.Store(true)
	<-done
	if err := s.Apply([]store.Op{{Kind: store.PutLID, GUID: 8, LID: 10}}); err != nil {
		t.Errorf("the manager lost the term: %v", err)
	}
	if err := s.Resign(ctx); err != nil {
		t.Fatal(err)
	}
	if code, out, errs := heddleStore("import", full, url, "--replace"); code != 0 || errs != "" {
		t.Errorf("the manager resigned: exit status %d: %s%s", code, out, errs)
	}
}
