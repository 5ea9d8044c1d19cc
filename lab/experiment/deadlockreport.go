package experiment

import (
	"fmt"
	"slices"
	"time"

	"heddle/lab/experiment/bed"
	"heddle/report"
	"heddle/sim/dataplane"
)

type deadlockResults struct {
	seed  uint64
	runs  int
	life  uint8 // code of the lifetimes of the published method
	span  time.Duration
	still []stillResult
	cut   []cutResult
}

// The cases that claims speak of, by their place in stillCases and cutCases.
const (
	stillMesh = iota
	stillRing
	stillStuck
	stillLimits
	stillSaturated
)

const (
	cutLimits = iota
	cutNone
	cutRepath
	cutRepathNone
	cutStrict
	cutAvailable
	cutStrictKeep
	cutStrictAgainst
	cutAvailableKeep
	cutStrictNone
)

func (r *deadlockResults) report() *report.Report {
	return &report.Report{
		Name: "deadlock", Title: "A ring that stands still", Seed: r.seed,
		Source: "W. L. Guay: Dynamic reconfiguration in interconnection networks (PhD thesis, 2014), Paper I " +
			"(Figures 5 and 9) and Paper II (Figures 1 to 3)",
		Intro: fmt.Sprintf("A 3×2 mesh of six switches with a host each, DDR cables, %v Gb/s of payload by "+
			"host, packets of 2 KiB. Six flows: %v. Heddle's manager routes with lash; its tables and lifetimes "+
			"are read by each packet from the simulated switches. "+
			"Then the cable between S2 and S5 is cut. Source model: each host sends at random times (Poisson), "+
			"%.2f Gb/s in the mean, %.0f %% of half a cable; at most %d packets wait at a host, the excess "+
			"is lost. %d runs of each line, with seeds from %d on. "+
			"Rates are Gb/s of payload, of all six flows together unless said.", bed.HostGbps, sixFlows, ringOffer(),
			100*ringShare, deadlockConfig(0).SourceQueue, r.runs, r.seed),
		Sections: []report.Section{
			r.settings(), r.stillSection(), r.cycleSection(), r.cutSection(),
			r.timeline(true), r.timeline(false),
		},
	}
}

// ringOffer is what a flow offers, in Gb/s of payload.
func ringOffer() float64 { return 7.9 * ringShare }

func (r *deadlockResults) settings() report.Section {
	dc := deadlockConfig(0)
	c := cutCases[cutStrict]
	list := append(deviations(c.config(), map[string]string{
		"PacketLife": "under our plans: a thousandth, or their waits could not be simulated",
		"RepathTime": "the same", "ImproveDelay": "the same",
		"Transition": "as each line says",
	}),
		setting{
			"lifetimes under the published method", fmt.Sprintf("code %d", r.life), "code 18",
			"'no limits': both above 19",
		},
		setting{
			"hosts repath after", fmt.Sprintf("%v; %v with whole tables", learnSoon, learnLate), "-",
			"from the moment that new levels are published",
		},
		setting{
			"input buffers", fmt.Sprintf("%d blocks a port, split among 8 lanes", dc.Buffer), "-",
			"not published",
		},
		setting{"switch delay", dc.SwitchDelay.String(), "-", "not published"},
		setting{
			"queues", fmt.Sprintf("%v, %d read of an input at a time, %v", dc.Input, dc.Reads, dc.Choice), "-",
			"not published",
		},
	)
	return settingsSection(list)
}

func (r *deadlockResults) stillSection() report.Section {
	s := report.Section{
		Title: "No change (Paper II, Figures 1 to 3)",
		Text: "'At first' is from 0.1 to 0.5 ms, 'in the end' 10 ms after 20 ms; with limits three lifetimes. " +
			"Sources that are always ready never bring the ring to a stand-still here: each output takes its " +
			"two inputs strictly in turn, so through traffic always has half of a cable. A pause of one " +
			"source gives its neighbor more than half, and buffers fill permanently. " +
			"That the ring can stand still is a matter of its tables; whether and when it does, one of turns " +
			"and pauses.",
		Table: report.Table{Columns: []string{
			"case", "lanes", "at first, Gb/s", "in the end, least", "most",
			"runs that stood still", "after, ms", "to", "discarded by limits",
		}},
	}
	for i, c := range r.still {
		row := []any{
			stillCases[i].name, c.lanes, bed.Average(c.most), slices.Min(c.total), slices.Max(c.total),
			c.stood, nil, nil, int(c.lost),
		}
		if c.stood > 0 {
			row[6], row[7] = c.soonest.Seconds()*1000, c.lasted.Seconds()*1000
		}
		s.Table.Rows = append(s.Table.Rows, row)
	}
	mesh, ring, stuck, lim := &r.still[stillMesh], &r.still[stillRing], &r.still[stillStuck], &r.still[stillLimits]
	s.Claim = []report.Claim{
		{
			What: "P1.1: lanes that LASH takes, mesh and ring", Published: "1, 2",
			Measured: fmt.Sprintf("%d, %d", mesh.lanes, ring.lanes), Holds: mesh.lanes == 1 && ring.lanes == 2,
		},
		{
			What: "its tables do not stand still, on the mesh and on the ring", Published: "no cycle (Figures 1, 2)",
			Measured: fmt.Sprintf("%d of %d runs stood still", mesh.stood+ring.stood, 2*r.runs),
			Holds:    mesh.stood+ring.stood == 0,
		},
		{
			What: "P2.1: the ring with the mesh's levels stands still", Published: "deadlock (Figure 3)",
			Measured: fmt.Sprintf("%d of %d runs; %.3g Gb/s after it", stuck.stood, r.runs, slices.Max(stuck.total)),
			Holds:    stuck.stood == r.runs && slices.Max(stuck.total) == 0,
		},
		{
			What: "with limits it goes on, below 1 %", Published: "below 1 % (Paper I, Figure 9)",
			Measured: fmt.Sprintf("%.3g %%, %d packets discarded by limits",
				100*slices.Max(lim.total)/bed.Average(ring.total), lim.lost),
			Holds: slices.Max(lim.total) > 0 && slices.Max(lim.total) < 0.01*bed.Average(ring.total),
		},
	}
	return s
}

// cycleSection is the witness.
func (r *deadlockResults) cycleSection() report.Section {
	s := report.Section{
		Title: "What waits for what",
		Text: "The circle of the last run of 'ring, the mesh's levels, no limits', as the detector found it. " +
			"It looks at credits: heads of buffers that only other heads of the circle can free. Each line " +
			"waits for the next, the last for the first.",
		Table: report.Table{Columns: []string{
			"switch", "input", "lane", "waits for output", "lane ",
			"with a packet for LID",
		}},
	}
	c := &r.still[stillStuck]
	names := map[string]bool{}
	if c.cycle != nil {
		for _, w := range c.cycle.Cycle {
			name := c.f.Nodes[w.In.Node].Name()
			names[name] = true
			s.Table.Rows = append(s.Table.Rows, []any{
				name, int(w.In.Port), int(w.VL), int(w.Out.Port), int(w.Lane),
				int(w.DLID),
			})
		}
	}
	measured := fmt.Sprintf("%d channels of %d switches, each behind the table entry of the one before; "+
		"route/check finds the same circle",
		len(s.Table.Rows), len(names))
	if c.bad != nil {
		measured = c.bad.Error()
	}
	s.Claim = []report.Claim{{
		What: "P2.1: the detector names the cycle", Published: "six dependencies around the ring",
		Measured: measured, Holds: c.bad == nil && len(s.Table.Rows) == 6 && len(names) == 6,
	}}
	return s
}

func (r *deadlockResults) cutSection() report.Section {
	s := report.Section{
		Title: "The cable S2-S5 is cut",
		Text: "'Whole tables': as OpenSM does, tables for the ring are written and nobody asks what hosts use; " +
			"links go down meanwhile (policy static2003). 'Strict' and 'availability' are Heddle's policies; " +
			"lifetimes are a thousandth of the product's there. " +
			"'Hosts keep their levels': they get no notification. The manager's setting says that they may never " +
			"repath (repath-time 0), except in 'against the setting', where it says that they do in time, and " +
			"they do not. " +
			"'In the end' is the second half of the time looked at. 'Slowest' is the least rate of a flow that " +
			"the cut does not touch, in any of its steps.",
		Table: report.Table{Columns: []string{
			"case", "plan", "before, Gb/s", "in the end, Gb/s", "% of before", "slowest, Gb/s", "runs that " +
				"stood still",
			"announced in", "runs with pairs left broken", "lost for the cut", "no route", "by limits",
		}},
	}
	for i, c := range r.cut {
		s.Table.Rows = append(s.Table.Rows, []any{
			cutCases[i].name, c.plan, bed.Average(c.before), bed.Average(c.after),
			100 * bed.Average(c.after) / bed.Average(c.before), slices.Min(c.least), c.stood, c.risk, c.broken,
			int(c.lost[dataplane.Inactive] + c.lost[dataplane.LostOnWire] + c.lost[dataplane.BadEnd]),
			int(c.lost[dataplane.NoRoute]), int(limited(&c.lost)),
		})
	}
	s.Claim = append(r.publishedClaims(), r.plannedClaims()...)
	return s
}

func (r *deadlockResults) publishedClaims() []report.Claim {
	lim, none, rep, stuck := &r.cut[cutLimits], &r.cut[cutNone], &r.cut[cutRepath], &r.cut[cutRepathNone]
	ring := bed.Average(r.still[stillRing].total)
	share := func(c *cutResult) float64 { return 100 * slices.Max(c.after) / bed.Average(c.before) }
	return []report.Claim{
		{
			What: "P1.5: total after the cut, hosts keep their levels, limits", Published: "below 1 %",
			Measured: fmt.Sprintf("at most %.3g %%", share(lim)), Holds: share(lim) < 1 && lim.stood == r.runs,
		},
		{
			What: "P1.5: the same without limits", Published: "- (the criterion: 0)",
			Measured: fmt.Sprintf("%.3g %%", share(none)), Holds: share(none) == 0 && none.stood == r.runs,
		},
		{
			What:      "hosts repath: the ring's level comes back, with limits (P1.6 for streams)",
			Published: "most of the bandwidth",
			Measured: fmt.Sprintf("%.3g of %.3g Gb/s in %v, %.3g at last", bed.Average(rep.after), ring, r.span,
				atEnd(rep.steps)),
			Holds: atEnd(rep.steps) > 0.95*ring,
		},
		{
			What:      "hosts repath, without limits: what holds the circle is on the old lane and stays",
			Published: "not considered",
			Measured:  fmt.Sprintf("%.3g of %.3g Gb/s: the flow that changed its lane", bed.Average(stuck.after), ring),
			Holds:     bed.Average(stuck.after) < 0.5*ring,
		},
	}
}

func (r *deadlockResults) plannedClaims() []report.Claim {
	ring := bed.Average(r.still[stillRing].total)
	touched := slices.Min(r.cut[cutStrict].before) / 12 // half of a flow's rate
	stands := func(k int, what string) report.Claim {
		c := &r.cut[k]
		said := ""
		if c.risk > 0 {
			said = fmt.Sprintf("; announced as a transient cycle in %d", c.risk)
		}
		return report.Claim{
			What: what, Published: "nothing may stand still",
			Measured: fmt.Sprintf("%d of %d runs stood still%s; the slowest untouched flow had %.3g Gb/s", c.stood,
				r.runs, said, slices.Min(c.least)),
			Holds: c.stood == 0 && slices.Min(c.least) > touched,
		}
	}
	strict, keep := &r.cut[cutStrict], &r.cut[cutStrictKeep]
	return []report.Claim{
		stands(cutStrict, "strict, hosts repath in time"),
		{
			What: "strict, hosts repath in time: the ring's level", Published: "-",
			Measured: fmt.Sprintf("%.3g of %.3g Gb/s", bed.Average(strict.after), ring),
			Holds:    bed.Average(strict.after) > 0.95*ring,
		},
		stands(cutStrictKeep, "strict, no host ever repaths, and the manager knows"),
		{
			What: "then the flows that the cut does not touch go on, and switches discard of the others what could " +
				"close the circle", Published: "-",
			Measured: fmt.Sprintf("%.3g Gb/s; pairs stay broken in %d of %d runs", bed.Average(keep.after), keep.broken,
				r.runs),
			Holds: bed.Average(keep.after) > 0.9*4*ringOffer() && keep.broken == 0,
		},
		stands(cutStrictNone, "the same without limits"),
		stands(cutStrictAgainst, "strict, no host repaths, against the setting"),
		stands(cutAvailable, "availability (the default), hosts repath in time"),
		stands(cutAvailableKeep, "availability, no host ever repaths"),
	}
}

func atEnd(x []float64) float64 {
	if len(x) == 0 {
		return 0
	}
	return x[len(x)-1]
}

// timeline is the rate over time, of the first runs: of the published method
// (Paper I, Figure 9), or of our plans.
func (r *deadlockResults) timeline(published bool) report.Section {
	s := report.Section{Title: "Rates after the cut under Heddle's plans", Text: "Of the first run of each; " +
		"lifetimes and waits are a thousandth of the product's."}
	if published {
		s.Title, s.Text = "Rates after the cut (Paper I, Figure 9)", "Of the first run of each, from the cut on."
	}
	s.Table.Columns = []string{"ms"}
	p := report.Plot{Title: "Total of the six flows", X: "ms after the cut", Y: "Gb/s", Wide: true}
	span := plannedSpan
	if published {
		span = r.span
	}
	s.Table.Rows = make([][]any, cutSteps)
	for k := range s.Table.Rows {
		s.Table.Rows[k] = []any{(span / cutSteps * time.Duration(k+1)).Seconds() * 1000}
	}
	for i := range r.cut {
		if c := &cutCases[i]; c.published() == published {
			p.Columns = append(p.Columns, len(s.Table.Columns))
			s.Table.Columns = append(s.Table.Columns, c.name)
			for k, v := range r.cut[i].steps {
				s.Table.Rows[k] = append(s.Table.Rows[k], v)
			}
		}
	}
	s.Plots = []report.Plot{p}
	return s
}
