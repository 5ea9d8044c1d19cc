package daemon

import (
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"heddle/api"
	"heddle/api/show"
	"heddle/daemon/eventlog"
	"heddle/incident"
	"heddle/perf"
	"heddle/perf/findings"
	"heddle/subnet"
)

// Kinds of events about findings.
const (
	kindClosed = "finding_closed"
)

// finder looks for findings in each round, and keeps what was done about links.
type finder struct {
	ports  portKeeper
	cables cableWatch
	number atomic.Uint64 // of the newest finding
	run    uint64        // of the daemons with the same events: each numbers findings from 1
	core   *findings.Core
	next   atomic.Pointer[findings.Thresholds] // those of the next round; nil: they stay
	last   atomic.Pointer[findings.Report]
	told   noticeLimit
}

// lookForFindings has each round of the performance manager looked at.
func (d *Daemon) lookForFindings() {
	d.finder.core = findings.New(d.cfg.Thresholds.Rules())
	d.finder.core.ShareIDs(d.finder.nextID)
	d.finder.last.Store(d.finder.core.Report()) // its metrics begin with 0
	d.shared.OnRound = append(d.shared.OnRound, d.onRound)
}

// SetThresholds replaces the thresholds of findings from the next round on; nil: those of the table.
func (d *Daemon) SetThresholds(t *findings.Thresholds) {
	if t == nil {
		t = &findings.Thresholds{}
	}
	d.finder.next.Store(t)
}

func (d *Daemon) onRound(r *perf.Round) {
	if t := d.finder.next.Swap(nil); t != nil {
		d.finder.core.SetRules(t.Rules())
	}
	out := d.finder.core.Step(r)
	d.finder.last.Store(out.Report)
	for i := range out.Opened {
		d.tellFinding(eventlog.KindFindingOpened, &out.Opened[i])
	}
	for i := range out.Closed {
		d.tellFinding(kindClosed, &out.Closed[i])
	}
}

// nextID numbers findings.
func (f *finder) nextID() uint64 { return f.number.Add(1) }

// subject names a finding among those of all daemons with the same events.
func (f *finder) subject(id uint64) string { return fmt.Sprintf("finding %d of run %d", id, f.run) }

func (d *Daemon) tellFinding(kind string, f *findings.Finding) {
	d.tellFindingAs(kind, f, show.FindingText(f))
}

func (d *Daemon) tellFindingAs(kind string, f *findings.Finding, text string) {
	if ok, _ := d.finder.told.allow(d.now()); !ok {
		d.noticesCut.Add(1)
		return
	}
	level := slog.LevelInfo
	if kind == eventlog.KindFindingOpened && f.Severity > findings.Info {
		level = slog.LevelWarn
	}
	at := incident.Fact{Subject: d.finder.subject(f.ID)}
	attrs := map[string]string{"rule": f.Rule, "severity": f.Severity.String(), "finding": strconv.FormatUint(f.ID, 10)}
	if len(f.Ends) > 0 {
		x := &f.Ends[0]
		at.Node, at.NodeDesc, at.Port = x.GUID, x.Desc, int(x.Port)
		attrs["node"], attrs["node_guid"] = x.Desc, x.GUID.String()
		if x.Port > 0 {
			attrs["port"] = strconv.Itoa(int(x.Port))
		} else {
			at.Port = -1
		}
	}
	if len(f.Ends) == 2 {
		y := &f.Ends[1]
		at.Peer, at.PeerDesc, at.PeerPort = y.GUID, y.Desc, int(y.Port)
		attrs["peer_node"], attrs["peer_node_guid"] = y.Desc, y.GUID.String()
	}
	d.noteAt(level, kind, text, attrs, &at)
}

// outdatedAfter is after how many periods without a new round the last one shows nothing any more.
const outdatedAfter = 4

// notMaster is why a manager reads no counters.
const notMaster = "this manager is not the master of a subnet that is up"

// outdated is why nothing is shown by counters: none have been read, or what they showed last does not
// hold any more; "": it does.
func (d *Daemon) outdated() string {
	r := d.Round()
	if r == nil {
		return d.unread()
	}
	switch s := d.Snapshot(); {
	case s == nil || s.State != subnet.Master || !s.Up:
		return notMaster
	case d.now().Sub(r.Ended) > outdatedAfter*max(r.Period, time.Millisecond):
		return fmt.Sprintf("counters were read last at %s", d.clock.started.Add(time.Duration(r.Ended)).UTC().Format(time.RFC3339))
	}
	return ""
}

// Findings implements api.Backend.
func (d *Daemon) Findings(q api.FindingsQuery) api.Findings {
	why := d.outdated()
	f := show.Findings(d.allFindings(why != ""), q, d.clock.started)
	d.nameEvents(f.Open)
	d.nameEvents(f.Closed)
	f.Note = why
	return f
}

// allFindings are those of counters, unless what these showed does not hold any more, and those of cables.
func (d *Daemon) allFindings(outdated bool) *findings.Report {
	r := d.finder.last.Load()
	if outdated {
		r = nil
	}
	return show.WithCables(d.withActions(r), d.cables(), d.clock.started)
}

// findingValues are the values of the metrics; nil: counters are not read.
func (d *Daemon) findingValues() *findings.Report {
	r := d.finder.last.Load()
	if r == nil || d.outdated() == "" {
		return r
	}
	none := &findings.Report{Round: r.Round, At: r.At, Rules: slices.Clone(r.Rules)}
	for i := range none.Rules {
		none.Rules[i].Open = 0
	}
	return none
}

// nameEvents says of findings with which event they opened, and which is its cause.
func (d *Daemon) nameEvents(list []api.Finding) {
	d.events.Openings(func(of func(subject string) incident.Opening) {
		for i := range list {
			n := of(d.finder.subject(list[i].ID))
			list[i].Event, list[i].Cause = n.Event, n.Cause
		}
	})
}
