package metrics_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"heddle/api/metrics"
)

// TestRelayed: a pair serves what became of queries after a handover, a manager with etcd does not.
func TestRelayed(t *testing.T) {
	ha := metrics.HA{Relayed: 9, RelayAnswers: 7, RelayDropped: []metrics.Count{{Labels: []string{"late"}, N: 2}, {Labels: []string{"full"}, N: 3}}}
	want := map[string]float64{
		"heddle_ha_relayed_queries_total": 9, "heddle_ha_relayed_answers_total": 7,
		"heddle_ha_relayed_dropped_total late": 2, "heddle_ha_relayed_dropped_total full": 3,
	}
	got := map[string]float64{}
	for _, shared := range []*metrics.Shared{nil, {}} {
		ha.Shared = shared
		families, err := metrics.NewHA(func() metrics.HA { return ha }).Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if !strings.Contains(f.GetName(), "relayed") {
				continue
			}
			if shared != nil {
				t.Errorf("%s is served without a pair", f.GetName())
			}
			for _, m := range f.Metric {
				var name strings.Builder
				name.WriteString(f.GetName())
				for _, l := range m.Label {
					name.WriteString(" " + l.GetValue())
				}
				got[name.String()] = m.GetCounter().GetValue()
			}
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestDiffer: a pair and managers with etcd serve how many settings differ.
func TestDiffer(t *testing.T) {
	for _, shared := range []*metrics.Shared{nil, {}} {
		families, err := metrics.NewHA(func() metrics.HA { return metrics.HA{Differ: 3, Shared: shared} }).Gather()
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(families, func(f *dto.MetricFamily) bool { return f.GetName() == "heddle_ha_config_differs" })
		if i < 0 || families[i].Metric[0].GetGauge().GetValue() != 3 {
			t.Errorf("with etcd %t: %v", shared != nil, families)
		}
	}
}

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
