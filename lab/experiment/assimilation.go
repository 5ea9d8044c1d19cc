package experiment

import (
	"fmt"
	"slices"
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
// Each runs under two profiles: the product's defaults, and the short lifetimes
// and time-outs of the fault campaigns. The report lists what either sets.
//
// Time by phase is virtual, from latencies of cables and agents; the time of
// computing is that of this machine and is listed apart, and so is the time in
// which the manager only waits: for packets in flight to leave, for links that
// it took down to train, and for answers whose way has gone down; the paper's
// model knows nothing of these. The whole time counts from the change itself,
// detection included; the paper's from its detection.
func ChangeAssimilation(o Options) (*report.Report, error) {
	sizes := o.Sizes
	if len(sizes) == 0 {
		sizes = []int{8, 16, 24, 32}
	}
	runs := o.Runs
	if runs == 0 {
		runs = 5
	}
	rows := make([]changes, len(profiles))
	for _, n := range sizes {
		if n < 2 {
			return nil, fmt.Errorf("a network of %d switches has nothing to take away", n)
		}
		for p, profile := range profiles {
			var sums [2][2]mean
			for r := range runs {
				o.say("%d switches, network %d of %d, %s", n, r+1, runs, profile.name)
				seed := o.Seed + uint64(r)*1000 + uint64(n)
				f, err := fabric.Generate(fabric.Irregular{Switches: n, Hosts: 1, Seed: seed}, fabric.GenerateOptions{})
				if err != nil {
					return nil, err
				}
				for k, m := range methods {
					if err := assimilate(f, seed, profile, m, o.clock(), &sums[removal][k], &sums[addition][k]); err != nil {
						return nil, fmt.Errorf("%d switches, seed %d, %s, %s: %w", n, seed, profile.name, m.name, err)
					}
				}
			}
			for kind := range sums {
				for k := range methods {
					rows[p][kind][k] = append(rows[p][kind][k], sums[kind][k])
				}
			}
		}
	}
	r := assimilationReport(o.Seed, runs, sizes, rows)
	switches := o.Losses
	if switches == 0 {
		switches = 7 // all
	}
	if switches > 0 {
		seed, all, err := figure12(&o, rate12, switches)
		if err != nil {
			return nil, err
		}
		r.Sections = append(r.Sections, figure12Sections(seed, rate12, all)...)
	}
	return r, nil
}

// changes are what was measured, by kind of change and method, by size.
type changes [2][2][]mean

// profile is what the manager's times are.
type profile struct {
	name   string
	config func() sm.Config
}

// profiles: the first is the product's.
var profiles = []profile{
	{"the product's defaults", func() sm.Config { return lab.ProductionConfig(lab.RepairChain{}) }},
	{"the short lifetimes of the fault campaigns", lab.TrialConfig},
}

// settle bounds a change in virtual time: drains of the product's lifetimes on
// long paths take minutes.
const settle = 10 * time.Minute

// quiet is what the subnet is left alone for after each change, in virtual time:
// packets of the tables before have left then, and better tables are in. A change
// while they are still under way is planned for with all of them in mind, which
// is another experiment.
const quiet = time.Minute

// managerConfig is the manager's configuration.
func managerConfig(p profile, m method) sm.Config {
	cfg := p.config()
	cfg.Engines, cfg.Explicit = []route.Engine{updn.Engine{}}, true
	cfg.DampHold = 0                           // a switch that fails and returns at once is the experiment
	cfg.SweepInterval = 100 * time.Millisecond // and no traps, as in the paper
	if m.static {
		cfg.Engines = []route.Engine{scratch{updn.Engine{}}}
		cfg.Transition = sm.TransitionStatic2003
		cfg.SweepInterval = 0 // full sweeps are asked for
	}
	return cfg
}

// clock is the time of this machine, or what a test has instead.
func (o *Options) clock() func() time.Duration {
	if o.Clock != nil {
		return o.Clock
	}
	epoch := time.Now()
	return func() time.Duration { return time.Since(epoch) }
}

const (
	removal = iota
	addition
)

type method struct {
	name   string
	static bool
	// compute is what computing takes (2003), nil: what it takes on this machine.
	compute func(switches int) time.Duration
}

var methods = []method{{name: "full static", static: true}, {name: "incremental"}}

// mean sums what one kind of change cost.
type mean struct {
	n                      int
	discover, write, links time.Duration   // virtual: reading; writing tables; port parameters and states
	wait                   time.Duration   // virtual: for packets to leave, links to train, answers that do not come
	computes               []time.Duration // of this machine, one for each change: tables, proof and plan of the transition
	sweeps                 int
	regions                int             // sweeps that read a region only
	carried                int             // sweeps whose routes were carried over
	still                  int             // changes without a wait
	gets, blocks, states   int             // SMPs: reading; tables; ports
	wholes                 []time.Duration // from the change until all is assimilated, computing included
	unseen                 time.Duration   // virtual: outside sweeps, above all until the change is detected
	changed, entries       int
	forced                 int // of those changed: they led into a switch that went
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

// whole is the mean, the least and the greatest time from the change on.
func (m *mean) whole() (avg, least, most float64) {
	if len(m.wholes) == 0 {
		return 0, 0, 0
	}
	for _, d := range m.wholes {
		avg += d.Seconds() / float64(len(m.wholes))
	}
	return avg, slices.Min(m.wholes).Seconds(), slices.Max(m.wholes).Seconds()
}

// work is the mean virtual time of all phases but the waits, and the median of
// the computation.
func (m *mean) work() float64 {
	return m.per((m.discover + m.write + m.links).Seconds()) + m.compute()
}

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

// assimilate removes and restores each switch of f in turn.
func assimilate(f *fabric.Fabric, seed uint64, p profile, m method, clock func() time.Duration, gone, back *mean) error {
	cfg := managerConfig(p, m)
	c, err := lab.NewCluster(f, sim.Config{Seed: seed, HopLatency: hopLatency, SMALatency: smaLatency, NoTraps: true})
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
	mgr.Clock = clock
	if err := c.RunUntil(settle, func() bool { return mgr.Up() && mgr.Idle() }); err != nil {
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
			c.Run(quiet)
			if err := c.RunUntil(settle, func() bool { return mgr.Up() && mgr.Idle() }); err != nil {
				return err
			}
		}
	}
	return nil
}

// measure lets the manager detect the change and adds up what it does about it. An answer is
// awaited for timeout.
func measure(c *lab.Cluster, m *lab.Manager, static bool, timeout time.Duration, sum *mean) error {
	before, began := m.Snap, c.Sim.Now()
	m.Notices = m.Notices[:0]
	wall := m.JobCPU + m.PlanCPU
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
	if err := c.RunUntil(settle, swept); err != nil {
		return err
	}
	sum.n++
	real := m.JobCPU + m.PlanCPU - wall
	sum.computes = append(sum.computes, real)
	virtual := c.Sim.Now().Sub(began)
	sum.wholes = append(sum.wholes, virtual+real)
	sum.unseen += virtual
	waited := sum.wait
	for i := range m.Notices {
		r := m.Notices[i].Report
		if m.Notices[i].Kind != sm.KindSweepEnd || r == nil {
			continue
		}
		ph := r.Phases
		for p, d := range ph {
			if sm.Phase(p) != sm.PhaseIdle {
				sum.unseen -= d
			}
		}
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
	changed, forced, entries := entriesChanged(before.Graph, before.Tables, m.Snap.Graph, m.Snap.Tables)
	sum.changed += changed
	sum.forced += forced
	sum.entries += entries
	sum.rows += len(m.Snap.Graph.Switches)
	return nil
}

// entriesChanged counts the entries of switches and LIDs that both have, those of
// them that differ, and those that had to, as they led into a switch that went.
func entriesChanged(g *fabric.Graph, t *route.Tables, h *fabric.Graph, u *route.Tables) (changed, forced, all int) {
	d := fabric.Diff(g, h)
	stays := make([]bool, len(g.Switches))
	for _, old := range d.Switch {
		if old >= 0 {
			stays[old] = true
		}
	}
	for s, old := range d.Switch {
		if old < 0 {
			continue
		}
		for l := range min(len(g.LIDOwner), len(h.LIDOwner)) {
			if g.LIDOwner[l] == fabric.NoLID || h.LIDOwner[l] == fabric.NoLID {
				continue
			}
			all++
			was := t.Entry(old, ib.LID(l))
			if was != u.Entry(int32(s), ib.LID(l)) {
				changed++
			}
			if ports := g.PortChannel[old]; int(was) < len(ports) && ports[was] >= 0 && !stays[g.Channels[ports[was]].To] {
				forced++
			}
		}
	}
	return changed, forced, all
}
