package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"heddle/drain"
	"heddle/subnet"
)

// Ports are the links that are out of use, and what was asked for.
type Ports struct {
	List   []subnet.PortAction
	Counts drain.Counts
	Most   int // links that may be out of use
}

// portCollector has a series for each action, by whom and how it ended.
type portCollector struct {
	out, most, asked, expired, returned *prometheus.Desc
}

func newPortCollector() *portCollector {
	desc := describe
	return &portCollector{
		out:      desc("links_out_of_use", "Links that are drained, isolated or being restored, by whom.", "action", "by"),
		most:     desc("links_out_of_use_limit", "Links that may be out of use at one time."),
		asked:    desc("port_actions_total", "Requests to drain, isolate or restore a link, by whom and how they ended.", "action", "by", "result"),
		expired:  desc("port_actions_expired_total", "Actions that ended because their time was over."),
		returned: desc("port_actions_returned_total", "Links that a rule gave back because they were clean."),
	}
}

func (c *portCollector) collect(to sink, x *Ports) {
	if x == nil {
		return
	}
	var out [subnet.Restore + 1][drain.NumBy]int
	for i := range x.List {
		by := drain.Hand
		if x.List[i].Rule != "" {
			by = drain.Rule
		}
		out[x.List[i].Kind][by]++
	}
	for kind := subnet.Drain; kind <= subnet.Restore; kind++ {
		for by := range drain.NumBy {
			to.gauge(c.out, float64(out[kind][by]), kind.String(), by.String())
			for r := range drain.NumResults {
				if kind != subnet.Restore || by == drain.Hand { // rules give links back by time
					to.count(c.asked, x.Counts.Asked[kind][by][r], kind.String(), by.String(), r.String())
				}
			}
		}
	}
	to.gauge(c.most, float64(x.Most))
	to.count(c.expired, x.Counts.Expired)
	to.count(c.returned, x.Counts.Returned)
}
