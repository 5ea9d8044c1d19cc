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

// LIDs of virtual functions come out of the space of those of ports (assign.go),
// whose order they follow: ports have been served when functions are found. The
// lowest that is free is taken; one that floats is the highest that is free. A LID is
// kept for as long as its lease, whether the function is there or not. LIDs of
// ports that are not there are given up when there is no other (as for ports).
//
// A LID belongs to a GUID, and is stored as those of ports are. Where vSwitches are
// prepopulated it belongs to a function as well (byPlace): a lease that takes its
// LID to another function leaves that one's LID behind.

// functionLIDs are the LIDs of functions.
type functionLIDs struct {
	fresh   bool           // LIDs came that the engine is to route
	floated []ib.GUID      // ports that have their base LID again, which is not stored
	short   bool           // functions that are to have LIDs may have none: prepopulate looks
	changed []subnet.Place // functions that have other LIDs, from when these are stored
}

// setFunctionLID gives a function its LID; 0 takes it away.
func (m *Machine) setFunctionLID(p subnet.Place, l ib.LID) store.Op {
	m.fn.short = m.fn.short || l == 0
	return m.lids.SetFunction(p, l)
}

// Load takes the LIDs of virtual functions that the store held. What
// cannot be right is left out, and said.
func (m *Machine) Load(list []store.Record) {
	m.Unsaved = append(m.Unsaved, m.lids.LoadFunctions(list, m.Config.VSwitchPrepopulate, func(err error) {
		m.Notify(notice.Notice{Kind: notice.KindLIDConflict, Level: notice.Warn, Err: err, Text: "a stored LID of a function is left out"})
	})...)
	// Leases are set before the start, when nothing was known of their LIDs.
	for _, l := range m.list {
		if m.lids.Claim(l.GUID) && l.port == 0 {
			l.port = l.Place.Port
		}
	}
}

// placeLID reports whether a LID belongs to a function, whoever uses it.
func (m *Machine) placeLID(l ib.LID) bool {
	_, ok := m.lids.Function(l)
	return ok
}

// Reserve takes the LIDs of functions out of a space that LIDs of ports
// are about to be given from. Those beyond its limit, because a switch came whose
// table is smaller, are lost.
func (m *Machine) Reserve(sp *lid.Space) (ops []store.Op) {
	m.lids.Recount()
	lost := func(who string, l ib.LID) {
		m.Notify(notice.Notice{
			Kind: notice.KindLIDConflict, Level: notice.Warn,
			Text: fmt.Sprintf("LID %d of %s cannot be kept: the smallest forwarding table holds LIDs below %d, or a port has it; it gets another", l, who, sp.Limit),
		})
	}
	for _, p := range m.lids.Functions() {
		l := m.lids.OfFunction(p)
		if p.Function == 0 {
			continue // its port is served first
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
			continue // it is that of the function that holds it
		}
		lost("GUID "+l.GUID.String(), own)
		ops = append(ops, m.loseLID(l)...)
	}
	return ops
}

// loseLID takes a lease's LID away. Whoever holds it gets another.
func (m *Machine) loseLID(l *placement) []store.Op {
	l.port = 0
	m.look(l)
	return m.lids.Lose(l.GUID)
}

// lidOf is the LID of a lease, 0 if it has none of its own.
func (m *Machine) lidOf(l *placement) ib.LID { return m.lids.OfPlacement(l.GUID) }

// withLID is the lease that has a LID, nil if none has it.
func (m *Machine) withLID(l ib.LID) *placement { return m.byGUID[m.lids.Placement(l)] }

// takeLID takes a free LID for a function; 0: there is none, not even one of a port that
// is not there. It appends what is to be stored.
func (m *Machine) takeLID(top bool, ops []store.Op) (ib.LID, []store.Op) {
	return m.lids.Take(top, func(g ib.GUID) bool { return m.EndPort(g) == nil && m.byGUID[g] == nil }, ops)
}

// noLID says that there is no LID left, how many there are, and who has them.
func (m *Machine) noLID() string {
	n := m.countLIDs()
	waiting := 0
	for _, l := range m.list {
		if own := m.lidOf(l); l.state != Ended && own != 0 && !m.placeLID(own) && l.target() == (subnet.Place{}) {
			waiting++
		}
	}
	return fmt.Sprintf("no LID left: all %d that the smallest forwarding table holds are in use: %d by ports, %d by functions that always have one, %d by interfaces, %d of them without a place; "+
		"delete interfaces or take functions away, use a smaller LMC or switches with larger tables", n.Limit, n.Ports, n.Functions, n.Placements, waiting)
}

// countLIDs counts the LIDs that are assigned or kept.
func (m *Machine) countLIDs() lid.Count {
	return m.lids.Count(func(g ib.GUID) bool { return m.byGUID[g] != nil })
}

// adoptLID takes over a LID that a function shows, if nobody else has it.
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

// giveLIDs gives the leases of the batch that need one a LID. Those for which
// there is none leave the batch.
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

// refuse takes a lease out of the batch, because it cannot be carried out.
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
			return ops, failure{subnet.CauseTableFull, fmt.Sprintf("LID %d is asked for, and the smallest forwarding table holds LIDs below %d only", l.LID, m.lids.Limit())}
		case has != 0 && l.held != (subnet.Place{}):
			return ops, failure{subnet.CauseLIDInUse, fmt.Sprintf("LID %d is asked for, and it has LID %d, which may be in use: detach it first", l.LID, has)}
		case always && m.placeLID(l.LID) && m.lids.Placement(l.LID) == 0: // a function's that nobody uses
		case !sp.Free(lid.One(l.LID)):
			return ops, failure{subnet.CauseLIDTaken, fmt.Sprintf("LID %d is asked for, and somebody else has it", l.LID)}
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
	if from, ok := m.lids.Function(m.lidOf(l)); ok { // which gets another in its turn
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

// maxFormer bounds leases.former; an address manager gives GUIDs again, so that this is
// more than there are in most subnets.
const maxFormer = 1 << 16

// forget ends a lease that nothing holds any more.
func (m *Machine) forget(l *placement) {
	if l.state == Ended {
		return
	}
	if m.lidOf(l) != 0 {
		m.Save(m.loseLID(l))
	}
	l.become(Ended)
	delete(m.byGUID, l.GUID)
	if !l.implied {
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
			m.report(l, subnet.LeaseWaiting, failure{subnet.CauseNotStored, "its LID could not be stored: " + err.Error()})
		}
		m.retry = m.Now.Add(m.Config.RetryInterval)
		m.tell()
	}
}
