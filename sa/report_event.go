package sa

import (
	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/ib/smp"
	"heddle/sa/pathlog"
	"heddle/subnet"
)

// emit sends a notice to the subscribers that may receive it. port is the
// subscriber's index in the current snapshot's Ports. A subscription that names
// its sources, but whose port may not hear of this one, ends (IBA o13-17.1.2),
// unless keep says that the event itself is restricted.
func (x *informs) emit(c *Core, n *wire.Notice, keep bool, may func(s *Subscription, port int32) bool) {
	x.reports.event++
	var r *report
	for i := 0; i < len(x.all.list); i++ {
		s := x.all.list[i]
		if !matchesNotice(s, n) {
			continue
		}
		p := x.reports.peer(s)
		if p.port >= 0 && !may(s, p.port) {
			if !keep && (!s.Info.GID.IsZero() || s.Info.LIDRangeBegin != wire.InformAllLIDs) {
				x.remove(c, i, subscriptionDropped, ": it no longer shares a partition with that source")
				i--
			}
			continue
		}
		if r == nil {
			r = x.reports.make(n)
		}
		x.reports.give(c, p, r)
	}
}

// make encodes a Report. Those of traps 68 and 69 are made by signals.
func (x *reports) make(n *wire.Notice) *report {
	r := &report{n: wire.NoticeLen}
	r.rests = n.IsGeneric && (n.TrapNumber == trapGroupCreated || n.TrapNumber == trapGroupDeleted)
	n.Put(r.data[:])
	x.fresh = append(x.fresh, r)
	return r
}

// matchesNotice reports whether a subscription covers a notice (IBA
// §13.4.8.3). Security traps go to trusted subscribers only.
func matchesNotice(s *Subscription, n *wire.Notice) bool {
	r := &s.Info
	if r.IsGeneric == 1 != n.IsGeneric || r.Type != wire.InformAllTypes && r.Type != uint16(n.Type) ||
		r.TrapNumber != wire.InformAllTraps && r.TrapNumber != n.TrapNumber ||
		r.Producer != wire.InformAllProducers && r.Producer != n.Producer {
		return false
	}
	if trap, ok := n.Trap(); !s.Trust && ok && (n.Type == smp.NoticeSecurity || securityTrap(trap)) {
		return false
	}
	if !r.GID.IsZero() {
		return r.GID == n.IssuerGID
	}
	return r.LIDRangeBegin == wire.InformAllLIDs || r.LIDRangeBegin <= n.IssuerLID && n.IssuerLID <= r.LIDRangeEnd
}

// trap forwards a trap that the subnet manager accepted. It drops traps of
// unknown issuers, traps issued in the name of another port, and traps that
// only a manager may issue; otherwise any host could report ports and groups as
// gone.
func (x *informs) trap(c *Core, t *Trap) {
	s := c.snap
	if !serves(s) || len(x.all.list) == 0 {
		return
	}
	n := wire.Notice{Notice: t.Notice}
	if n.IsGeneric && (n.Producer == smp.ProducerClassManager || n.TrapNumber >= smp.TrapGIDInService && n.TrapNumber <= smp.TrapRePath) {
		return
	}
	at, from := s.PortByLID(n.IssuerLID), s.PortByLID(t.From.LID)
	switch {
	case at < 0 && from < 0, at >= 0 && from >= 0 && at != from:
		return
	case at < 0:
		at = from
		n.IssuerLID = s.Ports[at].LID
	}
	n.IssuerGID = s.GID(at)
	may := func(_ *Subscription, port int32) bool { return s.Share(port, at) }
	x.emit(c, &n, false, may)
	if generic(&n.Notice) {
		x.emit(c, &n, false, may)
	}
}

// generic converts the vendor form of a VPort trap to the generic form, because
// most subscribers name that number. It reports whether n is such a trap.
func generic(n *smp.Notice) bool {
	trap, ok := n.Trap()
	if n.IsGeneric || !ok {
		return false
	}
	switch trap {
	case smp.TrapVPortChange, smp.TrapVPortState, smp.TrapVPortBadPKey, smp.TrapVPortBadQKey:
	default:
		return false
	}
	n.IsGeneric, n.Producer, n.TrapNumber = true, smp.ProducerCA, trap
	n.DataDetails[len(n.DataDetails)-2], n.DataDetails[len(n.DataDetails)-1] = 0, 0
	return true
}

// own builds a notice that the subnet manager itself issues.
func own(s *subnet.Snapshot, trap uint16, d smp.Detail) wire.Notice {
	return wire.Notice{
		Notice:    smp.NewTrap(trap, smp.ProducerClassManager, s.LID, d),
		IssuerGID: ib.MakeGID(s.Prefix, s.PortGUID),
	}
}

// groupEvent tells subscribers that a group was created (trap 66) or deleted
// (trap 67).
func (x *informs) groupEvent(c *Core, trap uint16, g *Group) {
	s := c.snap
	if !serves(s) || len(x.all.list) == 0 {
		return
	}
	n := own(s, trap, smp.DetailGID{GID: g.MGID})
	x.emit(c, &n, true, func(_ *Subscription, port int32) bool { return s.HasPKey(port, g.PKey) })
}

// portEvents reports new GIDs (trap 64) and lost GIDs (trap 65), including those of
// VPorts and aliases, the lost ones first. A GID that moved to another port causes
// neither. A GID that returned with another LID also causes trap 69.
func (x *informs) portEvents(c *Core, old, now *subnet.Snapshot) {
	if subnet.SameGUIDs(old, now) {
		return
	}
	var gone, came []int32
	x.gone.expire(c)
	subnet.DiffEndPorts(old, now, func(i int32) { gone = append(gone, i) }, func(i int32) { came = append(came, i) })
	eachGID(old, now, gone, func(g ib.GUID, port int32) {
		x.gone.left(c, g, old.Ports[port].LID)
		n := own(now, smp.TrapGIDOutOfService, smp.DetailGID{GID: ib.MakeGID(old.Prefix, g)})
		x.emit(c, &n, true, func(s *Subscription, _ int32) bool {
			was := old.PortByPortGUID(s.GID.GUID())
			return was >= 0 && old.Share(was, port)
		})
	})
	eachGID(now, old, came, func(g ib.GUID, port int32) {
		if was, ok := x.gone.returned(c, g, now.Ports[port].LID); ok {
			c.signals.back = append(c.signals.back, pathlog.Moved{GUID: g, Was: was})
		}
		n := own(now, smp.TrapGIDInService, smp.DetailGID{GID: ib.MakeGID(now.Prefix, g)})
		x.emit(c, &n, true, func(_ *Subscription, at int32) bool { return now.Share(at, port) })
	})
}

// eachGID calls fn for the GUIDs that a has and b lacks: first those of the
// given ports, then aliases.
func eachGID(a, b *subnet.Snapshot, ports []int32, fn func(g ib.GUID, port int32)) {
	for _, i := range ports {
		if g := a.Ports[i].GUID; b.PortByGUID(g) < 0 { // b may have it as an alias
			fn(g, i)
		}
	}
	aliases := func(i int32) {
		for _, g := range a.Ports[i].Aliases {
			if g != 0 && a.PortByGUID(g) == i && b.PortByGUID(g) < 0 {
				fn(g, i)
			}
		}
	}
	for _, i := range a.EndPortPort {
		aliases(i)
	}
	for i := a.FirstVPort(); int(i) < len(a.Ports); i++ {
		if a.Ports[i].EndPort >= 0 {
			aliases(i)
		}
	}
}
