package agent

import (
	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/ib/smp"
	"heddle/mad"
)

// report takes a Report of a notice, and answers it.
func (c *Core) report(p *mad.Packet) {
	if len(p.Data) < ib.MADLen || ib.Class(p.Data[1]) != ib.ClassSA || ib.Method(p.Data[3]) != ib.MethodReport {
		return
	}
	if p.Addr.LID != c.port.SM.LID || p.Addr.QP != 1 {
		// The SA repeats a Report, so one from an SA that moved is not lost.
		c.stats.Foreign++
		c.out.Refresh = true
		return
	}
	c.stats.Reports++
	if c.heard(&mad.Completion{}) {
		c.resubmit()
	}
	m := (*ib.MAD)(p.Data[:ib.MADLen])
	resp := Send{Addr: p.Addr, MAD: *m}
	resp.MAD[3] |= byte(ib.MethodResponseBit)
	c.out.Sends = append(c.out.Sends, resp)

	data := wire.Data(m)
	var n wire.Notice
	if n.Decode(data[:wire.NoticeLen]) != nil || c.cfg.Policy == AsPublished {
		return
	}
	switch trap, _ := n.Trap(); trap {
	case smp.TrapGIDInService, smp.TrapGIDOutOfService:
		var d smp.DetailGID
		d.Get(&n.DataDetails)
		c.invalidate("GID %v", d.GID, trap, func(e *entry) bool {
			return e.names(d.GID) || gidAt(&e.rec,
				offDGID).GUID() == d.GID.GUID()
		},
			func(q *Query) bool { return q.Record.DGID.GUID() == d.GID.GUID() || q.Record.DGID.IsZero() })
	case smp.TrapUnPath, smp.TrapRePath:
		var d smp.DetailPath
		d.Get(&n.DataDetails)
		var r wire.PathNotice
		_ = r.Decode(data[wire.NoticeLen:]) // fails by length alone
		mask := wire.CompMask(d.ComponentMask)
		named := mask.Any(pathDest)
		newest := c.changes.Newer(&r)
		if follows := c.changes.reported(c, &r, named); follows && !named {
			c.doubt() // the changes are asked for
			return
		}
		c.invalidate("to %v", r.Path.DGID, trap, func(e *entry) bool {
			return concerns(mask, &r.Path, e) && !(newest && trap == smp.TrapRePath && mask.Has(wire.PathCompDGID) && c.renew(e, &r.Path))
		}, func(*Query) bool { return true })
	}
}

// concerns reports whether an entry may lead over paths that a notice names by the components
// in mask. One component of the destination suffices, because the entry may know the port by
// another GID or LID. Sources need no comparison: all entries begin at this port, and the SA
// reports to it changes of its own paths.
func concerns(mask wire.CompMask, r *wire.PathRecord, e *entry) bool {
	if !mask.Any(pathDest) {
		return true
	}
	if mask.Has(wire.PathCompDGID) {
		g := r.DGID.GUID()
		if gidAt(&e.rec, offDGID).GUID() == g || gidAt(&e.key.rec, offDGID).GUID() == g {
			return true
		}
	}
	return mask.Has(wire.PathCompDLID) && e.namesLID(r.DLID)
}

// plain are the components of questions whose answers a Report has: with a QoS policy, where
// others count as well, the manager sends no values.
const plain = pathSource | pathDest | wire.PathCompReversible | wire.PathCompNumbPath | wire.PathCompPKey |
	wire.PathCompServiceID8 | wire.PathCompServiceID56 | wire.PathCompQoSClass | wire.PathCompTClass

// renew gives an entry the present values of its path, as a manager with generations reports
// them, and says whether it could: the question asks for nothing else, the ends and the P_Key
// are the same, and the SA permits it. The age stays: it is that of the last query.
func (c *Core) renew(e *entry, r *wire.PathRecord) bool {
	if e.negative || e.suspect || e.key.mask&^plain != 0 || r.MTU == 0 || r.Reserved3 == 0 {
		return false
	}
	had, q := decode(&e.rec), decode(&e.key.rec)
	if had.DGID != r.DGID || had.SGID != r.SGID || had.DLID != r.DLID || had.SLID != r.SLID || had.PKey.Base() != r.PKey.Base() ||
		q.Reversible && !r.Reversible || had.RawTraffic != r.RawTraffic {
		return false
	}
	now := *r
	now.PKey = had.PKey
	now.ServiceID, now.QoSClass, now.TClass, now.FlowLabel, now.NumbPath = had.ServiceID, had.QoSClass, had.TClass,
		had.FlowLabel, had.NumbPath
	now.Put(e.rec[:])
	c.stats.Renewed++
	return true
}

// invalidate removes the entries that a notice names, and has the queries in flight repeated
// whose answers may have been made before.
func (c *Core) invalidate(what string, g ib.GID, trap uint16, match func(*entry) bool, inFlight func(*Query) bool) {
	renewed := c.stats.Renewed
	n := c.cache.removeIf(match)
	renewed = c.stats.Renewed - renewed
	c.stats.Noticed += uint64(n)
	for _, p := range c.queries {
		if q := p.key.query(); inFlight(&q) {
			p.gone = true
		}
	}
	if n > 0 || renewed > 0 {
		c.notice("noticed", "trap %d, "+what+": %d entries removed, %d renewed", trap, g, n, renewed)
	}
}
