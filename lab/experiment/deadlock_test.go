package experiment

import (
	"os"
	"reflect"
	"testing"
	"time"

	"heddle/internal/reporttest"
	"heddle/report"
)

func mustHold(t *testing.T, r *report.Report, fails ...string) {
	t.Helper()
	reporttest.MustHold(t, r, fails...)
}

// TestDeadlock: the ring stands still as published, and the detector says why. Both
// policies prevent it, whether hosts repath or not, unless they do not although the
// manager's setting says so.
func TestDeadlock(t *testing.T) {
	r, err := deadlock(Options{Seed: 3, Runs: 1}, 10, 320*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	mustHold(t, r, "strict, no host repaths, against the setting")
}

// TestDeadlockFull is the experiment as the command runs it.
func TestDeadlockFull(t *testing.T) {
	if os.Getenv("HEDDLE_LONG") == "" {
		t.Skip("minutes; HEDDLE_LONG=1 runs it")
	}
	r, err := Deadlock(Options{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	mustHold(t, r, "strict, no host repaths, against the setting")
}

// TestStandStillSeeds: with pauses between packets every run stands still, after a
// time that differs; a seed repeats it to the picosecond.
func TestStandStillSeeds(t *testing.T) {
	c := &stillCases[stillStuck]
	var sum stillResult
	for seed := range uint64(8) {
		if err := c.run(seed, never, &sum); err != nil {
			t.Fatal(err)
		}
	}
	if sum.stood != 8 || sum.bad != nil || sum.soonest == sum.lasted {
		t.Errorf("%d of 8 runs stood still, after %v to %v; %v", sum.stood, sum.soonest, sum.lasted, sum.bad)
	}
	var again stillResult
	if err := c.run(7, never, &again); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(again.cycle, sum.cycle) {
		t.Errorf("%v, then %v", sum.cycle, again.cycle)
	}
}
