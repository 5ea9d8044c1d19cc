package sa

import (
	"bytes"
	"slices"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/mad"
	"heddle/partition"
	"heddle/subnet"
)

// multicast owns the groups and their members (IBA §15.2.5.17, o15-0.1 and
// o15-0.2).
//
// Views share unchanged groups. A group that a view contains is copied before
// it changes, once per step at most.
type multicast struct {
	list  []*mcGroup // ascending MGID
	mlids mlids
	shown []*Group // groups of the last view; nil: changed since

	counter uint32 // the last number used in an MGID that the SA created
	limit   ib.LID // the highest MLID that every switch can forward
	policy  *partition.Policy
	refused bool // a permanent group has no MLID, and this was logged
	aliases int  // members by alias GUID

	members int                      // members of all groups
	joins   map[ib.GUID]int          // memberships that each port has requested
	proxies map[membershipID]ib.GUID // requester of each proxy membership

	takeover takeover
	away     away
}

// Limits on groups. A join over a limit is refused with NO_RESOURCES. A
// membership counts for the port that requested it, not for the port that
// joins. Stores of earlier versions do not record who requested by proxy.
const (
	maxGroups       = 1 << 17
	maxMembers      = 1 << 21
	maxJoinsPerPort = 4096
	// fewJoins is what a port gets regardless of others. Beyond it a port gets at
	// most half of the free groups and MLIDs, so that some remain for ports that
	// join later.
	fewJoins = 16
)

// may reports whether a port may take one more of a resource of which left
// units are free.
func (x *multicast) may(port ib.GUID, left int) bool {
	n := x.joins[port]
	return n < fewJoins || n <= left
}

// mcGroup is the current state of a group.
type mcGroup struct {
	Group
	keepers int    // full and send-only full members, which keep the group alive
	pub     *Group // the group in views; nil: changed since
}

const (
	// joinKeeps are the join states that create a group and keep it alive. A group
	// without such a member is deleted, even if it has others.
	joinKeeps = wire.JoinFull | wire.JoinSendOnlyFull
	// joinReceives are the join states that receive packets; other members only
	// send.
	joinReceives = wire.JoinFull | wire.JoinNon
)

// Traps about groups (IBA §14.2.5.1).
const (
	trapGroupCreated uint16 = 66
	trapGroupDeleted uint16 = 67
)

func compareGID(a, b ib.GID) int { return bytes.Compare(a[:], b[:]) }

// find returns the index of a group in the list.
func (x *multicast) find(mgid ib.GID) (int, bool) {
	return slices.BinarySearchFunc(x.list, mgid, func(g *mcGroup, m ib.GID) int { return compareGID(g.MGID, m) })
}

// group returns the group with that MGID, or nil.
func (x *multicast) group(mgid ib.GID) *mcGroup {
	if i, ok := x.find(mgid); ok {
		return x.list[i]
	}
	return nil
}

// member returns the index of a port GID, with any prefix, in the members.
func (g *Group) member(port ib.GUID) (int, bool) {
	return slices.BinarySearchFunc(g.Members, port, func(m Member, p ib.GUID) int {
		switch u := m.PortGID.GUID(); {
		case u < p:
			return -1
		case u > p:
			return 1
		}
		return 0
	})
}

// has reports whether a port GUID or alias GUID is a member of a group.
func (x *multicast) has(port ib.GUID) bool {
	return slices.ContainsFunc(x.list, func(g *mcGroup) bool {
		_, is := g.member(port)
		return is
	})
}

// touch prepares a group for a change: the views' copy stays as it is.
func (x *multicast) touch(c *Core, g *mcGroup) {
	if g.pub != nil {
		g.Members = append(make([]Member, 0, len(g.Members)+len(g.Members)/8+1), g.Members...)
		g.pub = nil
	}
	x.shown, c.changed = nil, true
	x.mlids.touch(g.MLID)
}

// insert adds a group that has an MLID.
func (x *multicast) insert(c *Core, g *mcGroup) {
	i, _ := x.find(g.MGID)
	x.list = slices.Insert(x.list, i, g)
	x.mlids.add(g)
	x.touch(c, g)
}

// create adds a group to the subnet.
func (x *multicast) create(c *Core, g *mcGroup, why string) {
	x.insert(c, g)
	x.saveGroup(c, g)
	c.notice("group_created", "multicast group "+g.MGID.String()+" has MLID "+g.MLID.String()+", P_Key "+g.PKey.String()+": "+why)
	c.subscriptions.groupEvent(c, trapGroupCreated, &g.Group)
}

// remove deletes a group and its remaining members.
func (x *multicast) remove(c *Core, g *mcGroup, why string) {
	x.touch(c, g)
	i, _ := x.find(g.MGID)
	x.list = slices.Delete(x.list, i, i+1)
	x.mlids.remove(g)
	for k := range g.Members {
		x.forget(c, g, &g.Members[k])
	}
	g.Members, g.keepers = nil, 0
	x.dropGroup(c, g)
	c.notice("group_deleted", "multicast group "+g.MGID.String()+" with MLID "+g.MLID.String()+": "+why)
	c.subscriptions.groupEvent(c, trapGroupDeleted, &g.Group)
}

// setMember sets the join state of the port at index i of a group's members, or
// adds it if is is false. by is the port that requested it.
func (x *multicast) setMember(c *Core, g *mcGroup, i int, is bool, m Member, by ib.GUID) {
	x.touch(c, g)
	if is {
		x.count(g, &g.Members[i], -1)
		g.Members[i] = m
	} else {
		g.Members = slices.Insert(g.Members, i, m)
	}
	if m.Proxy && by != 0 {
		x.proxies[membershipID{g.MGID, m.PortGID}] = by
	}
	x.count(g, &m, 1)
	x.takeover.confirm(g.MGID, m.PortGID)
	x.saveMember(c, g, &m)
}

// count updates the counters that depend on members.
func (x *multicast) count(g *mcGroup, m *Member, n int) {
	if m.JoinState&joinKeeps != 0 {
		g.keepers += n
	}
	if m.PortGID.GUID() != m.PortGUID {
		x.aliases += n
	}
	x.members += n
	by := x.askedBy(g, m)
	if x.joins[by] += n; x.joins[by] == 0 {
		delete(x.joins, by)
	}
	if n < 0 && m.Proxy {
		delete(x.proxies, membershipID{g.MGID, m.PortGID})
	}
}

// askedBy is the port that requested a membership; 0: unknown.
func (x *multicast) askedBy(g *mcGroup, m *Member) ib.GUID {
	if m.Proxy {
		return x.proxies[membershipID{g.MGID, m.PortGID}]
	}
	return m.PortGUID
}

// forget removes a member from the counters. The caller removes it from the
// group.
func (x *multicast) forget(c *Core, g *mcGroup, m *Member) {
	x.count(g, m, -1)
	x.takeover.confirm(g.MGID, m.PortGID)
	x.dropMember(c, g, m)
}

// unkept reports whether no member keeps a group alive.
func (g *mcGroup) unkept() bool { return g.keepers == 0 && !g.WellKnown }

// view puts the groups into a view.
func (x *multicast) view(v *View) {
	if x.shown == nil {
		x.shown = make([]*Group, len(x.list))
		for i, g := range x.list {
			if g.pub == nil {
				p := g.Group
				g.pub = &p
			}
			x.shown[i] = g.pub
		}
	}
	v.Groups = x.shown
}

// settle ends a step and determines whether routed groups changed.
func (x *multicast) settle(c *Core) {
	if x.mlids.settle() {
		c.out.GroupsChanged = true
	}
}

// routed lists all groups with a member, one for each MLID.
func (x *multicast) routed() []subnet.Group { return x.mlids.routed() }

// expire applies deadlines that have passed.
func (x *multicast) expire(c *Core) {
	x.expireAway(c)
	if x.takeover.pending != nil && c.now >= x.takeover.until && serves(c.snap) {
		x.dropUnconfirmed(c)
	}
}

func (x *multicast) nextTimer(c *Core) mad.Time {
	t := mad.Never
	if serves(c.snap) && len(x.away.until) > 0 {
		t = x.away.first
	}
	if serves(c.snap) && x.takeover.pending != nil {
		t = min(t, x.takeover.until)
	}
	return t
}
