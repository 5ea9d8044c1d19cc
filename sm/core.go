package sm

import (
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sm/absent"
	"heddle/sm/agenda"
	"heddle/sm/config"
	"heddle/sm/discover"
	"heddle/sm/env"
	"heddle/sm/group"
	"heddle/sm/guid"
	"heddle/sm/hurry"
	"heddle/sm/install"
	"heddle/sm/lane"
	"heddle/sm/lid"
	"heddle/sm/lidmove"
	"heddle/sm/light"
	"heddle/sm/linkmgr"
	"heddle/sm/mastership"
	"heddle/sm/mkey"
	"heddle/sm/notice"
	"heddle/sm/peek"
	"heddle/sm/pkeymgr"
	"heddle/sm/placement"
	"heddle/sm/routing"
	"heddle/sm/takeover"
	"heddle/sm/tenure"
	"heddle/sm/trap"
	"heddle/sm/vport"
	"heddle/subnet"
)

type ref = subnet.Ref

// Core is one subnet manager. See the package comment for how it is driven.
type Core struct {
	env.Env

	// The parts with packages of their own.
	mastership *mastership.Machine
	install    *install.Installer
	router     *routing.Router
	mover      *lidmove.Mover
	lanes      *lane.Tables
	groups     *group.Groups
	guids      *guid.Tables
	pkeys      *pkeymgr.Manager
	vports     *vport.Manager
	placements *placement.Machine
	lids       *lid.Table
	absent     *absent.Nodes
	discovery  *discover.Discovery
	agenda     *agenda.Agenda
	light      *light.Sweep
	links      *linkmgr.Manager
	traps      *trap.Receiver
	mkeys      *mkey.Keys
	tenure     *tenure.Tenure
	peeks      *peek.Peeks
	hurry      *hurry.Requests
	takeover   *takeover.Machine

	// The conductor's own state (state.go).
	sweep      sweepState
	breaking   breakState
	schedule   schedule
	shown      shownState
	regionLIDs regionLIDs
	keeping    keeping
	unstored   unstoredState

	started  bool
	stopping bool
	out      *Output
	req      mad.Request // scratch
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
		lids:     lid.New(),
		schedule: schedule{retryAt: mad.Never, reactivateAt: mad.Never, fullAt: mad.Never},
		breaking: breakState{at: mad.Never},
		unstored: unstoredState{retryAt: mad.Never},
	}
	c.Sweeper = c
	c.install = install.New(&c.Env, wiring{c}, cfg.Flight())
	c.mkeys = mkey.New(&c.Env)
	c.groups = group.New(&c.Env, wiring{c}, c.install)
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
		c.router.Done(ev.Result)
	case Sweep:
		if ev.Audit {
			c.agenda.WantAudit()
		}
		if ev.Rebalance {
			c.router.Rebalance()
		}
		c.AskFullSweep("asked for by command")
	case Reroute:
		if ev.Rebalance {
			c.router.Rebalance()
		}
		c.router.Reroute("new tables asked for by command")
	case SetGroups:
		c.setGroups(ev.Groups)
	case SetPartitions:
		c.pkeys.Set(ev.Policy, ev.Was, ev.Tag)
	case SetAliases:
		c.guids.Set(ev.Aliases)
	case SetPlacements:
		c.placements.Set(placement.Change{Put: ev.Put, Drop: ev.Drop, All: ev.All})
	case DropKept:
		c.dropKept(ev.Ports)
	case SetMembers:
		c.pkeys.SetMembers(ev.Partitions, ev.Tag)
	case ReadTables:
		c.lanes.Read(ev.Nodes)
	case HostsNotified:
		if ev.Gen >= c.shown.told {
			c.install.HostsLeft(ev.Left)
		}
	case SetSlowPaths:
		ev.Paths = c.router.GrantSlow(ev.Paths, ev.Until)
		c.out.Slow = &ev
	case SetWarm, SetAllies, SetUnsure, Configure, SetPortActions:
		c.instructed(ev)
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

// instructed takes what comes otherwise than from the subnet: settings, and what is known of other
// managers.
func (c *Core) instructed(ev Event) {
	switch ev := ev.(type) {
	case Configure:
		c.reconfigure(ev)
	case SetPortActions:
		c.setPortActions(ev.List)
	case SetWarm:
		c.takeover.Set(ev.Snapshot, nil)
	case SetUnsure:
		c.setUnsure(ev)
	case SetAllies:
		var living []ib.GUID
		for _, a := range ev.List {
			if a.Lives {
				living = append(living, a.GUID)
			}
		}
		c.takeover.Living(living)
		c.mastership.SetAllies(ev.List)
	}
}

func (c *Core) onStart(ev Start) {
	if c.started {
		return
	}
	c.started = true
	c.tenure.Load(ev.Stored)
	if st := ev.Stored; st != nil {
		c.lids.Load(st.LIDs)
		c.mkeys.Load(st)
		c.pkeys.Load(st.Records)
		c.placements.Load(st.Records)
		c.links.LoadActions(st.Records)
	} else {
		c.pkeys.Load(nil)
	}
	if !c.Config.PlanOnly {
		c.out.IsSM = IsSMClaim
	}
	c.pkeys.Start()
	if ev.Warm != nil {
		c.takeover.Set(ev.Warm, ev.Float)
		c.takeover.Arm(0)
	}
	c.mastership.Start()
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
		c.interrupt()
		c.discovery.Resend()
		c.peek()
		for {
			room := c.Engine.Window() - c.Engine.Outstanding()
			for c.Todo.N > 0 && c.Engine.Queued() < max(room, 1) {
				it := c.Todo.Pop()
				if c.absent.Skips(it) {
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
		return c.install.Continue() || c.giveWay()
	case notice.PhaseLanes:
		return c.lanesSet()
	case notice.PhaseArm:
		return c.armed()
	case notice.PhaseActivate:
		return c.activated()
	case notice.PhaseLight:
		return c.lightDone()
	case notice.PhaseMove:
		return c.mover.Continue()
	case notice.PhaseUpkeep:
		return c.upkeepDone()
	case notice.PhaseTakeover:
		return c.takeoverDone()
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

// Self is what the manager answers a Get(SMInfo) with; ok is false if it does not answer, because it has
// not started or is stopping.
func (c *Core) Self() (x Self, ok bool) {
	if c.stopping || !c.started {
		return Self{}, false
	}
	return c.mastership.Self(), true
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
		c.traps.Receive(p, m)
	}
}
