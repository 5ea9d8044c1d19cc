package placement

import (
	"heddle/ib"
	"heddle/route/move"
	"heddle/subnet"
)

// route has the LIDs of the batch routed to their targets. It reports whether that takes a phase.
func (m *Machine) route() bool {
	for _, l := range m.batch {
		if t := l.target(); t != l.aim {
			continue // it was set again during the batch
		} else if t != (subnet.Place{}) && !l.sinks {
			l.port = t.Port
		} else if l.unwanted() || l.sinks {
			l.port = 0
		}
	}
	if m.fn.fresh {
		m.fn.fresh = false
		m.router.RouteAnew("virtual functions were given LIDs")
		return false
	}
	for _, l := range m.batch {
		l.atRisk = false
	}
	list, placements := m.collectMoves(m.fn.changed)
	if len(list) == 0 {
		return false
	}
	m.router.Move(list, placements)
	return true
}

// displaced is a LID that does not lead to where it should.
type displaced struct {
	lid ib.LID
	to  ib.GUID // 0: nowhere
	by  *placement
}

// collectMoves finds the requests that bring the LIDs of the batch, and of functions that were
// given others, to their ports; placements has the GUID of the placement of each, 0 for an unused
// function.
func (m *Machine) collectMoves(changed []subnet.Place) (requests []move.Request, placements []ib.GUID) {
	var list []displaced
	at := map[ib.LID]ib.GUID{} // where those of list are while requests are carried out
	want := func(lid ib.LID, to ib.GUID, by *placement) {
		if _, twice := at[lid]; twice || lid == 0 {
			return
		}
		if o := m.router.Owner(lid); o != to {
			at[lid] = o
			list = append(list, displaced{lid, to, by})
		}
	}
	for _, l := range m.batch {
		if own := m.lidOf(l); !m.placeLID(own) && (l.port != 0 || l.unwanted() || l.sinks) {
			want(own, l.port, l)
		}
	}
	for _, p := range changed {
		own := m.lids.OfFunction(p)
		want(own, p.Port, m.withLID(own))
	}
	here := map[ib.GUID][]int{} // displaced LIDs of functions, by where they are
	for i := range list {
		if d := &list[i]; m.placeLID(d.lid) {
			here[at[d.lid]] = append(here[at[d.lid]], i)
		}
	}
	for i := range list {
		d := &list[i]
		for at[d.lid] != d.to {
			q := move.Request{LID: d.lid, Mode: m.moveMode(d, at[d.lid])}
			k := -1
			if m.placeLID(d.lid) && at[d.lid] != 0 {
				k = partner(list, at, here[d.to], d)
			}
			switch {
			case d.to == 0:
				q.Kind = move.Release
				at[d.lid] = 0
			case k >= 0:
				o := &list[k]
				q.Kind, q.With, q.Idle = move.Swap, o.lid, d.by != nil && o.by == nil
				at[d.lid], at[o.lid] = d.to, at[d.lid]
				here[at[o.lid]] = append(here[at[o.lid]], k)
			default:
				q.Kind, q.With = move.Copy, m.baseLID(d.to)
				at[d.lid] = d.to
			}
			requests = append(requests, q)
			if d.by != nil {
				placements = append(placements, d.by.GUID)
			} else {
				placements = append(placements, 0)
			}
		}
	}
	return requests, placements
}

// moveMode is how the entries of d change when it moves from a port, 0 if it led nowhere.
func (m *Machine) moveMode(d *displaced, from ib.GUID) move.Mode {
	mode := subnet.MoveAuto
	if d.by != nil {
		mode = d.by.Mode
	}
	switch mode {
	case subnet.MoveBalanced:
		return move.Balanced
	case subnet.MoveMinimal:
		return move.Minimal
	}
	a, b := m.EndPortIndex(from), m.EndPortIndex(d.to)
	if a >= 0 && b >= 0 && m.Fabric.Graph.EndPorts[a].Switch == m.Fabric.Graph.EndPorts[b].Switch {
		return move.Minimal
	}
	return move.Balanced
}

// partner is a LID of list to exchange entries with d: it is where d should be, and should be
// where d is, or at least elsewhere. It returns -1 if there is none.
func partner(list []displaced, at map[ib.LID]ib.GUID, there []int, d *displaced) int {
	best := -1
	for _, k := range there {
		switch o := &list[k]; {
		case o == d || at[o.lid] != d.to || o.to == d.to:
		case o.to == at[d.lid]:
			return k
		case best < 0:
			best = k
		}
	}
	return best
}

// baseLID is the LID of a port, whose entries LIDs that move there copy.
func (m *Machine) baseLID(g ib.GUID) ib.LID {
	if p := m.EndPort(g); p != nil {
		return p.LID
	}
	return 0
}
