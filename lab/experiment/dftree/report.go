package dftree

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"heddle/lab/experiment/bed"
	"heddle/report"
	"heddle/sim"
	"heddle/sim/dataplane"
)

func (r *results) report() *report.Report {
	rep := &report.Report{
		Name: "dftree", Title: "Flows to hot spots move to a slow lane", Seed: r.seed,
		Source: "W. L. Guay, S.-A. Reinemo, O. Lysne, T. Skeie: dFtree – a fat-tree routing algorithm using dynamic " +
			"allocation of virtual lanes to alleviate congestion in InfiniBand networks (2011; Paper IV of Guay's thesis), " +
			"Figures 2 and 5 to 13",
		Intro: "A hot spot is a host that more contributors send to than it takes. Packets to others that share buffers " +
			"with theirs wait behind them: victims. In dFtree a performance manager finds hot spots by counters, and hosts " +
			"change the service level of their queue pairs to them, so that they use a slow lane. " +
			"'Without' nothing is moved; 'ideal' knows the hot spot before its flows begin: the most that any loop can bring; " +
			"'real' is the manager's own: it reads the counters of all ports, finds the hot spot, and its SA notifies the hosts, " +
			"which drain the queue pairs to the hot spot, change their level and go on.",
		Sections: []report.Section{r.parameters()},
	}
	for i, x := range experiments() {
		rep.Sections = append(rep.Sections, r.bedSection(i, &x), r.timeline(i, &x))
	}
	rep.Sections = append(rep.Sections, r.loopSection(), r.waiting(), r.ringSection())
	for i, t := range r.trees {
		rep.Sections = append(rep.Sections, r.figure13(t))
		if list := r.loops[i]; len(list) > 0 {
			rep.Sections = append(rep.Sections, loopsSection(t, list))
		}
	}
	rep.Sections = append(rep.Sections, r.missing())
	return rep
}

func (r *results) parameters() report.Section {
	c := config()
	row := func(name, value string) []any { return []any{name, value} }
	return report.Section{
		Title: "Parameters",
		Text: "On test beds a millisecond stands for a second of the paper: control times are divided by 1,000, cables " +
			"and packets have their own.",
		Table: report.Table{Columns: []string{"parameter", "value"}, Rows: [][]any{
			row("test beds", fmt.Sprintf("trees 3a (DDR) and 3b (DDR to hosts, QDR to the root), rebuilt from flows and text; "+
				"hosts send and take %v Gb/s of payload of 15.8", bed.HostGbps)),
			row("hosts", fmt.Sprintf("RC, packets of 2 KiB, %d under way, an ACK for %d packets, a transport timer of 2.1 ms "+
				"(code %d)", c.Hosts.Options.Window, c.Hosts.Options.AckEvery, hostTimeout)),
			row("buffers of test beds", fmt.Sprintf("%s, or %s and a turn-round of credits of %v; split between two lanes "+
				"whether they are in use or not", bed.Wide().Name, bed.Narrow().Name, bed.Narrow().Credit)),
			row("contributors begin, or the cable is cut", fmt.Sprintf("%v; %v before and the last %v of %v after it are shown",
				begin, settled, settled, span)),
			row("the real loop", fmt.Sprintf("test beds: counters every %v; trees: every %v for each host; the product's thresholds; hosts change "+
				"queue pairs by draining, without a cost of their software", interval, treeInterval)),
			row("tick of PortXmitWait", sim.XmitWaitTick.String()),
			row("trees: hosts", "QDR, at wire speed, 5 % of the packets to the hot spot of the whole, third or ninth; a queue of "+
				"64 packets for each lane, excess lost; 'full': a packet is always ready for each lane"),
			row("trees: buffers", "62 packets a switch port, split among the lanes in use"),
			row("trees: windows", fmt.Sprintf("cold: the first %d packet times, full: the first %d; steady: %d after %d; mean of "+
				"%d seeds", treeCold, treeFilled, treeWindow, treeWarm, r.runs)),
		}},
	}
}

// bedSection is an experiment.
func (r *results) bedSection(i int, x *experiment) report.Section {
	flows := append([]bed.Flow{x.victim}, x.contributors...)
	s := report.Section{
		Title: fmt.Sprintf("Experiment %s: victim %v (%s)", x.name, x.victim, x.figures),
		Text:  fmt.Sprintf("Gb/s of payload. Published for the victim: %s.", x.published),
		Table: report.Table{Columns: []string{"loop", "buffers"}},
	}
	if x.cut > 0 {
		s.Text += fmt.Sprintf(" All begin at once; cable %d, the victim's, is cut.", x.cut)
	}
	for _, when := range []string{"before", "after"} {
		for _, f := range flows {
			s.Table.Columns = append(s.Table.Columns, fmt.Sprintf("%s: %v", when, f))
		}
	}
	s.Table.Columns = append(s.Table.Columns, "contributors", "repeated")
	for _, y := range r.beds[i] {
		row := []any{y.loop.String(), y.buf.Name}
		for _, list := range [][]float64{y.before, y.after} {
			for _, v := range list {
				row = append(row, v)
			}
		}
		s.Table.Rows = append(s.Table.Rows, append(row, y.hot(), int(y.repeats)))
	}
	without, best := r.beds[i][bedWithout], r.beds[i][bedIdeal]
	loop := r.beds[i][bedReal]
	gain, own := best.victim()/without.victim(), loop.victim()/without.victim()
	s.Claim = []report.Claim{
		bed.Claim(fmt.Sprintf("V30 to V32: experiment %s without: the victim before", x.name), fmt.Sprintf("%.1f Gb/s ± 12 %%", x.before),
			bed.Near(without.before[0], x.before, 0.12), "%.2f", without.before[0]),
		bed.Claim(fmt.Sprintf("V30 to V32: experiment %s without: the victim after", x.name),
			fmt.Sprintf("%s (fair shares: %.2f ± 12 %%)", x.published, x.after), bed.Near(without.victim(), x.after, 0.12), "%.2f",
			without.victim()),
		bed.Claim(fmt.Sprintf("%s: experiment %s, ideal: the victim, to without", x.check, x.name), fmt.Sprintf("at least %v times", x.gain),
			gain >= x.gain, "%.2f times", gain),
		bed.Claim(fmt.Sprintf("%s: experiment %s, real: the victim, to without", x.check, x.name), fmt.Sprintf("at least %v times", x.gain),
			own >= x.gain, "%.2f times", own),
		bed.Claim(fmt.Sprintf("P4.6: experiment %s: the contributors lose at most 5 %%", x.name), "unharmed",
			min(best.hot(), loop.hot()) >= 0.95*without.hot(), "ideal %.2f, real %.2f, without %.2f", best.hot(), loop.hot(), without.hot()),
	}
	return s
}

// loopSection is what the real loop did.
func (r *results) loopSection() report.Section {
	s := report.Section{
		Title: "What the real loop does",
		Text: fmt.Sprintf("Times in intervals of the counters, from the beginning of the contributors, or from the cut in experiment "+
			"II, and for 'back' from the end of the contributors. 'Moved' is when the last of their queue pairs changed, 'free' "+
			"when the victim last had less than 90 %% of what it has in the end. The contributors begin at %v, and %v is half an interval.",
			begin, interval/2),
		Table: report.Table{Columns: []string{"experiment", "marked", "victim moved", "moved", "free", "back", "repeated"}},
	}
	in := func(d time.Duration) any {
		if d == never {
			return nil
		}
		return float64(d) / float64(interval)
	}
	for i, x := range experiments() {
		y := r.beds[i][bedReal]
		s.Table.Rows = append(s.Table.Rows, []any{
			x.name, strings.Join(y.opened, " "), fmt.Sprint(y.victimMoved), in(y.movedAt), in(y.freeAt), in(y.backAt), int(y.repeats),
		})
		s.Claim = append(s.Claim,
			bed.Claim(fmt.Sprintf("P4.1: experiment %s: exactly the hot spot is marked, and no queue pair of the victim changes", x.name), x.hot,
				slices.Equal(y.opened, []string{x.hot}) && !y.victimMoved, "%s; moved: %v", strings.Join(y.opened, " "), y.victimMoved),
			bed.Claim(fmt.Sprintf("P4.7: experiment %s: after the end all are on the fast lane, within 2 intervals", x.name), "yes",
				y.backAt != never && y.backAt <= 2*interval && slices.Contains(y.closed, x.hot), "%v", in(y.backAt)),
		)
		if x.cut > 0 {
			s.Claim = append(s.Claim, bed.Claim(fmt.Sprintf("P4.3: experiment %s: the contributors have moved before the cut", x.name), "yes",
				y.movedAt != never && y.movedAt < 0, "%v intervals", in(y.movedAt)))
			continue
		}
		s.Claim = append(s.Claim, bed.Claim(fmt.Sprintf("P4.4: experiment %s: the victim is free within 2 intervals", x.name), "2 s (and a step of the time line)",
			y.freeAt <= 2*interval+step, "%v intervals", in(y.freeAt)))
	}
	return s
}

func (r *results) ringSection() report.Section {
	s := report.Section{
		Title: "b_eff beside the hot spot (Tables 2 and 3)",
		Text: fmt.Sprintf("Both tables of the paper are lost but for two gains. As in the HPC Challenge benchmark each host sends a "+
			"message to both neighbors of a ring, %d times after once that is not measured, at once or one after the other; the "+
			"better way of each host counts, and of the hosts the one that takes longest; of %d random rings the geometric mean. "+
			"Messages have %d KiB, so that a ring takes less than an interval of the counters. MB/s of a host, sent. 'Real': queue "+
			"pairs begin on the lane that the SA's answer names, which for paths of contributors to the hot spot is the slow one. "+
			"'Fast': they begin on the fast lane, as the paper says (§3.3), and move when a notice comes.",
			ringRepeats, ringRandom, ringBytes/1024),
		Table: report.Table{Columns: []string{
			"table", "natural ring, without", "real", "gain, %", "fast", "gain, %", "random ring, without", "real", "gain, %", "fast",
			"gain, %", "published gain",
		}},
	}
	for i, x := range ringCases() {
		y := &r.rings[i]
		row := []any{x.title}
		for _, v := range []*[numRingLines]float64{&y.natural, &y.random} {
			row = append(row, v[ringWithout], v[ringReal], gainOf(v, ringReal), v[ringFast], gainOf(v, ringFast))
		}
		s.Table.Rows = append(s.Table.Rows, append(row, x.published))
		s.Claim = append(s.Claim,
			bed.Claim(fmt.Sprintf("P4.8: %s: random ring, queue pairs begin on the fast lane (§3.3)", x.title), x.published,
				gainOf(&y.random, ringFast) >= 49, "%+.0f %%", gainOf(&y.random, ringFast)),
			bed.Claim(fmt.Sprintf("P4.8: %s: random ring, they begin on the lane of the SA's answer", x.title), "- (more than without)",
				gainOf(&y.random, ringReal) > 0, "%+.0f %%", gainOf(&y.random, ringReal)),
		)
	}
	return s
}

// loopsSection is a tree with the real loop.
func loopsSection(t bed.Tree, list []treeLoop) report.Section {
	s := report.Section{
		Title: fmt.Sprintf("Figure 13 with the real loop (P4.10): %v", &t),
		Text: fmt.Sprintf("Mean throughput of a host as a share of what it can send, %d intervals after a cold start, %d packet times "+
			"long, one seed; 'cold': in the first %d packet times, in which no interval of the counters ends. The hosts have asked "+
			"the SA for all of their paths, so any may be a contributor. 'Pairs' are those whose level the SA's notices have "+
			"changed, 'others' those of them that do not go to a hot spot.", treeLoopWarm, treeWindow, treeCold),
		Table: report.Table{Columns: []string{
			"hot spots", "without", "ideal", "real", "real to ideal", "gain, %", "without, cold", "ideal, cold", "real, cold", "marked", "pairs",
			"others", "last one moved, intervals",
		}},
	}
	for i := range list {
		x := &list[i]
		var at any
		if x.movedAt != never {
			at = float64(x.movedAt) / float64(treeEvery(t))
		}
		ideal := x.ideal.steady
		s.Table.Rows = append(s.Table.Rows, []any{
			x.spots, x.without.steady, ideal, x.real.steady, x.real.steady / ideal, 100*x.real.steady/x.without.steady - 100, x.without.cold,
			x.ideal.cold, x.real.cold, len(x.opened), x.moved, x.others, at,
		})
		marked := slices.Sorted(slices.Values(x.opened))
		s.Claim = append(s.Claim,
			bed.Claim(fmt.Sprintf("P4.10: %d hosts, %d hot spots: the real loop, to the ideal one", t.Hosts, x.spots), "- (at least 0.9)",
				x.real.steady >= 0.9*ideal, "%.3f", x.real.steady/ideal),
			bed.Claim(fmt.Sprintf("P4.10: %d hosts, %d hot spots: exactly these are marked, and no other pair moves", t.Hosts, x.spots), "-",
				slices.Equal(marked, x.hot) && x.moved > 0 && x.others == 0, "%s; %d of %d pairs are others", strings.Join(marked, " "),
				x.others, x.moved),
		)
	}
	return s
}

// timeline is an experiment over time, without and with a loop.
func (r *results) timeline(i int, x *experiment) report.Section {
	flows := append([]bed.Flow{x.victim}, x.contributors...)
	s := report.Section{
		Title: fmt.Sprintf("Experiment %s over time", x.name),
		Text:  "Gb/s of payload in each second of the paper (a millisecond here).",
		Table: report.Table{Columns: []string{"s"}},
	}
	const each = int(second / step)
	for _, y := range r.beds[i][:bedNarrow] {
		p := report.Plot{
			Title: fmt.Sprintf("Experiment %s, %v", x.name, y.loop), X: "s", Y: "Gb/s", Marks: []float64{float64(begin / second)},
		}
		names := make([]string, len(flows))
		for f := range flows {
			names[f] = fmt.Sprintf("%v: %v", y.loop, flows[f])
		}
		bed.RatesOverTime(&s, p, names, y.steps, each)
	}
	return s
}

// waiting is Figure 2: which ports wait.
func (r *results) waiting() report.Section {
	s := report.Section{
		Title: "Ports that wait (Figure 2)",
		Text: fmt.Sprintf("Share of time in which a port had packets and sent none, in the end of each experiment without a "+
			"loop: the ports of hosts that send, and the switch port before the hot spot. In ticks of %v a share of 0.18 is "+
			"%.0f million a second. The paper marks above 100,000 a second, of ticks that it does not name.",
			sim.XmitWaitTick, 0.18/sim.XmitWaitTick.Seconds()/1e6),
		Table: report.Table{Columns: []string{"experiment", "port", "role", "waits"}},
	}
	for i, x := range experiments() {
		y := r.beds[i][bedWithout]
		hot := x.contributors[0][1]
		add := func(port, role string, v float64) {
			s.Table.Rows = append(s.Table.Rows, []any{x.name, port, role, v})
		}
		least := y.waits[x.victim[0]-1][0]
		add(fmt.Sprintf("host %d", x.victim[0]), "victim", least)
		for _, c := range x.contributors {
			add(fmt.Sprintf("host %d", c[0]), "contributor", y.waits[c[0]-1][0])
			least = min(least, y.waits[c[0]-1][0])
		}
		add(fmt.Sprintf("switch port to host %d", hot), "hot spot", y.waits[hot-1][1])
		least = min(least, y.waits[hot-1][1])
		most := 0.0
		for h := range y.waits {
			if h != hot-1 {
				most = max(most, y.waits[h][1])
			}
		}
		add("switch ports to other hosts, most", "", most)
		s.Claim = append(s.Claim, bed.Claim(
			fmt.Sprintf("V8, Figure 2: experiment %s: contributors, victim and the port to the hot spot wait, ports to others do not", x.name),
			"high at their ports and before the hot spot", least >= 0.1 && most <= 0.02, "least %.2f; others at most %.3f", least, most))
	}
	return s
}

// published are the gains of Figure 13 in percent, and the least that P4.9 asks for.
var published = map[int][2]float64{1: {480.25, 480}, 3: {345.32, 345}, 9: {169.17, 150}}

// model is what a model in packet times gives, as a share of a host's rate (§3.3 and Paper
// IV (e) of the reference).
var model = map[layout]float64{{1, true}: 0.58, {2, true}: 0.66, {3, true}: 0.74, {7, true}: 0.87}

func (r *results) figure13(t bed.Tree) report.Section {
	s := report.Section{
		Title: fmt.Sprintf("Hot spots on a tree of %v (Figure 13)", &t),
		Text: "Mean throughput of a host as a share of what it can send; gains over one lane in each window. With 'blocking' a " +
			"packet that cannot leave its host blocks all that follow, on whatever lane: then lanes gain nothing.",
		Table: report.Table{Columns: []string{
			"hot spots", "lanes", "layout", "steady", "gain, %", "cold", "cold gain, %", "full", "full gain, %", "published gain, %",
		}},
	}
	gain := func(v, of float64) float64 { return 100 * (v/of - 1) }
	for _, spots := range r.spots {
		base := r.at(t, r.lanes[0], spots, dataplane.LaneQueue)
		for _, l := range r.lanes {
			x := r.at(t, l, spots, dataplane.LaneQueue)
			var pub any
			if want, ok := published[spots]; ok && l == (layout{1, true}) && t.Hosts == 648 {
				pub = want[0]
			}
			s.Table.Rows = append(s.Table.Rows, []any{
				spots, l.lanes(), l.String(), x.steady, gain(x.steady, base.steady), x.cold, gain(x.cold, base.cold), x.filled,
				gain(x.filled, base.filled), pub,
			})
		}
	}
	base := r.at(t, r.lanes[0], r.spots[0], dataplane.LaneQueue)
	own := r.at(t, r.lanes[1], r.spots[0], dataplane.OwnQueue)
	s.Table.Rows = append(s.Table.Rows, []any{
		r.spots[0], r.lanes[1].lanes(), r.lanes[1].String() + ", blocking", own.steady, gain(own.steady, base.steady), own.cold,
		gain(own.cold, base.cold), nil, nil, nil,
	})
	slot := r.slot(t)
	s.Table.Rows = append(s.Table.Rows, []any{
		r.spots[0], r.lanes[1].lanes(), r.lanes[1].String() + ", one read of an input at a time", slot.steady, nil, slot.cold, nil,
		slot.filled, nil, nil,
	})
	s.Claim = r.treeClaims(t)
	if t.Hosts == 648 {
		s.Claim = append(s.Claim, bed.Claim("V24: share with a slow lane, one read of an input at a time", "- (a slot model: 0.58 ± 10 %)",
			bed.Near(slot.steady, 0.58, 0.1), "%.3f", slot.steady))
	}
	s.Claim = append(s.Claim, bed.Claim(fmt.Sprintf("V25: %v: with hosts that block a slow lane gains nothing", &t), "source model not published",
		bed.Near(own.steady, base.steady, 0.08), "%.3f, on one lane %.3f", own.steady, base.steady))
	return s
}

func (r *results) treeClaims(t bed.Tree) (list []report.Claim) {
	for _, spots := range r.spots {
		base, slow := r.at(t, layout{1, false}, spots, dataplane.LaneQueue), r.at(t, layout{1, true}, spots, dataplane.LaneQueue)
		if want, ok := published[spots]; ok && t.Hosts == 648 {
			steady := 100*slow.steady/base.steady - 100
			list = append(list, bed.Claim(fmt.Sprintf("P4.9, V28: gain of a slow lane, %d hot spots, steady", spots),
				fmt.Sprintf("%+.0f %%; at least %.0f", want[0], want[1]), steady >= want[1], "%+.0f %%; from a cold start %+.0f %%, with "+
					"lanes that are always full %+.0f %%", steady, 100*slow.cold/base.cold-100, 100*slow.filled/base.filled-100))
		}
		for _, l := range []layout{{3, true}, {7, true}} {
			x, v := r.at(t, l, spots, dataplane.LaneQueue), r.at(t, layout{l.lanes(), false}, spots, dataplane.LaneQueue)
			if x != nil && v != nil && crowds(t, spots) {
				list = append(list, bed.Claim(
					fmt.Sprintf("IV(e): %d hosts, %d hot spots: %v, to vFtree on all %d", t.Hosts, spots, l, l.lanes()), "- (more)",
					x.steady > v.steady, "%.3f, %.3f", x.steady, v.steady))
			}
		}
		if t.Hosts != 648 {
			continue
		}
		for _, l := range r.lanes {
			if want, ok := model[l]; ok {
				x := r.at(t, l, spots, dataplane.LaneQueue)
				list = append(list, bed.Claim(fmt.Sprintf("IV(e): share, %d hot spots, %v", spots, l),
					fmt.Sprintf("- (a slot model with one read of an input at a time: %.2f; at least 0.9 of it)", want), x.steady >= 0.9*want,
					"%.3f", x.steady))
			}
		}
	}
	return list
}

func (r *results) missing() report.Section {
	s := report.Section{
		Title: "What is not reproduced, and the likely reason",
		Table: report.Table{Columns: []string{"what", "published", "here", "likely reason"}},
	}
	for i, x := range experiments() {
		if best := r.beds[i][bedIdeal]; x.with < 10 {
			s.Table.Rows = append(s.Table.Rows, []any{
				fmt.Sprintf("the victim of experiment %s with dFtree", x.name), fmt.Sprintf("%.1f Gb/s", x.with),
				fmt.Sprintf("%.1f Gb/s, with narrow buffers %.1f", best.victim(), r.beds[i][bedNarrow].victim()),
				"a lane's part of the buffer covers one packet, less than the round trip of credits",
			})
		}
	}
	s.Table.Rows = append(s.Table.Rows, []any{
		"the random ring where queue pairs begin on the lane of the SA's answer", ringCases()[0].published,
		fmt.Sprintf("%+.0f %% on tree 3a, %+.0f %% on 3b", gainOf(&r.rings[0].random, ringReal), gainOf(&r.rings[1].random, ringReal)),
		"every ring has messages to the hot host. On the slow lane they share its port with the flows that make it hot, and get an " +
			"eighth of it or less over a cable that two of these take; on the fast lane both have up to half of it",
	}, []any{
		"Figure 13, one hot spot, as a steady state", "+480 %", "larger",
		"the runs began cold and contain the time until the tree is full",
	})
	return s
}
