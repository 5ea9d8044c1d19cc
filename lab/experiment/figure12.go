package experiment

import (
	"fmt"
	"time"

	"heddle/fabric"
	"heddle/report"
)

// cpu2003 is what computing took in 2003, as far as the report's text says: its curve
// (Figure 8a) is not in the text. Most of the time is computing (on Figure 7), which
// grows quadratically: here 5 ms at 8 switches, a little more than all SMPs take.
func cpu2003(switches int) time.Duration {
	return 5 * time.Millisecond * time.Duration(switches*switches) / 64
}

// The ways to assimilate a change that Figures 10 to 12 compare.
var lossMethods = []method{
	{name: "2003", static: true, compute: cpu2003},
	{name: "2003, this machine", static: true},
	{name: "ours"},
}

// net2003 is a random network with so many switches and hosts, of those that begin
// with seed.
func net2003(switches, hosts int, seed uint64) (*fabric.Fabric, uint64, error) {
	for s := seed; s < seed+20_000; s++ {
		f, err := fabric.Generate(fabric.Irregular{Switches: switches, Hosts: 1, Seed: s}, fabric.GenerateOptions{})
		if err != nil {
			return nil, 0, err
		}
		if len(f.Nodes) == switches+hosts {
			return f, s, nil
		}
	}
	return nil, 0, fmt.Errorf("no network of %d switches has %d hosts", switches, hosts)
}

// Of Figure 12: packets a second and host, and how long before the next sweep the change
// comes, less than the sweep's interval.
const (
	rate12  = 300_000
	before  = 80 * time.Millisecond
	phase12 = sweepInterval - before
)

// lossOf is what was measured for a change by each method.
type lossOf struct {
	node string
	by   []*loss // in the order of lossMethods
}

// figure12 removes and adds the switches of a network of 8 switches and 7 hosts in turn, at
// most so many, 0: all.
func figure12(o *Options, rate float64, most int) (seed uint64, all [2][]lossOf, err error) {
	f, seed, err := net2003(8, 7, o.Seed)
	if err != nil {
		return 0, all, err
	}
	own := f.Nodes[0].Ports[1].Peer.Node
	for i := range f.Nodes {
		if !f.Nodes[i].IsSwitch() || int32(i) == own || most > 0 && len(all[0]) == most {
			continue
		}
		one := [2]lossOf{{node: f.Nodes[i].ID}, {node: f.Nodes[i].ID}}
		for _, m := range lossMethods {
			o.say("Figure 12, %s, %s", f.Nodes[i].ID, m.name)
			x, err := newSubject(f, m, profiles[0], seed, o.clock())
			if err != nil {
				return 0, all, err
			}
			for kind := range one {
				l, err := x.measureLoss(f.Nodes[i].ID, kind, rate, phase12)
				if err != nil {
					return 0, all, fmt.Errorf("%s %s, %s: %w", f.Nodes[i].ID, changeKinds[kind], m.name, err)
				}
				one[kind].by = append(one[kind].by, l)
			}
		}
		for kind := range one {
			all[kind] = append(all[kind], one[kind])
		}
	}
	return seed, all, nil
}

// ms is d in milliseconds.
func ms(d time.Duration) float64 { return d.Seconds() * 1000 }

// figure12Sections are the packets lost by each method, and the curves of one removal.
func figure12Sections(seed uint64, rate float64, all [2][]lossOf) []report.Section {
	s := report.Section{
		Title: "Packets lost while a switch goes or comes, 8 switches and 7 hosts (Figure 12)",
		Text: fmt.Sprintf("The network is number %d; each switch but the manager's own in turn. %.0f packets of "+
			"256 bytes a second from each host to all others, 1X links, two data lanes. "+
			"The change comes %v before the next sweep. '2003' is the published method with %v of computing at 8 "+
			"switches, as the text on Figure 7 has it (most of the time is computing; the figures of its computers "+
			"are lost); "+
			"'2003, this machine' the same with what computing takes here; 'ours' is Heddle with the product's "+
			"lifetimes, waits and better tables later included. "+
			"Until a manager knows who is gone, hosts send to it too. A cable takes %v and an agent %v for an SMP, "+
			"which gives the published gap of about 5 ms. "+
			"From %v after the change on hosts send a %dth, and each lost packet counts %d times.",
			seed, rate, before, cpu2003(8), hop2003, sma2003, fullRate, thin, thin),
		Table: report.Table{Columns: []string{"switch", "change"}},
	}
	for _, m := range lossMethods {
		s.Table.Columns = append(s.Table.Columns, m.name+": lost", "until noticed", "noticed, ms", "done, ms",
			"longest gap, ms", "lost in it")
	}
	for kind := range all {
		for _, c := range all[kind] {
			row := []any{c.node, changeKinds[kind]}
			for _, l := range c.by {
				row = append(row, l.lost, l.unnoticed, ms(l.noticed), ms(l.done), ms(l.pause), l.inPause)
			}
			s.Table.Rows = append(s.Table.Rows, row)
		}
	}
	s.Claim = figure12Claims(rate, all)
	sections := []report.Section{s}
	if c := mostLost(all[removal]); c != nil {
		sections = append(sections, curves(c))
	}
	return sections
}

// mostLost is the removal that costs their method most.
func mostLost(all []lossOf) (most *lossOf) {
	for i := range all {
		if most == nil || all[i].by[0].lost > most.by[0].lost {
			most = &all[i]
		}
	}
	return most
}

func figure12Claims(rate float64, all [2][]lossOf) []report.Claim {
	least, most, here := 0.0, 0.0, 0.0
	worst, silent, steps := 1.0, 0.0, true
	inTime, gapLeast, gapMost := true, time.Hour, time.Duration(0)
	var sum, later [2][3]float64
	for kind := range all {
		for i, c := range all[kind] {
			for k, l := range c.by {
				sum[kind][k] += l.lost / float64(len(all[kind]))
				later[kind][k] += (l.lost - l.unnoticed) / float64(len(all[kind]))
				if !lossMethods[k].static {
					continue
				}
				inTime = inTime && l.noticed > 0 && l.noticed <= 101*time.Millisecond
				gapLeast, gapMost = min(gapLeast, l.distribute), max(gapMost, l.distribute)
				if off := l.inPause / max(l.offered, 1); off-1 > worst-1 && off > 1 || 1-off > worst-1 && off < 1 {
					worst = 1 + max(off-1, 1-off)
				}
				silent = max(silent, l.pause.Seconds()/l.distribute.Seconds())
				steps = steps && l.down > 0 && l.written > 0 && l.distribute > l.down+l.written
			}
			if l := c.by[0]; kind == removal {
				if i == 0 || l.lost < least {
					least = l.lost
				}
				most, here = max(most, l.lost), max(here, c.by[1].lost)
			}
		}
	}
	return []report.Claim{
		{
			What: "the sweep notices the change", Published: "after about 0.08 s, at a sweep every 0.1 s",
			Measured: fmt.Sprintf("in at most one interval and a sweep (the change is placed %v before the next "+
				"one)", before), Holds: inTime,
		},
		{
			What: "ports down, tables, ports up follow each other (2003)", Published: "three steps in 5 ms (inset)",
			Measured: fmt.Sprintf("three steps in %.1f to %.1f ms; the times of the agents are chosen "+
				"so", ms(gapLeast), ms(gapMost)), Holds: steps,
		},
		{
			What: "nothing is delivered while ports are down, and discards jump by what is offered " +
				"(2003)", Published: "a gap of about 0.005 s, additional discards",
			Measured: fmt.Sprintf("the jump is what hosts offer in the gap within %.1f "+
				"%%", 100*(worst-1)), Holds: worst <= 1.05 && silent > 0.5,
		},
		{
			What: "packets lost by the removal of a switch in the end (2003)", Published: "more than 75,000; which " +
				"switch is not said",
			Measured: fmt.Sprintf("%.0f to %.0f; up to %.0f with the computing of this machine (%.0f packets/s and "+
				"host)", least, most, here, rate), Holds: most > 75_000,
		},
		{
			What: "ours loses fewer packets than the method of 2003 on this machine, removal, in the " +
				"mean", Published: "not considered",
			Measured: fmt.Sprintf("%.0f against %.0f; after the change was noticed %.0f against "+
				"%.0f", sum[removal][2], sum[removal][1], later[removal][2], later[removal][1]),
			Holds: sum[removal][2] < sum[removal][1],
		},
		{
			What: "ours loses fewer packets than the method of 2003 on this machine, addition, in the " +
				"mean", Published: "not considered",
			Measured: fmt.Sprintf("%.0f against %.0f", sum[addition][2], sum[addition][1]),
			Holds:    sum[addition][2] < sum[addition][1],
		},
	}
}

// curves are the five plots of Figure 12 for one removal.
func curves(c *lossOf) report.Section {
	s := report.Section{
		Title: "The removal of " + c.node + " over time (Figure 12)",
		Text: "From the change on, by millisecond. SMPs and packets lost are totals; the others are rates and " +
			"means in that millisecond.",
		Table: report.Table{Columns: []string{"ms"}},
	}
	names := []string{"SMPs", "latency, us", "lost", "sent/s", "received/s"}
	for _, m := range lossMethods {
		for _, n := range names {
			s.Table.Columns = append(s.Table.Columns, m.name+": "+n)
		}
	}
	n := 0
	for _, l := range c.by {
		n = max(n, len(l.bins))
	}
	lost, smps := make([]int, len(c.by)), make([]int, len(c.by))
	for i := range n {
		row := []any{i}
		for k, l := range c.by {
			if i >= len(l.bins) {
				row = append(row, nil, nil, nil, nil, nil)
				continue
			}
			b := &l.bins[i]
			lost[k] += b.lost
			smps[k] = max(smps[k], b.smps)
			var latency any
			if b.received > 0 {
				latency = b.latency.Seconds() * microseconds / float64(b.received)
			}
			per := float64(time.Second / binWidth)
			row = append(row, smps[k], latency, lost[k], float64(b.sent)*per, float64(b.received)*per)
		}
		s.Table.Rows = append(s.Table.Rows, row)
	}
	for i, name := range names {
		p := report.Plot{Title: name + " after the removal of " + c.node, X: "ms", Y: name}
		for k, m := range lossMethods {
			p.Columns = append(p.Columns, 1+k*len(names)+i)
			p.Labels = append(p.Labels, m.name)
		}
		s.Plots = append(s.Plots, p)
	}
	return s
}
