package main

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSAKey: without --sa-key the key is random, persists in the state directory, and
// is readable by its owner alone; the public key is accepted with a warning.
func TestSAKey(t *testing.T) {
	var said bytes.Buffer
	log := slog.New(slog.NewTextHandler(&said, nil))
	choose := func(flag, state string) uint64 {
		t.Helper()
		f := newSMFlags()
		f.Files.State = state
		if err := f.Set("sa-key", flag, "--sa-key"); err != nil {
			t.Fatal(err)
		}
		k, err := f.chooseSAKey(log)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	a, b := t.TempDir(), t.TempDir()
	k, again, other, none, next := choose("", a), choose("", a), choose("", b), choose("", ""), choose("", "")
	if k <= 1 || again != k || other == k || none == k || next == none {
		t.Errorf("random keys: %#x, then %#x; another state %#x; no state %#x, then %#x", k, again, other, none, next)
	}
	file := filepath.Join(a, saKeyFile)
	if st, err := os.Stat(file); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("the file of the key: %v, %v", st, err)
	}
	missing := filepath.Join(a, "new") // with a state in etcd nothing else makes it
	if k := choose("", missing); choose("", missing) != k {
		t.Error("the key does not persist in a directory that was missing")
	}
	if st, err := os.Stat(missing); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("the directory of the key: %v, %v", st, err)
	}
	if said.Len() > 0 {
		t.Errorf("a default start warns: %s", &said)
	}
	if choose("0", a) != 0 || choose("0x77", a) != 0x77 || said.Len() > 0 {
		t.Errorf("given keys do not count, or are warned of: %s", &said)
	}
	if choose("1", a) != 1 || !strings.Contains(said.String(), "open_configuration") {
		t.Errorf("the public key is not warned of: %s", &said)
	}
	said.Reset()
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	if choose("", a) != k || !strings.Contains(said.String(), "0600") {
		t.Errorf("a key that all can read is not warned of: %s", &said)
	}
	for _, bad := range []string{"", "x\n", "1\n", "0\n"} {
		if err := os.WriteFile(file, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		f := newSMFlags()
		f.Files.State = a
		if _, err := f.chooseSAKey(log); err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("a file with %q: %v", bad, err)
		}
	}
}
