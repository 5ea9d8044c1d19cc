package experiment

import (
	"os"
	"reflect"
	"runtime"
	"testing"

	"heddle/lab/experiment/bed"
)

// TestVFTree: test beds as published, and Figure 10 on trees of 72 hosts.
func TestVFTree(t *testing.T) {
	r, err := vftreeWith(Options{Seed: 2, Runs: 1, Sizes: []int{72}}, []int{1, 2, 8}, []int{1, 9})
	if err != nil {
		t.Fatal(err)
	}
	mustHold(t, r)
	if _, err := VFTree(Options{Sizes: []int{100}}); err == nil {
		t.Error("a tree of 100 hosts is no size of the experiment, and was taken")
	}
}

// TestVFTreeFull is the experiment as published, with two seeds of the eight.
func TestVFTreeFull(t *testing.T) {
	if os.Getenv("HEDDLE_LONG") == "" {
		t.Skip("half an hour; HEDDLE_LONG=1 runs it")
	}
	r, err := VFTree(Options{Seed: 1, Runs: 2})
	if err != nil {
		t.Fatal(err)
	}
	mustHold(t, r)
}

// TestHotRunWorkers: how many processors there are does not matter.
func TestHotRunWorkers(t *testing.T) {
	trees, err := bed.Trees(72)
	if err != nil {
		t.Fatal(err)
	}
	points := []hotPoint{{trees[0], 1, 1, lossy}, {trees[1], 2, 1, blocking}, {trees[0], 2, 1, blocking}}
	o := Options{Seed: 5}
	want, err := o.hotRun(points, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	got, err := o.hotRun(points, 2)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v on one processor, %+v on all: %v", got, want, err)
	}
	if x := want[0].seeds; x[0] == x[1] {
		t.Error("two seeds give the same to the packet")
	}
}
