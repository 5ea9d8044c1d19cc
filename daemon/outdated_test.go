package daemon

import (
	"strings"
	"testing"
	"time"

	"heddle/api"
	"heddle/mad"
	"heddle/perf"
	"heddle/perf/dftree"
	"heddle/perf/findings"
	"heddle/perf/hotspot"
	"heddle/sa"
	"heddle/subnet"
)

// TestOutdated: a manager that is no longer master, or that reads no counters any more, shows no hot
// spots and findings of before, and says why. How many there were since the start stays. Paths on the
// slow lane are those that the SA has.
func TestOutdated(t *testing.T) {
	const ended = mad.Time(time.Hour)
	for _, x := range []struct {
		name string
		snap *subnet.Snapshot
		late time.Duration
		why  string
	}{
		{"up", &subnet.Snapshot{State: subnet.Master, Up: true}, 40 * time.Second, ""},
		{"standby", &subnet.Snapshot{State: subnet.Standby}, time.Second, "not the master"},
		{"not up yet", &subnet.Snapshot{State: subnet.Master}, time.Second, "not the master"},
		{"silent", &subnet.Snapshot{State: subnet.Master, Up: true}, 41 * time.Second, "counters were read last at 2026-01-01T01:00:00Z"},
	} {
		d := &Daemon{events: &Events{}}
		d.clock.started = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		d.clock.virtual = func() mad.Time { return ended.Add(x.late) }
		d.perf.packets = make(chan *mad.Packet)
		d.shared.Snap.Store(x.snap)
		d.shared.Round.Store(&perf.Round{Ended: ended, Period: 10 * time.Second})
		d.shared.View.Store(&sa.View{Slow: subnet.NewSlowPaths(7, []subnet.PortPair{{From: 3, To: 2}})})
		d.perf.spots.last.Store(&hotSpotState{
			report: &hotspot.Report{Round: 5, Open: []hotspot.HotSpot{{ID: 1, Host: hotspot.End{GUID: 2}, Contributors: make([]hotspot.Contributor, 2)}}, Missed: 4},
			plan:   &dftree.Plan{Mode: dftree.Act, Spots: []dftree.Spot{{ID: 1, Paths: 2}}}, opened: 3, closed: 2,
		})
		d.finder.last.Store(&findings.Report{
			Round: 5, Open: make([]findings.Finding, 1), Rules: []findings.Count{{Rule: findings.BadCable, Open: 1, Opened: 6}},
		})
		h, f, hv, fv := d.HotSpots(0), d.Findings(api.FindingsQuery{}), d.hotSpotValues(), d.findingValues()
		shown := 1
		if x.why != "" {
			shown = 0
		}
		if len(h.Open) != shown || len(f.Open) != shown || !strings.Contains(h.Note, x.why) || h.Note != f.Note || (h.Note == "") != (x.why == "") {
			t.Errorf("%s: %d hot spots, %d findings, %q, %q", x.name, len(h.Open), len(f.Open), h.Note, f.Note)
		}
		if hv.Open != shown || hv.Contributors != 2*shown || hv.Slow != shown || hv.Missed != 4*shown || hv.Opened != 3 || hv.Closed != 2 {
			t.Errorf("%s: %+v", x.name, hv)
		}
		if fv.Rules[0].Open != shown || fv.Rules[0].Opened != 6 || d.finder.last.Load().Rules[0].Open != 1 {
			t.Errorf("%s: %+v", x.name, fv.Rules)
		}
		if shown == 1 && (h.Slow != 1 || h.Open[0].Paths != 1) {
			t.Errorf("%s: %d paths are slow, %d of them of the hot spot", x.name, h.Slow, h.Open[0].Paths)
		}
	}
}
