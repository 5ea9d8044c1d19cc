package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"heddle/congestion"
)

// Congestion are the values of the congestion control manager.
type Congestion struct {
	congestion.Status
	Mode         string
	Lost, Unsent uint64 // answers without room, and requests that the port refused
}

type congestionCollector struct {
	mode, agents, differs, senders, requests, sets, failed, strange, repairs, restarts, events, inFlight, lost, unsent *prometheus.Desc
}

func newCongestionCollector() *congestionCollector {
	desc := describe
	return &congestionCollector{
		mode:     desc("congestion_mode", "1 for the mode of the congestion control manager.", "mode"),
		agents:   desc("congestion_agents", "Congestion control agents by state: managed, without, silent, locked or pending.", "state"),
		differs:  desc("congestion_differs", "Agents that hold other settings than wanted."),
		senders:  desc("congestion_senders", "Senders to one host that the computed settings are for."),
		requests: desc("congestion_requests_total", "Requests for congestion control, retries not counted."),
		sets:     desc("congestion_sets_total", "Sets among the requests for congestion control."),
		failed:   desc("congestion_failed_total", "Requests for congestion control that were not answered or were refused."),
		strange:  desc("congestion_strange_total", "Answers of congestion control agents that fit no request, or make no sense."),
		repairs:  desc("congestion_repairs_total", "Times that an agent was found with other settings than it had."),
		restarts: desc("congestion_restarts_total", "Times that the clock of an agent began anew."),
		events:   desc("congestion_events_total", "Events in the congestion logs of switches (marked packets) and of adapters (slowed senders).", "log"),
		inFlight: desc("congestion_in_flight", "Requests for congestion control in flight."),
		lost:     desc("congestion_lost_total", "Answers of congestion control agents that were dropped because too many waited."),
		unsent:   desc("congestion_unsent_total", "Requests for congestion control that the port refused."),
	}
}

func (c *congestionCollector) collect(to sink, x *Congestion) {
	if x == nil {
		return
	}
	to.gauge(c.mode, 1, x.Mode)
	for _, s := range []struct {
		name string
		n    int
	}{{"managed", x.Managed}, {"without", x.Without}, {"silent", x.Silent}, {"locked", x.Locked}, {"pending", x.Pending}} {
		to.gauge(c.agents, float64(s.n), s.name)
	}
	to.gauge(c.differs, float64(x.Differs))
	to.gauge(c.senders, float64(x.Senders))
	to.count(c.requests, x.Requests)
	to.count(c.sets, x.Sets)
	to.count(c.failed, x.Failed)
	to.count(c.strange, x.Strange)
	to.count(c.repairs, x.Repairs)
	to.count(c.restarts, x.Restarts)
	to.count(c.events, x.Marks, "switch")
	to.count(c.events, x.Slowed, "adapter")
	to.gauge(c.inFlight, float64(x.InFlight))
	to.count(c.lost, x.Lost)
	to.count(c.unsent, x.Unsent)
}
