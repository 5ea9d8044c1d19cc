package experiment

import (
	"os"
	"testing"
	"time"
)

// TestVMSignalling: the notice repairs the connection of a VM that migrates, and takes the messages
// that the equations say. Rates are a tenth, times before and after the migration shorter.
func TestVMSignalling(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds")
	}
	r, err := vmSignalling(Options{Seed: 1, Runs: 3}, vmScale{
		before: [2]time.Duration{3 * time.Second, 2 * time.Second}, after: [2]time.Duration{20 * time.Second, 12 * time.Second},
		lifetime: 12 * time.Second, rate: 10, sizes: [][2]int{{3, 2}, {8, 4}},
	})
	if err != nil {
		t.Fatal(err)
	}
	mustHold(t, r)
}

// TestVMSignallingFull is the experiment as the command runs it.
func TestVMSignallingFull(t *testing.T) {
	if os.Getenv("HEDDLE_LONG") == "" {
		t.Skip("a minute; HEDDLE_LONG=1 runs it")
	}
	r, err := VMSignalling(Options{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	mustHold(t, r)
}
