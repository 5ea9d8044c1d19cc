package main

import (
	"context"
	"errors"
	"os"
	"testing"

	"heddle/fabric"
)

// TestFloodTestbedCloses: an experiment that was interrupted leaves no directory, and what goes on in
// the background starts nothing and creates none.
func TestFloodTestbedCloses(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	left := func() int {
		list, err := os.ReadDir(tmp)
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	f, err := fabric.Generate(fabric.Mesh{Dims: []int{2}, Hosts: 1}, fabric.GenerateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r := newFloodTestbed(context.Background())
	if err := r.makeDir(); err != nil || left() != 1 {
		t.Fatalf("%v, %d directories", err, left())
	}
	r.close()
	if _, err := r.serve(f); !errors.Is(err, errClosed) || left() != 0 {
		t.Errorf("after the end: %v, %d directories", err, left())
	}
	if _, err := r.start(nil, "true"); !errors.Is(err, errClosed) {
		t.Errorf("after the end a program starts: %v", err)
	}
	early := newFloodTestbed(context.Background())
	early.close()
	if _, err := early.serve(f); !errors.Is(err, errClosed) || left() != 0 {
		t.Errorf("closed before it began: %v, %d directories", err, left())
	}
}
