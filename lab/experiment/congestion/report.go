package congestion

import (
	"fmt"
	"time"

	"heddle/lab/experiment/bed"
	"heddle/report"
	"heddle/sim/dataplane"
)

func (r *results) report() *report.Report {
	rep := &report.Report{
		Name: "congestion-control", Title: "Hot spots, congestion control and lanes", Seed: r.seed,
		Source: "W. L. Guay, B. Bogdański, S.-A. Reinemo, O. Lysne, T. Skeie: vFtree – a fat-tree routing " +
			"algorithm using virtual lanes to alleviate congestion (2011), Figures 5b and 6; IBA volume 1, annex A10",
		Intro: "A host that more senders want than its cable carries is a hot spot. Packets to it fill buffers on their " +
			"way, and packets to others (victims) wait behind them. Congestion control (CC) has switches mark packets where " +
			"queues are long; the receiver of a marked packet notifies its sender, which pauses between packets, by an " +
			"index into a table: each notification raises the index, a timer lowers it. Lanes take another way: on a lane " +
			"of their own packets to the hot spot delay nobody else. vFtree spreads pairs of leaves over lanes, dFtree " +
			"moves the flows to a hot spot to a slow lane (here from the beginning: an ideal detector). Heddle's manager " +
			"routes and writes the settings of congestion control; simulated devices obey them.",
		Sections: []report.Section{r.parameters(), r.pairSection(), r.timeline(), checkSection(r.checks)},
	}
	rep.Sections = append(rep.Sections, r.sweeps...)
	for i := range r.trees {
		rep.Sections = append(rep.Sections, r.trees[i].crowdSection(), r.trees[i].mixSection())
	}
	rep.Sections = append(rep.Sections, r.missing())
	return rep
}

func (r *results) parameters() report.Section {
	b := pairBase()
	n := forCrowd(648)
	row := func(name, value string) []any { return []any{name, value} }
	dc := bed.Wide().Config(0, 1)
	return report.Section{
		Title: "Parameters",
		Text: "The paper's parameters of CC are not published. The map from a threshold to bytes is a vendor's choice: " +
			"marking begins when what waits for an output lane takes (16 − threshold)/16 of an input lane's buffer. Ports " +
			"to hosts mark also when they wait for credits (Victim_Mask), as hosts slower than their cables make them.",
		Table: report.Table{Columns: []string{"parameter", "value"}, Rows: [][]any{
			row("test bed", fmt.Sprintf("two switches, DDR, a QDR cable between; hosts send and take %v Gb/s of payload; "+
				"buffers %s", bed.HostGbps, bed.Wide().Name)),
			row("CC on the test bed", fmt.Sprintf("threshold %d, packet size %d, marking rate %d, increase %d, timer %d "+
				"(%.1f us), table %s of %d entries, by queue pair: Gran et al. (2010) as recalled but for the threshold, "+
				"which is 15 there", b.threshold, b.packetSize, b.rate, b.increase, b.timer,
				float64(b.timer)*1.024, b.table.name, len(b.table.entry))),
			row("contributors begin", fmt.Sprintf("%v after the victim; the second half of %v is the steady state",
				pairBegin, r.plan.span)),
			row("trees", "QDR; hosts at wire speed; 62 packets a switch port, split among the lanes in use"),
			row("CC on trees of n hosts", fmt.Sprintf("threshold %d, marking rate %d, increase %d, timer n, a table whose pauses rise with "+
				"the fourth power of the index to 2n packet times (%s: timer %d)", n.threshold, n.rate, n.increase, n.table.name, n.timer)),
			row("windows on trees of n hosts", "all to one: 60 n packet times after 100 n, with CC after 420 n; mix: "+
				"3,000 packet times after 4,000, with CC after 40 n for each hot spot if that is more"),
			row("switches", fmt.Sprintf("%d packets of an input read at a time, %v, %v from head to head", dc.Reads, dc.Choice,
				dc.SwitchDelay)),
		}},
	}
}

func (r *results) pairSection() report.Section {
	s := report.Section{
		Title: "A victim beside three contributors (Figures 5 and 6)",
		Text: "Gb/s of payload. 1-5 is the victim, host 6 the hot spot. 'Swing' is the mean deviation of a contributor's " +
			"rate over half milliseconds, 'fairness' Jain's index of the contributors (1: equal), 'settled' when the victim " +
			"last had less than 90 % of what it has in the end.",
		Table: report.Table{Columns: []string{"inputs", "lanes"}},
	}
	for _, f := range pairFlows {
		s.Table.Columns = append(s.Table.Columns, f.String())
	}
	s.Table.Columns = append(s.Table.Columns, "total", "swing, %", "fairness", "settled, ms", "marked")
	for _, x := range r.pairs {
		row := []any{x.input.String(), x.name}
		for _, v := range x.rates {
			row = append(row, v)
		}
		var settled any
		if x.settled >= 0 {
			settled = x.settled.Seconds() * 1000
		}
		s.Table.Rows = append(s.Table.Rows, append(row, bed.Total(x.rates), 100*x.swing, x.fair, settled, int(x.marked)))
	}
	voq, fifo := r.pairs[:pairLines], r.pairs[pairLines:]
	claims := func(in string, x []pairResult) []report.Claim {
		c, two := x[pairBased], x[pairTwo]
		total, most := bed.Total(c.rates), bed.Total(two.rates)
		return []report.Claim{
			bed.Claim(fmt.Sprintf("P3.2, V33: %s inputs: the victim with CC", in), "≈ 13 Gb/s; at least 12", c.victim() >= 12,
				"%.2f (without %.2f)", c.victim(), x[pairOne].victim()),
			bed.Claim(fmt.Sprintf("P3.2: %s inputs: total with CC, not above that of two lanes", in), "a little below",
				total <= most, "%.1f, %.1f", total, most),
			bed.Claim(fmt.Sprintf("P3.2: %s inputs: contributors swing with CC", in),
				"yes; here: 5 times as far as on two lanes", c.swing >= 5*two.swing, "%.1f %%, %.1f %%", 100*c.swing, 100*two.swing),
		}
	}
	s.Claim = append(claims("VoQ", voq), claims("FIFO", fifo)...)
	s.Claim = append(s.Claim, bed.Claim("P3.2: VoQ inputs: the victim with threshold 15, as Gran et al. have it",
		"≈ 13 Gb/s; at least 12", voq[pairGran].victim() >= 12, "%.2f; FIFO inputs: %.2f", voq[pairGran].victim(),
		fifo[pairGran].victim()))
	return s
}

// timeline draws Figure 5b, in ms.
func (r *results) timeline() report.Section {
	s := report.Section{
		Title: "Figure 5b over time, threshold 8",
		Table: report.Table{Columns: []string{"ms"}},
	}
	const each = int(time.Millisecond / pairWindow)
	for k, in := range inputs() {
		p := report.Plot{
			Title: fmt.Sprintf("Rates with congestion control, %v inputs", in), X: "ms", Y: "Gb/s",
			Marks: []float64{pairBegin.Seconds() * 1000},
		}
		x := r.pairs[k*pairLines+pairBased]
		names := make([]string, len(pairFlows))
		for i, f := range pairFlows {
			names[i] = fmt.Sprintf("%v: %v", in, f)
		}
		bed.RatesOverTime(&s, p, names, x.steps, each)
	}
	return s
}

func (t *treeResult) crowdAt(s scheme, in dataplane.Queueing) *crowdResult {
	for i := range t.crowd {
		if t.crowd[i].scheme == s && t.crowd[i].input == in {
			return &t.crowd[i].crowdResult
		}
	}
	return nil
}

func (t *treeResult) crowdSection() report.Section {
	s := report.Section{
		Title: fmt.Sprintf("All to one, and victims on the same way up (V46): %d hosts", t.tree.Hosts),
		Text: fmt.Sprintf("All hosts send to host 0 as fast as they can, but for a victim on each of up to %d leaves, which "+
			"offers %.1f of its cable to a host of another leaf. 'Victims' and 'worst' are shares of what they offer, 'hot spot' "+
			"is the use of its cable, 'fairness' Jain's index of the senders to it. 'Settled' is in ms, in steps of %d packet "+
			"times.", maxVictims, crowdLoad, 4*t.tree.Hosts),
		Table: report.Table{Columns: []string{"scheme", "lanes"}},
	}
	for _, in := range inputs() {
		for _, c := range []string{"victims", "worst", "hot spot", "fairness", "settled"} {
			s.Table.Columns = append(s.Table.Columns, fmt.Sprintf("%v: %s", in, c))
		}
	}
	for _, l := range t.crowd[:len(t.crowd)/len(inputs())] {
		row := []any{l.scheme.String(), l.scheme.lanes()}
		for _, in := range inputs() {
			x := t.crowdAt(l.scheme, in)
			row = append(row, x.victim, x.worst, x.hot, x.fair, x.settled)
		}
		s.Table.Rows = append(s.Table.Rows, row)
	}
	s.Claim = t.crowdClaims()
	return s
}

func (t *treeResult) crowdClaims() (list []report.Claim) {
	size := fmt.Sprintf("%d hosts", t.tree.Hosts)
	for _, in := range inputs() {
		name := fmt.Sprintf("%s, %v inputs: ", size, in)
		if one := t.crowdAt(scheme{1, false, false}, in); one != nil {
			list = append(list, bed.Claim("V46: "+name+"victims on one lane have what the parking lot leaves", "- (at most 0.25)",
				one.victim <= 0.25, "%.4f", one.victim))
		}
		if x := t.crowdAt(scheme{1, false, true}, in); x != nil {
			list = append(list, bed.Claim("V46: "+name+"victims with CC, and use of the hot spot's cable", "- (0.9 and 0.9)",
				x.victim >= 0.9 && x.hot >= 0.9, "%.3f, %.3f", x.victim, x.hot))
		}
		if x := t.crowdAt(scheme{8, false, false}, in); x != nil {
			list = append(list, bed.Claim(name+"vFtree with 8 lanes leaves victims on the lane of the crowd", "- (the worst: at most 0.1)",
				x.worst <= 0.1, "%.4f; the mean is %.3f", x.worst, x.victim))
		}
		slow, both := t.crowdAt(scheme{1, true, false}, in), t.crowdAt(scheme{1, true, true}, in)
		if slow != nil {
			list = append(list, bed.Claim(name+"dFtree frees victims and keeps the hot spot busy", "- (0.95 and 0.99)",
				slow.worst >= 0.95 && slow.hot >= 0.99, "%.3f, %.3f", slow.worst, slow.hot))
		}
		if slow != nil && both != nil {
			list = append(list, bed.Claim(name+"dFtree leaves the parking lot, which CC on the slow lane ends", "the parking lot stays "+
				"(fairness at most 0.6, then at least 0.9)", slow.fair <= 0.6 && both.fair >= 0.9 && both.worst >= 0.95,
				"%.3f, then %.3f; the hot spot's cable is used to %.3f", slow.fair, both.fair, both.hot))
		}
	}
	return list
}

func (t *treeResult) mixAt(s scheme, queue dataplane.Sharing) *mixResult {
	for i := range t.mix {
		if t.mix[i].scheme == s && t.mix[i].queue == queue {
			return &t.mix[i].mixResult
		}
	}
	return nil
}

// model is what a model in packet times gives for the tree of 648 hosts and one hot
// spot: the mean share of a host, by lanes (§3.3 and Paper IV (e) of the reference).
var model = []struct {
	s    scheme
	want float64
}{
	{scheme{1, false, false}, 0.031},
	{scheme{4, false, false}, 0.58},
	{scheme{8, false, false}, 0.77},
	{scheme{1, true, false}, 0.58},
	{scheme{2, true, false}, 0.66},
	{scheme{3, true, false}, 0.74},
	{scheme{7, true, false}, 0.87},
}

func (t *treeResult) mixSection() report.Section {
	s := report.Section{
		Title: fmt.Sprintf("5 %% of all packets to one host (Figure 10): %d hosts", t.tree.Hosts),
		Text: "Shares of a cable, of hosts that are no hot spot: mean, and the host that gets least. 'Hot spot' is the use of " +
			"its cable, 'fairness' Jain's index of what hosts bring there. Hosts offer wire speed and lose what finds its " +
			"queue of 64 packets full. Where all packets of a lane share a queue, CC slows a service level as a whole; " +
			"where queue pairs take turns, CC slows them one by one, and the hot spot harms less from the beginning: its " +
			"queue pair gets one turn among those that wait, not 5 %.",
		Table: report.Table{Columns: []string{"hosts' queues", "inputs", "scheme", "lanes", "mean", "worst", "hot spot", "fairness"}},
	}
	for _, l := range t.mix {
		s.Table.Rows = append(s.Table.Rows, []any{
			queueName(l.queue), l.input.String(), l.scheme.String(), l.scheme.lanes(), l.mean, l.worst, l.hot, l.fair,
		})
	}
	for _, lanes := range []int{4, 8} {
		v, d := t.mixAt(scheme{lanes, false, false}, dataplane.LaneQueue), t.mixAt(scheme{lanes - 1, true, false}, dataplane.LaneQueue)
		if v != nil && d != nil {
			s.Claim = append(s.Claim, bed.Claim(
				fmt.Sprintf("IV(e): %d hosts: a slow lane with vFtree on the fast ones beats vFtree, %d lanes", t.tree.Hosts, lanes),
				"never compared", d.mean > v.mean, "%.3f, %.3f", d.mean, v.mean))
		}
	}
	if t.tree.Hosts == 648 {
		for _, m := range model {
			if x := t.mixAt(m.s, dataplane.LaneQueue); x != nil {
				s.Claim = append(s.Claim, bed.Claim(fmt.Sprintf("V24, IV(e): mean share, %v", m.s),
					fmt.Sprintf("- (a slot model with one read of an input at a time: %.3f; at least 0.9 of it)", m.want), x.mean >= 0.9*m.want,
					"%.3f", x.mean))
			}
		}
	}
	one, c := t.mixAt(scheme{1, false, false}, dataplane.DestQueue), t.mixAt(scheme{1, false, true}, dataplane.DestQueue)
	if one != nil && c != nil {
		s.Claim = append(s.Claim, bed.Claim(
			fmt.Sprintf("%d hosts: with queue pairs that take turns and VoQ inputs CC alone gives hosts 0.9 of their cables", t.tree.Hosts),
			"-", c.mean >= 0.9, "%.3f, without %.3f", c.mean, one.mean))
	}
	return s
}

func queueName(q dataplane.Sharing) string {
	if q == dataplane.LaneQueue {
		return "one for each lane"
	}
	return "one for each destination"
}

func (r *results) missing() report.Section {
	voq, fifo := r.pairs[:pairLines], r.pairs[pairLines:]
	s := report.Section{
		Title: "What is not reproduced, and the likely reason",
		Table: report.Table{Columns: []string{"what", "published", "here", "likely reason"}, Rows: [][]any{
			{
				"the victim with CC, FIFO inputs", "≈ 13 Gb/s", fmt.Sprintf("%.2f Gb/s", fifo[pairBased].victim()),
				"the contributor and the victim share a FIFO: behind one packet to the hot spot that waits all wait, and only " +
					"those before it count as waiting for the hot port. CC keeps queues short, not empty",
			},
			{
				"the victim with CC, threshold 15", "≈ 13 Gb/s", fmt.Sprintf("%.2f Gb/s; FIFO %.2f",
					voq[pairGran].victim(), fifo[pairGran].victim()),
				"marking begins at two packets here, and the cable between the switches brings two at once to the victim's own " +
					"port: it is slowed itself. What the threshold means in bytes is not published",
			},
			{
				"a real detector and a real loop for dFtree", "-", "an ideal one",
				"the experiment dftree has the loop; here packets to hot spots take the slow lane from the beginning",
			},
		}},
	}
	for i := range r.trees {
		t := &r.trees[i]
		if x := t.crowdAt(scheme{1, false, true}, dataplane.FIFO); x != nil && x.victim < 0.9 {
			s.Table.Rows = append(s.Table.Rows, []any{
				fmt.Sprintf("victims of a crowd with CC, FIFO inputs, %d hosts", t.tree.Hosts), "-", fmt.Sprintf("%.3f", x.victim),
				"as on the test bed: the longer the crowd's packets stay, the more often one is before a victim's",
			})
		}
	}
	return s
}
