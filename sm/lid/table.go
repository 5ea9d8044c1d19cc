// Package lid owns the LIDs of a subnet: which ports, placements and virtual functions have, and
// which of them the store has.
//
// A Table has three kinds of owners. A port (by port GUID) has a range. A placement (by the GUID
// of its interface) has one LID, wherever its address is. A virtual function (by place) has one
// where vSwitches are prepopulated, and function 0 stands for the base LID of a port whose own LID
// floats. A placement and a function may have the same LID: the function is then the one that
// holds the placement's address.
//
// AssignPorts and AssignRegion decide which LIDs the ports of a discovered subnet get, after a full
// sweep and after a sweep of a region. They are functions of the table and the subnet. Package
// placement decides which LIDs placements and functions get. Outputs are the store operations that
// make the decisions durable; the caller stores them before the LIDs are used.
package lid

import (
	"slices"

	"heddle/ib"
	"heddle/store"
	"heddle/subnet"
)

// Table has the LIDs of a subnet. It belongs to one manager.
type Table struct {
	limit     int                // first LID that some switch's forwarding table does not hold
	assigned  map[ib.GUID]Range  // of ports, in this mastership
	stored    map[ib.GUID]Range  // of ports and placements, as the store has them
	placement map[ib.GUID]ib.LID // of placements, by GUID
	byLID     map[ib.LID]ib.GUID // the placement that has a LID
	function  map[subnet.Place]ib.LID
	place     map[ib.LID]subnet.Place // the function that has a LID
	space     *Space                  // what anybody has; nil: to be computed
	manager   Range                   // of the master's port, as the store has it; Base 0: it does not float
	float     floating
}

// New returns a table in which nobody has a LID.
func New() *Table {
	return &Table{
		assigned: map[ib.GUID]Range{}, stored: map[ib.GUID]Range{}, placement: map[ib.GUID]ib.LID{}, byLID: map[ib.LID]ib.GUID{},
		function: map[subnet.Place]ib.LID{}, place: map[ib.LID]subnet.Place{},
	}
}

// Load takes the LIDs of ports and placements that the store held.
func (t *Table) Load(list []store.LIDEntry) {
	for _, e := range list {
		if e.GUID == store.ManagerGUID {
			t.manager = Range{e.LID, e.LMC}
			continue
		}
		t.stored[e.GUID] = Range{e.LID, e.LMC}
	}
}

// Limit is the first LID that some switch's forwarding table does not hold; 0 before the first
// sweep.
func (t *Table) Limit() int { return t.limit }

// SetLimit sets the limit.
func (t *Table) SetLimit(limit int) { t.limit = limit }

// Assigned is the range that a port was given in this mastership.
func (t *Table) Assigned(port ib.GUID) (Range, bool) {
	r, ok := t.assigned[port]
	return r, ok
}

// Stored is the range that the store has for a port or placement.
func (t *Table) Stored(g ib.GUID) (Range, bool) {
	r, ok := t.stored[g]
	return r, ok
}

// StoredGUIDs lists the ports and placements that the store has LIDs for, in ascending order.
func (t *Table) StoredGUIDs() []ib.GUID {
	guids := make([]ib.GUID, 0, len(t.stored))
	for g := range t.stored {
		guids = append(guids, g)
	}
	slices.Sort(guids)
	return guids
}

// NewMastership forgets which LIDs were assigned to ports. The stored ones stay.
func (t *Table) NewMastership() { clear(t.assigned) }

// Assign gives a port its range. It returns what is to be stored, if that is news.
func (t *Table) Assign(port ib.GUID, r Range) []store.Op {
	t.assigned[port] = r
	if t.stored[port] == r || t.float.on && port == t.float.self {
		return nil
	}
	t.stored[port] = r
	return []store.Op{{Kind: store.PutLID, GUID: port, LID: r.Base, LMC: r.LMC}}
}

// Revoke takes the LIDs of a port that is not in the subnet, and returns them with what is to be
// stored.
func (t *Table) Revoke(port ib.GUID) (Range, store.Op) {
	r := t.stored[port]
	delete(t.stored, port)
	delete(t.assigned, port)
	return r, store.Op{Kind: store.DeleteLID, GUID: port}
}

// OfPlacement is the LID of a placement, 0 if it has none.
func (t *Table) OfPlacement(g ib.GUID) ib.LID { return t.placement[g] }

// Placement is the placement that has a LID, 0 if none has it.
func (t *Table) Placement(l ib.LID) ib.GUID { return t.byLID[l] }

// Claim gives a placement that has no LID the one that the store has for its GUID. It reports
// whether there is one, and returns what is to be stored. A placement that ended while no manager ran
// leaves its LID in the store. If another placement got that LID since, with a function, it keeps it.
func (t *Table) Claim(g ib.GUID) (ok bool, ops []store.Op) {
	l := t.stored[g].Base
	if t.placement[g] != 0 || l == 0 {
		return false, nil
	}
	if t.byLID[l] != 0 {
		delete(t.stored, g)
		return false, []store.Op{{Kind: store.DeleteLID, GUID: g}}
	}
	t.placement[g], t.byLID[l] = l, g
	return true, nil
}

// Give gives a placement a LID in place of the one it had. It returns what is to be stored, if
// that is news.
func (t *Table) Give(g ib.GUID, l ib.LID) []store.Op {
	if was := t.placement[g]; was != 0 && t.byLID[was] == g {
		delete(t.byLID, was)
	}
	t.placement[g], t.byLID[l] = l, g
	if t.stored[g] == One(l) {
		return nil
	}
	t.stored[g] = One(l)
	return []store.Op{{Kind: store.PutLID, GUID: g, LID: l}}
}

// Lose takes a placement's LID away, and returns what is to be stored.
func (t *Table) Lose(g ib.GUID) []store.Op {
	if l := t.placement[g]; t.byLID[l] == g {
		delete(t.byLID, l)
	}
	delete(t.placement, g)
	t.space = nil
	if _, ok := t.stored[g]; !ok {
		return nil
	}
	delete(t.stored, g)
	return []store.Op{{Kind: store.DeleteLID, GUID: g}}
}

// OfFunction is the LID of a function that has one whether it is used or not, or, for function 0,
// the base LID of a port whose LID floats; 0 if there is none.
func (t *Table) OfFunction(p subnet.Place) ib.LID { return t.function[p] }

// Function is the function, or port, that has a LID as its own.
func (t *Table) Function(l ib.LID) (subnet.Place, bool) {
	p, ok := t.place[l]
	return p, ok
}

// SetFunction gives a function its LID; 0 takes it away. It returns what is to be stored. The LID
// that it had stays taken until Recount, as another owner may get it in the same step.
func (t *Table) SetFunction(p subnet.Place, l ib.LID) store.Op {
	if was := t.function[p]; was != 0 && t.place[was] == p {
		delete(t.place, was)
	}
	if l == 0 {
		delete(t.function, p)
	} else {
		t.function[p], t.place[l] = l, p
	}
	return functionOp(p, l)
}

// Functions lists the functions that have LIDs, in the order of places.
func (t *Table) Functions() []subnet.Place {
	list := make([]subnet.Place, 0, len(t.function))
	for p := range t.function {
		list = append(list, p)
	}
	slices.SortFunc(list, comparePlaces)
	return list
}

// NumFunctions is the number of functions that have LIDs, function 0 included.
func (t *Table) NumFunctions() int { return len(t.function) }

// Recount has the LIDs in use computed anew when they are asked for next: ports have other ones.
func (t *Table) Recount() { t.space = nil }

// InUse is the space of LIDs that an owner has, whether it is in the subnet or not. What it is
// changed by stays until the table changes in another way.
func (t *Table) InUse() *Space {
	if t.space != nil && t.space.Limit == t.limit {
		return t.space
	}
	sp := &Space{Limit: t.limit}
	for _, r := range t.stored {
		sp.Take(r)
	}
	for _, r := range t.assigned {
		sp.Take(r)
	}
	if t.float.r.Base != 0 {
		sp.Take(t.float.r)
	}
	for _, l := range t.function {
		sp.Take(One(l))
	}
	for _, l := range t.placement {
		sp.Take(One(l))
	}
	t.space = sp
	return sp
}

// Take takes a free LID: the lowest, or, with top, the highest. If there is none, ports that are
// not in the subnet give theirs up, those with the highest GUIDs first; spare reports whether one
// may be asked to. It returns 0 if there is none at all, and appends what is to be stored.
func (t *Table) Take(top bool, spare func(port ib.GUID) bool, ops []store.Op) (ib.LID, []store.Op) {
	sp := t.InUse()
	for {
		l := ib.LID(0)
		if top {
			l = sp.Highest()
		} else {
			l = sp.Lowest(0).Base
		}
		if l != 0 {
			sp.Take(One(l))
			return l, ops
		}
		last, ok := ib.GUID(0), false
		for g := range t.stored {
			if (!ok || g > last) && spare(g) {
				last, ok = g, true
			}
		}
		if !ok {
			return 0, ops
		}
		r, op := t.Revoke(last)
		sp.Release(r)
		ops = append(ops, op)
	}
}

// Count is how many LIDs each kind of owner has.
type Count struct {
	Limit                        int // LIDs that the smallest forwarding table holds
	Ports, Functions, Placements int
}

// Used is how many LIDs have an owner.
func (n *Count) Used() int { return n.Ports + n.Functions + n.Placements }

// Count counts. A LID that a function and a placement have counts for the function.
func (t *Table) Count(isPlacement func(g ib.GUID) bool) (n Count) {
	n.Limit = max(t.limit-1, 0)
	for g, r := range t.stored {
		if !isPlacement(g) {
			n.Ports += 1 << r.LMC
		}
	}
	for p := range t.function {
		if p.Function > 0 {
			n.Functions++
		}
	}
	for _, l := range t.placement {
		if _, ok := t.place[l]; !ok {
			n.Placements++
		}
	}
	return n
}
