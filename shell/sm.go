package shell

import (
	"heddle/mad"
	"heddle/partition"
	"heddle/sm"
	"heddle/store"
	"heddle/subnet"
)

// SMCore is sm.Core, or a test's substitute.
type SMCore interface {
	Step(now mad.Time, ev sm.Event, out *sm.Output)
}

// SMPort is the port of a subnet manager.
type SMPort interface {
	// SetIsSM sets or clears CapabilityMask.IsSM. An error ends the manager before it sends
	// again: two managers on one port would receive each other's responses.
	SetIsSM(on bool) error
	// Send sends the SMPs of a step, in order; the core repeats those that are lost. The list may
	// be empty.
	Send(list []mad.Packet)
}

// Pool computes routing jobs. Each result returns as the event sm.JobDone.
type Pool interface{ Compute(j *sm.Job) }

// SMEdge carries out the effects of an sm.Core.
type SMEdge interface {
	Clock
	Store
	SMPort
	Pool
	Timer
	// Publishing is called before other cores can see a snapshot; they do not if it halts the manager.
	Publishing()
	// Published is called with a snapshot after Shared.Snap has it.
	Published(s *subnet.Snapshot)
	// TrapLost is called for a trap for which the SA had no room.
	TrapLost()
	Tell(list []sm.Notice)
	Planned(p *sm.Plan)
	// Stepped is called after each step, when its output has been carried out or the driver
	// halted; once, with no event, for steps whose packets are sent together.
	Stepped(ev sm.Event, out *sm.Output)
}

// SM drives the core of a subnet manager.
type SM struct {
	queue[sm.Event]
	core    SMCore
	edge    SMEdge
	shared  *Shared
	out     sm.Output
	warm    *subnet.Snapshot // before Start
	float   *sm.Float        // the same
	started bool
	gather  bool // see Steps
	held    bool // out has packets of steps before, which are not sent yet
}

// NewSM returns a driver that waits for Start.
func NewSM(core SMCore, edge SMEdge, shared *Shared) *SM {
	s := &SM{core: core, edge: edge, shared: shared}
	s.handle = s.handleEvent
	return s
}

// Start starts the core with the stored state. SA and VM, where they exist, must have been
// started before: their groups, P_Keys and addresses then apply from the first sweep, and no
// host loses one by a restart of the manager. A policy replaces the stored one.
func (s *SM) Start(stored *store.State, policy *partition.Policy) {
	s.started = true
	s.Mail()
	s.Step(sm.Start{Stored: stored, Warm: s.warm, Float: s.float})
	s.warm, s.float = nil, nil
	if policy != nil {
		s.Step(sm.SetPartitions{Policy: policy})
	}
}

// SetWarm passes what the master published last to the core, for the case that this manager takes its
// place; nil: it is not known. Before Start it says that this manager is to take that place now.
func (s *SM) SetWarm(snap *subnet.Snapshot) {
	if !s.started {
		s.warm = snap
		return
	}
	s.Step(sm.SetWarm{Snapshot: snap})
}

// SetFloat says, before Start, how the LIDs of the master whose place this manager is to take come to
// its port; nil: that is not known.
func (s *SM) SetFloat(x *sm.Float) { s.float = x }

// Step passes an event to the core, or queues it while another one is carried out.
func (s *SM) Step(ev sm.Event) { s.run(ev) }

// gatherMost is how many packets of several steps are sent together.
const gatherMost = 256

// Steps passes the events that next returns to the core, until it returns nil. Packets of steps that
// do nothing but send are sent together: when there are gatherMost, at the end, and with the packets of
// the next step that does more. To send a packet alone costs more than all else that the answer to
// an SMP does. An event need not stay valid when next is called again.
func (s *SM) Steps(next func() sm.Event) {
	s.gather = true
	for ev := next(); ev != nil; ev = next() {
		s.run(ev)
	}
	s.gather = false
	if s.held && !s.halted {
		s.effects(nil)
	}
	s.held = false
}

// Mail passes the mail of the other cores to the core.
func (s *SM) Mail() {
	if s.started {
		s.run(nil)
	}
}

func (s *SM) handleEvent(ev sm.Event) {
	if ev != nil {
		s.carryOut(ev)
		return
	}
	if v, ok := s.shared.settings.take(); ok {
		s.carryOut(v)
	}
	if v, ok := s.shared.actions.take(); ok {
		s.carryOut(sm.SetPortActions{List: v})
	}
	if v, ok := s.shared.members.take(); ok {
		s.carryOut(sm.SetMembers{Partitions: v})
	}
	if v, ok := s.shared.placements.take(); ok {
		s.carryOut(sm.SetPlacements{Put: v.put, Drop: v.drop, All: v.all})
	}
	if v, ok := s.shared.groups.take(); ok {
		s.carryOut(sm.SetGroups{Groups: v})
	}
	if v, ok := s.shared.aliases.take(); ok {
		s.carryOut(sm.SetAliases{Aliases: v})
	}
	if v, ok := s.shared.notified.take(); ok {
		s.carryOut(v)
	}
	if v, ok := s.shared.wanted.take(); ok {
		s.carryOut(v)
	}
	if v, ok := s.shared.reads.take(); ok {
		s.carryOut(sm.ReadTables{Nodes: v})
	}
}

// carryOut passes one event to the core and carries out its output, in the order of sm.Output.
func (s *SM) carryOut(ev sm.Event) {
	if s.halted {
		return
	}
	if !s.held {
		s.out.Reset()
	}
	s.core.Step(s.edge.Now(), ev, &s.out)
	if s.held = s.gather && len(s.out.Sends) < gatherMost && s.out.OnlySends(); s.held {
		return
	}
	s.effects(ev)
}

// effects carries out the output.
func (s *SM) effects(ev sm.Event) {
	s.do(&s.out)
	s.edge.Stepped(ev, &s.out)
}

func (s *SM) do(out *sm.Output) {
	if len(out.Persist) > 0 || out.PersistGen != 0 {
		s.add(sm.Persisted{Gen: out.PersistGen, Err: s.edge.Apply(out.Persist)})
	}
	if out.IsSM != sm.IsSMKeep {
		if err := s.edge.SetIsSM(out.IsSM == sm.IsSMClaim); err != nil {
			s.Halt()
		}
	}
	if s.halted {
		return
	}
	if len(out.Sends) > 0 {
		if s.edge.Send(out.Sends); s.halted {
			return
		}
	}
	for _, j := range out.Jobs {
		s.edge.Compute(j)
	}
	if out.Publish != nil {
		if s.edge.Publishing(); s.halted {
			return
		}
		s.shared.Snap.Store(out.Publish)
		s.edge.Published(out.Publish)
		wake(s.shared.WakeSA)
		wake(s.shared.WakeVM)
		wake(s.shared.WakePerf)
		wake(s.shared.WakeCongestion)
	}
	if out.Slow != nil {
		s.shared.grantSlowPaths(out.Slow)
	}
	s.shared.report(out.Placements)
	for i := range out.Traps {
		if !s.shared.trap(&out.Traps[i]) {
			s.edge.TrapLost()
		}
	}
	s.edge.Tell(out.Notices)
	if out.Plan != nil {
		s.edge.Planned(out.Plan)
	}
	if out.Stopped {
		s.Halt()
		return
	}
	s.edge.Wake(out.Timer)
}
