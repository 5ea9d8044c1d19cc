package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"heddle/fabric/cabling"
)

// cablingCollector says how the cables compare with the plan: a series for each kind of difference.
type cablingCollector struct {
	cables, open, opened, closed *prometheus.Desc
}

func newCablingCollector() *cablingCollector {
	desc := describe
	return &cablingCollector{
		cables: desc("cabling_cables", "Cables by what the plan says of them: planned, found, right (as planned) and off (a port is disabled).", "what"),
		open:   desc("cabling_findings", "Differences between the cables and the plan.", "kind"),
		opened: desc("cabling_findings_opened_total", "Differences that were found.", "kind"),
		closed: desc("cabling_findings_closed_total", "Differences that ended.", "kind"),
	}
}

func (c *cablingCollector) collect(to sink, st *cabling.Status) {
	if st == nil {
		return
	}
	to.gauge(c.cables, float64(st.Planned), "planned")
	to.gauge(c.cables, float64(st.Found), "found")
	to.gauge(c.cables, float64(st.Right), "right")
	to.gauge(c.cables, float64(st.Off), "off")
	for k := range cabling.NumKinds {
		to.gauge(c.open, float64(st.Count[k]), k.String())
		to.count(c.opened, st.Opened[k], k.String())
		to.count(c.closed, st.Ended[k], k.String())
	}
}
