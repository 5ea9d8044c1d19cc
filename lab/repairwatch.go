package lab

import (
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/mad"
	"heddle/sim"
	"heddle/sm"
)

// repairPair is a switch with a host, by its node, and a LID.
type repairPair struct {
	node int
	lid  ib.LID
}

// openPair is a pair that is broken.
type openPair struct {
	fault   int // index of the fault that broke it, or that came last
	manager bool
	since   mad.Time
}

// repairWatch accounts for every pair that breaks during a trial, from what
// the simulated switches hold after every write.
type repairWatch struct {
	c     *Cluster
	m     *Manager
	pairs *sim.Pairs

	rows   []RepairFault
	open   map[repairPair]openPair
	dead   map[fabric.Ref]int // ends of failed links, with the fault
	heard  []mad.Time         // by fault: when a trap of a neighbor came in; mad.Never
	struck bool               // a fault is being made

	seen        mad.Time // up to here drains are accounted for
	draining    bool
	sent, wrote int      // before the last fault
	busy        mad.Time // when the manager did something last
	sweep       mad.Time // when the sweep under way, or the last one, began
	swept       bool     // a sweep is under way
	traps       int      // taken so far
	at          map[ib.LID]int32
}

func (w *repairWatch) start() {
	w.at = map[ib.LID]int32{}
	for _, e := range w.c.Sim.LIDs() {
		w.at[e.LID] = int32(e.Node)
	}
	w.traps = len(w.m.Traps)
	w.pairs = w.c.Sim.WatchPairs(w.m.ep.NodeIndex())
	w.pairs.OnPair = w.changed
	w.m.OnStep = w.step
}

// strike makes a fault.
func (w *repairWatch) strike(what string, do func() error) {
	now := w.c.Sim.Now()
	w.account(now)
	w.count()
	w.sent, w.wrote = w.m.Sent, w.m.Writes
	w.rows = append(w.rows, RepairFault{What: what, At: now})
	w.heard = append(w.heard, mad.Never)
	up := w.linksUp()
	w.pairs.Settle()
	w.struck = true
	if err := do(); err != nil {
		panic(err) // the caller drew what is there
	}
	w.pairs.Settle()
	w.struck = false
	for r := range w.linksUp() {
		delete(up, r)
	}
	for r := range up {
		w.dead[r] = len(w.rows) - 1
	}
}

// linksUp are the ports of switches whose link is up.
func (w *repairWatch) linksUp() map[fabric.Ref]bool {
	up := map[fabric.Ref]bool{}
	for n := range w.c.Fabric.Nodes {
		nd := &w.c.Fabric.Nodes[n]
		for p := 1; nd.IsSwitch() && p <= nd.NumPorts; p++ {
			if w.c.Sim.PortInfo(n, p).PortPhysicalState == ib.PhysLinkUp {
				up[fabric.Ref{Node: int32(n), Port: uint8(p)}] = true
			}
		}
	}
	return up
}

// count adds the SMPs sent since the last fault.
func (w *repairWatch) count() {
	if n := len(w.rows); n > 0 {
		w.rows[n-1].SMPs, w.rows[n-1].Writes = w.m.Sent-w.sent, w.m.Writes-w.wrote
	}
}

func (w *repairWatch) changed(at mad.Time, node int, lid ib.LID, was, now sim.PairState) {
	if len(w.rows) == 0 {
		return // before the first fault
	}
	w.account(w.c.Sim.Now())
	key := repairPair{node, lid}
	if o, ok := w.open[key]; ok {
		delete(w.open, key)
		if f := &w.rows[o.fault]; now == sim.PairWorks {
			if took := at.Sub(o.since); o.manager {
				f.ManagerLongest = max(f.ManagerLongest, took)
			} else {
				f.Time = max(f.Time, took)
			}
		}
	}
	if now != sim.PairBroken {
		return
	}
	last := len(w.rows) - 1
	o := openPair{fault: last, since: at}
	switch {
	case w.struck:
		w.rows[last].Broken++
	default:
		n, p := w.pairs.Ends(node, lid)
		f, ok := w.dead[fabric.Ref{Node: int32(n), Port: p}]
		if ok && !w.known(f) {
			o = openPair{fault: f, since: w.rows[f].At}
			w.rows[f].Broken++
			w.rows[f].Late++
			break
		}
		o.manager = true
		w.rows[last].ManagerBroke++
	}
	w.open[key] = o
}

// known reports whether the manager could know of a fault when it began the
// sweep under way: a trap had come, or it had looked at all switches since.
func (w *repairWatch) known(f int) bool {
	return w.heard[f] <= w.sweep || w.sweep > w.rows[f].At.Add(lightTime)
}

// lightTime is how long a light sweep may be off, and take.
const lightTime = 11 * time.Second

// step notes what the manager is doing after a step.
func (w *repairWatch) step() {
	now := w.c.Sim.Now()
	for ; w.traps < len(w.m.Traps); w.traps++ {
		n, ok := w.at[w.m.Traps[w.traps].From.LID]
		for r, f := range w.dead {
			if ok && r.Node == n {
				w.heard[f] = min(w.heard[f], now)
			}
		}
	}
	drain, sweep := false, true
	switch w.m.core.Status().Phase {
	case sm.PhaseDrain, sm.PhaseDiscard:
		drain = true
	case sm.PhaseIdle, sm.PhaseLight:
		sweep = false
	}
	if sweep {
		w.busy = now
		if !w.swept {
			w.sweep = now
		}
	}
	w.swept = sweep
	if drain != w.draining {
		w.account(now)
		w.draining = drain
	}
}

// account adds the time since it was called last to the faults of broken
// pairs, if the manager was draining.
func (w *repairWatch) account(now mad.Time) {
	d := now.Sub(w.seen)
	w.seen = now
	if !w.draining || d <= 0 || len(w.open) == 0 {
		return
	}
	of := make([]bool, len(w.rows))
	for _, o := range w.open {
		of[o.fault] = true
	}
	for i := range of {
		if of[i] {
			w.rows[i].Drain += d
		}
	}
}

// result closes the account.
func (w *repairWatch) result() *RepairResult {
	now := w.c.Sim.Now()
	w.pairs.Settle()
	w.account(now)
	w.count()
	for _, o := range w.open {
		f := &w.rows[o.fault]
		f.Unrepaired++
		if took := now.Sub(o.since); o.manager {
			f.ManagerLongest = max(f.ManagerLongest, took)
		} else {
			f.Time = max(f.Time, took)
		}
	}
	res := &RepairResult{Faults: w.rows}
	if n := len(w.rows); n > 0 {
		res.Settled = max(0, w.busy.Sub(w.rows[n-1].At))
	}
	return res
}
