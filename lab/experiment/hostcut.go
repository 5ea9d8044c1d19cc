package experiment

import (
	"time"

	"heddle/lab"
	"heddle/lab/experiment/bed"
	"heddle/sim/host/rc"
	"heddle/sim/host/repath"
	"heddle/sm"
)

// hostCut is a cut of the mesh's middle cable under connections.
type hostCut struct {
	name   string
	ring   bool // a ring from the beginning, and nothing is cut: what to compare with
	policy sm.Transition
	limits uint8
	repath time.Duration // of the manager's configuration
	deaf   bool          // hosts keep their paths
	method repath.Method
}

// hostLife is the code of lifetimes under whole tables: as long as a transport timer
// of these hosts.
const hostLife = hostTimeout

var hostCuts = []hostCut{
	{"ring from the beginning, two lanes", true, sm.TransitionStatic2003, hostLife, 30 * time.Second, true, repath.ByMigration},
	{"whole tables, no repath, limits", false, sm.TransitionStatic2003, hostLife, 30 * time.Second, true, repath.ByMigration},
	{"whole tables, no repath, no limits", false, sm.TransitionStatic2003, never, 30 * time.Second, true, repath.ByMigration},
	{"whole tables, repath by migration, limits", false, sm.TransitionStatic2003, hostLife, 30 * time.Second, false, repath.ByMigration},
	{"whole tables, repath by draining, limits", false, sm.TransitionStatic2003, hostLife, 30 * time.Second, false, repath.ByDraining},
	{"whole tables, repath by migration, no limits", false, sm.TransitionStatic2003, never, 30 * time.Second, false, repath.ByMigration},
	{"strict, repath by migration", false, sm.TransitionStrict, plannedLife, plannedRepath, false, repath.ByMigration},
	{"strict, repath by draining", false, sm.TransitionStrict, plannedLife, plannedRepath, false, repath.ByDraining},
	{"strict, no host ever repaths", false, sm.TransitionStrict, plannedLife, 0, true, repath.ByMigration},
	{"availability, repath by migration", false, sm.TransitionAvailability, plannedLife, plannedRepath, false, repath.ByMigration},
}

// The places of lines that claims speak of.
const (
	hostRing = iota
	hostKeep
	hostKeepNone
	hostMigrate
	hostDrain
	hostMigrateNone
	hostStrict
	hostStrictDrain
	hostStrictKeep
	hostAvailable
)

// hostCutResult sums the runs of a line.
type hostCutResult struct {
	before, after     []float64 // Gb/s, in the end
	locked, open      []float64 // those of after whose runs stood still, and the others
	steps             []float64 // Gb/s over time, of the first run
	stood             int       // runs that stood still
	failed            int       // connections in error
	counts            rc.Counters
	handler           repath.Counters
	gap               time.Duration // the longest without a message on any stream that did not fail
	repathed          time.Duration // from the cut until the last handler was done, of the slowest run
	bad               error
	notices, queries  uint64
	discarded, events uint64
}

// hostSpan is how long a cut is looked at.
const hostSpan = 480 * time.Millisecond

func (c *hostCut) config() sm.Config {
	k := cutCase{policy: c.policy, limits: c.limits, repath: c.repath}
	return k.config()
}

func (c *hostCut) run(seed uint64, sum *hostCutResult) error {
	f, err := ringFabric(c.ring)
	if err != nil {
		return err
	}
	b, err := newHostBed(f, c.config(), deadlockConfig(seed), hostConfig(c.deaf, c.method))
	if err != nil {
		return err
	}
	list, err := b.streams(sixFlows, seed)
	if err != nil {
		return err
	}
	b.Run(2 * time.Millisecond)
	sum.before = append(sum.before, bed.Total(b.rates(list, 6*time.Millisecond)))
	cut := b.Sim.Now()
	if !c.ring {
		if err := b.Sim.LinkDown("S2", 2); err != nil {
			return err
		}
	}
	for _, s := range list {
		s.Sink.Gap(b.Engine.Now())
	}
	b.Sim.Data().ResetStats()
	var steps []float64
	for range cutSteps {
		steps = append(steps, bed.Total(b.rates(list, hostSpan/cutSteps)))
	}
	if len(sum.steps) == 0 {
		sum.steps = steps
	}
	sum.after = append(sum.after, bed.Average(steps[3*len(steps)/4:]))
	last := sum.after[len(sum.after)-1]
	if b.Engine.Deadlock() != nil {
		sum.stood++
		sum.locked = append(sum.locked, last)
	} else {
		sum.open = append(sum.open, last)
	}
	st := b.Engine.Stats()
	sum.discarded += limited(&st.Dropped)
	sum.add(b, list)
	for _, h := range b.hosts {
		for _, r := range h.Rounds {
			sum.repathed = max(sum.repathed, r.End.Sub(cut))
		}
	}
	if err := conserved(list); err != nil {
		sum.bad = err
	}
	return b.Engine.Check()
}

// add adds what hosts and connections counted.
func (r *hostCutResult) add(b *hostBed, list []*lab.Stream) {
	for _, s := range list {
		if st, _ := s.Failed(); st != rc.Success {
			r.failed++
		} else {
			r.gap = max(r.gap, s.Sink.Gap(b.Engine.Now()).Duration())
		}
		k := s.Conn.QP().Count
		r.counts.Repeats += k.Repeats
		r.counts.Timeouts += k.Timeouts
		r.counts.NAKs += k.NAKs
	}
	for _, h := range b.hosts {
		k := h.Handler.Count
		r.notices += k.Notices
		r.queries += k.Queries
		r.handler.Changed += k.Changed
		r.handler.Migrated += k.Migrated
		r.handler.Drained += k.Drained
	}
	r.events += b.Engine.Events()
}
