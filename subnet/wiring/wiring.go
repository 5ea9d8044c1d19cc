// Package wiring is what is where in a subnet: its nodes and cables, by GUID, with what is wrong with
// them. It says how two such states differ, and has the bytes of states and differences, which a manager
// stores so that one can look back (docs/format/history.md).
//
// A state remembers what has gone for a while: a cable that failed is of more interest than most that
// work. A Wiring is immutable once made; any number of goroutines may read it. The package does no I/O
// and reads no clock.
package wiring

import (
	"cmp"
	"slices"

	"heddle/ib"
	"heddle/subnet"
)

// State is what is wrong with a node or a cable.
type State uint8

// States. A cable is NotActive if one of its ends is; Held while the manager holds it down because it
// fails again and again. A node is LeftOut if it was found but is not used, and Silent if it does not
// answer.
const (
	OK State = iota
	NotActive
	Held
	LeftOut
	Silent
	Gone
	states
)

// String names the state in words for people.
func (s State) String() string {
	if s < states {
		return [states]string{"ok", "not active", "held down", "left out", "does not answer", "gone"}[s]
	}
	return "?"
}

// Node is a switch, an adapter or a router.
type Node struct {
	GUID  ib.GUID
	Name  string // description, or the operator's name
	Type  ib.NodeType
	Ports uint8
	State State
	Since int64 // seconds since 1970 when it was found to be gone; 0: it is there
}

// End is a port of a node.
type End struct {
	GUID ib.GUID // of the node
	Port uint8
}

func (e End) compare(f End) int {
	return cmp.Or(cmp.Compare(e.GUID, f.GUID), cmp.Compare(e.Port, f.Port))
}

// Cable joins two ports; A is before B in order of GUID and port.
type Cable struct {
	A, B  End
	State State
	Since int64 // as in Node
}

// NewCable is the cable between two ports.
func NewCable(a, b End, s State) Cable {
	if a.compare(b) > 0 {
		a, b = b, a
	}
	return Cable{A: a, B: b, State: s}
}

func (c *Cable) compare(d *Cable) int { return cmp.Or(c.A.compare(d.A), c.B.compare(d.B)) }

// Wiring is one state. Nodes are in order of their GUID, which is unique, and cables in order of A and B.
// The cables of one port are one that is there, or any that are Gone.
type Wiring struct {
	Nodes  []Node
	Cables []Cable
}

// Find is the index of the node with a GUID, or -1.
func (w *Wiring) Find(g ib.GUID) int {
	i, ok := slices.BinarySearchFunc(w.Nodes, g, func(n Node, g ib.GUID) int { return cmp.Compare(n.GUID, g) })
	if !ok {
		return -1
	}
	return i
}

// Of is the wiring of a published state; s may be nil.
func Of(s *subnet.Snapshot) *Wiring {
	w := &Wiring{}
	if s == nil {
		return w
	}
	w.Nodes = make([]Node, len(s.Nodes))
	for i := range s.Nodes {
		n := &s.Nodes[i]
		x := Node{GUID: n.Info.NodeGUID, Name: n.Desc, Type: n.Info.NodeType, Ports: n.Info.NumPorts}
		switch {
		case n.Unseen:
			x.State = Silent
		case !n.OK:
			x.State = LeftOut
		}
		w.Nodes[i] = x
		for _, p := range s.NodePorts(int32(i)) {
			q := s.Port(p.Peer)
			if q == nil || p.Peer.Node < p.Node || p.Peer.Node == p.Node && p.Peer.Port <= p.Num {
				continue // each cable once; a port cabled to itself is none
			}
			w.Cables = append(w.Cables, Cable{
				A: End{x.GUID, p.Num}, B: End{s.Nodes[q.Node].Info.NodeGUID, q.Num}, State: stateOf(p, q),
			})
		}
	}
	return w
}

func stateOf(p, q *subnet.Port) State {
	switch {
	case p.Held || q.Held:
		return Held
	case p.State() != ib.StateActive || q.State() != ib.StateActive:
		return NotActive
	}
	return OK
}

// Bounds of what is remembered of things that have gone.
const (
	// KeepGone is how long, in seconds: 7 days.
	KeepGone = 7 * 24 * 3600
	// MaxGone is how many nodes, and how many cables; the first to go are forgotten first.
	MaxGone = 4096
)

// Carry is now with what was in old and is not there any more, marked as Gone since the time at, in
// seconds since 1970, unless it was so before. Forgotten is what went KeepGone before at, and a cable one
// of whose ports has another cable now.
func Carry(old, now *Wiring, at int64) *Wiring {
	out := &Wiring{}
	var lost []Node
	walk(old.Nodes, now.Nodes, func(a, b *Node) int { return cmp.Compare(a.GUID, b.GUID) }, func(a, b *Node) {
		if b == nil {
			if n := *a; gone(&n.State, &n.Since, at) {
				lost = append(lost, n)
			}
		}
	})
	out.Nodes = merged(now.Nodes, newest(lost, func(n *Node) int64 { return n.Since }), func(a, b Node) int { return cmp.Compare(a.GUID, b.GUID) })

	used := make(map[End]bool, 2*len(now.Cables))
	for i := range now.Cables {
		used[now.Cables[i].A], used[now.Cables[i].B] = true, true
	}
	var cut []Cable
	walk(old.Cables, now.Cables, (*Cable).compare, func(a, b *Cable) {
		if b == nil && !used[a.A] && !used[a.B] {
			if c := *a; gone(&c.State, &c.Since, at) {
				cut = append(cut, c)
			}
		}
	})
	// A cable needs its nodes.
	cut = slices.DeleteFunc(cut, func(c Cable) bool { return out.Find(c.A.GUID) < 0 || out.Find(c.B.GUID) < 0 })
	out.Cables = merged(now.Cables, newest(cut, func(c *Cable) int64 { return c.Since }), func(a, b Cable) int { return a.compare(&b) })
	return out
}

// gone marks a thing as gone, and reports whether it is to be remembered.
func gone(s *State, since *int64, at int64) bool {
	if *s != Gone {
		*s, *since = Gone, at
	}
	return *since > at-KeepGone
}

// Lost counts what has gone.
type Lost struct{ Switches, Hosts, Routers, Cables int }

// Lost counts what has gone within KeepGone and is not back.
func (w *Wiring) Lost() (n Lost) {
	for i := range w.Nodes {
		switch x := &w.Nodes[i]; {
		case x.State != Gone:
		case x.Type == ib.NodeSwitch:
			n.Switches++
		case x.Type == ib.NodeRouter:
			n.Routers++
		default:
			n.Hosts++
		}
	}
	for i := range w.Cables {
		if w.Cables[i].State == Gone {
			n.Cables++
		}
	}
	return n
}

// newest are the MaxGone things that went last, in their order.
func newest[T any](list []T, since func(*T) int64) []T {
	if len(list) <= MaxGone {
		return list
	}
	times := make([]int64, len(list))
	for i := range list {
		times[i] = since(&list[i])
	}
	slices.Sort(times)
	least, out := times[len(times)-MaxGone], list[:0]
	for i := range list {
		if since(&list[i]) >= least && len(out) < MaxGone {
			out = append(out, list[i])
		}
	}
	return out
}

// merged are two ascending lists as one.
func merged[T any](a, b []T, compare func(a, b T) int) []T {
	if len(b) == 0 {
		return a
	}
	out := append(slices.Clone(a), b...)
	slices.SortStableFunc(out, compare)
	return out
}

// walk calls f for each element of two ascending lists, with nil for one that is missing.
func walk[T any](a, b []T, compare func(a, b *T) int, f func(a, b *T)) {
	for i, j := 0, 0; i < len(a) || j < len(b); {
		c := 0
		switch {
		case i == len(a):
			c = 1
		case j == len(b):
			c = -1
		default:
			c = compare(&a[i], &b[j])
		}
		switch {
		case c < 0:
			f(&a[i], nil)
			i++
		case c > 0:
			f(nil, &b[j])
			j++
		default:
			f(&a[i], &b[j])
			i++
			j++
		}
	}
}

// Change is the difference of two states: what is new or other in the second, and what it lacks.
type Change struct {
	Nodes    []Node
	Cables   []Cable
	NoNodes  []Node // as they were
	NoCables []Cable
}

// Empty reports whether the states are equal.
func (c *Change) Empty() bool {
	return len(c.Nodes)+len(c.Cables)+len(c.NoNodes)+len(c.NoCables) == 0
}

// Diff is the change from one state to another.
func Diff(old, now *Wiring) *Change {
	c := &Change{}
	walk(old.Nodes, now.Nodes, func(a, b *Node) int { return cmp.Compare(a.GUID, b.GUID) }, func(a, b *Node) {
		switch {
		case b == nil:
			c.NoNodes = append(c.NoNodes, *a)
		case a == nil || *a != *b:
			c.Nodes = append(c.Nodes, *b)
		}
	})
	walk(old.Cables, now.Cables, (*Cable).compare, func(a, b *Cable) {
		switch {
		case b == nil:
			c.NoCables = append(c.NoCables, *a)
		case a == nil || *a != *b:
			c.Cables = append(c.Cables, *b)
		}
	})
	return c
}

// Apply is old with a change that Diff found. What the change takes away and old does not have is no
// error.
func Apply(old *Wiring, c *Change) *Wiring {
	w := &Wiring{Nodes: make([]Node, 0, len(old.Nodes)+len(c.Nodes)), Cables: make([]Cable, 0, len(old.Cables)+len(c.Cables))}
	w.Nodes = apply(w.Nodes, old.Nodes, c.Nodes, c.NoNodes, func(a, b *Node) int { return cmp.Compare(a.GUID, b.GUID) })
	w.Cables = apply(w.Cables, old.Cables, c.Cables, c.NoCables, (*Cable).compare)
	return w
}

func apply[T any](out, old, set, drop []T, compare func(a, b *T) int) []T {
	walk(old, set, compare, func(a, b *T) {
		if b != nil {
			out = append(out, *b)
			return
		}
		for len(drop) > 0 && compare(&drop[0], a) < 0 {
			drop = drop[1:]
		}
		if len(drop) == 0 || compare(&drop[0], a) != 0 {
			out = append(out, *a)
		}
	})
	return out
}

// Sort puts the nodes and cables of a wiring that is being made in order.
func Sort(w *Wiring) {
	slices.SortFunc(w.Nodes, func(a, b Node) int { return cmp.Compare(a.GUID, b.GUID) })
	slices.SortFunc(w.Cables, func(a, b Cable) int { return a.compare(&b) })
}

// Compose is the change that changes make which follow each other.
func Compose(list []*Change) *Change {
	type node struct {
		Node
		gone bool
	}
	type cable struct {
		Cable
		gone bool
	}
	nodes, cables := map[ib.GUID]node{}, map[[2]End]cable{}
	for _, c := range list {
		for _, n := range c.NoNodes {
			nodes[n.GUID] = node{n, true}
		}
		for _, n := range c.Nodes {
			nodes[n.GUID] = node{n, false}
		}
		for _, k := range c.NoCables {
			cables[[2]End{k.A, k.B}] = cable{k, true}
		}
		for _, k := range c.Cables {
			cables[[2]End{k.A, k.B}] = cable{k, false}
		}
	}
	var there, gone Wiring
	for _, n := range nodes {
		if n.gone {
			gone.Nodes = append(gone.Nodes, n.Node)
		} else {
			there.Nodes = append(there.Nodes, n.Node)
		}
	}
	for _, k := range cables {
		if k.gone {
			gone.Cables = append(gone.Cables, k.Cable)
		} else {
			there.Cables = append(there.Cables, k.Cable)
		}
	}
	Sort(&there)
	Sort(&gone)
	return &Change{Nodes: there.Nodes, Cables: there.Cables, NoNodes: gone.Nodes, NoCables: gone.Cables}
}
