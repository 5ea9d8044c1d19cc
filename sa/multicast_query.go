package sa

import (
	"slices"

	"heddle/ib"
	wire "heddle/ib/sa"
)

// memberComps are the components that describe a member, not the group.
const memberComps = wire.MCMemberCompPortGID | wire.MCMemberCompJoinState | wire.MCMemberCompProxyJoin

// memberRecords answers Get and GetTable of MCMemberRecord. A trusted requester
// gets a record for each member. Others get one record for each group, without
// the fields that reveal its members (IBA §15.2.5.17.1), and may query the
// groups of their own port only. All see only groups of their partitions.
func memberRecords(q *query) {
	var want wire.MCMemberRecord
	if want.Decode(q.data) != nil {
		return
	}
	if !validCodes(q.mask, &want) {
		q.status = statusInvalid
		return
	}
	groups := q.v.Groups
	if q.has(wire.MCMemberCompMGID) {
		i, ok := slices.BinarySearchFunc(groups, want.MGID, func(g *Group, m ib.GID) int { return compareGID(g.MGID, m) })
		if !ok {
			return
		}
		groups = groups[i : i+1]
	}
	for _, g := range groups {
		if q.full {
			return
		}
		if q.me >= 0 && !q.s.HasPKey(q.me, g.PKey) || !q.isGroup(&want, g) {
			continue
		}
		if !q.trusted && !q.mask.Any(memberComps) {
			q.member(g, nil)
			continue
		}
		q.members(&want, g)
	}
}

// members answers with the members of a group that match the request; an
// untrusted requester gets one record without them if there is any.
func (q *query) members(want *wire.MCMemberRecord, g *Group) {
	members := g.Members
	if q.has(wire.MCMemberCompPortGID) {
		i, is := g.member(want.PortGID.GUID())
		if p := want.PortGID.Prefix(); !is || p != q.s.Prefix && p != ib.DefaultSubnetPrefix {
			return
		}
		if !q.trusted && (q.me < 0 || g.Members[i].PortGUID != q.s.Ports[q.me].GUID) {
			return // a query for each port in turn would reveal the members
		}
		members = members[i : i+1]
	}
	for i := range members {
		m := &members[i]
		if q.has(wire.MCMemberCompJoinState) && m.JoinState != want.JoinState ||
			q.has(wire.MCMemberCompProxyJoin) && m.Proxy != want.ProxyJoin {
			continue
		}
		if !q.trusted {
			q.member(g, nil)
			return
		}
		q.member(g, m)
		if q.full {
			return
		}
	}
}

// isGroup reports whether a group matches the request. MTU, rate and packet
// lifetime count only with their selector.
func (q *query) isGroup(want *wire.MCMemberRecord, g *Group) bool {
	j := membership{mask: q.mask, r: *want}
	return (!q.has(wire.MCMemberCompMLID) || want.MLID == g.MLID) &&
		(!q.has(wire.MCMemberCompScope) || want.Scope == g.Scope) &&
		j.agrees(g) && j.selects(g)
}

// member appends a record of a group, and of one of its members.
func (q *query) member(g *Group, m *Member) {
	b := q.record()
	if b == nil {
		return
	}
	r := g.record()
	if m != nil {
		r.PortGID, r.JoinState, r.ProxyJoin = m.PortGID, m.JoinState, m.Proxy
	}
	r.Put(b)
}
