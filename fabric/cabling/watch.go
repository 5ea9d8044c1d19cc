package cabling

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"heddle/fabric"
)

// Bounds of what a Watch keeps.
const (
	MaxOpen   = 1000 // findings that are open; Status.Missed counts the others
	MaxClosed = 256  // findings that closed last
)

// Entry is a finding while it is open, or after it closed.
type Entry struct {
	ID      uint64
	Finding Finding
	Opened  time.Time
	Closed  time.Time // zero: it is open
}

// Status is what a Watch knows after a comparison. It is immutable.
type Status struct {
	Name           string // of the plan
	At             time.Time
	Planned, Found int // cables, as Result has them
	Right, Off     int
	Open           []Entry       // by ID
	Closed         []Entry       // oldest first
	Count          [NumKinds]int // findings of the last comparison, with those that Open has no room for
	Opened, Ended  [NumKinds]uint64
	Missed         int
}

// Watch compares a subnet with a plan again and again. A finding opens when a comparison has it
// first, and closes when one has it no more: it is the same one as long as it has the same kind and is
// about the same ports. A Watch belongs to one goroutine.
type Watch struct {
	number func() uint64
	open   map[string]*Entry
	last   Status
}

// NewWatch returns a Watch. number gives the numbers of findings, each greater than the one before.
func NewWatch(number func() uint64) *Watch {
	return &Watch{number: number, open: map[string]*Entry{}}
}

// identity is what makes a finding the same one as before. Descriptions may change while it is open,
// and so may the cables of a node that is missing or not planned.
func (x *Finding) identity() string {
	var s strings.Builder
	end := func(e End) {
		if e.GUID != 0 {
			e.Name = ""
		}
		fmt.Fprintf(&s, "/%x %q %d", uint64(e.GUID), e.Name, e.Port)
	}
	fmt.Fprint(&s, x.Kind)
	end(x.Node)
	if x.Kind != MissingNode && x.Kind != ExtraNode {
		for _, list := range [2][]Pair{x.Planned, x.Found} {
			s.WriteString("|")
			for _, p := range list {
				end(p.A)
				end(p.B)
			}
		}
	}
	return s.String()
}

// Step compares a fabric with a plan, which has a name. nil: there is no plan any more, and what is open
// closes.
func (w *Watch) Step(now time.Time, name string, p *Plan, f *fabric.Fabric, o Options) (st *Status, opened, closed []Entry) {
	res := &Result{}
	if p != nil {
		res = Check(p, f, o)
	}
	n := &w.last
	n.Name, n.At, n.Planned, n.Found, n.Right, n.Off = name, now, res.Planned, res.Found, res.Right, res.Off
	n.Count, n.Missed = [NumKinds]int{}, 0
	seen := make(map[string]bool, len(res.Findings))
	for i := range res.Findings {
		seen[res.Findings[i].identity()] = true
	}
	for id, e := range w.open {
		if !seen[id] {
			delete(w.open, id)
			e.Closed = now
			closed = append(closed, *e)
			n.Ended[e.Finding.Kind]++
		}
	}
	slices.SortFunc(closed, func(a, b Entry) int { return int(int64(a.ID) - int64(b.ID)) })
	for i := range res.Findings {
		x := &res.Findings[i]
		n.Count[x.Kind]++
		id := x.identity()
		switch e := w.open[id]; {
		case e != nil:
			e.Finding = *x
		case len(w.open) >= MaxOpen:
			n.Missed++
		default:
			e = &Entry{ID: w.number(), Finding: *x, Opened: now}
			w.open[id] = e
			opened = append(opened, *e)
			n.Opened[x.Kind]++
		}
	}
	n.Open = make([]Entry, 0, len(w.open))
	for _, e := range w.open {
		n.Open = append(n.Open, *e)
	}
	slices.SortFunc(n.Open, func(a, b Entry) int { return int(int64(a.ID) - int64(b.ID)) })
	ended := append(slices.Clone(n.Closed), closed...) // statuses share the list
	n.Closed = ended[max(0, len(ended)-MaxClosed):]
	out := *n
	return &out, opened, closed
}

// Ends are the ports that a finding is about, each once.
func (x *Finding) Ends() (list []End) {
	add := func(e End) {
		if e != (End{}) && !slices.ContainsFunc(list, func(o End) bool { return o.GUID == e.GUID && o.Port == e.Port && (e.GUID != 0 || o.Name == e.Name) }) {
			list = append(list, e)
		}
	}
	add(x.Node)
	if x.Node != (End{}) {
		return list // the node alone: its cables are in the text
	}
	for _, pairs := range [2][]Pair{x.Found, x.Planned} {
		for _, p := range pairs {
			add(p.A)
			add(p.B)
		}
	}
	return list
}
