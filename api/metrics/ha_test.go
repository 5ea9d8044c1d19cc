package metrics_test

import (
	"testing"
	"time"

	"heddle/api/metrics"
)

// TestSynced: a pair says when its standby had all entries, and a manager with etcd when it had them.
func TestSynced(t *testing.T) {
	for _, c := range []struct {
		ha   metrics.HA
		want float64
	}{
		{metrics.HA{Synced: 1500 * time.Millisecond}, 1.5},
		{metrics.HA{Synced: -time.Second}, -1},
		{metrics.HA{Synced: -time.Hour, Shared: &metrics.Shared{}}, -1},
		{metrics.HA{Synced: 3 * time.Second, Shared: &metrics.Shared{}}, 3},
	} {
		families, err := metrics.NewHA(func() metrics.HA { return c.ha }).Gather()
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, f := range families {
			if f.GetName() == "heddle_ha_synced_seconds" {
				found = true
				if got := f.Metric[0].GetGauge().GetValue(); got != c.want {
					t.Errorf("%+v: %g, want %g", c.ha, got, c.want)
				}
			}
		}
		if !found {
			t.Errorf("%+v: it is not served", c.ha)
		}
	}
}
