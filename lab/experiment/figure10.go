package experiment

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"heddle/fabric"
	"heddle/ib"
	"heddle/report"
	"heddle/sim/dataplane"
)

// rate10 is a quarter of the saturation that the report saw, in packets a second and
// host.
const rate10 = 41_250

// lossChange removes and adds switches of a network in turn, at most so many, under all
// methods, and returns what is lost by kind.
func lossChange(o *Options, f *fabric.Fabric, seed uint64, rate float64, most int) (all [2][]lossOf, err error) {
	own := f.Nodes[0].Ports[1].Peer.Node
	for i := range f.Nodes {
		if !f.Nodes[i].IsSwitch() || int32(i) == own || most > 0 && len(all[0]) == most {
			continue
		}
		id := f.Nodes[i].ID
		all[removal], all[addition] = append(all[removal], lossOf{node: id}), append(all[addition], lossOf{node: id})
	}
	for _, m := range lossMethods {
		x, err := newSubject(f, m, profiles[0], seed, o.clock())
		if err != nil {
			return all, err
		}
		for i := range all[removal] {
			id := all[removal][i].node
			o.say("packets lost, %d switches, %s, %s", f.Count(ib.NodeSwitch), id, m.name)
			for kind := range all {
				l, err := x.measureLoss(id, kind, rate, sweepInterval/2)
				if err != nil {
					return all, fmt.Errorf("%s %s, %s: %w", id, changeKinds[kind], m.name, err)
				}
				l.bins = nil
				all[kind][i].by = append(all[kind][i].by, l)
			}
		}
	}
	return all, nil
}

// lossMean is the mean over the changes of a network.
type lossMean struct {
	n, lost, gone, inactive, unnoticed float64
}

func lossMeans(all []lossOf, k int) (m lossMean) {
	m.n = float64(len(all))
	for _, c := range all {
		l := c.by[k]
		m.lost += l.lost / m.n
		m.gone += l.gone / m.n
		m.inactive += (l.lost - l.gone) / m.n
		m.unnoticed += l.unnoticed / m.n
	}
	return m
}

// section10 is the frame of figure10.
func section10() report.Section {
	return report.Section{
		Title: "Packets lost against size (Figure 10)",
		Text: fmt.Sprintf("%d packets of 256 bytes a second and host, a quarter of the saturation that the report "+
			"saw; one network of each size, its switches in turn, half an interval after a sweep; means. "+
			"'Lost switch' is what is lost in the switch that is gone, at the ports of its cables, and without a route; "+
			"'inactive ports' is all else. "+
			"'2003' and '2003, this machine' differ in what computing takes, as for Figure 12. "+
			"How long ports are down depends on how the SMPs of the distribution overlap, which the report does not say: here not at all. Ours has the product's lifetimes; its waits, "+
			"drains and better tables are included.", rate10),
		Table: report.Table{Columns: []string{
			"switches", "hosts", "removed: lost switch (2003)", "inactive ports (2003)", "all (2003)", "2003, this machine", "ours",
			"ours, once noticed", "added: lost switch (2003)", "inactive ports (2003)", "all (2003)", "2003, this machine", "ours",
			"switches in turn",
		}},
		Plots: []report.Plot{
			{
				Title: "Packets lost, switch removed", X: "switches", Y: "packets", Columns: []int{2, 3, 6},
				Labels: []string{"lost switch (2003)", "inactive ports (2003)", "ours"},
			},
			{
				Title: "Packets lost, switch added", X: "switches", Y: "packets", Columns: []int{8, 9, 12},
				Labels: []string{"before (2003)", "inactive ports (2003)", "ours"},
			},
		},
	}
}

// figure10 is the packets discarded against the size of the network.
func figure10(o *Options, sizes []int, most int) (report.Section, error) {
	s := section10()
	alike, dominates, fewer := true, true, [2]bool{true, true}
	ratios := []float64{}
	var parts, removals []string
	for _, n := range sizes {
		seed := o.Seed + uint64(n)
		f, err := fabric.Generate(fabric.Irregular{Switches: n, Hosts: 1, Seed: seed}, fabric.GenerateOptions{})
		if err != nil {
			return s, err
		}
		all, err := lossChange(o, f, seed, rate10, most)
		if err != nil {
			return s, fmt.Errorf("%d switches, seed %d: %w", n, seed, err)
		}
		gone, back := lossMeans(all[removal], 0), lossMeans(all[addition], 0)
		hereGone, hereBack := lossMeans(all[removal], 1), lossMeans(all[addition], 1)
		ourGone, ourBack := lossMeans(all[removal], 2), lossMeans(all[addition], 2)
		s.Table.Rows = append(s.Table.Rows, []any{
			n, len(f.Nodes) - n, gone.gone, gone.inactive, gone.lost, hereGone.lost, ourGone.lost, ourGone.lost - ourGone.unnoticed,
			back.gone, back.inactive, back.lost, hereBack.lost, ourBack.lost, int(gone.n),
		})
		counted := func(m lossMean) string { return fmt.Sprintf("%.0f/%.0f", m.lost, m.lost-m.unnoticed) }
		removals = append(removals, counted(ourGone)+" against "+counted(hereGone))
		ratio := back.inactive / max(gone.inactive, 1)
		ratios = append(ratios, ratio)
		alike = alike && ratio >= 1 && ratio <= 1.3
		dominates = dominates && (n < 16 || gone.gone > gone.inactive)
		parts = append(parts, fmt.Sprintf("%.0f", gone.gone))
		fewer[removal], fewer[addition] = fewer[removal] && ourGone.lost < hereGone.lost, fewer[addition] &&
			ourBack.lost < hereBack.lost
	}
	first, last := s.Table.Rows[0], s.Table.Rows[len(s.Table.Rows)-1]
	s.Claim = []report.Claim{
		{
			What: "inactive ports lose about as much when a switch is added as when it is removed, slightly more " +
				"(2003)", Published: "similar, slightly larger for addition",
			Measured: fmt.Sprintf("%.2f to %.2f times as much", slices.Min(ratios), slices.Max(ratios)), Holds: alike,
		},
		{
			What: "the lost switch costs more than inactive ports, at 16 switches and more (2003)", Published: "dominates",
			Measured: fmt.Sprintf("%.0f against %.0f at %v switches: as much if ports were down for %.2f of the time",
				last[2], last[3], last[0], last[2].(float64)/last[3].(float64)), Holds: dominates,
		},
		{
			What: "and it costs more, the larger the network is (2003)", Published: "increases, in general, with size",
			Measured: fmt.Sprintf("%v at %v switches", parts, sizes), Holds: len(sizes) == 1 ||
				last[2].(float64) > first[2].(float64),
		},
		{
			What: "ours loses fewer packets in the mean than 2003 on this machine, removal, at every size", Published: "not considered",
			Measured: fmt.Sprintf("in all/once noticed %v: what is lost before depends on the routes through the switch",
				strings.Join(removals, ", ")), Holds: fewer[removal],
		},
		{
			What: "ours loses fewer packets in the mean than 2003 on this machine, addition, at every size", Published: "not considered",
			Measured: fmt.Sprintf("%.0f against %.0f at %v switches", last[12], last[11], last[0]), Holds: fewer[addition],
		},
	}
	return s, nil
}

// clos2003 is the network of Figure 5(b), as far as the text tells: 7 switches, of which
// 2, 3 and 4 are in the middle, and 4 hosts. GUIDs begin with 100; the manager is at
// switch 0.
func clos2003() (*fabric.Fabric, error) {
	var b fabric.Builder
	edges, hosts := []int{0, 1, 5, 6}, []int{}
	for k := range edges {
		hosts = append(hosts, b.AddCA(fmt.Sprintf("H%d", k), 1))
	}
	var sw [7]int
	for i := range sw {
		sw[i] = b.AddSwitch(fmt.Sprintf("S%d", i), 4)
		b.SetGUID(sw[i], ib.GUID(100+i))
	}
	for k, e := range edges {
		for port := range 3 {
			b.Connect(sw[e], port+1, sw[2+port], k+1)
		}
		b.Connect(hosts[k], 1, sw[e], 4)
	}
	return b.Build()
}

// figure11 is the packets discarded on the Clos network, by switch.
func figure11(o *Options, rate float64) (report.Section, error) {
	s := report.Section{
		Title: "Packets lost by switch, 7 switches and 4 hosts (Figure 11)",
		Text: fmt.Sprintf("%.0f packets a second and host: a quarter of the saturation of Figure 6(b) as measured "+
			"here. Each change comes half an interval after a sweep. "+
			"The published values are in drawings that are lost. Columns as for Figure 10.", rate),
		Table: report.Table{Columns: []string{
			"GUID", "removed: lost switch (2003)", "inactive ports (2003)", "ours", "ours, once noticed",
			"added: lost switch (2003)", "inactive ports (2003)", "ours",
		}},
		Plots: []report.Plot{
			{
				Title: "Packets lost, switch removed", X: "GUID", Y: "packets", Columns: []int{1, 2, 3},
				Labels: []string{"lost switch (2003)", "inactive ports (2003)", "ours"},
			},
			{
				Title: "Packets lost, switch added", X: "GUID", Y: "packets", Columns: []int{5, 6, 7},
				Labels: []string{"before (2003)", "inactive ports (2003)", "ours"},
			},
		},
	}
	f, err := clos2003()
	if err != nil {
		return s, err
	}
	all, err := lossChange(o, f, o.Seed, rate, 0)
	if err != nil {
		return s, err
	}
	by := map[string]float64{}
	for i, c := range all[removal] {
		back := all[addition][i]
		old, our := c.by[0], c.by[2]
		by[c.node] = old.before
		s.Table.Rows = append(s.Table.Rows, []any{
			101 + i, old.before, old.static, our.lost, our.lost - our.unnoticed, back.by[0].before, back.by[0].static,
			back.by[2].lost,
		})
	}
	s.Claim = []report.Claim{
		{
			What: "switches 103 and 104 lose very little before ports are taken down, at most 5 % of 102 " +
				"(2003)", Published: "very small",
			Measured: fmt.Sprintf("%.0f and %.0f, 102: %.0f", by["S3"], by["S4"], by["S2"]), Holds: math.Max(by["S3"],
				by["S4"]) <= 0.05*by["S2"],
		},
		{
			What: "all routes use switch 102 of the three in the middle (2003)", Published: "they use switch 2",
			Measured: fmt.Sprintf("102 loses %.0f packets, 101 (with a host) "+
				"%.0f", by["S2"], by["S1"]), Holds: by["S2"] > by["S3"] && by["S2"] > by["S4"],
		},
	}
	return s, nil
}

// causesFit reports losses that a change of the network does not explain.
func (l *loss) causesFit() error {
	for _, why := range []dataplane.Cause{
		dataplane.SourceFull, dataplane.TooLong, dataplane.HeadOfQueue, dataplane.Expired, dataplane.Stalled,
		dataplane.NoLane,
	} {
		if l.byCause[why] > 0 {
			return fmt.Errorf("%.0f packets are lost: %v", l.byCause[why], why)
		}
	}
	return nil
}
