package pkeymgr

import (
	"cmp"
	"maps"
	"slices"

	"heddle/ib"
	"heddle/mad"
	"heddle/partition"
	"heddle/store"
	"heddle/subnet"
)

// P_Keys that stay although nothing in force gives them. A manager whose store cannot know what
// another manager gave (package tenure) looks through each table once, when it is read whole, and
// keeps what it finds, for the GUID that has it. So a virtual machine that moves takes its keys
// along. It does not keep
//
//   - keys of the default partition, whose members every policy names;
//   - keys in quarantine, which were taken away by this store's manager;
//   - keys about which an administrator has decided since;
//   - keys of a partition whose policy names the port: then the policy says what it is;
//   - keys that the switch before the port does not let pass: nobody uses them. A host can write
//     its own table, but not that of the switch;
//   - keys of a port that comes up before a switch port that enforces nothing yet but is to: no
//     switch ever let them pass;
//   - keys of a virtual port that is not up: another virtual machine left them;
//   - keys in a table that this manager has written in this mastership.
//
// Kept keys are not stored. After a restart they are found in the tables again.

// keptName stands in quarantine for the partition that gave a kept key. No partition has this name.
const keptName = "\x00kept"

// Keeper says whether keys stay that nothing in force gives. tenure.Tenure implements it.
type Keeper interface {
	Keeps() bool
	// Decided reports whether an administrator decided about a key, so that it is not kept.
	Decided(k ib.PKey) bool
	// Decide notes that one decided about keys, and returns what is to be stored with that.
	Decide(keys []ib.PKey) []store.Op
}

// keptKeys are the keys that are kept.
type keptKeys struct {
	by  map[ib.GUID]*keptAt // by the GUID by which the holder is a member of partitions
	met map[ib.GUID]bool    // holders whose tables were looked through
	all bool                // all of the subnet
	// life is Manager.life when MeetAnew was called last.
	life uint32
}

// keptAt is what one holder keeps.
type keptAt struct {
	place subnet.Place // where it was seen last; function 0: a port
	keys  []ib.PKey    // ascending by base
	since mad.Time
}

func (k *keptKeys) init() { k.by, k.met = map[ib.GUID]*keptAt{}, map[ib.GUID]bool{} }

// MeetAnew has all tables looked through again: another manager may have written them. In a new
// mastership nothing counts that was kept in an earlier one: it may have been revoked since.
// Otherwise, when parts of a subnet were joined, it counts until its table is looked through.
func (m *Manager) MeetAnew() {
	clear(m.kept.met)
	m.kept.all = false
	if m.kept.life != m.life {
		clear(m.kept.by)
		m.kept.life, m.news = m.life, true
	}
}

// member is the GUID by which a holder keeps keys.
func (m *Manager) member(h holder) ib.GUID {
	if h.v == nil {
		return h.p.GUID
	}
	guid, _ := m.vportGUIDs(h)
	return guid
}

// withKept adds to the keys that are given to a holder those that it keeps.
func (m *Manager) withKept(h holder, want []ib.PKey) []ib.PKey {
	guid := m.member(h)
	up := h.v == nil || h.v.State() >= ib.StateArmed
	if m.needs.Keeper.Keeps() && !m.kept.met[guid] && up && m.tableKnown(h) {
		keys, sure := m.unknown(h, guid, want)
		if !sure {
			return withKeys(want, keys) // it is settled when the switch port was read
		}
		m.kept.met[guid] = true
		switch {
		case len(keys) > 0:
			m.kept.by[guid] = &keptAt{m.placeOf(h), keys, m.Now}
			m.news = true
		case m.kept.by[guid] != nil && !m.wrote(h): // another manager has revoked them
			delete(m.kept.by, guid)
			m.news = true
		}
	}
	k := m.kept.by[guid]
	if k == nil {
		return want
	}
	if p := m.placeOf(h); p != k.place {
		k.place, m.news = p, true
	}
	return withKeys(want, k.keys)
}

// placeOf names a holder.
func (m *Manager) placeOf(h holder) subnet.Place {
	p := subnet.Place{Port: h.p.GUID}
	if h.v != nil {
		p.Function = h.v.Index()
	}
	return p
}

// unknown lists the keys that a holder has, that nothing gives it and that it keeps. It is not sure
// while the table of the switch port before it is not known.
func (m *Manager) unknown(h holder, guid ib.GUID, want []ib.PKey) (keys []ib.PKey, sure bool) {
	if m.wrote(h) || guid == 0 {
		return nil, true // it has what we gave it, or is nobody
	}
	for _, k := range m.table(h).Have {
		base := k.Base()
		switch {
		case k.IsEmpty() || base == partition.DefaultKey || slices.Contains(keys, k):
		case slices.Contains(want, k) || slices.Contains(want, k|0x8000):
		case m.freed[base] != nil || m.needs.Keeper.Decided(base) || names(m.base.Find(base), guid):
		default:
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return nil, true
	}
	slices.SortFunc(keys, func(a, b ib.PKey) int { return cmp.Or(cmp.Compare(a.Base(), b.Base()), cmp.Compare(a, b)) })
	q := m.edgeOf(h.p)
	switch {
	case q == nil || m.portTable(q).Refused:
		return keys, true
	case enforced(&q.Info) == enforcement{}:
		if q.Info.PortState <= ib.StateInit && m.canEnforce(q) != (enforcement{}) {
			return nil, true
		}
		return keys, true
	case !m.tableKnown(holder{p: q}):
		return keys, false
	}
	pass := m.portTable(q).Have
	return slices.DeleteFunc(keys, func(k ib.PKey) bool {
		return !slices.Contains(pass, k.Base()) && !slices.Contains(pass, k.Base()|0x8000)
	}), true
}

// wrote reports whether a table has what this manager wrote in this mastership.
func (m *Manager) wrote(h holder) bool {
	t := m.table(h)
	return t.Wrote || t.Ghost != nil || t.Sending != nil
}

// names reports whether a partition, which may be nil, names a port.
func names(p *partition.Partition, guid ib.GUID) bool {
	return p != nil && slices.ContainsFunc(p.Members, func(x partition.Member) bool { return x.Kind == partition.Port && x.GUID == guid })
}

// withKeys adds kept keys to given ones. Both ascend by base, as does the result. A limited
// membership that is given is part of a full one that is kept.
func withKeys(want, keys []ib.PKey) []ib.PKey {
	out := make([]ib.PKey, 0, len(want)+len(keys))
	for _, k := range want {
		if k.IsFull() || !slices.Contains(keys, k|0x8000) {
			out = append(out, k)
		}
	}
	for _, k := range keys {
		if !slices.Contains(out, k) {
			out = append(out, k)
		}
	}
	slices.SortFunc(out, func(a, b ib.PKey) int { return cmp.Or(cmp.Compare(a.Base(), b.Base()), cmp.Compare(a, b)) })
	return out
}

// decided lists the P_Keys about whose members p says something else than the policy before.
func decided(old, p *partition.Policy) (keys []ib.PKey) {
	same := func(a, b *partition.Partition) bool { return a.Name == b.Name && slices.Equal(a.Members, b.Members) }
	for i := range old.Partitions {
		q := &old.Partitions[i]
		if n := p.Find(q.PKey); n == nil || !same(q, n) {
			keys = append(keys, q.PKey)
		}
	}
	for i := range p.Partitions {
		if k := p.Partitions[i].PKey; old.Find(k) == nil {
			keys = append(keys, k)
		}
	}
	return slices.DeleteFunc(keys, func(k ib.PKey) bool { return k == partition.DefaultKey })
}

// decideKept ends what is kept of P_Keys about which an administrator decided. It reports whether
// there was something.
func (m *Manager) decideKept(keys []ib.PKey) bool {
	return m.unkeep(func(_ ib.GUID, _ *keptAt, k ib.PKey) bool { return slices.Contains(keys, k.Base()) })
}

// keptOf lists those of the P_Keys that are kept somewhere.
func (m *Manager) keptOf(keys []ib.PKey) []ib.PKey {
	kept := map[ib.PKey]bool{}
	for _, at := range m.kept.by {
		for _, k := range at.keys {
			kept[k.Base()] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(keys), func(k ib.PKey) bool { return !kept[k] })
}

// freeingKept adds P_Keys that are kept no more to those in quarantine.
func freeingKept(freed map[ib.PKey][]string, keys []ib.PKey) map[ib.PKey][]string {
	out := map[ib.PKey][]string{}
	maps.Copy(out, freed)
	for _, k := range keys {
		if !slices.Contains(out[k], keptName) {
			out[k] = append(slices.Clone(out[k]), keptName)
		}
	}
	return out
}

// pruneKept ends what is kept that is given now.
func (m *Manager) pruneKept() {
	p := m.grants.Policy()
	m.unkeep(func(guid ib.GUID, _ *keptAt, k ib.PKey) bool {
		q := p.Find(k.Base())
		return q != nil && slices.ContainsFunc(q.Members, func(x partition.Member) bool {
			return x.Kind == partition.Port && x.GUID == guid && (x.As != partition.Limited || !k.IsFull())
		})
	})
}

// unkeep ends what is kept and what is true of. It reports whether there was something.
func (m *Manager) unkeep(what func(guid ib.GUID, at *keptAt, k ib.PKey) bool) (any bool) {
	for guid, at := range m.kept.by {
		left := slices.DeleteFunc(slices.Clone(at.keys), func(k ib.PKey) bool { return what(guid, at, k) })
		if len(left) == len(at.keys) {
			continue
		}
		any, m.news = true, true
		if at.keys = left; len(left) == 0 {
			delete(m.kept.by, guid)
		}
	}
	return any
}

// DropKept has keys taken away that are kept at ports. Nobody else receives one before all have lost
// it.
func (m *Manager) DropKept(at func(port ib.GUID) bool) {
	var dropped []ib.PKey
	if !m.unkeep(func(_ ib.GUID, h *keptAt, k ib.PKey) bool {
		drop := at(h.place.Port)
		if drop {
			dropped = append(dropped, k.Base())
		}
		return drop
	}) {
		return
	}
	m.freed = freeingKept(m.freed, dropped)
	freed, names := m.freed, addedNames(m.base, m.grants.Policy())
	if m.saving { // the record of the change that is being stored stays complete
		ch := &m.queue[0]
		ch.freed = freeingKept(ch.freed, dropped)
		freed, names = ch.freed, addedNames(m.baseAfter(ch), ch.inForce)
	}
	m.Save(freedOps(freed, names))
	m.again()
}

// Kept lists the keys that are kept, in the order of places.
func (m *Manager) Kept() (list []subnet.Kept) {
	for guid, at := range m.kept.by {
		for _, k := range at.keys {
			list = append(list, subnet.Kept{Place: at.place, GUID: guid, PKey: k, Since: int64(at.since)})
		}
	}
	return list
}

// Met reports whether all tables of the subnet were looked through, as far as they can be read.
func (m *Manager) Met() bool {
	if m.kept.all {
		return true
	}
	all := true
	met := func(h holder) {
		if h.v != nil && h.v.State() < ib.StateArmed || m.table(h).Refused || m.capacity(h) == 0 {
			return
		}
		if m.tableKnown(h) {
			m.granted(h)
		}
		all = all && m.kept.met[m.member(h)]
	}
	for _, pi := range m.Fabric.EndPort {
		p := &m.Fabric.Ports[pi]
		if all = all && m.known(p); all {
			met(holder{p: p})
			m.eachVPort(p, met)
		}
	}
	m.kept.all = all
	return all
}

// ShowAnew has a snapshot published that shows what is kept.
func (m *Manager) ShowAnew() { m.news = true }

// KeepsNothing ends the time in which keys are kept: what was left alone meanwhile is looked at.
func (m *Manager) KeepsNothing() { m.again() }
