package experiment

import (
	"fmt"
	"math"
	"time"

	"heddle/report"
	"heddle/sim/host/repath"
)

// pairsOf are the changed pairs of OpenSM 3.3.23 by switches, of Figure 9 for 400 and measured before for
// the others; pairsLimit is what computing anew changes in Heddle.
var (
	pairsOf    = map[int]int{36: 628, 144: 10294, 400: 79798}
	pairsLimit = map[int]int{36: 126, 144: 936, 400: 4200}
)

const megabyte = 1e6

// The paper's formulas, equations 1 to 9: n switches with a host each, m changed pairs; bytes, and
// seconds at a host with times solved from its figures.
const (
	paperUnit  = 256      // G
	paperQuery = 18e-3    // t1 + t2
	paperLook  = 0.112e-3 // t3
	paperMove  = 0.44e-3  // t4
	paperApart = 910e-3   // t5
)

func hybridBytes(n int) float64   { return (4*float64(n) + float64(n*n)/4) * paperUnit }
func wildcardBytes(n int) float64 { return 2 * hybridBytes(n) }
func repathBytes(m int) float64   { return float64(m) * paperUnit }

func hybridTime(n, m int) float64 {
	return paperQuery + float64(n-1)*paperLook + float64(m)/float64(n)*paperMove
}

func wildcardTime(n, m int) float64 {
	return 2*(paperQuery+float64(n-1)*paperLook) + float64(m)/float64(n)*paperMove + paperApart
}

func repathTime(n, m int) float64 {
	return float64(n-1)*paperLook*float64(m)/float64(n) + float64(m)/float64(n)*paperMove
}

func (r *signalResults) report() *report.Report {
	peer := "OpenSM routes the same networks on the same simulator, as a process."
	if !r.peer {
		peer = "OpenSM or ibsim-run is not installed here: what rests on it is not measured, and its claims fail."
	}
	return &report.Report{
		Name: "signalling", Title: "Notifying hosts of changed paths", Seed: r.seed,
		Source: "W. L. Guay: Dynamic reconfiguration in interconnection networks (PhD thesis, 2014), Paper II: Figures 7 to 11",
		Intro: "A cable is cut, lash takes a second lane, and hosts have to use another service level to some peers. Published " +
			"ways: 'wildcard' notifies all hosts after each of two sweeps, and each asks for all its paths; 'repath only' " +
			"sends each changed path to the host concerned; 'hybrid' is wildcard, once, and only if a path changed. Lines " +
			"with 'Heddle' are the product's lash, plans and ways (--signal); the others have lash that computes all anew " +
			"and balances lanes as OpenSM does, whole tables, a handler that asks all queue pairs for each notice, and " +
			"no rate for Reports. Latency is that of a host from its first notice until its queue pairs are right. " +
			"Connections are idle. P2.1, the ring that stands still with the mesh's levels, is in experiment 'deadlock'. " + peer,
		Sections: []report.Section{
			r.settings(), r.bedSection(), r.routingSection(), r.processSection(), r.pairsSection(), r.bytesSection(),
			r.formulaSection(), r.latencySection(), r.sweepSection(),
		},
	}
}

func (r *signalResults) settings() report.Section {
	hc := signalCases[signalHybrid].hosts()
	c := hc.Repath.Costs
	return settingsSection([]setting{
		{"t1, to make a query", c.Query.String(), "-", "input; t1 + t2 are 18 ms in the paper"},
		{"t2, to wait for records", "simulated", "-", "the exchange with the SA; its answers take no processor time"},
		{"t3, to ask a queue pair", c.Look.String(), "-", "input; solved from the published points"},
		{"t4, to change a queue pair", c.Change.String(), "-", "input; solved from the published points"},
		{"t5, from a Report to that of the second sweep", sweepsApart.String(), "-", "input; the manager is told to route again then"},
		{"queue pairs are changed by", repath.ByDraining.String(), repath.ByMigration.String(), "idle connections are never ARMED"},
		{"lanes, published ways", "balanced to a difference of " + fmt.Sprint(lanesDiffer), "-", "random pairs, as OpenSM; Heddle has no such mode"},
		{"tables, published ways", "computed anew, written with ports inactive", "repaired under a plan", "hosts hear after they are in force"},
		{"--signal-rate, published ways", "without limit", "2000", "the paper has none"},
	})
}

// bedSection is Figure 7a.
func (r *signalResults) bedSection() report.Section {
	s := report.Section{
		Title: "One host's latency on the test bed (Figure 7a)",
		Text:  "The 3×2 mesh, a connection between each two of six hosts. Wrong: queue pairs with another level than the manager's when all is quiet.",
		Table: report.Table{Columns: []string{
			"way", "cut 4-5: Reports", "latency, ms", "cut 2-5: Reports", "latency: mean, ms", "longest, ms", "queue pairs asked", "changed", "wrong",
		}},
	}
	reports, wrong := 0, 0
	for i := range signalCases {
		a, b := &r.lanes[i], &r.moved[i]
		s.Table.Rows = append(s.Table.Rows, []any{
			signalCases[i].name, a.reports, ms(a.longest), b.reports, ms(b.mean), ms(b.longest), int(b.looked), int(b.changed), b.wrong,
		})
		if i != signalTwice && i != signalOnce && i != heddleWildcard {
			reports += a.reports
		}
		wrong += a.wrong + b.wrong
	}
	longest := max(r.moved[signalRepath].longest, r.moved[signalHybrid].longest)
	twice, once := r.moved[signalTwice].mean, r.moved[signalOnce].mean
	s.Claim = []report.Claim{
		{
			What: "P2.2: cut 4-5, lanes unchanged: Reports of all ways but wildcard", Published: "780 ms with wildcard, 0 otherwise",
			Measured: fmt.Sprintf("%d; wildcard %d, %.3g ms", reports, r.lanes[signalTwice].reports, ms(r.lanes[signalTwice].mean)),
			Holds:    reports == 0 && r.lanes[signalTwice].reports > 0,
		},
		{
			What: "P2.3: cut 2-5: repath only and hybrid take at most 10 % of wildcard", Published: "930, 20, 20 ms",
			Measured: fmt.Sprintf("at most %.3g of %.3g ms", ms(longest), ms(twice)), Holds: longest.Seconds() <= 0.1*twice.Seconds(),
		},
		{
			What: "the same, with one sweep for each cable: t5 disappears, and with it what wildcard costs a host more than hybrid", Published: "not considered",
			Measured: fmt.Sprintf("at most %.3g of %.3g ms", ms(longest), ms(once)), Holds: longest.Seconds() <= 0.1*once.Seconds(),
		},
		{
			What: "queue pairs that are wrong in the end, all ways", Published: "-", Measured: fmt.Sprint(wrong), Holds: wrong == 0 && r.moved[signalHybrid].changed > 0,
		},
	}
	return s
}

// routingSection is Figure 7b.
func (r *signalResults) routingSection() report.Section {
	s := report.Section{
		Title: "What the comparison costs the manager (Figure 7b)",
		Text: fmt.Sprintf("Time of this machine: the paths of all pairs compared (route.DiffPaths), the tables repaired by lash, "+
			"both medians of %d on one thread, and the jobs of the product after the cut, the quickest of its four ways: tables, their proof, and the plan.", signalTries),
		Table: report.Table{Columns: []string{"switches", "comparison, ms", "repair alone, ms", "rerouting, ms", "comparison, % of rerouting"}},
	}
	var got float64
	for i := range r.sizes {
		x := &r.sizes[i]
		runs := x.runs
		if runs == nil {
			runs = r.moved
		}
		job := runs[heddleWildcard].routed
		for k := range runs[heddleWildcard:] {
			job = min(job, runs[heddleWildcard+k].routed)
		}
		got = 100 * x.lanes.compared.Seconds() / job.Seconds()
		s.Table.Rows = append(s.Table.Rows, []any{x.n, ms(x.lanes.compared), ms(x.lanes.routed), ms(job), got})
	}
	s.Claim = []report.Claim{{
		What: "P2.4: the comparison takes at most 5 % of the rerouting time, in the largest network", Published: "no increase",
		Measured: fmt.Sprintf("%.3g %%", got), Holds: got <= 5,
	}}
	return s
}

// processSection is Figure 8.
func (r *signalResults) processSection() report.Section {
	s := report.Section{
		Title: "More processes on the six hosts (Figure 8)",
		Text: "A connection between each two processes on different hosts; cut 2-5. Mean latency of the hosts in ms, and the longest. " +
			"Wildcard rises by one walk over the queue pairs alone, as t5 hides the first: that is the published rise by 70 ms.",
		Table: report.Table{Columns: []string{"processes"}},
		Plots: []report.Plot{{Title: "Mean latency", X: "processes", Y: "ms"}},
	}
	for i := range signalCases {
		s.Plots[0].Columns = append(s.Plots[0].Columns, len(s.Table.Columns))
		s.Table.Columns = append(s.Table.Columns, signalCases[i].name, "longest")
	}
	for k, list := range r.many {
		row := []any{r.processes[k]}
		for i := range list {
			row = append(row, ms(list[i].mean), ms(list[i].longest))
		}
		s.Table.Rows = append(s.Table.Rows, row)
	}
	few, list := r.many[0], r.many[len(r.many)-1]
	mean := func(i int) float64 { return ms(list[i].mean) }
	s.Claim = []report.Claim{
		{
			What: fmt.Sprintf("P2.5: %d processes: hybrid takes at most 0.34 of repath only", r.processes[len(r.many)-1]), Published: "150 of 500 ms",
			Measured: fmt.Sprintf("%.3g of %.3g ms. A host has %.2g Reports in the mean, and as many walks", mean(signalHybrid), mean(signalRepath),
				float64(list[signalRepath].reports)/6),
			Holds: mean(signalHybrid) <= 0.34*mean(signalRepath),
		},
		{
			What: "P2.5: and at most 1/6 of wildcard", Published: "150 of 1,000 ms",
			Measured: fmt.Sprintf("%.3g of %.3g ms. Of these %.3g ms change queue pairs, which wildcard does while it waits for its second Report",
				mean(signalHybrid), mean(signalTwice), ms(time.Duration(list[signalHybrid].changed)*signalCases[signalHybrid].hosts().Repath.Costs.Change)/6),
			Holds: mean(signalHybrid) <= mean(signalTwice)/6,
		},
		{
			What: "the rise of wildcard is at most that of hybrid", Published: "70 and 130 ms (doubted in the reference)",
			Measured: fmt.Sprintf("%.3g and %.3g ms", mean(signalTwice)-ms(few[signalTwice].mean), mean(signalHybrid)-ms(few[signalHybrid].mean)),
			Holds:    mean(signalTwice)-ms(few[signalTwice].mean) <= mean(signalHybrid)-ms(few[signalHybrid].mean),
		},
	}
	return s
}

// pairsSection is Figure 9.
func (r *signalResults) pairsSection() report.Section {
	s := report.Section{
		Title: "Pairs of switches that change lanes (Figure 9)",
		Text: "Square meshes without a cable in the middle; the test bed without 2-5. All pairs have one lane before. " +
			"OpenSM balances its lanes at random, so half of all pairs change; LASH itself needs few. Its two sweeps come from the " +
			"switch whose trap was to take the cable, and which repeats it.",
		Table: report.Table{Columns: []string{
			"switches", "OpenSM", "OpenSM before it balances", "sweeps", "apart, s", "Heddle", "Heddle, computed anew", "balanced as here",
		}},
		Plots: []report.Plot{{Title: "Changed pairs", X: "switches", Y: "ordered pairs", Columns: []int{1, 5}, Log: true}},
	}
	var claims []report.Claim
	for i := range r.sizes {
		x := &r.sizes[i]
		row := []any{x.n, nil, nil, nil, nil, x.lanes.updated, x.lanes.afresh, nil}
		measured, holds := "not measured", false
		if p := &x.lanes.peer; r.peer {
			row[1], row[2], row[3], row[4] = p.changed(), beyondFirst(p.Fitted), p.Sweeps, p.Apart.Seconds()
			measured, holds = fmt.Sprint(p.changed()), abs(p.changed()-pairsOf[x.n]) <= 4
			if len(p.Before) != 1 {
				measured, holds = "several lanes before the cut", false
			}
		}
		if x.runs != nil {
			row[7] = int(x.runs[signalHybrid].changed)
		}
		s.Table.Rows = append(s.Table.Rows, row)
		if want, ok := pairsOf[x.n]; ok {
			claims = []report.Claim{
				{What: fmt.Sprintf("P2.6: OpenSM at %d switches, ± 4", x.n), Published: fmt.Sprint(want), Measured: measured, Holds: holds},
				{
					What: fmt.Sprintf("P2.6: Heddle at %d switches, at most %d", x.n, pairsLimit[x.n]), Published: "-",
					Measured: fmt.Sprintf("%d; DiffPaths finds %d", x.lanes.updated, x.lanes.found),
					Holds:    x.lanes.updated <= pairsLimit[x.n] && x.lanes.found == x.lanes.updated,
				},
			}
		}
	}
	s.Claim = claims
	return s
}

// beyondFirst is how many pairs are in other lanes than the first.
func beyondFirst(lanes []int) (n int) {
	for _, k := range lanes[1:] {
		n += k
	}
	return n
}

func abs(x int) int { return max(x, -x) }

// changed is m of a network, by OpenSM if it is there.
func (r *signalResults) changed(x *signalSize) int {
	if r.peer {
		return x.lanes.peer.changed()
	}
	return 0
}

// bytesSection is Figure 10.
func (r *signalResults) bytesSection() report.Section {
	s := report.Section{
		Title: "Management bytes (Figure 10)",
		Text: "MB by formula with OpenSM's changed pairs, and on the wire: all MADs of all hosts after the cut, 256 bytes each, with " +
			"ReportResps, RMPP segments and their acknowledgments. A host's records include those of the switches' ports 0, so an answer " +
			"has twice the paper's, and repath only has two Reports for a pair of switches.",
		Table: report.Table{Columns: []string{"switches", "wildcard, formula", "repath only, formula", "hybrid, formula"}},
	}
	for i := range signalCases {
		s.Table.Columns = append(s.Table.Columns, signalCases[i].name)
	}
	s.Plots = []report.Plot{{
		Title: "By formula, and Heddle's ways on the wire", X: "switches", Y: "MB",
		Columns: []int{1, 2, 3, 4 + signalTwice, 4 + signalRepath, 4 + signalHybrid, 4 + heddleTargeted}, Log: true,
	}}
	for i := range r.sizes {
		x := &r.sizes[i]
		if x.runs == nil {
			continue
		}
		row := []any{x.n, wildcardBytes(x.n) / megabyte, repathBytes(r.changed(x)) / megabyte, hybridBytes(x.n) / megabyte}
		for k := range x.runs {
			row = append(row, float64(x.runs[k].bytes)/megabyte)
		}
		s.Table.Rows = append(s.Table.Rows, row)
	}
	x := &r.sizes[len(r.sizes)-1]
	if x.runs == nil {
		return s
	}
	if x.n == 400 {
		m := r.changed(x)
		s.Claim = append(s.Claim, report.Claim{
			What: "P2.7: formulas with the pairs that OpenSM changes: repath only, wildcard, hybrid", Published: "20.4, 21.3, 10.65 MB",
			Measured: fmt.Sprintf("%.1f, %.1f, %.2f MB", repathBytes(m)/megabyte, wildcardBytes(x.n)/megabyte, hybridBytes(x.n)/megabyte),
			Holds: within(repathBytes(m)/megabyte, 20.4, 0.005) && within(wildcardBytes(x.n)/megabyte, 21.3, 0.005) &&
				within(hybridBytes(x.n)/megabyte, 10.65, 0.005),
		})
	}
	if x.n < 100 {
		return s
	}
	targeted, hybrid := x.runs[heddleTargeted].bytes, x.runs[heddleHybrid].bytes
	s.Claim = append(s.Claim, report.Claim{
		What: "with levels that stay, targeted sends a tenth of hybrid's bytes", Published: "not considered",
		Measured: fmt.Sprintf("%.3g of %.3g MB", float64(targeted)/megabyte, float64(hybrid)/megabyte), Holds: targeted*10 <= hybrid && targeted > 0,
	})
	return s
}

// formulaSection is Figure 11 by formula.
func (r *signalResults) formulaSection() report.Section {
	s := report.Section{
		Title: "A host's latency by formula (Figure 11)",
		Text:  "Seconds by equations 7 to 9 with the pairs that OpenSM changes. t1 to t5 are solved from published points, one of them this figure's; the pairs are measured.",
		Table: report.Table{Columns: []string{"switches", "repath only", "wildcard", "hybrid", "repath only, Heddle's pairs"}},
		Plots: []report.Plot{{Title: "By formula", X: "switches", Y: "s", Columns: []int{1, 2, 3, 4}}},
	}
	for i := range r.sizes {
		x := &r.sizes[i]
		n, m := x.n, r.changed(x)
		s.Table.Rows = append(s.Table.Rows, []any{
			n, repathTime(n, m), wildcardTime(n, m), hybridTime(n, m), repathTime(n, x.lanes.updated),
		})
	}
	if x := &r.sizes[len(r.sizes)-1]; x.n == 400 {
		m := r.changed(x)
		a, b, c := repathTime(x.n, m), wildcardTime(x.n, m), hybridTime(x.n, m)
		s.Claim = []report.Claim{{
			What: "P2.8: by formula, ± 5 %: repath only, wildcard, hybrid", Published: "9, 1.12, 0.15 s",
			Measured: fmt.Sprintf("%.3g, %.3g, %.3g s", a, b, c), Holds: within(a, 9, 0.05) && within(b, 1.12, 0.05) && within(c, 0.15, 0.05),
		}}
	}
	return s
}

// latencySection is Figure 11 simulated.
func (r *signalResults) latencySection() report.Section {
	s := report.Section{
		Title: "A host's latency, simulated (Figure 11)",
		Text: "Mean of the hosts in s. Repath only has a walk over all queue pairs for each Report, and two Reports for each changed " +
			"pair of switches, as port 0 has a path too.",
		Table: report.Table{Columns: []string{"switches"}},
		Plots: []report.Plot{{Title: "Simulated", X: "switches", Y: "s", Log: true}},
	}
	for i := range signalCases {
		s.Plots[0].Columns = append(s.Plots[0].Columns, len(s.Table.Columns))
		s.Table.Columns = append(s.Table.Columns, signalCases[i].name)
	}
	wrong := 0
	for i := range r.sizes {
		x := &r.sizes[i]
		if x.runs == nil {
			continue
		}
		row := []any{x.n}
		for k := range x.runs {
			row = append(row, x.runs[k].mean.Seconds())
			wrong += x.runs[k].wrong
		}
		s.Table.Rows = append(s.Table.Rows, row)
	}
	x := &r.sizes[len(r.sizes)-1]
	if x.runs == nil {
		return s
	}
	a, b, c := x.runs[signalRepath].mean, x.runs[signalTwice].mean, x.runs[signalHybrid].mean
	s.Claim = []report.Claim{
		{
			What: fmt.Sprintf("P2.8: simulated at %d switches: repath only > wildcard > hybrid (from more than 133 switches on)", x.n), Published: "this order at 400",
			Measured: fmt.Sprintf("%.3g, %.3g, %.3g s", a.Seconds(), b.Seconds(), c.Seconds()),
			Holds:    b > c && (a > b || x.n <= 133),
		},
		{What: "queue pairs that are wrong in the end, all networks and ways", Published: "-", Measured: fmt.Sprint(wrong), Holds: wrong == 0},
	}
	return s
}

// sweepSection is what a cable costs beyond the paper.
func (r *signalResults) sweepSection() report.Section {
	s := report.Section{
		Title: "Sweeps and Reports for each cable",
		Text: fmt.Sprintf("The test bed under the product's configuration with lash. Sweeps and routing jobs of the first 8 s. A second sweep "+
			"reads one switch, 7 SMPs, and routes nothing: that of the trap which was to take the cut cable and is repeated. Reports of the host "+
			"that gets most, in 8 s and in %v: better tables are looked for after %v, and may change levels again. Targeted names each path "+
			"in a Report of its own, that to the switch's port 0 too.", sweepSpan, 10*time.Second),
		Table: report.Table{Columns: []string{"way", "cable", "sweeps", "routing jobs", "Reports, 8 s", "Reports, all", "last host notified after, ms"}},
	}
	var sweeps, routes uint64
	first, all := 0, 0
	for _, x := range r.sweeps {
		s.Table.Rows = append(s.Table.Rows, []any{x.mode.String(), x.cable, int(x.sweeps), int(x.routes), x.first, x.most, ms(x.told)})
		sweeps, routes = max(sweeps, x.sweeps), max(routes, x.routes)
		first, all = max(first, x.first), max(all, x.most)
	}
	s.Claim = []report.Claim{
		{
			What: "P2.9: sweeps that route, for each cable", Published: "2",
			Measured: fmt.Sprintf("%d; with those that read one switch again %d", routes, sweeps), Holds: routes == 1,
		},
		{
			What: "P2.9: Reports to a host for each cable, at most 1", Published: "2",
			Measured: fmt.Sprintf("at most %d for the repair, %d with better tables later", first, all), Holds: all <= 1,
		},
	}
	return s
}

// within reports whether got is want but for a share of it.
func within(got, want, share float64) bool { return math.Abs(got-want) <= share*want }
