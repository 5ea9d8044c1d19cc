// Package metrics presents a manager's counters and published state in
// Prometheus' format. The names are in docs/metrics.md. It counts nothing
// itself: a daemon supplies Values on each scrape.
package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"heddle/fabric/cabling"
	"heddle/ib"
	"heddle/internal/version"
	"heddle/perf/findings"
	"heddle/sa"
	"heddle/sm"
	"heddle/subnet"
	"heddle/vm"
)

// Values are the values of one scrape. Pointers may be nil.
type Values struct {
	SM   sm.Status
	Snap *subnet.Snapshot
	View *sa.View
	VMs  *vm.View
	// Sweeps are the full sweeps that ended since the last Values.
	Sweeps     []sm.SweepReport
	SMPsCut    uint64 // SMPs thrown away because too many waited
	StoodIn    uint64 // answers to Get(SMInfo) while the loop of the manager was at work
	NoticesCut uint64 // notices of the subnet manager that were left out
	Events     uint64
	Repairs    Repairs
	SA         SA
	VM         VM
	Perf       *Perf            // nil: counters are not read
	Findings   *findings.Report // nil: there is none yet
	Cabling    *cabling.Status  // nil: there is no plan, or this manager is not master
	Ports      *Ports           // nil: this manager is not master
	HotSpots   *HotSpots
	Congestion *Congestion // nil: congestion control was off all the time
}

// Count is a counter and its labels, in the order that the metric documents.
type Count struct {
	Labels []string
	N      uint64
}

// Counts is a histogram by powers of two, with a label if that is not empty:
// Buckets[i] counts values below 2^i, the last bucket all above.
type Counts struct {
	Label   string
	Buckets []uint64
	Sum     uint64 // of all; nanoseconds, where microseconds are counted
}

// New returns the contents of /metrics. now is called for each scrape, so a large
// fabric costs nothing in between.
func New(now func() Values) prometheus.Gatherer {
	reg := prometheus.NewRegistry()
	reg.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		newCollector(now),
	)
	return reg
}

// describe makes a metric of this program.
func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("heddle_"+name, help, labels, nil)
}

// sink takes the metrics of one scrape.
type sink chan<- prometheus.Metric

func (s sink) gauge(d *prometheus.Desc, v float64, labels ...string) {
	s <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

func (s sink) count(d *prometheus.Desc, v uint64, labels ...string) {
	s <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
}

func (s sink) counts(d *prometheus.Desc, list []Count) {
	for _, c := range list {
		s.count(d, c.N, c.Labels...)
	}
}

type collector struct {
	now func() Values

	build, state, up, lid, unseen, ownSilent                            *prometheus.Desc
	nodes, links, lids, endports, problems, events                      *prometheus.Desc
	sent, retried, timedOut, window, inFlight                           *prometheus.Desc
	sweeps, traps, falseTraps, noticesCut, smpsCut, stoodIn, generation *prometheus.Desc
	lastPhase, lastBlocks, lastTook                                     *prometheus.Desc
	sa                                                                  *saCollector
	vm                                                                  *vmCollector
	repairs                                                             *repairCollector
	perf                                                                *perfCollector
	findings                                                            *findingsCollector
	cabling                                                             *cablingCollector
	ports                                                               *portCollector
	hotSpots                                                            *hotSpotCollector
	congestion                                                          *congestionCollector
	phaseSeconds                                                        *prometheus.HistogramVec
	sweepSeconds                                                        prometheus.Histogram
}

func newCollector(now func() Values) *collector {
	desc := describe
	// From a tenth of a millisecond to about a hundred seconds.
	buckets := prometheus.ExponentialBuckets(1e-4, 4, 11)
	return &collector{
		now:        now,
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
		stoodIn:    desc("sminfo_stood_in_total", "Requests for SMInfo that were answered while the loop of the manager was at work."),
		generation: desc("generation", "Number of the published state."),
		lastPhase:  desc("last_sweep_phase_seconds", "Seconds of each phase of the last full sweep.", "phase"),
		lastBlocks: desc("last_sweep_lft_blocks", "LFT blocks that the last full sweep sent."),
		lastTook:   desc("last_sweep_seconds", "Seconds that the last full sweep took."),
		sa:         newSACollector(),
		vm:         newVMCollector(),
		repairs:    newRepairCollector(),
		perf:       newPerfCollector(),
		findings:   newFindingsCollector(),
		cabling:    newCablingCollector(),
		ports:      newPortCollector(),
		hotSpots:   newHotSpotCollector(),
		congestion: newCongestionCollector(),
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
	to := sink(ch)
	gauge, count := to.gauge, to.count
	x := c.now()
	st := &x.SM
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
	count(c.smpsCut, x.SMPsCut)
	count(c.stoodIn, x.StoodIn)
	count(c.noticesCut, x.NoticesCut)
	if s := x.Snap; s != nil {
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
	count(c.events, x.Events)
	c.sa.collect(to, &x)
	c.vm.collect(to, &x)
	c.repairs.collect(to, &x.Repairs)
	c.perf.collect(to, x.Perf)
	c.findings.collect(to, x.Findings)
	c.cabling.collect(to, x.Cabling)
	c.ports.collect(to, x.Ports)
	c.hotSpots.collect(to, x.HotSpots)
	c.congestion.collect(to, x.Congestion)

	for _, r := range x.Sweeps {
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
