package experiment

import (
	"fmt"
	"math"

	"heddle/report"
	"heddle/route"
)

const microseconds = 1e6

var changeKinds = [...]string{"removed", "added"}

func assimilationReport(seed uint64, runs int, sizes []int, rows []changes) *report.Report {
	r := &report.Report{
		Name: "change-assimilation", Title: "Assimilating a topology change", Seed: seed,
		Source: "A. Bermúdez, R. Casado, F. J. Quiles, T. M. Pinkston, J. Duato: Evaluation of a Subnet Management Mechanism for InfiniBand Networks, 2003, Figures 7-9",
		Intro: fmt.Sprintf("Irregular networks of four-port switches, %d of each size; each switch but the manager's own is removed and added in turn. "+
			"'Full static' stands for the published method: discover everything, compute everything, take all links down while tables are written. It differs from it: it routes by Heddle's updn, sends only blocks that differ, and takes cables down instead of ports. "+
			"'Incremental' is Heddle's own. Cables take %v, agents %v for an SMP; the time to compute is this machine's, and holds the proof of the tables and the plan of how they change, which the published method has not. Between two changes the subnet is left alone for %v.", runs, hopLatency, smaLatency, quiet),
	}
	why := map[string]string{
		"Engines":       "the published method is up*/down*",
		"Explicit":      "one engine is named",
		"DampHold":      "a switch that fails and returns at once is the experiment",
		"SweepInterval": "as in the paper, which has no traps; 'full static' is told of each change at once",
		"Transition":    "'full static' takes all links down",
	}
	for _, p := range profiles {
		list := []setting{{"traps", "off", "on", "as in the paper"}}
		seen := map[string]bool{}
		for _, m := range methods {
			for _, x := range deviations(managerConfig(p, m), why) {
				if key := x.name + x.value; !seen[key] {
					seen[key] = true
					if x.name == "SweepInterval" || x.name == "Transition" {
						x.name += " of '" + m.name + "'"
					}
					list = append(list, x)
				}
			}
		}
		s := settingsSection(list)
		s.Title += ": " + p.name
		r.Sections = append(r.Sections, s)
	}
	for k, p := range profiles {
		for kind := range changeKinds {
			r.Sections = append(r.Sections, timesSection(sizes, rows[k][kind], kind, p.name))
		}
	}
	for kind := range changeKinds { // with the product's defaults
		r.Sections = append(r.Sections, smpsSection(sizes, rows[0][kind], kind))
	}
	r.Sections = append(r.Sections, entriesSection(sizes, &rows[0]))
	return r
}

// timesSection is Figure 7 under a profile.
func timesSection(sizes []int, rows [2][]mean, kind int, profile string) report.Section {
	what := changeKinds[kind]
	both := []string{methods[0].name, methods[1].name}
	s := report.Section{
		Title: "Time to assimilate a switch that is " + what + " (Figure 7), " + profile,
		Text: "'Work' is all but the waits; computing is the median, all else the mean. 'Until noticed' is what is outside sweeps, above all the time until the change is noticed: the static method is told, the incremental one asks every 100 ms. " +
			"'Whole' is from the change until the last sweep for it has ended, waits, detection and computing included, with the least and the greatest of all changes. " +
			"Better tables, which are written when the fabric has been quiet for a while, are not part of it. " +
			"The last columns say of the incremental method which part of the changes took no wait, " +
			"and which part of the sweeps read a region only and computed only what the change touches.",
	}
	s.Table.Columns = []string{"switches"}
	for _, m := range []string{"static", "incremental"} {
		s.Table.Columns = append(s.Table.Columns, m+": discover, us", "compute, prove, plan, us", "tables, us", "ports, us", "work, us", "waiting, us", "until noticed, us", "whole, us", "least, us", "most, us")
	}
	s.Table.Columns = append(s.Table.Columns, "changes", "without a wait, %", "of a region, %", "carried over, %")
	s.Plots = []report.Plot{
		{Title: "All phases but the waits, switch " + what + ", " + profile, X: "switches", Y: "microseconds", Columns: []int{5, 15}, Labels: both, Log: true},
		{Title: "From the change on, switch " + what + ", " + profile, X: "switches", Y: "microseconds", Columns: []int{8, 18}, Labels: both, Log: true},
	}
	faster, sooner, computing := true, true, true
	for i, n := range sizes {
		row := []any{n}
		var work, whole [2]float64
		for k := range methods {
			m := &rows[k][i]
			avg, least, most := m.whole()
			work[k], whole[k] = m.work(), avg
			row = append(row, m.per(m.discover.Seconds()*microseconds), m.compute()*microseconds, m.per(m.write.Seconds()*microseconds), m.per(m.links.Seconds()*microseconds),
				work[k]*microseconds, m.per(m.wait.Seconds()*microseconds), m.per(m.unseen.Seconds()*microseconds), avg*microseconds, least*microseconds, most*microseconds)
		}
		faster, sooner = faster && work[1] < work[0], sooner && whole[1] < whole[0]
		computing = computing && rows[0][i].compute() > work[0]/2
		inc := &rows[1][i]
		row = append(row, inc.n, inc.per(100*float64(inc.still)), inc.percent(inc.regions), inc.percent(inc.carried))
		s.Table.Rows = append(s.Table.Rows, row)
	}
	last := len(sizes) - 1
	a, b := &rows[0][last], &rows[1][last]
	avgA, _, _ := a.whole()
	avgB, leastB, mostB := b.whole()
	s.Claim = []report.Claim{
		{
			What: "using the configuration before and exploring only the changed region saves time", Published: "expected (conclusions)",
			Measured: fmt.Sprintf("%s at %d switches, the waits and detection left out", compared(a.work(), b.work(), "faster", "slower"), sizes[last]), Holds: faster,
		},
		{
			What: "so it does from the change on, with waits and detection", Published: "not considered",
			Measured: fmt.Sprintf("%s at %d switches: %.4f s, %.4f to %.4f", compared(avgA, avgB, "faster", "slower"), sizes[last], avgB, leastB, mostB), Holds: sooner,
		},
		{
			What: "computing takes most of the time (full static, waits left out)", Published: "mostly path computation (text on Figure 7)",
			Measured: fmt.Sprintf("%.0f %% at %d switches, proof and plan included", 100*a.compute()/max(a.work(), 1e-12), sizes[last]), Holds: computing,
		},
	}
	if first := &rows[0][0]; last > 0 && first.compute() > 0 {
		power := math.Log(a.compute()/first.compute()) / math.Log(float64(sizes[last])/float64(sizes[0]))
		s.Claim = append(s.Claim, report.Claim{
			What: "computing grows with the square of the number of switches (full static)", Published: "quadratic in size (Figure 8a)",
			Measured: fmt.Sprintf("with its power of %.2f from %d to %d switches, proof and plan included", power, sizes[0], sizes[last]), Holds: power > 1.5 && power < 2.5,
		})
	}
	return s
}

// smpsSection is Figure 9.
func smpsSection(sizes []int, rows [2][]mean, kind int) report.Section {
	what := changeKinds[kind]
	s := report.Section{
		Title: "SMPs for a switch that is " + what + " (Figure 9), " + profiles[0].name,
		Text:  "'Whole tables' is computed: what the published method sends, all 1,024 entries of every switch that is there. 'Full static' sends the blocks that differ.",
		Table: report.Table{Columns: []string{
			"switches", "static: discover", "tables", "ports", "all", "incremental: discover", "tables", "ports", "all", "whole tables, computed", "blocks that differ are, % of them",
		}},
		Plots: []report.Plot{{Title: "SMPs, switch " + what, X: "switches", Y: "SMPs", Columns: []int{4, 8}, Labels: []string{methods[0].name, methods[1].name}}},
	}
	fewer, most := true, true
	for i, n := range sizes {
		row := []any{n}
		static := &rows[0][i]
		for k := range methods {
			m := &rows[k][i]
			row = append(row, m.per(float64(m.gets)), m.per(float64(m.blocks)), m.per(float64(m.states)), m.smps())
		}
		fewer = fewer && rows[1][i].smps() < rows[0][i].smps()
		most = most && 2*static.states < static.gets+static.blocks+static.states
		row = append(row, static.whole2003(), 100*static.per(float64(static.blocks))/max(static.whole2003(), 1))
		s.Table.Rows = append(s.Table.Rows, row)
	}
	last := len(sizes) - 1
	s.Claim = []report.Claim{{
		What: "it saves SMPs considerably", Published: "expected (Figure 9, text)",
		Measured: fmt.Sprintf("%s at %d switches", compared(rows[0][last].smps(), rows[1][last].smps(), "fewer", "more"), sizes[last]), Holds: fewer,
	}, {
		What: "reading the fabric and writing tables take most of the SMPs, at every size (full static)", Published: "most SMPs are for discovery and distribution (text on Figure 9)",
		Measured: fmt.Sprintf("%.0f %% at %d switches; ports take the rest", part(rows[0][last].gets+rows[0][last].blocks, rows[0][last].gets+rows[0][last].blocks+rows[0][last].states), sizes[last]), Holds: most,
	}}
	return s
}

// whole2003 is how many SMPs whole tables of the paper's switches take, in the mean.
func (m *mean) whole2003() float64 {
	return m.per(float64(m.rows * tableLen / route.BlockLen))
}

// smps is the mean number of SMPs for a change.
func (m *mean) smps() float64 { return m.per(float64(m.gets + m.blocks + m.states)) }

// entriesSection is Figure 8b, and what of both kinds of change is compared.
func entriesSection(sizes []int, rows *changes) report.Section {
	s := report.Section{
		Title: "Entries that a change touches (Figure 8b), " + profiles[0].name,
		Text: "Of the entries of switches and LIDs that are there before and after; and of all 1,024 that a table of the paper's switches has room for. " +
			"The paper does not say which it counts; the verdict takes the entries in use. 'Forced' are those that led into the switch that was removed: no method can do with less.",
		Table: report.Table{Columns: []string{
			"switches", "static, removed, %", "static, added, %", "incremental, removed, %", "incremental, added, %", "forced, removed, %",
			"static, removed, % of table", "static, added, % of table", "incremental, removed, % of table", "incremental, added, % of table",
		}},
		Plots: []report.Plot{
			{Title: "Entries changed, of those in use", X: "switches", Y: "percent", Columns: []int{1, 2, 3, 4, 5}},
			{Title: "Entries changed, of the whole table", X: "switches", Y: "percent", Columns: []int{6, 7, 8, 9}},
		},
	}
	worst, used, needed := 0.0, 0.0, 0.0
	fewer, near, more, moreSMPs := true, true, true, true
	var touched, present [2]int
	for i, n := range sizes {
		row := []any{n}
		for k := range methods {
			for kind := range changeKinds {
				row = append(row, rows[kind][k][i].share())
			}
		}
		inc := &rows[removal][1][i]
		row = append(row, part(inc.forced, inc.entries))
		for k := range methods {
			for kind := range changeKinds {
				row = append(row, rows[kind][k][i].shareOfTable())
			}
		}
		for kind := range changeKinds {
			worst, used = max(worst, rows[kind][1][i].shareOfTable()), max(used, rows[kind][1][i].share())
			for k := range methods {
				touched[k] += rows[kind][k][i].changed
				present[k] += rows[kind][k][i].entries
			}
			fewer = fewer && rows[kind][1][i].changed <= rows[kind][0][i].changed
		}
		needed = max(needed, part(inc.forced, inc.entries))
		near = near && 2*inc.changed <= 3*inc.forced
		gone, back := &rows[removal][0][i], &rows[addition][0][i]
		more = more && back.work() > gone.work()
		moreSMPs = moreSMPs && back.smps() > gone.smps()
		s.Table.Rows = append(s.Table.Rows, row)
	}
	last := len(sizes) - 1
	gone, back := &rows[removal][0][last], &rows[addition][0][last]
	s.Claim = []report.Claim{
		{
			What: "a change touches few entries", Published: "under 2 %, of what is not said",
			Measured: fmt.Sprintf("incremental, at most %.1f %% of the entries in use (taken here; forced alone up to %.1f %%), and %.2f %% of the whole tables, which are mostly empty", used, needed, worst), Holds: used < 2,
		},
		{
			What: "incremental changes at most half as many again as a removal forces, at every size", Published: "not considered",
			Measured: fmt.Sprintf("%.2f times as many at %d switches", float64(rows[removal][1][last].changed)/float64(max(rows[removal][1][last].forced, 1)), sizes[last]), Holds: near,
		},
		{
			What: "computing only the routes that change touches no more entries, at any size, than computing all", Published: "proposed (conclusions)",
			Measured: fmt.Sprintf("%.1f %% of the entries in use, computing all %.1f %%, over all sizes", part(touched[1], present[1]), part(touched[0], present[0])), Holds: fewer,
		},
		{
			What: "adding a switch takes longer than removing one, at every size (full static, work)", Published: "added above removed (text on Figure 7)",
			Measured: fmt.Sprintf("%.0f us against %.0f us at %d switches", back.work()*microseconds, gone.work()*microseconds, sizes[last]), Holds: more,
		},
		{
			What: "adding a switch takes more SMPs than removing one, at every size (full static)", Published: "added above removed (text on Figure 9)",
			Measured: fmt.Sprintf("%.0f against %.0f at %d switches", back.smps(), gone.smps(), sizes[last]), Holds: moreSMPs,
		},
	}
	return s
}

func part(k, of int) float64 { return 100 * float64(k) / float64(max(of, 1)) }

// compared says by how much b is less than a, or more.
func compared(a, b float64, less, more string) string {
	if b <= a {
		return fmt.Sprintf("%.1f times %s", a/b, less)
	}
	return fmt.Sprintf("%.1f times %s", b/a, more)
}
