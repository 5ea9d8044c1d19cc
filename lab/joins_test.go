package lab

import (
	"errors"
	"os"
	"slices"
	"testing"
	"time"
)

// TestJoinsUnderChurn: while a cable fails or returns every 3 s, a join is in the tables of
// all switches within 200 ms of its acknowledgement at the 99th percentile, and no pair of
// a switch and a host is without a path for a second.
func TestJoinsUnderChurn(t *testing.T) {
	first, n := seeds(1, 20)
	judged := 0
	for _, k := range RepairFabrics() {
		for _, c := range RepairChains() {
			if c.Name != "auto" && os.Getenv("HEDDLE_LONG") == "" {
				continue
			}
			t.Run(k.Name+"/"+c.Name, func(t *testing.T) {
				for seed := first; seed < first+n; seed++ {
					f, err := k.Make(seed)
					if err != nil {
						t.Fatal(err)
					}
					x := JoinTrial{Seed: seed, Fabric: f, Chain: c, For: 9 * time.Second, Every: 3 * time.Second}
					r, err := x.Run()
					if errors.Is(err, ErrNotInForce) && c.Want != "" {
						return // the engine refuses this fabric: there is nothing to judge
					}
					judged++
					if err != nil {
						t.Fatalf("seed %d: %v", seed, err)
					}
					t.Log(r)
					if p := r.Quantile(0.99); p > 200*time.Millisecond || r.Unserved > 0 || r.Outage > time.Second || len(r.Times) < 40 {
						t.Errorf("seed %d: %v", seed, r)
					}
				}
			})
		}
	}
	if want := int(n) * len(RepairFabrics()); judged < want {
		t.Errorf("%d trials were judged, want %d", judged, want)
	}
}

// TestJoinsAmongMute: while one node in ten does not answer, others every 3 s, joins over
// switches that answer keep their bound, although every sweep meets nodes that have just fallen
// silent. No tables loop, also where a switch did not accept a block.
func TestJoinsAmongMute(t *testing.T) {
	first, n := seeds(4, 300)
	var all, over []time.Duration
	cables := 0
	for seed := first; seed < first+n; seed++ {
		k, c := RepairFabrics()[int(seed)%len(RepairFabrics())], RepairChains()[0]
		f, err := k.Make(seed)
		if err != nil {
			t.Fatal(err)
		}
		x := JoinTrial{Seed: seed, Fabric: f, Chain: c, For: 12 * time.Second, Mute: 10}
		if seed%2 == 0 {
			x.Every = 3 * time.Second
		}
		r, err := x.Run()
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if r.Loops > 0 || r.Refused > 0 || r.Unserved > 0 {
			t.Errorf("seed %d, %s: %v", seed, k.Name, r)
		}
		all, over = append(all, r.Times...), append(over, r.Over...)
		cables += r.Cables
	}
	slices.Sort(all)
	slices.Sort(over)
	x := JoinResult{Times: all, Cables: cables}
	t.Logf("judged: %v", &x)
	if n >= 15 && x.Quantile(0.99) > joinBound {
		t.Errorf("more than one in a hundred takes longer than %v: %v", joinBound, &x)
	}
	x.Times = over
	t.Logf("over switches that were mute: %v", &x)
	if n >= 15 && x.Quantile(0.5) > time.Second {
		t.Errorf("half of those over switches that were mute take longer than a second: %v", &x)
	}
	if len(all) < int(n)*20 {
		t.Errorf("%d joins were judged", len(all))
	}
}
