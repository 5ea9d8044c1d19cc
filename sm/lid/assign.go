package lid

import (
	"slices"
	"strconv"

	"heddle/ib"
	"heddle/sm/notice"
	"heddle/sm/topo"
	"heddle/store"
	"heddle/subnet"
)

// Rules are what an assignment depends on, besides the table and the subnet.
type Rules struct {
	LMC      uint8 // of CA and router ports, 0 to 7
	LMCPort0 uint8 // of enhanced ports 0 of switches, 0 to 7
	// FirstSweep: this is the first sweep of a mastership, so a port that is in use keeps the LID
	// that it shows.
	FirstSweep bool
}

// Report is a fact that the caller of AssignPorts passes on. A problem is also shown as one of the
// subnet.
type Report struct {
	Problem bool
	notice.Notice
}

// assignment is one run of AssignPorts.
type assignment struct {
	*Table
	rules    Rules
	f        *topo.Topology
	eps      []endPort
	sp       *Space
	reserved []ib.GUID // ports that are not here and whose ranges are taken, descending
	ops      []store.Op
	report   func(Report)
}

// AssignPorts gives every end port of a subnet its range, in Port.LID and Port.LMC, which are 0 before.
// In this order a range is kept if it is aligned, within every switch's table and free:
//
//  1. those that float between the manager's port and its partner's (BeginFloating);
//  2. the base LID of a port whose own LID floats;
//  3. what this mastership gave the port before;
//  4. in the first sweep of a mastership, what an Active port shows;
//  5. what the store has;
//  6. what a port that is not Active shows, unless the store reserves it for another port;
//  7. the lowest range that neither the subnet nor the store uses. When there is none left,
//     ports that are not here lose their ranges.
//
// A port that cannot keep its range gets another one, and the change is reported. reserve takes
// the LIDs of placements and functions out of a space; what it returns is stored too. Switches
// whose tables are too small are excluded, see findLimit. AssignPorts returns what is to be stored before
// any LID is used.
func (t *Table) AssignPorts(f *topo.Topology, rules Rules, reserve func(*Space) []store.Op, report func(Report)) []store.Op {
	a := &assignment{Table: t, rules: rules, f: f, report: report}
	a.findEndPorts()
	before := f.Excluded()
	t.limit = a.findLimit()
	if f.Excluded() != before { // the links of these switches are gone
		for i := range f.Ports {
			f.Ports[i].Flags &^= topo.PortLinked
		}
		f.MarkLinks()
		a.findEndPorts()
	}
	a.sp = &Space{Limit: t.limit}
	a.ops = reserve(a.sp)
	a.keepFloating()
	a.keepGiven()
	if rules.FirstSweep {
		a.keepActive()
	}
	a.keepStored()
	for _, e := range a.eps {
		if p := a.port(e); p.Info.LID.IsUnicast() {
			a.give(e, One(p.Info.LID))
		}
	}
	if a.needed() > t.limit {
		a.sortByNeed()
	}
	for _, e := range a.eps {
		a.finish(e)
	}
	if a.float.on {
		a.chooseFloating()
	}
	return a.ops
}

func (a *assignment) port(e endPort) *topo.Port { return &a.f.Ports[e.idx] }

// give gives an end port a range if it has none and the range is free.
func (a *assignment) give(e endPort, r Range) {
	p := a.port(e)
	r.LMC = e.lmc
	if p.LID != 0 || !a.sp.Free(r) {
		return
	}
	a.sp.Take(r)
	p.LID, p.LMC = r.Base, r.LMC
}

// keepGiven keeps the base LIDs of ports whose LIDs float, and what this mastership gave.
func (a *assignment) keepGiven() {
	for _, e := range a.eps {
		if base := a.base(a.port(e)); base != 0 {
			a.give(e, One(base))
		}
	}
	for _, e := range a.eps {
		if r, ok := a.Assigned(a.port(e).GUID); ok {
			a.give(e, r)
		}
	}
}

// base is the base LID of a port whose own LID floats, 0 if its LID does not float.
func (a *assignment) base(p *topo.Port) ib.LID { return a.OfFunction(subnet.Place{Port: p.GUID}) }

// keepActive keeps what ports in use show. Where two claim one range, the one that the store names
// keeps it, else the one with the lower GUID.
func (a *assignment) keepActive() {
	for pass := range 2 {
		for _, e := range a.eps {
			p := a.port(e)
			if a.inUse(p) && (pass == 1 || a.storedLID(p.GUID) == p.Info.LID) {
				a.give(e, One(p.Info.LID))
			}
		}
	}
}

// keepStored keeps what the store has for the ports that are here. Then it takes the ranges of
// stored ports that are not here, so that they find them free when they return.
func (a *assignment) keepStored() {
	for _, e := range a.eps {
		if r, ok := a.Stored(a.port(e).GUID); ok {
			a.give(e, r)
		}
	}
	i := 0
	for _, g := range a.StoredGUIDs() {
		for i < len(a.eps) && a.port(a.eps[i]).GUID < g {
			i++
		}
		if i < len(a.eps) && a.port(a.eps[i]).GUID == g {
			continue
		}
		if r, _ := a.Stored(g); a.sp.Free(r) {
			a.sp.Take(r)
			a.reserved = append(a.reserved, g)
		}
	}
	slices.Reverse(a.reserved)
}

// finish gives a port that has no range yet the lowest free one, and records what it has.
func (a *assignment) finish(e endPort) {
	p := a.port(e)
	if p.LID == 0 {
		r := a.sp.Lowest(e.lmc)
		for r.Base == 0 && len(a.reserved) > 0 {
			old, op := a.Revoke(a.reserved[len(a.reserved)-1])
			a.reserved = a.reserved[:len(a.reserved)-1]
			a.sp.Release(old)
			a.ops = append(a.ops, op)
			r = a.sp.Lowest(e.lmc)
		}
		if r.Base == 0 {
			p.Flags |= topo.PortLeftOut
			a.problem(notice.Notice{
				Kind: notice.KindNoLID, Level: notice.Error, Where: a.f.Where(p.Node, int(p.Num)),
				Text: "no LID left: all " + strconv.Itoa(a.Limit()-1) + " that the smallest forwarding table holds are in use; the port is excluded: use a smaller LMC or larger switches",
			})
			return
		}
		a.sp.Take(r)
		p.LID, p.LMC = r.Base, r.LMC
	}
	a.reportMove(p)
	a.ops = append(a.ops, a.Table.Assign(p.GUID, Range{Base: p.LID, LMC: p.LMC})...)
}

func (a *assignment) problem(n notice.Notice) { a.report(Report{Problem: true, Notice: n}) }

// inUse reports whether connections may depend on the LID that a port shows.
func (a *assignment) inUse(p *topo.Port) bool {
	if !p.Info.LID.IsUnicast() {
		return false
	}
	if p.Num == 0 && a.f.Nodes[p.Node].IsSwitch() {
		// A base port 0 has no states; its LID is in use if some master set it up.
		return p.Info.MasterSMLID != 0
	}
	return p.Info.PortState >= ib.StateArmed
}

// storedLID is the LID that the store has for a port, 0 if none.
func (a *assignment) storedLID(port ib.GUID) ib.LID {
	r, _ := a.Stored(port)
	return r.Base
}

// reportMove reports a port whose LID changes although connections may depend on it.
func (a *assignment) reportMove(p *topo.Port) {
	old, had := a.Assigned(p.GUID)
	stored := a.storedLID(p.GUID)
	var text string
	switch {
	case p.LID == a.base(p):
		return // it shows the LID of a VM
	case a.changesWithMaster(p):
		return
	case had && old.Base != p.LID:
		text = "its LID " + old.Base.String() + " cannot be kept (alignment, LMC or the smallest forwarding table)"
	case !had && a.rules.FirstSweep && a.inUse(p) && p.Info.LID != p.LID:
		text = "it shows LID " + p.Info.LID.String() + ", which another port has or which does not fit"
	case !had && stored != 0 && stored != p.LID && p.Info.LID != p.LID:
		text = "its stored LID " + stored.String() + " is in use by another port or does not fit"
	case !had && !a.rules.FirstSweep && p.Info.LID.IsUnicast() && p.Info.LID != p.LID && a.inUse(p):
		text = "it joined with LID " + p.Info.LID.String() + ", which another port has"
	default:
		return
	}
	a.report(Report{Notice: notice.Notice{
		Kind: notice.KindLIDConflict, Level: notice.Warn, Where: a.f.Where(p.Node, int(p.Num)), Text: text + "; it gets LID " + p.LID.String(),
	}})
}
