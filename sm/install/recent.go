package install

import (
	"time"

	"heddle/ib"
	"heddle/route"
	"heddle/route/move"
	"heddle/route/transition"
	"heddle/sm/history"
	"heddle/sm/job"
)

// recentMoves bounds the memory for tables that packets in flight may have met. A move of one LID
// may leave another row at every switch, and there may be hundreds of moves before the first is
// forgotten. Of more than fit the oldest are left out: a plan for a change of routes then counts
// less than the worst that may be in flight, as far as VMs are concerned that moved that long ago.
const recentMoves = 256 << 20 // bytes

// rememberTables is called before a transition writes anything.
func (x *Installer) rememberTables(r *job.Result) {
	if len(r.Plan.Stages) == 0 || r.Installed == nil || r.Plan.SMPs == 0 && !r.Plan.NeedsRepath {
		return // what packets meet stays
	}
	if r.Transition.Quiet {
		x.past.Forget() // there are no packets that could remember anything
		return
	}
	x.keepRows()
	// A path by entries of two states goes by each at most as far as its own do.
	hops := history.LongestPath
	if r.Report != nil {
		hops = min(hops, 2*(r.Report.MaxHops+1))
	}
	steps := []*route.Tables{r.Installed, r.Tables}
	if f := r.Plan.Fitted; f != nil && f.First != nil && f.First != r.Installed && f.First != f.Tables {
		steps = []*route.Tables{r.Installed, f.First, r.Tables}
	}
	x.past.Begin(x.Fabric.Graph, r.Plan, hops, steps...)
}

// rememberMoves is rememberTables for moves.
func (x *Installer) rememberMoves(r *move.Result, list []move.Request) {
	if len(r.Stages) == 0 || r.Local || x.Quiet() {
		return // packets take the same channels before and after
	}
	x.keepRows()
	hops := history.LongestPath
	if p := r.Proof; p != nil {
		hops = min(hops, 2*(p.MaxHops()+1))
	}
	lids := map[ib.LID]bool{}
	for _, q := range list {
		lids[q.LID] = true
		if q.Kind == move.Swap {
			lids[q.With] = true
		}
	}
	t := r.Tables
	most := min(max(recentMoves/(max(t.Switches(), 1)*route.RowLen(t.TopLID)), 8), 64)
	x.past.BeginMove(x.Now, x.Fabric.Graph, x.served.Tables, t, lids, hops, most-2)
}

// keepRows: rows that are remembered are not written into.
func (x *Installer) keepRows() {
	for _, ni := range x.Fabric.SwitchNode {
		if l := x.Fabric.Nodes[ni].LFT; l != nil {
			l.Shared = true
		}
	}
}

// Recent are the tables that packets in flight may have met.
func (x *Installer) Recent() []transition.Recent { return x.past.Recent(x.Now, x.Fabric.Graph) }

// LostLinks are the links that packets in flight may have come over until they were lost.
func (x *Installer) LostLinks() []transition.LeftCable {
	if x.served == nil {
		return x.past.Lost(x.Now, nil, x.Fabric.Graph)
	}
	return x.past.Lost(x.Now, x.served.Graph, x.Fabric.Graph)
}

// Held are the service levels that hosts may use besides those of the installed tables; nil if
// there are none any more.
func (x *Installer) Held() *transition.Held {
	if !x.levelsHeld() {
		return nil
	}
	return x.held
}

// Flight is the longest time that a packet stays in the subnet; 0: it is not known.
func (x *Installer) Flight() time.Duration { return x.past.Flight() }

// levelsHeld reports whether hosts may use other service levels than those of the installed
// tables, or packets may still be in flight on them.
func (x *Installer) levelsHeld() bool {
	return x.held != nil && (x.Config.RepathTime <= 0 || x.Now.Sub(x.heldAt) < x.Config.RepathTime+x.past.Flight())
}

// Remembered is how long packets, or hosts with service levels that they learned earlier, stand
// for tables before the installed ones; 0 if none do, or if they always will.
func (x *Installer) Remembered() (d time.Duration) {
	d = x.past.Left(x.Now)
	if x.levelsHeld() && x.Config.RepathTime > 0 {
		d = max(d, x.heldAt.Add(x.Config.RepathTime+x.past.Flight()).Sub(x.Now))
	}
	return d
}

// LeftAfter is how long packets that meet tables now remember them: on one lane for two switches
// (transition.Recent), else for a path.
func (x *Installer) LeftAfter() time.Duration {
	worst := x.past.Flight()
	if x.wanted != nil && x.wanted.NumVLs <= 1 {
		return 2 * worst / history.LongestPath
	}
	return worst / 4
}

// MovesMix reports whether moves may be carried out where there are several lanes: if nothing may
// be in flight on levels or tables that move.New was not given. A sweep gives them. Moves that
// change no path between switches mix with everything. slow says that hosts may use paths on a slow
// lane, whose levels move.New does not know either.
func (x *Installer) MovesMix(r *move.Result, slow bool) bool {
	if t := x.served.Tables; t.SL == nil && t.Lanes == nil {
		return true
	}
	return len(r.Stages) == 0 || r.Local ||
		r.Held == 0 && len(r.Discarded) == 0 && !slow && !x.lanesUnsure && !x.levelsHeld() && !x.past.Any(x.Now)
}
