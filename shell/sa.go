package shell

import (
	"heddle/mad"
	"heddle/sa"
	"heddle/store"
	"heddle/subnet"
)

// SACore is sa.Core, or what takes its place in a test.
type SACore interface {
	Step(now mad.Time, ev sa.Event, out *sa.Output)
	// Unsaved is how many acknowledged changes are not stored.
	Unsaved() int
}

// SAEdge is where the effects of an sa.Core take place.
type SAEdge interface {
	Clock
	Store
	Timer
	// Published is told of a view that Shared.View already shows.
	Published(v *sa.View)
	// Unsaved is told, before any reply, how many acknowledged changes are not
	// stored.
	Unsaved(n int)
	// Reply sends an answer. The requester asks again for one that is lost.
	Reply(p *mad.Packet)
	// Report sends a Report; the core repeats one that is not answered.
	Report(p *mad.Packet)
	Tell(list []sa.Notice)
}

// SA drives the core of a subnet administrator. Queries do not pass through it:
// sa.Answer needs only what Shared shows.
type SA struct {
	queue[sa.Event]
	core   SACore
	edge   SAEdge
	shared *Shared
	seen   *subnet.Snapshot // by the core
	out    sa.Output
	reply  mad.Packet
}

// NewSA returns a driver that waits for Start.
func NewSA(core SACore, edge SAEdge, shared *Shared) *SA {
	s := &SA{core: core, edge: edge, shared: shared}
	s.handle = s.handleEvent
	return s
}

// Start restores what the store held; wall is the time in Unix nanoseconds.
func (s *SA) Start(records []store.Record, wall int64) {
	s.Step(sa.Start{Records: records, Wall: wall})
}

// Step gives the core an event, or queues it while another one is carried out.
// What rests on a snapshot needs Mail first: a requester that sa.Answer knows must
// be known to the core.
func (s *SA) Step(ev sa.Event) { s.run(ev) }

// Mail shows the core the newest snapshot, and then gives it what else waits.
func (s *SA) Mail() { s.run(nil) }

func (s *SA) handleEvent(ev sa.Event) {
	if ev != nil {
		s.carryOut(ev)
		return
	}
	if snap := s.shared.Snap.Load(); snap != s.seen {
		s.seen = snap
		s.carryOut(sa.Published{Snap: snap})
	}
	for _, t := range s.shared.takeTraps() {
		s.carryOut(t)
	}
}

// carryOut gives the core one event and does what it wants, in the order of
// sa.Output.
func (s *SA) carryOut(ev sa.Event) {
	if s.halted {
		return
	}
	s.out.Reset()
	s.core.Step(s.edge.Now(), ev, &s.out)
	out := &s.out
	if len(out.Persist) > 0 || out.PersistGen != 0 {
		s.add(sa.Persisted{Gen: out.PersistGen, Err: s.edge.Apply(out.Persist)})
		if s.halted {
			return
		}
	}
	if out.Publish != nil {
		s.shared.View.Store(out.Publish)
		s.edge.Published(out.Publish)
	}
	s.edge.Unsaved(s.core.Unsaved())
	for i := range out.Replies {
		r := &out.Replies[i]
		s.reply = mad.Packet{Addr: r.To, LocalQP: 1, Data: r.Data}
		s.edge.Reply(&s.reply)
	}
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
	s.edge.Tell(out.Notices)
	s.edge.Wake(out.Timer)
}
