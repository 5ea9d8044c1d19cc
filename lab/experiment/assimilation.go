package experiment

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/lab"
	"heddle/report"
	"heddle/route"
	"heddle/route/engine/updn"
	"heddle/sim"
	"heddle/sm"
)

// ChangeAssimilation repeats the experiment of A. Bermúdez, R. Casado,
// F. J. Quiles, T. M. Pinkston and J. Duato, "Evaluation of a Subnet Management
// Mechanism for InfiniBand Networks" (2003), §3: irregular networks of 8 to 32
// four-port switches, each of whose switches is taken away and put back in
// turn; how long the manager takes to assimilate it (Figure 7), how many table
// entries change (Figure 8b), and how many SMPs that costs (Figure 9).
//
// Two methods run on the same networks:
//
//   - theirs: every change leads to a full discovery, tables are computed from
//     nothing, and all links go down while all that differs is written
//     (static reconfiguration);
//   - ours: only the region of the change is read, only the routes that the
//     change touches are computed, and blocks are written while traffic flows.
//
// Time by phase is virtual, from latencies of cables and agents; the time of
// computing is that of this machine and is listed apart, and so is the time in
// which the manager only waits: for packets in flight to leave, for links that
// it took down to train, and for answers whose way has gone down; the paper's
// model knows nothing of these. As in the paper, time counts from the detection
// of the change.
func ChangeAssimilation(o Options) (*report.Report, error) {
	sizes := o.Sizes
	if len(sizes) == 0 {
		sizes = []int{8, 16, 24, 32}
	}
	runs := o.Runs
	if runs == 0 {
		runs = 5
	}
	var rows [2][2][]mean // by kind of change and method, by size
	for _, n := range sizes {
		if n < 2 {
			return nil, fmt.Errorf("a network of %d switches has nothing to take away", n)
		}
		var sums [2][2]mean
		for r := range runs {
			o.say("%d switches, network %d of %d", n, r+1, runs)
			seed := o.Seed + uint64(r)*1000 + uint64(n)
			f, err := fabric.Generate("irregular", []string{strconv.Itoa(n)}, seed)
			if err != nil {
				return nil, err
			}
			for k, m := range methods {
				if err := assimilate(f, seed, m, &sums[removal][k], &sums[addition][k]); err != nil {
					return nil, fmt.Errorf("%d switches, seed %d, %s: %w", n, seed, m.name, err)
				}
			}
		}
		for kind := range sums {
			for k := range methods {
				rows[kind][k] = append(rows[kind][k], sums[kind][k])
			}
		}
	}
	return assimilationReport(o.Seed, runs, sizes, rows), nil
}

const (
	removal = iota
	addition
)

type method struct {
	name   string
	static bool
}

var methods = []method{{"full static", true}, {"incremental", false}}

// mean sums what one kind of change cost.
type mean struct {
	n                      int
	discover, write, links time.Duration   // virtual: reading; writing tables; port parameters and states
	wait                   time.Duration   // virtual: for packets to leave, links to train, answers that do not come
	computes               []time.Duration // of this machine, one for each change
	sweeps                 int
	regions                int // sweeps that read a region only
	carried                int // sweeps whose routes were carried over
	still                  int // changes without a wait
	gets, blocks, states   int // SMPs: reading; tables; ports
	changed, entries       int
	rows                   int // switches
}

func (m *mean) per(v float64) float64 { return v / float64(max(m.n, 1)) }

// compute is the median time of computing in seconds: on a busy machine a few
// take much longer than they should.
func (m *mean) compute() float64 {
	if len(m.computes) == 0 {
		return 0
	}
	all := slices.Clone(m.computes)
	slices.Sort(all)
	return all[len(all)/2].Seconds()
}

// work is the mean virtual time of all phases but the waits, and the median of
// the computation.
func (m *mean) work() float64 {
	return m.per((m.discover + m.write + m.links).Seconds()) + m.compute()
}

// total is the same with the waits.
func (m *mean) total() float64 { return m.work() + m.per(m.wait.Seconds()) }

// percent is what part of the sweeps k are.
func (m *mean) percent(k int) float64 { return 100 * float64(k) / float64(max(m.sweeps, 1)) }

// share is the part of the entries in use that a change touches, in percent.
func (m *mean) share() float64 { return 100 * float64(m.changed) / float64(max(m.entries, 1)) }

// tableLen is how many entries a table has in the paper's switches.
const tableLen = 1024

// shareOfTable is the same of all entries that the tables have room for.
func (m *mean) shareOfTable() float64 {
	return 100 * float64(m.changed) / float64(max(m.rows, 1)*tableLen)
}

// scratch is an engine without memory: it computes everything each time.
type scratch struct{ e route.Engine }

func (s scratch) Name() string { return s.e.Name() }

func (s scratch) Compute(g *fabric.Graph, o route.Options) (*route.Tables, error) {
	o.Previous = nil
	return s.e.Compute(g, o)
}

// assimilate takes each switch of f away and puts it back.
func assimilate(f *fabric.Fabric, seed uint64, m method, gone, back *mean) error {
	cfg := lab.TrialConfig()
	cfg.Engines, cfg.Explicit = []route.Engine{updn.Engine{}}, true
	cfg.DampHold = -1                          // a switch that fails and returns at once is the experiment
	cfg.SweepInterval = 100 * time.Millisecond // and no traps, as in the paper
	if m.static {
		cfg.Engines = []route.Engine{scratch{updn.Engine{}}}
		cfg.Transition = sm.TransitionStatic2003
		cfg.SweepInterval = -1 // full sweeps are asked for
	}
	c, err := lab.NewCluster(f, sim.Config{Seed: seed, HopLatency: time.Microsecond, SMALatency: 5 * time.Microsecond, NoTraps: true})
	if err != nil {
		return err
	}
	at := -1 // the manager's host
	for i := range f.Nodes {
		if !f.Nodes[i].IsSwitch() {
			at = i
			break
		}
	}
	if at < 0 {
		return fmt.Errorf("no host for the manager")
	}
	mgr, err := c.Start(f.Nodes[at].ID, cfg, nil)
	if err != nil {
		return err
	}
	epoch := time.Now()
	mgr.Clock = func() time.Duration { return time.Since(epoch) }
	if err := c.RunUntil(time.Minute, func() bool { return mgr.Up() && mgr.Idle() }); err != nil {
		return err
	}
	own := f.Nodes[at].Ports[1].Peer.Node // without it there is no manager
	for i := range f.Nodes {
		if !f.Nodes[i].IsSwitch() || int32(i) == own {
			continue
		}
		id := f.Nodes[i].ID
		for kind, sum := range []*mean{gone, back} {
			apply := c.Sim.NodeDown
			if kind == addition {
				apply = c.Sim.NodeUp
			}
			if err := apply(id); err != nil {
				return err
			}
			if err := measure(c, mgr, m.static, cfg.SMPTimeout, sum); err != nil {
				return fmt.Errorf("%s %s: %w", id, [...]string{"removed", "added"}[kind], err)
			}
		}
	}
	return nil
}

// measure lets the manager notice what has changed and adds up what it does
// about it. An answer is awaited for timeout.
func measure(c *lab.Cluster, m *lab.Manager, static bool, timeout time.Duration, sum *mean) error {
	before := m.Snap
	m.Notices = m.Notices[:0]
	wall := m.JobCPU
	if static {
		m.Sweep(false)
	}
	swept := func() bool {
		for i := range m.Notices {
			if m.Notices[i].Kind == sm.KindSweepEnd {
				return m.Up() && m.Idle()
			}
		}
		return false
	}
	if err := c.RunUntil(time.Minute, swept); err != nil {
		return err
	}
	sum.n++
	sum.computes = append(sum.computes, m.JobCPU-wall)
	waited := sum.wait
	for i := range m.Notices {
		r := m.Notices[i].Report
		if m.Notices[i].Kind != sm.KindSweepEnd || r == nil {
			continue
		}
		ph := r.Phases
		if r.Retried > 0 || r.TimedOut > 0 { // no phase takes as long as a timeout otherwise
			for p, d := range ph {
				if sm.Phase(p) != sm.PhaseIdle && sm.Phase(p) != sm.PhaseDrain {
					lost := d.Truncate(timeout)
					ph[p] -= lost
					sum.wait += lost
				}
			}
		}
		sum.discover += ph[sm.PhaseLight] + ph[sm.PhaseDiscover] + ph[sm.PhaseReadback]
		sum.write += ph[sm.PhaseDiscard] + ph[sm.PhaseDistribute] + ph[sm.PhaseTop]
		sum.wait += ph[sm.PhaseDrain]
		sum.sweeps++
		if r.Region {
			sum.regions++
		}
		if r.Updated {
			sum.carried++
		}
		sum.links += ph[sm.PhaseAssign] + ph[sm.PhaseLanes] + ph[sm.PhaseArm] + ph[sm.PhaseActivate]
		blocks := r.BlocksSent + r.TopsSent
		states := r.PortSets + r.Armed + r.Activated + r.Downed
		sum.blocks += blocks
		sum.states += states
		sum.gets += int(r.SMPs) - blocks - states
	}
	if sum.wait == waited {
		sum.still++
	}
	changed, entries := entriesChanged(before.Graph, before.Tables, m.Snap.Graph, m.Snap.Tables)
	sum.changed += changed
	sum.entries += entries
	sum.rows += len(m.Snap.Graph.Switches)
	return nil
}

// entriesChanged counts the entries of switches and LIDs that both have, and
// those of them that differ.
func entriesChanged(g *fabric.Graph, t *route.Tables, h *fabric.Graph, u *route.Tables) (changed, all int) {
	d := fabric.Diff(g, h)
	for s, old := range d.Switch {
		if old < 0 {
			continue
		}
		for l := range min(len(g.LIDOwner), len(h.LIDOwner)) {
			if g.LIDOwner[l] == fabric.NoLID || h.LIDOwner[l] == fabric.NoLID {
				continue
			}
			all++
			if t.Entry(old, ib.LID(l)) != u.Entry(int32(s), ib.LID(l)) {
				changed++
			}
		}
	}
	return changed, all
}

func assimilationReport(seed uint64, runs int, sizes []int, rows [2][2][]mean) *report.Report {
	r := &report.Report{
		Name: "change-assimilation", Title: "Assimilating a topology change", Seed: seed,
		Source: "A. Bermúdez, R. Casado, F. J. Quiles, T. M. Pinkston, J. Duato: Evaluation of a Subnet Management Mechanism for InfiniBand Networks, 2003, Figures 7-9",
		Intro: fmt.Sprintf("Irregular networks of four-port switches, %d of each size; each switch but the manager's own is removed and added in turn. "+
			"'Full static' is the published method: discover everything, compute everything, take all links down while tables are written. "+
			"'Incremental' is Heddle's own. Cables take 1 us, agents 5 us for an SMP; the time to compute is this machine's.", runs),
	}
	const us = 1e6
	kinds := [...]string{"removed", "added"}
	both := []string{methods[0].name, methods[1].name}
	var times, smps, entries report.Section
	for kind, what := range kinds {
		times = report.Section{
			Title: "Time to assimilate a switch that is " + what + " (Figure 7)",
			Text: "'Work' is all but the waits; computing is the median, all else the mean. The last columns say of the incremental method which part of the changes took no wait, " +
				"and which part of the sweeps read a region only and computed only what the change touches.",
			Table: report.Table{Columns: []string{
				"switches", "static: discover, us", "compute, us", "tables, us", "ports, us", "work, us", "waiting, us",
				"incremental: discover, us", "compute, us", "tables, us", "ports, us", "work, us", "waiting, us", "without a wait, %", "of a region, %", "carried over, %",
			}},
			Plots: []report.Plot{
				{Title: "All phases but the waits, switch " + what, X: "switches", Y: "microseconds", Columns: []int{5, 11}, Labels: both, Log: true},
				{Title: "Waiting, switch " + what, X: "switches", Y: "microseconds", Columns: []int{6, 12}, Labels: both},
			},
		}
		smps = report.Section{
			Title: "SMPs for a switch that is " + what + " (Figure 9)",
			Table: report.Table{Columns: []string{"switches", "static: discover", "tables", "ports", "all", "incremental: discover", "tables", "ports", "all"}},
			Plots: []report.Plot{{Title: "SMPs, switch " + what, X: "switches", Y: "SMPs", Columns: []int{4, 8}, Labels: both}},
		}
		faster, sooner, fewer := true, true, true
		for i, n := range sizes {
			trow, srow := []any{n}, []any{n}
			var work, all, count [2]float64
			for k := range methods {
				m := &rows[kind][k][i]
				work[k], all[k] = m.work(), m.total()
				trow = append(trow, m.per(m.discover.Seconds()*us), m.compute()*us, m.per(m.write.Seconds()*us), m.per(m.links.Seconds()*us),
					work[k]*us, m.per(m.wait.Seconds()*us))
				count[k] = m.per(float64(m.gets + m.blocks + m.states))
				srow = append(srow, m.per(float64(m.gets)), m.per(float64(m.blocks)), m.per(float64(m.states)), count[k])
			}
			faster, sooner, fewer = faster && work[1] < work[0], sooner && all[1] < all[0], fewer && count[1] < count[0]
			inc := &rows[kind][1][i]
			trow = append(trow, inc.per(100*float64(inc.still)), inc.percent(inc.regions), inc.percent(inc.carried))
			times.Table.Rows = append(times.Table.Rows, trow)
			smps.Table.Rows = append(smps.Table.Rows, srow)
		}
		last := len(sizes) - 1
		a, b := &rows[kind][0][last], &rows[kind][1][last]
		times.Claim = []report.Claim{
			{
				What: "using the configuration before and exploring only the changed region saves time", Published: "expected (conclusions)",
				Measured: fmt.Sprintf("%s at %d switches, the waits left out", compared(a.work(), b.work(), "faster", "slower"), sizes[last]), Holds: faster,
			},
			{
				What: "so it does with the waits", Published: "not considered",
				Measured: fmt.Sprintf("%s at %d switches", compared(a.total(), b.total(), "faster", "slower"), sizes[last]), Holds: sooner,
			},
		}
		smps.Claim = []report.Claim{{
			What: "it saves SMPs considerably", Published: "expected (Figure 9, text)",
			Measured: fmt.Sprintf("%s at %d switches", compared(a.per(float64(a.gets+a.blocks+a.states)), b.per(float64(b.gets+b.blocks+b.states)), "fewer", "more"), sizes[last]), Holds: fewer,
		}}
		r.Sections = append(r.Sections, times, smps)
	}
	entries = report.Section{
		Title: "Entries that a change touches (Figure 8b)",
		Text: "Of the entries of switches and LIDs that are there before and after; and of all 1,024 that a table of the paper's switches has room for. " +
			"The paper does not say which it counts.",
		Table: report.Table{Columns: []string{
			"switches", "static, removed, %", "static, added, %", "incremental, removed, %", "incremental, added, %",
			"static, removed, % of table", "static, added, % of table", "incremental, removed, % of table", "incremental, added, % of table",
		}},
		Plots: []report.Plot{
			{Title: "Entries changed, of those in use", X: "switches", Y: "percent", Columns: []int{1, 2, 3, 4}},
			{Title: "Entries changed, of the whole table", X: "switches", Y: "percent", Columns: []int{5, 6, 7, 8}},
		},
	}
	worst, used := 0.0, 0.0
	fewer := true
	var touched, present [2]int
	for i, n := range sizes {
		row := []any{n}
		for k := range methods {
			for kind := range kinds {
				row = append(row, rows[kind][k][i].share())
			}
		}
		for k := range methods {
			for kind := range kinds {
				row = append(row, rows[kind][k][i].shareOfTable())
			}
		}
		for kind := range kinds {
			worst, used = max(worst, rows[kind][1][i].shareOfTable()), max(used, rows[kind][1][i].share())
			for k := range methods {
				touched[k] += rows[kind][k][i].changed
				present[k] += rows[kind][k][i].entries
			}
			fewer = fewer && rows[kind][1][i].changed <= rows[kind][0][i].changed
		}
		entries.Table.Rows = append(entries.Table.Rows, row)
	}
	entries.Claim = []report.Claim{
		{
			What: "a change touches few entries", Published: "under 2 %",
			Measured: fmt.Sprintf("incremental, at most %.2f %% of the whole tables, which are mostly empty (taken here), and %.1f %% of the entries in use", worst, used), Holds: worst < 2,
		},
		{
			What: "computing only the routes that change touches no more entries, at any size, than computing all", Published: "proposed (conclusions)",
			Measured: fmt.Sprintf("%.1f %% of the entries in use, computing all %.1f %%, over all sizes", part(touched[1], present[1]), part(touched[0], present[0])), Holds: fewer,
		},
	}
	r.Sections = append(r.Sections, entries)
	return r
}

func part(k, of int) float64 { return 100 * float64(k) / float64(max(of, 1)) }

// compared says by how much b is less than a, or more.
func compared(a, b float64, less, more string) string {
	if b <= a {
		return fmt.Sprintf("%.1f times %s", a/b, less)
	}
	return fmt.Sprintf("%.1f times %s", b/a, more)
}
