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
// Views share what has not changed. A group that is in a view is copied before
// it is changed, once a step, whatever the number of requests in the step.
type multicast struct {
	list  []*mcGroup // ascending MGID
	mlids mlids
	shown []*Group // of the last view; nil when something changed since

	counter uint32 // the last number that was part of an MGID which the SA made
	limit   ib.LID // the highest MLID that every switch can forward
	policy  *partition.Policy
	refused bool // a permanent group has no MLID, and that was told
	aliases int  // members by an alias GUID

	members int                      // of all groups
	joins   map[ib.GUID]int          // how many memberships each port has asked for
	proxies map[membershipID]ib.GUID // the proxies that asked for memberships of other ports

	takeover takeover
	away     away
}

// What a subnet may keep of groups. Above it joins are refused with
// NO_RESOURCES. What a port has asked for counts, not what was asked for in its
// name. Stores of earlier versions do not say who asked by proxy.
const (
	maxGroups       = 1 << 17
	maxMembers      = 1 << 21
	maxJoinsPerPort = 4096
	// fewJoins are what a port may have whatever others have. Beyond them it gets
	// at most half of the groups, and of the MLIDs, that are free: whoever comes
	// later finds some too.
	fewJoins = 16
)

// may reports whether a port may have one more of something of which there are
// that many left, if there is one.
func (x *multicast) may(port ib.GUID, left int) bool {
	n := x.joins[port]
	return n < fewJoins || n <= left
}

// mcGroup is a group as it is now.
type mcGroup struct {
	Group
	keepers int    // members that keep the group: full and send-only full ones
	pub     *Group // the group as views have it, nil when it changed since
}

const (
	// joinKeeps are the join states that keep a group (and may create it): a
	// group with none of them is deleted, whoever else is in it.
	joinKeeps = wire.JoinFull | wire.JoinSendOnlyFull
	// joinReceives are those to whom packets go; the others only send.
	joinReceives = wire.JoinFull | wire.JoinNon
)

// Traps that tell of groups (IBA §14.2.5.1).
const (
	trapGroupCreated uint16 = 66
	trapGroupDeleted uint16 = 67
)

func compareGID(a, b ib.GID) int { return bytes.Compare(a[:], b[:]) }

// find returns the place of a group in the list.
func (x *multicast) find(mgid ib.GID) (int, bool) {
	return slices.BinarySearchFunc(x.list, mgid, func(g *mcGroup, m ib.GID) int { return compareGID(g.MGID, m) })
}

// group returns the group with that MGID, nil if there is none.
func (x *multicast) group(mgid ib.GID) *mcGroup {
	if i, ok := x.find(mgid); ok {
		return x.list[i]
	}
	return nil
}

// member returns the place of a port GID, of whatever prefix, in the members.
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

// touch says that a group is about to change: what views have of it stays.
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

// create makes a group part of the subnet.
func (x *multicast) create(c *Core, g *mcGroup, why string) {
	x.insert(c, g)
	x.saveGroup(c, g)
	c.notice("group_created", "multicast group "+g.MGID.String()+" has MLID "+g.MLID.String()+", P_Key "+g.PKey.String()+": "+why)
	c.inform.groupEvent(c, trapGroupCreated, &g.Group)
}

// remove deletes a group and whoever is still in it.
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
	c.inform.groupEvent(c, trapGroupDeleted, &g.Group)
}

// setMember gives a port of a group, at place i of its members, a join state.
// It is a new member unless there is one. by is the port that asked.
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

// count keeps the numbers that depend on who is a member.
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

// askedBy is the port that asked for a membership, 0 if that is not known.
func (x *multicast) askedBy(g *mcGroup, m *Member) ib.GUID {
	if m.Proxy {
		return x.proxies[membershipID{g.MGID, m.PortGID}]
	}
	return m.PortGUID
}

// forget takes what is kept of a member elsewhere away. The caller takes it
// out of the group.
func (x *multicast) forget(c *Core, g *mcGroup, m *Member) {
	x.count(g, m, -1)
	x.takeover.confirm(g.MGID, m.PortGID)
	x.dropMember(c, g, m)
}

// unkept reports whether nobody keeps a group.
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

// settle ends a step: it finds out whether anything is to be routed in another
// way than before.
func (x *multicast) settle(c *Core) {
	if x.mlids.settle() {
		c.out.GroupsChanged = true
	}
}

// routed are all groups with a member, one for each MLID.
func (x *multicast) routed() []subnet.Group { return x.mlids.routed() }

// expire does what is due.
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
