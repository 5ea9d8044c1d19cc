// Package lab joins managers with a simulated subnet in virtual time: real
// datagrams, the real core, no goroutines, and a run that its seed repeats
// exactly. Tests of what a manager does to a fabric live here, and so do the
// experiments.
//
//	c, _ := lab.NewCluster(fab, sim.Config{Seed: 1})
//	m := c.Start("H-1", lab.DefaultConfig(), nil)
//	err := c.RunUntil(time.Minute, m.Up)
//	err = c.Check(m) // what the switches really hold
package lab

import (
	"errors"
	"fmt"
	"time"

	"heddle/congestion"
	"heddle/fabric"
	"heddle/ib"
	"heddle/mad"
	"heddle/partition"
	"heddle/perf"
	"heddle/sa"
	"heddle/shell"
	"heddle/sim"
	"heddle/sm"
	"heddle/store"
	"heddle/subnet"
	"heddle/vm"
)

// Cluster is a simulated subnet and the managers on it. It is used by one
// goroutine.
type Cluster struct {
	Sim      *sim.Subnet
	Fabric   *fabric.Fabric
	Managers []*Manager

	lids   map[ib.GUID]ib.LID // every LID that a port was ever seen with
	floats map[ib.GUID]bool   // ports whose LID may change: a placement's LID floats there
	// leftLIDs: VPorts that are down may show the same LID, as hosts take them down
	// when nobody unsets it.
	leftLIDs bool
	record   *recording // nil: nobody wants it
}

// NewCluster makes a cluster without managers.
func NewCluster(f *fabric.Fabric, sc sim.Config) (*Cluster, error) {
	s, err := sim.New(f, sc)
	if err != nil {
		return nil, err
	}
	c := &Cluster{Sim: s, Fabric: f, lids: map[ib.GUID]ib.LID{}, floats: map[ib.GUID]bool{}}
	if observe != nil {
		observe(c)
	}
	return c, nil
}

// DefaultConfig is a manager with the chain of `heddle sm` (AutoChain) and the usual
// SM_Key. A test about other engines sets Engines.
func DefaultConfig() sm.Config {
	c := sm.Defaults()
	c.Engines = AutoChain()
	return c
}

// Kills say when a manager dies.
type Kills struct {
	// KillAfter, if > 0, is how many more SMPs the manager sends before it
	// dies without a word.
	KillAfter int
	// KillAfterVMWrites, if > 0, is how many more times the address manager
	// stores something before the manager dies, at once.
	KillAfterVMWrites int
	// KillAfterMoves, if > 0, is how many more moves of interfaces end and are answered
	// before the manager dies, at once.
	KillAfterMoves int
}

// Manager is a core on a port of the simulated subnet, with the shell that
// drives it in virtual time.
type Manager struct {
	Node       string
	Store      *store.Memory
	Snap       *subnet.Snapshot
	Plan       *sm.Plan
	Notices    []sm.Notice
	Traps      []sm.Trap // those that subscribers would hear of
	Placements []subnet.PlacementReport
	// SANotices are those of the SA.
	SANotices []sa.Notice
	// VMNotices are those of the address manager.
	VMNotices []vm.Notice
	// Commits is how often something was stored.
	Commits int
	Stopped bool
	Dead    bool
	Workers int           // of routing jobs; 0 = 1
	JobTime time.Duration // virtual time that a routing job takes
	// JobClock: a routing job takes JobTime and what it took by Clock.
	JobClock bool
	Kills
	// OnSend, if set, sees every packet before it is sent.
	OnSend func(p *mad.Packet)
	// OnReceive, if set, is called with every received packet before the core gets it.
	OnReceive func(p *mad.Packet)
	// OnPublish, if set, is called when a snapshot has been published.
	OnPublish func()
	// OnVMs and OnPlacements, if set, are called with what the address manager publishes and
	// before its output is carried out.
	OnVMs        func(*vm.View)
	OnPlacements func(sm.SetPlacements)
	// Clock, if set, is a real clock by which the time that the core takes for
	// its steps, that routing jobs take to find and prove tables, and to plan
	// the transition, is added up in StepCPU, JobCPU and PlanCPU.
	Clock                    func() time.Duration
	StepCPU, JobCPU, PlanCPU time.Duration
	VMCPU                    time.Duration // of the address manager's steps
	// OnStore, if set, is called with what a core stores.
	OnStore func(ops []store.Op)
	// OnJob, if set, sees the result of every routing job.
	OnJob func(r *sm.JobResult)
	// OnStep, if set, is called after every step of the core.
	OnStep func()
	Sent   int // packets sent
	Writes int // Set requests among them

	c      *Cluster
	core   *sm.Core
	ep     *sim.Endpoint
	shared shell.Shared
	sm     *shell.SM
	bufs   []*received
	spare  []*received
	armed  mad.Time
	roles
}

// roles are the cores of a Manager besides the subnet manager, nil: it does not have one, and what
// answers SMInfo in its place.
type roles struct {
	sa   *administrator
	vm   *addresses
	perf *counters
	cong *congestionControl
	hot  *hotSpots

	stand shell.StandIn // answers SMInfo while the core is in a step
	came  uint64        // SMPs for the core
	done  uint64        // those that it is done with
}

type received struct {
	p   mad.Packet
	buf []byte
}

// Start attaches a manager to a node and starts it. A nil st is an empty
// store.
func (c *Cluster) Start(node string, cfg sm.Config, st *store.Memory) (*Manager, error) {
	m, err := c.Attach(node, cfg, st)
	if err != nil {
		return nil, err
	}
	return m, m.Start()
}

// Attach is Start without the first event, for hooks to be set before.
func (c *Cluster) Attach(node string, cfg sm.Config, st *store.Memory) (*Manager, error) {
	ep, err := c.Sim.Attach(node)
	if err != nil {
		return nil, err
	}
	if st == nil {
		st = store.NewMemory()
	}
	cfg.PortGUID = ep.PortGUID()
	m := &Manager{Node: node, Store: st, c: c, core: sm.New(cfg), ep: ep, armed: mad.Never}
	m.sm = shell.NewSM(smCore{m}, smEdge{m}, &m.shared)
	m.shared.WakeSM = m.sm.Mail
	ep.OnPacket = m.receive
	c.Managers = append(c.Managers, m)
	return m, nil
}

// Start gives an attached manager its first event.
func (m *Manager) Start() error {
	state, err := m.Store.Load()
	if err != nil {
		return err
	}
	if m.sa != nil {
		m.sa.shell.Start(state.Records, int64(m.c.Sim.Now()))
	}
	if m.vm != nil {
		m.vm.shell.Start(state.Records)
	}
	m.sm.Start(state, nil)
	return nil
}

// receive queues a packet: deliveries may come while a Send is under way.
func (m *Manager) receive(p *mad.Packet) {
	if m.Dead {
		return
	}
	if m.OnReceive != nil {
		m.OnReceive(p)
	}
	if kind := shell.KindOf(p); kind != shell.SMP {
		switch {
		case kind == shell.Counters && m.perf != nil:
			m.perf.shell.Step(perf.Received{List: []*mad.Packet{keep(p)}})
		case kind == shell.Settings && m.cong != nil:
			m.cong.shell.Step(congestion.Received{List: []*mad.Packet{keep(p)}})
		case m.sa != nil:
			m.sa.receive(p)
		}
		return
	}
	if r, ok := m.standsIn(p); ok {
		smEdge{m}.send(&mad.Packet{Addr: p.Addr, Data: r[:]})
		return
	}
	m.came++
	var r *received
	if n := len(m.spare); n > 0 {
		r, m.spare = m.spare[n-1], m.spare[:n-1]
	} else {
		r = &received{}
	}
	r.buf = append(r.buf[:0], p.Data...)
	r.p = *p
	r.p.Data = r.buf
	m.bufs = append(m.bufs, r)
	m.sm.Step(sm.Received{P: &r.p})
}

// standsIn returns the answer to p if it is a request for SMInfo that the core is not to answer.
func (m *Manager) standsIn(p *mad.Packet) (r ib.MAD, ok bool) {
	if !shell.AsksSMInfo(p) {
		return r, false
	}
	return m.stand.Answer(m.c.Sim.Now(), p, m.came+1, m.done)
}

func (m *Manager) clock() time.Duration {
	if m.Clock == nil {
		return 0
	}
	return m.Clock()
}

// wake calls fn at t, unless armed says that it is called earlier anyway, or the
// manager is dead by then.
func (m *Manager) wake(armed *mad.Time, t mad.Time, fn func()) {
	if t == mad.Never || *armed <= t {
		return
	}
	*armed = t
	m.c.Sim.At(t, func() {
		if *armed != t {
			return // an earlier one has come in between
		}
		*armed = mad.Never
		if !m.Dead {
			fn()
		}
	})
}

// Kill ends the manager as kill -9 would: IsSM goes with the file descriptor,
// nothing else is done.
func (m *Manager) Kill() {
	m.end()
	m.ep.Close()
}

// end has the cores do nothing more.
func (m *Manager) end() {
	m.Dead = true
	m.sm.Halt()
	if m.sa != nil {
		m.sa.shell.Halt()
	}
	if m.vm != nil {
		m.vm.shell.Halt()
	}
	if m.perf != nil {
		m.perf.shell.Halt()
	}
	if m.cong != nil {
		m.cong.shell.Halt()
	}
}

// Stop ends the manager in order.
func (m *Manager) Stop() { m.sm.Step(sm.Stop{}) }

// Sweep asks for a full sweep.
func (m *Manager) Sweep(audit bool) { m.sm.Step(sm.Sweep{Audit: audit}) }

// Reroute asks for tables from scratch.
func (m *Manager) Reroute(rebalance bool) { m.sm.Step(sm.Reroute{Rebalance: rebalance}) }

// SetWarm gives the manager what the master published last; before Start it is to take that one's
// place.
func (m *Manager) SetWarm(s *subnet.Snapshot) { m.sm.SetWarm(s) }

// SetAllies names the managers that have the same stored state.
func (m *Manager) SetAllies(list ...sm.Ally) { m.sm.Step(sm.SetAllies{List: list}) }

// SetFloat says, before Start, how the LIDs of that master's port come to the manager's.
func (m *Manager) SetFloat(x *sm.Float) { m.sm.SetFloat(x) }

// Inject hands the manager a packet as if it had come from p.Addr, whatever that is: the
// simulator vouches for source LIDs as hardware does.
func (m *Manager) Inject(p *mad.Packet) { m.receive(p) }

// SetGroups replaces the multicast groups.
func (m *Manager) SetGroups(g []sm.Group) { m.sm.Step(sm.SetGroups{Groups: g}) }

// SetPortActions replaces the links that are drained, isolated or restored.
func (m *Manager) SetPortActions(l ...subnet.PortAction) { m.sm.Step(sm.SetPortActions{List: l}) }

// SetAliases replaces the alias GUIDs.
func (m *Manager) SetAliases(l []subnet.Alias) { m.sm.Step(sm.SetAliases{Aliases: l}) }

// ReadTables has the lane tables of nodes read; none = all.
func (m *Manager) ReadTables(nodes ...ib.GUID) { m.sm.Step(sm.ReadTables{Nodes: nodes}) }

// DropKept has what is kept at ports taken away; none = all.
func (m *Manager) DropKept(ports ...ib.GUID) { m.sm.Step(sm.DropKept{Ports: ports}) }

// SetPartitions replaces the partitions.
func (m *Manager) SetPartitions(p *partition.Policy, tag uint64) {
	m.sm.Step(sm.SetPartitions{Policy: p, Tag: tag})
}

// SetPlacements changes placements, as an address manager does.
func (m *Manager) SetPlacements(ev sm.SetPlacements) { m.sm.Step(ev) }

// SetMembers replaces the memberships that are added to the partitions.
func (m *Manager) SetMembers(l []partition.Partition, tag uint64) {
	m.sm.Step(sm.SetMembers{Partitions: l, Tag: tag})
}

// Up reports whether this manager is master of a subnet that is up.
func (m *Manager) Up() bool {
	return !m.Dead && m.Snap != nil && m.Snap.Up && m.Snap.State == subnet.Master
}

// Status is the core's.
func (m *Manager) Status() sm.Status { return m.core.Status() }

// State is the manager's state.
func (m *Manager) State() subnet.SMState { return m.core.Status().State }

// Idle reports whether the core is between sweeps with nothing asked for.
func (m *Manager) Idle() bool { return m.core.Quiescent() }

// Events prints the notices of at least some level, a line each.
func (m *Manager) Events(lv sm.Level) (lines []string) {
	for i := range m.Notices {
		if n := &m.Notices[i]; n.Level >= lv {
			lines = append(lines, n.String())
		}
	}
	return lines
}

// ErrStuck is returned by RunUntil when the limit passes.
var ErrStuck = errors.New("lab: the condition did not come true in time")

// RunUntil runs events until cond holds, at most for limit of virtual time.
func (c *Cluster) RunUntil(limit time.Duration, cond func() bool) error {
	end := c.Sim.Now().Add(limit)
	for !cond() {
		t := c.Sim.NextEvent()
		if t > end || t == mad.Never {
			c.Sim.RunUntil(end)
			if cond() {
				return nil
			}
			return fmt.Errorf("%w (%v)", ErrStuck, limit)
		}
		c.Sim.Step()
	}
	return nil
}

// Run runs for d of virtual time.
func (c *Cluster) Run(d time.Duration) { c.Sim.RunUntil(c.Sim.Now().Add(d)) }

// remember notes the LIDs of a master's subnet, for Check.
func (c *Cluster) remember(m *Manager) {
	if !m.Snap.Up {
		return
	}
	for i := range m.Snap.Ports {
		if p := m.Snap.Ports[i]; p.EndPort >= 0 && p.LID != 0 && p.Virtual == nil {
			if _, ok := c.lids[p.GUID]; !ok {
				c.lids[p.GUID] = p.LID
			}
		}
	}
}
