package daemon_test

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"heddle/api"
	"heddle/ib"
	"heddle/internal/need"
	"heddle/sim"
)

// TestRepairIsTold: when a link fails, the API, the events and the metrics show what it broke
// and its repair.
func TestRepairIsTold(t *testing.T) {
	r := newRig(t, false, "xgft", "2", "4,4", "1,2")
	snap := r.awaitUp()
	srv := httptest.NewServer(api.New(r.d, api.Options{Metrics: r.d.Metrics()}))
	defer srv.Close()
	if list := get[[]api.Repair](t, srv.URL+"/v1/repairs"); len(list) != 0 {
		t.Errorf("before a fault there are %+v", list)
	}
	// A link between two switches.
	var id string
	var port int
	for i := range snap.Ports {
		p := snap.Ports[i]
		if q := snap.Port(p.Peer); q != nil && snap.Nodes[p.Node].Info.NodeType == ib.NodeSwitch && snap.Nodes[q.Node].Info.NodeType == ib.NodeSwitch {
			id, port = snap.Nodes[p.Node].Desc, int(p.Num)
			break
		}
	}
	r.sim.Do(func(s *sim.Subnet) {
		if err := s.LinkDown(id, port); err != nil {
			t.Error(err)
		}
	})
	var list []api.Repair
	for limit := time.After(need.Patience); len(list) == 0; {
		_, more := r.d.Events(0)
		if list = get[[]api.Repair](t, srv.URL+"/v1/repairs"); len(list) > 0 {
			break
		}
		select {
		case <-more:
		case <-limit:
			t.Fatalf("no repair of %s port %d is reported", id, port)
		}
	}
	p := list[0]
	if p.Broken == 0 || p.First != p.Broken || p.Left != 0 || p.Seconds <= 0 || p.Policy != "availability" || len(p.Faults) != 1 || !strings.Contains(p.Faults[0], id) {
		t.Errorf("%+v", p)
	}
	sweeps := get[[]api.Sweep](t, srv.URL+"/v1/sweeps")
	if n := len(sweeps); n < 2 || sweeps[n-1].Reason != "started" || sweeps[n-1].Engine != "ftree" || sweeps[n-1].Phases["distribute"] <= 0 || sweeps[n-1].LIDsSet == 0 {
		t.Errorf("the first sweep, after others: %+v", sweeps)
	} else if s := sweeps[0]; s.BlocksSent == 0 || s.Seconds <= 0 || s.Transition == "" || s.Time.Before(sweeps[n-1].Time) {
		t.Errorf("the sweep that repaired: %+v", s)
	}
	text := metrics(t, r.d)
	for _, want := range []string{
		`heddle_repairs_total{policy="availability"} 1`, `heddle_repair_seconds_count 1`, `heddle_repair_drains_total 0`, `heddle_repair_at_risk_total 0`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("/metrics lacks %s", want)
		}
	}
	found := false
	r.d.FlushEvents()
	events, _ := r.d.Events(0)
	for _, e := range events {
		found = found || e.Kind == "repair" && strings.Contains(e.Message, "lost: ")
	}
	if !found {
		t.Errorf("no event reports the repair: %+v", events)
	}
}
