package metrics

import "github.com/prometheus/client_golang/prometheus"

// Outputs is how it stands with what a process writes and sends in all phases.
type Outputs struct {
	Unsaved  bool   // events cannot be written
	Lost     uint64 // events that were dropped
	Webhooks []Webhook
	Partner  *Partner // nil: there is none
	Syslog   *Syslog  // nil: there is no server
}

// Partner is what is kept of the events of the other manager of a pair.
type Partner struct {
	Events  int
	Dropped uint64
}

// Webhook is a target of webhooks.
type Webhook struct {
	Name                  string
	Sent, Failed, Dropped uint64
	Waiting               uint64
	Paused                bool // its breaker is open, or it wants no more
}

// Syslog is a syslog server.
type Syslog struct {
	Sent, Dropped uint64
	Waiting       int
}

// NewOutputs returns what /metrics shows of Outputs, in addition to New. now is called for each scrape.
func NewOutputs(now func() Outputs) prometheus.Gatherer {
	reg := prometheus.NewRegistry()
	reg.MustRegister(&outputsCollector{
		now:     now,
		unsaved: describe("events_unsaved", "1 if events cannot be written to disk."),
		lost:    describe("events_lost_total", "Events that were dropped because too many waited for the disk."),
		sent:    describe("webhook_sent_total", "Events that a target of webhooks took.", "target"),
		failed:  describe("webhook_failed_total", "Tries that failed.", "target"),
		dropped: describe("webhook_dropped_total", "Events that were too old for the target's queue.", "target"),
		waiting: describe("webhook_waiting", "Events after the last one that the target has, wanted or not.", "target"),
		paused:  describe("webhook_paused", "1 if the target gets one try in each pause, or none because it answered 410.", "target"),
		kept:    describe("webhook_partner_events", "Events of the other manager of a pair that a target of webhooks may lack."),
		tooMany: describe("webhook_partner_dropped_total", "Events of the other manager that were dropped because there were too many."),
		logSent: describe("syslog_sent_total", "Lines that were sent to the syslog server."),
		logLost: describe("syslog_dropped_total", "Lines that found no room in the queue."),
		logWait: describe("syslog_waiting", "Lines that wait for the syslog server."),
	})
	return reg
}

type outputsCollector struct {
	now                                    func() Outputs
	unsaved, lost                          *prometheus.Desc
	sent, failed, dropped, waiting, paused *prometheus.Desc
	kept, tooMany                          *prometheus.Desc
	logSent, logLost, logWait              *prometheus.Desc
}

// Describe sends nothing, as that of collector.
func (c *outputsCollector) Describe(chan<- *prometheus.Desc) {}

func (c *outputsCollector) Collect(ch chan<- prometheus.Metric) {
	to, x := sink(ch), c.now()
	to.gauge(c.unsaved, b2f(x.Unsaved))
	to.count(c.lost, x.Lost)
	for i := range x.Webhooks {
		w := &x.Webhooks[i]
		to.count(c.sent, w.Sent, w.Name)
		to.count(c.failed, w.Failed, w.Name)
		to.count(c.dropped, w.Dropped, w.Name)
		to.gauge(c.waiting, float64(w.Waiting), w.Name)
		to.gauge(c.paused, b2f(w.Paused), w.Name)
	}
	if p := x.Partner; p != nil {
		to.gauge(c.kept, float64(p.Events))
		to.count(c.tooMany, p.Dropped)
	}
	if s := x.Syslog; s != nil {
		to.count(c.logSent, s.Sent)
		to.count(c.logLost, s.Dropped)
		to.gauge(c.logWait, float64(s.Waiting))
	}
}
