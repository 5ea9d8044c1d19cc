package experiment

import (
	"fmt"
	"slices"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/lab"
	"heddle/lab/experiment/bed"
	"heddle/report"
	"heddle/route"
	"heddle/route/engine/updn"
	"heddle/sm"
)

// ChangeAssimilation repeats the experiment of A. Bermúdez, R. Casado,
// F. J. Quiles, T. M. Pinkston and J. Duato, "Evaluation of a Subnet Management
// Mechanism for InfiniBand Networks" (2003), §3: irregular networks of 8 to 32
// four-port switches, each of whose switches is taken away and put back in
// turn; how long the manager takes to assimilate it (Figure 7), how many table
// entries change (Figure 8b), how many SMPs that costs (Figure 9), and how many
// packets (Figures 10 to 12).
//
// Two managers run on the same networks:
//
//   - that of the report (lab/manager2003);
//   - ours: only the region of the change is read, only the routes that the
//     change touches are computed, and blocks are written while traffic flows.
//     It runs under two profiles: the product's defaults, and the short lifetimes
//     and time-outs of the fault campaigns. The report lists what either sets.
//
// Time by phase is virtual, from latencies of cables and agents; the time of
// computing is that of this machine and is listed apart, and so is the time in
// which our manager only waits: for packets in flight to leave, and for answers
// whose way has gone down. The whole time counts from the change itself,
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
	for _, n := range sizes {
		if n < 2 {
			return nil, fmt.Errorf("a network of %d switches has nothing to take away", n)
		}
	}
	rows, err := assimilateAll(&o, sizes, runs)
	if err != nil {
		return nil, err
	}
	r := assimilationReport(o.Seed, runs, sizes, rows)
	order, err := figure3()
	if err != nil {
		return nil, err
	}
	computing, err := figure8(&o)
	if err != nil {
		return nil, err
	}
	r.Sections = append(r.Sections, order, computing)
	if o.Losses < 0 {
		return r, nil
	}
	lost, err := lossSections(&o, sizes, runs)
	if err != nil {
		return nil, err
	}
	r.Sections = append(r.Sections, lost...)
	return r, nil
}

// lossSections are the figures with traffic: 6, and 10 to 12.
func lossSections(o *Options, sizes []int, runs int) ([]report.Section, error) {
	if o.Runs == 0 {
		runs = networks6
	}
	list, clos, err := figure6(o, runs)
	if err != nil {
		return nil, err
	}
	size, err := figure10(o, sizes, o.Losses)
	if err != nil {
		return nil, err
	}
	each, err := figure11(o, clos/4)
	if err != nil {
		return nil, err
	}
	seed, all, err := figure12(o, rate12, o.Losses)
	if err != nil {
		return nil, err
	}
	return append(append(list, size, each), figure12Sections(seed, rate12, all)...), nil
}

// assimilateAll is what Figures 7 to 9 are made of.
func assimilateAll(o *Options, sizes []int, runs int) ([]changes, error) {
	rows := make([]changes, len(profiles))
	for _, n := range sizes {
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
					if m.static && p > 0 {
						continue // it has no profile
					}
					if err := assimilate(f, seed, profile, m, o.clock(), &sums[removal][k], &sums[addition][k]); err != nil {
						return nil, fmt.Errorf("%d switches, seed %d, %s, %s: %w", n, seed, profile.name, m.name, err)
					}
				}
			}
			for kind := range sums {
				for k := range methods {
					if methods[k].static && p > 0 {
						sums[kind][k] = rows[0][kind][k][len(rows[p][kind][k])]
					}
					rows[p][kind][k] = append(rows[p][kind][k], sums[kind][k])
				}
			}
		}
	}
	return rows, nil
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
const settle = bed.Settle

// sweepInterval is the time between sweeps, the report's.
const sweepInterval = 100 * time.Millisecond

// quiet is what the subnet is left alone for after each change, in virtual time:
// packets of the tables before have left then, and better tables are in. A change
// while they are still under way is planned for with all of them in mind, which
// is another experiment.
const quiet = time.Minute

// managerConfig is our manager's configuration.
func managerConfig(p profile) sm.Config {
	cfg := p.config()
	cfg.Engines, cfg.Explicit = []route.Engine{updn.Engine{}}, true
	cfg.DampHold = 0                  // a switch that fails and returns at once is the experiment
	cfg.SweepInterval = sweepInterval // and no traps, as in the paper
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

var methods = []method{{name: "2003", static: true}, {name: "ours"}}

// mean sums what one kind of change cost.
type mean struct {
	n                      int
	discover, write, links time.Duration   // virtual: reading; writing tables; port parameters and states
	wait                   time.Duration   // virtual: for packets to leave, links to train, answers that do not come
	computes               []time.Duration // of this machine: tables, proof and plan
	sweeps                 int
	regions                int             // sweeps that read a region only
	carried                int             // sweeps that kept unchanged routes
	still                  int             // changes without a wait
	gets, blocks, states   int             // SMPs: reading; tables; ports
	wholes                 []time.Duration // from the change until all is assimilated, computing included
	unseen                 time.Duration   // virtual: outside sweeps, above all until the change is detected
	changed, entries       int
	forced                 int // of those changed: they led into a switch that went
	rows                   int // switches
	others                 int // SMPs of which the report says nothing
	formula, through       int // SMPs that its text makes; of them those through hosts, which relay none
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

// computeMean is the mean of it: what is in the whole.
func (m *mean) computeMean() (sum float64) {
	for _, d := range m.computes {
		sum += d.Seconds()
	}
	return sum / float64(max(len(m.computes), 1))
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

// assimilate removes and restores each switch of f in turn, at a random time between
// two sweeps.
func assimilate(f *fabric.Fabric, seed uint64, p profile, m method, clock func() time.Duration, gone,
	back *mean,
) error {
	x, err := newSubject(f, m, p, seed, clock)
	if err != nil {
		return err
	}
	draw := splitMix(seed)
	for i := range f.Nodes {
		if !f.Nodes[i].IsSwitch() || int32(i) == x.own { // without it there is no manager
			continue
		}
		id := f.Nodes[i].ID
		for kind, sum := range []*mean{gone, back} {
			if err := x.untilSweep(); err != nil {
				return err
			}
			x.c.Run(time.Duration(draw() % uint64(sweepInterval)))
			apply := x.c.Sim.NodeDown
			if kind == addition {
				apply = x.c.Sim.NodeUp
			}
			if err := apply(id); err != nil {
				return err
			}
			var err error
			if m.static {
				err = measure2003(x, sum)
			} else {
				err = measure(x.c, x.new, p.config().SMPTimeout, sum)
				x.c.Run(quiet)
			}
			if err != nil {
				return fmt.Errorf("%s %s: %w", id, changeKinds[kind], err)
			}
			if err := x.c.RunUntil(settle, x.idle); err != nil {
				return err
			}
		}
	}
	return nil
}

// measure2003 adds up what the report's manager does about a change.
func measure2003(x *subject, sum *mean) error {
	at, k := x.c.Sim.Now(), len(x.old.Changes)
	if err := x.c.RunUntil(settle, func() bool { return len(x.old.Changes) > k }); err != nil {
		return err
	}
	was, c := &x.old.Changes[k-1], &x.old.Changes[k]
	sum.n++
	sum.sweeps++
	sum.still++
	sum.unseen += c.Noticed.Sub(at)
	sum.discover += c.Discovered.Sub(c.Noticed)
	sum.computes = append(sum.computes, c.CPU)
	sum.links += c.Down.Sub(c.Computed) + c.Up.Sub(c.Written)
	sum.write += c.Written.Sub(c.Down)
	sum.wholes = append(sum.wholes, c.Up.Sub(at))
	sum.gets += c.Discovery()
	sum.blocks += c.Blocks
	sum.states += c.Downs + c.Ups
	sum.others += c.Others
	n, ends := len(c.Graph.Switches), len(c.Graph.EndPorts)
	cables := len(c.Graph.Channels)/2 + ends - n
	sum.formula += 1 + 2*cables + 5*n + ends - n + ends + 4*cables + tableLen/route.BlockLen*n
	sum.through += ends - n - 1
	sum.count(was.Graph, was.Tables, c.Graph, c.Tables)
	return nil
}

// count adds the entries that a change touches.
func (m *mean) count(g *fabric.Graph, t *route.Tables, h *fabric.Graph, u *route.Tables) {
	changed, forced, entries := entriesChanged(g, t, h, u)
	m.changed += changed
	m.forced += forced
	m.entries += entries
	m.rows += len(h.Switches)
}

// measure lets our manager detect the change and adds up what it does about it. An answer is
// awaited for timeout.
func measure(c *lab.Cluster, m *lab.Manager, timeout time.Duration, sum *mean) error {
	before, began := m.Snap, c.Sim.Now()
	m.Notices = m.Notices[:0]
	wall := m.JobCPU + m.PlanCPU
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
	sum.count(before.Graph, before.Tables, m.Snap.Graph, m.Snap.Tables)
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
