package sm

import (
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sm/config"
	"heddle/sm/damp"
	"heddle/sm/env"
	"heddle/sm/group"
	"heddle/sm/guid"
	"heddle/sm/install"
	"heddle/sm/lid"
	"heddle/sm/mastership"
	"heddle/sm/notice"
	"heddle/sm/pkeymgr"
	"heddle/sm/placement"
	"heddle/sm/topo"
	"heddle/sm/trap"
	"heddle/sm/vport"
	"heddle/subnet"
)

type ref = subnet.Ref

// Core is one subnet manager. See the package comment for how it is driven.
type Core struct {
	env.Env
	mastership *mastership.Machine

	out *Output
	req mad.Request // scratch

	started  bool
	stopping bool

	// The sweep under way.
	phaseStart mad.Time
	sweepStart mad.Time
	armAll     bool // links came up that were not brought up because no tables could be installed
	refused    bool // no tables could be installed
	again      bool // something changed meanwhile
	againWhy   string
	report     notice.SweepReport
	attempts   int // sweeps in a row that ended with errs or again
	conflicts  int // fingerprint of the disagreements of the last discovery
	recheck    bool
	descRead   bool // a light sweep read a description
	madBase    mad.Stats

	reg      region
	carry    carry
	breaks   int      // sweeps in a row that were broken off
	breakAt  mad.Time // the sweep under way is broken off
	breakWhy string
	// Switches that traps named while a sweep was under way, to be peeked at.
	peeks      []ib.GUID
	trappers   []heldTraps // switches that sent a trap a short while ago
	heldLookAt mad.Time    // when they are peeked at next
	answeredAt mad.Time    // when an item was finished last
	stalls     int         // times that paths were looked at since
	stalledAt  mad.Time    // when the paths were looked at last
	cutNew     bool        // a sweep of a region found a link down in this step
	// The tables of the last sweep are written in part.
	unfinished bool
	mute       []muteSwitch
	lookNow    bool                // a light sweep is due at once
	looked     mad.Time            // when all switches were asked last
	watch      time.Duration       // between the light sweeps after a fault; 0: the usual interval
	watchAt    mad.Time            // of the next of them
	auditing   bool                // PhaseLight is an audit
	unseen     map[ib.GUID]*unseen // nodes of the fabric that do not answer
	asOther    map[topo.PortID]claim
	veiled     bool // not all has been seen in this mastership (veil.go)
	veilNews   bool // what is behind the veil may be less than the last snapshot says
	late       []lateNode
	hurry      hurry
	// Switches that a light sweep that was cut short had no answer from.
	lightMissed []ib.GUID
	rp          repairing
	suspects    []suspicion // what the next sweep looks at, if it is one of a region
	wantFull    bool        // the next sweep reads everything
	sound       bool        // the last sweep went through without an error, so c.f is what there is
	damped      *damp.Links

	last *topo.Topology // of the sweep before, for comparing
	gen  uint64         // of the last snapshot
	// LIDs moved since: its graph and tables are older ones.
	movedSnap bool
	floatSnap bool // … and ports have other LIDs

	// What lasts beyond a sweep, keyed by GUID: resolved once at discovery.
	lids      *lid.Table
	mkeys     map[ib.GUID]ib.MKey
	keyList   []ib.MKey // the different ones, ascending
	neighbors map[topo.PortID]ib.GUID
	firstTime bool // first configuring sweep of this mastership

	persistWait bool

	install *install.Installer
	groups  *group.Groups

	routing   routing
	laneState laneState

	wantGroups bool // the groups changed
	guids      *guid.Tables
	pkeys      *pkeymgr.Manager
	vports     *vport.Manager
	placements *placement.Machine
	mv         moves
	moveCount  MoveStatus

	fullAt mad.Time

	reactivate  mad.Time
	lightAt     mad.Time
	retryAt     mad.Time
	retryWait   int // doublings of RetryInterval
	auditAt     mad.Time
	trapAt      mad.Time // sweep asked for by traps
	lastTrapRun mad.Time
	trapRuns    int
	sweepWhy    string
	wantSweep   bool
	pressAt     mad.Time // wantSweep does not wait longer for what is between sweeps
	urgent      bool     // … and not for LIDs that are being moved either
	wantAudit   bool
	traps       trap.Table
	trapCount   uint64
	falseTraps  uint64
	lights      uint64
	lastReport  *notice.SweepReport
	upCounts    subnet.Counts
}

// New returns a manager that waits for Start. It panics on a Config that no
// manager can work with, which is a mistake of the program.
func New(cfg config.Config) *Core {
	if err := cfg.Check(); err != nil {
		panic(err)
	}
	c := &Core{
		Env: env.Env{
			Config: cfg,
			Engine: mad.NewEngine(mad.Config{
				Window: cfg.Window, MaxWindow: cfg.MaxWindow, Timeout: cfg.SMPTimeout, Retries: engineRetries(cfg.SMPRetries),
				TransportTimed: cfg.TransportTimed, FirstTID: cfg.FirstTID,
			}),
		},
		unseen: map[ib.GUID]*unseen{}, asOther: map[topo.PortID]claim{},
		lids: lid.New(), mkeys: map[ib.GUID]ib.MKey{},
		neighbors: map[topo.PortID]ib.GUID{},
		lightAt:   mad.Never, watchAt: mad.Never, retryAt: mad.Never, auditAt: mad.Never,
		trapAt: mad.Never, reactivate: mad.Never, fullAt: mad.Never,
		pressAt: mad.Never, breakAt: mad.Never, heldLookAt: mad.Never,
		routing: routing{improveAt: mad.Never, transit: "none yet"},
		laneState: laneState{
			laneTabs: map[ib.GUID]*laneTables{}, laneRows: newLaneRows(), lanesOf: map[ib.GUID]laneUse{},
		},
		rp:     repairing{signed: mad.Never, at: mad.Never},
		damped: damp.New(damp.Config{Free: cfg.DampFree, Hold: cfg.DampHold, Delay: cfg.DampDelay, Quiet: cfg.DampQuiet}),
		hurry:  newHurry(),
	}
	c.Sweeper = c
	c.install = install.New(&c.Env, c, cfg.Flight())
	c.groups = group.New(&c.Env, link{c}, c.install)
	c.mastership = mastership.New(&c.Env, c)
	c.wire()
	return c
}

// engineRetries says a number of retries as mad.Config does, where 0 is the
// engine's own choice and none is negative.
func engineRetries(n int) int {
	if n == 0 {
		return -1
	}
	return n
}

// Step applies one event at time now, which never goes back, and appends to
// out what must happen. The caller resets out.
func (c *Core) Step(now mad.Time, ev Event, out *Output) {
	c.Now, c.out, c.Output = max(now, c.Now), out, out
	switch ev := ev.(type) {
	case Received:
		c.onReceived(ev.P)
	case Timer:
	case Start:
		c.onStart(ev)
	case Persisted:
		c.onPersisted(ev)
	case JobDone:
		c.onJobDone(ev.Result)
	case Sweep:
		c.wantAudit = c.wantAudit || ev.Audit
		c.routing.rebalance = c.routing.rebalance || ev.Rebalance
		c.AskFullSweep("asked for by command")
	case Reroute:
		c.routing.rebalance = c.routing.rebalance || ev.Rebalance
		c.reroute("new tables asked for by command")
	case SetGroups:
		c.setGroups(ev.Groups)
	case SetPartitions:
		c.pkeys.Set(ev.Policy, ev.Tag)
	case SetAliases:
		c.guids.Set(ev.Aliases)
	case SetLeases:
		c.placements.Set(placement.Change{Put: ev.Put, Drop: ev.Drop, All: ev.All})
	case SetMembers:
		c.pkeys.SetMembers(ev.Partitions, ev.Tag)
	case ReadTables:
		c.readTables(ev.Nodes)
	case PortLost:
		c.onPortLost()
	case Stop:
		c.onStop()
	}
	if !c.stopping {
		c.Engine.Expire(c.Now, c.onCompletion)
		c.onTimers()
	}
	c.pump()
	out.Timer = c.nextTimer()
	c.out, c.Output = nil, nil
}

func (c *Core) onStart(ev Start) {
	if c.started {
		return
	}
	c.started = true
	if st := ev.Stored; st != nil {
		c.lids.Load(st.LIDs)
		for _, e := range st.MKeys {
			c.mkeys[e.GUID] = e.MKey
		}
		for _, e := range st.Neighbors {
			c.neighbors[topo.PortID{Node: e.Node, Port: e.Port}] = e.Peer
		}
		c.pkeys.Load(st.Records)
		c.placements.Load(st.Records)
	} else {
		c.pkeys.Load(nil)
	}
	if !c.Config.PlanOnly {
		c.out.IsSM = IsSMClaim
	}
	c.pkeys.Start()
	c.mastership.Discover("started")
}

func (c *Core) onStop() {
	if c.stopping {
		return
	}
	c.stopping = true
	c.Engine.CancelAll()
	c.Todo.Clear()
	c.Pending = 0
	if c.started && !c.Config.PlanOnly {
		c.out.IsSM = IsSMRelease
	}
	c.out.Stopped = true
}

// onPortLost forgets what was under way; the shell may Start a new core when
// the device is back.
func (c *Core) onPortLost() {
	c.Notify(notice.Notice{Kind: notice.KindPortDown, Level: notice.Error, Text: "the port is gone: close the other users of it or plug it in again"})
	c.stopping = true
	c.Engine.CancelAll()
	c.Todo.Clear()
	c.out.Stopped = true
}

// pump turns work items into requests as the window allows, and finishes
// phases whose items are all done. A phase that has nothing to do ends at
// once, so this loops until something is under way.
func (c *Core) pump() {
	for !c.stopping {
		c.press()
		if c.cutNew {
			c.resend()
		}
		c.peek()
		for {
			room := c.Engine.Window() - c.Engine.Outstanding()
			for c.Todo.N > 0 && c.Engine.Queued() < max(room, 1) {
				it := c.Todo.Pop()
				if c.sendsNothing(it) {
					c.skip(it)
				} else if c.build(it, &c.req) {
					c.req.Token = uint64(it)
					if err := c.Engine.Submit(&c.req); err != nil {
						c.Todo.Push(it)
						break
					}
				} else {
					c.Finish()
				}
			}
			c.Engine.Poll(c.Now, c.Send)
			if c.Todo.N == 0 || c.Engine.Queued() > 0 {
				break
			}
			if c.Engine.Outstanding() >= c.Engine.Window() {
				break
			}
		}
		if c.Pending > 0 || !c.nextPhase() {
			return
		}
	}
}

// nextPhase is called when a phase has no unfinished items. It reports
// whether there is more to do now.
func (c *Core) nextPhase() bool {
	switch c.Phase {
	case notice.PhaseIdle:
		return c.startAskedSweep() || c.placements.Advance() || c.startUpkeep()
	case notice.PhaseDiscover:
		return c.discovered()
	case notice.PhaseAssign:
		return c.assigned()
	case notice.PhaseReadback:
		return c.readBack()
	case notice.PhaseRoute:
		return c.routed()
	case notice.PhaseDiscard, notice.PhaseDrain, notice.PhaseDistribute, notice.PhaseTop:
		return c.install.Continue()
	case notice.PhaseLanes:
		return c.lanesSet()
	case notice.PhaseArm:
		return c.armed()
	case notice.PhaseActivate:
		return c.activated()
	case notice.PhaseLight:
		return c.lightDone()
	case notice.PhaseMove:
		return c.moved()
	case notice.PhaseUpkeep:
		return c.upkeepDone()
	}
	return false
}

// onReceived takes a packet from the port.
func (c *Core) onReceived(p *mad.Packet) {
	if c.stopping || !c.started {
		return
	}
	comp, kind := c.Engine.Receive(c.Now, p)
	switch kind {
	case mad.KindCompletion:
		c.onCompletion(comp)
	case mad.KindUnsolicited:
		if p.Status == mad.Received && len(p.Data) >= ib.MADLen {
			c.onRequest(p, (*ib.MAD)(p.Data[:ib.MADLen]))
		}
	}
}

// onRequest takes what is not an answer: SMInfo of other managers, traps.
func (c *Core) onRequest(p *mad.Packet, m *ib.MAD) {
	if !m.Class().IsSMP() || m.BaseVersion() != 1 || m.ClassVersion() != smp.ClassVersion {
		return
	}
	switch {
	case m.AttrID() == smp.AttrSMInfo && m.Method() == ib.MethodGet:
		c.mastership.Get(p, m)
	case m.AttrID() == smp.AttrSMInfo && m.Method() == ib.MethodSet:
		c.mastership.Set(p, m)
	case m.AttrID() == smp.AttrNotice && m.Method() == ib.MethodTrap:
		c.onTrap(p, m)
	}
}
