package placement

import (
	"fmt"
	"slices"

	"heddle/ib"
	"heddle/sm/lid"
	"heddle/sm/notice"
	"heddle/sm/vport"
	"heddle/store"
	"heddle/subnet"
)

// Placements and ports share the space of LIDs. Ports get theirs first, in a sweep (assign.go in
// package sm). A placement gets the lowest LID that is free, or the highest if it floats, and
// keeps it as long as it exists, whether its function is there or not. If no LID is free, ports
// that are not in the subnet lose theirs.
//
// A LID belongs to a GUID, and is stored like those of ports. Where vSwitches are prepopulated,
// each function has a LID too. A placement that takes its LID to another function leaves that
// function's LID behind.

// functionLIDs is what is due about the LIDs of functions.
type functionLIDs struct {
	fresh   bool           // there are new LIDs, which the engine is to route
	floated []ib.GUID      // ports that have their base LIDs again, which is not stored yet
	short   bool           // functions may lack LIDs: prepopulate looks
	changed []subnet.Place // functions that were given other LIDs
}

// setFunctionLID gives a function its LID; 0 takes it away.
func (m *Machine) setFunctionLID(p subnet.Place, l ib.LID) store.Op {
	m.fn.short = m.fn.short || l == 0
	return m.lids.SetFunction(p, l)
}

// Load takes the LIDs of functions that the store held. Records that cannot be right are left out,
// with a notice.
func (m *Machine) Load(list []store.Record) {
	m.Unsaved = append(m.Unsaved, m.lids.LoadFunctions(list, m.Config.VSwitchPrepopulate, func(err error) {
		m.Notify(notice.Notice{Kind: notice.KindLIDConflict, Level: notice.Warn, Err: err, Text: "a stored LID of a function is left out"})
	})...)
	// Placements may be set before the start, when nothing was known of their LIDs.
	for _, l := range m.list {
		ok, ops := m.lids.Claim(l.GUID)
		if m.Unsaved = append(m.Unsaved, ops...); ok && l.port == 0 {
			l.port = l.Place.Port
		}
	}
}

// placeLID reports whether a LID is that of a function, whichever placement uses it.
func (m *Machine) placeLID(l ib.LID) bool {
	_, ok := m.lids.Function(l)
	return ok
}

// Reserve takes the LIDs of placements and functions out of a space from which ports are about to
// get theirs. LIDs above the limit of the space, as after a switch with a smaller table came, are
// lost.
func (m *Machine) Reserve(sp *lid.Space) (ops []store.Op) {
	m.lids.Recount()
	lost := func(who string, l ib.LID) {
		why := "another function or placement has it"
		if int(l) >= sp.Limit {
			why = fmt.Sprintf("the smallest forwarding table holds LIDs below %d", sp.Limit)
		}
		m.Notify(notice.Notice{
			Kind: notice.KindLIDConflict, Level: notice.Warn,
			Text: fmt.Sprintf("LID %d of %s cannot be kept: %s; assigning a new LID", l, who, why),
		})
	}
	for _, p := range m.lids.Functions() {
		l := m.lids.OfFunction(p)
		if p.Function == 0 {
			continue // the port itself gets it
		}
		if r := lid.One(l); sp.Free(r) {
			sp.Take(r)
			continue
		}
		lost("function "+p.String(), l)
		ops = append(ops, m.setFunctionLID(p, 0))
	}
	for _, l := range m.list {
		own := m.lidOf(l)
		if l.state == Ended || own == 0 {
			continue
		}
		r := lid.One(own)
		if sp.Free(r) {
			sp.Take(r)
			continue
		}
		if m.placeLID(own) {
			continue // it is that of a function
		}
		lost("GUID "+l.GUID.String(), own)
		ops = append(ops, m.loseLID(l)...)
	}
	return ops
}

// loseLID takes a placement's LID away. If a function holds the placement it gets another.
func (m *Machine) loseLID(l *placement) []store.Op {
	l.port = 0
	m.look(l)
	return m.lids.Lose(l.GUID)
}

// lidOf is the LID of a placement, 0 if it has none of its own.
func (m *Machine) lidOf(l *placement) ib.LID { return m.lids.OfPlacement(l.GUID) }

// withLID is the placement that has a LID, nil if none has it.
func (m *Machine) withLID(l ib.LID) *placement { return m.byGUID[m.lids.Placement(l)] }

// takeLID takes a free LID, the highest with top. It returns 0 if there is none, not even that of
// a port that is not in the subnet, and appends what is to be stored.
func (m *Machine) takeLID(top bool, ops []store.Op) (ib.LID, []store.Op) {
	return m.lids.Take(top, func(g ib.GUID) bool { return m.EndPort(g) == nil && m.byGUID[g] == nil }, ops)
}

// noLID says that no LID is left, how many there are, and which owners have them.
func (m *Machine) noLID() string {
	n := m.countLIDs()
	waiting := 0
	for _, l := range m.list {
		if own := m.lidOf(l); l.state != Ended && own != 0 && !m.placeLID(own) && l.target() == (subnet.Place{}) {
			waiting++
		}
	}
	return fmt.Sprintf("no LID left: all %d that the smallest forwarding table holds are in use: %d by ports, "+
		"%d by functions that always have one, %d by interfaces, %d of them without a place; "+
		"delete interfaces or take functions away, use a smaller LMC or switches with larger tables",
		n.Limit, n.Ports, n.Functions, n.Placements, waiting)
}

// countLIDs counts the LIDs that are assigned or reserved.
func (m *Machine) countLIDs() lid.Count {
	return m.lids.Count(func(g ib.GUID) bool { return m.byGUID[g] != nil })
}

// adoptLID takes over a LID that a function shows, if it is free.
func (m *Machine) adoptLID(l *placement, shown ib.LID) {
	if m.lidOf(l) != 0 || l.LID != 0 && l.LID != shown || l.GUID == 0 {
		return
	}
	sp := m.lids.InUse()
	if !sp.Free(lid.One(shown)) {
		return
	}
	sp.Take(lid.One(shown))
	m.Save(m.lids.Give(l.GUID, shown))
}

// giveLIDs gives LIDs to the placements of the batch that need one. A placement for which there is
// none leaves the batch.
func (m *Machine) giveLIDs() (ops []store.Op) {
	keep := m.batch[:0]
	for _, l := range m.batch {
		t := l.target()
		if p := m.EndPort(t.Port); p != nil && t != (subnet.Place{}) && l.LIDKind == subnet.FloatingLID && m.sharedPort(t.Port) {
			var f failure
			if ops, f = m.giveFloating(l, p, ops); f.cause != 0 {
				m.refuse(l, f)
				continue
			}
			keep = append(keep, l)
			continue
		}
		a, v := m.function(t)
		if t == (subnet.Place{}) || a == nil || v == nil || !kindOf(a).ownLID(v) {
			keep = append(keep, l)
			continue
		}
		var f failure
		if ops, f = m.giveLID(l, a, t, ops); f.cause != 0 {
			m.refuse(l, f)
			continue
		}
		keep = append(keep, l)
	}
	m.batch = keep
	return ops
}

// refuse takes a placement out of the batch, because it cannot be carried out.
func (m *Machine) refuse(l *placement, f failure) {
	l.leaving = false
	l.fail(f)
	l.back = l.held
	m.settle(l)
	m.look(l)
}

func (m *Machine) giveLID(l *placement, a *vport.Adapter, t subnet.Place, ops []store.Op) ([]store.Op, failure) {
	sp := m.lids.InUse()
	has := m.lidOf(l)
	always := a != nil && m.always(a)
	if l.LID != 0 && has != l.LID && !l.hasFailed() {
		switch {
		case int(l.LID) >= m.lids.Limit():
			return ops, because(subnet.CauseTableFull,
				"LID %d is asked for, and the smallest forwarding table holds LIDs below %d only", l.LID, m.lids.Limit())
		case has != 0 && l.held != (subnet.Place{}):
			return ops, because(subnet.CauseLIDInUse,
				"LID %d is asked for, and it has LID %d, which may be in use: detach it first", l.LID, has)
		case always && m.placeLID(l.LID) && m.lids.Placement(l.LID) == 0: // that of an unused function
		case !sp.Free(lid.One(l.LID)):
			return ops, because(subnet.CauseLIDTaken, "LID %d is asked for, and somebody else has it", l.LID)
		}
		if has != 0 && !m.placeLID(has) {
			sp.Release(lid.One(has))
		}
		sp.Take(lid.One(l.LID))
		ops = append(ops, m.lids.Give(l.GUID, l.LID)...)
	}
	if always {
		return m.swapPlaces(l, t, ops)
	}
	if from, ok := m.lids.Function(m.lidOf(l)); ok { // that function gets another
		ops = append(ops, m.setFunctionLID(from, 0))
		m.fn.changed = append(m.fn.changed, from)
	}
	if m.lidOf(l) == 0 {
		free, more := m.takeLID(l.LIDKind == subnet.FloatingLID, ops)
		if ops = more; free == 0 {
			return ops, failure{subnet.CauseNoLID, m.noLID()}
		}
		ops = append(ops, m.lids.Give(l.GUID, free)...)
	}
	return ops, failure{}
}

// maxFormer bounds Machine.former. An address manager assigns GUIDs again, so most subnets have
// fewer.
const maxFormer = 1 << 16

// forget ends a placement that no function holds any more.
func (m *Machine) forget(l *placement) {
	if l.state == Ended {
		return
	}
	if m.lidOf(l) != 0 {
		m.Save(m.loseLID(l))
	}
	l.become(Ended)
	delete(m.byGUID, l.GUID)
	if !l.implied || l.kept {
		if len(m.former) >= maxFormer {
			clear(m.former)
		}
		m.former[l.GUID] = true
	}
	if m.gone++; m.gone > 64 && m.gone > len(m.list)/2 {
		m.list = slices.DeleteFunc(m.list, func(l *placement) bool { return l.state == Ended })
		m.gone = 0
	}
}

// store has LIDs stored before they are used.
func (m *Machine) store(ops []store.Op) {
	m.Save(ops)
	m.gen, m.saveErr = m.SaveGen, nil
}

// Saved tells that everything up to a generation of Env.Save is durable, or why it is not.
func (m *Machine) Saved(gen uint64, err error) {
	if m.gen == 0 || gen < m.gen {
		return
	}
	m.gen, m.saveErr = 0, err
	if err != nil {
		for _, l := range m.batch {
			m.report(l, subnet.PlacementWaiting, because(subnet.CauseNotStored, "its LID could not be stored: %v", err))
		}
		m.retry = m.Now.Add(m.Config.RetryInterval)
		m.tell()
	}
}
