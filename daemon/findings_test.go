package daemon

import (
	"log/slog"
	"testing"
	"time"

	"heddle/api"
	"heddle/daemon/eventlog"
	"heddle/ib"
	"heddle/incident"
	"heddle/perf/findings"
)

// TestFindingsNameEvents: a finding says with which event it opened and which is its cause; findings of
// another daemon with the same events, which have the same numbers, have others; and what is known is
// bounded.
func TestFindingsNameEvents(t *testing.T) {
	r := eventlog.New()
	daemons := [2]*Daemon{}
	for i := range daemons {
		d := &Daemon{events: r, log: slog.New(slog.DiscardHandler), clock: clock{started: time.Now()}}
		d.finder.run = r.NextRun()
		daemons[i] = d
	}
	tell := func(d *Daemon, kind string, id uint64, node ib.GUID) {
		d.finder.told = noticeLimit{}
		d.tellFinding(kind, &findings.Finding{ID: id, Ends: []findings.End{{GUID: node, Desc: "node", Port: 3}}})
	}
	named := func(d *Daemon, id uint64) api.Finding {
		r.Flush()
		list := []api.Finding{{ID: id}}
		d.nameEvents(list)
		return list[0]
	}
	r.Record(&eventlog.Entry{Event: api.Event{Time: time.Now(), Kind: "port_rule"}, At: incident.Fact{Node: 7, Port: 3}}) // event 1
	tell(daemons[0], eventlog.KindFindingOpened, 1, 7)
	tell(daemons[0], eventlog.KindFindingOpened, 2, 9)
	tell(daemons[1], eventlog.KindFindingOpened, 1, 11)
	tell(daemons[0], kindClosed, 1, 7)
	for _, x := range []struct {
		d           *Daemon
		id          uint64
		event, want uint64
	}{{daemons[0], 1, 2, 1}, {daemons[0], 2, 3, 3}, {daemons[1], 1, 4, 4}, {daemons[1], 2, 0, 0}} {
		if f := named(x.d, x.id); f.Event != x.event || f.Cause != x.want {
			t.Errorf("run %d, finding %d: event %d with cause %d, want %d and %d", x.d.finder.run, x.id, f.Event, f.Cause, x.event, x.want)
		}
	}
	if e, _ := r.Since(4); len(e) != 1 || e[0].Kind != kindClosed || e[0].Cause != 1 {
		t.Errorf("the end: %+v", e)
	}
	for i := range uint64(incident.KeptOpenings) {
		tell(daemons[1], eventlog.KindFindingOpened, 2+i, ib.GUID(100+i))
	}
	if f := named(daemons[0], 1); f.Event != 0 {
		t.Errorf("the oldest is kept: %+v", f)
	}
	if f := named(daemons[1], 2); f.Event == 0 {
		t.Error("the newest are not kept")
	}
}
