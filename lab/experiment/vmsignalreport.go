package experiment

import (
	"fmt"
	"strings"
	"time"

	"heddle/lab"
	"heddle/report"
)

func (r *vmResults) report() *report.Report {
	return &report.Report{
		Name: "vm-signalling", Title: "Peers learn that a VM has another LID", Seed: r.seed,
		Source: "W. L. Guay: Dynamic reconfiguration in interconnection networks (PhD thesis, 2014), Paper VI: " +
			"Figures 5 and 7, Equations 1 to 4, Algorithms 1 to 3",
		Intro: "Servers A, B and C at one switch, with virtual functions and VMs on them. A VM keeps its GUID when it " +
			"migrates, and on a shared port it gets the LID of its new server. Peers keep the old one in the path caches of " +
			"their IPoIB interfaces until a notice says that it changed. The manager, its address manager and its SA are the " +
			"real ones; they place the GUID, answer joins and path queries, and send Reports. IPoIB is Linux's, TCP a " +
			"stand-in. Published: ConnectX-2 and an Intel 82599 under Oracle VM Server 3.0.",
		Sections: []report.Section{
			r.settings(), r.timeline(), r.waysSection(), r.pairsSection(), r.fourSection(), r.countSection(), r.notifySection(), r.lostSection(),
		},
	}
}

func (r *vmResults) settings() report.Section {
	c, t := lab.IPDefaults(), vmTCP(vmStream, vmScale{rate: 1})
	return settingsSection([]setting{
		{"hot plug", vmHotPlug.String(), "-", "input, from detach to attach of the function; the published outage"},
		{"rate of a connection", "8 Gb/s", "-", "input; on 10GbE 8.3 Gb/s"},
		{"rate of a server", "19 Gb/s", "-", "input; connections take turns"},
		{"processor", fmt.Sprintf("%g ns a byte", vmCPU), "-", "input, not published"},
		{"TCP's timer", fmt.Sprintf("%v to %v, doubles", t.RTOMin, t.RTOMax), "-", "Linux"},
		{"segments", fmt.Sprintf("%d bytes", t.Segment), "-", "segmentation offload"},
		{"ARP, joins, failed queries", "repeated after 1 s", "-", "Linux"},
		{"to take a notice", c.Take.String(), "-", "input, of the privileged domain"},
		{"to hand it to a VM", c.Relay.String(), "-", "input"},
		{"lifetime of a path", r.scale.lifetime.String(), "none, as in Linux", "in the line that says so"},
		{"SweepInterval", "0s", "10s", "nothing goes on but what is counted"},
	})
}

// rates states how rates were scaled.
func (r *vmResults) rates() string {
	if r.scale.rate == 1 {
		return ""
	}
	return fmt.Sprintf(" Rates are divided by %d, and shown multiplied.", r.scale.rate)
}

func (r *vmResults) timeline() report.Section {
	s := report.Section{
		Title: "A VM migrates to its peer's server (Figure 5)",
		Text: fmt.Sprintf("VMa on A sends to VMb on B, and migrates to B after %v. Mean rates of %v.%s",
			r.scale.before[0], vmStep, r.rates()),
		Table: report.Table{Columns: []string{"s"}},
	}
	p := report.Plot{Title: "Throughput", X: "s", Y: "Gb/s", Wide: true, Marks: []float64{r.scale.before[0].Seconds()}}
	for i := range r.fig5 {
		s.Table.Columns = append(s.Table.Columns, vmWays[i].name)
		p.Columns = append(p.Columns, 1+i)
	}
	for k := range r.fig5[0].gbps {
		row := []any{vmStep.Seconds() * float64(k+1)}
		for i := range r.fig5 {
			row = append(row, r.fig5[i].gbps[k])
		}
		s.Table.Rows = append(s.Table.Rows, row)
	}
	s.Plots = []report.Plot{p}
	return s
}

func (r *vmResults) waysSection() report.Section {
	s := report.Section{
		Title: "What each way costs",
		Text: "'Interface away': from the detach until the function has its GUID again and is Active: the hot plug, and " +
			"what the manager takes. 'Without a byte': the stream goes on when its timer ends next: 0.2, 0.6, 1.4, 3, 6.2, " +
			"12.6 s after the first loss. The paper shows about 4 s, and does not say how its TCP came to go on then. " +
			"Reports are those of the SA to all servers, for this migration.",
		Table: report.Table{Columns: []string{
			"way", "before, Gb/s", "in the end", "interface away, s", "without a byte, s", "Reports", "queries of the peer", "time-outs",
			"notice after return, ms", "processors of the receiver",
		}},
	}
	bad := ""
	for i := range r.fig5 {
		x := &r.fig5[i]
		if x.bad != "" {
			bad = vmWays[i].name + ": " + x.bad
		}
		var late any
		if x.late >= 0 {
			late = ms(x.late)
		}
		s.Table.Rows = append(s.Table.Rows, []any{
			vmWays[i].name, x.before, x.after, x.away.Seconds(), x.outage.Seconds(), x.reports, x.queries, x.timeouts, late, x.processor,
		})
	}
	none, life := &r.fig5[vmNone], &r.fig5[vmLifetime]
	all := r.scale.after[0]
	own := []*vmMove{&r.fig5[vmVSwitch], &r.fig5[vmVPort]}
	conserved := "all bytes once, in order"
	if bad != "" {
		conserved = bad
	}
	s.Claim = []report.Claim{
		{
			What: "P6.2: without a notice the connection is cut", Published: "stays cut",
			Measured: fmt.Sprintf("%.3g s of %.3g s without a byte, %.3g Gb/s in the end", none.outage.Seconds(), all.Seconds(), none.after),
			Holds:    none.outage >= all-time.Second && none.after == 0,
		},
		{
			What: "P6.2: it goes on when the cache expires, and not before", Published: "- (the criterion)",
			Measured: fmt.Sprintf("on after %.4g s, when the path is at least %v old; %.3g Gb/s in the end", life.old.Seconds(), r.scale.lifetime, life.after),
			Holds:    life.old >= r.scale.lifetime && life.after > 0.95*life.before && life.outage > r.fig5[vmNotice].outage,
		},
		{
			What: "a LID that moves along needs no notice: as short an outage, no query of the peer", Published: "- (proposed)",
			Measured: fmt.Sprintf("vSwitch %.3g s, %d Reports, %d queries; VPort %.3g s, %d and %d", own[0].outage.Seconds(), own[0].reports,
				own[0].queries, own[1].outage.Seconds(), own[1].reports, own[1].queries),
			Holds: own[0].reports+own[1].reports+own[0].queries+own[1].queries == 0 &&
				max(own[0].outage, own[1].outage) <= r.fig5[vmNotice].outage+10*time.Millisecond,
		},
		{What: "bytes lost, doubled or out of order", Published: "none", Measured: conserved, Holds: bad == ""},
	}
	return s
}

func (r *vmResults) pairsSection() report.Section {
	s := report.Section{
		Title: "InfiniBand and Ethernet",
		Text: "The same migration with hot plugs of different lengths. The 10GbE function is a stand-in: the same interfaces, " +
			"streams and hot plug on a bridge that learns where a sender is; there is no path to ask for and no manager. So the " +
			"difference is what addresses, notice, join and path queries add. TCP's timer hides what is shorter, so 'path right' is when " +
			"the peer's server had the notice, after the interface of the 10GbE function was back.",
		Table: report.Table{Columns: []string{
			"run", "hot plug, s", "interface away, IB, s", "10GbE, s", "without a byte, IB, s", "10GbE, s", "apart, ms", "path right, ms", "before, IB, Gb/s", "10GbE, Gb/s",
		}},
	}
	apart, right, least, most := time.Duration(0), time.Duration(0), vmStream, 0.0
	for i := range r.pairs {
		p := &r.pairs[i]
		d := (p.ib.outage - p.ether.outage).Abs()
		late := p.ib.away - p.ether.away + p.ib.late
		if p.ib.late < 0 {
			late = time.Hour // no notice came
		}
		apart, right = max(apart, d), max(right, late)
		least, most = min(least, p.ib.before), max(most, p.ib.before)
		s.Table.Rows = append(s.Table.Rows, []any{
			i + 1, p.hotPlug.Seconds(), p.ib.away.Seconds(), p.ether.away.Seconds(), p.ib.outage.Seconds(), p.ether.outage.Seconds(), ms(d),
			ms(late), p.ib.before, p.ether.before,
		})
	}
	s.Claim = []report.Claim{
		{
			What: "P6.1: the notice adds nothing to the outage: at most 10 ms apart", Published: "about 4 s both",
			Measured: fmt.Sprintf("at most %.3g ms apart in %d runs; the path is right after at most %.3g ms", ms(apart), len(r.pairs), ms(right)),
			Holds:    len(r.pairs) > 0 && apart <= 10*time.Millisecond && right <= 10*time.Millisecond,
		},
		{
			What: "P6.1: the rate of a virtual function", Published: "about 8 Gb/s (7.5 to 8.5)",
			Measured: fmt.Sprintf("%.3g to %.3g Gb/s; the cap is an input", least, most), Holds: least >= 7.5 && most <= 8.5,
		},
	}
	return s
}

func (r *vmResults) fourSection() report.Section {
	x := &r.fig7
	s := report.Section{
		Title: "A busy server loses a VM (Figure 7)",
		Text: fmt.Sprintf("VMa on A has three streams to VMb on B, VMd on A one to VMc on C. VMd migrates to C after %v; its "+
			"stream then stays inside C.%s", r.scale.before[1], r.rates()),
		Table: report.Table{Columns: []string{"s", "VMa-VMb 1", "VMa-VMb 2", "VMa-VMb 3", "VMd-VMc", "sum"}},
		Plots: []report.Plot{{
			Title: "Throughput", X: "s", Y: "Gb/s", Wide: true, Columns: []int{1, 2, 3, 4}, Marks: []float64{r.scale.before[1].Seconds()},
		}},
	}
	for k, row := range x.steps {
		s.Table.Rows = append(s.Table.Rows, []any{
			vmStep.Seconds() * float64(k+1), row[0], row[1], row[2], row[3], row[0] + row[1] + row[2] + row[3],
		})
	}
	near := func(got, want, share float64) bool { return got >= (1-share)*want && got <= (1+share)*want }
	three := func(y [4]float64, want float64) bool {
		return near(y[0], want, 0.05) && near(y[1], want, 0.05) && near(y[2], want, 0.05)
	}
	s.Claim = []report.Claim{
		{
			What: "P6.3: the others' rate, ± 5 %", Published: "4.75, then 6.2 Gb/s",
			Measured: fmt.Sprintf("%.3g, then %.3g Gb/s", x.before[:3], x.after[:3]),
			Holds:    three(x.before, 4.75) && three(x.after, 6.2),
		},
		{
			What: "P6.3: the others lose nothing at the notice", Published: "-",
			Measured: fmt.Sprintf("%d segments repeated, %d time-outs", x.repeated, x.timeouts), Holds: x.repeated == 0 && x.timeouts == 0,
		},
		{
			What: "P6.4: VMd's interface is away as long as the input says (± 10 ms), and its stream goes on at the next end of its timer", Published: "4 s",
			Measured: fmt.Sprintf("%.4g s; %.4g s without a byte", x.away.Seconds(), x.outage.Seconds()),
			Holds:    (x.away-vmHotPlug).Abs() <= 10*time.Millisecond && x.outage >= x.away && x.outage <= nextTimer(x.away)+50*time.Millisecond && x.bad == "",
		},
		{
			What: "P6.4: VMd reaches the cap of a connection inside C", Published: "about 8 Gb/s",
			Measured: fmt.Sprintf("%.3g Gb/s, before %.3g", x.after[3], x.before[3]), Holds: near(x.after[3], 8, 0.01) && near(x.before[3], 4.75, 0.05),
		},
	}
	return s
}

// nextTimer is the first end of TCP's timer after an outage began d ago: 0.2, 0.6, 1.4 s …
func nextTimer(d time.Duration) time.Duration {
	t := vmTCP(vmStream, vmScale{rate: 1}).RTOMin
	sum := t
	for sum < d {
		t *= 2
		sum += t
	}
	return sum
}

func (r *vmResults) countSection() report.Section {
	const mad = 256
	s := report.Section{
		Title: "Messages (Equations 1 to 4, Table I)",
		Text: "n servers with m VMs each, all of which have a stream to the next. MADs of the manager's SA, 256 bytes each: " +
			"'start' are Set(InformInfo) and its responses for trap 69, 'event' the Reports of a migration. The equations leave out " +
			"ReportResps, which are as many, and the Report that a new subscriber gets here because any path may have " +
			"changed. 'By VM': VPorts, whose functions the SA knows as subscribers. Functions of a shared port it knows by their port: they " +
			"get one Report together, whoever subscribes. 'To all' is `--signal hybrid`.",
		Table: report.Table{Columns: []string{
			"n", "m", "subscription", "start, MADs", "equation", "bytes", "event, Reports", "equation", "bytes", "ReportResps", "Reports at start",
			"GUID deleted and set", "restart in place", "new VM",
		}},
	}
	exact, alg, sizes := true, true, 0
	for i := range r.count {
		c := &r.count[i]
		start, event := any(nil), any(nil)
		wantStart, wantEvent, formula := c.equations()
		if formula {
			start, event = wantStart, wantEvent
			exact = exact && c.start.sets+c.start.answers == wantStart && c.migrate.reports == wantEvent && c.removed.reports == wantEvent
			sizes++
		}
		alg = alg && c.newVM == 0 && c.reboot == 0
		if c.name == vmCounted[vmServerRepath].name {
			alg = alg && c.migrate.reports == c.n && c.removed.reports == c.n
		}
		s.Table.Rows = append(s.Table.Rows, []any{
			c.n, c.m, c.name, c.start.sets + c.start.answers, start, mad * (c.start.sets + c.start.answers), c.migrate.reports, event,
			mad * c.migrate.reports, c.migrate.responses, c.start.reports, c.removed.reports, c.reboot, c.newVM,
		})
	}
	last := r.scale.sizes[len(r.scale.sizes)-1]
	s.Claim = []report.Claim{
		{
			What: "P6.5: 2nm, 2n, nm and n messages", Published: "Eqs. 1 to 4",
			Measured: fmt.Sprintf("equal in %d of %d cases, up to n = %d, m = %d", r.equal(), sizes, last[0], last[1]), Holds: exact && sizes > 0,
		},
		{
			What: "P6.6: Reports for a new VM, a restart, a migration", Published: "0, 0, 1 per server",
			Measured: r.algorithm(), Holds: alg && len(r.count) > 0,
		},
	}
	return s
}

// Indices in vmCounted.
const (
	vmByVM         = 0
	vmByServer     = 1
	vmServerRepath = 3
	vmTargeted     = 4
)

// equations are what Eqs. 1 to 4 say, in MADs; ok: they are about this case.
func (c *vmCount) equations() (start, event int, ok bool) {
	switch c.name {
	case vmCounted[vmByVM].name:
		return 2 * c.n * c.m, c.n * c.m, true
	case vmCounted[vmByServer].name:
		return 2 * c.n, c.n, true
	}
	return 0, 0, false
}

func (r *vmResults) equal() (n int) {
	for i := range r.count {
		c := &r.count[i]
		if start, event, ok := c.equations(); ok && c.start.sets+c.start.answers == start && c.migrate.reports == event && c.removed.reports == event {
			n++
		}
	}
	return n
}

func (r *vmResults) algorithm() string {
	fresh, reboot := 0, 0
	var text strings.Builder
	for i := range r.count {
		c := &r.count[i]
		fresh, reboot = fresh+c.newVM, reboot+c.reboot
		if c.name == vmCounted[vmServerRepath].name {
			text.WriteString(fmt.Sprintf(", %d of %d servers", c.migrate.reports, c.n))
		}
	}
	return fmt.Sprintf("%d, %d%s", fresh, reboot, text.String())
}

func (r *vmResults) notifySection() report.Section {
	s := report.Section{
		Title: "Only servers that hold a path",
		Text: "`--signal targeted` (the default) notifies the ports that may hold a path to the GUID: of the streams, two servers' VMs do. " +
			"'Handed on': notices from privileged domains to VMs. 'Right': VMs whose path to the VM is what the SA says, after the " +
			"migration, of those that held one before.",
		Table: report.Table{Columns: []string{"n", "m", "subscription", "servers with a path", "Reports", "handed on", "VMs with a path", "right"}},
	}
	targeted, right := true, true
	for i := range r.count {
		c := &r.count[i]
		if c.who != lab.SubscribeServers {
			continue
		}
		s.Table.Rows = append(s.Table.Rows, []any{c.n, c.m, c.name, c.holders, c.migrate.reports, int(c.relayed), c.stale, c.repaired})
		right = right && c.repaired == c.stale && c.stale > 0
		if c.name == vmCounted[vmTargeted].name {
			targeted = targeted && c.migrate.reports == c.holders && c.holders < c.n
		}
	}
	s.Claim = []report.Claim{
		{
			What: "targeted Reports go to the servers that hold a path, and to no other", Published: "- (proposed)",
			Measured: fmt.Sprint(targeted), Holds: targeted,
		},
		{What: "all VMs that held a path have the new LID", Published: "-", Measured: fmt.Sprint(right), Holds: right},
	}
	return s
}

func (r *vmResults) lostSection() report.Section {
	s := report.Section{
		Title: "Lost Reports",
		Text: fmt.Sprintf("The peer's server does not get the first Reports of the migration. The SA repeats them after %v, the time that "+
			"the subscription names, then after twice that; after four tries it pauses for a second. If a notice is lost inside "+
			"the host, the lifetime of the path bounds the outage (above).", vmSubscribe),
		Table: report.Table{Columns: []string{"lost", "notice after return, ms", "at most", "without a byte, s", "next end of the timer, s"}},
	}
	holds := true
	for lost, x := range r.lost {
		bound := vmSubscribe<<lost - vmSubscribe
		if lost >= 4 {
			bound += time.Second
		}
		next := nextTimer(x.away + bound)
		holds = holds && x.late >= 0 && x.late <= bound+10*time.Millisecond && x.outage <= next+50*time.Millisecond && x.bad == ""
		s.Table.Rows = append(s.Table.Rows, []any{lost, ms(x.late), ms(bound), x.outage.Seconds(), next.Seconds()})
	}
	s.Claim = []report.Claim{{
		What: "a lost Report delays the stream by no more than the repetitions", Published: "-", Measured: fmt.Sprint(holds), Holds: holds,
	}}
	return s
}
