package sa

import (
	"slices"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/ib/smp"
	"heddle/route"
	"heddle/subnet"
)

// maxPathReports is how many changed paths a subscriber is told of one by one;
// if there are more, it is told that all paths from its port may have changed.
const maxPathReports = 32

// maxPathChanges bounds the changed paths of a switch that are looked at for
// each subscriber behind it. Where there are more its subscribers are told
// likewise, whether those are theirs or not.
const maxPathChanges = 1024

// emit sends a notice to who has subscribed to it and may hear of it. port is
// where the subscriber is, an index in the Ports of the present snapshot. A
// subscription that names its sources and may hear nothing of this one ends
// (IBA o13-17.1.2), unless keep says that the ban lies in the event.
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
				x.remove(c, i, "subscription_dropped", ": it shares no partition with that source any more")
				i--
			}
			continue
		}
		if r == nil {
			r = x.reports.make(n, nil)
		}
		x.reports.give(c, p, r)
	}
}

// make lays out a Report, with a PathRecord behind the notice of traps 68 and 69.
func (x *reports) make(n *wire.Notice, path *wire.PathRecord) *report {
	r := &report{n: wire.NoticeLen}
	n.Put(r.data[:])
	if path != nil {
		path.Put(r.data[wire.NoticeLen:])
		r.n += wire.PathRecordLen
	}
	x.fresh = append(x.fresh, r)
	return r
}

// matchesNotice compares a notice with what a subscription asks for (IBA
// §13.4.8.3). Security traps are for the trusted alone.
func matchesNotice(s *Subscription, n *wire.Notice) bool {
	r := &s.Info
	if r.IsGeneric == 1 != n.IsGeneric || r.Type != wire.InformAllTypes && r.Type != uint16(n.Type) ||
		r.TrapNumber != wire.InformAllTraps && r.TrapNumber != n.TrapNumber ||
		r.Producer != wire.InformAllProducers && r.Producer != n.Producer {
		return false
	}
	if !s.Trust && n.IsGeneric && (n.Type == smp.NoticeSecurity || n.TrapNumber >= smp.TrapBadMKey && n.TrapNumber <= smp.TrapBadPKeySwitchPort) {
		return false
	}
	if !r.GID.IsZero() {
		return r.GID == n.IssuerGID
	}
	return r.LIDRangeBegin == wire.InformAllLIDs || r.LIDRangeBegin <= n.IssuerLID && n.IssuerLID <= r.LIDRangeEnd
}

// trap forwards a trap that the subnet manager took. One whose issuer is not
// known, not even by the LID it came from, goes nowhere; nor does one in the
// name of another port, or of what only a manager can know: any host could have
// others believe that ports and groups are gone.
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
	x.emit(c, &n, false, func(_ *Subscription, port int32) bool { return s.Share(port, at) })
}

// own is a notice that the subnet manager itself issues.
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

// portEvents tells which GIDs have come (trap 64) and gone (trap 65), aliases
// included: first those that have gone.
func (x *informs) portEvents(c *Core, old, now *subnet.Snapshot) {
	var gone, came []int32
	subnet.DiffEndPorts(old, now, func(i int32) { gone = append(gone, i) }, func(i int32) { came = append(came, i) })
	eachGID(old, now, gone, func(g ib.GUID, port int32) {
		n := own(now, smp.TrapGIDOutOfService, smp.DetailGID{GID: ib.MakeGID(old.Prefix, g)})
		x.emit(c, &n, true, func(s *Subscription, _ int32) bool {
			was := old.PortByPortGUID(s.GID.GUID())
			return was >= 0 && old.Share(was, port)
		})
	})
	eachGID(now, old, came, func(g ib.GUID, port int32) {
		n := own(now, smp.TrapGIDInService, smp.DetailGID{GID: ib.MakeGID(now.Prefix, g)})
		x.emit(c, &n, true, func(_ *Subscription, at int32) bool { return now.Share(at, port) })
	})
}

// eachGID calls fn for the GUIDs that a has and b has not: those of ports, which
// are given, then aliases.
func eachGID(a, b *subnet.Snapshot, ports []int32, fn func(g ib.GUID, port int32)) {
	for _, i := range ports {
		fn(a.Ports[i].GUID, i)
	}
	for _, i := range a.EndPortPort {
		for _, g := range a.Ports[i].Aliases {
			if g != 0 && b.PortByGUID(g) < 0 {
				fn(g, i)
			}
		}
	}
}

// pathEvents tells subscribers of traps 68 (UnPath) and 69 (RePath) which paths
// from their own port are lost and which are others now: in another order of
// ports, with another service level, MTU or rate, or back again. Paths to ports
// that came or went are told of by traps 64 and 65.
//
// The PathRecord behind the notice names the paths by the components in the
// mask: SGID, DGID and DLID; SGID alone for all paths from the port. Comparing
// all paths costs time, so it is done only for subscriptions to these two traps
// by number.
func (x *informs) pathEvents(c *Core, old, now *subnet.Snapshot) {
	if old.Tables == now.Tables && old.Graph == now.Graph || old.Tables == nil || now.Tables == nil || old.Graph == nil || now.Graph == nil {
		return
	}
	var diff *pathChanges
	done := map[int32]bool{} // subscribers' ports
	for _, s := range x.all.list {
		if s.Info.IsGeneric != 1 || s.Info.TrapNumber != smp.TrapUnPath && s.Info.TrapNumber != smp.TrapRePath {
			continue
		}
		p := x.reports.peer(s)
		if p.port < 0 || done[p.port] || old.PortByPortGUID(s.GID.GUID()) < 0 {
			continue
		}
		done[p.port] = true
		if diff == nil {
			diff = newPathChanges(old, now)
		}
		x.pathsFrom(c, old, now, diff, p.port)
	}
}

// maxPathWork bounds the work of comparing all paths, in LIDs with another entry
// × switches: some 30 ns each, in a step for which joins wait. Where more has
// changed everybody is told that all paths may have.
const maxPathWork = 4 << 20

// rerouted reports whether so much has changed that it is not compared.
func rerouted(old, now *route.Tables) bool {
	var differs [int(ib.LIDMaxUnicast) + 1]bool
	n := 0
	for s := range min(len(old.LFT), len(now.LFT)) {
		a, b := old.LFT[s], now.LFT[s]
		if len(a) > 0 && len(b) > 0 && &a[0] == &b[0] {
			continue
		}
		for l := range min(len(a), len(b), len(differs)) {
			if a[l] != b[l] && !differs[l] {
				if differs[l], n = true, n+1; n*len(now.LFT) > maxPathWork {
					return true
				}
			}
		}
	}
	return false
}

// pathChanges are the changed paths between two states.
type pathChanges struct {
	all     bool           // of everybody; then there is no more
	sources []int32        // end ports, ascending, all of whose paths may have changed
	from    [][]pathChange // by source switch, ascending LID; more than maxPathChanges: cut
}

type pathChange struct {
	lid  ib.LID
	kind route.PathKind
}

func newPathChanges(old, now *subnet.Snapshot) *pathChanges {
	if rerouted(old.Tables, now.Tables) {
		return &pathChanges{all: true}
	}
	d := route.DiffPaths(route.Solution{Graph: old.Graph, Tables: old.Tables}, route.Solution{Graph: now.Graph, Tables: now.Tables}, nil, 1)
	x := &pathChanges{sources: d.Sources, from: make([][]pathChange, len(now.Graph.Switches))}
	for _, l := range d.LIDs() {
		d.To(l, func(from, to int32, k route.PathKind) {
			for sw := from; sw < to; sw++ {
				if len(x.from[sw]) <= maxPathChanges {
					x.from[sw] = append(x.from[sw], pathChange{l, k})
				}
			}
		})
	}
	return x
}

// pathsFrom tells the subscribers at one port of its paths.
func (x *informs) pathsFrom(c *Core, old, now *subnet.Snapshot, diff *pathChanges, port int32) {
	src := now.Ports[port].EndPort
	sgid := now.GID(port)
	_, all := slices.BinarySearch(diff.sources, src)
	all = all || diff.all
	type change struct {
		lid  ib.LID
		dgid ib.GID
		lost bool
	}
	var list []change
	if sw := now.Graph.EndPorts[src].Switch; sw >= 0 && !all {
		changes := diff.from[sw]
		all = len(changes) > maxPathChanges
		for i := 0; i < len(changes) && !all; i++ {
			l, k := changes[i].lid, changes[i].kind
			was, is := old.PortByLID(l), now.PortByLID(l)
			if is == port || was < 0 || is < 0 && now.PortByPortGUID(old.Ports[was].GUID) < 0 || is >= 0 && old.PortByPortGUID(now.Ports[is].GUID) < 0 {
				continue // itself, or a port that came or went
			}
			at := is
			if at < 0 {
				at = now.PortByPortGUID(old.Ports[was].GUID)
			}
			if !now.Share(port, at) {
				continue
			}
			ch := change{l, old.GID(was), k&route.PathLost != 0 || k&route.PathOwner != 0}
			if !ch.lost {
				ch.dgid = now.GID(at)
			}
			if list = append(list, ch); len(list) > maxPathReports {
				all = true
			}
		}
	}
	if all {
		x.tellPath(c, now, port, smp.TrapRePath, wire.PathCompSGID, &wire.PathRecord{SGID: sgid})
		return
	}
	for _, ch := range list {
		trap := smp.TrapRePath
		if ch.lost {
			trap = smp.TrapUnPath
		}
		x.tellPath(c, now, port, trap, wire.PathCompSGID|wire.PathCompDGID|wire.PathCompDLID, &wire.PathRecord{SGID: sgid, DGID: ch.dgid, DLID: ch.lid})
	}
}

// tellPath sends trap 68 or 69 to the subscribers at one port.
func (x *informs) tellPath(c *Core, s *subnet.Snapshot, port int32, trap uint16, mask wire.CompMask, r *wire.PathRecord) {
	n := own(s, trap, smp.DetailPath{ComponentMask: uint64(mask)})
	rep := (*report)(nil)
	x.reports.event++
	from, to := x.of(ib.MakeGID(s.Prefix, s.Ports[port].GUID))
	for _, sub := range x.all.list[from:to] {
		if !matchesNotice(sub, &n) {
			continue
		}
		if rep == nil {
			rep = x.reports.make(&n, r)
		}
		x.reports.give(c, x.reports.peer(sub), rep)
	}
}
