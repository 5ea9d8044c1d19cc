package experiment

import (
	"fmt"
	"slices"
	"time"

	"heddle/lab/experiment/bed"
	"heddle/report"
	"heddle/sim/dataplane"
	"heddle/sim/host/rc"
	"heddle/sim/host/repath"
)

func (r *hostResults) report() *report.Report {
	hc := hostConfig(false, repath.ByMigration)
	return &report.Report{
		Name: "host-reconfiguration", Title: "Connections that follow a reroute", Seed: r.seed,
		Source: "W. L. Guay: Dynamic reconfiguration in interconnection networks (PhD thesis, 2014), Paper I: " +
			"Figures 6 to 9, Tables I to III",
		Intro: fmt.Sprintf("The 3×2 mesh of Paper I: six switches with a host each, DDR cables, %v Gb/s of payload "+
			"by host. Hosts have reliable connections (window %d packets, transport timer %v, %d retries), a client "+
			"of the SA, subscriptions to notices 64, 65, 68 and 69, and a repath handler. The manager routes with "+
			"lash and runs in the first switch. Then the cable between S2 and S5 is cut, and lash takes a second "+
			"lane. Published: ConnectX adapters and OpenSM 3.2.5.", bed.HostGbps, hc.Options.Window,
			rc.AckTimeout(hc.Sender.Timeout), hc.Sender.Retries),
		Sections: []report.Section{
			r.settings(), r.listSection(), r.handlerSection(), r.cutSection(), r.timeline(),
			r.beffSection(), r.nasSection(),
		},
	}
}

func (r *hostResults) settings() report.Section {
	k := hostConfig(false, repath.ByMigration)
	c := k.Repath.Costs
	list := append(deviations(hostCuts[hostMigrate].config(), map[string]string{
		"PacketLife": "as long as a transport timer of these hosts", "Transition": "as each line says",
	}),
		setting{"transport timer", rc.AckTimeout(k.Sender.Timeout).String(), "-", fmt.Sprintf("code %d: with 7 retries "+
			"longer than the 110 ms of whole tables; not published", k.Sender.Timeout)},
		setting{"t1, to make a query", c.Query.String(), "-", "input; t1 + t2 are 18 ms in the paper"},
		setting{"t2, to wait for records", "simulated", "-", "the exchange with the SA"},
		setting{"t3, to ask a queue pair", c.Look.String(), "-", "input; solved from the published points"},
		setting{"t4, to change a queue pair", c.Change.String(), "-", "input; solved from the published points"},
		setting{"to take a notice", c.Notice.String(), "-", "input"},
		setting{"to take a record", c.Record.String(), "-", "input"},
		setting{"ARMED before migrating", k.Repath.Hold.String(), "-", "so that the peer is ARMED too"},
		setting{"not ARMED: drained after", k.Repath.ArmLimit.String(), "-", "the peer does not rearm"},
		setting{"traffic", fmt.Sprintf("%v, a message of %d bytes every %.2f µs in the mean", sixFlows, bed.Payload,
			float64(2*bed.Bytes)/2/ringShare/1000), "-", "Paper I's Table I is lost: Paper II's list"},
		setting{"datagrams", "take no lanes", "-", "queries and Reports do not wait behind packets"},
	)
	return settingsSection(list)
}

func (r *hostResults) listSection() report.Section {
	s := report.Section{
		Title: "What the list of queue pairs costs (Figure 6)",
		Text: fmt.Sprintf("Time of this machine to make a queue pair, at the end of each thousand: best of %d tries, %d "+
			"at once. All in the list of one adapter, and spread over %d adapters, with as much memory in use.",
			listTries, listTimed, listHosts),
		Table: report.Table{Columns: []string{"queue pairs", "one list, µs", "short lists, µs"}},
		Plots: []report.Plot{{Title: "Making a queue pair", X: "queue pairs", Y: "µs", Columns: []int{1, 2}}},
	}
	for i, us := range r.long {
		s.Table.Rows = append(s.Table.Rows, []any{(i + 1) * listQPs / listParts, us, r.short[i]})
	}
	long, short := r.long[listParts-1], r.short[listParts-1]
	s.Claim = []report.Claim{{
		What: "P1.2: the 10,000th queue pair costs no more for the list", Published: "no measurable difference",
		Measured: fmt.Sprintf("%.3g µs, %.3g µs with a short list", long, short), Holds: long <= 1.1*short,
	}}
	return s
}

func (r *hostResults) handlerSection() report.Section {
	s := report.Section{
		Title: "What the handlers take (Figures 7 and 8)",
		Text: "Of hosts with one queue pair, by the manager's real notices: host H3 leaves and comes back (64), and " +
			"S2-S5 is cut (69). Times of queue pairs are inputs (settings); only order and share are claimed.",
		Table: report.Table{Columns: []string{"handler", "cases", "longest, µs", "query, µs", "answer, µs", "asking the queue pair, µs", "changing it, µs"}},
	}
	us := func(d time.Duration) float64 { return d.Seconds() * 1e6 }
	service := time.Duration(0)
	for _, d := range r.costs.inService {
		service = max(service, d)
	}
	s.Table.Rows = append(s.Table.Rows, []any{"in service (64)", len(r.costs.inService), us(service), nil, nil, nil, nil})
	idle, changed := longest(r.costs.idle), longest(r.costs.changed)
	for _, x := range []struct {
		name string
		n    int
		r    repath.Round
	}{{"repath, nothing to change", len(r.costs.idle), idle}, {"repath with a change", len(r.costs.changed), changed}} {
		s.Table.Rows = append(s.Table.Rows, []any{x.name, x.n, us(took(&x.r)), us(x.r.Query), us(x.r.Wait), us(x.r.Look), us(x.r.Change)})
	}
	all := len(r.costs.inService) > 0 && len(r.costs.idle) > 0 && len(r.costs.changed) > 0
	s.Claim = []report.Claim{
		{
			What: "P1.3: in service < repath without a change < with one", Published: "rising in this order",
			Measured: fmt.Sprintf("%v, %v, %v", service, took(&idle), took(&changed)),
			Holds:    all && service < took(&idle) && took(&idle) < took(&changed),
		},
		{
			What: "P1.4: asking and changing the queue pair are most of it", Published: "most (Figure 8)",
			Measured: fmt.Sprintf("%.3g %%", share(&changed)), Holds: all && share(&changed) > 50,
		},
	}
	return s
}

func (r *hostResults) cutSection() report.Section {
	s := report.Section{
		Title: "The cable S2-S5 is cut (Figure 9)",
		Text: fmt.Sprintf("%d runs of each line, looked at for %v. 'Whole tables': written as OpenSM does; 'strict' and "+
			"'availability' are Heddle's plans (lifetimes there: %v). 'In the end' is the last quarter. Lifetimes under "+
			"whole tables are %v, as the transport timer; the paper's are not known. 'By migration', 'by draining': "+
			"queue pairs that got their new path so. A queue pair whose peer's path stays the same is never ARMED, "+
			"and is drained. 'Gap' is the longest time without a message on a stream that did not end.",
			r.runs, hostSpan, dataplane.LifeOf(plannedLife), dataplane.LifeOf(hostLife)),
		Table: report.Table{Columns: []string{
			"case", "before, Gb/s", "in the end, least", "most", "stood still", "notices", "queries", "by migration",
			"by draining", "repathed after, ms", "connections lost", "repeated packets", "time-outs", "gap, ms", "discarded by limits",
		}},
	}
	for i := range r.cut {
		c := &r.cut[i]
		s.Table.Rows = append(s.Table.Rows, []any{
			hostCuts[i].name, bed.Average(c.before), slices.Min(c.after), slices.Max(c.after), c.stood, int(c.notices), int(c.queries),
			int(c.handler.Migrated), int(c.handler.Drained), ms(c.repathed), c.failed, int(c.counts.Repeats), int(c.counts.Timeouts),
			ms(c.gap), int(c.discarded),
		})
	}
	s.Claim = r.cutClaims()
	return s
}

func (r *hostResults) cutClaims() []report.Claim {
	ring := bed.Average(r.cut[hostRing].after)
	var bad error
	for i := range r.cut {
		if r.cut[i].bad != nil {
			bad = r.cut[i].bad
		}
	}
	conserved := "none in all lines"
	if bad != nil {
		conserved = bad.Error()
	}
	back := func(k int, what, published string) report.Claim {
		c := &r.cut[k]
		return report.Claim{
			What: what, Published: published,
			Measured: fmt.Sprintf("at least %.3g of %.3g Gb/s; %d of %d connections lost, %d runs stood still on the way",
				slices.Min(c.after), ring, c.failed, 6*r.runs, c.stood),
			Holds: slices.Min(c.after) >= 0.95*ring && c.failed == 0,
		}
	}
	share := func(k int) float64 { return 100 * slices.Max(r.cut[k].after) / bed.Average(r.cut[k].before) }
	keep, none, locks := &r.cut[hostKeep], &r.cut[hostKeepNone], &r.cut[hostMigrateNone]
	return []report.Claim{
		{
			What: "P1.5: hosts keep their levels, with limits", Published: "below 1 %",
			Measured: fmt.Sprintf("at most %.3g %%; %d of %d runs stood still", share(hostKeep), keep.stood, r.runs),
			Holds:    share(hostKeep) < 1 && keep.stood == r.runs,
		},
		{
			What: "P1.5: the same without limits", Published: "- (the criterion: 0)",
			Measured: fmt.Sprintf("%.3g %%; %d of %d runs stood still", share(hostKeepNone), none.stood, r.runs),
			Holds:    share(hostKeepNone) == 0 && none.stood == r.runs,
		},
		back(hostMigrate, "P1.6: hosts repath by migration, with limits: the ring's level, no queue pair lost", "the ring's level after a short dip"),
		back(hostDrain, "P1.6: the same by draining", "ruled out: not in that firmware"),
		{
			What:      "without limits a ring that has locked before hosts repath stays locked; another comes to its level",
			Published: "not considered",
			Measured: fmt.Sprintf("%d of %d runs locked: at most %.3g Gb/s; the others at least %.3g", locks.stood, r.runs,
				most(locks.locked), least(locks.open, ring)),
			Holds: most(locks.locked) < 0.5*ring && least(locks.open, ring) >= 0.95*ring,
		},
		back(hostStrict, "under a strict plan, by migration", "-"),
		back(hostStrictDrain, "under a strict plan, by draining", "-"),
		back(hostAvailable, "under availability (the default), by migration", "-"),
		{
			What: "under a strict plan nothing stands still, whether hosts repath or not", Published: "-",
			Measured: fmt.Sprintf("%d of %d runs", r.cut[hostStrict].stood+r.cut[hostStrictDrain].stood+r.cut[hostStrictKeep].stood, 3*r.runs),
			Holds:    r.cut[hostStrict].stood+r.cut[hostStrictDrain].stood+r.cut[hostStrictKeep].stood == 0,
		},
		{
			What: "messages lost, doubled or out of order", Published: "none",
			Measured: conserved, Holds: bad == nil,
		},
	}
}

func most(x []float64) (m float64) {
	for _, v := range x {
		m = max(m, v)
	}
	return m
}

// least is the least of x and limit.
func least(x []float64, limit float64) float64 {
	for _, v := range x {
		limit = min(limit, v)
	}
	return limit
}

// timeline is the rate over time, of the first runs.
func (r *hostResults) timeline() report.Section {
	s := report.Section{Title: "Rates after the cut", Text: "Of the first run of each line, from the cut on."}
	s.Table.Columns = []string{"ms"}
	s.Table.Rows = make([][]any, cutSteps)
	for k := range s.Table.Rows {
		s.Table.Rows[k] = []any{ms(hostSpan / cutSteps * time.Duration(k+1))}
	}
	p := report.Plot{Title: "Total of the six flows", X: "ms after the cut", Y: "Gb/s", Wide: true}
	for i := range r.cut {
		p.Columns = append(p.Columns, len(s.Table.Columns))
		s.Table.Columns = append(s.Table.Columns, hostCuts[i].name)
		for k, v := range r.cut[i].steps {
			s.Table.Rows[k] = append(s.Table.Rows[k], v)
		}
	}
	s.Plots = []report.Plot{p}
	return s
}

func (r *hostResults) beffSection() report.Section {
	s := report.Section{
		Title: "Patterns of b_eff (Tables I and II)",
		Text: fmt.Sprintf("%d processes, two a host: three random rings of messages of %d bytes, while S2-S5 and then, "+
			"%v later, S3-S4 are cut; after that the patterns on what is left. Latency is half a ping-pong of 8 bytes, "+
			"bandwidth that of a process to both neighbors. Published latencies contain adapters and software, "+
			"ours the fabric alone.", beffRanks, beffBytes, nextCut),
		Table: report.Table{Columns: []string{
			"cuts", "hosts", "ends", "took, ms", "ping-pong, µs: least", "mean", "most", "natural ring, MB/s", "random ring, MB/s",
		}},
	}
	ends := true
	for i := range r.beff {
		x := &r.beff[i]
		hosts, row := "repath", []any(nil)
		if x.deaf {
			hosts = "keep their paths, limits"
			if x.limits == never {
				hosts = "keep their paths, no limits"
			}
		} else {
			ends = ends && x.through.ended && x.bad == nil
		}
		row = []any{x.cuts, hosts, "no", nil, nil, nil, nil, nil, nil}
		if x.through.ended {
			row = []any{x.cuts, hosts, "yes", ms(x.through.took), x.ping[0], x.ping[1], x.ping[2], x.natural, x.random}
		}
		s.Table.Rows = append(s.Table.Rows, row)
	}
	one, deaf, lim := &r.beff[1], &r.beff[3], &r.beff[4]
	limited := "with limits it does not end either"
	if lim.through.ended {
		limited = fmt.Sprintf("with limits it takes %.3g times as long", lim.through.took.Seconds()/one.through.took.Seconds())
	}
	s.Claim = []report.Claim{
		{
			What: "P1.7: with 0, 1 and 2 cuts the program ends", Published: "ends", Measured: fmt.Sprint(ends), Holds: ends,
		},
		{
			What: "P1.7: without repath it does not", Published: "never ends after the first cut",
			Measured: fmt.Sprintf("without limits it stands at step %d; %s", deaf.through.step, limited), Holds: !deaf.through.ended,
		},
	}
	return s
}

func (r *hostResults) nasSection() report.Section {
	s := report.Section{
		Title: "Programs that compute (Table III)",
		Text: fmt.Sprintf("All-to-all with compute in the place of IS, compute in that of EP; S2-S5 is cut after a third of "+
			"the computing. Blocks and times are those of class B divided by %d. Compute times are inputs, chosen so that the "+
			"normal time is the published one.", r.scale),
		Table: report.Table{Columns: []string{"program", "published, s", "normal, s", "with a cut, s", "slower, %", "published, %"}},
	}
	holds := true
	var got []string
	for i := range r.nas {
		n := &r.nas[i]
		var normal, slower any
		if n.normal > 0 {
			normal, slower = n.normal.Seconds(), n.published
			holds = holds && n.calm.ended && n.cut.ended && n.slower() <= n.published
			got = append(got, fmt.Sprintf("%.3g", n.slower()))
		}
		s.Table.Rows = append(s.Table.Rows, []any{n.name, normal, n.calm.took.Seconds(), n.cut.took.Seconds(), n.slower(), slower})
	}
	short, long := &r.nas[0], &r.nas[len(r.nas)-1]
	s.Claim = []report.Claim{
		{
			What: "P1.8: slower by a cut, %: IS 8, IS 16, EP 12", Published: "79, 36, 0.57",
			Measured: fmt.Sprint(got), Holds: holds,
		},
		{
			What: "P1.8: the cost falls with the length of the run", Published: "falls",
			Measured: fmt.Sprintf("%.3g %% with 10 iterations, %.3g %% with 20", short.slower(), long.slower()),
			Holds:    long.slower() < short.slower(),
		},
	}
	return s
}
