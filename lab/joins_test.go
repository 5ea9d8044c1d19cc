package lab

import (
	"errors"
	"os"
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
			if c.Name != "auto" && c.Name != "lash" && os.Getenv("HEDDLE_LONG") == "" {
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
	if want := int(n) * len(RepairFabrics()) * 3 / 2; judged < want {
		t.Errorf("%d trials were judged, want %d", judged, want)
	}
}
