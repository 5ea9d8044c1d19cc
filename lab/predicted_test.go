package lab

import (
	"fmt"
	"slices"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/route"
	"heddle/route/transition"
	"heddle/sim"
	"heddle/sim/dataplane"
	"heddle/sm"
)

// predicted explains every packet that is lost while a manager changes tables. A packet may be lost
//
//   - with a link or a switch that failed, or came back and carries nothing yet, or because no
//     active path leads to its destination any more;
//   - at an entry that the plan under way withholds, or that leads it back (transition.Discards),
//     or at a turn that a guard of the installed tables discards;
//   - because it waited too long, for an output that sent all the time.
//
// It mirrors what switches hold, because losses are reported when the engine catches up with the
// present: before what happens then has its effect.
type predicted struct {
	c    *Cluster
	e    *dataplane.Engine
	stay time.Duration // longest in one switch

	rows   [][]byte            // by node
	fresh  []bool              // by node: came back, and no sweep ended since
	wrote  []bool              // by node: it took a block since it came back
	failed map[fabric.Ref]bool // ports that a failure took down, until they are active again
	active map[fabric.Ref]bool // ports
	guards []bool              // by node: it holds an SL-to-VL table that discards something
	plans  []announced         // that lose packets
	sent   [][]uint64          // packets sent by port (index as in refs), a sample each millisecond
	refs   map[fabric.Ref]int  // ports
	drops  []dataplane.Drop    // not looked at yet
	lost   map[string]int      // by explanation
	loops  int                 // LIDs that were looked at for loops
	down   bool                // the manager may take links down
	risks  []announced         // when a plan that announced a circle permits one
	owner  map[ib.LID]int      // nodes
	ended  map[*Manager]int    // notices seen
	err    error
	began  mad.Time
	struck mad.Time // when the last failure was
}

// announced is a plan that discards, while it is under way and until its last packets have left.
type announced struct {
	period  // until Never: it is not over
	m       *Manager
	sweep   uint64 // finished sweeps when it was made
	entries map[entryAt]transition.Discarded
	static  bool // rows that were not known are cleared, or links taken down
}

// entryAt is an entry of a node that withholds a LID, or leads it back.
type entryAt struct {
	node int
	lid  ib.LID
	back bool
}

func watchLosses(c *Cluster, e *dataplane.Engine, cfg *sm.Config) *predicted {
	w := &predicted{
		c: c, e: e, began: c.Sim.Now(), failed: map[fabric.Ref]bool{}, active: map[fabric.Ref]bool{}, refs: map[fabric.Ref]int{},
		stay: transition.Lifetime(cfg.PacketLife) + transition.Lifetime(max(cfg.HOQLife, cfg.LeafHOQLife)),
		lost: map[string]int{}, down: cfg.Transition == sm.TransitionStatic2003, owner: map[ib.LID]int{}, ended: map[*Manager]int{},
	}
	n := len(c.Fabric.Nodes)
	w.rows, w.fresh, w.wrote, w.guards = make([][]byte, n), make([]bool, n), make([]bool, n), make([]bool, n)
	for i := range n {
		w.read(i)
		w.readGuards(i)
		for p := 1; p <= c.Fabric.Nodes[i].NumPorts; p++ {
			r := fabric.Ref{Node: int32(i), Port: uint8(p)}
			w.refs[r] = len(w.refs)
			w.active[r] = c.Sim.PortInfo(i, p).PortState == ib.StateActive
		}
	}
	for _, l := range c.Sim.LIDs() {
		w.owner[l.LID] = l.Node
	}
	e.SetHooks(dataplane.Hooks{OnDrop: func(d *dataplane.Drop) { w.drops = append(w.drops, *d) }})
	earlier := c.Sim.OnChange
	c.Sim.OnChange = func(ch sim.Change) {
		if earlier != nil {
			earlier(ch)
		}
		w.changed(ch)
	}
	return w
}

// follow takes the plans of a manager.
func (w *predicted) follow(m *Manager) {
	w.ended[m] = len(m.Notices)
	m.OnJob = func(r *sm.JobResult) {
		w.settle()
		w.end(m)
		if r.Plan == nil || r.Move != nil {
			return
		}
		a := announced{m: m, sweep: m.Status().Sweeps, period: period{w.c.Sim.Now(), mad.Never}, entries: map[entryAt]transition.Discarded{}}
		r.Plan.Discards(func(d transition.Discarded) {
			n, _ := w.node(r.Plan.Switch(d.Switch))
			a.entries[entryAt{n, d.LID, d.Back}] = d
		})
		a.static = r.Plan.UnknownRows > 0
		w.plans = append(w.plans, a)
		if r.Plan.Risk != nil {
			a.entries = nil
			w.risks = append(w.risks, a)
		}
	}
}

func (w *predicted) node(g ib.GUID) (int, bool) {
	for i := range w.c.Fabric.Nodes {
		if w.c.Fabric.Nodes[i].GUID == g {
			return i, true
		}
	}
	return -1, false
}

// end closes plans whose sweep was over. One that was broken off leaves what it withheld to
// those that follow.
func (w *predicted) end(m *Manager) {
	for ; w.ended[m] < len(m.Notices); w.ended[m]++ {
		n := &m.Notices[w.ended[m]]
		if n.Kind != sm.KindSweepEnd || n.Report == nil || n.Report.Broken || n.Report.Problems > 0 {
			continue
		}
		for i := range w.fresh {
			w.fresh[i] = w.fresh[i] && !w.wrote[i]
		}
		over := m.Status().Sweeps // finished; notices of an end come after the next sweep's first job
		for i := range w.plans {
			if w.plans[i].until == mad.Never && (w.plans[i].m != m || w.plans[i].sweep < over) {
				w.plans[i].until = w.c.Sim.Now().Add(2 * w.stay)
			}
		}
		for i := range w.risks {
			if w.risks[i].until == mad.Never && (w.risks[i].m != m || w.risks[i].sweep < over) {
				w.risks[i].until = w.c.Sim.Now().Add(2 * w.stay) // it closes, and its packets leave
			}
		}
	}
}

// mayCircle reports whether a plan announced that packets may wait for each other at a time.
func (w *predicted) mayCircle(at mad.Time) bool {
	return slices.ContainsFunc(w.risks, func(a announced) bool { return a.meets(at.Add(-w.stay), at) })
}

func (w *predicted) read(n int) {
	if w.c.Fabric.Nodes[n].IsSwitch() {
		w.rows[n] = w.c.Sim.LFT(n, w.rows[n][:0])
	}
}

func (w *predicted) readGuards(n int) {
	w.guards[n] = false
	ports := uint8(w.c.Fabric.Nodes[n].NumPorts)
	for in := uint8(0); in <= ports && w.c.Fabric.Nodes[n].IsSwitch(); in++ {
		for out := uint8(1); out <= ports; out++ {
			row := w.c.Sim.SLtoVL(n, in, out)
			w.guards[n] = w.guards[n] || slices.Contains(row[:], 15)
		}
	}
}

// changed explains what was lost until now, and takes the change.
func (w *predicted) changed(ch sim.Change) {
	w.settle()
	switch {
	case ch.Kind == sim.ChangeState:
		r := fabric.Ref{Node: int32(ch.Node), Port: ch.Port}
		if w.active[r] = ch.New == ib.StateActive; w.active[r] {
			delete(w.failed, r)
		}
	case ch.Kind == sim.ChangeReset:
		w.fresh[ch.Node], w.wrote[ch.Node] = true, false
		w.read(ch.Node)
		w.readGuards(ch.Node)
	case ch.Attr == smp.AttrLFT || ch.Attr == smp.AttrSwitchInfo:
		w.read(ch.Node)
		w.wrote[ch.Node] = w.wrote[ch.Node] || ch.Attr == smp.AttrLFT
		w.noLoop(ch)
	case ch.Attr == smp.AttrSLtoVL:
		w.readGuards(ch.Node)
	}
}

// fail is called before a failure: these ports go down.
func (w *predicted) fail(node int, ports ...uint8) {
	w.struck = w.c.Sim.Now()
	for _, p := range ports {
		r := fabric.Ref{Node: int32(node), Port: p}
		w.failed[r] = true
		if q := w.c.Fabric.Port(r).Peer; w.c.Fabric.Port(r).Cabled() {
			w.failed[q] = true
		}
	}
}

// noLoop looks for a loop among the entries of the block that a switch took: a packet that meets
// it visits a switch twice on tables that do not change.
func (w *predicted) noLoop(ch sim.Change) {
	if ch.Attr != smp.AttrLFT {
		return
	}
	f := w.c.Fabric
	first := int(ch.AttrMod) * route.BlockLen
	for l := max(first, 1); l < first+route.BlockLen && l < len(w.rows[ch.Node]); l++ {
		at := ch.Node
		w.loops++
		for hops := 0; ; hops++ {
			if l >= len(w.rows[at]) {
				break
			}
			e := w.rows[at][l]
			r := fabric.Ref{Node: int32(at), Port: e}
			if e == 0 || int(e) > f.Nodes[at].NumPorts || !w.active[r] || !f.Nodes[f.Port(r).Peer.Node].IsSwitch() {
				break
			}
			at = int(f.Port(r).Peer.Node)
			if hops > len(f.Nodes) {
				w.wrong("at %v, after block %d of %s: packets to LID %d go round", w.c.Sim.Now(), ch.AttrMod, f.Nodes[ch.Node].ID, l)
				return
			}
		}
	}
}

func (w *predicted) wrong(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf(format, args...)
	}
}

// sample notes what ports have sent; once each millisecond.
func (w *predicted) sample() {
	w.settle()
	now := make([]uint64, len(w.refs))
	for r, i := range w.refs {
		now[i] = w.e.Port(r).XmitPackets
	}
	if w.sent = append(w.sent, now); len(w.sent) > 10 {
		w.sent = w.sent[1:]
	}
}

// settle explains the losses up to now.
func (w *predicted) settle() {
	for i := range w.drops {
		d := &w.drops[i]
		why := w.explain(d)
		if why == "" {
			w.wrong("at %v: nothing predicts that switch %s loses a packet for LID %d at port %d: %v (entry %d)%s",
				d.At, w.c.Fabric.Nodes[d.Port.Node].ID, d.DLID, d.Port.Port, d.Cause, w.entry(d), w.history(int(d.Port.Node), d.DLID))
		}
		w.lost[why]++
	}
	w.drops = w.drops[:0]
}

func (w *predicted) entry(d *dataplane.Drop) byte {
	if row := w.rows[d.Port.Node]; int(d.DLID) < len(row) {
		return row[d.DLID]
	}
	return route.Drop
}

func (w *predicted) explain(d *dataplane.Drop) string {
	n := int(d.Port.Node)
	at := w.began.Add(d.At.Duration())
	switch d.Cause {
	case dataplane.Inactive, dataplane.LostOnWire, dataplane.BadEnd, dataplane.NotReceiving, dataplane.NodeFailed:
		switch {
		case w.failed[d.Port] || w.failed[w.c.Fabric.Port(d.Port).Peer] || !w.c.Sim.Up(n):
			return "failed link or switch"
		case d.Cause == dataplane.BadEnd && at.Sub(w.struck) < time.Millisecond:
			return "failed link or switch" // a switch was passing it on
		case w.down:
			return "links that the manager takes down"
		}
	case dataplane.NoRoute:
		return w.explainRoute(d, at)
	case dataplane.NoLane:
		if w.guards[n] {
			return "guard"
		}
	case dataplane.HeadOfQueue, dataplane.Expired, dataplane.Stalled:
		if w.mayCircle(at) {
			return "announced circle"
		}
		if i, ok := w.refs[d.Port]; ok && len(w.sent) > 5 && w.e.Port(d.Port).XmitPackets > w.sent[len(w.sent)-5][i] {
			return "busy output"
		}
	}
	return ""
}

// explainRoute is explain for a packet that its switch cannot send on.
func (w *predicted) explainRoute(d *dataplane.Drop, at mad.Time) string {
	n := int(d.Port.Node)
	if w.fresh[n] {
		return "switch that came back"
	}
	if !w.reachable(n, d.DLID) {
		return "failed link or switch"
	}
	if w.down {
		return "whole tables" // this policy does not say what it loses
	}
	for _, a := range slices.Backward(w.plans) {
		if at < a.from || at > a.until {
			continue
		}
		back := w.entry(d) != route.Drop
		if _, ok := a.entries[entryAt{n, d.DLID, back}]; ok {
			if back {
				return "entry that leads back"
			}
			return "withheld entry"
		}
		if a.static {
			return "unknown table"
		}
	}
	return ""
}

// reachable reports whether active links lead from a switch to the port that has a LID.
func (w *predicted) reachable(n int, l ib.LID) bool {
	to, ok := w.owner[l]
	f := w.c.Fabric
	seen := make([]bool, len(f.Nodes))
	seen[n] = true
	for queue := []int{n}; ok && len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		if at == to {
			return true
		}
		for p := 1; f.Nodes[at].IsSwitch() && p <= f.Nodes[at].NumPorts; p++ {
			r := fabric.Ref{Node: int32(at), Port: uint8(p)}
			if q := f.Port(r).Peer; w.active[r] && w.active[q] && !seen[q.Node] {
				seen[q.Node] = true
				queue = append(queue, int(q.Node))
			}
		}
	}
	return false
}

// history lists what plans said of an entry.
func (w *predicted) history(n int, l ib.LID) (s string) {
	for _, a := range w.plans {
		s += fmt.Sprintf("\nplan of %v–%v", a.from.Sub(w.began), a.until.Sub(w.began))
		for _, back := range []bool{false, true} {
			if d, ok := a.entries[entryAt{n, l, back}]; ok {
				s += fmt.Sprintf(" %+v", d)
			}
		}
	}
	return s
}
