package experiment

import (
	"fmt"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/lab"
	"heddle/lab/experiment/bed"
	"heddle/report"
	"heddle/route"
	"heddle/route/check"
	"heddle/route/engine"
	"heddle/route/engine/lash"
	"heddle/sim"
	"heddle/sim/dataplane"
	"heddle/sm"
)

// Deadlock repeats the network part of papers I and II of W. L. Guay's thesis
// (2014): a 3×2 mesh that LASH routes on one lane loses its middle cable. The
// ring that is left takes two lanes, and hosts that keep their service level
// bring it to a stand-still. Then the same cut under Heddle's transition plans.
//
// Papers I and II measure hosts; here streams stand for them, so nothing is said
// of queue pairs, and packets that are lost are not sent again.
func Deadlock(o Options) (*report.Report, error) {
	return deadlock(o, 18, 8*time.Second)
}

// deadlock runs the published method with lifetimes of a code (the product's: 18)
// and looks at it for so long after the cut.
func deadlock(o Options, life uint8, span time.Duration) (*report.Report, error) {
	if len(o.Sizes) > 0 {
		return nil, fmt.Errorf("the network has six switches; sizes have no meaning")
	}
	r := &deadlockResults{seed: o.Seed, runs: o.Runs, life: life, span: span}
	if r.runs == 0 {
		r.runs = 5
	}
	for i := range stillCases {
		r.still = append(r.still, stillResult{})
		for k := range r.runs {
			o.say("%s, run %d of %d", stillCases[i].name, k+1, r.runs)
			if err := stillCases[i].run(o.Seed+uint64(k), life, &r.still[i]); err != nil {
				return nil, fmt.Errorf("%s: %w", stillCases[i].name, err)
			}
		}
	}
	for i := range cutCases {
		c := cutCases[i]
		if c.published() && c.limits != never {
			c.limits = life
		}
		r.cut = append(r.cut, cutResult{})
		for k := range r.runs {
			o.say("%s, run %d of %d", c.name, k+1, r.runs)
			if err := c.run(o.Seed+uint64(k), span, &r.cut[i]); err != nil {
				return nil, fmt.Errorf("%s: %w", c.name, err)
			}
		}
	}
	return r.report(), nil
}

// ringFabric is the 3×2 mesh of papers I and II, or the ring that is left of it
// without the cable between S2 and S5: S1 S2 S3 in a row, S6 S5 S4 below, a host
// at each, DDR.
func ringFabric(ring bool) (*fabric.Fabric, error) {
	b := &fabric.Builder{Width: ib.Width4x, Speed: ib.SpeedDDR}
	var host, sw [7]int
	for i := 1; i <= 6; i++ {
		host[i] = b.AddCA(fmt.Sprintf("H%d", i), 1)
	}
	for i := 1; i <= 6; i++ {
		sw[i] = b.AddSwitch(fmt.Sprintf("S%d", i), 4)
		b.Connect(sw[i], 1, host[i], 1)
	}
	if !ring {
		b.Connect(sw[2], 2, sw[5], 2)
	}
	for i := 1; i <= 6; i++ {
		next := i%6 + 1
		b.Connect(sw[i], 3, sw[next], 4) // 3: clockwise
	}
	return b.Build()
}

// sixFlows is the traffic of Paper II: on the ring each goes two hops clockwise.
var sixFlows = []bed.Flow{{1, 3}, {2, 4}, {3, 5}, {4, 6}, {5, 1}, {6, 2}}

// untouched are those of sixFlows that go the same way before and after the cut.
var untouched = []int{0, 1, 3, 4}

// ringShare is what a flow offers, of its fair half of a cable: sources that
// leave pauses. Saturated ones never do; see the report.
const ringShare = 0.9

// addSix starts the six flows.
func addSix(b *bed.Data, saturated bool) error {
	if saturated {
		return b.Add(sixFlows)
	}
	half := 2 * dataplane.LinkRate(ib.Width4x, ib.SpeedDDR).Time(bed.Bytes)
	for _, f := range sixFlows {
		s := dataplane.Stream{
			Src: f[0] - 1, To: dataplane.To(f[1] - 1), Bytes: bed.Bytes,
			Arrival: dataplane.Poisson, Gap: dataplane.Time(float64(half) / ringShare), Queue: dataplane.LaneQueue,
		}
		if _, err := b.Engine.AddStream(s); err != nil {
			return err
		}
	}
	return nil
}

// stillCase is a subnet that does not change.
type stillCase struct {
	name      string
	ring      bool // without the cable 2-5
	oldLevels bool // hosts use the service levels of the mesh
	saturated bool
	limits    bool // packets are discarded after a time
}

const never = 20 // a code of head of queue life and lifetime: no limit

var stillCases = []stillCase{
	{"mesh, its own levels", false, false, false, false},
	{"ring, its own levels", true, false, false, false},
	{"ring, the mesh's levels, no limits", true, true, false, false},
	{"ring, the mesh's levels, limits", true, true, false, true},
	{"ring, the mesh's levels, no limits, saturated sources", true, true, true, false},
}

// stillResult sums runs.
type stillResult struct {
	lanes   int
	total   []float64 // Gb/s of payload, in the end
	most    []float64 // in the first ms
	stood   int       // runs that stood still
	soonest time.Duration
	lasted  time.Duration // until the last of them stood still
	cycle   *dataplane.Deadlock
	bad     error  // of a witness
	lost    uint64 // discarded by limits
	f       *fabric.Fabric
}

// lashConfig is the manager's configuration: lash, and lifetimes by their code.
func lashConfig(life uint8) sm.Config {
	cfg := lab.ProductionConfig(lab.RepairChain{})
	cfg.Engines, cfg.Explicit = []route.Engine{lash.Engine{}}, true
	cfg.PacketLife, cfg.HOQLife, cfg.LeafHOQLife = life, life, life-2
	if life == never {
		cfg.LeafHOQLife = never
	}
	cfg.DampHold = 0
	return cfg
}

// deadlockConfig is the model of the data plane.
func deadlockConfig(seed uint64) dataplane.Config {
	dc := dataplane.Defaults()
	dc.Seed, dc.SourceQueue = seed, 8
	return dc
}

func (c *stillCase) run(seed uint64, life uint8, sum *stillResult) error {
	if !c.limits {
		life = never
	}
	f, err := ringFabric(c.ring)
	if err != nil {
		return err
	}
	dc := deadlockConfig(seed)
	if c.oldLevels {
		dc.SL = func(int, int) ib.SL { return 0 }
	}
	b, err := bed.NewData(f, sim.Config{Seed: seed, HopLatency: hopLatency, SMALatency: smaLatency},
		lashConfig(life), dc)
	if err != nil {
		return err
	}
	b.Cap(bed.HostGbps)
	if err := addSix(b, c.saturated); err != nil {
		return err
	}
	began := b.Engine.Now()
	sum.f, sum.lanes = f, b.Manager.Snap.Tables.NumVLs
	b.Run(100 * time.Microsecond)
	sum.most = append(sum.most, bed.Total(b.Measure(400*time.Microsecond)))
	b.Run(19500 * time.Microsecond)
	span := 10 * time.Millisecond
	if c.limits {
		span = 3 * dataplane.LifeOf(life).Duration()
	}
	sum.total = append(sum.total, bed.Total(b.Measure(span)))
	sum.lost += limited(&b.Engine.Stats().Dropped)
	if d := b.Engine.Deadlock(); d != nil {
		after := (d.At - began).Duration()
		if sum.stood == 0 || after < sum.soonest {
			sum.soonest = after
		}
		sum.lasted = max(sum.lasted, after)
		sum.stood++
		sum.cycle = d
		if err := witness(b, d); err != nil {
			sum.bad = err
		}
	}
	return b.Engine.Check()
}

// limited is how many packets were discarded for their time in a switch.
func limited(lost *[dataplane.NumCauses]uint64) uint64 {
	return lost[dataplane.HeadOfQueue] + lost[dataplane.Stalled] + lost[dataplane.Expired]
}

// witness checks that the buffers of a deadlock are a circle of the dependency
// graph: each lies behind the output that the one before waits for, on its lane,
// and that output is the entry of its head. A verifier that has never seen the
// traffic must find the same circle for hosts that all use level 0.
func witness(b *bed.Data, d *dataplane.Deadlock) error {
	s, f := b.Manager.Snap, b.Cluster.Fabric
	waits := map[check.Hop]bool{}
	for i, w := range d.Cycle {
		next := d.Cycle[(i+1)%len(d.Cycle)]
		if f.Port(w.Out).Peer != next.In || w.Lane != next.VL || w.In.Node != w.Out.Node {
			return fmt.Errorf("%s lane %d is not what %s waits for", f.PortName(next.In), next.VL, f.PortName(w.In))
		}
		row := engine.Switch(s.Graph, f.Nodes[w.In.Node].GUID)
		if s.Tables.Entry(row, w.DLID) != w.Out.Port {
			return fmt.Errorf("%s: LID %d does not leave by port %d", f.PortName(w.In), w.DLID, w.Out.Port)
		}
		waits[check.Hop{Switch: row, Port: w.Out.Port, Lane: uint8(w.Lane)}] = true
	}
	one := &route.Tables{Engine: "one level", LFT: s.Tables.Flat().LFT, TopLID: s.Tables.TopLID, NumVLs: 1}
	for _, c := range check.Verify(s.Graph, one, check.Options{}).Cycles {
		same := len(c.Edges) == len(waits)
		for _, e := range c.Edges {
			same = same && waits[e.Out]
		}
		if same {
			return nil
		}
	}
	return fmt.Errorf("route/check finds another circle, or none, for these tables on one level")
}

// cutCase is a mesh that loses the cable between S2 and S5.
type cutCase struct {
	name   string
	policy sm.Transition
	limits uint8
	learn  time.Duration // from the notice until hosts use new levels; 0: they never do
	repath time.Duration // the repath time of the manager's configuration; 0: without limit
}

const (
	// The published method on the product's lifetimes; our plans on lifetimes and
	// delays of a thousandth of them, or the runs would take hours.
	plannedLife   = 8
	plannedRepath = 20 * time.Millisecond
	learnSoon     = 10 * time.Millisecond
	learnLate     = 50 * time.Millisecond
)

var cutCases = []cutCase{
	{"whole tables, hosts keep their levels, limits", sm.TransitionStatic2003, 18, 0, 30 * time.Second},
	{"whole tables, hosts keep their levels, no limits", sm.TransitionStatic2003, never, 0, 30 * time.Second},
	{"whole tables, hosts repath, limits", sm.TransitionStatic2003, 18, learnLate, 30 * time.Second},
	{"whole tables, hosts repath, no limits", sm.TransitionStatic2003, never, learnLate, 30 * time.Second},
	{"strict, hosts repath", sm.TransitionStrict, plannedLife, learnSoon, plannedRepath},
	{"availability, hosts repath", sm.TransitionAvailability, plannedLife, learnSoon, plannedRepath},
	{"strict, hosts keep their levels", sm.TransitionStrict, plannedLife, 0, 0},
	{"strict, hosts keep their levels against the setting", sm.TransitionStrict, plannedLife, 0, plannedRepath},
	{"availability, hosts keep their levels", sm.TransitionAvailability, plannedLife, 0, 0},
	{"strict, no limits, hosts keep their levels", sm.TransitionStrict, never, 0, 0},
}

// published is whether a case writes whole tables as OpenSM does, not by a plan.
func (c *cutCase) published() bool { return c.policy == sm.TransitionStatic2003 }

// cutResult sums runs.
type cutResult struct {
	before, after []float64 // Gb/s, in the end
	least         []float64 // Gb/s of the slowest flow that the cut does not touch, in any step
	stood, risk   int       // runs that stood still; in which the manager announced that it may happen
	plan          string
	broken        int // runs that ended with pairs that are not connected
	lost          [dataplane.NumCauses]uint64
	steps         []float64 // Gb/s over time, of the first run
}

// plannedSpan is how long a cut is looked at that a plan repairs.
const plannedSpan = 200 * time.Millisecond

// cutSteps is in how many steps the time after a cut is shown.
const cutSteps = 80

// config is the manager's.
func (c *cutCase) config() sm.Config {
	cfg := lashConfig(c.limits)
	cfg.Transition, cfg.RepathTime = c.policy, c.repath
	if c.published() {
		cfg.Engines[0] = scratch{lash.Engine{}}
		return cfg
	}
	cfg.ImproveDelay = 40 * time.Millisecond
	cfg.SweepInterval = time.Second
	return cfg
}

// run adds a run that looks at the time after the cut: span if the case is the
// published method's.
func (c *cutCase) run(seed uint64, span time.Duration, sum *cutResult) error {
	f, err := ringFabric(false)
	if err != nil {
		return err
	}
	b, err := bed.NewData(f, sim.Config{Seed: seed, HopLatency: hopLatency, SMALatency: smaLatency}, c.config(),
		deadlockConfig(seed))
	if err != nil {
		return err
	}
	b.Cap(bed.HostGbps)
	if err := addSix(b, false); err != nil {
		return err
	}
	b.Run(2 * time.Millisecond)
	sum.before = append(sum.before, bed.Total(b.Measure(4*time.Millisecond)))
	if c.learn > 0 {
		b.Repath(c.learn)
	}
	b.Manager.Notices = b.Manager.Notices[:0]
	if err := b.Cluster.Sim.LinkDown("S2", 2); err != nil {
		return err
	}
	if !c.published() {
		span = plannedSpan
	}
	least := bed.HostGbps
	var rates []float64
	for range cutSteps {
		x := b.Measure(span / cutSteps)
		rates = append(rates, bed.Total(x))
		for _, k := range untouched {
			least = min(least, x[k])
		}
		for cause, n := range b.Engine.Stats().Dropped {
			sum.lost[cause] += n
		}
	}
	if len(sum.steps) == 0 {
		sum.steps = rates
	}
	sum.least = append(sum.least, least)
	sum.after = append(sum.after, bed.Average(rates[len(rates)/2:]))
	if b.Engine.Deadlock() != nil {
		sum.stood++
	}
	sum.note(b.Manager.Notices)
	return b.Engine.Check()
}

// note takes what the manager said about its plan.
func (r *cutResult) note(list []sm.Notice) {
	risk, left := false, false
	for i := range list {
		switch n := &list[i]; n.Kind {
		case sm.KindTransientCycle:
			risk = true
		case sm.KindRepair:
			left = n.Repair.Left > 0
			if r.plan == "" {
				r.plan = n.Repair.Mode.String()
			}
		}
	}
	if risk {
		r.risk++
	}
	if left {
		r.broken++
	}
}
