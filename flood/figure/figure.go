// Package figure presents measurements of package flood in the form of the
// original paper: Table V, a line for each round, and Figure 2, response times
// and rates over time.
package figure

import (
	"slices"

	"heddle/flood"
	"heddle/mad"
	"heddle/report"
)

// Source is the publication of the experiment.
const Source = "E. Tasoulas, E. G. Gran, B. D. Johnsen, T. Skeie: A Novel Query Caching Scheme for Dynamic InfiniBand Subnets, 2015, §III (Algorithm 1, Figure 2, Table V)"

// Columns of the table of rounds, which Row fills. Response times and their
// spread are those of the SIF.
func Columns() []string {
	return []string{
		"round", "middle, s", "instances", "SIF, queries/s", "mean, us", "median, us", "std.dev., us", "99 %, us", "longest, us", "SIF errors",
		"MIFs, queries/s", "total, queries/s", "total busy", "total timeouts", "other errors",
	}
}

// The columns that are drawn.
const (
	colAt     = 1
	colSIF    = 3
	colMean   = 4
	colMedian = 5
	colStdDev = 6
	colMIF    = 10
	colTotal  = 11
)

// Row is the line of one round.
func Row(r *flood.Round) []any {
	f := flood.FiguresOfRound(r)
	middle := (seconds(r.SIF.From) + seconds(r.SIF.To)) / 2
	return []any{
		r.Number, middle, r.Instances, f.SIF.QPS, f.SIF.Mean, f.SIF.Median, f.SIF.StdDev, f.SIF.P99, f.SIF.Max, int(f.SIF.Errors),
		f.MIF.QPS, f.Total.QPS, int(f.Total.Busy), int(f.Total.Timeouts), int(f.Total.Refused + f.Total.Wrong),
	}
}

// Cells is Row as text.
func Cells(r *flood.Round) []string {
	var out []string
	for _, v := range Row(r) {
		out = append(out, report.Cell(v))
	}
	return out
}

func seconds(t mad.Time) float64 { return t.Sub(0).Seconds() }

// Run is one run of the experiment.
type Run struct {
	Title  string
	Text   string
	Rounds []flood.Round
	Claims []report.Claim
}

// Section is a run's table, and its Figure 2: dots are single queries of the
// SIF, lines the rounds.
func Section(run *Run) report.Section {
	s := report.Section{Title: run.Title, Text: run.Text, Table: report.Table{Columns: Columns()}, Claim: run.Claims}
	p := report.Plot{
		Title: run.Title, X: "seconds", Y: "response time of the SIF, microseconds", XColumn: colAt, Wide: true, Log: true,
		Columns: []int{colMean, colMedian, colStdDev}, Labels: []string{"mean", "median", "std.dev."},
		RightY: "queries/s", Right: []int{colSIF, colMIF, colTotal}, RightLabels: []string{"SIF q/s", "MIFs q/s", "total q/s"},
		DotsLabel: "query",
	}
	for i := range run.Rounds {
		r := &run.Rounds[i]
		s.Table.Rows = append(s.Table.Rows, Row(r))
		p.Marks = append(p.Marks, seconds(r.SIF.From)-r.Spawning.Seconds())
		for _, d := range r.SIF.Dots {
			p.Dots = append(p.Dots, [2]float64{seconds(d.At), float64(d.Took.Nanoseconds()) / 1e3})
		}
	}
	slices.SortFunc(p.Dots, func(a, b [2]float64) int {
		if a[0] != b[0] {
			if a[0] < b[0] {
				return -1
			}
			return 1
		}
		return 0
	})
	s.Plots = []report.Plot{p}
	return s
}

// Report combines runs into one report.
func Report(name, title, intro string, seed uint64, runs []Run) *report.Report {
	r := &report.Report{Name: name, Title: title, Source: Source, Intro: intro, Seed: seed}
	for i := range runs {
		r.Sections = append(r.Sections, Section(&runs[i]))
	}
	return r
}
