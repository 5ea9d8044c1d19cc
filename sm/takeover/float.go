package takeover

import (
	"errors"
	"fmt"
	"slices"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/route"
	"heddle/route/check"
	"heddle/route/move"
	"heddle/sm/lid"
	"heddle/sm/topo"
	"heddle/sm/work"
	"heddle/subnet"
)

// Where the LIDs of the master's port float (lid.Table.BeginFloating), they come to our port before
// the SA answers, in steps. Each begins when the one before has ended:
//
//  1. our own port, the switch port before the predecessor's port, and the blocks to be written are
//     read;
//  2. the predecessor's port is read, unless its link is down;
//  3. it gets those that it has while we run, if it shows those that float;
//  4. our port gets those that float;
//  5. the switches are written, stage by stage.
//
// So the two ports never have a LID together while a link leads to both, and packets to the manager
// are lost from the death of the predecessor to step 5. The moves are Minimal: in a tree they change
// the switch before our port, and those where the paths to both ports part.
//
// Blocks are written in full, so a switch that does not hold what the predecessor published ends the
// takeover before anything is written. The sweep that follows then routes the LIDs.

// Float is the plan that moves the LIDs of a predecessor's port to ours. It is immutable.
type Float struct {
	tables        *route.Tables // of the snapshot that it was made from
	self, from    ib.GUID
	own, previous lid.Range // that float; that our port has until then
	moved         *move.Result
	after         *route.Tables
}

// Blocks is the number of LFT blocks to be written.
func (x *Float) Blocks() int { return x.moved.Writes }

// Stages is the number of stages in which they are written.
func (x *Float) Stages() int { return len(x.moved.Stages) }

// For reports whether x, which was made from a snapshot, is still valid for a later one of the same
// master.
func (x *Float) For(s, was *subnet.Snapshot) bool {
	if s == was {
		return true
	}
	if !sameTables(x.tables, s.Tables) || len(s.Nodes) != len(was.Nodes) || s.FirstVPort() != was.FirstVPort() || !slices.Equal(s.SwitchNode, was.SwitchNode) {
		return false
	}
	for i := range s.FirstVPort() {
		p, q := s.Ports[i], was.Ports[i]
		if p != q && (p.GUID != q.GUID || p.LID != q.LID || p.LMC != q.LMC || p.Peer != q.Peer || p.State() != q.State()) {
			return false
		}
	}
	return true
}

// Prepare computes the moves of the LIDs from the port of the master that published s to the port
// self. opVLs is config.Config.MaxOpVLs. The error is the reason that a sweep has to move them.
//
// It proves the tables, which takes some tenths of a second in the largest subnets, so call it
// while the predecessor lives.
func Prepare(s *subnet.Snapshot, self ib.GUID, opVLs uint8, o move.Options) (*Float, error) {
	if s.Tables == nil || s.State != subnet.Master || !s.Up {
		return nil, errors.New("the last master published no tables")
	}
	i, j := s.PortByPortGUID(self), s.PortByPortGUID(s.PortGUID)
	if i < 0 || j < 0 || i == j || i >= s.FirstVPort() || j >= s.FirstVPort() {
		return nil, errors.New("the last master did not publish both ports")
	}
	a, b := s.Ports[i], s.Ports[j]
	x := &Float{
		tables: s.Tables, self: self, from: s.PortGUID,
		own: lid.Range{Base: b.LID, LMC: b.LMC}, previous: lid.Range{Base: a.LID, LMC: a.LMC},
	}
	if x.own.Base == 0 || x.previous.Base == 0 || x.own.LMC != x.previous.LMC {
		return nil, errors.New("the two ports have not as many LIDs")
	}
	c, ok := draw(s, self, func(ib.GUID) ib.MKey { return 0 }, false)
	if !ok {
		return nil, errors.New("our own port has no Active link")
	}
	c.f.ListGraph()
	if len(c.f.SwitchNode) != len(s.SwitchNode) {
		return nil, errors.New("links to some switches are not Active")
	}
	for k, n := range c.f.SwitchNode {
		if c.at[n] != s.SwitchNode[k] {
			return nil, errors.New("links to some switches are not Active")
		}
	}
	if s.Tables.SL != nil || s.Tables.NumVLs > 1 {
		return nil, errors.New("the tables have several lanes, of which the last master published no mapping")
	}
	g, t := c.f.BuildGraph(opVLs), *s.Tables
	t.Multicast = trees(s)
	var list []move.Request
	for k := range ib.LID(1) << x.own.LMC {
		list = append(list, move.Request{Kind: move.Copy, Mode: move.Minimal, LID: x.own.Base + k, With: x.previous.Base + k})
	}
	var err error
	if x.moved, err = move.New(check.Prove(g, &t, check.Options{Workers: o.Workers}), list, o); err != nil {
		return nil, err
	}
	switch m := x.moved; {
	case m.Unordered != "":
		return nil, errors.New(m.Unordered)
	case m.NeedsRepath || len(m.Discarded) > 0:
		return nil, errors.New("service levels of paths to the manager change")
	}
	after := *x.moved.Tables.Flat()
	after.Multicast = s.Tables.Multicast
	x.after = &after
	return x, nil
}

// trees are the multicast trees that a snapshot shows, without their members. With one lane their
// levels do not matter.
func trees(s *subnet.Snapshot) *route.Multicast {
	at := map[ib.LID]int{}
	m := &route.Multicast{}
	for k, n := range s.SwitchNode {
		for _, b := range s.MFTBlocks(n) {
			if b.Position > 15 || int(b.Block) > int(ib.LIDMaxMulticast-ib.LIDMinMulticast)/smp.MFTBlockMLIDs {
				continue // no switch has such a block
			}
			for i, mask := range b.Masks {
				if mask == 0 {
					continue
				}
				mlid := ib.LIDMinMulticast + ib.LID(b.Block)*smp.MFTBlockMLIDs + ib.LID(i)
				j, ok := at[mlid]
				if !ok {
					j = len(m.Trees)
					at[mlid], m.Trees = j, append(m.Trees, route.Tree{MLID: mlid})
				}
				t := &m.Trees[j]
				if l := len(t.Switches); l == 0 || t.Switches[l-1] != int32(k) {
					t.Switches, t.Ports = append(t.Switches, int32(k)), append(t.Ports, [4]uint64{})
				}
				t.Ports[len(t.Ports)-1][b.Position/4] |= uint64(mask) << (b.Position % 4 * 16)
			}
		}
	}
	slices.SortFunc(m.Trees, func(a, b route.Tree) int { return int(a.MLID) - int(b.MLID) })
	return m
}

// sameTables reports whether two snapshots of one mirror have the same tables: it shares rows that do
// not change.
func sameTables(a, b *route.Tables) bool {
	if a == b {
		return true
	}
	return a != nil && b != nil && a.TopLID == b.TopLID && a.NumVLs == b.NumVLs && slices.Equal(a.SL, b.SL) && slices.Equal(a.Class, b.Class) &&
		slices.EqualFunc(a.LFT, b.LFT, func(x, y []byte) bool { return len(x) == len(y) && (len(x) == 0 || &x[0] == &y[0]) })
}

// floatStep is what is done of a Float.
type floatStep uint8

const (
	floatRead   floatStep = iota // what it rests on is read
	floatFrom                    // the predecessor's port is read
	floatGive                    // it gets the LIDs that it has while we run
	floatTake                    // our port gets those that float
	floatWrite                   // a stage is written
	floatDrains                  // packets by older entries leave
	floatDone
)

// floatRun is a Float that is being carried out.
type floatRun struct {
	*Float
	rest  lid.Range // of the predecessor's port while we run
	step  floatStep
	at    ref  // the predecessor's port in the chart; NoRef: no link leads there
	there bool // its link is up
	holds bool // it shows LIDs that float
	stage int
	until mad.Time // of floatDrains
}

// planFloat says whether and how the LIDs of our port are to change in the takeover of m.s. why is
// set if a sweep has to do it.
func (m *Machine) planFloat() (why string) {
	m.float = nil
	own, partner, ok := m.lids.Floating()
	p := m.s.Ports[m.s.PortByPortGUID(m.Config.PortGUID)]
	if !ok || p.LID == own.Base && p.LMC == own.LMC {
		return ""
	}
	x := m.plan
	if x == nil || !sameTables(x.tables, m.s.Tables) || x.self != m.Config.PortGUID || x.from != m.s.PortGUID || x.own != own || partner.Base == 0 || partner.LMC != own.LMC || x.previous != (lid.Range{Base: p.LID, LMC: p.LMC}) {
		return "it does not show how the LID of the manager comes to our port"
	}
	m.float = &floatRun{Float: x, rest: partner, at: subnet.NoRef()}
	return ""
}

// askFloat lists the requests of step 1.
func (m *Machine) askFloat() {
	x := m.float
	if x == nil {
		return
	}
	f := m.chart.f
	f.Port(f.Self).LID, f.Port(f.Self).LMC = x.own.Base, x.own.LMC
	for i := range f.Ports {
		if p := &f.Ports[i]; p.GUID == x.from && p.Has(topo.PortEnd) && p.Has(topo.PortLinked) {
			x.at = ref{Node: p.Node, Port: p.Num}
			p.LID, p.LMC = x.rest.Base, x.rest.LMC
			m.Add(work.Make(work.OpMapPort, p.Peer.Node, p.Peer.Port, 0))
		}
	}
	for _, b := range x.moved.Blocks {
		n, ok := f.Find(x.moved.Graph.Switches[b.Switch].GUID)
		if !ok { // Prepare found all of them
			m.refusal = "a switch is not in what the last master published"
			return
		}
		m.Add(work.Make(work.OpMapBlock, n, 0, uint32(b.Block)))
	}
}

// More begins the next step of a takeover whose first requests have been answered. It reports
// whether one has begun, or is in progress.
func (m *Machine) More() bool {
	x := m.float
	if x == nil || m.refusal != "" {
		return false
	}
	f := m.chart.f
	for x.step < floatDone {
		switch x.step {
		case floatRead:
			x.step = floatFrom
			if x.there {
				m.Add(work.Make(work.OpMapPort, x.at.Node, x.at.Port, 0))
				return true
			}
		case floatFrom:
			x.step = floatGive
			if x.holds {
				m.Add(work.Make(work.OpTell, x.at.Node, x.at.Port, 0))
				return true
			}
		case floatGive:
			x.step = floatTake
			m.Add(work.Make(work.OpTell, f.Self.Node, f.Self.Port, 0))
			return true
		case floatTake:
			x.step, x.stage = floatWrite, -1
		case floatWrite:
			if x.stage >= 0 && x.moved.Stages[x.stage].Drain > 0 {
				x.step, x.until = floatDrains, m.Now.Add(x.moved.Stages[x.stage].Drain)
				return true
			}
			if m.writeStage(); m.Pending > 0 {
				return true
			}
		case floatDrains:
			if m.Now < x.until {
				return true
			}
			x.step = floatWrite
			if m.writeStage(); m.Pending > 0 {
				return true
			}
		}
	}
	return false
}

// Forgo leaves the LIDs where they are, if nothing of the moves has begun.
func (m *Machine) Forgo() {
	if m.float != nil && m.float.step == floatRead {
		m.float = nil
	}
}

// writeStage lists the Sets of the next stage, or notes that there is none.
func (m *Machine) writeStage() {
	x := m.float
	if x.stage++; x.stage == len(x.moved.Stages) {
		x.step = floatDone
		return
	}
	for _, b := range x.moved.Stages[x.stage].Blocks {
		n, _ := m.chart.f.Find(x.moved.Graph.Switches[b.Switch].GUID)
		m.Add(work.Make(work.OpMapWrite, n, 0, uint32(b.Block)))
	}
}

// BuildWrite fills in the content of a block.
func (m *Machine) BuildWrite(it work.Item, set func(ib.AttrID, uint32) []byte) {
	x := m.float
	b := m.block(it)
	var content [route.BlockLen]byte
	x.moved.Block(x.stage, b, &content)
	copy(set(smp.AttrLFT, uint32(b.Block)), content[:])
}

// block is the block that an item is about.
func (m *Machine) block(it work.Item) route.BlockDiff {
	guid := m.chart.f.Nodes[it.Node()].Info.NodeGUID
	for s := range m.float.moved.Graph.Switches {
		if m.float.moved.Graph.Switches[s].GUID == guid {
			return route.BlockDiff{Switch: int32(s), Block: uint16(it.Extra())}
		}
	}
	panic("takeover: an item names a switch that does not change")
}

// blockRead compares what a switch holds with what the predecessor published.
func (m *Machine) blockRead(it work.Item, comp *mad.Completion) {
	b := m.block(it)
	var want [route.BlockLen]byte
	m.float.tables.Block(b.Switch, b.Block, &want)
	where := m.chart.f.Where(it.Node(), -1)
	if err := work.Answer(comp); err != nil {
		m.refusal = fmt.Sprintf("%v does not show its forwarding table: %v", where, err)
	} else if got := smp.Data(comp.MAD)[:route.BlockLen]; !slices.Equal(got, want[:]) {
		m.refusal = fmt.Sprintf("%v has another forwarding table", where)
	}
}

// blockWritten takes the answer to a Set of a block.
func (m *Machine) blockWritten(it work.Item, comp *mad.Completion) {
	if err := work.Answer(comp); err != nil {
		m.refusal = fmt.Sprintf("%v did not take the LID of the manager: %v", m.chart.f.Where(it.Node(), -1), err)
	}
}

// floatPort takes the state of a port that the moves depend on.
func (m *Machine) floatPort(r ref, pi *smp.PortInfo, err error) {
	x := m.float
	if r != x.at { // the switch port before it; without an answer the port itself is asked
		x.there = err != nil || pi.PortState >= ib.StateInit
		return
	}
	if err != nil {
		return // no packet gets there
	}
	m.chart.f.Port(r).Info = *pi
	x.holds = int(pi.LID) < int(x.own.Base)+1<<x.own.LMC && int(x.own.Base) < int(pi.LID)+1<<pi.LMC
}

// floatTold takes the end of the Set of one of the two ports.
func (m *Machine) floatTold(knows bool) {
	x := m.float
	f := m.chart.f
	p := f.Port(f.Self)
	switch {
	case x.step == floatGive && !knows:
		m.refusal = "the port of the last master did not take another LID"
	case x.step == floatTake && !knows:
		m.refusal = "our own port did not take the LID of the manager"
	case x.step == floatTake:
		p.Info.LID, p.Info.LMC, p.Info.MasterSMLID = x.own.Base, x.own.LMC, x.own.Base
	}
}

// floated shows in a snapshot that is made of m.s that the LIDs have moved.
func (m *Machine) floated(s *subnet.Snapshot) {
	x := m.float
	if x == nil {
		return
	}
	var nodes []int32
	for _, k := range []struct {
		port ib.GUID
		r    lid.Range
	}{{x.self, x.own}, {x.from, x.rest}} {
		p := s.Edit(m.s, s.PortByPortGUID(k.port))
		p.LID, p.LMC, p.Info.LID, p.Info.LMC, p.Info.MasterSMLID = k.r.Base, k.r.LMC, k.r.Base, k.r.LMC, x.own.Base
		nodes = append(nodes, p.Node)
	}
	slices.Sort(nodes)
	s.Tables = x.after
	s.Carry(m.s, slices.Compact(nodes))
}

// Floated returns the Float that was carried out, nil for none.
func (m *Machine) Floated() *Float {
	if m.float == nil || m.float.step != floatDone {
		return nil
	}
	return m.float.Float
}
