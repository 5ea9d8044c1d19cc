package install

import (
	"slices"
	"time"

	"heddle/fabric"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/route"
	"heddle/route/move"
	"heddle/route/transition"
	"heddle/sm/config"
	"heddle/sm/forward"
	"heddle/sm/job"
	"heddle/sm/notice"
	"heddle/sm/work"
)

// change is a change of tables under way.
type change struct {
	result *job.Result  // of a sweep; nil: LIDs are moved, or nothing is under way
	moves  *move.Result // of moves; nil: a sweep distributes tables, or nothing is under way
	stages []transition.Stage
	// end is called when it is over: with "" when the last stage was answered, else with what
	// broke it off.
	end func(failed string)

	step  step
	next  int  // of stages, to be written next
	errs  int  // Env.Errs before the stage under way
	again int  // times that blocks of the stage were written again
	told  bool // hosts may learn the new service levels
}

// step is what Continue does next.
type step uint8

const (
	stepDown   step = iota // static2003: take links down
	stepSettle             // wait until they train
	stepRaise              // moves: raise LinearFDBTop over blocks that were just written
	stepWrite              // write a stage
	stepWait               // it is answered: wait, then write the next
	stepTop                // sweep: set LinearFDBTop
	stepDone
)

// settleTime is how long links are given to train after static2003 took them down.
const settleTime = 100 * time.Millisecond

// moveAgain is how often blocks of a move that a switch did not acknowledge are written again,
// each time with all retries.
const moveAgain = 2

// Await is called when tables are wanted that are not written yet: SL-to-VL tables come first.
func (x *Installer) Await(r *job.Result) { x.change = change{result: r} }

// Begin begins the transition that a routing job planned.
func (x *Installer) Begin(r *job.Result, end func(failed string)) {
	x.change = change{result: r, stages: r.Plan.Stages, end: end}
	x.failed, x.current = 0, nil
	x.rememberTables(r)
	for i := range r.Plan.Stages {
		x.lanesUnsure = x.lanesUnsure || len(r.Plan.Stages[i].SL2VL) > 0
	}
	x.sweep.Enter(notice.PhaseDistribute)
}

// BeginMoves begins to move LIDs as a job found for list.
func (x *Installer) BeginMoves(r *move.Result, list []move.Request, end func(failed string)) {
	x.change = change{moves: r, end: end, step: stepRaise, errs: x.Errs}
	for i := range r.Stages {
		st := &r.Stages[i]
		x.change.stages = append(x.change.stages, transition.Stage{LFT: st.Blocks, Drain: st.Drain, DrainHops: st.Hops})
	}
	x.rememberMoves(r, list)
	x.sweep.Enter(notice.PhaseMove)
	if r.Grown {
		x.makeRoom()
	}
}

// Result is what the transition under way, or the last one of this sweep, installs; nil if there
// is none.
func (x *Installer) Result() *job.Result { return x.change.result }

// Stage is the stage that is being written or was written last, -1 before the first.
func (x *Installer) Stage() int { return x.change.next - 1 }

// Complete reports whether all stages were written and all that was sent is acknowledged.
func (x *Installer) Complete() bool {
	return x.change.next >= len(x.change.result.Plan.Stages) && x.failed == 0
}

// Failing reports whether a switch did not take its part of the stage under way.
func (x *Installer) Failing() bool { return x.Errs > x.change.errs }

// Drop forgets a change that is over.
func (x *Installer) Drop() { x.change = change{} }

// Continue takes a change on. It is called when no item is open, and reports whether there is
// more to do now.
func (x *Installer) Continue() bool {
	if x.resumeAt != mad.Never {
		return false
	}
	d := &x.change
	switch d.step {
	case stepDown:
		d.step = stepSettle
		if x.Config.Transition == config.TransitionStatic2003 && len(d.stages) > 0 && !x.Quiet() {
			x.sweep.TakeDown()
		}
	case stepSettle:
		d.step = stepWrite
		if x.sweep.TookDown() > 0 {
			x.sweep.Enter(notice.PhaseDrain)
			x.resumeAt = x.Now.Add(max(x.Config.DrainTime, settleTime))
			return false
		}
	case stepRaise:
		d.step = stepWrite
		x.raise()
	case stepWrite:
		x.write()
	case stepWait:
		return x.wait()
	case stepTop:
		d.step = stepDone
		x.writeTops()
	default:
		x.distributed()
	}
	return true
}

// raise raises LinearFDBTop for LIDs that move to where no LID was before.
func (x *Installer) raise() {
	r := x.change.moves
	if x.Failing() {
		x.breakOff("a switch did not take a block")
		return
	}
	x.sweep.Enter(notice.PhaseMove)
	if !r.Grown {
		return
	}
	for _, ni := range x.Fabric.SwitchNode {
		if x.Fabric.Nodes[ni].LFT.Top < r.Tables.TopLID {
			x.Add(work.Make(work.OpSetSwitch, ni, 0, 3))
		}
	}
}

// makeRoom writes blocks that no switch forwards by yet and whose content is not known, so that
// LinearFDBTop can be raised over them.
func (x *Installer) makeRoom() {
	clear(x.mute)
	for _, ni := range x.Fabric.SwitchNode {
		l := x.Fabric.Nodes[ni].LFT
		for b := range route.RowLen(x.change.moves.Tables.TopLID) / route.BlockLen {
			if !forward.BitGet(l.Known, b) {
				x.Add(work.Make(work.OpSetLFT, ni, 0, uint32(b)))
			}
		}
	}
}

// write writes the next stage. If a switch did not take a block of the one before, it may still
// send by the old entry: the new entries must wait, and the next sweep plans anew.
func (x *Installer) write() {
	d := &x.change
	moves := d.moves != nil
	switch {
	case x.Failing() && moves:
		x.breakOff("a switch did not take its part")
		return
	case x.Failing() && d.next > 0 && d.next < len(d.stages):
		x.WantServed() // what hosts are told until then
		x.breakOff("a switch did not take its part")
		return
	case d.next == len(d.stages) && moves:
		x.moved()
		return
	case d.next == len(d.stages):
		d.told, d.step = true, stepWait
		return
	}
	st := &d.stages[d.next]
	d.next++
	d.step, d.again = stepWait, 0
	clear(x.mute)
	if moves {
		x.sweep.Enter(notice.PhaseMove)
	} else {
		d.told = d.told || d.next == len(d.stages)
		d.errs = x.Errs
		x.sweep.Enter(notice.PhaseDistribute)
		if st.Discards {
			x.sweep.Enter(notice.PhaseDiscard)
		}
		x.sweep.AddLanes(st.SL2VL)
	}
	for _, b := range st.MFT {
		x.counts.Multicast++
		x.Add(work.Make(work.OpSetMFT, x.Fabric.SwitchNode[b.Switch], b.Position, uint32(b.Block)))
	}
	for _, b := range st.LFT {
		x.counts.LFT++
		x.Add(work.Make(work.OpSetLFT, x.Fabric.SwitchNode[b.Switch], 0, uint32(b.Block)))
	}
}

// wait is called when all of a stage is answered.
func (x *Installer) wait() bool {
	d := &x.change
	moves := d.moves != nil
	if moves && x.Failing() && d.again < moveAgain {
		x.rewrite()
		return true
	}
	if d.step = stepTop; moves || d.next < len(d.stages) {
		d.step = stepWrite
	}
	if !moves {
		x.past.Acknowledged(x.Now, d.result.Plan)
	}
	if x.Failing() && (moves || d.next < len(d.stages)) {
		return true // it breaks off: nobody waits, and no host is told anything new
	}
	if d.next == 0 {
		return true
	}
	st := &d.stages[d.next-1]
	if st.Drain <= 0 && st.Repath <= 0 {
		return true
	}
	wait := st.Drain
	if x.Config.DrainTime > 0 && wait > 0 {
		wait = x.Config.DrainTime
	}
	if !moves {
		x.sweep.Enter(notice.PhaseDrain)
	}
	x.hosts = hostWait{}
	if st.Repath > 0 {
		d.told = true
		x.hosts = hostWait{repath: st.Repath, limit: x.Now.Add(wait + 2*st.Repath)}
		x.sweep.PublishTold()
		wait += st.Repath
	}
	x.resumeAt = x.Now.Add(wait)
	return wait <= 0
}

// rewrite writes the blocks of a stage of moves again that are not acknowledged.
func (x *Installer) rewrite() {
	d := &x.change
	d.again++
	d.errs = x.Errs
	clear(x.mute)
	x.sweep.Enter(notice.PhaseMove)
	for _, b := range d.stages[d.next-1].LFT {
		ni := x.Fabric.SwitchNode[b.Switch]
		if !forward.BitGet(x.Fabric.Nodes[ni].LFT.Known, int(b.Block)) {
			x.Add(work.Make(work.OpSetLFT, ni, 0, uint32(b.Block)))
		}
	}
}

// writeTops sets LinearFDBTop and MulticastFDBTop where all of a row is in place.
func (x *Installer) writeTops() {
	x.sweep.Enter(notice.PhaseTop)
	for _, ni := range x.Fabric.SwitchNode {
		n := &x.Fabric.Nodes[ni]
		if (n.LFT.Top != x.wanted.TopLID || n.Switch.MulticastFDBTop != x.MulticastTop(ni)) && x.rowWritten(ni) {
			x.counts.Tops++
			x.Add(work.Make(work.OpSetSwitch, ni, 0, 3))
		}
	}
}

// distributed ends a transition.
func (x *Installer) distributed() {
	d := &x.change
	x.shareRows()
	x.lanes = forward.NewStagedLanes()
	x.served = &job.Solution{Graph: x.Fabric.Graph, Tables: x.wanted}
	if x.sure = x.failed == 0; d.result.Next != nil && d.result.Next.Graph == x.Fabric.Graph {
		x.current = d.result.Next
	}
	if !x.Failing() { // all switches took the last stage, as those before
		x.lanesUnsure = false
	}
	if x.held = d.result.Held; d.result.Plan.NeedsRepath {
		x.heldAt = x.Now
	}
	d.end("")
}

// moved ends moves of LIDs. The end gives the graph its LIDs, and calls Moved.
func (x *Installer) moved() {
	d := &x.change
	x.past.EndMove(x.Now, x.served.Tables, d.moves.Tables)
	d.end("")
}

// Moved makes the tables that LIDs moved to the installed ones, with the graph as it is now.
func (x *Installer) Moved(r *move.Result) {
	was := x.wanted
	x.wanted = r.Tables
	x.follow(was, r.Blocks)
	x.served = &job.Solution{Graph: x.Fabric.Graph, Tables: r.Tables}
	x.current = &job.Solution{Graph: r.Graph, Tables: r.Tables, Proof: r.Proof}
	x.Drop()
}

// breakOff ends a change between two stages.
func (x *Installer) breakOff(why string) {
	end := x.change.end
	if x.change.moves != nil {
		x.Drop()
	}
	end(why)
}

// Stoppable reports whether a transition may be left between or within stages. Where the SL-to-VL
// tables are not known every plan begins with a stop of all traffic, so one is carried through.
func (x *Installer) Stoppable() bool {
	d := &x.change
	return d.result == nil || !d.result.Transition.LanesUnknown || d.next == 0
}

// MayGiveWay reports whether the change under way waits for packets alone, and tables for the same graph can be had
// without a wait.
func (x *Installer) MayGiveWay() bool {
	r := x.change.result
	return r != nil && r.Transition.Force == transition.ModeAuto && !x.WaitsForHosts() && !x.Failing()
}

// GiveWay is called before Stop where MayGiveWay.
func (x *Installer) GiveWay() {
	r := x.change.result
	x.keepRows()
	x.past.Reached(r.Plan, r.Tables, x.Rows())
}

// Stop leaves a change in the middle, because of a fault or of something that does not wait for it. What is not answered is in doubt
// already. It reports whether a switch did not take its part.
func (x *Installer) Stop() (failing bool) {
	d := &x.change
	failing = x.Failing()
	x.resumeAt = mad.Never
	if d.result != nil || x.Phase == notice.PhaseMove {
		x.past.Abandon(x.Now)
	}
	if d.result != nil {
		over := d.stages[:d.next]
		if x.Phase != notice.PhaseDrain && x.Phase != notice.PhaseTop {
			over = over[:max(d.next-1, 0)]
		}
		if slices.ContainsFunc(over, func(s transition.Stage) bool { return s.Repath > 0 }) && x.served != nil {
			// Hosts may have learned the new levels; the old ones stay in use.
			x.held = d.result.Held.Next(x.wanted, fabric.Diff(x.Fabric.Graph, x.served.Graph), 0)
			x.heldAt = x.Now
		}
		x.lanesUnsure = d.result.Transition.LanesUnknown
	}
	x.Drop()
	return failing
}

// fillLinear fills a Set(LinearForwardingTable) with what the stage under way writes to a block.
func (x *Installer) fillLinear(ni int32, block uint16, dst *[route.BlockLen]byte) {
	d := &x.change
	b := route.BlockDiff{Switch: x.Fabric.Nodes[ni].GraphSwitch, Block: block}
	switch {
	case d.moves == nil:
		d.result.Plan.Block(d.next-1, b, dst)
	case d.next == 0: // room below LinearFDBTop: as it is
		x.served.Tables.Block(b.Switch, b.Block, dst)
	default:
		d.moves.Block(d.next-1, b, dst)
	}
}

// fillMulticast fills a Set(MulticastForwardingTable) with what the stage under way writes.
func (x *Installer) fillMulticast(ni int32, block uint16, position uint8, dst []byte) {
	var t smp.MFT
	b := transition.McastBlock{Switch: x.Fabric.Nodes[ni].GraphSwitch, Block: block, Position: position}
	x.change.result.Plan.McastBlock(x.change.next-1, b, (*[smp.MFTBlockMLIDs]uint16)(&t))
	t.Put(dst)
}
