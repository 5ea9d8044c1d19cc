package shell

import (
	"heddle/mad"
	"heddle/sa"
	"heddle/store"
	"heddle/subnet"
)

// SACore is sa.Core, or a test's substitute.
type SACore interface {
	Step(now mad.Time, ev sa.Event, out *sa.Output)
	// Unsaved is how many acknowledged changes are not stored.
	Unsaved() int
}

// SAEdge carries out the effects of an sa.Core.
type SAEdge interface {
	Clock
	Timer
	// Save stores ops and passes sa.Persisted with gen to SA.Step when they are durable, or with
	// the reason why none is: before it returns or later. Meanwhile the core takes other events, and
	// requests nothing else to be stored.
	Save(gen uint64, ops []store.Op)
	// Published is called with a view after Shared.View has it.
	Published(v *sa.View)
	// Unsaved is called before any reply with the number of acknowledged changes that are not
	// stored.
	Unsaved(n int)
	// Promised is called before any reply with records that the core promises (sa.Output).
	Promised(list []store.Record)
	// Replies sends answers, if there are any. If one is lost, the requester repeats the request.
	Replies(list []sa.Reply)
	// Report sends a Report; the core repeats one that is not answered.
	Report(p *mad.Packet)
	Tell(list []sa.Notice)
}

// SA drives the core of a subnet administrator. Queries do not pass through it: sa.Answer needs
// only the state in Shared.
type SA struct {
	queue[sa.Event]
	core   SACore
	edge   SAEdge
	shared *Shared
	seen   *subnet.Snapshot // the snapshot that the core has
	out    sa.Output
}

// NewSA returns a driver that waits for Start.
func NewSA(core SACore, edge SAEdge, shared *Shared) *SA {
	s := &SA{core: core, edge: edge, shared: shared}
	s.handle = s.handleEvent
	return s
}

// Start restores the stored state; wall is the time in Unix nanoseconds.
func (s *SA) Start(records []store.Record, wall int64) {
	s.Step(sa.Start{Records: records, Wall: wall})
}

// Step passes an event to the core, or queues it while another one is carried out. Before
// requests, call Mail: the core must have the snapshot by which sa.Answer accepted their
// senders.
func (s *SA) Step(ev sa.Event) { s.run(ev) }

// Mail passes the newest snapshot to the core, and then the other waiting events.
func (s *SA) Mail() { s.run(nil) }

func (s *SA) handleEvent(ev sa.Event) {
	if ev != nil {
		s.carryOut(ev)
		return
	}
	if v, ok := s.shared.rules.take(); ok {
		s.carryOut(v)
	}
	slow, ok := s.shared.slow.take() // first: then the snapshot is not older than theirs
	if snap := s.shared.Snap.Load(); snap != s.seen {
		s.seen = snap
		s.carryOut(sa.Published{Snap: snap})
	}
	if ok {
		s.carryOut(slow)
	}
	for _, t := range s.shared.takeTraps() {
		s.carryOut(t)
	}
}

// carryOut passes one event to the core and carries out its output, in the order of sa.Output.
func (s *SA) carryOut(ev sa.Event) {
	if s.halted {
		return
	}
	s.out.Reset()
	s.core.Step(s.edge.Now(), ev, &s.out)
	out := &s.out
	if len(out.Persist) > 0 || out.PersistGen != 0 {
		s.edge.Save(out.PersistGen, out.Persist)
		if s.halted {
			return
		}
	}
	if out.Publish != nil {
		s.shared.View.Store(out.Publish)
		s.edge.Published(out.Publish)
	}
	s.edge.Unsaved(s.core.Unsaved())
	if len(out.Promised) > 0 {
		s.edge.Promised(out.Promised)
	}
	s.edge.Replies(out.Replies)
	for i := range out.Sends {
		s.edge.Report(&out.Sends[i])
	}
	if out.GroupsChanged {
		s.shared.setGroups(out.Groups)
	}
	if out.AliasesChanged {
		s.shared.setAliases(out.Aliases)
	}
	if len(out.Read) > 0 {
		s.shared.read(out.Read)
	}
	if out.Notified != nil {
		s.shared.hostsNotified(out.Notified)
	}
	s.edge.Tell(out.Notices)
	s.edge.Wake(out.Timer)
}
