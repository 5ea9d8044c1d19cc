package experiment

import (
	"fmt"
	"math"
	"strings"

	"heddle/report"
)

// times2003 is Figure 7: the manager of the report, by task.
func times2003(sizes []int, rows [2][]mean, kind int) report.Section {
	what := changeKinds[kind]
	s := report.Section{
		Title: "Time to assimilate a switch that is " + what + ", by task (Figure 7): 2003",
		Text: "Computing is the median and this machine's, all else the mean. The published figure is the work: " +
			"it begins when the sweep has noticed the change. " +
			"'Whole' is from the change on, with the least and the greatest.",
		Table: report.Table{Columns: []string{
			"switches", "discover, us", "compute, us", "tables, us", "ports, us", "work, us", "waiting, us",
			"until noticed, us", "whole, us", "least, us", "most, us", "changes",
		}},
		Plots: []report.Plot{{
			Title: "Tasks of the manager of 2003, switch " + what, X: "switches", Y: "microseconds",
			Columns: []int{1, 2, 3, 4, 5}, Labels: []string{"discovery", "computing", "tables", "ports", "all"},
		}},
	}
	computing, off := true, 0.0
	for i, n := range sizes {
		m := &rows[0][i]
		avg, _, _ := m.whole()
		parts := m.per((m.discover + m.write + m.links + m.wait + m.unseen).Seconds()) + m.computeMean()
		off = max(off, math.Abs(parts/max(avg, 1e-12)-1))
		s.Table.Rows = append(s.Table.Rows, append(append([]any{n}, m.times()...), m.n))
		computing = computing && m.compute() > m.work()/2
	}
	last := len(sizes) - 1
	m := &rows[0][last]
	s.Claim = []report.Claim{{
		What: "computing takes most of the time (2003)", Published: "mostly path computation (text on Figure 7)",
		Measured: fmt.Sprintf("%.1f %% at %d switches: computers are faster than in 2003, SMPs here as fast as "+
			"then", 100*m.compute()/max(m.work(), 1e-12), sizes[last]),
		Holds: computing,
	}, {
		What: "the tasks add up to the whole, within 1 %, at every size (2003)", Published: "implied by the stacked bars",
		Measured: fmt.Sprintf("at most %.2f %% apart", 100*off), Holds: off <= 0.01,
	}}
	return s
}

// times are the cells of a table of times.
func (m *mean) times() []any {
	avg, least, most := m.whole()
	us := func(seconds float64) float64 { return seconds * microseconds }
	return []any{
		us(m.per(m.discover.Seconds())), us(m.compute()), us(m.per(m.write.Seconds())), us(m.per(m.links.Seconds())),
		us(m.work()),
		us(m.per(m.wait.Seconds())), us(m.per(m.unseen.Seconds())), us(avg), us(least), us(most),
	}
}

// timesSection is the same for ours under a profile.
func timesSection(sizes []int, rows [2][]mean, kind int, profile string) report.Section {
	what := changeKinds[kind]
	s := report.Section{
		Title: "Time to assimilate a switch that is " + what + ": ours, " + profile,
		Text: "'Work' is all but the waits; computing, with proof and plan, is the median, all else the mean. " +
			"'Until noticed' is what is outside sweeps, above all the time until the change is noticed. " +
			"'Whole' is from the change until the last sweep for it has ended, waits, detection and computing included. " +
			"Better tables, which are written when the fabric has been quiet for a while, are not part of it. " +
			"The last columns say which part of the changes took no wait, and which part of the sweeps read a region " +
			"only and computed only what the change touches.",
		Table: report.Table{Columns: []string{
			"switches", "discover, us", "compute, us", "tables, us", "ports, us", "work, us", "waiting, us",
			"until noticed, us", "whole, us", "least, us", "most, us", "changes",
			"without a wait, %", "of a region, %", "carried over, %", "2003: work, us", "2003: whole, us",
		}},
		Plots: []report.Plot{
			{
				Title: "All phases but the waits, switch " + what + ", " + profile, X: "switches", Y: "microseconds",
				Columns: []int{15, 5}, Labels: []string{"2003", "ours"}, Log: true,
			},
			{
				Title: "From the change on, switch " + what + ", " + profile, X: "switches", Y: "microseconds",
				Columns: []int{16, 8}, Labels: []string{"2003", "ours"}, Log: true,
			},
		},
	}
	faster := true
	var later []string
	for i, n := range sizes {
		old, m := &rows[0][i], &rows[1][i]
		was, _, _ := old.whole()
		now, _, _ := m.whole()
		row := append(append([]any{n}, m.times()...), m.n, m.per(100*float64(m.still)), m.percent(m.regions),
			m.percent(m.carried),
			old.work()*microseconds, was*microseconds)
		faster = faster && m.work() < old.work()
		if now >= was {
			later = append(later, fmt.Sprintf("slower at %d switches, %.1f against %.1f ms", n, now*1000, was*1000))
		}
		s.Table.Rows = append(s.Table.Rows, row)
	}
	last := len(sizes) - 1
	a, b := &rows[0][last], &rows[1][last]
	avgA, _, _ := a.whole()
	avgB, leastB, mostB := b.whole()
	s.Claim = []report.Claim{
		{
			What: "using the configuration before and exploring only the changed region saves " +
				"time, at every size", Published: "expected (conclusions)",
			Measured: fmt.Sprintf("%s at %d switches, the waits and detection left "+
				"out", compared(a.work(), b.work(), "faster", "slower"), sizes[last]), Holds: faster,
		},
		{
			What: "so it does from the change on, with waits and detection, at every size", Published: "not considered",
			Measured: strings.Join(append([]string{fmt.Sprintf("%s at %d switches: %.1f ms, %.1f to %.1f",
				compared(avgA, avgB, "faster", "slower"), sizes[last], avgB*1000, leastB*1000, mostB*1000)}, later...), "; "),
			Holds: len(later) == 0,
		},
	}
	return s
}
