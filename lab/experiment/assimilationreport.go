package experiment

import (
	"fmt"

	"heddle/report"
)

const microseconds = 1e6

var changeKinds = [...]string{"removed", "added"}

func assimilationReport(seed uint64, runs int, sizes []int, rows []changes) *report.Report {
	r := &report.Report{
		Name: "change-assimilation", Title: "Assimilating a topology change", Seed: seed,
		Source: "A. Bermúdez, R. Casado, F. J. Quiles, T. M. Pinkston, J. Duato: Evaluation of a Subnet " +
			"Management Mechanism for InfiniBand Networks, 2003, Figures 3 and 6-12",
		Intro: fmt.Sprintf("Irregular networks of four-port switches, %d of each size; each switch but the "+
			"manager's own is removed and added in turn, at a random time between two sweeps. "+
			"'2003' is the manager of the report: discovery from nothing by its pseudo-code, its up*/down* rule, all "+
			"ports to Initialize, whole tables, all ports to Active. "+
			"'Ours' is Heddle. Both sweep every %v and get no traps. Cables take %v, agents %v for an SMP: the "+
			"report does not say what its model took, and so its Figure 12 comes out. The time to compute is this "+
			"machine's; ours holds the proof of the tables and the plan of how they change. "+
			"Where the report is silent: the root is the switch with the lowest GUID, of equally short routes the "+
			"lowest port is taken, SMPs of the distribution go out one by one, a LID stays with its node. Between "+
			"two changes of ours the subnet is left alone for %v.",
			runs, sweepInterval, hop2003, sma2003, quiet),
	}
	why := map[string]string{
		"Engines":       "the published method is up*/down*",
		"Explicit":      "one engine is named",
		"DampHold":      "a switch that fails and returns at once is the experiment",
		"SweepInterval": "as in the paper, which has no traps",
	}
	for _, p := range profiles {
		list := []setting{{"traps", "off", "on", "as in the paper"}}
		list = append(list, deviations(managerConfig(p), why)...)
		s := settingsSection(list)
		s.Title += ": " + p.name
		r.Sections = append(r.Sections, s)
	}
	for kind := range changeKinds {
		r.Sections = append(r.Sections, times2003(sizes, rows[0][kind], kind))
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

// smpsSection is Figure 9.
func smpsSection(sizes []int, rows [2][]mean, kind int) report.Section {
	what := changeKinds[kind]
	s := report.Section{
		Title: "SMPs for a switch that is " + what + " (Figure 9)",
		Text: "Requests, without those of the sweep that notices the change. 'By the text' is what the " +
			"pseudo-code and whole tables make; " +
			"the difference are requests through hosts but the manager's own, which relay none. " +
			"'Others' are Set(SwitchInfo), of which the report says nothing. Ours with the product's defaults.",
		Table: report.Table{Columns: []string{
			"switches", "2003: discover", "tables", "ports", "all", "by the text", "others", "ours: discover", "tables",
			"ports", "all",
		}},
		Plots: []report.Plot{
			{
				Title: "SMPs, switch " + what, X: "switches", Y: "SMPs", Columns: []int{4, 10},
				Labels: []string{methods[0].name, methods[1].name},
			},
			{
				Title: "SMPs by task (2003), switch " + what, X: "switches", Y: "SMPs", Columns: []int{1, 2, 3},
				Labels: []string{"discovery", "tables", "ports"},
			},
		},
	}
	fewer, most, same := true, true, true
	least := 100.0
	for i, n := range sizes {
		old, our := &rows[0][i], &rows[1][i]
		row := []any{n}
		for k, m := range []*mean{old, our} {
			row = append(row, m.per(float64(m.gets)), m.per(float64(m.blocks)), m.per(float64(m.states)), m.smps())
			if k == 0 {
				row = append(row, m.per(float64(m.formula)), m.per(float64(m.others)))
			}
		}
		all := old.gets + old.blocks + old.states
		fewer = fewer && our.smps() < old.smps()
		same = same && all+old.through == old.formula
		least = min(least, part(all, all+old.others))
		most = most && least > 95
		s.Table.Rows = append(s.Table.Rows, row)
	}
	last := len(sizes) - 1
	s.Claim = []report.Claim{{
		What: "SMPs are those of the pseudo-code and of whole tables, less one for each host but the manager's, " +
			"at every change (2003)", Published: "by its text (§2.2, §2.4)",
		Measured: fmt.Sprintf("%.0f at %d switches, by the text "+
			"%.0f", rows[0][last].smps(), sizes[last], rows[0][last].per(float64(rows[0][last].formula))), Holds: same,
	}, {
		What: "discovery and distribution take most of the SMPs, above 95 % at every size " +
			"(2003)", Published: "most of the SMPs (text on Figure 9)",
		Measured: fmt.Sprintf("at least %.1f %%", least), Holds: most,
	}, {
		What: "an implementation that uses the configuration before saves SMPs " +
			"considerably", Published: "expected (text on Figure 9)",
		Measured: fmt.Sprintf("%s at %d switches", compared(rows[0][last].smps(), rows[1][last].smps(), "fewer",
			"more"), sizes[last]), Holds: fewer,
	}}
	return s
}

// smps is the mean number of SMPs for a change.
func (m *mean) smps() float64 { return m.per(float64(m.gets + m.blocks + m.states)) }

// entriesTable is the table of Figure 8b without its rows.
func entriesTable() report.Section {
	return report.Section{
		Title: "Entries that a change touches (Figure 8b)",
		Text: "Of the entries of switches and LIDs that are there before and after; and of all 1,024 that a table " +
			"of the paper's switches has room for. " +
			"The paper does not say which it counts; the verdict takes the entries in use. 'Forced' are those that " +
			"led into the switch that was removed: no method can do with less.",
		Table: report.Table{Columns: []string{
			"switches", "2003, removed, %", "2003, added, %", "ours, removed, %", "ours, added, %", "forced, removed, %",
			"2003, removed, % of table", "2003, added, % of table", "ours, removed, % of table", "ours, added, % of table",
		}},
		Plots: []report.Plot{
			{Title: "Entries changed, of those in use", X: "switches", Y: "percent", Columns: []int{1, 2, 3, 4, 5}},
			{Title: "Entries changed, of the whole table", X: "switches", Y: "percent", Columns: []int{6, 7, 8, 9}},
		},
	}
}

// entriesSection is Figure 8b, and what of both kinds of change is compared.
func entriesSection(sizes []int, rows *changes) report.Section {
	s := entriesTable()
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
			Measured: fmt.Sprintf("ours, at most %.1f %% of the entries in use (taken here; forced alone up to %.1f "+
				"%%), and %.2f %% of the whole tables, which are mostly empty", used, needed, worst), Holds: used < 2,
		},
		{
			What: "ours changes at most half as many again as a removal forces, at every size", Published: "not considered",
			Measured: fmt.Sprintf("%.2f times as many at %d switches",
				float64(rows[removal][1][last].changed)/float64(max(rows[removal][1][last].forced, 1)), sizes[last]),
			Holds: near,
		},
		{
			What: "computing only the routes that change touches no more entries, at any size, than computing " +
				"all", Published: "proposed (conclusions)",
			Measured: fmt.Sprintf("%.1f %% of the entries in use, computing all %.1f %%, over all "+
				"sizes", part(touched[1], present[1]), part(touched[0], present[0])), Holds: fewer,
		},
		{
			What: "adding a switch takes longer than removing one, at every size (2003, detection left " +
				"out)", Published: "added above removed (text on Figure 7)",
			Measured: fmt.Sprintf("%.0f us against %.0f us at %d "+
				"switches", back.work()*microseconds, gone.work()*microseconds, sizes[last]), Holds: more,
		},
		{
			What: "adding a switch takes more SMPs than removing one, at every size (2003)", Published: "added above " +
				"removed (text on Figure 9)",
			Measured: fmt.Sprintf("%.0f against %.0f at %d switches", back.smps(), gone.smps(), sizes[last]),
			Holds:    moreSMPs,
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
