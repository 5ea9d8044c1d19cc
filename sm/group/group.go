// Package group is the part of a subnet manager that keeps the multicast groups: which of them are
// routed, at which ports their members are, and which trees the switches hold. The trees
// themselves are computed by package route/mcast and written by sm/install.
package group

import (
	"cmp"
	"slices"
	"strconv"

	"heddle/fabric"
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/route"
	"heddle/sm/env"
	"heddle/sm/forward"
	"heddle/sm/job"
	"heddle/sm/notice"
	"heddle/sm/work"
	"heddle/subnet"
)

// Locator knows where members are that are no end ports of the graph.
type Locator interface {
	// PortOf returns the port behind which a virtual port or an alias GUID is; 0 for none.
	PortOf(member ib.GUID) ib.GUID
}

// Tables knows the installed tables.
type Tables interface {
	// Served is the graph with the tables last distributed in full; nil if there are none.
	Served() *job.Solution
}

// Groups are the multicast groups of the subnet.
type Groups struct {
	*env.Env
	where  Locator
	tables Tables

	list     []subnet.Group // ascending MLID
	memberAt memberMemo
	held     heldTrees
}

// New returns the groups of a manager that has none.
func New(e *env.Env, where Locator, tables Tables) *Groups {
	return &Groups{Env: e, where: where, tables: tables}
}

// Set replaces the groups.
func (gs *Groups) Set(groups []subnet.Group) {
	gs.list = slices.Clone(groups)
	slices.SortStableFunc(gs.list, func(a, b subnet.Group) int { return cmp.Compare(a.MLID, b.MLID) })
}

// Reset is for a new mastership: no switch is known to hold a tree.
func (gs *Groups) Reset() { gs.held = heldTrees{} }

// BlockChanged is called when a block of a multicast table was read, written or forgotten.
func (gs *Groups) BlockChanged(block uint16) {
	if gs.held.blocks != nil {
		gs.held.blocks[block] = true
	}
}

// Moved reports whether a member that is no end port came, went or moved since the last Moved.
// The groups have to be routed anew then.
func (gs *Groups) Moved() bool {
	if !gs.memberAt.moved {
		return false
	}
	gs.memberAt = memberMemo{}
	return true
}

// firstMLID is the lowest multicast LID; a block of a switch's multicast table
// holds the masks of 32 of them for 16 ports.
const firstMLID ib.LID = 0xC000

// Route returns the groups by the end ports of the graph. Groups without a member,
// and those that a table cannot hold, are not routed.
func (gs *Groups) Route() []route.Group {
	if len(gs.list) == 0 {
		return nil
	}
	g := gs.Fabric.Graph
	room := 0xFFFF
	for _, ni := range gs.Fabric.SwitchNode {
		room = min(room, int(gs.Fabric.Nodes[ni].Switch.MulticastFDBCap))
	}
	m := &gs.memberAt
	if len(m.ends) != len(g.EndPorts) || len(m.ends) > 0 && &m.ends[0] != &g.EndPorts[0] {
		*m = memberMemo{ends: g.EndPorts, virtual: map[ib.GUID]bool{}}
	}
	next := make(map[ib.LID]memberList, len(gs.list))
	at := func(mlid ib.LID, x *subnet.Group) memberList {
		l, ok := m.of[mlid]
		if !ok || !oneList(l.members, x.Members) || !oneList(l.senders, x.Senders) {
			l = memberList{
				members: x.Members, senders: x.Senders,
				at: gs.membersAt(g, x.Members), sendAt: gs.membersAt(g, x.Senders),
			}
		}
		next[mlid] = l
		return l
	}
	out := make([]route.Group, 0, len(gs.list))
	last := ib.LID(0)
	for i := range gs.list {
		x := &gs.list[i]
		switch {
		case x.MLID < firstMLID || x.MLID == 0xFFFF || x.MLID == last:
			gs.Refused(x.MLID, "its MLID is not one of a group, or that of another one")
			continue
		case int(x.MLID-firstMLID) >= room:
			gs.Refused(x.MLID, "the smallest multicast table holds "+strconv.Itoa(room)+" groups")
			continue
		}
		last = x.MLID
		if l := at(x.MLID, x); len(l.at) > 0 {
			out = append(out, route.Group{MLID: x.MLID, SL: x.SL, Members: l.at, Senders: l.sendAt})
		}
	}
	m.of = next
	return out
}

// memberMemo remembers which end ports the members of groups are, while the end
// ports are the same. Lists that are the same ones are looked up once.
type memberMemo struct {
	ends []fabric.EndPort
	of   map[ib.LID]memberList
	// virtual are the members that are no ports of the graph: virtual ports, where they
	// are now, or nobody.
	virtual map[ib.GUID]bool
	moved   bool // one of virtual came, went or moved
}

type memberList struct {
	members, senders []ib.GUID
	at, sendAt       []int32
}

// oneList reports whether two lists are one.
func oneList(a, b []ib.GUID) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// membersAt returns the end ports, ascending, at which members are: ports, or virtual ports behind
// them.
func (gs *Groups) membersAt(g *fabric.Graph, guids []ib.GUID) []int32 {
	at, others := endPortsOf(g, guids)
	if len(others) == 0 {
		return at
	}
	for _, u := range others {
		gs.memberAt.virtual[u] = true
		if u = gs.where.PortOf(u); u == 0 {
			continue
		}
		if e := gs.EndPortIndex(u); e >= 0 && g.EndPorts[e].Switch >= 0 {
			at = append(at, e)
		}
	}
	slices.Sort(at)
	return slices.Compact(at)
}

// MemberMoved is called when a GUID came to or left a virtual port or an alias.
func (gs *Groups) MemberMoved(g ib.GUID) {
	gs.memberAt.moved = gs.memberAt.moved || gs.memberAt.virtual[g]
}

// endPortsOf are the end ports, ascending, that have the GUIDs and a switch, and the
// GUIDs that no end port has. It is quick where the GUIDs ascend.
func endPortsOf(g *fabric.Graph, guids []ib.GUID) (out []int32, others []ib.GUID) {
	next := 0 // where the search goes on
	for k, u := range guids {
		if k > 0 && u < guids[k-1] {
			next = 0
		}
		for near := 0; next < len(g.EndPorts) && g.EndPorts[next].GUID < u; next++ {
			if near++; near > 8 {
				i, _ := slices.BinarySearchFunc(g.EndPorts[next:], u, func(e fabric.EndPort, u ib.GUID) int {
					return cmp.Compare(e.GUID, u)
				})
				next += i
				break
			}
		}
		switch {
		case next >= len(g.EndPorts) || g.EndPorts[next].GUID != u:
			others = append(others, u)
		case g.EndPorts[next].Switch >= 0:
			out = append(out, int32(next))
		}
	}
	slices.Sort(out)
	return slices.Compact(out), others
}

// Refused tells, once, why a group has no tree.
func (gs *Groups) Refused(mlid ib.LID, why string) {
	if gs.NoteOnce("group " + mlid.String() + why) {
		gs.Notify(notice.Notice{
			Kind: notice.KindGroupRefused, Level: notice.Warn,
			Text: "multicast group " + mlid.String() + " has no tree: " + why,
		})
	}
}

// missing calls fn for each block of a multicast table that holds a group and is not known. Other
// blocks are not read: no host sends to their MLIDs, and MulticastFDBTop disables those above the
// groups.
func (gs *Groups) missing(fn func(ni int32, block uint16, pos uint8)) {
	if len(gs.list) == 0 {
		return
	}
	var blocks []uint16
	for i := range gs.list {
		if l := gs.list[i].MLID; l >= firstMLID && l < 0xFFFF {
			blocks = append(blocks, uint16(l-firstMLID)/smp.MFTBlockMLIDs)
		}
	}
	blocks = slices.Compact(blocks) // the groups ascend
	for _, ni := range gs.Fabric.SwitchNode {
		n := &gs.Fabric.Nodes[ni]
		for _, b := range blocks {
			if int(b)*smp.MFTBlockMLIDs >= int(n.Switch.MulticastFDBCap) {
				continue
			}
			for pos := range n.Info.NumPorts/16 + 1 {
				if n.MFT.Blocks[forward.MulticastKey(b, pos)] == nil {
					fn(ni, b, pos)
				}
			}
		}
	}
}

// treeSL is the service level that packets of a group use now: that of the
// tree last distributed, else the group's.
func (gs *Groups) treeSL(l ib.LID) ib.SL {
	if t := gs.servedTree(l); t != nil {
		return t.SL
	}
	for i := range gs.list {
		if gs.list[i].MLID == l {
			return gs.list[i].SL
		}
	}
	return 0
}

// MustRead reports whether blocks are to be read back before a job.
func (gs *Groups) MustRead() bool {
	must := false
	gs.missing(func(int32, uint16, uint8) { must = true })
	return must
}

// ReadBack lists the Gets of the blocks that hold a group and are not known.
func (gs *Groups) ReadBack() {
	gs.missing(func(ni int32, block uint16, pos uint8) {
		gs.Report.BlocksRead++
		gs.Add(work.Make(work.OpGetMFT, ni, pos, uint32(block)))
	})
}
