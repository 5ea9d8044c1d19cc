package experiment

import (
	"fmt"
	"math"
	"time"

	"heddle/report"
	"heddle/sim/host/rc"
	"heddle/sim/hypervisor"
	"heddle/sim/hypervisor/precopy"
)

func (r *liveResults) report() *report.Report {
	return &report.Report{
		Name: "live-migration", Title: "Virtual machines that migrate live", Seed: r.seed,
		Source: "W. L. Guay: Dynamic reconfiguration in interconnection networks (PhD thesis, 2014), Paper V: Figures 10 to 15",
		Intro: fmt.Sprintf("Three hypervisors A, B and C on one switch, QDR cables, %d Gb/s of payload by host. A machine "+
			"of %d MiB migrates while its programs write %.0f Mb/s; the copy is an RC stream between the hypervisors. The "+
			"manager is real: it reserves the place, moves the addresses and rolls back. Times of hot plug, kernels and "+
			"firmware are inputs (settings). Published: ConnectX-2 adapters, Oracle VM Server 3.0.",
			liveGbps, r.memory>>20, precopy.Defaults().Dirty*8/1e6),
		Sections: []report.Section{
			r.settings(), r.waySection(), r.wayPlots(), r.partSection(), r.ip.section(r), r.rateSection(), r.ip.timeline(),
			r.figureSection(figureOne),
			r.figureSection(figureThree), r.figureSection(figureLeave), r.toPeerSection(), r.rideSection(),
		},
	}
}

func (r *liveResults) settings() report.Section {
	list := deviations(liveConfig(), nil)
	c, k := hypervisor.Published(), precopy.Defaults()
	for _, x := range c.List() {
		list = append(list, setting{x.Name, x.Value, "-", x.Why})
	}
	list = append(list,
		setting{"memory", fmt.Sprintf("%d MiB, pages of %d bytes", r.memory>>20, k.Page), "-", "published: 512 MB"},
		setting{"what programs write", fmt.Sprintf("%.0f Mb/s, everywhere", k.Dirty*8/1e6), "-", "published; where is not"},
		setting{"pre-copy ends", fmt.Sprintf("when %v are left, or after %d rounds", k.Pause, k.Rounds), "-", "not published; Xen's limit of rounds"},
		setting{
			"connections", fmt.Sprintf("transport timer %v (code %d), %d retries", rc.AckTimeout(liveTimeout), liveTimeout, liveRetries), "-",
			"not published",
		},
		setting{"pulse of outages", fmt.Sprintf("%d streams each way, a message every %v in the mean", livePeers, livePulse), "-", "-"},
	)
	if r.scale > 1 {
		list = append(list, setting{"times of Figures 12, 14 and 15", fmt.Sprintf("divided by %d", r.scale), "-", "shown as true times"})
	}
	return settingsSection(list)
}

// seconds is a duration for tables and claims.
func seconds(d time.Duration) float64 { return d.Seconds() }

func (r *liveResults) waySection() report.Section {
	s := report.Section{
		Title: "Five ways to migrate, on one page",
		Text: fmt.Sprintf("VMa goes from A to C with late detach, in true time; %d programs on B receive from it, and %d "+
			"send to it, all with a transport timer of %v. An outage is the longest time without a message. What the "+
			"machine receives comes with the next retry of its peer. 'Sets': what the manager wrote for the move, blocks "+
			"of forwarding tables included. The peers' columns are read from their queue pairs, not assumed.",
			livePeers, livePeers, rc.AckTimeout(liveTimeout)),
		Table: report.Table{Columns: []string{
			"way", "outage, sends, s", "outage, receives, s", "function away, s", "stands still, s", "all, s", "messages between processes",
			"peers that had to know", "of", "manager's Sets", "blocks of tables", "time-outs", "repeated packets", "connections lost",
			"who had to know, besides both hypervisors",
		}},
	}
	var bad []string
	told, idle, spoke := 0, 0, 0
	for _, w := range r.ways {
		s.Table.Rows = append(s.Table.Rows, []any{
			w.way.String(), seconds(w.out), seconds(w.in), seconds(w.away), seconds(w.still), seconds(w.took), w.messages,
			w.told, w.peers, w.sets, w.lfts, int(w.timers), int(w.repeats), w.failed, w.who(),
		})
		if w.bad != nil || w.failed > 0 || w.lost > 0 {
			bad = append(bad, fmt.Sprintf("%v: %d connections lost, %d messages missing, %v", w.way, w.failed, w.lost, w.bad))
		}
		if w.way == hypervisor.ThreeStages {
			told = w.told
		} else {
			idle, spoke = idle+w.told, spoke+w.messages
		}
	}
	conserved := "none in all ways"
	if len(bad) > 0 {
		conserved = fmt.Sprint(bad)
	}
	x, c := r.stages(), hypervisor.Published()
	sum := r.inputs()
	s.Claim = []report.Claim{
		{
			What: "P5.1: messages lost, doubled or out of order, queue pairs in error", Published: "none (three stages)",
			Measured: conserved, Holds: len(bad) == 0,
		},
		{
			What:      "P5.2: outage of the three stages: the sum of its inputs ± 0.1 s, at most 3 s",
			Published: "3 s (1.9 + 0.7)",
			Measured: fmt.Sprintf("%.3g s sending, %.3g s receiving; inputs %v + %.3g s + %v + %v = %.3g s", seconds(x.out), seconds(x.in),
				c.Detach, seconds(r.stopCopy()), c.Attach, c.Reconfigure, seconds(sum)),
			Holds: max(x.out, x.in) <= 3*time.Second && (x.out-sum).Abs() <= 100*time.Millisecond && (x.in-sum).Abs() <= 100*time.Millisecond,
		},
		{
			What: "all peers take part in the three stages, and none in the other ways", Published: "by design",
			Measured: fmt.Sprintf("%d of %d peers; %d peers and %d messages", told, x.peers, idle, spoke),
			Holds:    told == x.peers && x.messages == 5*x.peers && idle == 0 && spoke == 0,
		},
	}
	return s
}

// who had to know of a migration, by what was counted.
func (w *wayResult) who() (text string) {
	for _, x := range []struct {
		n    int
		text string
	}{
		{w.sets, "manager"}, {w.lfts, "switches"}, {w.messages, "the machine's processes"}, {w.told, "its peers"},
	} {
		switch {
		case x.n == 0:
		case text == "":
			text = x.text
		default:
			text += ", " + x.text
		}
	}
	return text
}

// wayPlots are the rates of all ways over time.
func (r *liveResults) wayPlots() report.Section {
	s := report.Section{
		Title: "All ways over time",
		Text: fmt.Sprintf("Messages that the machine sends ('out') and receives ('in'), each %v. Lines of the first plots: the "+
			"events of the three stages: %s.", wayStep, names(r.stages().marks)),
		Table: report.Table{Columns: []string{"s"}},
	}
	for i := range int(waySpan / wayStep) {
		s.Table.Rows = append(s.Table.Rows, []any{seconds(wayStep * time.Duration(i+1))})
	}
	for k, what := range []string{"out", "in"} {
		p := report.Plot{Title: "Messages " + what, X: "s", Y: "messages/s", Wide: true}
		for _, m := range r.stages().marks {
			p.Marks = append(p.Marks, seconds(m.At))
		}
		for _, w := range r.ways {
			p.Columns, p.Labels = append(p.Columns, len(s.Table.Columns)), append(p.Labels, w.way.String())
			s.Table.Columns = append(s.Table.Columns, fmt.Sprintf("%v, %s", w.way, what))
			for i := range s.Table.Rows {
				v := 0.0
				if i < len(w.steps[k]) {
					v = w.steps[k][i]
				}
				s.Table.Rows[i] = append(s.Table.Rows[i], v)
			}
		}
		s.Plots = append(s.Plots, p)
	}
	return s
}

// stopCopy is what the published 1.9 s contain besides hot plug: the copy of what
// programs wrote after the last round of a pre-copy, and during the detach.
func (r *liveResults) stopCopy() time.Duration {
	c, k := hypervisor.Published(), precopy.Defaults()
	k.Memory = r.memory
	f, err := precopy.Predict(k, r.seed, c.Rate)
	if err != nil {
		return 0
	}
	return f.StopCopy + time.Duration(k.Dirty*c.Detach.Seconds()/c.Rate*1e9)
}

// inputs is the sum of the parts of an outage by the three stages.
func (r *liveResults) inputs() time.Duration {
	c := hypervisor.Published()
	return c.Detach + r.stopCopy() + c.Attach + c.Reconfigure
}

func (r *liveResults) partSection() report.Section {
	s := report.Section{
		Title: "Parts of the time (Figure 13)",
		Text: "By the three stages, with the function detached before pre-copy ('early') or when stop-and-copy begins " +
			"('late'). The pre-copy's rate is an input, chosen so that all takes the published 4.7 s without late detach; " +
			"what the simulation adds is how the rounds, the dirtying during the detach, and the order of steps come out.",
		Table: report.Table{Columns: []string{
			"detach", "function away, s", "outage, s", "stands still, s", "all, s", "rounds", "copied, MiB", "published: away, s",
		}},
	}
	for _, w := range []*wayResult{r.early, r.stages()} {
		name, published := "early", 4.7
		if w.late {
			name, published = "late", 1.9
		}
		s.Table.Rows = append(s.Table.Rows, []any{
			name, seconds(w.away), seconds(w.out), seconds(w.still), seconds(w.took), w.rounds, float64(w.copied) / (1 << 20), published,
		})
	}
	a, b := seconds(r.early.away), seconds(r.stages().away)
	s.Claim = []report.Claim{{
		What: "P5.6: late detach has the device away for at least 59 % less", Published: "4.7 s to 1.9 s (60 %)",
		Measured: fmt.Sprintf("%.3g s to %.3g s (%.3g %%)", a, b, 100*(1-b/a)), Holds: b <= 0.41*a,
	}}
	return s
}

// figureSection is one of Figures 12, 14 and 15.
func (r *liveResults) figureSection(i int) report.Section {
	f, x := &liveFigures[i], r.figures[i]
	s := report.Section{
		Title: fmt.Sprintf("%s: %s", f.name, f.what),
		Text:  fmt.Sprintf("Streams over RDMA by the three stages. Lines: %s.", names(x.marks)),
	}
	s.Table.Columns = []string{"s"}
	for range x.steps[0] {
		s.Table.Rows = append(s.Table.Rows, []any{seconds(liveStep * time.Duration(len(s.Table.Rows)+1))})
	}
	p := report.Plot{Title: f.name, X: "s", Y: "Gb/s", Wide: true}
	for _, m := range x.marks {
		p.Marks = append(p.Marks, seconds(m.At))
	}
	for k, l := range f.flows {
		p.Columns = append(p.Columns, len(s.Table.Columns))
		s.Table.Columns = append(s.Table.Columns, l.name+", Gb/s")
		for n, v := range x.steps[k] {
			s.Table.Rows[n] = append(s.Table.Rows[n], v)
		}
	}
	s.Plots = []report.Plot{p}
	s.Claim = r.figureClaims(i)
	return s
}

// names are the events of a migration with their times.
func names(marks []hypervisor.Mark) (text string) {
	for i, m := range marks {
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprintf("%s (%.3g s)", m.What, seconds(m.At))
	}
	return text
}

func (r *liveResults) figureClaims(i int) []report.Claim {
	x := r.figures[i]
	whole := x.failed == 0 && x.bad == nil
	switch i {
	case figureOne:
		ip := r.ip.gbps
		return []report.Claim{{
			What: "P5.3: RDMA by the three stages has at least twice the rate of IPoIB on a function", Published: "25 and 11 Gb/s",
			Measured: fmt.Sprintf("%.3g Gb/s before, %.3g after; IPoIB %.3g: %.3g ×. The caps are inputs, 25 and 11 Gb/s", x.before[0], x.after[0], ip, min(x.before[0], x.after[0])/ip),
			Holds:    whole && min(x.before[0], x.after[0]) >= 2*ip,
		}}
	case figureThree:
		holds := whole
		for k := range x.before {
			for _, v := range []float64{x.before[k], x.after[k]} {
				holds = holds && v >= 0.95*liveGbps/3 && v <= 1.05*liveGbps/3
			}
		}
		return []report.Claim{{
			What: "P5.7: three flows have E/3 ± 5 % each, before and after; all resume", Published: "8.2 Gb/s each; 3 s gap; all resume",
			Measured: fmt.Sprintf("%.3g, then %.3g Gb/s; %d connections lost, %s", x.before, x.after, x.failed, orNone(x.bad)), Holds: holds,
		}}
	}
	return []report.Claim{
		{
			What: "P5.8: the machine that leaves has at least 2.4 × its rate", Published: "10 to 25 Gb/s",
			Measured: fmt.Sprintf("%.3g to %.3g Gb/s: %.3g ×", x.before[0], x.after[0], x.after[0]/x.before[0]),
			Holds:    whole && x.after[0] >= 2.4*x.before[0],
		},
		{
			What: "P5.8: those that stay have at least 1.2 × theirs", Published: "more than 10 Gb/s",
			Measured: fmt.Sprintf("%.3g to %.3g, %.3g to %.3g Gb/s", x.before[1], x.after[1], x.before[2], x.after[2]),
			Holds:    whole && x.after[1] >= 1.2*x.before[1] && x.after[2] >= 1.2*x.before[2],
		},
	}
}

// toPeerSection is beyond the paper: the machine goes to the host of its peer.
func (r *liveResults) toPeerSection() report.Section {
	f, x := &liveFigures[len(liveFigures)-1], r.figures[len(liveFigures)-1]
	s := report.Section{
		Title: "The same, to the host of its peer",
		Text: fmt.Sprintf("Not in the paper: VMa goes to A, where VM5 is. Packets between the two stay inside the adapter, whose "+
			"loopback rate is an input (%d Gb/s); they take nothing from the cable.", liveGbps),
		Table: report.Table{Columns: []string{"flow", "before, Gb/s", "after, Gb/s", "outage, s"}},
	}
	for k, l := range f.flows {
		s.Table.Rows = append(s.Table.Rows, []any{l.name, x.before[k], x.after[k], seconds(x.outage[k])})
	}
	return s
}

func (r *liveResults) rideSection() report.Section {
	s := report.Section{
		Title: "RC without quiescing: time-out × retries",
		Text: "Beyond the paper: a program on B sends to a machine with a LID of its own (vSwitch) while it migrates, one " +
			"message at a time, and nobody quiets the connection. The calculator: it survives if the function is away for " +
			"less than the transport timer × retries. One that ends does so a timer later, counted from its last " +
			"acknowledgment. In the last rows the attach is stretched to 0.98 and 1.02 of that.",
		Table: report.Table{Columns: []string{
			"code", "transport timer, s", "retries", "limit, s", "away, s", "calculator", "simulated", "ended after, s",
		}},
	}
	word := map[bool]string{true: "survives", false: "ends"}
	agree, count := 0, map[bool]int{}
	long := &rideResult{} // the longest that a connection with 18 and 7 got through
	var bad error
	off := 0.0
	for _, x := range r.rides {
		ended := any("-")
		if !x.survived {
			ended = seconds(x.unheard)
			off = max(off, math.Abs(x.unheard.Seconds()/(x.limit+rc.AckTimeout(x.timeout).Duration()).Seconds()-1))
		}
		s.Table.Rows = append(s.Table.Rows, []any{
			int(x.timeout), rc.AckTimeout(x.timeout).Duration().Seconds(), int(x.retries), seconds(x.limit), seconds(x.away),
			word[x.predicted()], word[x.survived], ended,
		})
		if count[x.survived]++; x.survived == x.predicted() {
			agree++
		}
		if x.bad != nil {
			bad = x.bad
		}
		if x.timeout == liveTimeout && x.retries == liveRetries && x.survived && x.away > long.away {
			long = x
		}
	}
	s.Claim = []report.Claim{
		{
			What: "P5.9: a connection survives if and only if the outage < time-out × retries", Published: "- (\"outage exceeds RC's retries\")",
			Measured: fmt.Sprintf("%d of %d as calculated: %d survive, %d end; %v", agree, len(r.rides), count[true], count[false], orNone(bad)),
			Holds:    agree == len(r.rides) && count[true] > 0 && count[false] > 0 && bad == nil,
		},
		{
			What: "one that ends does so (retries + 1) × time-out after its last acknowledgment, within 1 %", Published: "-",
			Measured: fmt.Sprintf("at most %.2g %% off", 100*off), Holds: off <= 0.01,
		},
		{
			What: "with time-out 18 and 7 retries the published 3 s need no quiescing", Published: "outage exceeds RC's retries",
			Measured: fmt.Sprintf("a connection survives %.3g s, the limit is %.3g s", seconds(long.away), seconds(hypervisor.Outlasts(liveTimeout, liveRetries))),
			Holds:    long.away >= 3*time.Second,
		},
	}
	return s
}

// orNone prints an error, or that nothing is doubled or lost.
func orNone(err error) string {
	if err != nil {
		return err.Error()
	}
	return "nothing doubled or out of order"
}
