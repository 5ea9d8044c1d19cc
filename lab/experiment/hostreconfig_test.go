package experiment

import (
	"os"
	"testing"
	"time"
)

// TestHostReconfiguration: connections follow the reroute as published, programs end,
// and nothing is lost on the way. Making queue pairs is not timed here, and programs
// of a sixteenth of the length feel a cut more than the published ones.
func TestHostReconfiguration(t *testing.T) {
	if os.Getenv("HEDDLE_LONG") == "" {
		t.Skip("half a minute; TestHostsKeepSeeds has the cuts that matter most; HEDDLE_LONG=1 runs it")
	}
	tick := time.Duration(0)
	clock := func() time.Duration { tick += time.Millisecond; return tick }
	r, err := hostReconfiguration(Options{Seed: 1, Runs: 1, Clock: clock}, beffSteps, 16)
	if err != nil {
		t.Fatal(err)
	}
	mustHold(t, r, "P1.8: slower by a cut")
}

// TestHostReconfigurationFull is the experiment as the command runs it.
func TestHostReconfigurationFull(t *testing.T) {
	if os.Getenv("HEDDLE_LONG") == "" {
		t.Skip("minutes; HEDDLE_LONG=1 runs it")
	}
	r, err := HostReconfiguration(Options{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	mustHold(t, r)
}

// TestHostsKeepSeeds: whatever the seed, hosts that keep their levels stand still
// without limits, and hosts that repath come to the ring's level with them, but for
// seed 0: there the ring stands still on the way, and locks again with
// what is sent anew until the end of the run. No connection is lost.
func TestHostsKeepSeeds(t *testing.T) {
	if testing.Short() {
		t.Skip("ten seconds")
	}
	var keep, repath hostCutResult
	for seed := range uint64(2) {
		if err := hostCuts[hostKeepNone].run(seed, &keep); err != nil {
			t.Fatal(err)
		}
		if err := hostCuts[hostMigrate].run(seed, &repath); err != nil {
			t.Fatal(err)
		}
	}
	if keep.stood != 2 || most(keep.after) != 0 || keep.bad != nil {
		t.Errorf("%d of 2 runs stood still; %v Gb/s, %v", keep.stood, keep.after, keep.bad)
	}
	late := 0
	for _, gbps := range repath.after {
		if gbps < 38 {
			late++
		}
	}
	if late > 1 || late > repath.stood || repath.failed != 0 || repath.bad != nil {
		t.Errorf("%v Gb/s, %d runs stood still on the way, %d connections lost, %v", repath.after, repath.stood, repath.failed, repath.bad)
	}
}
