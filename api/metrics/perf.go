package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"heddle/perf"
)

// Perf are the values of the performance manager.
type Perf struct {
	perf.Status
	Lost, Unsent uint64 // answers without room, and requests that the port refused
}

type perfCollector struct {
	rounds, ports, agents, requests, failed, strange, cleared, period, window, inFlight, lost, unsent *prometheus.Desc
}

func newPerfCollector() *perfCollector {
	desc := describe
	return &perfCollector{
		rounds:   desc("perf_rounds_total", "Rounds in which the port counters were read."),
		ports:    desc("perf_ports", "Ports of the last round."),
		agents:   desc("perf_agents", "Performance agents by state: answering or silent.", "state"),
		requests: desc("perf_requests_total", "Requests for counters, retries not counted."),
		failed:   desc("perf_failed_total", "Requests for counters that were not answered or were refused."),
		strange:  desc("perf_strange_total", "Answers that fit no request."),
		cleared:  desc("perf_cleared_total", "Times that the counters of a port went back."),
		period:   desc("perf_period_seconds", "Time from one sample of a port to the next."),
		window:   desc("perf_window", "Requests for counters that may be in flight now."),
		inFlight: desc("perf_in_flight", "Requests for counters in flight."),
		lost:     desc("perf_lost_total", "Answers with counters that were dropped because too many waited."),
		unsent:   desc("perf_unsent_total", "Requests for counters that the port refused."),
	}
}

func (c *perfCollector) collect(to sink, x *Perf) {
	if x == nil {
		return
	}
	to.count(c.rounds, x.Rounds)
	to.gauge(c.ports, float64(x.Ports))
	to.gauge(c.agents, float64(x.Agents-x.Silent), "answering")
	to.gauge(c.agents, float64(x.Silent), "silent")
	to.count(c.requests, x.Requests)
	to.count(c.failed, x.Failed)
	to.count(c.strange, x.Strange)
	to.count(c.cleared, x.Cleared)
	to.gauge(c.period, x.Period.Seconds())
	to.gauge(c.window, float64(x.Window))
	to.gauge(c.inFlight, float64(x.InFlight))
	to.count(c.lost, x.Lost)
	to.count(c.unsent, x.Unsent)
}
