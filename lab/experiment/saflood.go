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
	floodRepeats = 3
	floodRounds  = 25 // m of the paper
	floodTime    = time.Second
	floodDots    = 60 // a round, for Figure 2
)

// SAFlood repeats the experiment of E. Tasoulas, E. G. Gran, B. D. Johnsen and
// T. Skeie, "A Novel Query Caching Scheme for Dynamic InfiniBand Subnets"
// (2015), §III: an SA under more and more synchronous PathRecord queries, with
// one to five MIFs (Options.Sizes) and 25 rounds (Options.Runs), of a second
// here and of twenty in the paper (Options.RoundTime).
//
// Unlike the other experiments it runs in real time, on the manager as a
// process: OpenSM as well as Heddle, in turn, on the same simulator, and each
// line several times (Options.Repeats), since nothing of it repeats itself.
func SAFlood(o Options) (*report.Report, error) {
	if o.Rig == nil {
		return nil, errors.New("sa-flood runs managers as processes, and nothing here can start them")
	}
	rounds, each, repeats := o.Runs, o.RoundTime, o.Repeats
	if repeats == 0 {
		repeats = floodRepeats
	}
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
	measured := make([][]floodRuns, len(managers)) // by manager and line
	for k := range measured {
		measured[k] = make([]floodRuns, len(lines))
	}
	for n := range repeats {
		for k, m := range managers {
			if err := o.flood(m, fmt.Sprintf("%d of %d", n+1, repeats), lines, rounds, each, measured[k]); err != nil {
				return nil, err
			}
		}
	}
	return floodReport(o.Seed, rounds, each, repeats, lines, managers, measured), nil
}

// floodRuns are the repetitions of one line, each a list of rounds.
type floodRuns [][]flood.Round

// flood measures all lines once on one manager.
func (o *Options) flood(m, which string, lines []published, rounds int, each time.Duration, into []floodRuns) error {
	at, err := o.Rig.Start(m)
	if err != nil {
		return fmt.Errorf("%s: %w", m, err)
	}
	defer at.Stop()
	for i, p := range lines {
		o.say("%s, %s: %d MIFs, %d instances a round, %d rounds of %v", m, which, p.mifs, p.instances, rounds, each)
		r, err := at.Flood(p.mifs, flood.Plan{Instances: p.instances, Rounds: rounds, RoundTime: each}, o.Seed, floodDots)
		if err != nil {
			return fmt.Errorf("%s, %d MIFs: %w", m, p.mifs, err)
		}
		into[i] = append(into[i], r)
	}
	return nil
}

// spread is what repetitions gave: the median, and the range.
type spread struct{ mid, low, high float64 }

// of is a figure's spread over the repetitions.
func (f floodRuns) of(figure func(first, last flood.RoundFigures) float64) spread {
	var all []float64
	for _, rounds := range f {
		all = append(all, figure(flood.FiguresOfRound(&rounds[0]), flood.FiguresOfRound(last(rounds))))
	}
	slices.Sort(all)
	return spread{all[len(all)/2], all[0], all[len(all)-1]}
}

func (s spread) String() string {
	if s.low == s.high {
		return report.Cell(s.mid)
	}
	return fmt.Sprintf("%s (%s to %s)", report.Cell(s.mid), report.Cell(s.low), report.Cell(s.high))
}

func floodReport(seed uint64, rounds int, each time.Duration, repeats int, lines []published, managers []string, measured [][]floodRuns) *report.Report {
	r := &report.Report{
		Name: "sa-flood", Title: "An SA that is flooded", Seed: seed, Source: figure.Source,
		Intro: fmt.Sprintf("One single-instance flooder (SIF) and 1 to 5 multi-instance flooders (MIFs), each of which gets 8 (1) more synchronous instances in every round; "+
			"%d rounds, each measured for %v once all instances are at work. Each line was measured %d times, the managers in turn. Here manager, simulated subnet and all flooders share one machine, so that flooders take from the SA "+
			"what on hosts of their own they would not, and the SIF is disturbed by more than the SA; compare the managers with each other, and with the paper the shape.", rounds, each, repeats),
	}
	if !slices.Contains(managers, "OpenSM") {
		r.Intro += " OpenSM is not installed here and was not measured."
	}
	r.Sections = append(r.Sections, settingsSection([]setting{
		{"rounds (m)", fmt.Sprint(rounds), "25 in the paper", ""},
		{"time of a round", each.String(), "20s in the paper", "25 rounds of 20 s, six lines and two managers are more than an hour and a half"},
		{"manager, heddle", "product's defaults, over ibsim's protocol", "product's defaults", ""},
		{"manager, OpenSM", "-d 2 -f stdout (its log flushed)", "its defaults", "nothing else says that the subnet is up"},
		{"hosts of the flooders", "processes of this machine", "hosts of their own, in the paper", "there is one machine"},
	}))
	table := report.Section{
		Title: "Overall system performance (Table V)",
		Text: "Response times are the SIF's. Measured figures are medians over the repetitions, and the ranges beside them are their least and greatest. 'By equation 1' is computed: what the SIF asks alone, and for every MIF " +
			"what a single MIF got with all its instances. In the paper that is what hosts of their own can ask. Here all share one machine, which one MIF fills already, so the sum is out of reach whatever the SA does: " +
			"it is no goal, and no claim rests on it.",
		Table: report.Table{Columns: []string{
			"who", "MIFs", "instances a round", "instances at the end",
			"first round: SIF q/s", "mean, us", "median, us", "std.dev., us",
			"last round: SIF q/s", "range", "mean, us", "median, us", "range", "std.dev., us", "total q/s", "range", "by equation 1, q/s", "busy", "timeouts",
		}},
	}
	for _, p := range lines {
		table.Table.Rows = append(table.Table.Rows, []any{
			"published", p.mifs, p.instances, 1 + p.mifs*p.instances*(floodRounds-1),
			p.first, 1e3 * p.mean, 1e3 * p.median, 1e3 * p.dev,
			p.last, nil, 1e3 * p.mean25, 1e3 * p.median25, nil, 1e3 * p.dev25, p.total, nil, p.expected, nil, nil,
		})
	}
	for k, m := range managers {
		for i, p := range lines {
			table.Table.Rows = append(table.Table.Rows, floodRow(m, p, measured[k][i], oneMIF(lines, measured[k])))
		}
	}
	table.Claim = floodClaims(lines, managers, measured)
	r.Sections = append(r.Sections, table)
	for i, p := range lines {
		if p.figure == "" {
			continue
		}
		for k, m := range managers {
			run := figure.Run{
				Title: fmt.Sprintf("Figure %s: %s, SIF and %d MIFs, %d instances a round", p.figure, m, p.mifs, p.instances),
				Text:  fmt.Sprintf("The first of %d repetitions.", repeats), Rounds: measured[k][i][0],
			}
			r.Sections = append(r.Sections, figure.Section(&run))
		}
	}
	return r
}

// oneMIF is what one MIF gets alone: its rate in the last round of the run with
// one; 0 if there is none.
func oneMIF(lines []published, measured []floodRuns) float64 {
	for i, p := range lines {
		if p.mifs == 1 {
			return measured[i].of(func(_, b flood.RoundFigures) float64 { return b.MIF.QPS }).mid
		}
	}
	return 0
}

func last(rounds []flood.Round) *flood.Round { return &rounds[len(rounds)-1] }

// Figures of a run, of its first and last rounds.
func totalQPS(_, b flood.RoundFigures) float64  { return b.Total.QPS }
func sifQPS(_, b flood.RoundFigures) float64    { return b.SIF.QPS }
func sifMedian(_, b flood.RoundFigures) float64 { return b.SIF.Median }
func aloneQPS(a, _ flood.RoundFigures) float64  { return a.SIF.QPS }

func floodRow(who string, p published, runs floodRuns, mif float64) []any {
	mid := func(f func(a, b flood.RoundFigures) float64) float64 { return runs.of(f).mid }
	span := func(f func(a, b flood.RoundFigures) float64) string {
		s := runs.of(f)
		return report.Cell(s.low) + " to " + report.Cell(s.high)
	}
	var sum any
	if mif > 0 {
		sum = mid(aloneQPS) + mif*float64(p.mifs)
	}
	return []any{
		who, p.mifs, p.instances, last(runs[0]).Instances,
		mid(aloneQPS),
		mid(func(a, _ flood.RoundFigures) float64 { return a.SIF.Mean }),
		mid(func(a, _ flood.RoundFigures) float64 { return a.SIF.Median }),
		mid(func(a, _ flood.RoundFigures) float64 { return a.SIF.StdDev }),
		mid(sifQPS), span(sifQPS),
		mid(func(_, b flood.RoundFigures) float64 { return b.SIF.Mean }),
		mid(sifMedian), span(sifMedian),
		mid(func(_, b flood.RoundFigures) float64 { return b.SIF.StdDev }),
		mid(totalQPS), span(totalQPS), sum,
		int(mid(func(_, b flood.RoundFigures) float64 { return float64(b.Total.Busy) })),
		int(mid(func(_, b flood.RoundFigures) float64 { return float64(b.Total.Timeouts) })),
	}
}

// sifClaims are those on the SIF of one line (OpenSM's published figures): its rate in the
// last round is at most a share of that in the first, and its median at least so many times
// as long, in all repetitions.
func sifClaims(m, rates, medians string, runs floodRuns, share, times float64) []report.Claim {
	n := last(runs[0]).Instances
	rate := runs.of(func(a, b flood.RoundFigures) float64 { return b.SIF.QPS / max(a.SIF.QPS, 1e-9) })
	median := runs.of(func(a, b flood.RoundFigures) float64 { return b.SIF.Median / max(a.SIF.Median, 1e-9) })
	return []report.Claim{
		{
			What:      fmt.Sprintf("%s: the SIF's rate at %d instances is at most %v of that alone", m, n, share),
			Published: rates, Measured: rate.String(), Holds: rate.high <= share,
		},
		{
			What:      fmt.Sprintf("%s: the SIF's median at %d instances is at least %v times that alone", m, n, times),
			Published: medians, Measured: median.String(), Holds: median.low >= times,
		},
	}
}

// floodClaims sets the paper's sentences against what was measured. A claim
// holds if every repetition of one side is beyond every one of the other.
func floodClaims(lines []published, managers []string, measured [][]floodRuns) []report.Claim {
	find := func(mifs, instances int) int {
		return slices.IndexFunc(lines, func(p published) bool { return p.mifs == mifs && p.instances == instances })
	}
	var claims []report.Claim
	many, few, before := find(5, 8), find(5, 1), find(4, 8)
	for k, m := range managers {
		of := func(line int, f func(a, b flood.RoundFigures) float64) spread { return measured[k][line].of(f) }
		if many >= 0 && before >= 0 {
			x, y := of(before, totalQPS), of(many, totalQPS)
			c := report.Claim{
				What: m + " is saturated: a fifth MIF adds less than a tenth", Published: "6,285 to 6,561 q/s (on a 1.10 GHz Atom)",
				Measured: fmt.Sprintf("%v to %v q/s", x, y), Holds: y.high < 1.1*x.low,
			}
			if m == "heddle" {
				c.What, c.Published, c.Holds = m+" bears it: a fifth MIF takes less than a tenth away", "not in the paper", y.low > 0.9*x.high
			}
			claims = append(claims, c)
		}
		if many >= 0 {
			claims = append(claims, sifClaims(m, "417 to 92 q/s: 0.22", "0.22 to 4.79 ms: 22", measured[k][many], 0.3, 10)...)
			dev, mean, median := of(many, func(_, b flood.RoundFigures) float64 { return b.SIF.StdDev }), of(many, func(_, b flood.RoundFigures) float64 { return b.SIF.Mean }), of(many, sifMedian)
			claims = append(claims, report.Claim{
				What: m + ": the SIF's response times spread more than their mean, which is above their median", Published: "std.dev. 11.40 ms, mean 8.80 ms, median 4.79 ms (OpenSM)",
				Measured: fmt.Sprintf("std.dev. %v us, mean %v us, median %v us", dev, mean, median), Holds: dev.low > mean.high && mean.low > median.high,
			})
		}
		if few >= 0 {
			claims = append(claims, sifClaims(m, "397 to 167 q/s: 0.42", "0.22 to 0.53 ms: 2.4", measured[k][few], 0.5, 2)...)
		}
		if many >= 0 && few >= 0 {
			x, y := of(many, sifMedian), of(few, sifMedian)
			claims = append(claims, report.Claim{
				What:      m + ": with fewer instances at the same saturation the SIF is answered in less than half of the time",
				Published: "median 4.79 ms at 961 instances, 0.53 ms at 121 (OpenSM)",
				Measured:  fmt.Sprintf("median %v us at %d instances, %v us at %d", x, last(measured[k][many][0]).Instances, y, last(measured[k][few][0]).Instances), Holds: y.high < x.low/2,
			})
		}
	}
	a, b := slices.Index(managers, "heddle"), slices.Index(managers, "OpenSM")
	if i := len(lines) - 1; a >= 0 && b >= 0 {
		if many >= 0 {
			i = many
		}
		x, y := measured[a][i].of(totalQPS), measured[b][i].of(totalQPS)
		claims = append(claims, report.Claim{
			What: fmt.Sprintf("heddle answers more than OpenSM at %d instances", last(measured[a][i][0]).Instances), Published: "not in the paper",
			Measured: fmt.Sprintf("%v q/s against %v; the SIF's median %v us against %v us", x, y, measured[a][i].of(sifMedian), measured[b][i].of(sifMedian)), Holds: x.low > y.high,
		})
	}
	return claims
}
