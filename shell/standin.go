package shell

import (
	"slices"
	"sync/atomic"
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sm"
)

// StandInTime is how long a manager's loop may be at work while its SMInfo is answered for it. A loop
// that takes longer is taken for dead by who polls it, as one that hangs is.
const StandInTime = 3 * time.Second

// maxAskers bounds who is remembered: managers are few.
const maxAskers = 16

// StandIn answers requests for SMInfo without the manager's loop, from what it last published. Otherwise a loop that is at work for a second, as with a large configuration, makes a
// standby believe that the manager is dead.
//
// The first request of each asker goes to the loop, in the order of its packets. As long as the loop
// has not come to it, further ones of the same asker are answered from what is published, for at most
// StandInTime since the oldest request that waits, whoever asked. So nothing but a loop that takes its
// packets keeps a manager alive for longer than that: whether the loop waits, runs in a circle or is
// stuck makes no difference, and nothing that it says of itself counts.
//
// The loop calls Publish and Silence, the goroutine that receives calls Answer; Answered is for any.
type StandIn struct {
	waiting []request // that the loop has not come to, oldest first, one of each asker
	// self is what the loop published last; nil: the manager does not answer. Its ActCount is acts,
	// which counts no answer of StandIn: it shows how far the loop has come.
	self     atomic.Pointer[sm.Self]
	acts     atomic.Uint32
	answered atomic.Uint64
}

// request is a request for SMInfo among the loop's packets.
type request struct {
	from   asker
	at     mad.Time
	number uint64
}

// asker is where a request came from: a LID, or the directed route of an SMP.
type asker struct {
	lid  ib.LID
	hops uint8
	path [smp.MaxHops + 1]byte
}

// AsksSMInfo reports whether a received packet is a Get(SMInfo).
func AsksSMInfo(p *mad.Packet) bool {
	if p.Status != mad.Received || len(p.Data) < ib.MADLen || p.Data[3] != byte(ib.MethodGet) {
		return false
	}
	m := (*ib.MAD)(p.Data[:ib.MADLen])
	return m.AttrID() == smp.AttrSMInfo && m.Class().IsSMP() && m.BaseVersion() == 1 && m.ClassVersion() == smp.ClassVersion
}

// Publish takes what the manager tells of itself after a step.
func (s *StandIn) Publish(core *sm.Core) {
	x, ok := core.Self()
	if !ok {
		s.Silence()
		return
	}
	s.acts.Store(x.Info.ActCount)
	x.Info.ActCount = 0
	if old := s.self.Load(); old == nil || *old != x {
		now := x // only what is published is on the heap
		s.self.Store(&now)
	}
}

// Silence ends the answers: the manager does not run any more.
func (s *StandIn) Silence() { s.self.Store(nil) }

// Answered is how many requests were answered.
func (s *StandIn) Answered() uint64 { return s.answered.Load() }

// Answer returns the answer to a Get(SMInfo) that the loop is not to answer. Otherwise p goes to the loop, as its packet with a number that counts up from 1. done is the number of the last
// packet that the loop is done with.
func (s *StandIn) Answer(now mad.Time, p *mad.Packet, number, done uint64) (r ib.MAD, ok bool) {
	if !s.takes(now, p, number, done) {
		return r, false
	}
	self := s.self.Load()
	if self == nil {
		return r, false
	}
	x := *self
	x.Info.ActCount = s.acts.Load()
	if r, ok = x.Answer((*ib.MAD)(p.Data[:ib.MADLen])); ok {
		s.answered.Add(1)
	}
	return r, ok
}

// takes reports whether a Get(SMInfo) is to be answered from what is published.
func (s *StandIn) takes(now mad.Time, p *mad.Packet, number, done uint64) bool {
	s.waiting = slices.DeleteFunc(s.waiting, func(w request) bool { return w.number <= done })
	m := (*ib.MAD)(p.Data[:ib.MADLen])
	from := asker{lid: p.Addr.LID}
	if m.Class() == ib.ClassSubnDR {
		from.hops = smp.HopCount(m)
		copy(from.path[:], smp.ReturnPath(m))
	}
	if slices.ContainsFunc(s.waiting, func(w request) bool { return w.from == from }) {
		return now.Sub(s.waiting[0].at) <= StandInTime
	}
	if len(s.waiting) < maxAskers {
		s.waiting = append(s.waiting, request{from, now, number})
	}
	return false
}
