package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestReadersOfReplacedConfiguration: the group of a service reads the configuration after an import as
// before; others never read it, as it has the keys.
func TestReadersOfReplacedConfiguration(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct{ before, want os.FileMode }{
		{0, 0o600}, // there is none
		{0o640, 0o640},
		{0o600, 0o600},
		{0o440, 0o640},
		{0o644, 0o600},
		{0o604, 0o600},
	} {
		old := filepath.Join(dir, "heddle.yaml")
		os.Remove(old)
		if c.before != 0 {
			if err := os.WriteFile(old, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(old, c.before); err != nil {
				t.Fatal(err)
			}
		}
		tmp, err := os.CreateTemp(dir, ".heddle-*")
		if err != nil {
			t.Fatal(err)
		}
		keepReaders(tmp, old)
		st, err := tmp.Stat()
		if err := tmp.Close(); err != nil {
			t.Fatal(err)
		}
		if err != nil || st.Mode().Perm() != c.want {
			t.Errorf("in place of a file with mode %o: %o, %v, want %o", c.before, st.Mode().Perm(), err, c.want)
		}
	}
}
