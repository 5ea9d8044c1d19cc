package sm

import (
	"strconv"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route/move"
	"heddle/route/transition"
	"heddle/sm/config"
	"heddle/sm/job"
	"heddle/sm/notice"
)

// LIDs that are to lead to another port take the entries of a LID that is there
// (route/move), without discovery and without the engine, whose last solution stays
// what it was: the next sweep's job updates it, and sees the LIDs at their new owners.
// Where that cannot be done, service levels would change, or a switch does not take a
// block, an ordinary sweep routes them.

// moves is what the phase is about.
type moves struct {
	step moveStep
	list []move.Request
	by   []ib.GUID // the placement whose LID a request moves; 0: that of a function nobody uses
	res  *move.Result
	errs int // Core.errs when it began
}

type moveStep uint8

const (
	moveJob     moveStep = iota
	moveInstall          // the blocks are written
	moveFloat            // ports get LIDs that float, or their own back
)

func (c *Core) startMoveJob() {
	c.routing.jobGen++
	c.routing.jobsOut++
	c.routing.jobLast, c.routing.jobDone = c.routing.jobGen, nil
	in := &job.Moves{Requests: c.moveState.now.list, Options: move.Options{
		SwitchLifetime: transition.Lifetime(c.Config.PacketLife), HOQLife: transition.Lifetime(max(c.Config.HOQLife, c.Config.LeafHOQLife)),
		Unsafe: c.Config.AllowUnsafe, NoWait: c.Config.Transition == config.TransitionAvailability,
	}}
	// Nothing is published while a move waits, so hosts would not learn of other levels.
	if in.Options.NoWait {
		in.Options.Repath, in.Options.RepathTime = true, max(c.Config.RepathTime, 0)
	}
	if c.install.Current() != nil && c.install.Served() != nil && c.install.Current().Tables == c.install.Served().Tables {
		in.Proof = c.install.Current().Proof
	}
	if c.install.Served() != nil && c.install.Served().Graph == c.Fabric.Graph {
		in.Tables = c.install.Served().Tables
		if mc := in.Tables.Multicast; mc != nil {
			in.Options.Groups = job.Accepted(c.groups.Route(), mc)
		}
	}
	c.out.Jobs = append(c.out.Jobs, &job.Job{Gen: c.routing.jobGen, Graph: c.Fabric.Graph, Move: in})
}

// moved takes the phase on when its items are done.
func (c *Core) moved() bool {
	switch c.moveState.now.step {
	case moveFloat:
		c.floatsSet()
		return true
	case moveInstall:
		return c.install.Continue()
	}
	r := c.routing.jobDone
	if r == nil {
		return false
	}
	c.routing.jobDone = nil
	if r.Move == nil {
		c.moveBySweep(r.Err.Error(), false)
		return true
	}
	why := r.Move.Unordered
	if why == "" && !c.install.MovesMix(r.Move) {
		why = "there are several lanes, and hosts or packets may still be on others than the LIDs are to have"
	}
	if why != "" {
		c.moveBySweep(why, false)
		if r.Move.Proof.OK() {
			c.routing.moveAim = &job.Solution{Graph: r.Move.Graph, Tables: r.Move.Tables, Proof: r.Move.Proof}
		}
		return true
	}
	c.moveState.now.res, c.moveState.now.step = r.Move, moveInstall
	if r.Move.Risk != nil {
		c.tellRisk(r.Move)
	}
	c.install.BeginMoves(r.Move, c.moveState.now.list, func(failed string) {
		if failed != "" {
			c.moveBySweep(failed, true)
			return
		}
		c.movesDone()
	})
	return true
}

// tellRisk tells which cycle is possible while the LIDs move.
func (c *Core) tellRisk(r *move.Result) {
	k := notice.NewRisk(r.Risk, func(s int32) ib.GUID { return c.Fabric.Nodes[c.Fabric.SwitchNode[s]].Info.NodeGUID }, c.descOf)
	c.moveState.count.AtRisk++
	c.Notify(notice.Notice{Kind: notice.KindTransientCycle, Level: notice.Warn, Text: k.String()})
	c.placements.AtRisk()
}

// movesDone puts what the switches hold now into force.
func (c *Core) movesDone() {
	m, f := &c.moveState.now, c.Fabric
	c.noteLocal()
	f.Graph = c.withBases(m.res.Graph)
	c.install.Moved(m.res)
	c.shown.moved = true
	for i, g := range m.by {
		if g != 0 && i < len(m.res.Moved) {
			c.placements.Moved(g, m.res.Moved[i].SMPs)
		}
	}
	c.moveState.count.LIDs += uint64(len(m.list))
	c.moveState.count.Blocks += uint64(m.res.Writes)
	c.moveState.count.Unmerged += uint64(m.res.Unmerged)
	c.moveState.count.Batches++
	c.Notify(notice.Notice{Kind: notice.KindMoved, Level: notice.Info, Text: "LIDs moved: " + strconv.Itoa(len(m.list)) + ", LFT blocks: " + strconv.Itoa(m.res.Writes) +
		" (each LID by itself: " + strconv.Itoa(m.res.Unmerged) + "), stages: " + strconv.Itoa(len(m.res.Stages)) + "; " + m.res.Reason})
	c.moveState.now = moves{}
	c.enter(notice.PhaseIdle)
}

// moveBySweep leaves the LIDs to an ordinary sweep: it finds them at their new owners. If
// something was written it reads everything first.
func (c *Core) moveBySweep(why string, full bool) {
	c.Notify(notice.Notice{Kind: notice.KindMoved, Level: notice.Info, Text: "LIDs are routed anew instead of being moved: " + why})
	c.moveState.now, c.routing.moveAim = moves{}, nil
	c.routing.regrant = true
	c.enter(notice.PhaseIdle)
	if full {
		c.AskFullSweep("LIDs of virtual functions moved")
		return
	}
	c.AskSweep("LIDs of virtual functions moved")
}

// whyNoRoute says why a sweep did not route LIDs.
func (c *Core) whyNoRoute() string {
	if c.sweep.refused {
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
