// Package absent keeps what a manager knows of nodes that do not answer.
//
// A node that does not answer has not left the subnet. Its agent may be busy, or locked with a
// foreign M_Key, or a flood may delay its answers, while its links carry data. What hosts own (LIDs,
// memberships, services) ends on evidence that the host has left, never because an answer is
// missing:
//
//   - Evidence that a node left: its last link is down, came up anew (Init), or leads to another
//     node, or nothing joins the node with us any more.
//   - No evidence: a link that has been up since the node was last read, with silence or invalid
//     answers behind it.
//
// Discovery (package discover) therefore keeps each such node as it was last read, an absent node
// (topo.NodeUnseen). Routes to it and through it stay, and nothing is sent to it but a probe in
// each light sweep. Our own node is no exception. Discovery asks the agents behind an absent switch
// through it, because a locked or busy agent does not keep SMPs from passing.
//
// Routing around an absent switch costs the hosts behind it their paths. It is done only where the
// switch costs others theirs: when the switch needs other tables than it has for longer than
// OwesTime, it is excluded. The nodes behind it stay in the subnet without LIDs in use, and what
// their hosts own remains too (subnet.Snapshot.Unsure).
//
// Nodes owns: since when each node is absent, what it owes, the identities that ports claim
// (identity.go), and the veil over what a new master has not seen yet (veil.go). Inputs are the
// answers and the silences that discovery, light sweeps and package hurry report. Outputs are
// judgments about nodes, and what snapshots show of them.
package absent

import (
	"maps"
	"slices"
	"time"

	"heddle/ib"
	"heddle/mad"
	"heddle/sm/env"
	"heddle/sm/lid"
	"heddle/sm/notice"
	"heddle/sm/topo"
	"heddle/sm/vport"
	"heddle/sm/work"
)

// OwesTime is how long an absent switch may need other tables before it is excluded.
const OwesTime = 10 * time.Second

// Keys know the links of earlier managers.
type Keys interface {
	// Neighbors has the stored port GUID behind each switch port. It is empty where no M_Keys
	// are in use.
	Neighbors() map[topo.PortID]ib.GUID
}

// LIDs know which ports have been seen in this mastership.
type LIDs interface {
	Assigned(port ib.GUID) (lid.Range, bool)
}

// VPorts know the virtual ports behind physical ports.
type VPorts interface {
	// Unsure lists the virtual ports that were behind the physical ports of a list.
	Unsure(ports []ib.GUID) []ib.GUID
	All() []*vport.Adapter
}

// Needs are the parts that Nodes depends on.
type Needs struct {
	Keys   Keys
	LIDs   LIDs
	VPorts VPorts
}

// Nodes are the absent nodes of a subnet.
type Nodes struct {
	*env.Env
	needs    Needs
	nodes    map[ib.GUID]*node
	claims   map[topo.PortID]claim
	veiled   bool // not all nodes have been seen in this mastership
	veilNews bool // nodes may have left since the last snapshot
}

// node is an absent node.
type node struct {
	since mad.Time // first silence
	asked mad.Time // last silence
	heard bool     // it has answered: the next sweep asks it
	kept  bool     // discovery put it into the subnet as it was last read
	over  bool     // it answers, or left
	owes  mad.Time // since when it needs other tables; mad.Never: it does not
}

// New returns an empty set.
func New(e *env.Env, needs Needs) *Nodes {
	return &Nodes{Env: e, needs: needs, nodes: map[ib.GUID]*node{}, claims: map[topo.PortID]claim{}}
}

// at is the node with a GUID, which is absent from now on if it was not.
func (a *Nodes) at(g ib.GUID) *node {
	u := a.nodes[g]
	if u == nil {
		u = &node{since: a.Now, owes: mad.Never}
		a.nodes[g] = u
	}
	return u
}

// Silent notes that a node did not answer.
func (a *Nodes) Silent(g ib.GUID) { a.at(g).silent(a.Now) }

func (u *node) silent(now mad.Time) { u.asked, u.heard = now, false }

// SilentBehind notes silence behind port r of a node that was there before.
func (a *Nodes) SilentBehind(r ref) {
	if b, ok := a.WasBehind(r); ok {
		a.Silent(a.Last.Nodes[b.Node].Info.NodeGUID)
	}
}

// Keep notes that a node stays in the subnet although it does not answer.
func (a *Nodes) Keep(g ib.GUID) { a.at(g) }

// Heard notes that a node has answered.
func (a *Nodes) Heard(g ib.GUID) { a.at(g).heard = true }

// Awaited reports whether a node is absent and has not answered yet.
func (a *Nodes) Awaited(g ib.GUID) bool {
	u := a.nodes[g]
	return u != nil && !u.heard
}

// Owes reports whether an absent switch needs other tables and may be excluded for that later.
func (a *Nodes) Owes(g ib.GUID) bool {
	u := a.nodes[g]
	return u != nil && u.owes != mad.Never && a.Now < u.owes.Add(OwesTime)
}

// Overdue reports whether an absent switch is to be excluded because it needs other tables.
func (a *Nodes) Overdue(g ib.GUID) bool {
	u := a.nodes[g]
	return u != nil && u.owes != mad.Never && a.Now >= u.owes.Add(OwesTime)
}

// AskedBefore reports whether nobody answered behind port r a short while ago, and the light
// sweeps will notice when somebody does. Sweeps that are about something else do not wait for the
// same silence again.
func (a *Nodes) AskedBefore(r ref) bool {
	b, ok := a.WasBehind(r)
	if !ok || a.Config.SweepInterval <= 0 {
		return false
	}
	u := a.nodes[a.Last.Nodes[b.Node].Info.NodeGUID]
	return u != nil && !u.heard && a.Now < u.asked.Add(a.Config.SweepInterval+a.Config.SweepInterval/2)
}

// Skips reports whether an item is about an absent node, which is not asked.
func (a *Nodes) Skips(it work.Item) bool {
	n := it.Node()
	if n < 0 || a.Fabric.Nodes[n].Flags&topo.NodeUnseen == 0 {
		return false
	}
	switch it.Op() {
	case work.OpSetSwitch, work.OpSetPort, work.OpPKeys, work.OpSetPKeys, work.OpGetVPKeys, work.OpSetVPKeys, work.OpArm, work.OpActive, work.OpDown, work.OpGetLFT, work.OpSetLFT, work.OpGetMFT, work.OpSetMFT,
		work.OpGetSL, work.OpSetSL, work.OpGetArb, work.OpSetArb, work.OpPortAgain, work.OpLightSwitch, work.OpLightDesc:
		return true
	}
	return false
}

// Skipped is called with an item that was skipped. What a node is to have is compared again when
// the node is read; a switch that needs other tables owes them from now on. Skipped reports whether
// the item was about such tables.
func (a *Nodes) Skipped(it work.Item) bool {
	switch it.Op() {
	case work.OpGetLFT, work.OpSetLFT, work.OpGetMFT, work.OpSetMFT, work.OpGetSL, work.OpSetSL, work.OpGetArb, work.OpSetArb:
	case work.OpSetSwitch:
		if it.Extra() == 1 {
			return false
		}
	default:
		return false
	}
	if u := a.at(a.Fabric.Nodes[it.Node()].Info.NodeGUID); u.owes == mad.Never {
		u.owes = a.Now
	}
	a.Errs++
	p0 := a.Fabric.PortOf(it.Node(), 0)
	if p0.Has(topo.PortFailed) {
		return true // it was reported
	}
	p0.Flags |= topo.PortFailed
	a.Sweeper.Problem(notice.Where{}, notice.Notice{
		Kind: notice.KindSetFailed, Level: notice.Warn, Where: a.Fabric.Where(it.Node(), -1),
		Text: "the switch needs other tables and does not answer; it is excluded from the routing if that lasts for " + OwesTime.String(),
	})
	return true
}

// Settle ends a discovery. It forgets the nodes that answer or have left, and reports those that
// answer again.
func (a *Nodes) Settle() {
	var over []int32
	for g, u := range a.nodes {
		n, ok := a.Fabric.Find(g)
		if ok && a.Fabric.Nodes[n].Flags&topo.NodeUnseen != 0 {
			u.kept = true
			continue
		}
		if ok && u.kept {
			over = append(over, n)
		}
		u.over = true
	}
	slices.Sort(over)
	for _, n := range over {
		u := a.nodes[a.Fabric.Nodes[n].Info.NodeGUID]
		a.Notify(notice.Notice{
			Kind: notice.KindNodeAnswers, Level: notice.Info, Where: a.Fabric.Where(n, -1), Dur: a.Now.Sub(u.since),
			Text: "the node answers again; it stayed in the subnet as it was last read",
		})
	}
	maps.DeleteFunc(a.nodes, func(_ ib.GUID, u *node) bool { return u.over })
}

// AnyExcluded reports whether an absent node is in the subnet and excluded. What is behind it has
// no links that a sweep of a region could follow.
func (a *Nodes) AnyExcluded() bool {
	for g := range a.nodes {
		if n, ok := a.Fabric.Find(g); ok && !a.Fabric.Nodes[n].OK() {
			return true
		}
	}
	return false
}

// Count counts the absent nodes of the subnet; own reports whether ours is one of them.
func (a *Nodes) Count() (n int, own bool) {
	if a.Fabric == nil {
		return 0, false
	}
	for i := range a.Fabric.Nodes {
		if a.Fabric.Nodes[i].Flags&(topo.NodeUnseen|topo.NodeGone) == topo.NodeUnseen {
			n++
			own = own || a.Fabric.Self.Node == int32(i)
		}
	}
	return n, own
}
