package move

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
	"heddle/route/cdg"
	"heddle/route/check"
)

// mover is the state of one call of New.
type mover struct {
	p    *check.Proof
	g    *fabric.Graph
	t    *route.Tables
	o    Options
	n    int
	top  ib.LID
	base *cdg.Graph // dependencies of t; nil: not proved
	deps *cdg.Graph // base's dependencies and those that moves add
	ord  *cdg.Order // of deps

	owner []int32          // by LID, 0..top
	ends  []fabric.EndPort // the graph's own slice until one changes
	class []int32          // by LID, for tables with several lanes; t's own slice until one changes
	cols  map[ib.LID]*column
	order []*column // the columns of cols, in order of creation
	moved []Moved

	strict            bool    // see insert
	closing           []int32 // switches whose entries closed a cycle at the last admit
	cost, from, queue []int32 // scratch
	took              []bool
}

func newMover(p *check.Proof, o Options) (*mover, error) {
	m := &mover{p: p, g: p.Graph(), t: p.Tables(), o: o, cols: map[ib.LID]*column{}}
	if m.g == nil || m.t == nil {
		return nil, errors.New("move: there are no tables in use yet")
	}
	m.n, m.top = len(m.g.Switches), max(m.t.TopLID, m.g.TopLID)
	switch {
	case p.OK():
		m.base, m.ord = p.Dependencies()
	case !delivers(p):
		return nil, fmt.Errorf("move: the tables in use do not deliver, so nothing can be copied from them: %w", p.Err())
	case !o.Unsafe:
		return nil, fmt.Errorf("move: the tables in use are not proved: %w", p.Err())
	}
	if m.base != nil {
		m.deps, m.ord = m.base.Clone(), m.ord.Clone()
	}
	m.owner = slices.Clone(m.g.LIDOwner)
	for len(m.owner) <= int(m.top) {
		m.owner = append(m.owner, fabric.NoLID)
	}
	m.ends, m.class = m.g.EndPorts, m.t.Class
	return m, nil
}

// delivers reports whether tables that are not proved send packets where they are to be.
func delivers(p *check.Proof) bool {
	r := p.Report() // the report of an OK proof would first search for cycles between switches
	return r.Malformed == "" && r.UnreachablePairs == 0 && r.Loops == 0
}

// single says that all packets use lane 0.
func (m *mover) single() bool { return m.t.SL == nil && m.t.Lanes == nil }

// grow extends the tables to LIDs up to l.
func (m *mover) grow(l ib.LID) {
	for ; m.top < l; m.top++ {
		m.owner = append(m.owner, fabric.NoLID)
	}
}

// port is the index of the end port that has l, which must be cabled to a
// switch and not be a switch's own.
func (m *mover) port(l ib.LID) (int32, error) {
	switch {
	case l == 0 || l > ib.LIDMaxUnicast:
		return 0, fmt.Errorf("LID %d is not unicast (1–%d)", l, ib.LIDMaxUnicast)
	case l > m.top || m.owner[l] == fabric.NoLID:
		return 0, fmt.Errorf("no port has LID %d", l)
	}
	e := m.owner[l]
	switch x := &m.ends[e]; {
	case x.Type == ib.NodeSwitch:
		return 0, fmt.Errorf("LID %d is that of switch %v: switches do not move", l, x.NodeGUID)
	case x.Switch < 0:
		return 0, fmt.Errorf("port %v, which has LID %d, is cabled to no switch", x.GUID, l)
	}
	return e, nil
}

// request applies one request to the columns.
func (m *mover) request(q Request) error {
	if q.Mode > Minimal {
		return fmt.Errorf("unknown mode %d", uint8(q.Mode))
	}
	switch q.Kind {
	case Copy:
		return m.copy(q)
	case Swap:
		return m.swap(q)
	case Release:
		e, err := m.port(q.LID)
		if err != nil {
			return err
		}
		c := m.column(q.LID)
		was := c.now
		c.now = bytes.Repeat([]byte{route.Drop}, m.n)
		m.admit(c)
		m.note(Moved{Request: q}, count(c.now, was, nil, nil, true))
		m.owner[q.LID] = fabric.NoLID
		m.rebase(e, q.LID)
		m.reclass(q.LID, -1, Balanced, e, e)
		return nil
	}
	return fmt.Errorf("unknown kind %d", uint8(q.Kind))
}

func (m *mover) copy(q Request) error {
	there, err := m.port(q.With)
	if err != nil {
		return err
	}
	here := int32(fabric.NoLID)
	switch {
	case q.LID == 0 || q.LID > ib.LIDMaxUnicast:
		return fmt.Errorf("LID %d is not unicast (1–%d)", q.LID, ib.LIDMaxUnicast)
	case q.LID == q.With:
		return errors.New("a LID cannot be its own model")
	case q.LID <= m.top && m.owner[q.LID] != fabric.NoLID:
		if here, err = m.port(q.LID); err != nil {
			return err
		}
	default:
		for s := range m.g.Switches {
			if limit := m.g.Switches[s].LinearFDBCap; limit > 0 && int(q.LID) >= int(limit) {
				return fmt.Errorf("switch %v holds entries of LIDs below %d only (LinearFDBCap)", m.g.Switches[s].GUID, limit)
			}
		}
		m.grow(q.LID)
	}
	c, model := m.column(q.LID), m.column(q.With)
	was := c.now
	c.used = true
	x := Moved{Request: q}
	if q.Mode == Minimal {
		x.Mode, x.Why = m.minimal(here, there, c, model, false)
	}
	if x.Mode == Balanced {
		c.now = slices.Clone(model.now)
		if len(c.added)+len(model.added) > 0 {
			m.admit(c) // they are the model's, so they close no cycle
		}
	}
	m.note(x, count(c.now, was, nil, nil, true))
	m.owner[q.LID] = there
	if here >= 0 {
		m.rebase(here, q.LID)
	}
	if m.ends[there].LID == 0 {
		m.setBase(there, q.LID)
	}
	m.reclass(q.LID, m.classOf(q.With), x.Mode, here, there)
	return nil
}

func (m *mover) swap(q Request) error {
	a, err := m.port(q.LID)
	if err != nil {
		return err
	}
	b, err := m.port(q.With)
	if err != nil {
		return err
	}
	if q.LID == q.With {
		return errors.New("a LID cannot change places with itself")
	}
	ca, cb := m.column(q.LID), m.column(q.With)
	wasA, wasB := ca.now, cb.now
	ca.used, cb.idle = true, cb.idle || q.Idle
	cb.used = cb.used || !q.Idle
	x := Moved{Request: q}
	if q.Mode == Minimal {
		x.Mode, x.Why = m.minimal(a, b, ca, cb, true)
	}
	if x.Mode == Balanced {
		ca.now, cb.now = wasB, wasA
		ca.added, cb.added = cb.added, ca.added
	}
	m.note(x, count(ca.now, wasA, cb.now, wasB, sameBlock(q.LID, q.With)))
	m.owner[q.LID], m.owner[q.With] = b, a
	if a != b {
		baseA, baseB := m.ends[a].LID == q.LID, m.ends[b].LID == q.With
		if baseA {
			m.setBase(a, q.With)
		}
		if baseB {
			m.setBase(b, q.LID)
		}
	}
	classA, classB := m.classOf(q.LID), m.classOf(q.With)
	m.reclass(q.LID, classB, x.Mode, a, b)
	m.reclass(q.With, classA, x.Mode, a, b)
	return nil
}

// note records a request and its cost.
func (m *mover) note(x, cost Moved) {
	cost.Request, cost.Why = x.Request, x.Why
	m.moved = append(m.moved, cost)
}

// minimal tries to move c to the port of model with the fewest changes, and, if
// both, model to c's. It returns the mode that is left to use, and why if that is
// not Minimal.
func (m *mover) minimal(here, there int32, c, model *column, both bool) (Mode, string) {
	if here < 0 {
		return Balanced, "the LID is new: no switch has an entry to keep"
	}
	src, dst := m.ends[here].Switch, m.ends[there].Switch
	mine, other := c.now, model.now
	now, back := m.fewest(mine, other, src, dst, nil), []byte(nil)
	if both && now != nil {
		now, back = m.both(mine, other, now, src, dst, sameBlock(c.lid, model.lid))
	}
	if now == nil || both && back == nil {
		return Balanced, "no path connects the two places"
	}
	// Keep the current dependencies of both for now, so that in the end each may
	// take all of the other's entries.
	stay := append(slices.Clone(c.added), model.added...)
	for _, d := range stay {
		m.deps.Add(d, 1)
	}
	defer m.remove(stay)
	c.now = now
	ok := m.settle(c, mine, other, src)
	if both {
		model.now = back
		ok = m.settle(model, other, mine, dst) && ok
	}
	if !ok {
		return Minimal, "more than the fewest switches change: these alone would close a credit cycle"
	}
	return Minimal, ""
}

// settle admits c, whose entries were mine, with the fewest changes, or else with as many
// more as needed to close no cycle; ok says which. It then begins with the switches on
// the model's path from the old location. If a kept entry leads into a changed one by a
// dependency that may close a cycle, it changes the former too, with all later switches
// on the model's path. At the latest it ends with the model's entries, all of whose
// dependencies exist.
func (m *mover) settle(c *column, mine, model []byte, src int32) (ok bool) {
	if m.admit(c) {
		return true
	}
	now := slices.Clone(mine)
	take := func(s int32) {
		for n := 0; s >= 0 && n <= m.n; n++ {
			now[s] = model[s]
			s = m.toward(s, model[s])
		}
	}
	take(src)
	for c.now = now; !m.admit(c); { // each time something more changes
		for _, s := range m.closing {
			take(s)
		}
	}
	return false
}

// both finds the fewest changes of two LIDs that exchange places; aNow is a's result
// if no switch is preferred. For LIDs of one block each prefers switches that are
// written for the other anyway; of the two orders it takes the better.
func (m *mover) both(a, b, aNow []byte, src, dst int32, oneBlock bool) (aBest, bBest []byte) {
	if !oneBlock {
		return aNow, m.fewest(b, a, dst, src, nil)
	}
	differ := func(x, y []byte) []bool {
		d := make([]bool, m.n)
		for s := range d {
			d[s] = x[s] != y[s]
		}
		return d
	}
	aBest, bBest = aNow, m.fewest(b, a, dst, src, differ(aNow, a))
	bNow := m.fewest(b, a, dst, src, nil)
	if bBest == nil || bNow == nil {
		return nil, nil
	}
	second := m.fewest(a, b, src, dst, differ(bNow, b))
	if second != nil && count(second, a, bNow, b, true).SMPs < count(aBest, a, bBest, b, true).SMPs {
		return second, bNow
	}
	return aBest, bBest
}

// rebase gives a port another base LID if l was it: its lowest, or none.
func (m *mover) rebase(e int32, l ib.LID) {
	if m.ends[e].LID != l {
		return
	}
	next := ib.LID(0)
	if i := slices.Index(m.owner, e); i > 0 {
		next = ib.LID(i)
	}
	m.setBase(e, next)
}

func (m *mover) setBase(e int32, l ib.LID) {
	if len(m.ends) > 0 && &m.ends[0] == &m.g.EndPorts[0] {
		m.ends = slices.Clone(m.ends)
	}
	m.ends[e].LID = l
}

// graph is the graph with the LIDs at their new owners.
func (m *mover) graph() *fabric.Graph {
	g := *m.g
	g.LIDOwner, g.EndPorts = m.owner, m.ends
	top := len(g.LIDOwner) - 1
	for top > 0 && g.LIDOwner[top] == fabric.NoLID {
		top--
	}
	g.LIDOwner, g.TopLID = g.LIDOwner[:top+1:top+1], ib.LID(top)
	return &g
}

// changed drops unchanged columns, and sorts the others.
func (m *mover) changed() []*column {
	list := slices.DeleteFunc(slices.Clone(m.order), func(c *column) bool { return slices.Equal(c.old, c.now) })
	slices.SortFunc(list, func(a, b *column) int { return cmp.Compare(a.lid, b.lid) })
	return list
}

// tables are t with the changed columns.
func (m *mover) tables(cols []*column) *route.Tables {
	list := make([]route.Column, len(cols))
	for i, c := range cols {
		list[i] = route.Column{LID: c.lid, Entries: c.now}
	}
	return m.t.WithColumns(m.top, list)
}
