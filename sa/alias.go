package sa

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/mad"
	"heddle/partition"
	"heddle/store"
	"heddle/subnet"
)

const (
	// aliasWait is how long the answer to a Set or Delete waits for the port's
	// acknowledgment. After that the requester gets BUSY. The request stays in
	// force and programming continues, so a retry is harmless.
	aliasWait = 5 * time.Second
	// maxAliasWaits bounds the pending answers, maxAliasWaitsPerPort those for one
	// port. A request over the limit gets BUSY immediately.
	maxAliasWaits        = 4096
	maxAliasWaitsPerPort = 64
	// assignTries is how many GUIDs the SA tries before it gives up assigning one.
	assignTries = 1000

	guidsPerBlock = 8
)

// aliases owns the alias GUIDs of ports (GUIDInfoRecord Set and Delete, IBA
// §15.2.5.18). The port itself, another port of its node, and trusted
// requesters may set aliases. Entries of virtual machines on a shared port
// belong to the address manager.
//
// An alias stays until it is deleted: the subnet manager restores it in a port
// that lost it. The SA remembers the GUID that it assigned to an index even
// after the alias is deleted.
type aliases struct {
	ports   map[ib.GUID][]aliasEntry // ascending index
	used    map[ib.GUID]aliasAt      // alias GUID → entry that has it
	last    uint32                   // the last number used in an assigned GUID
	waiting []aliasReply             // ascending deadlines
}

// aliasAt names an entry of a port's GUIDInfo table.
type aliasAt struct {
	port  ib.GUID
	index uint8
}

type aliasEntry struct {
	index    uint8
	guid     ib.GUID // 0: none
	assigned ib.GUID // the GUID that the SA last assigned here; 0: none
	carries  bool    // a trusted request set guid, so the port gets its partitions
}

// aliasReply is an answer that waits for the port's acknowledgment.
type aliasReply struct {
	to      mad.Addr
	mad     ib.MAD // the request
	port    ib.GUID
	block   uint8
	mask    uint8 // the requested entries of the block
	refused uint8 // entries that belong to another owner; answered as 0
	until   mad.Time
}

func (x *aliases) load(c *Core, r *store.Record) error {
	at, e, err := decodeAlias(r.Key, r.Value)
	if err != nil {
		return err
	}
	if e.guid != 0 {
		if other, dup := x.used[e.guid]; dup && other != at {
			return fmt.Errorf("sa: stored alias GUID %v of port %v index %d: port %v index %d has it; the record is ignored", e.guid, at.port, at.index, other.port, other.index)
		}
	}
	x.put(at, e)
	return nil
}

func (x *aliases) entry(at aliasAt) (i int, ok bool) {
	return slices.BinarySearchFunc(x.ports[at.port], at.index, func(e aliasEntry, i uint8) int { return cmp.Compare(e.index, i) })
}

// now returns the current entry. If the SA has no record of it, it is the alias
// that an earlier manager left in the port. A GUID of the form that an SA
// assigns counts as assigned, so a requester keeps it.
func (x *aliases) now(p *subnet.Port, at aliasAt) aliasEntry {
	i, ok := x.entry(at)
	if ok {
		return x.ports[at.port][i]
	}
	e := aliasEntry{index: at.index, guid: p.Alias(at.index)}
	if e.guid>>40 == assignedOUI {
		e.assigned = e.guid
	}
	return e
}

// put replaces an entry.
func (x *aliases) put(at aliasAt, e aliasEntry) {
	if x.ports == nil {
		x.ports, x.used = map[ib.GUID][]aliasEntry{}, map[ib.GUID]aliasAt{}
	}
	list := x.ports[at.port]
	i, ok := x.entry(at)
	if ok {
		if old := list[i].guid; old != 0 {
			delete(x.used, old)
		}
		list[i] = e
	} else {
		list = slices.Insert(list, i, e)
	}
	x.ports[at.port] = list
	if e.guid != 0 {
		x.used[e.guid] = at
	}
	if e.assigned>>40 == assignedOUI {
		x.last = max(x.last, uint32(e.assigned))
	}
}

// request takes a Set or Delete of a GUIDInfoRecord.
func (x *aliases) request(c *Core, q *query, m []byte) {
	var r wire.GUIDInfoRecord
	w := aliasReply{to: q.req.From, mad: ib.MAD(m), until: c.now.Add(aliasWait)}
	st := statusInvalid
	if r.Decode(q.data) == nil {
		st = x.apply(c, q, &r, &w)
	}
	switch {
	case st != 0:
		c.reply(q.req, refuse(nil, m, st))
	case x.settle(c, &w):
	default:
		// A retry replaces the pending request.
		x.waiting = slices.DeleteFunc(x.waiting, func(o aliasReply) bool {
			return o.to == w.to && o.port == w.port && o.block == w.block && o.mad.TID() == w.mad.TID()
		})
		mine := 0
		for i := range x.waiting {
			if x.waiting[i].port == w.port {
				mine++
			}
		}
		if mine >= maxAliasWaitsPerPort || len(x.waiting) >= maxAliasWaits {
			c.reply(q.req, refuse(nil, m, ib.StatusBusy))
			return
		}
		x.waiting = append(x.waiting, w)
	}
}

// apply checks the request and changes the wanted aliases: all of them or none.
func (x *aliases) apply(c *Core, q *query, r *wire.GUIDInfoRecord, w *aliasReply) ib.Status {
	if !q.has(wire.GUIDInfoCompLID | wire.GUIDInfoCompBlock) {
		return statusInsufficient
	}
	pi := q.s.PortByLID(r.LID)
	if pi < 0 || q.s.Ports[pi].Virtual != nil || int(r.Block)*guidsPerBlock >= int(q.s.Ports[pi].Info.GUIDCap) {
		return statusNoRecords
	}
	p := q.s.Ports[pi]
	if !q.trusted && !mayAlias(q, p) {
		return statusInvalid
	}
	w.port, w.block = p.GUID, r.Block
	w.mask = uint8(q.mask / wire.GUIDInfoCompGUID0)
	if r.Block == 0 && w.mask&1 != 0 {
		return statusInvalid // the GUID of the hardware
	}
	if n := int(p.Info.GUIDCap) - int(r.Block)*guidsPerBlock; n < guidsPerBlock {
		w.mask &= 1<<n - 1
	}
	want, st := x.resolve(c, q, r, w, pi)
	if st != 0 {
		return st
	}
	for i, e := range want {
		at := aliasAt{p.GUID, r.Block*guidsPerBlock + uint8(i)}
		old := x.now(p, at)
		if _, ours := x.entry(at); w.mask&(1<<i) == 0 || e == old && (ours || e.guid == 0 || x.held(p, at)) {
			continue
		}
		x.put(at, e)
		c.save(store.TableAliases, aliasKey(at), aliasValue(e))
		c.out.AliasesChanged = true
		if e.guid != old.guid {
			c.notice("alias_changed", fmt.Sprintf("alias GUID %d of port %v: %v, was %v", at.index, at.port, e.guid, old.guid))
		}
	}
	return 0
}

// resolve finds the aliases that a request asks for, entry by entry of its block.
func (x *aliases) resolve(c *Core, q *query, r *wire.GUIDInfoRecord, w *aliasReply, pi int32) (want [guidsPerBlock]aliasEntry, st ib.Status) {
	p := q.s.Ports[pi]
	del := w.mad.Method() == ib.MethodDelete
	for i := range want {
		if w.mask&(1<<i) == 0 {
			continue
		}
		at := aliasAt{p.GUID, r.Block*guidsPerBlock + uint8(i)}
		old := x.now(p, at)
		e := old
		free := func(g ib.GUID) bool {
			return !x.taken(q.s, g, at) && !slices.ContainsFunc(want[:i], func(o aliasEntry) bool { return o.guid == g })
		}
		switch g := r.GUIDInfo[i]; {
		case del:
			e.guid = 0
		case g == 0:
			e.guid = x.assign(c, &e, free)
		case free(g):
			e.guid = g
		default:
			w.refused |= 1 << i
		}
		if e.guid != old.guid {
			e.carries = false
		}
		e.carries = (e.carries || q.trusted) && e.guid != 0
		if e.guid != old.guid && (x.held(p, at) || old.guid != 0 && c.groups.has(old.guid)) {
			return want, statusDenied
		}
		if e.guid != old.guid && !q.trusted && opens(q.s, pi, e.guid) {
			return want, statusInvalid
		}
		want[i] = e
	}
	return want, 0
}

// taken reports whether a GUID belongs to a port or is the alias of another
// entry.
func (x *aliases) taken(s *subnet.Snapshot, g ib.GUID, at aliasAt) bool {
	if other, ok := x.used[g]; ok {
		return other != at
	}
	p := s.PortByGUID(g)
	if p < 0 {
		return s.NodeByGUID(g) >= 0
	}
	port := s.Ports[p]
	if port.GUID == g || port.GUID != at.port {
		return true
	}
	// An alias that the port still shows but that is no longer wanted is free.
	k := slices.Index(port.Aliases, g)
	return k > 0 && k != int(at.index) && x.held(port, aliasAt{at.port, uint8(k)})
}

// mayAlias reports whether the requester may set aliases of a port. Ports of the
// same node may; virtual machines on it may not.
func mayAlias(q *query, p *subnet.Port) bool {
	if q.me < 0 || q.s.Ports[q.me].Node != p.Node || q.s.Ports[q.me].Virtual != nil {
		return false
	}
	from := &q.req.From
	return !from.HasGRH || from.GRH.GID.GUID() == q.s.Ports[q.me].GUID
}

// held reports whether an entry of a port with functions belongs to a virtual
// machine. The address manager owns those, and the SA does not touch them. An unknown
// entry counts as one, unless it has the form of an SA-assigned GUID.
func (x *aliases) held(p *subnet.Port, at aliasAt) bool {
	if _, ours := x.entry(at); ours || p.Adapter == nil || p.Adapter.Model != subnet.SharedPort {
		return false
	}
	g := p.Alias(at.index)
	return g != 0 && g>>40 != assignedOUI
}

// assignedOUI is the OUI of GUIDs that the SA assigns.
const assignedOUI = 0x001405

// assign chooses a GUID for an entry: its earlier assigned GUID if that is
// free, otherwise the next number.
func (x *aliases) assign(c *Core, e *aliasEntry, free func(ib.GUID) bool) ib.GUID {
	if e.assigned != 0 && free(e.assigned) {
		return e.assigned
	}
	for range assignTries {
		if x.last++; x.last == 0 {
			continue
		}
		g := ib.GUID(assignedOUI<<40 | uint64(c.cfg.AssignedGUIDByte)<<32 | uint64(x.last))
		if free(g) {
			e.assigned = g
			return g
		}
	}
	return 0
}

// opens reports whether an alias GUID would give the port a partition that it
// is not a member of. The partition policy can grant P_Keys to alias GUIDs, for
// virtual ports. Without this check a host could claim an alias meant for
// another host and gain its partitions.
func opens(s *subnet.Snapshot, port int32, alias ib.GUID) bool {
	if s.Partitions == nil || alias == 0 {
		return false
	}
	for i := range s.Partitions.Partitions {
		p := &s.Partitions.Partitions[i]
		for _, m := range p.Members {
			if m.Kind == partition.Port && m.GUID == alias && !holds(s, port, p.PKey, m.As) {
				return true
			}
		}
	}
	return false
}

// holds reports whether a port has the membership as, or a stronger one, in the
// partition of key.
func holds(s *subnet.Snapshot, port int32, key ib.PKey, as partition.Membership) bool {
	return slices.ContainsFunc(s.Ports[port].Keys(), func(k ib.PKey) bool {
		return k.Base() == key.Base() && (k.IsFull() || as == partition.Limited)
	})
}

// settle sends the answer once the port shows the wanted entries, or once the
// port is gone.
func (x *aliases) settle(c *Core, w *aliasReply) bool {
	req := &Request{From: w.to}
	pi := c.snap.PortByPortGUID(w.port)
	if pi < 0 {
		c.reply(req, refuse(nil, w.mad[:], statusNoRecords))
		return true
	}
	p := c.snap.Ports[pi]
	var r wire.GUIDInfoRecord
	_ = r.Decode(w.mad[wire.DataOffset:])
	for i := range r.GUIDInfo {
		k := w.block*guidsPerBlock + uint8(i)
		has := p.Alias(k)
		if w.mask&(1<<i) != 0 && has != x.now(p, aliasAt{w.port, k}).guid {
			return false
		}
		switch {
		case k == 0:
			has = p.GUID
		case w.refused&(1<<i) != 0:
			has = 0
		}
		r.GUIDInfo[i] = has
	}
	c.answer(req, w.mad[:], wire.GUIDInfoRecordLen, r.Put)
	return true
}

// published answers requests whose ports have acknowledged, and drops entries
// whose deletion is complete.
func (x *aliases) published(c *Core, _, now *subnet.Snapshot) {
	if !serves(now) {
		x.waiting = nil // the new master answers
		return
	}
	x.waiting = slices.DeleteFunc(x.waiting, func(w aliasReply) bool { return x.settle(c, &w) })
	for _, port := range x.order() {
		pi := now.PortByPortGUID(port)
		list := x.ports[port]
		kept := list[:0]
		for _, e := range list {
			if e.guid != 0 || e.assigned != 0 || pi < 0 || now.Ports[pi].Alias(e.index) != 0 {
				kept = append(kept, e)
				continue
			}
			c.save(store.TableAliases, aliasKey(aliasAt{port, e.index}), nil)
		}
		if x.ports[port] = kept; len(kept) == 0 {
			delete(x.ports, port)
		}
	}
}

func (x *aliases) order() []ib.GUID { return slices.Sorted(maps.Keys(x.ports)) }

// timers sends BUSY for requests past their deadline.
func (x *aliases) timers(c *Core) {
	for len(x.waiting) > 0 && x.waiting[0].until <= c.now {
		w := &x.waiting[0]
		c.reply(&Request{From: w.to}, refuse(nil, w.mad[:], ib.StatusBusy))
		x.waiting = slices.Delete(x.waiting, 0, 1)
	}
}

func (x *aliases) nextTimer() mad.Time {
	if len(x.waiting) == 0 {
		return mad.Never
	}
	return x.waiting[0].until
}

// wanted lists the wanted aliases by port and index; GUID 0 empties an entry.
func (x *aliases) wanted() []subnet.Alias {
	var list []subnet.Alias
	for _, port := range x.order() {
		for _, e := range x.ports[port] {
			list = append(list, subnet.Alias{Port: port, Index: e.index, GUID: e.guid, Carries: e.carries})
		}
	}
	return list
}
