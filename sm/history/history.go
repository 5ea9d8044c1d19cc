// Package history knows which forwarding tables and cables packets that are under way may have
// met before those that are in force now. Whoever plans a transition must see to it that
// such packets close no cycle with new ones.
package history

import (
	"maps"
	"slices"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/mad"
	"heddle/route"
	"heddle/route/transition"
)

// LongestPath is how many switches a path of a subnet has at most (IBA §14.2.2).
const LongestPath = 64

// History is what packets may remember.
type History struct {
	flight time.Duration
	states []state
	lost   []lostCable
	looked *fabric.Graph // was compared for lost cables last
}

// state are tables that switches may have acted on before those that are installed now.
type state struct {
	graph  *fabric.Graph
	tables *route.Tables
	plan   *transition.Plan // of the transition that left them or made them
	until  mad.Time         // when they were in force last; Never while they may be
	hops   int              // switches on the longest path of a packet that met them
	// moved are the LIDs that were moved from the state before to this one, each once;
	// nil: it is not one that moves led to.
	moved map[ib.LID]bool
}

type lostCable struct {
	transition.LeftCable
	at mad.Time
}

// New returns an empty history. flight is how long a packet can be under way in any subnet, 0 if
// that has no limit: then nobody can say what is still there, and nothing is remembered.
func New(flight time.Duration) *History { return &History{flight: flight} }

// SetFlight changes how long a packet can be under way. Packets that had more time may be, and
// switches hold the old lifetimes until they are written, so a shorter one does not count.
func (h *History) SetFlight(d time.Duration) {
	if d == 0 || d > h.flight {
		h.flight = d
	}
}

// Flight is how long a packet can be under way; 0: without limit.
func (h *History) Flight() time.Duration { return h.flight }

// Forget says that no packet can be under way.
func (h *History) Forget() { h.states = nil }

// Begin is called before a transition writes anything: it leads over steps, from what is
// installed to what is wanted. No packet of theirs meets more switches than hops on its way.
func (h *History) Begin(g *fabric.Graph, p *transition.Plan, hops int, steps ...*route.Tables) {
	hops = h.longer(hops)
	for _, t := range steps {
		h.states = append(h.states, state{graph: g, tables: t, plan: p, until: mad.Never, hops: hops})
	}
}

// longer is hops, or those of the state before if packets of it may be longer.
func (h *History) longer(hops int) int {
	if n := len(h.states); n > 0 {
		hops = max(hops, h.states[n-1].hops)
	}
	return hops
}

// Acknowledged is called when all that a stage of a plan wrote is acknowledged.
func (h *History) Acknowledged(now mad.Time, p *transition.Plan) {
	for i := range h.states {
		if s := &h.states[i]; s.until == mad.Never || s.plan == p {
			s.until = now
		}
	}
}

// BeginMove is Begin for moves of LIDs, which is carried on from at most so many states. Moves
// that follow one another are remembered as one, from the state before the first to that
// after the last, as long as no LID moves twice: what packets met of a LID is then its entry in
// one of these. It takes lids over.
func (h *History) BeginMove(now mad.Time, g *fabric.Graph, was, is *route.Tables, lids map[ib.LID]bool, hops, most int) {
	h.drop(now, most)
	hops = h.longer(hops)
	n := len(h.states)
	if n >= 2 && h.states[n-1].moved != nil && h.states[n-1].tables == was {
		first, last := &h.states[n-2], &h.states[n-1]
		twice := false
		for l := range lids {
			twice = twice || last.moved[l]
		}
		if !twice {
			maps.Copy(last.moved, lids)
			first.until, first.hops = mad.Never, hops
			last.graph, last.tables, last.until, last.hops = g, is, mad.Never, hops
			return
		}
	}
	h.states = append(h.states,
		state{graph: g, tables: was, until: mad.Never, hops: hops},
		state{graph: g, tables: is, until: mad.Never, hops: hops, moved: lids})
}

// EndMove is called when all entries of a move are acknowledged.
func (h *History) EndMove(now mad.Time, was, is *route.Tables) {
	for i := range h.states {
		if s := &h.states[i]; s.until == mad.Never || s.tables == was || s.tables == is {
			s.until = now
		}
	}
}

// Flattened tells that flat, with rows, is in use instead of tables with the same entries.
func (h *History) Flattened(was, flat *route.Tables) {
	for i := range h.states {
		if s := &h.states[i]; s.tables == was {
			s.tables = flat
		}
	}
}

// Reached is called before Abandon where all that the stages of a plan wrote so far is acknowledged: packets have not
// met what it was to lead to, but only what is installed.
func (h *History) Reached(p *transition.Plan, to, installed *route.Tables) {
	for i := range h.states {
		if s := &h.states[i]; s.plan == p && s.tables == to {
			s.tables = installed
		}
	}
}

// Abandon notes that no more entries are written of the states that a transition was about to
// reach.
func (h *History) Abandon(now mad.Time) {
	for i := range h.states {
		if s := &h.states[i]; s.until == mad.Never {
			s.until = now
		}
	}
}

// remembers reports whether a packet that met a state may be under way.
func (h *History) remembers(now mad.Time, s *state) bool {
	return h.flight > 0 && (s.until == mad.Never || now.Sub(s.until) < h.stay(s))
}

// stay is how long a packet that met a state may stay.
func (h *History) stay(s *state) time.Duration {
	return time.Duration(s.hops) * h.flight / LongestPath
}

// drop forgets states that no packet remembers any more, and, when there are more than most,
// the oldest of the others.
func (h *History) drop(now mad.Time, most int) {
	h.states = slices.DeleteFunc(h.states, func(s state) bool { return !h.remembers(now, &s) })
	if n := len(h.states) - most; n > 0 {
		h.states = slices.Delete(h.states, 0, n)
	}
}

// Recent are the states that packets may remember, oldest first, in the order of g's switches.
func (h *History) Recent(now mad.Time, g *fabric.Graph) (list []transition.Recent) {
	h.drop(now, len(h.states))
	type held struct {
		of    *fabric.Graph
		trees *route.Multicast
	}
	trees := map[held]*route.Multicast{} // as the switches of g hold them
	for _, s := range h.states {
		t := s.tables.Flat()
		if s.graph != g {
			was := held{s.graph, t.Multicast}
			if t = t.Follow(s.graph, g); trees[was] == nil {
				trees[was] = was.trees.Follow(s.graph, g)
			}
			t.Multicast = trees[was]
		}
		r := transition.Recent{Tables: t, Plan: s.plan}
		if s.until != mad.Never {
			r.Ago = now.Sub(s.until)
		}
		list = append(list, r)
	}
	return list
}

// Any reports whether a packet may remember a state.
func (h *History) Any(now mad.Time) bool {
	return slices.ContainsFunc(h.states, func(s state) bool { return h.remembers(now, &s) })
}

// Left is how long it takes until no packet remembers a state that was left; 0 if none does.
func (h *History) Left(now mad.Time) (d time.Duration) {
	for i := range h.states {
		if s := &h.states[i]; h.flight > 0 && s.until != mad.Never {
			d = max(d, s.until.Add(h.stay(s)).Sub(now))
		}
	}
	return d
}

// Lost are the cables between switches that packets under way may have come over although they
// are no channels any more. was is the graph of the tables in force, nil if there are none; what g
// lacks of it is lost now.
func (h *History) Lost(now mad.Time, was, g *fabric.Graph) (list []transition.LeftCable) {
	h.lost = slices.DeleteFunc(h.lost, func(l lostCable) bool { return h.flight == 0 || now.Sub(l.at) >= h.flight })
	if was != nil && was != g && was != h.looked && h.flight > 0 {
		h.looked = was
		there := make(map[transition.LeftCable]bool, len(g.Channels))
		for i := range g.Channels {
			there[cable(g, &g.Channels[i])] = true
		}
		for i := range was.Channels {
			if c := &was.Channels[i]; int32(i) < c.Rev {
				if k := cable(was, c); !there[k] {
					h.lost = append(h.lost, lostCable{k, now})
				}
			}
		}
	}
	for _, l := range h.lost {
		list = append(list, l.LeftCable)
	}
	return list
}

// cable names the cable of a channel, seen from the sending end.
func cable(g *fabric.Graph, c *fabric.Channel) transition.LeftCable {
	return transition.LeftCable{Switch: g.Switches[c.From].GUID, Port: c.OutPort, Peer: g.Switches[c.To].GUID, PeerPort: c.InPort}
}
