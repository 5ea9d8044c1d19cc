package experiment

import (
	"fmt"
	"runtime"
	"time"

	"heddle/report"
	"heddle/route"
	"heddle/route/check"
	"heddle/route/engine/ftree"
	"heddle/route/move"
)

// The full subnet: as many hypervisors with functionsEach virtual functions as
// there are LIDs for beside those of 648 switches.
const (
	fullSubnetHosts    = 2853
	fullSubnetSwitches = 648
	functionsEach      = 16
	migrationsAtOnce   = 1000
	migrationsAlone    = 100
)

// capacitySections are §V-A's formula, and what the full subnet costs if full.
func capacitySections(o *Options, full bool) ([]report.Section, error) {
	sections := []report.Section{capacitySection()}
	if !full {
		return sections, nil
	}
	boots := report.Section{
		Title: "Booting the full subnet",
		Text: fmt.Sprintf("%d hypervisors of %d virtual functions, %d switches, all on the simulated wire, which takes no time of its own here. 'Manager' is processor time of this machine until every LID is routed and every virtual function known; "+
			"computing is that of the tables, by itself, and proving that of the proof; memory is the live heap, of tables and proof alone and of manager and simulator together.", fullSubnetHosts, functionsEach, fullSubnetSwitches),
		Table: report.Table{Columns: []string{"LIDs are", "LIDs", "LFT SMPs", "SMPs", "manager, s", "computing, s", "proving, s", "tables and proof, MiB", "all, MiB"}},
	}
	rates := report.Section{
		Title: fmt.Sprintf("%d migrations in the full subnet", migrationsAtOnce),
		Text:  "Between random hypervisors. 'Unmerged' is what they would send one at a time by the paper's count, 'over' what only drops entries for a while. Processor time is the manager's for one migration: its decisions, proofs and every SMP.",
		Table: report.Table{Columns: []string{"LIDs", "mode", "migrations", "SMPs each", "unmerged, each", "over, each", "processor, ms each"}},
	}
	fits, merged := true, true
	var whole report.Claim
	worst := 0.0
	var lids [2]int
	var computing [2]time.Duration
	for k, kind := range []move.Kind{move.Copy, move.Swap} {
		o.say("booting the full subnet, %s", lidsAre[kind])
		before := heap()
		w, err := newWire(wireOptions{
			hosts: fullSubnetHosts, kind: kind, modes: []move.Mode{move.Balanced}, pairs: migrationsAtOnce, vfs: functionsEach, every: true, still: true, seed: o.Seed,
		})
		if err != nil {
			return nil, fmt.Errorf("the full subnet, %s: %w", lidsAre[kind], err)
		}
		cpu, all := w.spent(), heap()-before
		g := w.m.Snap.Graph
		for _, e := range g.LIDOwner {
			if e >= 0 {
				lids[k]++
			}
		}
		compute, prove, mem, err := routed(w)
		if err != nil {
			return nil, err
		}
		computing[k] = compute
		boots.Table.Rows = append(boots.Table.Rows, []any{
			lidsAre[kind], lids[k], int(w.c.Sim.Stats().LFTSets), w.m.Sent, cpu.Seconds(), compute.Seconds(), prove.Seconds(), mib(mem), mib(all),
		})
		if kind == move.Swap {
			want, sets := move.FullSMPs(len(g.Switches), g.TopLID), int(w.c.Sim.Stats().LFTSets)
			whole = report.Claim{
				What: "booting prepopulated writes each block of each switch once", Published: fmt.Sprintf("%d SMPs, by its equation 2", want),
				Measured: fmt.Sprintf("%d: ports have their LIDs before functions are known, so the last block of these is written again with those of functions", sets),
				Holds:    sets == want,
			}
		}
		fits = fits && compute+prove < 2*time.Second && mem < 1<<30
		rows, err := w.rate(o)
		if err != nil {
			return nil, fmt.Errorf("the full subnet, %s: %w", lidsAre[kind], err)
		}
		for _, r := range rows {
			rates.Table.Rows = append(rates.Table.Rows, []any{lidsAre[kind], r.mode.String(), r.n, r.sets, r.alone, r.over, r.cpu})
			if r.n == migrationsAtOnce {
				worst, merged = max(worst, r.cpu), merged && r.sets <= r.alone
			}
		}
	}
	boots.Claim = append([]report.Claim{whole}, bootClaims(lids, computing, fits)...)
	rates.Claim = []report.Claim{
		{What: fmt.Sprintf("%d migrations at once cost no more SMPs than one after the other", migrationsAtOnce), Published: "not considered", Measured: "as in the table", Holds: merged},
		{What: "processor time of the manager for each of them", Published: "not considered (at most 1 ms was the goal here)", Measured: fmt.Sprintf("at most %.2f ms", worst), Holds: worst <= 1},
	}
	return append(sections, boots, rates), nil
}

// bootClaims are about both kinds of boots: LIDs, time to compute, and whether both keep the limits.
func bootClaims(lids [2]int, computing [2]time.Duration, fits bool) []report.Claim {
	return []report.Claim{
		{
			What: "LIDs that paths are computed for", Published: "prepopulated more than 49000, dynamic less than 3000",
			Measured: fmt.Sprintf("%d and %d: switches have LIDs too", lids[1], lids[0]), Holds: lids[1] == 49149 && lids[0] == fullSubnetHosts+fullSubnetSwitches,
		},
		{
			What: "computing takes considerably more time prepopulated: twice or more", Published: "expected (§V-A)",
			Measured: fmt.Sprintf("%.3g s and %.3g s", computing[1].Seconds(), computing[0].Seconds()), Holds: computing[1] >= 2*computing[0],
		},
		{What: "time and memory of computing and proving: less than 2 s and 1 GiB", Published: "not in the paper: limits set here", Measured: "as in the table", Holds: fits},
	}
}

// capacitySection is §V-A's formula.
func capacitySection() report.Section {
	paper, real := move.PaperCapacity(functionsEach), move.TrueCapacity(functionsEach, fullSubnetSwitches)
	return report.Section{
		Title: "How many VMs a subnet has LIDs for",
		Text:  fmt.Sprintf("Prepopulated LIDs, %d virtual functions for each hypervisor, 49,151 unicast LIDs.", functionsEach),
		Table: report.Table{
			Columns: []string{"count", "switches", "hypervisors", "VMs", "LIDs"},
			Rows: [][]any{
				{"as published", 0, paper.Hypervisors, paper.VMs, paper.Hypervisors + paper.VMs},
				{"switches have LIDs too", fullSubnetSwitches, real.Hypervisors, real.VMs, real.Hypervisors + real.VMs + fullSubnetSwitches},
			},
		},
		Claim: []report.Claim{{
			What: "hypervisors and VMs with 16 virtual functions each", Published: "2891 and 46256, or less as switches need LIDs too",
			Measured: fmt.Sprintf("%d and %d, with %d switches %d and %d", paper.Hypervisors, paper.VMs, fullSubnetSwitches, real.Hypervisors, real.VMs),
			Holds:    paper == move.Capacity{Hypervisors: 2891, VMs: 46256},
		}},
	}
}

// routed computes and proves tables for a wire's graph once more, by themselves.
func routed(w *wire) (compute, prove time.Duration, mem int64, err error) {
	g := w.m.Snap.Graph
	before := heap()
	began := time.Now()
	t, err := ftree.Engine{}.Compute(g, route.Options{Workers: runtime.GOMAXPROCS(0)})
	if err != nil {
		return 0, 0, 0, err
	}
	computed := time.Now()
	p := check.Prove(g, t, check.Options{Workers: runtime.GOMAXPROCS(0)})
	done := time.Now()
	if err := p.Err(); err != nil {
		return 0, 0, 0, err
	}
	mem = heap() - before
	runtime.KeepAlive(p)
	return computed.Sub(began), done.Sub(computed), mem, nil
}

// rateOf is what each of n migrations cost in the mean.
type rateOf struct {
	mode              move.Mode
	n                 int // at once
	sets, alone, over float64
	cpu               float64 // ms
}

// rate lets the VMs migrate: all at once, and some one by one. Before each
// measurement all are where they were created, with the entries of their places.
func (w *wire) rate(o *Options) (rows []rateOf, err error) {
	if _, err := w.create(); err != nil {
		return nil, fmt.Errorf("creating VMs: %w", err)
	}
	as := func(m move.Mode) {
		for _, v := range w.vms {
			v.mode = m
		}
	}
	for _, mode := range []move.Mode{move.Balanced, move.Minimal} {
		for _, n := range []int{migrationsAtOnce, 1} {
			o.say("%d migrations in the full subnet, %s, %v, %d at once", len(w.vms), lidsAre[w.kind], mode, n)
			r := rateOf{mode: mode, n: n}
			as(mode)
			some := w.vms[len(w.vms)-migrationsAtOnce:]
			if n == 1 {
				some = some[:migrationsAlone]
			}
			for i := 0; i < len(some); i += n {
				cost, reports, err := w.migrate(some[i : i+n]...)
				if err != nil {
					return nil, err
				}
				each := float64(len(some))
				paper := 0
				for _, p := range reports {
					paper += p.SMPs
				}
				r.sets += float64(cost.sets) / each
				r.alone += float64(paper) / each
				r.cpu += cost.cpu.Seconds() * 1000 / each
				if n == 1 {
					r.over += float64(cost.sets-paper) / each
				}
			}
			rows = append(rows, r)
			as(move.Balanced)
			if _, _, err := w.migrate(some...); err != nil {
				return nil, err
			}
		}
	}
	return rows, w.c.Check(w.m)
}

// heap is the live heap in bytes.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func mib(b int64) float64 { return float64(b) / (1 << 20) }
