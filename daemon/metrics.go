package daemon

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"heddle/ib"
	"heddle/internal/version"
	"heddle/sm"
	"heddle/subnet"
)

// phaseTimes sums what each phase of the full sweeps took, for histograms.
// Any goroutine may use it.
type phaseTimes struct {
	mu     sync.Mutex
	sweeps []sm.SweepReport // not yet shown; guarded by mu
}

func (p *phaseTimes) add(r *sm.SweepReport) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.sweeps) < 4096 { // nobody scrapes: the newest are lost, the counters in Status are not
		p.sweeps = append(p.sweeps, *r)
	}
}

func (p *phaseTimes) take() []sm.SweepReport {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.sweeps
	p.sweeps = nil
	return s
}

// Metrics returns what /metrics shows: the collector reads the status and the
// snapshot when it is scraped, so a large fabric costs nothing in between.
func (d *Daemon) Metrics() prometheus.Gatherer {
	reg := prometheus.NewRegistry()
	reg.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		newCollector(d),
	)
	return reg
}

type collector struct {
	d *Daemon

	build, state, up, lid, unseen, ownSilent                   *prometheus.Desc
	nodes, links, lids, endports, problems, events             *prometheus.Desc
	sent, retried, timedOut, window, inFlight                  *prometheus.Desc
	sweeps, traps, falseTraps, noticesCut, smpsCut, generation *prometheus.Desc
	lastPhase, lastBlocks, lastTook                            *prometheus.Desc
	sa                                                         *saCollector
	vm                                                         *vmCollector
	repairs                                                    *repairCollector
	phaseSeconds                                               *prometheus.HistogramVec
	sweepSeconds                                               prometheus.Histogram
}

func newCollector(d *Daemon) *collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("heddle_"+name, help, labels, nil)
	}
	// From a tenth of a millisecond to about a hundred seconds.
	buckets := prometheus.ExponentialBuckets(1e-4, 4, 11)
	return &collector{
		d:          d,
		build:      desc("build_info", "Version of the program.", "version"),
		state:      desc("sm_state", "1 for the state this manager is in.", "state"),
		up:         desc("subnet_up", "1 if this manager is master and has brought the subnet up."),
		lid:        desc("sm_lid", "LID of the manager's port."),
		nodes:      desc("nodes", "Nodes of the subnet.", "type"),
		links:      desc("links", "Cables by state: active or other.", "state"),
		lids:       desc("lids", "LIDs given."),
		endports:   desc("endports", "Ports with a LID."),
		unseen:     desc("nodes_unseen", "Nodes that do not answer and stay in the subnet as they were last read."),
		ownSilent:  desc("own_agent_silent", "1 if the agent of the manager's own port does not answer."),
		problems:   desc("problems", "Nodes, ports and links that are left out or degraded."),
		events:     desc("events_total", "Events since the start."),
		sent:       desc("smps_sent_total", "SMP requests sent, retries not counted.", "attribute"),
		retried:    desc("smps_retried_total", "SMPs sent again.", "attribute"),
		timedOut:   desc("smps_timed_out_total", "Tries of SMPs that were not answered in time.", "attribute"),
		window:     desc("smp_window", "SMPs that may be in flight now."),
		inFlight:   desc("smps_in_flight", "SMPs in flight."),
		sweeps:     desc("sweeps_total", "Sweeps finished.", "kind"),
		traps:      desc("traps_total", "Traps received."),
		falseTraps: desc("traps_false_total", "Traps that did not come from the node that they named."),
		noticesCut: desc("notices_cut_total", "Notices of traps and other managers that were left out because there were too many."),
		smpsCut:    desc("smps_cut_total", "SMPs thrown away because too many waited."),
		generation: desc("generation", "Number of the published state."),
		lastPhase:  desc("last_sweep_phase_seconds", "Seconds of each phase of the last full sweep.", "phase"),
		lastBlocks: desc("last_sweep_lft_blocks", "LFT blocks that the last full sweep sent."),
		lastTook:   desc("last_sweep_seconds", "Seconds that the last full sweep took."),
		sa:         newSACollector(d, desc),
		vm:         newVMCollector(d, desc),
		repairs:    newRepairCollector(d, desc),
		phaseSeconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "heddle_sweep_phase_seconds", Help: "Seconds of each phase of full sweeps.", Buckets: buckets,
		}, []string{"phase"}),
		sweepSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "heddle_sweep_seconds", Help: "Seconds of full sweeps.", Buckets: buckets,
		}),
	}
}

// Describe sends nothing: the collector is unchecked, its metrics depend on
// what the subnet has.
func (c *collector) Describe(chan<- *prometheus.Desc) {}

func (c *collector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	count := func(d *prometheus.Desc, v uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	st := c.d.fresh()
	gauge(c.build, 1, version.Version)
	for s := subnet.NotActive; s <= subnet.Master; s++ {
		gauge(c.state, b2f(st.State == s), s.String())
	}
	gauge(c.up, b2f(st.Up))
	gauge(c.lid, float64(st.LID))
	gauge(c.unseen, float64(st.Unseen))
	gauge(c.ownSilent, b2f(st.OwnSilent))
	for _, a := range st.Attrs {
		name := ib.AttrName(ib.ClassSubnLID, a.Attr)
		count(c.sent, a.Sent, name)
		count(c.retried, a.Retried, name)
		count(c.timedOut, a.TimedOut, name)
	}
	gauge(c.window, float64(st.Window))
	gauge(c.inFlight, float64(st.InFlight))
	count(c.sweeps, st.Sweeps, "full")
	count(c.sweeps, st.Light, "light")
	count(c.traps, st.Traps)
	count(c.falseTraps, st.FalseTraps)
	count(c.smpsCut, c.d.smpsCut.Load())
	count(c.noticesCut, c.d.noticesCut.Load())
	if s := c.d.Snapshot(); s != nil {
		gauge(c.generation, float64(s.Gen))
		gauge(c.nodes, float64(s.Counts.Switches), "switch")
		gauge(c.nodes, float64(s.Counts.CAs), "ca")
		gauge(c.nodes, float64(s.Counts.Routers), "router")
		gauge(c.links, float64(s.Counts.LinksActive), "active")
		gauge(c.links, float64(s.Counts.Links-s.Counts.LinksActive), "other")
		gauge(c.lids, float64(s.Counts.LIDs))
		gauge(c.endports, float64(s.Counts.EndPorts))
		gauge(c.problems, float64(s.Counts.Problems))
	}
	if r := st.Last; r != nil {
		for p, t := range r.Phases {
			if t > 0 {
				gauge(c.lastPhase, t.Seconds(), sm.Phase(p).String())
			}
		}
		gauge(c.lastBlocks, float64(r.BlocksSent))
		gauge(c.lastTook, r.Took.Seconds())
	}
	c.d.events.mu.Lock()
	last := c.d.events.last
	c.d.events.mu.Unlock()
	count(c.events, last)
	c.sa.collect(ch, gauge, count)
	c.vm.collect(ch, gauge, count)
	c.repairs.collect(ch, count)

	for _, r := range c.d.phases.take() {
		for p, t := range r.Phases {
			if t > 0 {
				c.phaseSeconds.WithLabelValues(sm.Phase(p).String()).Observe(t.Seconds())
			}
		}
		c.sweepSeconds.Observe(r.Took.Seconds())
	}
	c.phaseSeconds.Collect(ch)
	c.sweepSeconds.Collect(ch)
}

func b2f(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
