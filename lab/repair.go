package lab

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/mad"
	"heddle/route"
	"heddle/route/check"
	"heddle/sim"
	"heddle/sm"
)

// RepairTrial is one seeded run of a manager on a fabric whose links and
// switches fail permanently: what the faults break, when the manager has repaired
// it, and what the manager breaks itself. Everything follows from the seed.
type RepairTrial struct {
	Seed   uint64
	Fabric *fabric.Fabric
	Chain  RepairChain
	// Damage is how many links between switches are out before the manager
	// starts.
	Damage int
	// Faults is how many links and switches fail one after the other. The gap
	// between two is drawn between 0 and MaxGap; half of the gaps are drawn by
	// their logarithm, so that many faults fall into the repair of the last one.
	Faults int
	MaxGap time.Duration
	// Config, if set, changes the manager's configuration.
	Config func(*sm.Config)

	c     *Cluster
	m     *Manager
	rng   *rand.Rand
	watch *repairWatch
}

// RepairFault is one fault and what became of it.
type RepairFault struct {
	What string
	At   mad.Time
	// Broken counts the pairs (switch with a host, LID) that the fault broke although a path
	// exists. Late ones among them broke when the manager wrote what it had planned before it
	// could detect the fault.
	Broken, Late int
	// Time is from the fault until the last of these pairs worked again; those
	// that a later fault cut off do not count.
	Time time.Duration
	// Unrepaired pairs did not work at the end.
	Unrepaired int
	// ManagerBroke counts how often the manager broke a pair that worked after
	// the fault, until the next one; ManagerLongest is the longest that one of
	// them was broken.
	ManagerBroke   int
	ManagerLongest time.Duration
	// Drain is the time that the manager waited for packets to leave while a pair
	// was broken.
	Drain time.Duration
	// SMPs and Writes count what the manager sent until the next fault or the end.
	SMPs, Writes int
}

// RepairResult is the outcome of a trial.
type RepairResult struct {
	Faults []RepairFault
	Engine string // whose tables were installed at the end
	// Load and Fresh are the maximum channel load of the tables installed at the
	// end, and of those that the same engine computes from scratch; Fresh is 0 if
	// it refuses.
	Load, Fresh int64
	// Settled is how long after the last fault the manager did something last.
	Settled time.Duration
}

// ErrNotInForce: the tables of the engine that is tried were not installed
// before the first fault.
var ErrNotInForce = errors.New("lab: the engine's tables are not installed")

// ErrNotRepaired: pairs were still broken at the end of a trial.
var ErrNotRepaired = errors.New("lab: pairs were not repaired")

// The limits of a trial, in virtual time.
const (
	repairLimit = 4 * time.Hour // after the last fault
	// repairJobTime is what a routing job takes: a fault may fall into it.
	repairJobTime = time.Millisecond
)

// repairSim is a fabric of 10 to 15 µs a hop and 10 µs an agent.
func repairSim(seed uint64) sim.Config {
	return sim.Config{Seed: seed, HopLatency: 10 * time.Microsecond, Jitter: 5 * time.Microsecond, SMALatency: 10 * time.Microsecond}
}

// Run runs the trial. The result is also there with ErrNotRepaired, and with
// an error of Cluster.Check at the end.
func (t *RepairTrial) Run() (*RepairResult, error) {
	t.rng = rand.New(rand.NewPCG(t.Seed, 0x726570616972))
	if err := t.start(); err != nil {
		return nil, err
	}
	defer func() { t.c.Sim.OnChange = nil }()
	for i := range t.Faults {
		if i > 0 {
			t.c.Run(t.gap())
		}
		if !t.fail() {
			break // nothing is left that may fail
		}
	}
	err := t.settle()
	res := t.watch.result()
	if err == nil {
		err = t.c.Check(t.m)
	}
	if err == nil {
		err = t.quality(res)
	}
	for i := range res.Faults {
		if f := &res.Faults[i]; err == nil && f.Unrepaired > 0 {
			err = fmt.Errorf("%w: %d of %s", ErrNotRepaired, f.Unrepaired, f.What)
		}
	}
	return res, err
}

// start brings the fabric up and waits until it is quiet.
func (t *RepairTrial) start() (err error) {
	if t.c, err = NewCluster(t.Fabric, repairSim(t.Seed)); err != nil {
		return err
	}
	node := ""
	for i := range t.Fabric.Nodes {
		if !t.Fabric.Nodes[i].IsSwitch() {
			node = t.Fabric.Nodes[i].ID
			break
		}
	}
	cfg := ProductionConfig(t.Chain)
	cfg.RouteSeed = t.Seed
	if t.Config != nil {
		t.Config(&cfg)
	}
	if t.m, err = t.c.Attach(node, cfg, nil); err != nil {
		return err
	}
	t.m.JobTime = repairJobTime
	t.watch = &repairWatch{c: t.c, m: t.m, open: map[repairPair]openPair{}, dead: map[fabric.Ref]int{}}
	t.damage()
	if err = t.m.Start(); err != nil {
		return err
	}
	if err = t.c.RunUntil(time.Minute, t.m.Up); err != nil {
		return err
	}
	if err = t.c.RunUntil(time.Minute, t.m.Idle); err != nil {
		return err
	}
	t.c.Run(2 * time.Second)
	if e := t.m.Snap.Engine; t.Chain.Want != "" && e != t.Chain.Want {
		return fmt.Errorf("%w: %s, not %s", ErrNotInForce, e, t.Chain.Want)
	}
	t.watch.start()
	return t.c.Check(t.m)
}

// gap draws the time until the next fault.
func (t *RepairTrial) gap() time.Duration {
	d := t.rng.Float64()
	if t.rng.IntN(2) == 0 { // from 0.1 ms on, every power of ten alike
		least := 100 * time.Microsecond
		for d *= 5; d >= 1 && least*10 <= t.MaxGap; d-- {
			least *= 10
		}
		return min(t.MaxGap, time.Duration(float64(least)*(1+9*d)))
	}
	return time.Duration(d * float64(t.MaxGap))
}

// damage removes links before the manager starts. No switch is cut off.
func (t *RepairTrial) damage() {
	for range t.Damage {
		links := t.links()
		t.rng.Shuffle(len(links), func(i, j int) { links[i], links[j] = links[j], links[i] })
		for _, r := range links {
			if t.partWithout(r, -1) == t.switchesUp() {
				_ = t.c.Sim.LinkDown(t.Fabric.Nodes[r.Node].ID, int(r.Port))
				break
			}
		}
	}
}

// links are the links between switches that are up, each by its lower end.
func (t *RepairTrial) links() (l []fabric.Ref) {
	for n := range t.Fabric.Nodes {
		nd := &t.Fabric.Nodes[n]
		for p := 1; nd.IsSwitch() && p <= nd.NumPorts; p++ {
			r, ok := t.c.Sim.Peer(n, p)
			if ok && int(r.Node) > n && t.Fabric.Nodes[r.Node].IsSwitch() && t.c.Sim.PortInfo(n, p).PortPhysicalState == ib.PhysLinkUp {
				l = append(l, fabric.Ref{Node: int32(n), Port: uint8(p)})
			}
		}
	}
	return l
}

func (t *RepairTrial) switchesUp() (n int) {
	for i := range t.Fabric.Nodes {
		if t.Fabric.Nodes[i].IsSwitch() && t.c.Sim.Up(i) {
			n++
		}
	}
	return n
}

// partWithout counts the switches that the manager's node is connected with if
// a link and a node (< 0: none) were out.
func (t *RepairTrial) partWithout(link fabric.Ref, node int) (n int) {
	start := t.m.ep.NodeIndex()
	seen := make([]bool, len(t.Fabric.Nodes))
	seen[start] = true
	for queue := []int{start}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		nd := &t.Fabric.Nodes[at]
		if nd.IsSwitch() {
			n++
		} else if at != start {
			continue
		}
		for p := 1; p <= nd.NumPorts; p++ {
			r, ok := t.c.Sim.Peer(at, p)
			if !ok || seen[r.Node] || int(r.Node) == node || !t.c.Sim.Up(int(r.Node)) ||
				t.c.Sim.PortInfo(at, p).PortPhysicalState != ib.PhysLinkUp {
				continue
			}
			if here := (fabric.Ref{Node: int32(at), Port: uint8(p)}); here == link || r == link {
				continue
			}
			seen[r.Node] = true
			queue = append(queue, int(r.Node))
		}
	}
	return n
}

// fail removes a random link or, one time in three, a random switch: one that leaves the
// manager more than half of the switches that are up.
func (t *RepairTrial) fail() bool {
	links := t.links()
	var sw []int
	for i := range t.Fabric.Nodes {
		if t.Fabric.Nodes[i].IsSwitch() && t.c.Sim.Up(i) {
			sw = append(sw, i)
		}
	}
	up := len(sw)
	t.rng.Shuffle(len(links), func(i, j int) { links[i], links[j] = links[j], links[i] })
	t.rng.Shuffle(len(sw), func(i, j int) { sw[i], sw[j] = sw[j], sw[i] })
	if t.rng.IntN(3) == 0 {
		for _, n := range sw {
			if 2*t.partWithout(fabric.NoRef(), n) > up {
				id := t.Fabric.Nodes[n].ID
				t.watch.strike("switch "+id, func() error { return t.c.Sim.NodeDown(id) })
				return true
			}
		}
	}
	for _, r := range links {
		if 2*t.partWithout(r, -1) > up {
			id := t.Fabric.Nodes[r.Node].ID
			t.watch.strike(fmt.Sprintf("link %s[%d]", id, r.Port), func() error { return t.c.Sim.LinkDown(id, int(r.Port)) })
			return true
		}
	}
	return false
}

// quietTime is how long nothing but light sweeps must have happened: longer
// than Config.ImproveDelay.
const quietTime = 20 * time.Second

// settle waits until no pair is broken and the manager has had nothing to do
// for a while and looks for no better tables any more.
func (t *RepairTrial) settle() error {
	begin := t.c.Sim.Now()
	end := begin.Add(repairLimit)
	for t.c.Sim.Now() < end {
		if err := t.c.RunUntil(end.Sub(t.c.Sim.Now()), func() bool { return t.m.Idle() && len(t.watch.open) == 0 }); err != nil {
			break
		}
		sweeps := t.m.Status().Sweeps
		t.c.Run(quietTime)
		if t.m.Idle() && !t.m.Status().Improving && t.m.Status().Sweeps == sweeps && len(t.watch.open) == 0 {
			return nil
		}
	}
	if len(t.watch.open) > 0 {
		return fmt.Errorf("%w: %d after %v", ErrNotRepaired, len(t.watch.open), t.c.Sim.Now().Sub(begin))
	}
	return fmt.Errorf("lab: the manager is not quiet %v after the last fault", t.c.Sim.Now().Sub(begin))
}

// quality compares the maximum channel load of the installed tables with that
// of tables that the same engine computes on the same graph, if these may be installed.
func (t *RepairTrial) quality(res *RepairResult) error {
	g, lft, err := t.c.held(t.c.reachable(t.m))
	if err != nil {
		return err
	}
	res.Engine = t.m.Snap.Engine
	held := &route.Tables{Engine: "held", LFT: lft, TopLID: g.TopLID, NumVLs: 1}
	res.Load = check.Verify(g, held, check.Options{}).MaxChannelLoad
	i := slices.IndexFunc(t.Chain.Engines, func(e route.Engine) bool { return e.Name() == res.Engine })
	if i < 0 {
		return fmt.Errorf("lab: tables of %q are installed, which is not in the chain", res.Engine)
	}
	if fresh, err := t.Chain.Engines[i].Compute(g, route.Options{Seed: t.Seed}); err == nil {
		if r := check.Verify(g, fresh, check.Options{}); r.OK() {
			res.Fresh = r.MaxChannelLoad
		}
	}
	return nil
}

// Report is what a failing trial prints.
func (t *RepairTrial) Report(res *RepairResult, err error) string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d, %s: %v\n", t.Seed, t.Chain.Name, err)
	if res != nil {
		for i := range res.Faults {
			fmt.Fprintf(&b, "%+v\n", res.Faults[i])
		}
	}
	if t.m != nil {
		b.WriteString(strings.Join(t.m.Events(sm.Info), "\n"))
	}
	return b.String()
}
