package sm

import (
	"slices"
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/route"
	"heddle/route/transition"
	"heddle/sm/config"
	"heddle/sm/forward"
	"heddle/sm/job"
	"heddle/sm/notice"
	"heddle/sm/topo"
	"heddle/sm/work"
)

// distribution is a transition under way.
type distribution struct {
	res    *job.Result // nil: LIDs are moved (moves.go)
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
	if d := &c.dist; d.res != nil && !d.told && d.res.Plan != nil && d.res.Plan.NeedsRepath && d.res.Installed != nil {
		return d.res.Installed
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
	f := c.Fabric
	c.scopeNodes(func(ni int32, n *topo.Node) {
		if n.GraphSwitch < 0 {
			return
		}
		l := c.lfts[n.Info.NodeGUID]
		if l == nil {
			l = &forward.Linear{}
			c.lfts[n.Info.NodeGUID] = l
		}
		p0 := f.PortOf(ni, 0)
		if l.Raised != 0 && n.Switch.LinearFDBTop == l.Raised {
			l.Top = l.Raised // our own Set, over blocks that are known
			l.ForgetAbove(l.Top)
		}
		l.Raised = 0
		lost := len(l.Known) > 0 && (n.Switch.LinearFDBTop != l.Top || p0.Info.LID != p0.LID || p0.Info.MasterSMLID != c.smLID() || c.allInit(ni))
		if lost {
			if n.Switch.LinearFDBTop != l.Top && n.Switch.LinearFDBTop != 0 {
				c.Notify(notice.Notice{
					Kind: notice.KindForeignChange, Level: notice.Warn, Where: f.Where(ni, -1),
					Text: "LinearFDBTop was changed by somebody else; the table is read back",
				})
			}
			l.ForgetAll()
			c.changed = true
		}
		if c.wantAudit && n.Flags&topo.NodeUnseen == 0 {
			l.ForgetAll()
		}
		l.Top = n.Switch.LinearFDBTop
		n.LFT = l
		m := c.mfts[n.Info.NodeGUID]
		if m == nil {
			m = &forward.Multicast{}
			c.mfts[n.Info.NodeGUID] = m
		}
		n.MFT = m
		if l.Known == nil && (m.Blocks != nil || m.Maybe != nil) {
			for key := range m.Blocks {
				c.mftChanged(ni, uint16(key))
			}
			for key := range m.Maybe {
				c.mftChanged(ni, uint16(key))
			}
			m.Forget(lost)
		}
	})
	c.wantAudit = false
}

// allInit reports whether every link of a switch came up anew, as after a
// reset.
func (c *Core) allInit(ni int32) bool {
	any := false
	for i := range c.Fabric.NodePorts(ni) {
		p := c.Fabric.PortOf(ni, uint8(i))
		if p.Num == 0 || !p.Has(topo.PortKnown) || p.Info.PortState == ib.StateDown {
			continue
		}
		if p.Info.PortState >= ib.StateArmed {
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
	c.scopeNodes(func(ni int32, n *topo.Node) {
		l := n.LFT
		if n.GraphSwitch < 0 || l == nil || l.Top == 0 || l.Full && int(l.Top) < len(l.Row) {
			return
		}
		last := int(min(l.Top, ib.LID(c.Fabric.Nodes[ni].Switch.LinearFDBCap-1))) / route.BlockLen
		for b := 0; b <= last; b++ {
			if !forward.BitGet(l.Known, b) {
				fn(ni, b)
			}
		}
	})
}

func (c *Core) needReadback() bool {
	need := false
	c.missing(func(int32, int) { need = true })
	c.missingMFT(func(int32, uint16, uint8) { need = true })
	return need || len(c.mix.Doubt) > 0
}

// startReadback reads the blocks that are not known. A result of a job that
// still reads the rows is awaited first.
func (c *Core) startReadback() bool {
	c.enter(notice.PhaseReadback)
	return true
}

func (c *Core) readBack() bool {
	if c.jobsOut > 0 {
		return false // a stale job still reads the rows; its result resumes us
	}
	if c.Total == 0 {
		c.missing(func(ni int32, b int) {
			c.report.BlocksRead++
			c.Add(work.Make(work.OpGetLFT, ni, 0, uint32(b)))
		})
		c.missingMFT(func(ni int32, b uint16, pos uint8) {
			c.report.BlocksRead++
			c.Add(work.Make(work.OpGetMFT, ni, pos, uint32(b)))
		})
		c.doubtedLanes(func(ni int32, k forward.LaneKey) { c.Add(work.Make(work.OpBackSL, ni, k.Out, uint32(k.In))) })
		if c.Pending > 0 {
			return true
		}
	}
	c.enter(notice.PhaseRoute)
	return true
}

func (c *Core) onGetLFT(it work.Item, comp *mad.Completion) {
	n := &c.Fabric.Nodes[it.Node()]
	err := work.Answer(comp)
	if err != nil || n.LFT == nil {
		switch {
		case n.LFT == nil:
		case c.Phase == notice.PhaseLight: // the audit is still to be made
			forward.BitSet(&n.LFT.Suspect, int(it.Extra()))
			c.auditAt = c.Now.Add(mad.LateCopy)
		default:
			c.SetFailed(it.Node(), -1, "reading back the forwarding table", err)
		}
		return
	}
	b := int(it.Extra())
	data := (*[route.BlockLen]byte)(smp.Data(comp.MAD))
	if c.Phase == notice.PhaseLight { // audit of a suspect block
		c.audited(it.Node(), b, data)
		return
	}
	n.LFT.Set(b, data, nil)
}

// startDistribution begins a transition.
func (c *Core) startDistribution(r *job.Result) {
	c.dist = distribution{res: r, stages: r.Plan.Stages, block: r.Plan.Block, stage: stageDown}
	c.lftErrs, c.current = 0, nil
	c.rememberTables(r)
	for i := range r.Plan.Stages {
		c.lanesUnsure = c.lanesUnsure || len(r.Plan.Stages[i].SL2VL) > 0
	}
	c.enter(notice.PhaseDistribute)
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
		if c.Config.Transition == config.TransitionStatic2003 && len(plan.Stages) > 0 && !c.quiet() {
			c.startDown()
		}
	case stageLowered: // links that were taken down need a moment to train
		if c.report.Downed > 0 {
			c.enter(notice.PhaseDrain)
			c.resumeAt = c.Now.Add(max(c.Config.DrainTime, settleTime))
			return false
		}
	case stageWrite:
		if d.next > 0 && d.next < len(plan.Stages) && c.Errs > d.errs {
			// A switch that did not take a block may still send by the old
			// entry, so the new ones must wait: the next sweep plans anew.
			if c.served != nil {
				c.wanted = c.served.Tables // what hosts are told until then
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
		d.errs = c.Errs
		c.enter(notice.PhaseDistribute)
		if st.Discards {
			c.enter(notice.PhaseDiscard)
		}
		c.stageLanes(st.SL2VL)
		for _, b := range st.MFT {
			c.report.GroupBlocks++
			c.Add(work.Make(work.OpSetMFT, c.Fabric.SwitchNode[b.Switch], b.Position, uint32(b.Block)))
		}
		for _, b := range st.LFT {
			c.report.BlocksSent++
			c.Add(work.Make(work.OpSetLFT, c.Fabric.SwitchNode[b.Switch], 0, uint32(b.Block)))
		}
	case stageDrain:
		c.past.Acknowledged(c.Now, d.res.Plan)
		if d.next < len(plan.Stages) {
			d.stage = stageWrite
		}
		if d.next < len(plan.Stages) && c.Errs > d.errs {
			return true // it breaks off: nobody waits, and no host is told anything new
		}
		if d.next > 0 && (plan.Stages[d.next-1].Drain > 0 || plan.Stages[d.next-1].Repath > 0) {
			c.enter(notice.PhaseDrain)
			st := &plan.Stages[d.next-1]
			wait := st.Drain
			if c.Config.DrainTime > 0 && wait > 0 {
				wait = c.Config.DrainTime
			}
			if st.Repath > 0 {
				d.told = true
				c.publishSweep() // hosts that ask are told the new service levels from now on
				wait += st.Repath
			}
			c.resumeAt = c.Now.Add(wait)
			return wait <= 0
		}
	case stageTop:
		c.enter(notice.PhaseTop)
		for _, ni := range c.Fabric.SwitchNode {
			if n := &c.Fabric.Nodes[ni]; n.LFT.Top != c.wanted.TopLID || n.Switch.MulticastFDBTop != c.mcastTop(ni) {
				if c.rowWritten(ni) {
					c.report.TopsSent++
					c.Add(work.Make(work.OpSetSwitch, ni, 0, 3))
				}
			}
		}
	default:
		c.shareRows()
		c.mix = forward.NewStagedLanes()
		c.served = &job.Solution{Graph: c.Fabric.Graph, Tables: c.wanted}
		if c.lftSure = c.lftErrs == 0; d.res.Next != nil && d.res.Next.Graph == c.Fabric.Graph {
			c.current = d.res.Next
		}
		if d.errs == c.Errs { // the last stage was taken by all, as those before
			c.lanesUnsure = false
		}
		if c.held = d.res.Held; plan.NeedsRepath {
			c.heldAt = c.Now
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
	n := &c.Fabric.Nodes[ni]
	row := c.wanted.LFT[n.GraphSwitch]
	for b := 0; b < len(row)/route.BlockLen; b++ {
		if !forward.BitGet(n.LFT.Known, b) {
			return false
		}
	}
	return true
}

func (c *Core) buildStage(n int32, b uint16, dst *[route.BlockLen]byte) {
	c.dist.block(c.dist.next-1, route.BlockDiff{Switch: c.Fabric.Nodes[n].GraphSwitch, Block: b}, dst)
}

func (c *Core) onSetLFT(it work.Item, comp *mad.Completion) {
	n := &c.Fabric.Nodes[it.Node()]
	l, b := n.LFT, int(it.Extra())
	if l == nil {
		return
	}
	if err := work.Answer(comp); err != nil {
		l.Forget(b) // it may have been applied
		c.lftErrs++
		c.SetFailed(it.Node(), -1, "Set(LinearForwardingTable)", err)
		return
	}
	var toward []byte
	if c.Phase == notice.PhaseMove && c.mv.res != nil && n.GraphSwitch >= 0 && int(n.GraphSwitch) < len(c.mv.res.Tables.LFT) {
		toward = c.mv.res.Tables.LFT[n.GraphSwitch]
	}
	l.Set(b, (*[route.BlockLen]byte)(smp.Data(comp.Request)), toward)
	// The network may deliver an older copy of a Set late. Where two writes of
	// one block come close to each other, it is read again later.
	if c.Now.Sub(l.Wrote) >= mad.LateCopy {
		clear(l.Recent)
	}
	if comp.Tries > 1 || forward.BitGet(l.Recent, b) {
		forward.BitSet(&l.Suspect, b)
		c.auditAt = c.Now.Add(mad.LateCopy)
	}
	forward.BitSet(&l.Recent, b)
	l.Wrote = c.Now
	c.repairWritten(n.GraphSwitch, b)
}

// onResume continues a transition whose wait is over.
func (c *Core) onResume() {}

// shareRows lets what is installed point at the wanted rows, which the
// snapshot holds anyway.
func (c *Core) shareRows() {
	for s, ni := range c.Fabric.SwitchNode {
		l := c.Fabric.Nodes[ni].LFT
		row := c.wanted.LFT[s]
		if l.Full && len(l.Row) == len(row) && &l.Row[0] == &row[0] {
			continue
		}
		if len(l.Row) >= len(row) && c.rowWritten(ni) && slices.Equal(l.Row[:len(row)], row) {
			l.Adopt(row)
		}
	}
}

// startDown takes every link down, the farthest first, so that the way to
// each is still there (static2003 only).
func (c *Core) startDown() {
	f := c.Fabric
	c.enter(notice.PhaseDiscard)
	c.reg.wide = c.reg.on
	type far struct {
		hops int
		p    *topo.Port
	}
	var list []far
	for i := range f.Ports {
		p := &f.Ports[i]
		if !p.Has(topo.PortLinked) || p.Num == 0 || p.Info.PortState < ib.StateArmed || !f.Nodes[p.Node].IsSwitch() {
			continue
		}
		// Each cable once, from the end that is nearer to us.
		q := f.Port(p.Peer)
		hp, hq := len(f.AgentPath(p.Node, p.Num)), len(f.AgentPath(q.Node, q.Num))
		if f.Nodes[q.Node].IsSwitch() && (hq < hp || hq == hp && q.Node < p.Node) {
			continue
		}
		if q.Node == f.Self.Node {
			continue // the last one cannot be reached once it is down
		}
		list = append(list, far{hp, p})
	}
	slices.SortStableFunc(list, func(a, b far) int { return b.hops - a.hops })
	for _, x := range list {
		c.report.Downed++
		c.Add(work.Make(work.OpDown, x.p.Node, x.p.Num, 0))
	}
}

// onDownDone: both ends come back in Init, whatever the answer shows.
func (c *Core) onDownDone(it work.Item, comp *mad.Completion) {
	p := c.Fabric.PortOf(it.Node(), it.Port())
	if comp.Err != nil {
		c.SetFailed(it.Node(), int(it.Port()), "taking the link down", comp.Err)
		return
	}
	p.Info.PortState = ib.StateInit
	c.Fabric.Port(p.Peer).Info.PortState = ib.StateInit
}
