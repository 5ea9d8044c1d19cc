package sm

import (
	"errors"
	"slices"
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/route"
	"heddle/route/transition"
)

var errUnchanged = errors.New("the state did not change")

// distribution is a transition under way.
type distribution struct {
	res    *JobResult // nil: LIDs are moved (moves.go)
	stages []transition.Stage
	block  func(stage int, b route.BlockDiff, dst *[route.BlockLen]byte) // what a stage writes to a block
	stage  int                                                           // stages of distributed, in their order
	next   int                                                           // of stages, to write next
	errs   int                                                           // of the sweep, before the stage under way
	told   bool                                                          // hosts may learn the new service levels
}

// told are the tables that hosts are told of: while new service levels could meet
// entries that they are not proved on, those before.
func (c *Core) told() *route.Tables {
	if d := &c.dist; d.res != nil && !d.told && d.res.Plan != nil && d.res.Plan.NeedsRepath && d.res.installed != nil {
		return d.res.installed
	}
	return c.wanted
}

const (
	stageDown = iota
	stageLowered
	stageWrite // once for each stage of the plan
	stageDrain
	stageTop
	stageDone
)

// takeLFTs joins the switches of a new discovery with what is known of their
// tables. A switch that shows signs of a reset has lost them.
func (c *Core) takeLFTs() {
	f := c.f
	c.scopeNodes(func(ni int32, n *node) {
		if n.gsw < 0 {
			return
		}
		l := c.lfts[n.info.NodeGUID]
		if l == nil {
			l = &lft{}
			c.lfts[n.info.NodeGUID] = l
		}
		p0 := f.portOf(ni, 0)
		if l.raised != 0 && n.sw.LinearFDBTop == l.raised {
			l.top = l.raised // our own Set, over blocks that are known
			l.forgetAbove(l.top)
		}
		l.raised = 0
		if len(l.known) > 0 && (n.sw.LinearFDBTop != l.top || p0.info.LID != p0.lid || p0.info.MasterSMLID != c.smLID() || c.allInit(ni)) {
			if n.sw.LinearFDBTop != l.top && n.sw.LinearFDBTop != 0 {
				c.out.notify(Notice{
					Kind: KindForeignChange, Level: Warn, Where: f.where(ni, -1),
					Text: "LinearFDBTop was changed by somebody else; the table is read back",
				})
			}
			l.forgetAll()
			c.changed = true
		}
		if c.wantAudit && n.flags&nUnseen == 0 {
			l.forgetAll()
		}
		l.top = n.sw.LinearFDBTop
		n.lft = l
		m := c.mfts[n.info.NodeGUID]
		if m == nil {
			m = &mft{}
			c.mfts[n.info.NodeGUID] = m
		}
		n.mft = m
		if l.known == nil && m.blocks != nil {
			for key := range m.blocks {
				c.mftChanged(ni, uint16(key))
			}
			m.blocks = nil
		}
	})
	c.wantAudit = false
}

// allInit reports whether every link of a switch came up anew, as after a
// reset.
func (c *Core) allInit(ni int32) bool {
	any := false
	for i := range c.f.nodePorts(ni) {
		p := c.f.portOf(ni, uint8(i))
		if p.num == 0 || !p.has(pKnown) || p.info.PortState == ib.StateDown {
			continue
		}
		if p.info.PortState >= ib.StateArmed {
			return false
		}
		any = true
	}
	return any
}

// missing calls fn for each block that is in force at a switch and not known.
// Blocks above LinearFDBTop forward nothing and are simply written; a switch
// whose top is 0 forwards nothing at all, so a fresh one is not read.
func (c *Core) missing(fn func(ni int32, b int)) {
	c.scopeNodes(func(ni int32, n *node) {
		l := n.lft
		if n.gsw < 0 || l == nil || l.top == 0 || l.full && int(l.top) < len(l.row) {
			return
		}
		last := int(min(l.top, ib.LID(c.f.nodes[ni].sw.LinearFDBCap-1))) / route.BlockLen
		for b := 0; b <= last; b++ {
			if !bitGet(l.known, b) {
				fn(ni, b)
			}
		}
	})
}

func (c *Core) needReadback() bool {
	need := false
	c.missing(func(int32, int) { need = true })
	c.missingMFT(func(int32, uint16, uint8) { need = true })
	return need || len(c.mix.doubt) > 0
}

// startReadback reads the blocks that are not known. A result of a job that
// still reads the rows is awaited first.
func (c *Core) startReadback() bool {
	c.enter(PhaseReadback)
	return true
}

func (c *Core) readBack() bool {
	if c.jobsOut > 0 {
		return false // a stale job still reads the rows; its result resumes us
	}
	if c.phaseTotal == 0 {
		c.missing(func(ni int32, b int) {
			c.report.BlocksRead++
			c.add(mk(opGetLFT, ni, 0, uint32(b)))
		})
		c.missingMFT(func(ni int32, b uint16, pos uint8) {
			c.report.BlocksRead++
			c.add(mk(opGetMFT, ni, pos, uint32(b)))
		})
		c.doubtedLanes(func(ni int32, k laneKey) { c.add(mk(opBackSL, ni, k.out, uint32(k.in))) })
		if c.pend > 0 {
			return true
		}
	}
	c.enter(PhaseRoute)
	return true
}

func (c *Core) onGetLFT(it item, comp *mad.Completion) {
	n := &c.f.nodes[it.node()]
	err := answer(comp)
	if err != nil || n.lft == nil {
		switch {
		case n.lft == nil:
		case c.phase == PhaseLight: // the audit is still to be made
			bitSet(&n.lft.suspect, int(it.extra()))
			c.auditAt = c.now.Add(suspectTime)
		default:
			c.setFailed(it.node(), -1, "reading back the forwarding table", err)
		}
		return
	}
	b := int(it.extra())
	data := (*[route.BlockLen]byte)(smp.Data(comp.MAD))
	if c.phase == PhaseLight { // audit of a suspect block
		c.audited(it.node(), b, data)
		return
	}
	n.lft.set(b, data, nil)
}

// startDistribution begins a transition.
func (c *Core) startDistribution(r *JobResult) {
	c.dist = distribution{res: r, stages: r.Plan.Stages, block: r.Plan.Block, stage: stageDown}
	c.lftErrs, c.current = 0, nil
	c.rememberTables(r)
	for i := range r.Plan.Stages {
		c.lanesUnsure = c.lanesUnsure || len(r.Plan.Stages[i].SL2VL) > 0
	}
	c.enter(PhaseDistribute)
}

// distributed moves a transition on; each stage's answers are all in before
// the next begins.
func (c *Core) distributed() bool {
	if c.resumeAt != mad.Never {
		return false
	}
	d := &c.dist
	plan := d.res.Plan
	stage := d.stage
	d.stage++
	switch stage {
	case stageDown:
		if c.cfg.Transition == TransitionStatic2003 && len(plan.Stages) > 0 && !c.quiet() {
			c.startDown()
		}
	case stageLowered: // links that were taken down need a moment to train
		if c.report.Downed > 0 {
			c.enter(PhaseDrain)
			c.resumeAt = c.now.Add(max(c.cfg.DrainTime, settleTime))
			return false
		}
	case stageWrite:
		if d.next > 0 && d.next < len(plan.Stages) && c.errs > d.errs {
			// A switch that did not take a block may still send by the old
			// entry, so the new ones must wait: the next sweep plans anew.
			if c.served != nil {
				c.wanted = c.served.tables // what hosts are told until then
			}
			c.endSweep()
			return true
		}
		if d.next == len(plan.Stages) {
			d.told = true
			return true
		}
		st := &plan.Stages[d.next]
		d.next++
		d.told = d.told || d.next == len(plan.Stages)
		d.errs = c.errs
		c.enter(PhaseDistribute)
		if st.Discards {
			c.enter(PhaseDiscard)
		}
		c.stageLanes(st.SL2VL)
		for _, b := range st.MFT {
			c.report.GroupBlocks++
			c.add(mk(opSetMFT, c.f.swNode[b.Switch], b.Position, uint32(b.Block)))
		}
		for _, b := range st.LFT {
			c.report.BlocksSent++
			c.add(mk(opSetLFT, c.f.swNode[b.Switch], 0, uint32(b.Block)))
		}
	case stageDrain:
		c.past.Acknowledged(c.now, d.res.Plan)
		if d.next < len(plan.Stages) {
			d.stage = stageWrite
		}
		if d.next < len(plan.Stages) && c.errs > d.errs {
			return true // it breaks off: nobody waits, and no host is told anything new
		}
		if d.next > 0 && (plan.Stages[d.next-1].Drain > 0 || plan.Stages[d.next-1].Repath > 0) {
			c.enter(PhaseDrain)
			st := &plan.Stages[d.next-1]
			wait := st.Drain
			if c.cfg.DrainTime > 0 && wait > 0 {
				wait = c.cfg.DrainTime
			}
			if st.Repath > 0 {
				d.told = true
				c.publishSweep() // hosts that ask are told the new service levels from now on
				wait += st.Repath
			}
			c.resumeAt = c.now.Add(wait)
			return wait <= 0
		}
	case stageTop:
		c.enter(PhaseTop)
		for _, ni := range c.f.swNode {
			if n := &c.f.nodes[ni]; n.lft.top != c.wanted.TopLID || n.sw.MulticastFDBTop != c.mcastTop(ni) {
				if c.rowWritten(ni) {
					c.report.TopsSent++
					c.add(mk(opSetSwitch, ni, 0, 3))
				}
			}
		}
	default:
		c.shareRows()
		c.mix = newLaneMix()
		c.served = &solution{graph: c.f.graph, tables: c.wanted}
		if c.lftSure = c.lftErrs == 0; d.res.next != nil && d.res.next.graph == c.f.graph {
			c.current = d.res.next
		}
		if d.errs == c.errs { // the last stage was taken by all, as those before
			c.lanesUnsure = false
		}
		if c.held = d.res.held; plan.NeedsRepath {
			c.heldAt = c.now
		}
		return c.startLanes()
	}
	return true
}

// settleTime is how long links are given to train after static2003 took them
// down.
const settleTime = 100 * time.Millisecond

// rowWritten reports whether every wanted block of a switch is known to be in
// place, so that LinearFDBTop may be raised over it.
func (c *Core) rowWritten(ni int32) bool {
	n := &c.f.nodes[ni]
	row := c.wanted.LFT[n.gsw]
	for b := 0; b < len(row)/route.BlockLen; b++ {
		if !bitGet(n.lft.known, b) {
			return false
		}
	}
	return true
}

func (c *Core) buildStage(n int32, b uint16, dst *[route.BlockLen]byte) {
	c.dist.block(c.dist.next-1, route.BlockDiff{Switch: c.f.nodes[n].gsw, Block: b}, dst)
}

// suspectTime is how long a copy of a Set may still wander about in the
// fabric after its answer came.
const suspectTime = 5 * time.Second

func (c *Core) onSetLFT(it item, comp *mad.Completion) {
	n := &c.f.nodes[it.node()]
	l, b := n.lft, int(it.extra())
	if l == nil {
		return
	}
	if err := answer(comp); err != nil {
		l.forget(b) // it may have been applied
		c.lftErrs++
		c.setFailed(it.node(), -1, "Set(LinearForwardingTable)", err)
		return
	}
	var toward []byte
	if c.phase == PhaseMove && c.mv.res != nil && n.gsw >= 0 && int(n.gsw) < len(c.mv.res.Tables.LFT) {
		toward = c.mv.res.Tables.LFT[n.gsw]
	}
	l.set(b, (*[route.BlockLen]byte)(smp.Data(comp.Request)), toward)
	// The network may deliver an older copy of a Set late. Where two writes of
	// one block come close to each other, it is read again later.
	if c.now.Sub(l.wrote) >= suspectTime {
		clear(l.recent)
	}
	if comp.Tries > 1 || bitGet(l.recent, b) {
		bitSet(&l.suspect, b)
		c.auditAt = c.now.Add(suspectTime)
	}
	bitSet(&l.recent, b)
	l.wrote = c.now
	c.repairWritten(n.gsw, b)
}

// onResume continues a transition whose wait is over.
func (c *Core) onResume() {}

// shareRows lets what is installed point at the wanted rows, which the
// snapshot holds anyway.
func (c *Core) shareRows() {
	for s, ni := range c.f.swNode {
		l := c.f.nodes[ni].lft
		row := c.wanted.LFT[s]
		if l.full && len(l.row) == len(row) && &l.row[0] == &row[0] {
			continue
		}
		if len(l.row) >= len(row) && c.rowWritten(ni) && slices.Equal(l.row[:len(row)], row) {
			l.adopt(row)
		}
	}
}

// startDown takes every link down, the farthest first, so that the way to
// each is still there (static2003 only).
func (c *Core) startDown() {
	f := c.f
	c.enter(PhaseDiscard)
	c.reg.wide = c.reg.on
	type far struct {
		hops int
		p    *port
	}
	var list []far
	for i := range f.ports {
		p := &f.ports[i]
		if !p.has(pLinked) || p.num == 0 || p.info.PortState < ib.StateArmed || !f.nodes[p.node].isSwitch() {
			continue
		}
		// Each cable once, from the end that is nearer to us.
		q := f.port(p.peer)
		hp, hq := len(f.agentPath(p.node, p.num)), len(f.agentPath(q.node, q.num))
		if f.nodes[q.node].isSwitch() && (hq < hp || hq == hp && q.node < p.node) {
			continue
		}
		if q.node == f.self.Node {
			continue // the last one cannot be reached once it is down
		}
		list = append(list, far{hp, p})
	}
	slices.SortStableFunc(list, func(a, b far) int { return b.hops - a.hops })
	for _, x := range list {
		c.report.Downed++
		c.add(mk(opDown, x.p.node, x.p.num, 0))
	}
}

// onDownDone: both ends come back in Init, whatever the answer shows.
func (c *Core) onDownDone(it item, comp *mad.Completion) {
	p := c.f.portOf(it.node(), it.port())
	if comp.Err != nil {
		c.setFailed(it.node(), int(it.port()), "taking the link down", comp.Err)
		return
	}
	p.info.PortState = ib.StateInit
	c.f.port(p.peer).info.PortState = ib.StateInit
}
