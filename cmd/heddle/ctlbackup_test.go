package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"heddle/store"
	"heddle/store/backup"
)

// TestDatedBackup: a backup is named by its time, the last ones are kept, other files are left
// alone, and a backup that is cut off removes nothing.
func TestDatedBackup(t *testing.T) {
	var text bytes.Buffer
	if err := (&backup.Backup{State: &store.State{}}).Write(&text); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "heddle", "mlx5_0:1")
	names := func() (list []string) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			list = append(list, e.Name())
		}
		return list
	}
	now := time.Date(2026, 11, 23, 3, 15, 0, 0, time.FixedZone("", 3600))
	for day := range 5 {
		if err := datedBackup(dir, 3, now.AddDate(0, 0, day), bytes.NewReader(text.Bytes()), io.Discard); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"heddle-20261125T021500Z.jsonl", "heddle-20261126T021500Z.jsonl", "heddle-20261127T021500Z.jsonl"}
	if got := names(); !slices.Equal(got, want) {
		t.Errorf("after five nights: %v", got)
	}
	if err := os.WriteFile(filepath.Join(dir, "before-upgrade.jsonl"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := datedBackup(dir, 1, now.AddDate(0, 0, 5), bytes.NewReader(text.Bytes()[:text.Len()-2]), io.Discard); err == nil {
		t.Error("a backup that is cut off is taken")
	}
	if got := names(); !slices.Equal(got, append([]string{"before-upgrade.jsonl"}, want...)) {
		t.Errorf("after a backup that failed: %v", got)
	}
	var told strings.Builder
	if err := datedBackup(dir, 2, now.AddDate(0, 0, 1), bytes.NewReader(text.Bytes()), &told); err != nil {
		t.Fatal(err)
	}
	if got := names(); !slices.Equal(got, []string{"before-upgrade.jsonl", "heddle-20261124T021500Z.jsonl", want[1], want[2]}) {
		t.Errorf("after the clock went back: %v", got)
	}
	if !strings.Contains(told.String(), "removed "+want[0]) {
		t.Errorf("told %q", told.String())
	}
	if st, err := os.Stat(filepath.Join(dir, want[2])); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
}
