package sm

import (
	"cmp"
	"slices"
	"strconv"

	"heddle/fabric"
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/route"
	"heddle/sm/forward"
	"heddle/sm/notice"
	"heddle/subnet"
)

// firstMLID is the lowest multicast LID; a block of a switch's multicast table
// holds the masks of 32 of them for 16 ports.
const firstMLID ib.LID = 0xC000

// setGroups takes the multicast groups of the subnet.
func (c *Core) setGroups(groups []Group) {
	list := slices.Clone(groups)
	slices.SortStableFunc(list, func(a, b Group) int { return cmp.Compare(a.MLID, b.MLID) })
	c.groups = list
	c.wantGroups, c.hurry.wanted = true, true
	if c.State == subnet.Master && c.started {
		c.AskSweep("the multicast groups changed")
	}
}

// routeGroups are the groups as the graph has them. Groups without a member,
// and those that a table cannot hold, are not routed.
func (c *Core) routeGroups() []route.Group {
	if len(c.groups) == 0 {
		return nil
	}
	g := c.Fabric.Graph
	room := 0xFFFF
	for _, ni := range c.Fabric.SwitchNode {
		room = min(room, int(c.Fabric.Nodes[ni].Switch.MulticastFDBCap))
	}
	m := &c.memberAt
	if len(m.ends) != len(g.EndPorts) || len(m.ends) > 0 && &m.ends[0] != &g.EndPorts[0] {
		*m = memberMemo{ends: g.EndPorts, virtual: map[ib.GUID]bool{}}
	}
	next := make(map[ib.LID]memberList, len(c.groups))
	at := func(mlid ib.LID, x *Group) memberList {
		l, ok := m.of[mlid]
		if !ok || !oneList(l.members, x.Members) || !oneList(l.senders, x.Senders) {
			l = memberList{members: x.Members, senders: x.Senders, at: c.membersAt(g, x.Members), sendAt: c.membersAt(g, x.Senders)}
		}
		next[mlid] = l
		return l
	}
	out := make([]route.Group, 0, len(c.groups))
	last := ib.LID(0)
	for i := range c.groups {
		x := &c.groups[i]
		switch {
		case x.MLID < firstMLID || x.MLID == 0xFFFF || x.MLID == last:
			c.groupRefused(x.MLID, "its MLID is not one of a group, or that of another one")
			continue
		case int(x.MLID-firstMLID) >= room:
			c.groupRefused(x.MLID, "the smallest multicast table holds "+strconv.Itoa(room)+" groups")
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
// ports are the same: lists that are the same ones are not looked into again,
// neither here nor by the routing job.
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

// membersAt are the end ports, ascending, at which members are: ports, or virtual ports
// behind them.
func (c *Core) membersAt(g *fabric.Graph, guids []ib.GUID) []int32 {
	at, others := endPortsOf(g, guids)
	if len(others) == 0 {
		return at
	}
	for _, u := range others {
		c.memberAt.virtual[u] = true
		if r, ok := c.vports.Find(u); ok {
			u = r.Adapter.PortGUID()
		} else if port := c.guids.Holder(u); port != 0 {
			u = port
		} else {
			continue
		}
		if e := c.EndPortIndex(u); e >= 0 && g.EndPorts[e].Switch >= 0 {
			at = append(at, e)
		}
	}
	slices.Sort(at)
	return slices.Compact(at)
}

// memberMoved is told when a GUID came to or left a virtual port.
func (c *Core) memberMoved(g ib.GUID) {
	c.memberAt.moved = c.memberAt.moved || c.memberAt.virtual[g]
}

// routeMoved has groups routed anew of which a member that is a virtual port came,
// went or moved.
func (c *Core) routeMoved() {
	if !c.memberAt.moved {
		return
	}
	c.memberAt = memberMemo{}
	c.wantGroups, c.hurry.wanted = true, true
	c.AskSweep("a member of a multicast group is at another port")
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
				i, _ := slices.BinarySearchFunc(g.EndPorts[next:], u, func(e fabric.EndPort, u ib.GUID) int { return cmp.Compare(e.GUID, u) })
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

func (c *Core) groupRefused(mlid ib.LID, why string) {
	if c.NoteOnce("group " + mlid.String() + why) {
		c.Notify(notice.Notice{Kind: notice.KindGroupRefused, Level: notice.Warn, Text: "multicast group " + mlid.String() + " has no tree: " + why})
	}
}

// missingMFT calls fn for each block of a multicast table that holds a group
// and is not known. Blocks that hold none are not read: nobody sends to those
// MLIDs, and MulticastFDBTop shuts off those above the groups.
func (c *Core) missingMFT(fn func(ni int32, block uint16, pos uint8)) {
	if len(c.groups) == 0 {
		return
	}
	var blocks []uint16
	for i := range c.groups {
		if l := c.groups[i].MLID; l >= firstMLID && l < 0xFFFF {
			blocks = append(blocks, uint16(l-firstMLID)/smp.MFTBlockMLIDs)
		}
	}
	blocks = slices.Compact(blocks) // the groups ascend
	for _, ni := range c.Fabric.SwitchNode {
		n := &c.Fabric.Nodes[ni]
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
func (c *Core) treeSL(l ib.LID) ib.SL {
	if t := c.servedTree(l); t != nil {
		return t.SL
	}
	for i := range c.groups {
		if c.groups[i].MLID == l {
			return c.groups[i].SL
		}
	}
	return 0
}
