// Package lidmove is the part of a subnet manager that moves LIDs between sweeps: LIDs of virtual
// functions that get another port, and base LIDs of ports whose LID floats.
//
// A LID that moves takes the entries of a LID at its new port (route/move). Nothing is discovered,
// and the engine's last solution stays what it was: the next sweep's job updates it, and finds
// the LIDs at their new ports. Where a move cannot be proved, where service levels would change,
// or where a switch does not take a block, the LIDs are left to an ordinary sweep.
//
//	Move ─► (a pool runs the job) ─► blocks, in stages (sm/install) ─► the graph has the new owners
//	SetPortLID … ─► Set(PortInfo) of each port ─► the graph has the new base LIDs
//
// Both are the phase PhaseMove. The conductor calls Continue whenever all its requests have completed.
package lidmove

import (
	"strconv"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
	"heddle/route/move"
	"heddle/route/transition"
	"heddle/sm/config"
	"heddle/sm/env"
	"heddle/sm/install"
	"heddle/sm/job"
	"heddle/sm/notice"
	"heddle/sm/topo"
	"heddle/sm/work"
)

// Router runs jobs, and routes LIDs where they cannot be moved.
type Router interface {
	// StartMoves asks for a job. Result takes its result; nil: it is not back.
	StartMoves(m *job.Moves)
	Result() *job.Result
	// MovedLocally tells of moves between ports of one switch.
	MovedLocally(list []move.Request, was, now *fabric.Graph)
	// Regrant has the next sweep route LIDs to their owners; Aim gives it tables to take, if not
	// nil.
	Regrant()
	Aim(s *job.Solution)
	// Slow reports whether hosts may use paths on a slow lane.
	Slow() bool
}

// Groups are the multicast groups.
type Groups interface {
	Route() []route.Group
}

// Placements are the addresses whose LIDs move.
type Placements interface {
	// Moved tells how many SMPs the move of a placement's LID took.
	Moved(placement ib.GUID, smps int)
	// PortsSet tells that ports have taken their LIDs, or that one failed.
	PortsSet(failed bool)
	// AtRisk tells that a transient cycle is possible while LIDs move.
	AtRisk()
}

// Conductor begins phases, and publishes.
type Conductor interface {
	// Enter begins a phase.
	Enter(p notice.Phase)
	// LIDsMoved and BasesChanged tell what the last snapshot lacks: LIDs have other owners, or
	// ports have other base LIDs.
	LIDsMoved()
	BasesChanged()
}

// Needs are the other parts.
type Needs struct {
	Router     Router
	Groups     Groups
	Placements Placements
	Conductor  Conductor
}

// Counts is what moves of LIDs cost so far.
type Counts struct {
	Batches  uint64 // times that LIDs were moved
	LIDs     uint64 // moves of LIDs
	Blocks   uint64 // LFT blocks written for them
	Unmerged uint64 // LFT blocks that would have been written, one move at a time
	AtRisk   uint64 // batches during which a transient cycle was possible
}

// Mover moves LIDs.
type Mover struct {
	*env.Env
	install *install.Installer
	needs   Needs

	now   batch
	count Counts
	// based is the graph that was made last, with the base LIDs that ports have. It is nil after
	// ports got other LIDs.
	based *fabric.Graph
}

// batch is what the phase is about.
type batch struct {
	step step
	list []move.Request
	by   []ib.GUID // the placement whose LID a request moves; 0: that of a function that is not used
	res  *move.Result
	errs int // Env.Errs when it began
}

type step uint8

const (
	stepJob     step = iota // a job computes the moves
	stepInstall             // the blocks are written
	stepPorts               // ports get their LIDs
)

// New returns a Mover.
func New(e *env.Env, in *install.Installer, needs Needs) *Mover {
	return &Mover{Env: e, install: in, needs: needs}
}

// Counts is what moves cost so far.
func (m *Mover) Counts() Counts { return m.count }

// Move begins to move LIDs. placements has the placement of each request, 0 for none.
func (m *Mover) Move(list []move.Request, placements []ib.GUID) {
	m.now = batch{list: list, by: placements, errs: m.Errs}
	m.needs.Conductor.Enter(notice.PhaseMove)
	m.start()
}

// start asks for a job.
func (m *Mover) start() {
	in := &job.Moves{Requests: m.now.list, Options: move.Options{
		SwitchLifetime: transition.Lifetime(m.Config.PacketLife),
		HOQLife:        transition.Lifetime(max(m.Config.HOQLife, m.Config.LeafHOQLife)),
		Unsafe:         m.Config.AllowUnsafe, NoWait: m.Config.Transition == config.TransitionAvailability,
	}}
	// Nothing is published while a move waits, so hosts would not learn of other service levels.
	if in.Options.NoWait {
		in.Options.Repath, in.Options.RepathTime = true, max(m.Config.RepathTime, 0)
	}
	current, served := m.install.Current(), m.install.Served()
	if current != nil && served != nil && current.Tables == served.Tables {
		in.Proof = current.Proof
	}
	if served != nil && served.Graph == m.Fabric.Graph {
		in.Tables = served.Tables
		if mc := in.Tables.Multicast; mc != nil {
			in.Options.Groups = job.Accepted(m.needs.Groups.Route(), mc)
		}
	}
	m.needs.Router.StartMoves(in)
}

// Continue takes the phase on. It reports whether there is more to do now.
func (m *Mover) Continue() bool {
	switch m.now.step {
	case stepPorts:
		m.PortsSet()
		return true
	case stepInstall:
		return m.install.Continue()
	}
	r := m.needs.Router.Result()
	if r == nil {
		return false
	}
	if r.Move == nil {
		m.LeaveToSweep(r.Err.Error(), false)
		return true
	}
	why := r.Move.Unordered
	if why == "" && !m.install.MovesMix(r.Move, m.needs.Router.Slow()) {
		why = "there are several lanes, and hosts or packets may still use others than the LIDs will have"
	}
	if why != "" {
		m.LeaveToSweep(why, false)
		if r.Move.Proof.OK() {
			t := r.Move.Tables.Flat() // sweeps read rows
			m.needs.Router.Aim(&job.Solution{Graph: r.Move.Graph, Tables: t, Proof: r.Move.Proof.For(t)})
		}
		return true
	}
	m.now.res, m.now.step = r.Move, stepInstall
	if r.Move.Risk != nil {
		m.tellRisk(r.Move)
	}
	m.install.BeginMoves(r.Move, m.now.list, func(failed string) {
		if failed != "" {
			m.LeaveToSweep(failed, true)
			return
		}
		m.moved()
	})
	return true
}

// tellRisk reports which cycle is possible while the LIDs move.
func (m *Mover) tellRisk(r *move.Result) {
	k := notice.NewRisk(r.Risk, func(s int32) ib.GUID {
		return m.Fabric.Nodes[m.Fabric.SwitchNode[s]].Info.NodeGUID
	}, m.DescOf)
	m.count.AtRisk++
	m.Notify(notice.Notice{Kind: notice.KindTransientCycle, Level: notice.Warn, Text: k.String()})
	m.needs.Placements.AtRisk()
}

// moved makes what the switches hold now the installed tables.
func (m *Mover) moved() {
	b, res := &m.now, m.now.res
	if res.Local {
		m.needs.Router.MovedLocally(b.list, m.install.Served().Graph, res.Graph)
	}
	m.Fabric.Graph = m.withBases(res.Graph)
	m.install.Moved(res)
	m.needs.Conductor.LIDsMoved()
	for i, g := range b.by {
		if g != 0 && i < len(res.Moved) {
			m.needs.Placements.Moved(g, res.Moved[i].SMPs)
		}
	}
	m.count.LIDs += uint64(len(b.list))
	m.count.Blocks += uint64(res.Writes)
	m.count.Unmerged += uint64(res.Unmerged)
	m.count.Batches++
	m.Notify(notice.Notice{
		Kind: notice.KindMoved, Level: notice.Info,
		Text: "LIDs moved: " + strconv.Itoa(len(b.list)) + ", LFT blocks: " + strconv.Itoa(res.Writes) +
			" (one LID at a time: " + strconv.Itoa(res.Unmerged) + "), stages: " + strconv.Itoa(len(res.Stages)) +
			"; " + res.Reason,
	})
	m.now = batch{}
	m.needs.Conductor.Enter(notice.PhaseIdle)
}

// LeaveToSweep leaves the LIDs to an ordinary sweep, which finds them at their new owners. full has
// it read everything first, because something was written.
func (m *Mover) LeaveToSweep(why string, full bool) {
	m.Notify(notice.Notice{
		Kind: notice.KindMoved, Level: notice.Info,
		Text: "a sweep routes the LIDs, because they cannot be moved: " + why,
	})
	m.now = batch{}
	m.needs.Router.Aim(nil)
	m.needs.Router.Regrant()
	m.needs.Conductor.Enter(notice.PhaseIdle)
	if full {
		m.Sweeper.AskFullSweep("LIDs of virtual functions moved")
		return
	}
	m.Sweeper.AskSweep("LIDs of virtual functions moved")
}

// SetPortLID has a port get its LID if it shows another one. begun says that the phase has begun
// with an earlier port; SetPortLID reports whether it has now.
func (m *Mover) SetPortLID(p *topo.Port, begun bool) bool {
	m.based = nil
	if p.Info.LID == p.LID {
		return begun
	}
	if !begun {
		m.now = batch{step: stepPorts, errs: m.Errs}
		m.needs.Conductor.Enter(notice.PhaseMove)
	}
	m.Add(work.Make(work.OpSetPort, p.Node, p.Num, 0))
	return true
}

// SettingPorts reports whether ports are getting their LIDs.
func (m *Mover) SettingPorts() bool { return m.now.step == stepPorts }

// Writing reports whether blocks of forwarding tables are being written.
func (m *Mover) Writing() bool { return m.now.step == stepInstall }

// PortsSet ends the phase in which ports get their LIDs.
func (m *Mover) PortsSet() {
	failed := m.Errs > m.now.errs
	if m.needs.Placements.PortsSet(failed); failed {
		m.Sweeper.AskFullSweep("a port did not take its LID")
	}
	m.now = batch{}
	m.needs.Conductor.Enter(notice.PhaseIdle)
	was := m.Fabric.Graph
	now := m.withBases(was)
	if now == was {
		return
	}
	m.Fabric.Graph = now
	m.install.Regraph(was, now)
	m.needs.Conductor.BasesChanged()
}

// withBases is a graph with the base LIDs that ports have: the LID of a port may float.
func (m *Mover) withBases(g *fabric.Graph) *fabric.Graph {
	if b := m.based; b != nil && b == m.Fabric.Graph && fabric.SameEndPorts(b, g) {
		m.based = g
		return g
	}
	h := g
	for e, pi := range m.Fabric.EndPort {
		if lid := m.Fabric.Ports[pi].LID; g.EndPorts[e].LID != lid {
			if h == g {
				u := *g
				u.EndPorts = append([]fabric.EndPort(nil), g.EndPorts...)
				h = &u
			}
			h.EndPorts[e].LID = lid
		}
	}
	m.based = h
	return h
}

// Drop gives up what is under way, because its answers will not arrive.
func (m *Mover) Drop() { m.now = batch{} }
