package daemon

import (
	"strings"
	"testing"
	"time"

	"heddle/api"
	"heddle/daemon/eventlog"
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
		d := &Daemon{events: &eventlog.Log{}}
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

// TestUnread: before the first round of counters the manager says which it is: they are not read, it
// is not the master, or how long the round takes.
func TestUnread(t *testing.T) {
	up := &subnet.Snapshot{State: subnet.Master, Up: true}
	for _, x := range []struct {
		name  string
		reads bool
		snap  *subnet.Snapshot
		ends  time.Duration
		why   string
	}{
		{"off", false, up, 0, "port counters are not read: start the manager with --perf 10s, which reads them every 10 s"},
		{"starting", true, nil, 0, notMaster},
		{"standby", true, &subnet.Snapshot{State: subnet.Standby}, 0, notMaster},
		{"not begun", true, up, 0, "the first round of reading port counters ends soon; ask again in some seconds"},
		{"under way", true, up, time.Minute + 11*time.Second + time.Millisecond, "the first round of reading port counters ends in 12 s"},
		{"late", true, up, time.Minute, "the first round of reading port counters ends soon; ask again in some seconds"},
	} {
		d := &Daemon{events: &eventlog.Log{}}
		d.clock.virtual = func() mad.Time { return mad.Time(time.Minute) }
		if x.reads {
			d.perf.packets = make(chan *mad.Packet)
		}
		d.shared.Snap.Store(x.snap)
		d.perf.ends.Store(int64(x.ends))
		c, err := d.Counters(api.CountersQuery{})
		_, perr := d.PortCounters("0x1", 1)
		text, derr := d.CountersDump(false)
		if err != nil || perr == nil || derr == nil || text != "" {
			t.Fatalf("%s: %v, %v, %q %v", x.name, err, perr, text, derr)
		}
		for what, got := range map[string]string{
			"findings": d.Findings(api.FindingsQuery{}).Note, "hot spots": d.HotSpots(0).Note, "counters": c.Note,
			"worst": d.Worst(1).Note, "a port": perr.Error(), "dump": derr.Error(),
		} {
			if got != x.why {
				t.Errorf("%s, %s: %q, want %q", x.name, what, got, x.why)
			}
		}
	}
}
