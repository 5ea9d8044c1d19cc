package experiment

import (
	"os"
	"reflect"
	"testing"
	"time"
)

// TestPathCaching: the published figures by the RDS model, and the claims that fail.
func TestPathCaching(t *testing.T) {
	r, err := pathCaching(Options{Seed: 1}, pathCachingSize{
		runs: 3, clients: 100, rounds: 25,
		each: 4 * time.Second, phases: 6,
	})
	if err != nil {
		t.Fatal(err)
	}
	mustHold(t, r, rdsFails...)
}

// rdsFails are claims that do not hold, whatever the size.
var rdsFails = []string{
	"and those of Linux", "restored within 2 s of what was observed, equation 3: 6.44 s, 15 times after",
	"restored within 2 s, with at most", "the SIF's rate in the last round",
}

// TestPathCachingFull is the experiment as the command runs it.
func TestPathCachingFull(t *testing.T) {
	if os.Getenv("HEDDLE_LONG") == "" {
		t.Skip("half a minute; HEDDLE_LONG=1 runs it")
	}
	r, err := PathCaching(Options{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	mustHold(t, r, append(rdsFails, "the client's tries when both", "the server's queries after that",
		"restored no later than in Figure 6, run by run", "queries in the first second without caches, an "+
			"answer in 152µs")...)
}

// TestRDSRepeats: a run is repeated by its seed, and another seed has other draws.
func TestRDSRepeats(t *testing.T) {
	f := &rdsFigures[1]
	var runs []*rdsRun
	for _, seed := range []uint64{3, 3, 4} {
		r, err := f.run(rdsDefaults(), seed)
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, r)
	}
	if !reflect.DeepEqual(runs[0], runs[1]) || reflect.DeepEqual(runs[0], runs[2]) {
		t.Errorf("%+v, %+v, %+v", runs[0], runs[1], runs[2])
	}
}
