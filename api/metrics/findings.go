package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"heddle/perf/findings"
)

// findingsCollector has one series for each rule, and a few for how its findings end: the number of
// series does not depend on the subnet.
type findingsCollector struct {
	open, opened, closed, missed *prometheus.Desc
}

func newFindingsCollector() *findingsCollector {
	desc := describe
	return &findingsCollector{
		open:   desc("findings", "Findings that are open.", "rule", "severity"),
		opened: desc("findings_opened_total", "Findings that opened.", "rule"),
		closed: desc("findings_closed_total", "Findings that ended, by reason: healed, unseen, explained or off.", "rule", "reason"),
		missed: desc("findings_missed", "What could not be looked at or opened in the last round, because there was too much."),
	}
}

func (c *findingsCollector) collect(to sink, r *findings.Report) {
	if r == nil {
		return
	}
	for i := range r.Rules {
		n := &r.Rules[i]
		to.gauge(c.open, float64(n.Open), n.Rule, n.Severity.String())
		to.count(c.opened, n.Opened, n.Rule)
		to.count(c.closed, n.Healed, n.Rule, "healed")
		to.count(c.closed, n.Unseen, n.Rule, "unseen")
		to.count(c.closed, n.Explained, n.Rule, "explained")
		to.count(c.closed, n.SwitchedOff, n.Rule, "off")
	}
	to.gauge(c.missed, float64(r.Missed))
}
