package experiment

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"heddle/flood"
	"heddle/flood/figure"
	"heddle/report"
)

// A Rig runs managers as processes, in real time, and floods their SAs: what
// an experiment about other people's managers needs and cannot do itself.
type Rig interface {
	// Managers are those that can be run here: "heddle", "OpenSM".
	Managers() []string
	// Start brings a small subnet up with one of them.
	Start(manager string) (Flooded, error)
}

// Flooded is a subnet whose SA can be flooded.
type Flooded interface {
	// Flood runs Algorithm 1 with a number of MIFs on the SA.
	Flood(mifs int, p flood.Plan, seed uint64, dots int) ([]flood.Round, error)
	Stop()
}

// published is one line of the paper's Table V.
type published struct {
	mifs, instances         int
	figure                  string // of Figure 2
	first, last             float64
	mean, median, dev       float64 // ms, round 1
	mean25, median25, dev25 float64 // ms, round 25
	total, expected         float64
}

var tableV = []published{
	{1, 8, "", 396, 435, 0.45, 0.22, 1.20, 0.50, 0.22, 2.20, 2605, 2540},
	{2, 8, "", 405, 174, 0.47, 0.22, 1.70, 1.65, 0.24, 5.76, 4555, 4640},
	{3, 8, "2a", 398, 161, 0.48, 0.22, 1.36, 4.27, 2.89, 9.03, 5900, 6740},
	{4, 8, "", 406, 98, 0.48, 0.22, 1.47, 8.04, 4.10, 10.60, 6285, 8840},
	{5, 8, "2b", 417, 92, 0.45, 0.22, 1.24, 8.80, 4.79, 11.40, 6561, 9990},
	{5, 1, "2c", 397, 167, 0.49, 0.22, 1.41, 3.99, 0.53, 8.87, 6017, 9990},
}

const (
	floodRounds = 25 // m of the paper
	floodTime   = time.Second
	floodDots   = 60 // a round, for Figure 2
)

// SAFlood repeats the experiment of E. Tasoulas, E. G. Gran, B. D. Johnsen and
// T. Skeie, "A Novel Query Caching Scheme for Dynamic InfiniBand Subnets"
// (2015), §III: an SA under more and more synchronous PathRecord queries, with
// one to five MIFs (Options.Sizes) and 25 rounds (Options.Runs), of a second
// here and of twenty in the paper (Options.RoundTime).
//
// Unlike the other experiments it runs in real time, on the manager as a
// process: OpenSM as well as Heddle, in turn, on the same simulator.
func SAFlood(o Options) (*report.Report, error) {
	if o.Rig == nil {
		return nil, errors.New("sa-flood runs managers as processes, and nothing here can start them")
	}
	rounds, each := o.Runs, o.RoundTime
	if rounds == 0 {
		rounds = floodRounds
	}
	if each == 0 {
		each = floodTime
	}
	var lines []published
	for _, p := range tableV {
		if len(o.Sizes) == 0 || slices.Contains(o.Sizes, p.mifs) {
			lines = append(lines, p)
		}
	}
	if len(lines) == 0 {
		return nil, fmt.Errorf("sizes %v: the paper has 1 to 5 MIFs", o.Sizes)
	}
	managers := o.Rig.Managers()
	measured := make([][][]flood.Round, len(managers)) // by manager and line
	for k, m := range managers {
		at, err := o.Rig.Start(m)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m, err)
		}
		for _, p := range lines {
			o.say("%s, %d MIFs, %d instances a round, %d rounds of %v", m, p.mifs, p.instances, rounds, each)
			r, err := at.Flood(p.mifs, flood.Plan{Instances: p.instances, Rounds: rounds, RoundTime: each}, o.Seed, floodDots)
			if err != nil {
				at.Stop()
				return nil, fmt.Errorf("%s, %d MIFs: %w", m, p.mifs, err)
			}
			measured[k] = append(measured[k], r)
		}
		at.Stop()
	}
	return floodReport(o.Seed, rounds, each, lines, managers, measured), nil
}

func floodReport(seed uint64, rounds int, each time.Duration, lines []published, managers []string, measured [][][]flood.Round) *report.Report {
	r := &report.Report{
		Name: "sa-flood", Title: "An SA that is flooded", Seed: seed, Source: figure.Source,
		Intro: fmt.Sprintf("One single-instance flooder (SIF) and 1 to 5 multi-instance flooders (MIFs), each of which gets 8 (1) more synchronous instances in every round; "+
			"%d rounds, each measured for %v once all instances are at work. Here manager, simulated subnet and all flooders share one machine, so that flooders take from the SA "+
			"what on hosts of their own they would not, and the SIF is disturbed by more than the SA; compare the managers with each other, and with the paper the shape.", rounds, each),
	}
	if !slices.Contains(managers, "OpenSM") {
		r.Intro += " OpenSM is not installed here and was not measured."
	}
	table := report.Section{
		Title: "Overall system performance (Table V)",
		Text: "Response times are the SIF's. 'Expected' is the paper's equation (1): what the SIF asks alone, and for every MIF what a single MIF got with all its instances; " +
			"measured here only if there is a run with one MIF.",
		Table: report.Table{Columns: []string{
			"who", "MIFs", "instances a round", "instances at the end",
			"first round: SIF q/s", "mean, us", "median, us", "std.dev., us",
			"last round: SIF q/s", "mean, us", "median, us", "std.dev., us", "total q/s", "expected q/s", "busy", "timeouts",
		}},
	}
	for _, p := range lines {
		table.Table.Rows = append(table.Table.Rows, []any{
			"published", p.mifs, p.instances, 1 + p.mifs*p.instances*(floodRounds-1),
			p.first, 1e3 * p.mean, 1e3 * p.median, 1e3 * p.dev,
			p.last, 1e3 * p.mean25, 1e3 * p.median25, 1e3 * p.dev25, p.total, p.expected, nil, nil,
		})
	}
	for k, m := range managers {
		for i, p := range lines {
			table.Table.Rows = append(table.Table.Rows, floodRow(m, p, measured[k][i], capability(lines, measured[k])))
		}
	}
	table.Claim = floodClaims(lines, managers, measured)
	r.Sections = append(r.Sections, table)
	for i, p := range lines {
		if p.figure == "" {
			continue
		}
		for k, m := range managers {
			run := figure.Run{Title: fmt.Sprintf("Figure %s: %s, SIF and %d MIFs, %d instances a round", p.figure, m, p.mifs, p.instances), Rounds: measured[k][i]}
			r.Sections = append(r.Sections, figure.Section(&run))
		}
	}
	return r
}

// capability is what one MIF gets alone: the MIF's rate in the last round of
// the run with one; 0 if there is none.
func capability(lines []published, measured [][]flood.Round) float64 {
	for i, p := range lines {
		if p.mifs == 1 {
			mif := last(measured[i]).MIF()
			return mif.QPS()
		}
	}
	return 0
}

func last(rounds []flood.Round) *flood.Round { return &rounds[len(rounds)-1] }

func floodRow(who string, p published, rounds []flood.Round, mif float64) []any {
	a, b := flood.FiguresOfRound(&rounds[0]), flood.FiguresOfRound(last(rounds))
	var expected any
	if mif > 0 {
		expected = a.SIF.QPS + mif*float64(p.mifs)
	}
	return []any{
		who, p.mifs, p.instances, b.Instances, a.SIF.QPS, a.SIF.Mean, a.SIF.Median, a.SIF.StdDev,
		b.SIF.QPS, b.SIF.Mean, b.SIF.Median, b.SIF.StdDev, b.Total.QPS, expected, int(b.Total.Busy), int(b.Total.Timeouts),
	}
}

// floodClaims sets the paper's sentences against what was measured.
func floodClaims(lines []published, managers []string, measured [][][]flood.Round) []report.Claim {
	find := func(mifs, instances int) int {
		return slices.IndexFunc(lines, func(p published) bool { return p.mifs == mifs && p.instances == instances })
	}
	var claims []report.Claim
	many, few, before := find(5, 8), find(5, 1), find(4, 8)
	for k, m := range managers {
		figures := func(i int) flood.RoundFigures { return flood.FiguresOfRound(last(measured[k][i])) }
		if many >= 0 && before >= 0 {
			x, y := figures(before).Total.QPS, figures(many).Total.QPS
			c := report.Claim{
				What: m + " is saturated: a fifth MIF adds next to nothing", Published: "6,285 to 6,561 q/s (on a 1.10 GHz Atom)",
				Measured: fmt.Sprintf("%.0f to %.0f q/s", x, y), Holds: y < 1.1*x,
			}
			if m == "heddle" {
				c.What, c.Published, c.Holds = m+" bears it: a fifth MIF takes nothing away", "not in the paper", y > 0.9*x
			}
			claims = append(claims, c)
		}
		if many >= 0 {
			first, end := flood.FiguresOfRound(&measured[k][many][0]), figures(many)
			claims = append(claims, report.Claim{
				What: m + ": the SIF gets less as others ask more", Published: "417 to 92 q/s, median 0.22 to 4.79 ms (OpenSM)",
				Measured: fmt.Sprintf("%.0f to %.0f q/s, median %.2f to %.2f ms", first.SIF.QPS, end.SIF.QPS, first.SIF.Median/1e3, end.SIF.Median/1e3),
				Holds:    end.SIF.QPS < first.SIF.QPS,
			})
		}
		if many >= 0 && few >= 0 {
			x, y := figures(many), figures(few)
			claims = append(claims, report.Claim{
				What: m + ": with fewer instances at the same saturation the SIF is answered sooner", Published: "median 4.79 ms at 961 instances, 0.53 ms at 121 (OpenSM)",
				Measured: fmt.Sprintf("median %.2f ms at %d instances, %.2f ms at %d", x.SIF.Median/1e3, x.Instances, y.SIF.Median/1e3, y.Instances), Holds: y.SIF.Median < x.SIF.Median,
			})
		}
	}
	a, b := slices.Index(managers, "heddle"), slices.Index(managers, "OpenSM")
	if i := len(lines) - 1; a >= 0 && b >= 0 {
		if many >= 0 {
			i = many
		}
		x, y := flood.FiguresOfRound(last(measured[a][i])), flood.FiguresOfRound(last(measured[b][i]))
		claims = append(claims, report.Claim{
			What: fmt.Sprintf("heddle answers more than OpenSM at %d instances", x.Instances), Published: "not in the paper",
			Measured: fmt.Sprintf("%.0f q/s against %.0f; the SIF's median %.2f ms against %.2f", x.Total.QPS, y.Total.QPS, x.SIF.Median/1e3, y.SIF.Median/1e3), Holds: x.Total.QPS > y.Total.QPS,
		})
	}
	return claims
}
