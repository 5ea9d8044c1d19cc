package lid

import (
	"heddle/ib"
	"heddle/sm/topo"
	"heddle/store"
)

// The LIDs of the manager's port float between the ports of two managers if the table says so
// (BeginFloating): the port of the manager that runs has them, and the partner's port has those that
// the manager's port had before. Both follow from what is stored: the range that floats
// (store.ManagerGUID) and the ranges of the two ports, one of which is the range that floats. So a manager that
// takes over stores nothing.

// floating is the range of the manager's port while it floats.
type floating struct {
	on            bool
	self, partner ib.GUID
	r             Range // Base 0: not chosen yet
}

// BeginFloating begins a mastership in which the LIDs of the manager's port float. The ports are
// those of this manager and its partner.
func (t *Table) BeginFloating(self, partner ib.GUID) {
	t.float = floating{on: true, self: self, partner: partner, r: t.manager}
	t.space = nil
}

// EndFloating begins a mastership in which they do not.
func (t *Table) EndFloating() { t.float, t.space = floating{}, nil }

// Floating returns the range that floats and the one that the partner's port has in its place, Base 0
// if there is none. ok is false if nothing floats, or the range is not chosen yet.
func (t *Table) Floating() (own, partner Range, ok bool) {
	f := &t.float
	if !f.on || f.r.Base == 0 {
		return own, partner, false
	}
	for _, g := range [2]ib.GUID{f.partner, f.self} {
		if r := t.stored[g]; r.Base != 0 && r.Base != f.r.Base {
			return f.r, r, true
		}
	}
	return f.r, Range{}, true
}

// Manager is the range that is stored for the master's port, Base 0 if none is.
func (t *Table) Manager() Range { return t.manager }

// DropManager forgets that range. It returns what is to be stored.
func (t *Table) DropManager() []store.Op {
	if t.manager.Base == 0 {
		return nil
	}
	t.manager = Range{}
	return []store.Op{{Kind: store.DeleteLID, GUID: store.ManagerGUID}}
}

// floatingOf is the range of a port by Floating.
func (t *Table) floatingOf(port ib.GUID) (r Range, ok bool) {
	own, partner, ok := t.Floating()
	switch {
	case !ok:
	case port == t.float.self:
		return own, true
	case port == t.float.partner:
		return partner, partner.Base != 0
	}
	return r, false
}

// floats reports whether a port is one of the two whose LIDs float.
func (t *Table) floats(port ib.GUID) bool {
	return t.float.on && (port == t.float.self || port == t.float.partner)
}

// stays reports whether what is stored need not change for a range of a port to be that of Floating.
func (t *Table) stays(port ib.GUID, r Range) bool {
	return t.floats(port) && r.Base != 0 && (t.stored[t.float.self] == r || t.stored[t.float.partner] == r)
}

// isFloating reports whether a port has the range that Floating gives it.
func (a *assignment) isFloating(p *topo.Port) bool {
	r, ok := a.floatingOf(p.GUID)
	return ok && r.Base == p.LID
}

// keepFloating gives both ports their ranges, and keeps that of a partner that is not here.
func (a *assignment) keepFloating() {
	_, partner, ok := a.Floating()
	if !ok {
		return
	}
	for _, e := range a.eps {
		if r, ok := a.floatingOf(a.port(e).GUID); ok {
			a.give(e, One(r.Base))
		}
	}
	if partner.Base != 0 && a.sp.Free(partner) {
		a.sp.Take(partner)
	}
}

// chooseFloating has the range of the manager's port float: the first one, or the one that it got
// because it could not keep that.
func (a *assignment) chooseFloating(p *topo.Port) {
	r := Range{Base: p.LID, LMC: p.LMC}
	if !a.float.on || p.GUID != a.float.self || a.float.r == r {
		return
	}
	a.float.r, a.manager = r, r
	a.ops = append(a.ops, store.Op{Kind: store.PutLID, GUID: store.ManagerGUID, LID: r.Base, LMC: r.LMC})
}
