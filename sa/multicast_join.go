package sa

import (
	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/subnet"
)

// Components that a request must contain.
const (
	joinComps   = wire.MCMemberCompMGID | wire.MCMemberCompPortGID | wire.MCMemberCompJoinState
	createComps = joinComps | wire.MCMemberCompQKey | wire.MCMemberCompTClass | wire.MCMemberCompPKey |
		wire.MCMemberCompSL | wire.MCMemberCompFlowLabel
	mtuComps  = wire.MCMemberCompMTUSelector | wire.MCMemberCompMTU
	rateComps = wire.MCMemberCompRateSelector | wire.MCMemberCompRate
	lifeComps = wire.MCMemberCompLifeSelector | wire.MCMemberCompPacketLifeTime
)

// membership is a Set or Delete of an MCMemberRecord in progress.
type membership struct {
	q    *query
	mask wire.CompMask
	r    wire.MCMemberRecord
	port int32 // index in Ports of the joining port
}

// request processes a Set or Delete of an MCMemberRecord. The reply goes to the
// requester, which in a proxy join is not the joining port.
func (x *multicast) request(c *Core, q *query, m []byte) {
	if q.me < 0 {
		return // a requester without known partitions
	}
	j := &membership{q: q, mask: q.mask, port: -1}
	if err := j.r.Decode(q.data); err != nil {
		return // a MAD is always long enough
	}
	if !j.mask.Has(joinComps) {
		c.reply(q.req, refuse(nil, m, statusInsufficient))
		return
	}
	if st := j.valid(); st != 0 {
		c.reply(q.req, refuse(nil, m, st))
		return
	}
	var (
		out   wire.MCMemberRecord
		st    ib.Status
		known bool // the store has the membership
	)
	if (*ib.MAD)(m).Method() == ib.MethodDelete {
		out, st = x.leave(c, j)
	} else {
		out, known, st = x.join(c, j)
	}
	if st != 0 {
		c.reply(q.req, refuse(nil, m, st))
		return
	}
	out.MTUSelector, out.RateSelector, out.PacketLifeTimeSelector = wire.SelExactly, wire.SelExactly, wire.SelExactly
	if known {
		c.answerNow(q.req, m, wire.MCMemberRecordLen, out.Put)
		return
	}
	c.answer(q.req, m, wire.MCMemberRecordLen, out.Put)
}

// valid checks what every request must satisfy.
func (j *membership) valid() ib.Status {
	if !validCodes(j.mask, &j.r) {
		return statusInvalid
	}
	if p := j.r.PortGID.Prefix(); p != j.q.s.Prefix && p != ib.DefaultSubnetPrefix {
		return statusInvalidGID
	}
	return 0
}

// validCodes reports whether the requested MTU and rate codes are defined.
func validCodes(mask wire.CompMask, r *wire.MCMemberRecord) bool {
	return (!mask.Has(mtuComps) || r.MTU >= ib.MTU256 && r.MTU <= ib.MTU4096) && (!mask.Has(rateComps) || r.Rate.Valid())
}

// join adds a port to a group and creates the group if needed. The checks run
// in the order whose status codes clients expect; no state changes before all
// pass. stored reports that the port was this member before, as the store says.
func (x *multicast) join(c *Core, j *membership) (out wire.MCMemberRecord, stored bool, st ib.Status) {
	s, r := j.q.s, &j.r
	if j.port = s.PortByGUID(r.PortGID.GUID()); j.port < 0 {
		return out, false, statusInvalid
	}
	if !s.Share(j.port, j.q.me) {
		return out, false, statusInvalid // a proxy join needs a common partition
	}
	if j.mask.Has(wire.MCMemberCompPKey) && r.PKey.IsEmpty() {
		return out, false, statusInvalid
	}
	g := x.group(r.MGID)
	known := g != nil
	if !known {
		if g, st = x.draft(j); st != 0 {
			return out, false, st
		}
	} else if !j.agrees(&g.Group) {
		return out, false, statusInvalid
	}
	if !j.selects(&g.Group) || !capable(s.Ports[j.port], &g.Group) || r.JoinState == 0 || !s.HasPKey(j.port, g.PKey) {
		return out, false, statusInvalid
	}
	if !j.q.trusted && !s.HasPKey(j.q.me, g.PKey) {
		return out, false, statusInvalid // the answer would reveal another partition's group to a proxy
	}
	i, is := g.member(r.PortGID.GUID())
	if is && !x.mayChange(j, &g.Group, &g.Members[i]) {
		return out, false, statusInvalid
	}
	by := s.Ports[j.q.me].GUID
	if !is && (x.members >= maxMembers || x.joins[by] >= maxJoinsPerPort) {
		return out, false, statusNoResources
	}
	if !known {
		if st := x.found(c, j, g); st != 0 {
			return out, false, st
		}
	}
	m, same := x.enter(c, j, g, i, is)
	out = g.record()
	out.PortGID, out.JoinState, out.ProxyJoin = r.PortGID, m.JoinState, r.ProxyJoin
	return out, same && x.isStored(c, g, &m), 0
}

// enter makes the port a member of g, or changes its membership g.Members[i]. same reports that
// nothing changes.
func (x *multicast) enter(c *Core, j *membership, g *mcGroup, i int, is bool) (m Member, same bool) {
	s, r := j.q.s, &j.r
	by := s.Ports[j.q.me].GUID
	m = Member{
		PortGID: ib.MakeGID(s.Prefix, r.PortGID.GUID()), PortGUID: s.Ports[j.port].GUID, JoinState: r.JoinState,
		Proxy: j.port != j.q.me,
	}
	if is {
		m.JoinState |= g.Members[i].JoinState
		m.Proxy = m.Proxy && g.Members[i].Proxy // a membership that the port requested itself stays its own
	}
	if is && m == g.Members[i] {
		x.takeover.confirm(g.MGID, m.PortGID)
		return m, true
	}
	if is && m.Proxy {
		by = x.askedBy(g, &m) // the first proxy remains the requester
	}
	x.setMember(c, g, i, is, m, by)
	return m, false
}

// found assigns an MLID to a drafted group, and an MGID if the request leaves
// it to the SA.
func (x *multicast) found(c *Core, j *membership, g *mcGroup) ib.Status {
	by := j.q.s.Ports[j.q.me].GUID
	if len(x.list) >= maxGroups || !x.may(by, maxGroups-len(x.list)) {
		return statusNoResources
	}
	asked := ib.LID(0)
	if j.mask.Has(wire.MCMemberCompMLID) {
		asked = j.r.MLID
	}
	if g.MGID.IsZero() {
		g.MGID = x.newMGID(c, g.Scope)
	}
	if g.MLID = x.choose(c, &g.Group, asked, by); g.MLID == 0 {
		return statusNoResources
	}
	x.create(c, g, "created by port "+by.String())
	return 0
}

// mayChange reports whether the requester may change an existing membership: the port
// itself, the proxy that requested it, and trusted requesters. IBA o15-0.2.1 and OpenSM
// let any member of the partition end a proxy membership, so any host could.
func (x *multicast) mayChange(j *membership, g *Group, m *Member) bool {
	me := j.q.s.Ports[j.q.me].GUID
	return j.q.trusted || me == m.PortGUID || m.Proxy && me == x.proxies[membershipID{g.MGID, m.PortGID}]
}

// leave removes join states from a member, and the member when none is left.
// When the last keeping member leaves, the group is deleted.
func (x *multicast) leave(c *Core, j *membership) (out wire.MCMemberRecord, st ib.Status) {
	g := x.group(j.r.MGID)
	if g == nil {
		return out, statusInvalid
	}
	i, is := g.member(j.r.PortGID.GUID())
	if !is {
		return out, statusInvalid
	}
	m := g.Members[i]
	// o15-0.1.14: the request names only states that the member has.
	if j.r.JoinState == 0 || j.r.JoinState&^m.JoinState != 0 || !x.mayChange(j, &g.Group, &m) {
		return out, statusInvalid
	}
	m.JoinState &^= j.r.JoinState
	if m.JoinState != 0 {
		x.setMember(c, g, i, true, m, x.askedBy(g, &m))
	} else {
		x.takeOut(c, g, i)
	}
	if g.unkept() {
		x.remove(c, g, "its last full member left")
		m.JoinState = 0 // its other states end with the group
	}
	// The answer is the request with the remaining states.
	out = j.r
	out.Scope, out.JoinState = g.Scope, m.JoinState
	return out, 0
}

// takeOut removes the member at index i from a group.
func (x *multicast) takeOut(c *Core, g *mcGroup, i int) {
	x.touch(c, g)
	x.forget(c, g, &g.Members[i])
	g.Members = append(g.Members[:i], g.Members[i+1:]...)
}

// agrees reports whether the request's single-valued components equal the
// group's (o15-0.2.4). The MLID is not compared: the SA chooses it.
func (j *membership) agrees(g *Group) bool {
	r := &j.r
	differs := func(comp wire.CompMask, same bool) bool { return j.mask.Has(comp) && !same }
	return !differs(wire.MCMemberCompQKey, r.QKey == g.QKey) &&
		!differs(wire.MCMemberCompPKey, r.PKey.Matches(g.PKey)) &&
		!differs(wire.MCMemberCompTClass, r.TClass == g.TClass) &&
		!differs(wire.MCMemberCompSL, r.SL == g.SL) &&
		!differs(wire.MCMemberCompFlowLabel, r.FlowLabel == g.FlowLabel) &&
		!differs(wire.MCMemberCompHopLimit, r.HopLimit == g.HopLimit)
}

// selects reports whether the group's MTU, rate and packet lifetime satisfy the
// request.
func (j *membership) selects(g *Group) bool {
	r := &j.r
	return (!j.mask.Has(mtuComps) || selected(r.MTUSelector, int(g.MTU), int(r.MTU))) &&
		(!j.mask.Has(rateComps) || selected(r.RateSelector, g.Rate.Order(), r.Rate.Order())) &&
		(!j.mask.Has(lifeComps) || selected(r.PacketLifeTimeSelector, int(g.PacketLife), int(r.PacketLifeTime)))
}

// selected compares an existing value with a wanted one. Rates are passed by
// rank, because their codes are not ordered.
func selected(sel uint8, have, want int) bool {
	switch sel {
	case wire.SelGreater:
		return have > want
	case wire.SelLess:
		return have < want
	case wire.SelExactly:
		return have == want
	}
	return true
}

// capable reports whether a port can join a group: the group's rate and MTU must
// fit the port's link, and a VPort must have its service level.
func capable(p *subnet.Port, g *Group) bool {
	return p.MTU >= g.MTU && p.Rate.Order() >= g.Rate.Order() && mayUse(p, g.SL)
}

// record encodes the group without a member.
func (g *Group) record() wire.MCMemberRecord {
	return wire.MCMemberRecord{
		MGID: g.MGID, QKey: g.QKey, MLID: g.MLID, MTUSelector: wire.SelExactly, MTU: g.MTU, TClass: g.TClass, PKey: g.PKey,
		RateSelector: wire.SelExactly, Rate: g.Rate, PacketLifeTimeSelector: wire.SelExactly, PacketLifeTime: g.PacketLife,
		SL: g.SL, FlowLabel: g.FlowLabel, HopLimit: g.HopLimit, Scope: g.Scope,
	}
}
