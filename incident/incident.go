// Package incident groups facts by their cause: the loss of a switch, of its links and of the hosts
// behind it is one event, and the repair by the manager has the same cause.
//
// A Core is pure and belongs to one goroutine: the same facts give the same events.
package incident

import (
	"time"

	"heddle/ib"
	"heddle/subnet"
)

// Fact is a single observation, such as the loss of a link.
type Fact struct {
	Kind string
	At   time.Time
	// Node and Port are where; Node 0: nowhere, Port -1: the node as a whole. Peer is the far end.
	Node, Peer         ib.GUID
	Port, PeerPort     int
	NodeDesc, PeerDesc string
	// Subject names an object that opens and closes, such as a finding; empty: none.
	Subject string
	// Snap is the published state at that time; may be nil.
	Snap *subnet.Snapshot
	// Tag is the caller's.
	Tag any
}

// Event is one fact, or several that are one event.
type Event struct {
	Fact   // the first, at the place of the cause
	Merged int
	Text   string // what happened, if facts were merged; empty: the fact says it
	Links  []Link
	Nodes  []Node // besides Fact.Node
	More   int    // links and nodes that are not listed
	Number uint64
	Cause  uint64 // number of the first event with this cause
}

// Link is a link, with the end at the cause first.
type Link struct {
	Node, Peer         ib.GUID
	Port, PeerPort     int
	NodeDesc, PeerDesc string
}

// Node is a node.
type Node struct {
	GUID ib.GUID
	Desc string
}

// Bounds of what is known at a time.
const (
	holdTime   = time.Second      // facts of a sweep are held at most
	maxHeld    = 4096             // facts; with more they are let go
	maxListed  = 1024             // links and nodes of an event each
	quietTime  = time.Minute      // without a fact, after which the next one at the place has another cause
	longTime   = 10 * time.Minute // after which a fact has another cause in any case
	laterTime  = 15 * time.Minute // in which a finding has the cause of what happened at its place
	maxCauses  = 256
	maxPlaces  = 4096 // of a cause
	maxSubject = 4096
)

// Kinds that the core knows, as package sm names them.
const (
	nodeGone    = "node_gone"
	nodeSilent  = "node_silent"
	linkDown    = "link_down"
	nodeNew     = "node_new"
	nodeAnswers = "node_answers"
	linkUp      = "link_up"
	sweepStart  = "sweep_start"
	sweepEnd    = "sweep_end"
)

// down and up are kinds that are held until the sweep knows them all.
var (
	down = map[string]bool{nodeGone: true, nodeSilent: true, linkDown: true}
	up   = map[string]bool{nodeNew: true, nodeAnswers: true, linkUp: true}
)

// ofSweep are kinds about a sweep as a whole. Discovery is over with each of them.
var ofSweep = map[string]bool{
	sweepStart: true, sweepEnd: true, "routed": true, "repair": true, "engine_passed": true, "route_refused": true, "unsafe": true,
	"transient_cycle": true, "subnet_up": true, "levels_unanswered": true, "repath": true,
}

// findings are kinds that come long after what caused them.
var findings = map[string]bool{"finding_opened": true, "finding_closed": true}

// Core groups facts into events.
type Core struct {
	held     []Fact // of the sweep under way, of down and up
	causes   causes
	sweep    *cause            // of the sweep under way, or the last one
	subjects map[string]uint64 // causes of what is open
	order    []string          // of subjects, oldest first
}

// New returns a core without facts.
func New() *Core {
	return &Core{causes: causes{at: map[place][]*cause{}}, subjects: map[string]uint64{}}
}

// Step takes a fact, and returns the events that are complete. The first one has the number next.
func (c *Core) Step(f *Fact, next uint64) (out []Event) {
	if down[f.Kind] || up[f.Kind] {
		if len(c.held) >= maxHeld {
			out = c.Release(next, f.Snap)
		}
		c.held = append(c.held, *f)
		return out
	}
	if ofSweep[f.Kind] {
		// What came up shows in the state that a sweep publishes at its end; if it ends later, holdTime counts.
		if f.Kind == sweepEnd || f.Kind == sweepStart {
			out = c.Release(next, f.Snap)
		} else {
			out = c.release(next, down, f.Snap)
		}
	}
	e := Event{Fact: *f, Merged: 1}
	c.number(&e, next+uint64(len(out)))
	return append(out, e)
}

// Due is the time at which Release is to be called for held facts; zero: none are held.
func (c *Core) Due() time.Time {
	if len(c.held) == 0 {
		return time.Time{}
	}
	return c.held[0].At.Add(holdTime)
}

// Release returns the events of held facts. now is the current published state; may be nil.
func (c *Core) Release(next uint64, now *subnet.Snapshot) []Event {
	out := c.release(next, down, now)
	return append(out, c.release(next+uint64(len(out)), up, now)...)
}

// release merges and numbers the held facts of some kinds.
func (c *Core) release(next uint64, kinds map[string]bool, now *subnet.Snapshot) []Event {
	var mine, rest []Fact
	for i := range c.held {
		if kinds[c.held[i].Kind] {
			mine = append(mine, c.held[i])
		} else {
			rest = append(rest, c.held[i])
		}
	}
	if len(mine) == 0 {
		return nil
	}
	c.held = rest
	snap := mine[0].Snap // what was there before
	if kinds[linkUp] && now != nil {
		snap = now
	}
	out := merge(mine, snap)
	for i := range out {
		c.number(&out[i], next+uint64(i))
	}
	return out
}

// number gives an event its number and its cause.
func (c *Core) number(e *Event, n uint64) {
	e.Number = n
	switch {
	case e.Kind == sweepStart:
		c.sweep = c.causes.begin(n, e.At)
		c.sweep.sweep = true
		e.Cause = n
		return
	case ofSweep[e.Kind] && c.sweep != nil:
		e.Cause = c.sweep.number
		c.sweep.last = e.At
		return
	case findings[e.Kind] && c.subjects[e.Subject] != 0:
		e.Cause = c.subjects[e.Subject]
		return
	}
	at := e.places()
	k := c.causes.find(e, at)
	ofLinks := down[e.Kind] || up[e.Kind]
	if k == nil && ofLinks && c.sweep != nil && c.sweep.sweep && e.At.Sub(c.sweep.last) < quietTime {
		k = c.sweep // it is why the manager sweeps
	}
	if k == nil && len(at) == 0 && !ofLinks {
		e.Cause = n // nothing can have the same one
		c.remember(e.Subject, n)
		return
	}
	if k == nil {
		k = c.causes.begin(n, e.At)
	}
	if ofLinks {
		if c.sweep != nil && c.sweep.sweep {
			c.sweep = k
		}
		k.sweep = false
	}
	k.last = e.At
	for _, p := range at {
		c.causes.put(k, p)
	}
	e.Cause = k.number
	c.remember(e.Subject, k.number)
}

// remember notes the cause of a subject, if there is one.
func (c *Core) remember(subject string, n uint64) {
	if subject == "" {
		return
	}
	if _, ok := c.subjects[subject]; !ok {
		c.order = append(c.order, subject)
		if len(c.order) > maxSubject {
			delete(c.subjects, c.order[0])
			c.order = c.order[1:]
		}
	}
	c.subjects[subject] = n
}
