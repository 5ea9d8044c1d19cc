package main

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"heddle/ib"
	"heddle/store"
	"heddle/store/boltdb"
)

// TestConvertedStateIsTold: the log names the copy of a state file that a manager has converted, or
// says that there is none because the administrator does without.
func TestConvertedStateIsTold(t *testing.T) {
	s := &store.State{LIDs: []store.LIDEntry{{GUID: 1, LID: 1}}}
	for _, without := range []bool{false, true} {
		dir := t.TempDir()
		path := filepath.Join(dir, boltdb.FileName)
		if err := boltdb.WriteOlder(path, s, 2); err != nil {
			t.Fatal(err)
		}
		if without { // nothing can have the name of the copy then
			if err := os.MkdirAll(filepath.Join(path+".format2", "x"), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		open := func(without bool) (string, error) {
			f := newSMFlags()
			f.Files.State, f.Files.ConvertWithoutCopy = dir, without
			var out bytes.Buffer
			db, err := f.openStore(slog.New(slog.NewTextHandler(&out, nil)))
			if err == nil {
				db.Close()
			}
			return out.String(), err
		}
		if without {
			if _, err := open(false); err == nil || !strings.Contains(err.Error(), "start once with --convert-without-copy") {
				t.Fatalf("without a copy: %v", err)
			}
		}
		want := "level=INFO msg=\"" + path + " was converted from format 2 to 3; as it was it is kept as " + path + ".format2, and 'heddle store check " + dir + "' says how to go back\" kind=store_converted"
		if without {
			want = "level=WARN msg=\"" + path + " was converted from format 2 to 3, and no copy of it was kept\" kind=store_converted error="
		}
		if out, err := open(without); err != nil || !strings.Contains(out, want) {
			t.Errorf("%v: %s", err, out)
		}
		if out, err := open(without); err != nil || out != "" {
			t.Errorf("again: %v: %s", err, out)
		}
	}
}

// TestNewerStateGoesBack: the refusal of a file of a newer format names the command that goes back to
// the copy that was kept when it was converted, and the command does it.
func TestNewerStateGoesBack(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a state")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, boltdb.FileName)
	db, err := boltdb.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Apply([]store.Op{{Kind: store.PutLID, GUID: 7, LID: 9}}); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+".format3", b, 0o600); err != nil {
		t.Fatal(err)
	}
	newer, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := newer.Update(func(tx *bolt.Tx) error { return tx.Bucket([]byte("meta")).Put([]byte("version"), []byte{5}) }); err != nil {
		t.Fatal(err)
	}
	if err := newer.Close(); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"store", "check", dir}, {"sm", "--port", "ibsim:x@none", "--state", dir, "--api", ""}} {
		var out, errs strings.Builder
		code := run(context.Background(), args, strings.NewReader(""), &out, &errs)
		_, command, ok := strings.Cut(errs.String(), "heddle store import ")
		if code != 1 || !ok || !strings.Contains(errs.String(), "heddle.db has format 5, this program writes format 4") {
			t.Fatalf("%v: exit status %d: %s", args, code, errs.String())
		}
		if want := "'" + path + ".format3' '" + path + "' --replace\n"; command != want {
			t.Fatalf("the command is %s, want %s", command, want)
		}
	}
	var out, errs strings.Builder
	if code := run(context.Background(), []string{"store", "import", path + ".format3", path, "--replace"}, strings.NewReader(""), &out, &errs); code != 0 {
		t.Fatalf("exit status %d: %s", code, errs.String())
	}
	if s, err := boltdb.Read(path); err != nil || len(s.LIDs) != 1 || s.LIDs[0].LID != ib.LID(9) {
		t.Errorf("%+v, %v", s, err)
	}
}
