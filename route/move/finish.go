package move

import (
	"errors"
	"fmt"
	"slices"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
	"heddle/route/check"
	"heddle/route/transition"
)

// finish assembles the result and verifies it.
func (m *mover) finish() (*Result, error) {
	cols := m.changed()
	r := &Result{Moved: m.moved, installed: m.t, cols: cols, first: byBlock(cols), Grown: m.top > m.t.TopLID}
	r.Graph, r.Tables = m.graph(), m.tables(cols)
	for i := range m.moved {
		r.Unmerged += m.moved[i].SMPs
	}
	r.Blocks = m.blocks(cols)
	if !m.single() {
		if err := m.leveled(r); err != nil {
			return nil, err
		}
	}
	co := check.Options{Workers: m.o.Workers, Groups: m.o.Groups}
	r.Proof = m.p.Update(r.Graph, fabric.Diff(m.g, r.Graph), r.Tables, co)
	if !r.Proof.OK() && (m.base != nil || !delivers(r.Proof)) {
		return nil, &unsound{r.Proof.Err()}
	}
	r.Local = m.local(cols)
	var err error
	switch {
	case r.Local:
		r.Stages = []Stage{{Blocks: r.Blocks}}
		r.Reason = "no path between switches changes: any order"
		for _, c := range cols {
			c.inOneStage()
		}
	case m.single():
		err = m.ordered(r)
	default:
		err = m.planned(r)
	}
	if err != nil {
		return nil, err
	}
	for k := range r.Stages {
		r.Writes += len(r.Stages[k].Blocks)
	}
	return r, nil
}

// ordered finds the stages of single-lane tables.
func (m *mover) ordered(r *Result) error {
	if len(r.cols) == 0 {
		r.Reason = "no entry changes"
		return nil
	}
	p, err := m.plan(r.cols)
	if err != nil {
		return err
	}
	if r.Stages, err = p.stages(); err != nil {
		return err
	}
	drains := p.epoch()
	r.Held, r.Risk = p.held, p.risk
	way := "from the destinations outwards"
	if p.inward {
		way = "each block once"
	}
	switch {
	case r.Risk != nil:
		r.Reason = fmt.Sprintf(way+", in %d stages; new entries may close a credit cycle with packets in flight, because it does not wait for them", len(r.Stages))
	case len(r.Stages) == 1:
		r.Reason = "old and new entries mix without a cycle or a loop: any order"
	case drains == 0:
		r.Reason = fmt.Sprintf(way+", in %d stages", len(r.Stages))
	case p.held > 0:
		r.Reason = fmt.Sprintf(way+", in %d stages; %d times older packets drain, and %d entries are dropped until then, because new entries close a credit cycle with them", len(r.Stages), drains, p.held)
	default:
		r.Reason = fmt.Sprintf(way+", in %d stages; %d times older packets drain, because new entries close a credit cycle with them", len(r.Stages), drains)
	}
	return nil
}

// planned has the stages of tables with several lanes found by route/transition.
func (m *mover) planned(r *Result) error {
	to := transition.Options{
		Workers: m.o.Workers, SwitchLifetime: m.o.SwitchLifetime, HOQLife: m.o.HOQLife, RepathTime: m.o.RepathTime, Before: m.g,
	}
	to.Proved, to.ProvedOrder = r.Proof.Dependencies()
	p := transition.New(r.Graph, m.t.Flat(), r.Tables.Flat(), to)
	r.Reason = p.Reason
	switch {
	case m.o.NoWait && r.NeedsRepath:
		r.Unordered = "service levels change, of which hosts must be notified"
	case m.o.NoWait && (p.Mode == transition.ModeRefused || p.Drain != 0 || p.Repath != 0 || len(p.Discard) > 0):
		r.Unordered = "there are several lanes, and packets would have to drain"
	case p.Mode == transition.ModeRefused:
		return errors.New("move: no order of updates is safe: " + p.Reason)
	}
	if r.Unordered != "" {
		r.Held, r.Discarded = 0, nil
		return nil
	}
	r.plan, r.Held, r.Discarded = p, p.Held, p.Discard
	for i := range p.Stages {
		st := &p.Stages[i]
		r.Stages = append(r.Stages, Stage{Blocks: st.LFT, Drain: st.Drain, Hops: st.DrainHops, Repath: st.Repath})
	}
	return nil
}

// local reports whether none of the entries that change leads, or led, to another switch,
// and no service level changes: packets take the channels that they took before.
func (m *mover) local(cols []*column) bool {
	for _, c := range cols {
		if m.classOf(c.lid) != classIn(m.t.Class, c.lid) {
			return false
		}
		for s := range int32(m.n) {
			old, now := c.old[s], c.now[s]
			if old != now && (old == route.Drop || now == route.Drop || m.next(s, old) >= 0 || m.next(s, now) >= 0) {
				return false
			}
		}
	}
	return len(cols) > 0
}

// blocks lists the blocks in which entries change, each once, by switch and block.
func (m *mover) blocks(cols []*column) (list []route.BlockDiff) {
	groups, most := blocksOf(cols), 0
	for i := range m.moved {
		most += m.moved[i].SMPs
	}
	list = make([]route.BlockDiff, 0, most)
	for s := range m.n {
		for _, cols := range groups {
			if slices.ContainsFunc(cols, func(c *column) bool { return c.now[s] != c.old[s] }) {
				list = append(list, route.BlockDiff{Switch: int32(s), Block: uint16(cols[0].lid / route.BlockLen)})
			}
		}
	}
	return list
}

// blocksOf splits columns, which are by ascending LID, into those of each block.
func blocksOf(cols []*column) (groups [][]*column) {
	for i := 0; i < len(cols); {
		k := i + 1
		for k < len(cols) && sameBlock(cols[k].lid, cols[i].lid) {
			k++
		}
		groups = append(groups, cols[i:k])
		i = k
	}
	return groups
}

// inBlock are the columns of a block.
func (r *Result) inBlock(b uint16) []*column {
	if int(b)+1 >= len(r.first) {
		return nil
	}
	return r.cols[r.first[b]:r.first[b+1]]
}

// byBlock finds where the columns of each block begin in a list by LID.
func byBlock(cols []*column) []int32 {
	if len(cols) == 0 {
		return nil
	}
	first := make([]int32, int(cols[len(cols)-1].lid)/route.BlockLen+2)
	for _, c := range cols {
		first[int(c.lid)/route.BlockLen+1]++
	}
	for b := 1; b < len(first); b++ {
		first[b] += first[b-1]
	}
	return first
}

// classOf is the class of a LID's paths; -1: none.
func (m *mover) classOf(l ib.LID) int32 { return classIn(m.class, l) }

func classIn(class []int32, l ib.LID) int32 {
	if int(l) >= len(class) {
		return -1
	}
	return class[l]
}

// reclass gives l the class of its model: its paths are the model's, on the
// lanes proved for them. A LID that moved inside a leaf by the leaf's entry
// alone keeps its paths and so its class.
func (m *mover) reclass(l ib.LID, class int32, mode Mode, here, there int32) {
	if m.t.SL == nil || mode == Minimal && here >= 0 && m.ends[here].Switch == m.ends[there].Switch && m.classOf(l) >= 0 {
		return
	}
	if m.classOf(l) == class {
		return
	}
	if len(m.class) <= int(m.top) || len(m.t.Class) > 0 && &m.class[0] == &m.t.Class[0] {
		m.class = slices.Clone(m.class)
		for len(m.class) <= int(m.top) {
			m.class = append(m.class, -1)
		}
	}
	m.class[l] = class
}

// leveled checks the service levels of r's tables, and that no host needs a
// new one, unless that is allowed.
func (m *mover) leveled(r *Result) error {
	t := r.Tables
	t.Class = m.class
	if t.SL == nil {
		return nil
	}
	for len(t.Class) <= int(t.TopLID) {
		t.Class = append(t.Class[:len(t.Class):len(t.Class)], -1)
	}
	for _, c := range m.order {
		if int(c.lid) >= len(m.g.LIDOwner) || int(c.lid) >= len(m.owner) {
			continue
		}
		a, b := m.g.LIDOwner[c.lid], m.owner[c.lid]
		if a < 0 || b < 0 || a == b {
			continue
		}
		from, to := m.g.EndPorts[a].Switch, m.ends[b].Switch
		for s := range int32(m.n) {
			if was, is := m.t.PathSL(s, c.lid), t.PathSL(s, c.lid); was != is {
				r.NeedsRepath = true
				if !m.o.Repath {
					return fmt.Errorf("move: LID %d: paths to it from hosts on switch %v are on service level %d and would have to be on %d (%s has several lanes): their ends must resolve them anew",
						c.lid, m.g.Switches[s].GUID, was, is, t.Engine)
				}
			}
		}
		was, is := m.levelsFrom(from), m.levelsFrom(to)
		for k := range was {
			if was[k] != is[k] {
				r.NeedsRepath = true
				if !m.o.Repath {
					return fmt.Errorf("move: LID %d: paths from it to some LIDs are on service level %d and would have to be on %d (%s has several lanes): it must resolve them anew",
						c.lid, was[k], is[k], t.Engine)
				}
			}
		}
	}
	return nil
}

// levelsFrom are the levels of paths from a switch, by class.
func (m *mover) levelsFrom(s int32) []ib.SL {
	k := m.t.NumClasses
	return m.t.SL[int(s)*k : (int(s)+1)*k]
}
