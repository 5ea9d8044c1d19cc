package experiment

import (
	"fmt"
	"slices"

	"heddle/lab/experiment/bed"
	"heddle/report"
)

type vftreeResults struct {
	seed         uint64
	runs         int
	lanes, spots []int
	trees        []bed.Tree
	beds         []bedResult
	rings        [][2]ringResult
	points       []hotPoint
	hot          []hotResult
}

func (r *vftreeResults) report() *report.Report {
	rep := &report.Report{
		Name: "vftree", Title: "Hot spots, and lanes by pair of leaves", Seed: r.seed,
		Source: "W. L. Guay, B. Bogdański, S.-A. Reinemo, O. Lysne, T. Skeie: vFtree – a fat-tree routing " +
			"algorithm using virtual lanes to alleviate congestion (2011), Figures 5a, 5c and 6 to 10, Tables I " +
			"and II",
		Intro: fmt.Sprintf("Heddle's manager routes; packets of 2 KiB move on the tables, service levels and "+
			"lanes that it has written. Test beds: DDR, hosts that send and take %v Gb/s of payload, each flow "+
			"with a queue of its own that is always full. "+
			"Rates are Gb/s of payload. The drawings of the test beds are lost: they are rebuilt from flows, "+
			"cable numbers and text. Congestion control (Figure 5b, check P3.2) is left out.", bed.HostGbps),
		Sections: []report.Section{r.parameters()},
	}
	for i := range bedFigures {
		rep.Sections = append(rep.Sections, r.bedSection(i))
	}
	rep.Sections = append(rep.Sections, r.ringSection())
	for _, t := range r.trees {
		rep.Sections = append(rep.Sections, r.hotSection(t), r.hotFigure(t), r.coldSection(t))
	}
	rep.Sections = append(rep.Sections, r.missing())
	return rep
}

func (r *vftreeResults) parameters() report.Section {
	dc := bed.Wide().Config(0, 1)
	row := func(name, value string) []any { return []any{name, value} }
	return report.Section{
		Title: "Parameters",
		Text: "None of them is published but the hosts' rate and the length of packets. The manager has the " +
			"product's settings but for its engine.",
		Table: report.Table{Columns: []string{"parameter", "value"}, Rows: [][]any{
			row("switches", fmt.Sprintf("%v, %d packets of an input read at a time, %v, %v from head to head",
				dc.Input, dc.Reads, dc.Choice, dc.SwitchDelay)),
			row("buffers on test beds", fmt.Sprintf("'wide': %s, split among the lanes in use; 'narrow': %s, "+
				"and a turn-round of credits of %v", bed.Wide().Name, bed.Narrow().Name, bed.Narrow().Credit)),
			row("windows on test beds", fmt.Sprintf("%v after %v", bed.Window, bed.Warm)),
			row("rings", fmt.Sprintf("%d steps of each order, messages of %d KiB, a barrier after each step",
				ringPatterns, ringPackets*bed.Payload/1024)),
			row("Figure 10: cables and hosts", "QDR; hosts send and take at wire speed"),
			row("Figure 10: buffers", fmt.Sprintf("%d packets a switch port, split among the lanes in use",
				bed.TreeBuffer/bed.PacketBlocks())),
			row("Figure 10: source model", lossy.name+"; for 'full' instead each lane always has a packet ready"),
			row("Figure 10: windows", fmt.Sprintf("cold: the first %d packet times; steady: %d after %d; %d "+
				"seeds from %d on", hotCold, hotWindow, hotWarm, r.runs, r.seed)),
		}},
	}
}

// bedSection is a test bed.
func (r *vftreeResults) bedSection(i int) report.Section {
	f := &bedFigures[i]
	s := report.Section{Title: f.title, Table: report.Table{Columns: []string{"figure", "lanes"}}}
	for _, b := range []string{"", "narrow: "} {
		for _, x := range f.flows {
			s.Table.Columns = append(s.Table.Columns, b+x.String())
		}
		s.Table.Columns = append(s.Table.Columns, b+"total")
	}
	s.Table.Columns = append(s.Table.Columns, "published")
	for k, l := range f.lines {
		row := []any{l.figure, l.how}
		for _, x := range r.beds[i][k] {
			for _, v := range x {
				row = append(row, v)
			}
			row = append(row, bed.Total(x))
		}
		s.Table.Rows = append(s.Table.Rows, append(row, l.published))
	}
	s.Claim = [...]func(bedResult) []report.Claim{pairClaims, leafClaims, overClaims}[i](r.beds[i])
	return s
}

// pairClaims are about Figures 5 and 6: flows 1-5, 2-6, 7-6, 8-6.
func pairClaims(r bedResult) []report.Claim {
	one, two := r[0][0], r[1][0]
	all := true
	for _, v := range one {
		all = all && bed.Near(v, 4.4, 0.12)
	}
	return []report.Claim{
		bed.Claim("P3.1: the victim on one lane", "≈ 4.5 Gb/s", one[0] <= 4.5, "%.2f", one[0]),
		bed.Claim("P3.1: the victim on a lane of its own", "≈ 13 Gb/s", two[0] >= 12.5, "%.2f", two[0]),
		bed.Claim("V33: all flows on one lane", "≈ 4.5 Gb/s; ± 12 % of 4.4", all, "%.2f", one),
		bed.Claim("Figure 6: total, two lanes above one", "above", bed.Total(two) > bed.Total(one), "%.1f, %.1f", bed.Total(two), bed.Total(one)),
	}
}

// leafClaims are about Figures 7a and 8: flows 1-5, 3-5, 6-5, 2-3, 4-1.
func leafClaims(r bedResult) []report.Claim {
	one, two, three := r[0][0], r[1][0], r[2][0]
	gain := bed.Total(three) / bed.Total(one)
	small := bed.Total(r[2][1]) / bed.Total(r[0][1])
	victims := slices.Min([]float64{two[3], two[4], three[3], three[4]})
	lot, fair := one[2]/one[0], three[2]/three[0]
	return []report.Claim{
		bed.Claim("P3.3: total, three lanes of vFtree to one", "+38 %", gain >= 1.38,
			"%+.0f %%; with narrow buffers %+.0f %%", 100*gain-100, 100*small-100),
		bed.Claim("P3.3: victims on lanes of their own", "≈ 7 Gb/s", victims >= 7,
			"%.2f and more; with narrow buffers %.2f", victims, min(r[1][1][3], r[2][1][3])),
		bed.Claim("P3.4: 6-5 to 1-5 on one lane (parking lot)", "above 1", lot >= 1.8, "%.2f", lot),
		bed.Claim("P3.4: the same with vFtree", "1", bed.Near(fair, 1, 0.05), "%.3f", fair),
	}
}

// overClaims are about Figures 7b and 9: flows 1-9, 6-9, 10-9, 8-11.
func overClaims(r bedResult) []report.Claim {
	one, two, three, four := r[0][0], r[1][0], r[2][0], r[3][0]
	fair := true
	for _, x := range [][]float64{three, four} {
		for _, v := range x[:3] {
			fair = fair && bed.Near(v, bed.HostGbps/3, 0.05)
		}
	}
	t := []float64{bed.Total(one), bed.Total(two), bed.Total(three), bed.Total(four)}
	return []report.Claim{
		bed.Claim("P3.5: the victim 8-11 on one lane", "≈ 2.1 Gb/s", bed.Near(one[3], bed.HostGbps/6, 0.1), "%.2f", one[3]),
		bed.Claim("P3.5: on a lane of its own", "≈ 7.5 Gb/s", two[3] >= 7.5,
			"%.2f; with narrow buffers %.2f", two[3], r[1][1][3]),
		bed.Claim("P3.6: contributors with three and four lanes", "≈ 4.5 Gb/s; a third of the hot spot's", fair,
			"%.2f, %.2f", three[:3], four[:3]),
		bed.Claim("P3.7: totals", "2 lanes > 4 > 3 > 1", t[1] > t[3] && t[3] > t[2] && t[2] > t[0],
			"%.1f, %.1f, %.1f, %.1f", t[1], t[3], t[2], t[0]),
		bed.Claim("P3.7: three lanes of vFtree to one", "≈ +20 % (8/7, +14 %, is all that end ports allow)",
			t[2]/t[0] >= 1.14, "%+.1f %%", 100*t[2]/t[0]-100),
	}
}

func (r *vftreeResults) ringSection() report.Section {
	s := report.Section{
		Title: "b_eff beside the hot spot (Tables I and II)",
		Text: "Stands for MPI: in a step of a ring each host sends a message to both neighbors, and the next " +
			"step begins when all are there. A ping is a message of 8 bytes between two hosts, and takes the " +
			"least published latency besides the network. " +
			"Compare ratios: the absolute figures are those of software that is not simulated.",
		Table: report.Table{Columns: []string{
			"table", "routing", "natural ring, MB/s", "random ring, MB/s",
			"ping-pong, mean us", "least", "most",
		}},
	}
	for i, x := range r.rings {
		t := &ringTables[i]
		for k, name := range []string{"ftree, 1 lane", "vFtree, 3 lanes"} {
			s.Table.Rows = append(s.Table.Rows, []any{
				t.title, name, x[k].natural, x[k].random, x[k].ping, x[k].least, x[k].most,
			})
		}
		bw, late := x[1].random/x[0].random, x[1].ping/x[0].ping
		s.Claim = append(
			s.Claim,
			bed.Claim(t.check+": random ring", t.bw, bw >= t.wantBW, "%+.0f %%", 100*bw-100),
			bed.Claim(t.check+": mean ping-pong latency", t.lat, late <= t.wantLate, "%+.0f %%", 100*late-100),
		)
	}
	return s
}

func (r *vftreeResults) missing() report.Section {
	s := report.Section{
		Title: "What is not reproduced, and the likely reason",
		Table: report.Table{Columns: []string{"what", "published", "here", "likely reason"}},
	}
	leaf, over := r.beds[1], r.beds[2]
	s.Table.Rows = [][]any{
		{
			"victims on DDR cables beside contributors (8b, 9b)", "7 and 7.5 Gb/s", fmt.Sprintf("%.1f and %.1f; "+
				"narrow %.1f and %.1f", leaf[1][0][3], over[1][0][3], leaf[1][1][3], over[1][1][3]),
			"a lane's part of the buffer covers one packet, less than the round trip of credits",
		},
		{"total of Figure 7a", "+38 %", fmt.Sprintf("%+.0f %%; narrow %+.0f %%",
			100*bed.Total(leaf[2][0])/bed.Total(leaf[0][0])-100, 100*bed.Total(leaf[2][1])/bed.Total(leaf[0][1])-100), "the same"},
		{
			"total of Figure 7b", "≈ +20 %", fmt.Sprintf("%+.0f %%", 100*bed.Total(over[2][0])/bed.Total(over[0][0])-100),
			"end ports allow no more than 8/7",
		},
		{
			"mean ping-pong latencies of Tables I and II", "13.5 and 9.5 us with vFtree, 41 and 38 % less than ftree",
			fmt.Sprintf("%.1f and %.1f us, %.0f and %.0f %% less", r.rings[0][1].ping, r.rings[1][1].ping,
				100-100*r.rings[0][1].ping/r.rings[0][0].ping, 100-100*r.rings[1][1].ping/r.rings[1][0].ping),
			"MPI and its transfers, which wait for each other, are not simulated",
		},
		{
			"Figure 10, one hot spot, as a steady state", "+459 to +757 %", "larger",
			"the runs began cold and contain the time until the tree is full. With sources that lose the excess, a cold " +
				"window that fits eight lanes is too short for two; with lanes that are always full, one window fits all",
		},
		{"congestion control (Figures 5b, 6)", "≈ 13 Gb/s", "-", "not simulated yet"},
	}
	for _, t := range r.trees {
		s.Table.Rows = append(s.Table.Rows, r.dropsMissing(t)...)
	}
	return s
}

// dropsMissing are lanes that bring less than fewer lanes do, by the paper.
func (r *vftreeResults) dropsMissing(t bed.Tree) (rows [][]any) {
	steady := func(spots, lanes int) float64 {
		if x := r.at(t, spots, lanes, lossy.queue); x != nil {
			return x.steady
		}
		return 0
	}
	for _, spots := range r.spots {
		one, two, six, eight := steady(spots, 1), steady(spots, 2), steady(spots, 6), steady(spots, 8)
		if !t.Half && spots > 1 && two > 0 {
			rows = append(rows, []any{
				fmt.Sprintf("two lanes below one, %d hot spots, %v", spots, &t), "drops are mentioned (Figure 10a)",
				fmt.Sprintf("%+.0f %%", 100*two/one-100),
				"sources that lose the excess: which packets wait at a host is not published",
			})
		}
		if t.Half && spots == 9 && six > 0 {
			rows = append(rows, []any{
				fmt.Sprintf("six lanes above eight, 9 hot spots, %v", &t), "+97 and +90 % (Figure 10b)",
				fmt.Sprintf("%+.0f and %+.0f %%", 100*six/one-100, 100*eight/one-100),
				fmt.Sprintf("chance, say the authors; here the mean of %d seeds", r.runs),
			})
		}
	}
	return rows
}
