package experiment

import (
	"fmt"
	"time"

	"heddle/lab"
	"heddle/report"
	"heddle/sa"
	"heddle/sim/host/ipoib"
)

// What Paper V measured of IPoIB, in Gb/s, and of the processor in per cent: inputs here.
const (
	ipRate, ipCPU    = 11.0, 150.0 // on a virtual function
	eipRate, eipCPU  = 9.8, 300.0  // paravirtual
	rdmaCPU          = 150.0
	eipOutage        = 3 * time.Second
	ipSteady         = 3 * time.Second // before the migration
	ipWatched        = 16 * time.Second
	ipStep           = 200 * time.Millisecond
	nanosecondsOfCPU = 1e9 / 100 // one per cent of a processor for a second
)

// liveIP is a machine that sends by TCP on IPoIB while its function is away.
type liveIP struct {
	gbps  float64
	steps []float64
	away  time.Duration
	lines []ipLine
}

// ipLine is a migration whose interface comes up some time after its function.
type ipLine struct {
	late     time.Duration
	outage   time.Duration
	timeouts uint64
	notices  uint64 // to the peer's server
	ended    bool   // the stream went on
}

// ipLates are the times that drivers of the machine may take besides: not published.
var ipLates = []time.Duration{0, 500 * time.Millisecond, time.Second, 1500 * time.Millisecond, 3 * time.Second}

// run migrates the machine with the function away for as long as by the three stages.
func (x *liveIP) run(stages *wayResult, seed uint64) error {
	x.away = stages.away
	for i, late := range ipLates {
		l := ipLine{late: late}
		if err := x.migrate(&l, seed, i == 0); err != nil {
			return fmt.Errorf("IPoIB, %v later: %w", late, err)
		}
		x.lines = append(x.lines, l)
	}
	return nil
}

func (x *liveIP) migrate(l *ipLine, seed uint64, first bool) error {
	n, err := newIPBed(seed)
	if err != nil {
		return err
	}
	a, err := n.AddGuest("VMa", n.Servers[hostA], 1)
	if err != nil {
		return err
	}
	b, err := n.AddGuest("VM1", n.Servers[hostB], 1)
	if err != nil {
		return err
	}
	tcp := ipoib.TCPDefaults()
	tcp.Rate = ipRate * 1e9
	s, r := a.Stream(b, 1, 0, tcp)
	n.Run(ipSteady)
	was := r.Got()
	began := n.Sim.Now()
	sample := func(until time.Duration) {
		for n.Sim.Now().Sub(began) < until {
			n.Run(ipStep)
			if first {
				x.steps = append(x.steps, float64(r.Got()-was)*8/float64(ipStep.Nanoseconds()))
			}
			was = r.Got()
		}
	}
	got := was
	sample(liveBefore)
	if first {
		x.gbps = float64(r.Got()-got) * 8 / float64(liveBefore.Nanoseconds())
	}
	r.Gap(n.Sim.Now())
	heard := n.Servers[hostB].Client.Count.Reports
	if err := a.Migrate(n.Servers[hostC], 1, x.away+l.late); err != nil {
		return err
	}
	sample(liveBefore + ipWatched)
	before := r.Got()
	n.Run(time.Second)
	l.ended = r.Got() > before
	l.outage = r.Gap(n.Sim.Now())
	l.timeouts, l.notices = s.Count.Timeouts, n.Servers[hostB].Client.Count.Reports-heard
	return nil
}

// newIPBed is the test bed with IPoIB on shared ports, and the manager in a node of its
// own.
func newIPBed(seed uint64) (*lab.IPNet, error) {
	cfg := lab.IPDefaults()
	cfg.CPU = ipCPU * nanosecondsOfCPU / (ipRate * 1e9 / 8)
	n, err := newVMNet(liveHosts, cfg, liveConfig(), sa.Defaults().Signal, seed)
	if err != nil {
		return nil, err
	}
	return n, n.Subscribe()
}

// section shows Figures 10 and 11.
func (x *liveIP) section(r *liveResults) report.Section {
	stages := seconds(r.stages().out)
	s := report.Section{
		Title: "IPoIB on a function (Figure 11)",
		Text: fmt.Sprintf("VMa sends to VM1 by TCP on IPoIB; its function is away for %.3g s, as by the three stages with late "+
			"detach, and the SA's notice tells VM1's server of the new LID. Then the stream waits for its retransmission "+
			"timer, whose times are 0.2 s × (2ⁿ − 1): 1.4, 3.0, 6.2 s. Rates and processor are inputs: %.3g Gb/s and %.0f %% on "+
			"a function. 'Later': drivers and tools of the machine bring the interface up so long after the function is there, "+
			"which is not published.", seconds(x.away), ipRate, ipCPU),
		Table: report.Table{Columns: []string{"interface up later, s", "outage, s", "× three stages", "time-outs", "notices to the peer's server"}},
	}
	for _, l := range x.lines {
		s.Table.Rows = append(s.Table.Rows, []any{seconds(l.late), seconds(l.outage), seconds(l.outage) / stages, int(l.timeouts), int(l.notices)})
	}
	first := seconds(x.lines[0].outage)
	why := ""
	if first < 1.5*stages {
		why = fmt.Sprintf(": the function is back after %.3g s, and the timer ends at %.3g s; only an interface that is away for "+
			"more than 3 s waits for 6.2 s", seconds(x.away), first)
	}
	s.Claim = []report.Claim{{
		What: "P5.4: outage of IPoIB on a function, at least 1.5 × that of the three stages", Published: "5 s and 3 s",
		Measured: fmt.Sprintf("%.3g s: %.3g ×%s", first, first/stages, why),
		Holds:    x.lines[0].ended && first >= 1.5*stages,
	}}
	return s
}

// timeline is the stream over time, and what its bytes cost the processor.
func (x *liveIP) timeline() report.Section {
	s := report.Section{
		Title: "IPoIB on a function over time (Figure 11)",
		Text: fmt.Sprintf("The function is taken away at %.3g s. The processor is a cost per byte, %.3g ns: no measurement.",
			seconds(liveBefore), ipCPU*nanosecondsOfCPU/(ipRate*1e9/8)),
		Table: report.Table{Columns: []string{"s", "VMa-VM1, Gb/s", "processor, %"}},
		Plots: []report.Plot{{
			Title: "Figure 11", X: "s", Y: "Gb/s", Wide: true, Columns: []int{1}, Right: []int{2}, RightY: "%",
			Marks: []float64{seconds(liveBefore), seconds(liveBefore + x.away)},
		}},
	}
	for i, v := range x.steps {
		s.Table.Rows = append(s.Table.Rows, []any{seconds(ipStep * time.Duration(i+1)), v, v * ipCPU / ipRate})
	}
	return s
}

// rateSection sets the three kinds of the paper side by side.
func (r *liveResults) rateSection() report.Section {
	rdma, stages := r.figures[figureOne].before[0], r.stages()
	return report.Section{
		Title: "Three kinds of network interface (P5.5)",
		Text: "The line of eIPoIB is input altogether, so it has no claim: a paravirtual interface is not detached, and what its " +
			"published 3 s consist of is not known. The processor's load is the published one at the published rate, by byte.",
		Table: report.Table{
			Columns: []string{"interface", "Gb/s", "outage, s", "processor, %", "published: Gb/s", "s", "%"},
			Rows: [][]any{
				{"eIPoIB, paravirtual (input)", eipRate, seconds(eipOutage), eipCPU, 9.8, 3.0, 300.0},
				{"IPoIB on a function", r.ip.gbps, seconds(r.ip.lines[0].outage), r.ip.gbps * ipCPU / ipRate, 11.0, 5.0, 150.0},
				{"RDMA, three stages", rdma, seconds(stages.out), rdma * rdmaCPU / liveGbps, 25.0, 3.0, 150.0},
			},
		},
	}
}
