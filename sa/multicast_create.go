package sa

import (
	"encoding/binary"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/subnet"
)

// Signatures in bytes 2 and 3 of an MGID.
const (
	signIPv4 = 0x401B // RFC 4391 §4
	signIPv6 = 0x601B
	signSA   = 0xA01B // MGIDs that the SA creates (IBA §15.2.5.17)
)

const scopeLinkLocal = 2

func signature(m ib.GID) uint16 { return binary.BigEndian.Uint16(m[2:]) }

// draft builds the group that a join asks for, without an MLID. It changes no
// state.
func (x *multicast) draft(j *membership) (*mcGroup, ib.Status) {
	r, s := &j.r, j.q.s
	if r.JoinState&joinKeeps == 0 || r.MGID.IsZero() && r.JoinState&wire.JoinFull == 0 {
		return nil, statusInvalid // o15-0.1.9: only a full member may create a group
	}
	if !j.mask.Has(createComps) {
		return nil, statusInsufficient
	}
	g := &mcGroup{Group: Group{
		MGID: r.MGID, QKey: r.QKey, PKey: r.PKey, SL: r.SL, TClass: r.TClass, FlowLabel: r.FlowLabel,
		Scope: r.MGID[1] & 0xF, PacketLife: s.PacketLife,
	}}
	if j.mask.Has(wire.MCMemberCompHopLimit) {
		g.HopLimit = r.HopLimit
	}
	switch {
	case r.MGID.IsZero():
		if g.Scope = scopeLinkLocal; j.mask.Has(wire.MCMemberCompScope) {
			g.Scope = r.Scope
		}
	case !validMGID(r.MGID) || !x.fitsBroadcast(j, &g.Group):
		return nil, statusInvalid
	}
	if !j.realize(&g.Group, s.Ports[j.port]) {
		return nil, statusInvalid
	}
	return g, 0
}

// validMGID checks an MGID that a requester supplies for a new group
// (o15-0.1.5). SA-created MGIDs do not pass.
func validMGID(m ib.GID) bool {
	if !m.IsMulticast() {
		return false
	}
	switch signature(m) {
	case signIPv4, signIPv6:
		return true
	case signSA:
		if m[1]&0xF == scopeLinkLocal {
			return false // reserved for the SA
		}
	}
	return m[1]&0xE0 == 0 // reserved flags
}

// fitsBroadcast reports whether an IP group has the parameters of its
// partition's broadcast group, which must exist first (RFC 4391 §5).
func (x *multicast) fitsBroadcast(j *membership, g *Group) bool {
	if sig := signature(g.MGID); sig != signIPv4 && sig != signIPv6 {
		return true
	}
	b := broadcastOf(g.MGID)
	if b == g.MGID {
		// A broadcast group is created only within its own partition.
		return ib.PKey(binary.BigEndian.Uint16(b[4:])).Base() == g.PKey.Base()
	}
	bc := x.group(b)
	return bc != nil && j.agrees(&bc.Group)
}

// broadcastOf returns the broadcast MGID for an MGID's scope and partition.
func broadcastOf(m ib.GID) ib.GID {
	b := ib.GID{0xFF, 0x10 | m[1]&0xF, signIPv4 >> 8, signIPv4 & 0xFF, m[4], m[5]}
	for i := 12; i < len(b); i++ {
		b[i] = 0xFF
	}
	return b
}

// realize sets MTU, rate and packet lifetime of a new group: the requested
// values, or the port's best where the request leaves a choice. It returns
// false if no value satisfies the request.
func (j *membership) realize(g *Group, p *subnet.Port) bool {
	r := &j.r
	g.MTU = p.MTU
	if j.mask.Has(mtuComps) && r.MTUSelector != wire.SelLargest {
		v, ok := realized(r.MTUSelector, int(r.MTU), int(p.MTU))
		if g.MTU = ib.MTU(v); !ok || g.MTU < ib.MTU256 {
			return false
		}
	}
	g.Rate = p.Rate
	if j.mask.Has(rateComps) && r.RateSelector != wire.SelLargest {
		switch r.RateSelector {
		case wire.SelGreater: // the port's value, if it is greater
		case wire.SelLess:
			if p.Rate.Order() >= r.Rate.Order() {
				g.Rate = r.Rate.Slower()
			}
		default:
			g.Rate = r.Rate
		}
		if !g.Rate.Valid() {
			return false
		}
	}
	if j.mask.Has(lifeComps) {
		switch v := r.PacketLifeTime; r.PacketLifeTimeSelector {
		case wire.SelGreater:
			g.PacketLife = max(g.PacketLife, v+1)
		case wire.SelLess:
			g.PacketLife = min(g.PacketLife, v-1) // no lifetime is less than 0; selects rejects it
		case wire.SelExactly:
			g.PacketLife = v
		}
	}
	return g.PacketLife < 1<<6
}

// realized is the largest value up to most that a selector permits.
func realized(sel uint8, want, most int) (v int, ok bool) {
	switch sel {
	case wire.SelGreater:
		return most, want < most
	case wire.SelLess:
		return min(want-1, most), true
	}
	return want, true
}

// newMGID creates an MGID that no group has or had: FF1s:A01B, the subnet
// prefix and a number that is never reused (IBA §15.2.5.17).
func (x *multicast) newMGID(c *Core, scope uint8) (m ib.GID) {
	for {
		x.counter++
		m = ib.GID{0xFF, 0x10 | scope&0xF, signSA >> 8, signSA & 0xFF}
		binary.BigEndian.PutUint64(m[4:], uint64(c.snap.Prefix))
		binary.BigEndian.PutUint32(m[12:], x.counter)
		if x.group(m) == nil {
			x.saveState(c)
			return m
		}
	}
}
