// Package install writes forwarding tables to switches. The Installer owns what this mastership
// knows of the tables that switches hold, and carries out changes of them: the transition of a
// sweep and the moves of LIDs between sweeps.
//
// A change is a list of stages. The blocks of a stage are written together; the next stage begins
// when all of them are acknowledged and the wait of the stage is over, during which packets leave
// that met earlier entries. A block is known while its last Set or Get was answered. One whose
// Set was not answered is in doubt, and is read back before the next plan is made.
//
//	sweep:  Begin ─► [links down] ─► stage ─► wait ─► stage … ─► LinearFDBTop ─► End("")
//	moves:  BeginMoves ─► [blocks, LinearFDBTop] ─► stage ─► wait ─► stage … ─► End("")
//
// The conductor calls Continue whenever no request of the phase is open, and hands over answers.
package install

import (
	"bytes"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/mad"
	"heddle/route"
	"heddle/route/transition"
	"heddle/sm/env"
	"heddle/sm/forward"
	"heddle/sm/history"
	"heddle/sm/job"
	"heddle/sm/notice"
	"heddle/sm/topo"
)

// Sweep is what the Installer needs of the sweep, or of the phase between sweeps, in which it
// writes.
type Sweep interface {
	// Enter begins a phase. Items are added next.
	Enter(p notice.Phase)
	// ScopeNodes calls fn with every node that the sweep covers.
	ScopeNodes(fn func(ni int32, n *topo.Node))
	// TakeDown takes all links down (static2003), and TookDown is how many it did.
	TakeDown()
	TookDown() int
	// AddLanes puts the SL-to-VL tables of a stage on the work list.
	AddLanes(list []transition.LaneTable)
	// PublishTold publishes Told: hosts may learn of new service levels from now on.
	PublishTold()
	// AuditAt has suspect blocks read again at a time.
	AuditAt(at mad.Time)
	// BlockWritten tells of an acknowledged LFT block of a switch of the graph.
	BlockWritten(s int32, block int)
	// GroupsChanged tells that a block of multicast tables was read, written or forgotten.
	GroupsChanged(block uint16)
}

// Counts is how many Sets a sweep sent.
type Counts struct {
	LFT, Multicast, Tops int
}

// Installer writes tables, and knows what switches hold.
type Installer struct {
	*env.Env
	sweep Sweep

	// What switches hold, by node GUID: read back or acknowledged in this mastership.
	linear    map[ib.GUID]*forward.Linear
	multicast map[ib.GUID]*forward.Multicast
	// lanes are the SL-to-VL tables of a transition that has not ended, lanesUnsure says that one
	// began and did not end.
	lanes       forward.StagedLanes
	lanesUnsure bool

	wanted  *route.Tables // what switches are to hold
	served  *job.Solution // graph and tables last distributed in full
	current *job.Solution // served with the proof; its graph may differ in base LIDs. nil: not proved
	failed  int           // blocks and tops that were not acknowledged in the last distribution
	sure    bool          // every switch acknowledged all of served

	held     *transition.Held // service levels that hosts may use besides those of served
	heldAt   mad.Time         // when that began
	past     *history.History // tables and links that packets in flight may have met
	excluded map[ib.GUID]*excluded

	mute    map[int32]bool // nodes that left a request of the portion under way unanswered
	changed []int32        // switches whose multicast tables changed since the last snapshot
	fitted  fitted

	change   change
	counts   Counts
	resumeAt mad.Time // the wait of a stage is over; Never: there is none
	hosts    hostWait
}

// SetFlight changes the longest time that a packet stays in the subnet, 0 = no limit.
func (x *Installer) SetFlight(d time.Duration) { x.past.SetFlight(d) }

// New returns an Installer that knows nothing. flight is the longest time that a packet stays in
// the subnet; 0: without limit.
func New(e *env.Env, s Sweep, flight time.Duration) *Installer {
	return &Installer{
		Env: e, sweep: s, linear: map[ib.GUID]*forward.Linear{}, multicast: map[ib.GUID]*forward.Multicast{},
		mute: map[int32]bool{}, lanes: forward.NewStagedLanes(), past: history.New(flight), resumeAt: mad.Never,
	}
}

// Reset is for a new mastership: nothing counts as installed.
func (x *Installer) Reset() {
	clear(x.linear)
	clear(x.multicast)
	x.lanes = forward.NewStagedLanes()
	x.served, x.current, x.held = nil, nil, nil
}

// NewSweep is for a sweep that begins.
func (x *Installer) NewSweep() { x.counts, x.resumeAt = Counts{}, mad.Never }

// Counts is what the sweep sent.
func (x *Installer) Counts() Counts { return x.counts }

// Cancel ends a wait: the sweep was given up.
func (x *Installer) Cancel() { x.resumeAt = mad.Never }

// Next is when a wait ends.
func (x *Installer) Next() mad.Time { return x.resumeAt }

// Due ends a wait whose time has come.
func (x *Installer) Due() {
	if x.resumeAt <= x.Now && !x.prolong() {
		x.resumeAt = mad.Never
	}
}

// Wanted are the tables that switches are to hold; nil if there are none.
func (x *Installer) Wanted() *route.Tables { return x.wanted }

// Want sets the tables that switches are to hold.
func (x *Installer) Want(t *route.Tables) { x.wanted = t }

// WantServed drops what is wanted, until the next plan, for the tables last distributed.
func (x *Installer) WantServed() {
	if x.served != nil {
		x.wanted = x.served.Tables
	}
}

// Served is the graph with the tables last distributed in full; nil if there are none.
func (x *Installer) Served() *job.Solution { return x.served }

// Current is Served with its proof; nil if it is not proved.
func (x *Installer) Current() *job.Solution { return x.current }

// Sure reports whether every switch acknowledged all of Served.
func (x *Installer) Sure() bool { return x.sure }

// Regraph gives Served a graph that differs from its own in base LIDs.
func (x *Installer) Regraph(was, now *fabric.Graph) {
	if x.served != nil && x.served.Graph == was {
		x.served = &job.Solution{Graph: now, Tables: x.served.Tables}
	}
}

// Rows returns the installed rows of the switches of the graph, without multicast trees.
func (x *Installer) Rows() *route.Tables {
	x.flatten()
	t := &route.Tables{Engine: "installed", LFT: make([][]byte, len(x.Fabric.Graph.Switches)), NumVLs: 1}
	for s, ni := range x.Fabric.SwitchNode {
		l := x.Fabric.Nodes[ni].LFT
		t.LFT[s] = l.Installed()
		if l != nil {
			t.TopLID = max(t.TopLID, l.Top)
		}
	}
	return t
}

// flatten gives all tables rows, for jobs that route: after moves of LIDs they have bands.
func (x *Installer) flatten() {
	if x.wanted == nil || !x.wanted.Banded() {
		return
	}
	was, flat := x.wanted, x.wanted.Flat()
	x.wanted = flat
	if s := x.served; s != nil && s.Tables == was {
		x.served = &job.Solution{Graph: s.Graph, Tables: flat}
	}
	if s := x.current; s != nil && s.Tables == was {
		x.current = &job.Solution{Graph: s.Graph, Tables: flat, Proof: s.Proof.For(flat)}
	}
	x.past.Flattened(was, flat)
	for _, l := range x.linear {
		l.Flatten(was, flat)
	}
}

// Take joins a switch of a new discovery with what is known of its tables. With reset it shows
// signs of a reset and has lost them; with audit all of it is to be read. It reports whether the
// tables have to be computed anew, and whether somebody else changed LinearFDBTop.
func (x *Installer) Take(ni int32, reset, audit bool) (changed, foreign bool) {
	n := &x.Fabric.Nodes[ni]
	l := x.linear[n.Info.NodeGUID]
	if l == nil {
		l = &forward.Linear{}
		x.linear[n.Info.NodeGUID] = l
	}
	if l.Raised != 0 && n.Switch.LinearFDBTop == l.Raised {
		l.Top = l.Raised // our own Set, over blocks that are known
		l.ForgetAbove(l.Top)
	}
	l.Raised = 0
	if len(l.Known) > 0 && (n.Switch.LinearFDBTop != l.Top || reset) {
		foreign = n.Switch.LinearFDBTop != l.Top && n.Switch.LinearFDBTop != 0
		changed = true
		l.ForgetAll()
	}
	if audit && n.Flags&topo.NodeUnseen == 0 {
		l.ForgetAll()
	}
	l.Top = n.Switch.LinearFDBTop
	n.LFT = l
	m := x.multicast[n.Info.NodeGUID]
	if m == nil {
		m = &forward.Multicast{}
		x.multicast[n.Info.NodeGUID] = m
	}
	n.MFT = m
	if l.Known == nil && (m.Blocks != nil || m.Maybe != nil) {
		for key := range m.Blocks {
			x.multicastChanged(ni, uint16(key))
		}
		for key := range m.Maybe {
			x.multicastChanged(ni, uint16(key))
		}
		m.Forget(changed)
	}
	return changed, foreign
}

// Missing calls fn for each LFT block that a switch forwards by and that is not known. Blocks
// above LinearFDBTop forward nothing and are simply written. A switch whose top is 0 forwards
// nothing at all, so a fresh one is not read.
func (x *Installer) Missing(fn func(ni int32, block int)) {
	x.sweep.ScopeNodes(func(ni int32, n *topo.Node) {
		l := n.LFT
		if n.GraphSwitch < 0 || l == nil || l.Top == 0 || l.Full && int(l.Top) < len(l.Row) {
			return
		}
		last := int(min(l.Top, ib.LID(n.Switch.LinearFDBCap-1))) / route.BlockLen
		for b := 0; b <= last; b++ {
			if !forward.BitGet(l.Known, b) {
				fn(ni, b)
			}
		}
	})
}

// Quiet reports whether no data packet can be in the subnet: no link between switches is Armed
// or Active.
func (x *Installer) Quiet() bool {
	for i := range x.Fabric.Ports {
		p := &x.Fabric.Ports[i]
		if p.Has(topo.PortLinked) && p.Num != 0 && x.Fabric.Nodes[p.Node].IsSwitch() && p.Info.PortState >= ib.StateArmed &&
			x.Fabric.Nodes[p.Peer.Node].IsSwitch() {
			return false
		}
	}
	return true
}

// rowWritten reports whether every wanted block of a switch is known to be in place, so that
// LinearFDBTop may be raised over it.
func (x *Installer) rowWritten(ni int32) bool {
	n := &x.Fabric.Nodes[ni]
	row := x.wanted.LFT[n.GraphSwitch]
	for b := 0; b < len(row)/route.BlockLen; b++ {
		if !forward.BitGet(n.LFT.Known, b) {
			return false
		}
	}
	return true
}

// shareRows lets what is installed point at the wanted rows, which the snapshot holds anyway.
func (x *Installer) shareRows() {
	for s, ni := range x.Fabric.SwitchNode {
		l := x.Fabric.Nodes[ni].LFT
		row := x.wanted.LFT[s]
		if l.Has(row) || !x.rowWritten(ni) {
			continue
		}
		if have := l.Installed(); len(have) >= len(row) && bytes.Equal(have[:len(row)], row) {
			l.Adopt(row)
		}
	}
}

// follow lets what is installed point at the wanted tables, which derive from was by moves that
// wrote blocks: a list by switch, block.
func (x *Installer) follow(was *route.Tables, blocks []route.BlockDiff) {
	if !x.wanted.Banded() {
		x.shareRows()
		return
	}
	var list []uint16
	for s, ni := range x.Fabric.SwitchNode {
		list = list[:0]
		for ; len(blocks) > 0 && blocks[0].Switch <= int32(s); blocks = blocks[1:] {
			list = append(list, blocks[0].Block)
		}
		x.Fabric.Nodes[ni].LFT.Follow(was, x.wanted, int32(s), list)
	}
}

// Top is the LinearFDBTop that switches are to have.
func (x *Installer) Top() ib.LID {
	if x.change.moves != nil {
		return x.change.moves.Tables.TopLID
	}
	return x.wanted.TopLID
}

// MulticastTop is the MulticastFDBTop that a switch is to have: the highest MLID with a tree, so
// that blocks that are not read back forward nothing. Switches that do not have the field, and
// all while there never was a group, keep theirs.
func (x *Installer) MulticastTop(ni int32) ib.LID {
	n := &x.Fabric.Nodes[ni]
	m := x.wanted.Multicast
	if m == nil || len(m.Trees) == 0 || !x.Fabric.PortOf(ni, 0).Info.CapabilityMask.Has(ib.CapIsMulticastFDBTopSupported) {
		return n.Switch.MulticastFDBTop
	}
	return m.Trees[len(m.Trees)-1].MLID
}
