package daemon

import (
	"log/slog"
	"sync/atomic"

	"heddle/api"
	"heddle/api/show"
	"heddle/perf"
	"heddle/perf/findings"
)

// Kinds of events about findings.
const (
	kindOpened = "finding_opened"
	kindClosed = "finding_closed"
)

// finder looks for findings in each round, on the goroutine of the performance manager.
type finder struct {
	core *findings.Core
	last atomic.Pointer[findings.Report]
	told noticeLimit
}

// lookForFindings has each round of the performance manager looked at.
func (d *Daemon) lookForFindings() {
	d.finder.core = findings.New(findings.Rules())
	d.shared.OnRound = append(d.shared.OnRound, d.onRound)
}

func (d *Daemon) onRound(r *perf.Round) {
	out := d.finder.core.Step(r)
	d.finder.last.Store(out.Report)
	for i := range out.Opened {
		d.tellFinding(kindOpened, &out.Opened[i])
	}
	for i := range out.Closed {
		d.tellFinding(kindClosed, &out.Closed[i])
	}
}

func (d *Daemon) tellFinding(kind string, f *findings.Finding) {
	if ok, _ := d.finder.told.allow(d.now()); !ok {
		bump(&d.noticesCut)
		return
	}
	level := slog.LevelInfo
	if kind == kindOpened && f.Severity > findings.Info {
		level = slog.LevelWarn
	}
	d.note(level, kind, show.FindingText(f), map[string]string{"rule": f.Rule, "severity": f.Severity.String()})
}

// Findings implements api.Backend.
func (d *Daemon) Findings() api.Findings { return show.Findings(d.finder.last.Load(), d.clock.started) }
