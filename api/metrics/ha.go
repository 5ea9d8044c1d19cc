package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"heddle/internal/version"
)

// HA is how a process stands to its partner, or to those that share its state.
type HA struct {
	State      string // of States
	States     []string
	Term       uint64
	Entries    uint64
	LagEntries uint64
	Lag        time.Duration
	Commit     time.Duration // of all Entries together
	PeerUp     map[string]bool
	Takeovers  []Count       // by reason
	Takeover   time.Duration // the last one, until the whole subnet is served; 0: there was none
	Active     bool
	// Relayed are queries that were passed on after a handover, RelayAnswers those whose answers hosts got, and
	// RelayDropped those without, by reason.
	Relayed, RelayAnswers uint64
	RelayDropped          []Count
	// Synced is how long ago the process had all entries, of a pair its standby; negative: not since the
	// start.
	Synced time.Duration
	// Differ is how many settings differ from those of another manager that should be alike.
	Differ int
	// Shared is set if the process has no partner, but shares its state. LagEntries, Lag, PeerUp,
	// Takeover and those of queries mean nothing then.
	Shared *Shared
}

// Shared is what is particular to a state that several processes share.
type Shared struct {
	Refused time.Duration // how long changes of the master have been refused; 0: they are not
}

// NewHA returns what /metrics shows of a process with a partner, or with a state that it shares, in addition to New, which shows
// its manager. now is called for each scrape.
func NewHA(now func() HA) prometheus.Gatherer {
	reg := prometheus.NewRegistry()
	reg.MustRegister(&haCollector{
		now:       now,
		state:     describe("ha_state", "1 for the state of this manager among those that can be active.", "state"),
		active:    describe("ha_active", "1 if this manager is the active one."),
		term:      describe("ha_term", "Number of the newest term that this manager knows."),
		entries:   describe("ha_entries_total", "Entries of this manager that count."),
		synced:    describe("ha_synced_seconds", "How long ago this manager, or the standby of a pair, had all entries; -1: not since the start."),
		differ:    describe("ha_config_differs", "Settings of this manager that another one should have alike and has otherwise."),
		refused:   describe("ha_refused_seconds", "How long changes of this manager have been refused."),
		lag:       describe("ha_lag_entries", "Entries that the standby of the two lacks."),
		lagTime:   describe("ha_lag_seconds", "How long it has lacked any."),
		commit:    describe("ha_commit_seconds", "Time until entries of this manager counted."),
		peer:      describe("ha_peer_up", "1 if the partner was heard on the channel within the last second.", "channel"),
		takeovers: describe("ha_takeovers_total", "Times that this manager became active, but for the first term of a state.", "reason"),
		relayed:   describe("ha_relayed_queries_total", "Queries that this manager passed on to its partner after a handover."),
		answers:   describe("ha_relayed_answers_total", "Answers of the partner to those that this manager passed back to hosts."),
		dropped:   describe("ha_relayed_dropped_total", "Queries that came after a handover and whose host got no answer.", "reason"),
		takeover:  describe("ha_takeover_seconds", "The last time that this manager became active: seconds from the decision until its tables and the whole subnet are known again."),
	})
	return reg
}

// Idle returns what /metrics shows of a process that runs no manager.
func Idle() prometheus.Gatherer {
	reg := prometheus.NewRegistry()
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "heddle_build_info", Help: "Version of the program.", ConstLabels: prometheus.Labels{"version": version.Version},
	})
	build.Set(1)
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), build)
	return reg
}

type haCollector struct {
	now func() HA

	state, active, term, entries, lag, lagTime, commit, peer, takeovers, takeover, synced, refused, relayed, answers, dropped, differ *prometheus.Desc
}

// Describe sends nothing: the collector is unchecked, as that of New.
func (c *haCollector) Describe(chan<- *prometheus.Desc) {}

func (c *haCollector) Collect(ch chan<- prometheus.Metric) {
	to := sink(ch)
	x := c.now()
	for _, s := range x.States {
		to.gauge(c.state, b2f(s == x.State), s)
	}
	to.gauge(c.active, b2f(x.Active))
	to.gauge(c.term, float64(x.Term))
	to.count(c.entries, x.Entries)
	// A summary without quantiles: rate(sum)/rate(count) is the mean.
	ch <- prometheus.MustNewConstSummary(c.commit, x.Entries, x.Commit.Seconds(), nil)
	to.counts(c.takeovers, x.Takeovers)
	to.gauge(c.synced, max(x.Synced.Seconds(), -1))
	to.gauge(c.differ, float64(x.Differ))
	if s := x.Shared; s != nil {
		to.gauge(c.refused, s.Refused.Seconds())
		return
	}
	to.gauge(c.lag, float64(x.LagEntries))
	to.gauge(c.lagTime, x.Lag.Seconds())
	for channel, up := range x.PeerUp {
		to.gauge(c.peer, b2f(up), channel)
	}
	to.gauge(c.takeover, x.Takeover.Seconds())
	to.count(c.relayed, x.Relayed)
	to.count(c.answers, x.RelayAnswers)
	to.counts(c.dropped, x.RelayDropped)
}
