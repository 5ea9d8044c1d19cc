package metrics

import "github.com/prometheus/client_golang/prometheus"

// HotSpots are the values about hot spots.
type HotSpots struct {
	Opened, Closed              uint64
	Open, Contributors, Victims int
	Slow                        int // paths on the slow lane
	Refused                     int // hot spots whose paths do not move
	Missed                      int // hosts with the sign for which there was no room
}

type hotSpotCollector struct {
	opened, closed, open, contributors, victims, slow, refused, missed *prometheus.Desc
}

func newHotSpotCollector() *hotSpotCollector {
	desc := describe
	return &hotSpotCollector{
		opened:       desc("hotspots_opened_total", "Hot spots that were found."),
		closed:       desc("hotspots_closed_total", "Hot spots that have ended."),
		open:         desc("hotspots", "Hosts that are sent more than they take."),
		contributors: desc("hotspot_contributors", "Hosts that feed hot spots."),
		victims:      desc("hotspot_victims", "Hosts that may suffer from hot spots."),
		slow:         desc("hotspot_slow_paths", "Paths on the slow lane (--dftree act)."),
		refused:      desc("hotspots_refused", "Hot spots whose paths do not move to the slow lane."),
		missed:       desc("hotspots_missed", "Hosts with the sign of a hot spot for which there was no room: the fabric as a whole is full."),
	}
}

func (c *hotSpotCollector) collect(to sink, x *HotSpots) {
	if x == nil {
		return
	}
	to.count(c.opened, x.Opened)
	to.count(c.closed, x.Closed)
	to.gauge(c.open, float64(x.Open))
	to.gauge(c.contributors, float64(x.Contributors))
	to.gauge(c.victims, float64(x.Victims))
	to.gauge(c.slow, float64(x.Slow))
	to.gauge(c.refused, float64(x.Refused))
	to.gauge(c.missed, float64(x.Missed))
}
