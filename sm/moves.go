package sm

import (
	"strconv"

	"heddle/fabric"
	"heddle/ib"
	"heddle/mad"
	"heddle/route"
	"heddle/route/move"
	"heddle/route/transition"
	"heddle/sm/config"
	"heddle/sm/forward"
	"heddle/sm/history"
	"heddle/sm/job"
	"heddle/sm/notice"
	"heddle/sm/work"
)

// LIDs that are to lead to another port take the entries of a LID that is there
// (route/move), without discovery and without the engine, whose last solution stays
// what it was: the next sweep's job updates it, and sees the LIDs at their new owners.
// Where that cannot be done, service levels would change, or a switch does not take a
// block, an ordinary sweep routes them.

// moves is what the phase is about.
type moves struct {
	step  moveStep
	list  []move.Request
	by    []ib.GUID // the placement whose LID a request moves; 0: that of a function nobody uses
	res   *move.Result
	errs  int // Core.errs when it began
	again int // times that blocks of the stage were written again
}

type moveStep uint8

const (
	moveJob  moveStep = iota
	moveRoom          // blocks that LinearFDBTop is about to be raised over
	moveTop
	moveStage
	moveDrain
	moveFloat // ports get LIDs that float, or their own back
)

// moveAgain is how often blocks that a switch did not acknowledge are written again, each
// time with all retries.
const moveAgain = 2

func (c *Core) startMoveJob() {
	c.jobGen++
	c.jobsOut++
	c.jobLast, c.jobDone = c.jobGen, nil
	in := &job.Moves{Requests: c.mv.list, Options: move.Options{
		SwitchLifetime: transition.Lifetime(c.Config.PacketLife), HOQLife: transition.Lifetime(max(c.Config.HOQLife, c.Config.LeafHOQLife)),
		Unsafe: c.Config.AllowUnsafe, NoWait: c.Config.Transition == config.TransitionAvailability,
	}}
	// Nothing is published while a move waits, so hosts would not learn of other levels.
	if in.Options.NoWait {
		in.Options.Repath, in.Options.RepathTime = true, max(c.Config.RepathTime, 0)
	}
	if c.current != nil && c.served != nil && c.current.Tables == c.served.Tables {
		in.Proof = c.current.Proof
	}
	if c.served != nil && c.served.Graph == c.Fabric.Graph {
		in.Tables = c.served.Tables
		if mc := in.Tables.Multicast; mc != nil {
			in.Options.Groups = job.Accepted(c.routeGroups(), mc)
		}
	}
	c.out.Jobs = append(c.out.Jobs, &job.Job{Gen: c.jobGen, Graph: c.Fabric.Graph, Move: in})
}

// moved takes the phase on when its items are done.
func (c *Core) moved() bool {
	m := &c.mv
	if c.resumeAt != mad.Never {
		return false
	}
	switch m.step {
	case moveFloat:
		c.floatsSet()
	case moveJob:
		r := c.jobDone
		if r == nil {
			return false
		}
		c.jobDone = nil
		if r.Move == nil {
			c.moveBySweep(r.Err.Error(), false)
			return true
		}
		why := r.Move.Unordered
		if why == "" && !c.levelsStay(r.Move) {
			why = "there are several lanes, and hosts or packets may still be on others than the LIDs are to have"
		}
		if why != "" {
			c.moveBySweep(why, false)
			if r.Move.Proof.OK() {
				c.moveAim = &job.Solution{Graph: r.Move.Graph, Tables: r.Move.Tables, Proof: r.Move.Proof}
			}
			return true
		}
		m.res = r.Move
		if m.res.Risk != nil {
			c.tellRisk(m.res)
		}
		c.dist = distribution{block: c.moveBlock}
		for i := range m.res.Stages {
			st := &m.res.Stages[i]
			c.dist.stages = append(c.dist.stages, transition.Stage{LFT: st.Blocks, Drain: st.Drain, DrainHops: st.Hops})
		}
		c.rememberMove()
		m.step = moveRoom
		c.enter(notice.PhaseMove)
		if m.res.Grown {
			c.makeRoom()
		}
	case moveRoom:
		if c.Errs > m.errs {
			c.moveBySweep("a switch did not take a block", true)
			return true
		}
		m.step = moveTop
		c.enter(notice.PhaseMove)
		if m.res.Grown {
			for _, ni := range c.Fabric.SwitchNode {
				if n := &c.Fabric.Nodes[ni]; n.LFT.Top < m.res.Tables.TopLID {
					c.Add(work.Make(work.OpSetSwitch, ni, 0, 3))
				}
			}
		}
	case moveTop, moveDrain:
		if c.Errs > m.errs {
			c.moveBySweep("a switch did not take its part", true)
			return true
		}
		if c.dist.next == len(c.dist.stages) {
			c.movesDone()
			return true
		}
		st := &c.dist.stages[c.dist.next]
		c.dist.next++
		m.step, m.again = moveStage, 0
		c.enter(notice.PhaseMove)
		for _, b := range st.LFT {
			c.Add(work.Make(work.OpSetLFT, c.Fabric.SwitchNode[b.Switch], 0, uint32(b.Block)))
		}
	case moveStage:
		st := &c.dist.stages[c.dist.next-1]
		if c.Errs > m.errs && m.again < moveAgain {
			m.again++
			m.errs = c.Errs
			c.enter(notice.PhaseMove)
			for _, b := range st.LFT {
				ni := c.Fabric.SwitchNode[b.Switch]
				if !forward.BitGet(c.Fabric.Nodes[ni].LFT.Known, int(b.Block)) {
					c.Add(work.Make(work.OpSetLFT, ni, 0, uint32(b.Block)))
				}
			}
			return true
		}
		m.step = moveDrain
		if wait := st.Drain; wait > 0 && c.Errs == m.errs {
			if c.Config.DrainTime > 0 {
				wait = c.Config.DrainTime
			}
			c.resumeAt = c.Now.Add(wait)
			return false
		}
	}
	return true
}

// tellRisk tells which cycle is possible while the LIDs move.
func (c *Core) tellRisk(r *move.Result) {
	k := notice.NewRisk(r.Risk, func(s int32) ib.GUID { return c.Fabric.Nodes[c.Fabric.SwitchNode[s]].Info.NodeGUID }, c.descOf)
	c.moveCount.AtRisk++
	c.Notify(notice.Notice{Kind: notice.KindTransientCycle, Level: notice.Warn, Text: k.String()})
	c.placements.AtRisk()
}

// levelsStay reports whether this phase may carry a move out where there are several lanes: if
// nothing may be under way on levels or tables that move.New was not given. A sweep gives them.
// What changes no path between switches goes with all of them.
func (c *Core) levelsStay(r *move.Result) bool {
	if t := c.served.Tables; t.SL == nil && t.Lanes == nil {
		return true
	}
	return len(r.Stages) == 0 || r.Local || r.Held == 0 && len(r.Discarded) == 0 && !c.lanesUnsure && !c.levelsHeld() && len(c.past.Recent(c.Now, c.Fabric.Graph)) == 0
}

// makeRoom writes blocks that no switch forwards by yet and whose content is not known,
// so that LinearFDBTop can be raised over them.
func (c *Core) makeRoom() {
	for _, ni := range c.Fabric.SwitchNode {
		l := c.Fabric.Nodes[ni].LFT
		for b := range route.RowLen(c.mv.res.Tables.TopLID) / route.BlockLen {
			if !forward.BitGet(l.Known, b) {
				c.Add(work.Make(work.OpSetLFT, ni, 0, uint32(b)))
			}
		}
	}
}

// moveBlock is what stage k of the move writes to a block; before the first it is what is in
// force.
func (c *Core) moveBlock(k int, b route.BlockDiff, dst *[route.BlockLen]byte) {
	if k < 0 {
		c.served.Tables.Block(b.Switch, b.Block, dst)
		return
	}
	c.mv.res.Block(k, b, dst)
}

// topWanted is the LinearFDBTop that switches are to have.
func (c *Core) topWanted() ib.LID {
	if c.Phase == notice.PhaseMove && c.mv.res != nil {
		return c.mv.res.Tables.TopLID
	}
	return c.wanted.TopLID
}

// recentMoves bounds the memory for tables that packets may remember: a move of one LID
// may leave another row at every switch, and there may be hundreds of moves before the
// first is forgotten. Of more than fit the oldest are left out: a plan for a change of
// routes then counts less than the worst that may be under way, as far as VMs are
// concerned that moved that long ago.
const recentMoves = 256 << 20 // bytes

// mostRecent is how many states that is.
func (c *Core) mostRecent() int {
	t := c.mv.res.Tables
	return min(max(recentMoves/(max(len(t.LFT), 1)*route.RowLen(t.TopLID)), 8), 64)
}

// rememberMove is rememberTables for a move.
func (c *Core) rememberMove() {
	if len(c.mv.res.Stages) == 0 || c.mv.res.Local || c.quiet() {
		return // packets take the same channels before and after
	}
	for _, ni := range c.Fabric.SwitchNode {
		c.Fabric.Nodes[ni].LFT.Shared = true
	}
	hops := history.LongestPath
	if p := c.mv.res.Proof; p != nil {
		hops = min(hops, 2*(p.MaxHops()+1))
	}
	lids := map[ib.LID]bool{}
	for _, q := range c.mv.list {
		lids[q.LID] = true
		if q.Kind == move.Swap {
			lids[q.With] = true
		}
	}
	c.past.BeginMove(c.Now, c.Fabric.Graph, c.served.Tables, c.mv.res.Tables, lids, hops, c.mostRecent()-2)
}

// movesDone puts what the switches hold now into force.
func (c *Core) movesDone() {
	m, f := &c.mv, c.Fabric
	was, now := c.served.Tables, m.res.Tables
	c.past.EndMove(c.Now, was, now)
	c.noteLocal()
	f.Graph = c.withBases(m.res.Graph)
	c.wanted = now
	c.shareRows()
	c.served = &job.Solution{Graph: f.Graph, Tables: now}
	c.current = &job.Solution{Graph: m.res.Graph, Tables: now, Proof: m.res.Proof}
	c.movedSnap = true
	for i, g := range m.by {
		if g != 0 && i < len(m.res.Moved) {
			c.placements.Moved(g, m.res.Moved[i].SMPs)
		}
	}
	c.moveCount.LIDs += uint64(len(m.list))
	c.moveCount.Blocks += uint64(m.res.Writes)
	c.moveCount.Unmerged += uint64(m.res.Unmerged)
	c.moveCount.Batches++
	c.Notify(notice.Notice{Kind: notice.KindMoved, Level: notice.Info, Text: "LIDs moved: " + strconv.Itoa(len(m.list)) + ", LFT blocks: " + strconv.Itoa(m.res.Writes) +
		" (each LID by itself: " + strconv.Itoa(m.res.Unmerged) + "), stages: " + strconv.Itoa(len(m.res.Stages)) + "; " + m.res.Reason})
	c.mv = moves{}
	c.enter(notice.PhaseIdle)
}

// moveBySweep leaves the LIDs to an ordinary sweep: it finds them at their new owners. If
// something was written it reads everything first.
func (c *Core) moveBySweep(why string, full bool) {
	c.Notify(notice.Notice{Kind: notice.KindMoved, Level: notice.Info, Text: "LIDs are routed anew instead of being moved: " + why})
	c.mv, c.moveAim = moves{}, nil
	c.regrant = true
	c.enter(notice.PhaseIdle)
	if full {
		c.AskFullSweep("LIDs of virtual functions moved")
		return
	}
	c.AskSweep("LIDs of virtual functions moved")
}

// whyNoRoute says why a sweep did not route LIDs.
func (c *Core) whyNoRoute() string {
	if c.refused {
		return "no engine has tables that may be installed"
	}
	return "some switch did not take its part of the forwarding tables, or the port is cut off"
}

// withBases is the graph with the base LIDs that ports have: one whose LID floats has that.
func (c *Core) withBases(g *fabric.Graph) *fabric.Graph {
	h := g
	for e, pi := range c.Fabric.EndPort {
		if lid := c.Fabric.Ports[pi].LID; g.EndPorts[e].LID != lid {
			if h == g {
				u := *g
				u.EndPorts = append([]fabric.EndPort(nil), g.EndPorts...)
				h = &u
			}
			h.EndPorts[e].LID = lid
		}
	}
	return h
}
