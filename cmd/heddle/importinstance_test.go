package main

import (
	"os"
	"path/filepath"
	"testing"

	"heddle/store/boltdb"
)

// TestGiveState: links that the user of the service put into its directories lead nobody to other files.
func TestGiveState(t *testing.T) {
	uid, gid := os.Getuid(), os.Getgid()
	top := t.TempDir()
	above, other := filepath.Join(top, "heddle"), filepath.Join(top, "other")
	state := filepath.Join(above, "mlx5_0:1")
	for _, dir := range []string{above, other, state} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	db := filepath.Join(state, boltdb.FileName)
	if err := os.WriteFile(filepath.Join(other, boltdb.FileName), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := giveState(state, uid, gid); err == nil {
		t.Error("a state without a file is given away")
	}
	if err := os.WriteFile(db, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := ownState(state); err != nil {
		t.Error(err)
	}
	if err := giveState(state, uid, gid); err != nil {
		t.Error(err)
	}

	if err := os.Remove(db); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(top, "nothing"), db); err != nil {
		t.Fatal(err)
	}
	if ownState(state) == nil {
		t.Error("a file that is a link is taken for one of the service")
	}
	if err := giveState(state, uid, gid); err != nil { // what a link leads to is not there: the link is given
		t.Errorf("a file that is a link is followed: %v", err)
	}

	if err := os.RemoveAll(state); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(other, state); err != nil {
		t.Fatal(err)
	}
	if ownState(state) == nil {
		t.Error("a directory that is a link is taken for one of the service")
	}
	if giveState(state, uid, gid) == nil {
		t.Error("a directory elsewhere is given away, by a link")
	}
}
