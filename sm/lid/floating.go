package lid

import (
	"slices"
	"strconv"

	"heddle/ib"
	"heddle/sm/notice"
	"heddle/sm/topo"
	"heddle/store"
)

// The LIDs of the manager's port float between the ports of two managers if the table says so
// (BeginFloating): the port of the manager that runs has the range that is stored for
// store.ManagerGUID. The range that is stored for the GUID of a manager's port is that of the port
// while the other manager runs. So a manager that takes over stores nothing, and no LID goes from one
// of the two ports to the other but those that float.

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

// Floating returns the range that floats and the partner's, Base 0 if that has none. ok is false if
// nothing floats, or the range is not chosen yet.
func (t *Table) Floating() (own, partner Range, ok bool) {
	f := &t.float
	if !f.on || f.r.Base == 0 {
		return own, partner, false
	}
	if r := t.stored[f.partner]; !r.overlaps(f.r) {
		partner = r
	}
	return f.r, partner, true
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

// keepFloating gives the manager's port the range that floats, and keeps the one that it has when the
// partner runs.
func (a *assignment) keepFloating() {
	if !a.float.on || a.float.r.Base == 0 {
		return
	}
	for _, e := range a.eps {
		if a.port(e).GUID != a.float.self {
			continue
		}
		a.give(e, One(a.float.r.Base))
		if r := a.stored[a.float.self]; r.Base != 0 && a.sp.Free(r) {
			a.sp.Take(r)
		}
	}
}

// chooseFloating has the range that the manager's port got float, if another one or none did, and
// sees to it that the port has one for the time when the partner runs.
func (a *assignment) chooseFloating() {
	i := slices.IndexFunc(a.eps, func(e endPort) bool { return a.port(e).GUID == a.float.self })
	if i < 0 || a.port(a.eps[i]).LID == 0 {
		return
	}
	p := a.port(a.eps[i])
	r := Range{Base: p.LID, LMC: p.LMC}
	if own := a.stored[p.GUID]; own.Base == 0 || own.overlaps(r) {
		own = a.sp.Lowest(p.LMC)
		if own.Base == 0 {
			a.float = floating{}
			a.ops = append(a.ops, a.Assign(p.GUID, r)...)
			a.problem(notice.Notice{
				Kind: notice.KindNoLID, Level: notice.Warn, Where: a.f.Where(p.Node, int(p.Num)),
				Text: "no LID left for this port while the other manager runs (all " + strconv.Itoa(a.Limit()-1) + " are in use), so the LID of the manager does not float",
			})
			return
		}
		a.sp.Take(own)
		a.stored[p.GUID] = own
		a.ops = append(a.ops, store.Op{Kind: store.PutLID, GUID: p.GUID, LID: own.Base, LMC: own.LMC})
	}
	if a.float.r != r {
		a.float.r, a.manager = r, r
		a.ops = append(a.ops, store.Op{Kind: store.PutLID, GUID: store.ManagerGUID, LID: r.Base, LMC: r.LMC})
	}
}

// changesWithMaster reports whether a port changes its LID because another manager runs.
func (a *assignment) changesWithMaster(p *topo.Port) bool {
	own, partner, ok := a.Floating()
	return ok && (p.GUID == a.float.self && p.LID == own.Base || p.GUID == a.float.partner && p.LID == partner.Base)
}
