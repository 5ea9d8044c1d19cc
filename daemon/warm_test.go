package daemon

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"heddle/internal/fabrictest"
	"heddle/internal/need"
	"heddle/route/engine/auto"
	"heddle/sim"
	"heddle/sim/live"
	"heddle/sm"
	"heddle/store"
	"heddle/subnet"
	"heddle/subnet/mirror"
)

// TestWarm: a daemon that has what the last one published serves its first snapshot before the subnet
// is up, and has told all hosts by then. With HEDDLE_LONG the subnet has 11,664 hosts, and the log the
// times.
func TestWarm(t *testing.T) {
	params, hosts := []string{"2", "3,3", "1,3"}, "9 of 9 ports told"
	if os.Getenv("HEDDLE_LONG") != "" {
		params, hosts = []string{"3", "18,18,36", "1,18,18"}, "11664 of 11664 ports told"
	}
	f, err := fabrictest.Generate("xgft", params, 1)
	if err != nil {
		t.Fatal(err)
	}
	s, err := sim.New(f, sim.Config{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	drv := live.New(s)
	defer drv.Close()
	var names []string
	for i := range f.Nodes {
		if !f.Nodes[i].IsSwitch() {
			names = append(names, f.Nodes[i].ID)
		}
	}
	records := store.NewMemory()
	// run runs a daemon until the subnet is up. It returns the last snapshot and the first that
	// the SA answers from, and when that came.
	run := func(node string, warm *subnet.Snapshot) (last, first *subnet.Snapshot, served time.Duration, d *Daemon) {
		port, err := drv.Port(node)
		if err != nil {
			t.Fatal(err)
		}
		defer port.Close()
		core := sm.Defaults()
		core.SMPTimeout = need.Patience // nobody is silent here, only late
		core.Engines, core.MaxWindow = auto.Engines(), port.MaxInFlight()
		ctx, cancel := context.WithTimeout(context.Background(), need.Patience)
		defer cancel()
		began := time.Now()
		d = New(Config{
			Port: port, PortName: node, Core: core, Store: records, Once: true, Warm: warm,
			OnPublish: func(s *subnet.Snapshot) {
				if last = s; first == nil && s.Serves() {
					first, served = s, time.Since(began)
				}
			},
		})
		if err := d.Run(ctx); err != nil {
			t.Fatal(err)
		}
		return last, first, served, d
	}
	was, _, _, _ := run(names[0], nil)
	var m mirror.Mirror
	if err := m.Apply(mirror.NewEncoder(1).Next(was)); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	records = records.Reopen()
	now, first, served, d := run(names[len(names)/2], m.Snapshot())
	if !first.Warm || first.Up || first.Gen >= now.Gen || !now.Up || now.Warm {
		t.Errorf("the first snapshot that serves: warm %v, up %v; the last: warm %v, up %v", first.Warm, first.Up, now.Warm, now.Up)
	}
	if now.Counts != was.Counts {
		t.Errorf("the subnet has %+v, before %+v", now.Counts, was.Counts)
	}
	told := ""
	d.events.Flush()
	list, _ := d.Events(0)
	for _, e := range list {
		if e.Kind == sm.KindTakeover.String() {
			told = e.Message
			t.Logf("first answer after %v, all told after %v: %s", served, e.Time.Sub(began), e.Message)
		}
	}
	if !strings.Contains(told, hosts) {
		t.Errorf("told: %q", told)
	}
}
