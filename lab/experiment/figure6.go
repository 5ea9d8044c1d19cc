package experiment

import (
	"fmt"
	"slices"

	"heddle/fabric"
	"heddle/report"
	"heddle/sim/dataplane"
)

// loads6 are the loads of Figure 6 in shares of what a 1X link carries: 886,525 packets
// a second.
var loads6 = []float64{0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.8, 1}

// point is a point of Figure 6: packets a second and host, and the mean latency in µs.
type point struct{ offered, accepted, latency float64 }

// times of a point: both are long against any latency below saturation.
const (
	warm6   = 2 * dataplane.Millisecond
	window6 = 5 * dataplane.Millisecond
)

// performance measures a network under the tables of 2003 at each load.
func performance(f *fabric.Fabric, seed uint64) ([]point, error) {
	x, err := newSubject(f, method{static: true}, profiles[0], seed, nil)
	if err != nil {
		return nil, err
	}
	full := float64(dataplane.Second) / float64(dataplane.LinkRate(f.Nodes[0].Ports[1].Width,
		f.Nodes[0].Ports[1].Speed).Time(packet2003))
	var all []point
	for _, load := range loads6 {
		e, err := x.c.Sim.StartData(plane2003(seed), dataplane.DefaultCable)
		if err != nil {
			return nil, err
		}
		hosts, err := send(e, f, x.knows(), load*full)
		if err != nil {
			return nil, err
		}
		e.Run(e.Now() + warm6)
		e.ResetStats()
		e.Run(e.Now() + window6)
		st := e.Stats()
		per := float64(hosts) * float64(window6) / float64(dataplane.Second)
		all = append(all, point{
			float64(st.Created) / per, float64(st.Delivered) / per,
			float64(st.Latency.Mean()) / float64(dataplane.Microsecond),
		})
		if err := e.Check(); err != nil {
			return nil, err
		}
		x.c.Sim.StopData()
	}
	return all, nil
}

// saturation is the greatest load of which a network accepts 99 %: beyond it the queues
// of some hosts grow without end. most is what it accepts at most, at any load: other
// hosts get more then.
func saturation(all []point) (knee, most float64) {
	for _, p := range all {
		most = max(most, p.accepted)
		if p.accepted >= 0.99*p.offered {
			knee = max(knee, p.accepted)
		}
	}
	return knee, most
}

// networks6 is how many irregular networks are measured, if nothing else is asked for.
const networks6 = 20

// figure6 measures irregular networks of 32 switches, and the Clos network; it returns
// the saturation of the latter. The sections are the curves of the first network and of
// the Clos network, then the saturation of all.
func figure6(o *Options, runs int) (sections []report.Section, clos float64, err error) {
	each := report.Section{
		Title: "Saturation of the networks of Figure 6a",
		Text: "Packets a second and host: the greatest load of which 99 % is accepted, and the most that is " +
			"accepted at any load. The report's network is not in its text, nor is what it calls saturation. What its " +
			"crossbar takes for a packet is not in the text either: here nothing but the time on the link.",
		Table: report.Table{Columns: []string{
			"network", "seed", "saturation", "accepted at most", "latency at 5 %, us", "at saturation",
		}},
	}
	var first []point
	var knees, tops []float64
	accepts, rises := true, true
	for r := range runs {
		o.say("Figure 6, network %d of %d", r+1, runs)
		seed := o.Seed + uint64(r)*1000 + 32
		f, seed, err := net2003(32, 21, seed)
		if err != nil {
			return nil, 0, err
		}
		all, err := performance(f, seed)
		if err != nil {
			return nil, 0, err
		}
		if r == 0 {
			first = all
		}
		knee, top := saturation(all)
		knees, tops = append(knees, knee), append(tops, top)
		late := 0.0
		for i, p := range all {
			accepts = accepts && (p.offered > 0.9*knee || p.accepted >= 0.99*p.offered)
			rises = rises && (i == 0 || p.latency >= 0.99*all[i-1].latency)
			if p.accepted == knee {
				late = p.latency
			}
		}
		each.Table.Rows = append(each.Table.Rows, []any{r + 1, int(seed), knee, top, all[0].latency, late})
	}
	f, err := clos2003()
	if err != nil {
		return nil, 0, err
	}
	all, err := performance(f, o.Seed)
	if err != nil {
		return nil, 0, err
	}
	clos, _ = saturation(all)
	median := slices.Sorted(slices.Values(knees))[runs/2]
	sections = append(sections, performanceSection("32 switches and 21 hosts, the first network (Figure "+
		"6a)", first), performanceSection("7 switches and 4 hosts (Figure 6b)", all), each)
	sections[0].Claim = []report.Claim{
		{
			What: "saturation in packets a second and host, within a factor of 2", Published: "165,000 (one such " +
				"network, which is not in the text)",
			Measured: fmt.Sprintf("median %.0f, %.0f to %.0f on %d networks; at most %.0f to %.0f are accepted", median,
				slices.Min(knees), slices.Max(knees), runs, slices.Min(tops), slices.Max(tops)),
			Holds: median >= 82_500 && median <= 330_000,
		},
		{
			What: "below 90 % of saturation what is offered is accepted, within 1 %", Published: "implied by the " +
				"curve's axes",
			Measured: fmt.Sprintf("on %d networks", runs), Holds: accepts,
		},
		{
			What: "latency rises with the load", Published: "implied", Measured: fmt.Sprintf("on %d networks", runs),
			Holds: rises,
		},
	}
	sections[1].Claim = []report.Claim{{
		What: "the Clos network saturates at no less for each host than irregular ones", Published: "the curve is lost",
		Measured: fmt.Sprintf("%.0f packets a second and host, of which the tests take a quarter: "+
			"%.0f", clos, clos/4), Holds: clos >= median,
	}}
	return sections, clos, nil
}

func performanceSection(title string, all []point) report.Section {
	s := report.Section{
		Title: "Latency and throughput, " + title,
		Text: "Packets of 256 bytes at a constant rate to random hosts at random service levels, two lanes of " +
			"4,096 bytes at each input; output buffers, which the report's switches have as well, are left out. A " +
			"source has a queue without limit.",
		Table: report.Table{Columns: []string{"offered/s and host", "accepted/s and host", "latency, us"}},
		Plots: []report.Plot{{Title: "Latency over throughput", X: "accepted packets/s and " +
			"host", Y: "us", XColumn: 1, Columns: []int{2}, Labels: []string{"latency"}, Log: true}},
	}
	for _, p := range all {
		s.Table.Rows = append(s.Table.Rows, []any{p.offered, p.accepted, p.latency})
	}
	return s
}
