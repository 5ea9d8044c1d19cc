package experiment

import (
	"fmt"
	"math"
	"time"

	"heddle/report"
	"heddle/sim/host/comm"
)

func (r *rdsResults) report() *report.Report {
	return &report.Report{
		Name: "path-caching", Title: "A VM migrates, and hosts keep their paths", Seed: r.seed,
		Source: "E. Tasoulas, E. G. Gran, B. D. Johnsen, T. Skeie: A Novel Query Caching Scheme for Dynamic " +
			"InfiniBand Subnets (2015): equations 1 to 3, Tables II to V, Figures 5 to 7",
		Intro: fmt.Sprintf("A host asks the subnet administrator (SA) for the path each time it connects. When a virtual "+
			"machine (VM) migrates, its peers connect again, and all ask. Do caches of paths in the hosts spare the SA, "+
			"and are connections sooner there? Nine hosts on three leaves: a client and a server, which is a VM on a "+
			"shared port, have a connection of Reliable Datagram Sockets (RDS); the VM migrates. The manager, "+
			"its SA, queries and communication management are real datagrams in virtual time; hosts are simulated. Of the paper's instants the detach and the return of "+
			"the server in Figure 5 are published, those of Figures 6 and 7 but for the detach are lost: the return is "+
			"%v after the detach in all. Each figure is run %d times with other draws.", backTime, r.size.runs),
		Sections: []report.Section{
			r.settings(), r.timeoutSection(), r.figureSection(0), r.clockSection(), r.figureSection(1), r.phaseSection(),
			r.figureSection(2), r.figureSection(3), r.crowdSection(), r.floodSection(),
		},
	}
}

func (r *rdsResults) settings() report.Section {
	c := rdsDefaults()
	return settingsSection([]setting{
		{"RDS: delays", fmt.Sprintf("at once, then from 0 to a limit from %v to %v", c.rds.MinDelay,
			c.rds.MaxDelay), "-", "Linux (net/rds), not in the paper"},
		{"RDS: preparing a request", c.rds.Setup.String(), "-", "input, not published"},
		{
			"RDS: clearing away a try", c.rds.Teardown.String(), "-",
			"input, chosen so that two tries are made a second at the limit of 1 s",
		},
		{"communication management", fmt.Sprintf("%v a try, 16 tries", c.comm.Timeout()), fmt.Sprintf("%v",
			comm.Defaults().Timeout()), "Linux takes 2^(n-8) ms for 4.096 µs·2^n"},
		{"an answer of the SA", c.answer.String(), "none", "the paper's SA: 1/6,561 s"},
		{"a query without an answer", fmt.Sprintf("%v, %d repetitions", c.mad.Timeout, c.mad.Retries), "-", "input"},
		{
			"path caches", "heddle agent's, on simulated ports", "-",
			"Algorithm 2 as printed is a policy of the same code (agent.AsPublished)",
		},
		{"the function is gone", fmt.Sprintf("%v after the detach, %v in Figures 6 and 7", rdsFigures[0].detached,
			rdsFigures[1].detached), "-", "input, chosen for 8 and 14 queries: not published"},
		{"attaching", attachTime.String(), "-", "input: from the end of the migration to loaded drivers"},
		{"IPoIB", "a table of who has which GID", "packets", "a peer that is gone keeps its entry"},
		{"bandwidth", "1 while connected", "-", "a constant: no packets are simulated"},
		{"OpenSM", "not run", "-", "in virtual time there is none; sa-flood floods both managers"},
	})
}

func (r *rdsResults) timeoutSection() report.Section {
	s := report.Section{
		Title: "Time-outs of communication management (equations 2 and 3)",
		Text: "What a request to a peer that never answers waits in each of its tries, for codes of the packet " +
			"lifetime (PLT) and of the response time (RTV); codes in steps of two. 96.6 s are 15 tries by " +
			"equation 3; 98 s were observed. 16 tries with the times of Linux are 98.3 s.",
		Table: report.Table{Columns: []string{"PLT", "RTV", "equation 2, ms", "measured, ms", "measured, Linux, ms"}},
	}
	worst, linux := 0.0, 0.0
	var three timeoutRun
	for _, t := range r.timeout {
		if t.plt%2 == 0 && t.rtv%2 == 0 {
			s.Table.Rows = append(s.Table.Rows, []any{int(t.plt), int(t.rtv), ms(t.equation), ms(t.iba), ms(t.unix)})
		}
		worst = math.Max(worst, math.Abs(t.iba.Seconds()/t.equation.Seconds()-1))
		linux = math.Max(linux, math.Abs(t.unix.Seconds()/t.equation.Seconds()-1))
		if t.plt == 18 && t.rtv == 20 {
			three = t
		}
	}
	s.Claim = []report.Claim{
		{
			What: "time-outs are those of equation 2, within 1 %, for all codes from 12 to 20", Published: "equation 2",
			Measured: fmt.Sprintf("at most %.2g %% off", 100*worst), Holds: worst <= 0.01,
		},
		{
			What: "and those of Linux", Published: "equation 2", Measured: fmt.Sprintf("up to %.2g %% off: it "+
				"rounds", 100*linux),
			Holds: linux <= 0.01,
		},
		{
			What: "a request to the old address ends after 98 s", Published: "nearly 98 s observed; 96.6 s by equation 3",
			Measured: fmt.Sprintf("%.4g s with the times of Linux, %.4g s with those of the IBA",
				16*three.unix.Seconds(), 16*three.iba.Seconds()),
			Holds: math.Abs(16*three.unix.Seconds()-98) <= 1,
		},
	}
	return s
}

// figureSection is a figure: the first run over time, and what all runs have given.
func (r *rdsResults) figureSection(k int) report.Section {
	f, runs := &rdsFigures[k], r.runs[k]
	s := report.Section{
		Title: "Figure " + f.name, Text: f.text + " The table and the plot are of the first run; lines mark the detach " +
			"called, the function gone, the migration complete, and the device back.",
		Table: report.Table{Columns: []string{
			"s", "bandwidth", "queries of the client", "of the server",
			"saved by the client", "saved by the server",
		}},
		Plots: []report.Plot{{
			Title: "Bandwidth, and queries in all", X: "s", Y: "connected", Columns: []int{1}, Right: []int{
				2, 3,
				4, 5,
			}, RightY: "queries", Wide: true,
			Marks: []float64{
				f.detach.Seconds(), (f.detach + f.detached).Seconds(),
				(f.returned() - attachTime).Seconds(), f.returned().Seconds(),
			},
		}},
	}
	x := runs[0]
	const steps = 120
	for i := range steps + 1 {
		t := f.end * time.Duration(i) / steps
		connected := 0
		if t >= x.up && t < x.lost || x.restored > 0 && t >= x.restored {
			connected = 1
		}
		s.Table.Rows = append(s.Table.Rows, []any{
			t.Seconds(), connected, between(x.client.queries, 0, t), between(x.server.queries, 0, t),
			between(x.client.saved, 0, t), between(x.server.saved, 0, t),
		})
	}
	s.Claim = r.figureClaims(k)
	return s
}

// figureClaims are claims on all runs of a figure.
func (r *rdsResults) figureClaims(k int) []report.Claim {
	f, runs := &rdsFigures[k], r.runs[k]
	start := column(runs, func(x *rdsRun) float64 {
		return float64(attempts(x.client.queries, x.client.saved) - f.burst(x) - between(x.client.queries,
			f.returned(), f.end) - between(x.client.saved, f.returned(), f.end))
	})
	burst := column(runs, func(x *rdsRun) float64 { return float64(f.burst(x)) })
	back := column(runs, func(x *rdsRun) float64 { return restoredAfter(x, f.returned()) })
	late := column(runs, func(x *rdsRun) float64 { return float64(f.late(x)) })
	all := column(runs, func(x *rdsRun) float64 { return float64(len(x.server.queries)) })
	within := func(s spread, low, high float64) bool { return s.low >= low && s.high <= high }
	begin := report.Claim{
		What: "the client's tries when both ends begin at once (5 to 20)", Published: "some 10 each",
		Measured: start.String(), Holds: within(start, 5, 20),
	}
	switch k {
	case 3:
		return r.agentClaims(back)
	case 0:
		whole := column(runs, func(x *rdsRun) float64 { return restoredAfter(x, f.detach) })
		return []report.Claim{
			begin,
			{
				What: "the client's queries at the detach (5 to 25)", Published: "8", Measured: burst.String(),
				Holds: within(burst, 5, 25),
			},
			{
				What: "restored after the detach (96.6 s to 100 s)", Published: "98 s (13 s to 111 s)",
				Measured: whole.String() + " s", Holds: within(whole, 96.6, 100),
			},
			{
				What: "the server's queries in all (100 to 190)", Published: "140", Measured: all.String(),
				Holds: within(all, 100, 190),
			},
		}
	case 1:
		return []report.Claim{
			begin,
			{
				What: "the client's queries at the detach (5 to 25)", Published: "14", Measured: burst.String(),
				Holds: within(burst, 5, 25),
			},
			{
				What: "restored after the device is back, at most 2 s", Published: "no time-out is waited for",
				Measured: back.String() + " s", Holds: within(back, 0, 2),
			},
			{
				What: "the server's queries after that, at most 2", Published: "1", Measured: late.String(),
				Holds: within(late, 0, 2),
			},
		}
	}
	ones, saved := true, true
	gain, least := math.Inf(-1), math.Inf(1)
	for i, x := range runs {
		for _, e := range []*rdsEnd{&x.client, &x.server} {
			ones = ones && len(e.queries) == 1
			saved = saved && e.hits == e.tries-1 && e.hits == len(e.saved) && e.hits > 0
		}
		later := restoredAfter(x, f.returned()) - restoredAfter(r.runs[1][i], f.returned())
		gain, least = math.Max(gain, later), math.Min(least, later)
	}
	clients := column(runs, func(x *rdsRun) float64 { return float64(len(x.client.saved)) })
	servers := column(runs, func(x *rdsRun) float64 { return float64(len(x.server.saved)) })
	return []report.Claim{
		{What: "queries of each end from start to end: 1", Published: "1", Measured: fmt.Sprintf("%v in all runs",
			ones), Holds: ones},
		{
			What: "all further tries are saved", Published: "tries as in Figure 6, saved",
			Measured: fmt.Sprintf("client %v, server %v", clients, servers), Holds: saved,
		},
		{
			What:      "restored no later than in Figure 6, run by run: the repetition of the client's request decides",
			Published: "quicker, as steps are saved",
			Measured:  fmt.Sprintf("%v s; %.3g ms sooner to %.3g ms later", back, -1e3*least, 1e3*gain), Holds: gain <= 0,
		},
	}
}

// agentClaims are those of Figure 7 with heddle agent.
func (r *rdsResults) agentClaims(back spread) []report.Claim {
	f, runs := &rdsFigures[3], r.runs[3]
	client := column(runs, func(x *rdsRun) float64 { return float64(len(x.client.queries)) })
	server := column(runs, func(x *rdsRun) float64 { return float64(len(x.server.queries)) })
	before, worst := 0, math.Inf(-1)
	for i, x := range runs {
		before = max(before, between(x.client.queries, 0, f.returned()), between(x.server.queries, 0, f.returned()))
		worst = math.Max(worst, restoredAfter(x, f.returned())-restoredAfter(r.runs[2][i], f.returned()))
	}
	return []report.Claim{
		{
			What: "queries of each end until the VM has its device again: 1", Published: "1, by Algorithm 2",
			Measured: fmt.Sprintf("at most %d", before), Holds: before == 1,
		},
		{
			What: "queries of each end from start to end, at most 3", Published: "1, by Algorithm 2",
			Measured: fmt.Sprintf("client %v, server %v", client, server), Holds: client.high <= 3 && server.high <= 3,
		},
		{
			What: "restored later than in Figure 7, run by run, by at most 1 ms", Published: "not in the paper",
			Measured: fmt.Sprintf("%v s; at most %.3g ms later", back, 1e3*worst), Holds: worst <= 1e-3,
		},
	}
}

// restoredAfter is the time from t until a run is connected again, in s; a day if it is not.
func restoredAfter(x *rdsRun, t time.Duration) float64 {
	if x.restored == 0 {
		return (24 * time.Hour).Seconds()
	}
	return (x.restored - t).Seconds()
}

func (r *rdsResults) clockSection() report.Section {
	s := report.Section{
		Title: "Readings of the time-out in Figure 5",
		Text: "The paper computes 15 times 6.44 s, and observes 98 s. The first request counts as a try as " +
			"well. One run of each.",
		Table: report.Table{Columns: []string{"reading", "restored after the detach, s"}},
	}
	for _, c := range r.clocks {
		took := c.restored.Seconds()
		s.Table.Rows = append(s.Table.Rows, []any{c.name, took})
		s.Claim = append(s.Claim, report.Claim{
			What: "restored within 2 s of what was observed, " + c.name, Published: "98 s",
			Measured: fmt.Sprintf("%.4g s", took), Holds: math.Abs(took-98) <= 2,
		})
	}
	return s
}

func (r *rdsResults) phaseSection() report.Section {
	period := rdsDefaults().comm.Timeout()
	s := report.Section{
		Title: "Figure 6 with other returns of the VM",
		Text: fmt.Sprintf("The client repeats its request each %v, so the return decides how long that is: the claims of "+
			"Figure 6 hold for the instants of Figure 5, and not for all. Meanwhile the server asks twice a second.", period),
		Table: report.Table{Columns: []string{
			"device back after the detach, s", "restored after that, s",
			"queries of the server",
		}},
		Plots: []report.Plot{{Title: "Outage by the return of the VM", X: "s", Y: "s", Columns: []int{1}}},
	}
	worst, short := time.Duration(0), 0
	all := true
	for _, p := range r.phases {
		s.Table.Rows = append(s.Table.Rows, []any{p.back.Seconds(), p.restored.Seconds(), p.late})
		worst, all = max(worst, p.restored), all && p.restored >= 0
		if p.restored >= 0 && p.restored <= 2*time.Second && p.late <= 2 {
			short++
		}
	}
	limit := period + 2*time.Second
	s.Claim = []report.Claim{
		{
			What:      "restored within 2 s, with at most 2 queries of the server, whenever the VM returns",
			Published: "no time-out is waited for; 1 query",
			Measured:  fmt.Sprintf("in %d of %d", short, len(r.phases)), Holds: short == len(r.phases),
		},
		{
			What: "restored within one repetition and 2 s", Published: "-",
			Measured: fmt.Sprintf("at most %.3g s of %.3g s", worst.Seconds(), limit.Seconds()), Holds: all && worst <= limit,
		},
	}
	return s
}
