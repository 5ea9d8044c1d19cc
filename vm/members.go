package vm

import (
	"cmp"
	"slices"

	"heddle/ib"
	"heddle/partition"
	"heddle/store"
)

// members says which GUIDs have which P_Keys: through an interface, or directly (AddMembers).
type members struct {
	keys    map[ib.PKey]*group
	given   int                  // memberships of AddMembers
	known   map[ib.GUID]int      // of AddMembers: in how many partitions a GUID is
	ipoib   int                  // partitions of AddMembers with a broadcast group
	touched map[ib.PKey]struct{} // of this transaction

	ops []store.Op     // of this transaction
	log []memberChange // of this transaction

	list  []partition.Partition // as last passed to the subnet manager, ascending
	shown []Members             // as last published, ascending
}

// group is a partition.
type group struct {
	made          bool // by AddMembers: it exists also without members
	index0, ipoib bool
	who           map[ib.GUID]grant
	moved         map[ib.GUID]struct{} // whose grant changed in this transaction
	list          []partition.Member   // as last passed on, ascending by GUID; immutable
}

// grant is the membership of a GUID in a partition, direct and through its interface.
type grant struct{ self, iface as }

type as uint8

const (
	none as = iota
	limited
	full
)

func asOf(isFull bool) as {
	if isFull {
		return full
	}
	return limited
}

// membership is the result of a grant: full if either membership is full.
func (g grant) membership() partition.Membership {
	if max(g.self, g.iface) == full {
		return partition.Full
	}
	return partition.Limited
}

// memberChange is the old state of what AddMembers or RemoveMembers changed. GUID 0: of the
// partition.
type memberChange struct {
	pkey                ib.PKey
	guid                ib.GUID
	self                as
	made, index0, ipoib bool
}

func (m *members) init() {
	m.keys, m.known, m.touched = map[ib.PKey]*group{}, map[ib.GUID]int{}, map[ib.PKey]struct{}{}
}

// knows reports whether a GUID is a direct member of a partition.
func (m *members) knows(g ib.GUID) bool { return m.known[g] > 0 }

func (m *members) group(k ib.PKey) *group {
	g := m.keys[k]
	if g == nil {
		g = &group{who: map[ib.GUID]grant{}, moved: map[ib.GUID]struct{}{}}
		m.keys[k] = g
	}
	return g
}

// peek returns the partition, or an empty one if it does not exist.
func (m *members) peek(k ib.PKey) *group {
	if g := m.keys[k]; g != nil {
		return g
	}
	return &group{}
}

func (m *members) set(k ib.PKey, guid ib.GUID, v grant) {
	g := m.group(k)
	m.touched[k] = struct{}{}
	g.moved[guid] = struct{}{}
	if v == (grant{}) {
		delete(g.who, guid)
	} else {
		g.who[guid] = v
	}
}

// regrant gives an interface the P_Keys of new instead of those of old; either may be
// nil.
func (m *members) regrant(old, new *entry) { //nolint:revive // old and new are what they are
	if old != nil && new != nil && old.GUID == new.GUID && slices.Equal(old.Keys, new.Keys) {
		return
	}
	give := func(e *entry, on bool) {
		if e == nil || e.GUID == 0 {
			return
		}
		for _, k := range e.Keys {
			v := m.peek(k.PKey).who[e.GUID]
			if v.iface = none; on {
				v.iface = asOf(k.Full)
			}
			m.set(k.PKey, e.GUID, v)
		}
	}
	give(old, false)
	give(new, true)
}

// setSelf sets or removes the direct membership of guid and reports whether that is a change.
func (m *members) setSelf(k ib.PKey, guid ib.GUID, to as) bool {
	v := m.peek(k).who[guid]
	if v.self == to {
		return false
	}
	switch {
	case v.self == none:
		m.given++
		m.known[guid]++
	case to == none:
		m.given--
		if m.known[guid]--; m.known[guid] == 0 {
			delete(m.known, guid)
		}
	}
	v.self = to
	m.set(k, guid, v)
	return true
}

// setMade sets the attributes of a partition of AddMembers.
func (m *members) setMade(k ib.PKey, made, index0, ipoib bool) bool {
	if g := m.peek(k); g.made == made && g.index0 == index0 && g.ipoib == ipoib {
		return false
	}
	g := m.group(k)
	m.touched[k] = struct{}{}
	if g.ipoib {
		m.ipoib--
	}
	if ipoib {
		m.ipoib++
	}
	g.made, g.index0, g.ipoib = made, index0, ipoib
	return true
}

// change is setSelf with a store operation and an entry for undo.
func (m *members) change(k ib.PKey, guid ib.GUID, to as) {
	was := m.peek(k).who[guid].self
	if !m.setSelf(k, guid, to) {
		return
	}
	m.log = append(m.log, memberChange{pkey: k, guid: guid, self: was})
	if to == none {
		m.ops = append(m.ops, dropMembership(memberKey(k, guid)))
	} else {
		m.ops = append(m.ops, putMember(k, guid, to == full))
	}
}

// changeMade is setMade with a store operation and an entry for undo.
func (m *members) changeMade(k ib.PKey, made, index0, ipoib bool) {
	g := m.peek(k)
	was := memberChange{pkey: k, made: g.made, index0: g.index0, ipoib: g.ipoib}
	if !m.setMade(k, made, index0, ipoib) {
		return
	}
	m.log = append(m.log, was)
	if made {
		m.ops = append(m.ops, putPartition(k, index0, ipoib))
	} else {
		m.ops = append(m.ops, dropMembership(partitionKey(k)))
	}
}

func (c *Core) addMembers(op *AddMembers) error {
	if err := checkPKey(op.PKey); err != nil {
		return err
	}
	if slices.Contains(op.GUIDs, 0) {
		return invalid("partition %v: no port has GUID 0", op.PKey)
	}
	m := &c.members
	if n := m.given + len(op.GUIDs); n > maxMembers {
		return noRoom("partition %v: %d members of partitions by themselves and %d more: there can be %d", op.PKey, m.given, len(op.GUIDs), maxMembers)
	}
	g := m.peek(op.PKey)
	if op.IPoIB && !g.ipoib && m.ipoib >= maxIPoIB {
		return noRoom("partition %v: %d partitions have a broadcast group, and there can be no more: remove some", op.PKey, m.ipoib)
	}
	index0, ipoib := op.Index0 || g.index0, op.IPoIB || g.ipoib
	if op.Replace {
		index0, ipoib = op.Index0, op.IPoIB
		stay := make(map[ib.GUID]bool, len(op.GUIDs))
		for _, guid := range op.GUIDs {
			stay[guid] = true
		}
		for _, guid := range g.selves() {
			if !stay[guid] {
				m.change(op.PKey, guid, none)
			}
		}
	}
	m.changeMade(op.PKey, true, index0, ipoib)
	for _, guid := range op.GUIDs {
		m.change(op.PKey, guid, asOf(op.Full))
	}
	return nil
}

func (c *Core) removeMembers(op *RemoveMembers) error {
	if err := checkPKey(op.PKey); err != nil {
		return err
	}
	m := &c.members
	g := m.keys[op.PKey]
	if g == nil {
		return nil // there are no members, so the request is fulfilled
	}
	guids := op.GUIDs
	if op.All {
		guids = g.selves()
	}
	for _, guid := range guids {
		m.change(op.PKey, guid, none)
	}
	if op.All {
		m.changeMade(op.PKey, false, false, false)
	}
	return nil
}

// selves are the direct members, ascending.
func (g *group) selves() []ib.GUID {
	var list []ib.GUID
	for guid, v := range g.who {
		if v.self != none {
			list = append(list, guid)
		}
	}
	slices.Sort(list)
	return list
}

func (m *members) dirty() bool { return len(m.touched) > 0 }

// undo reverts AddMembers and RemoveMembers of this transaction. Memberships of interfaces have
// been reverted with their interfaces.
func (m *members) undo() {
	for _, u := range slices.Backward(m.log) {
		if u.guid == 0 {
			m.setMade(u.pkey, u.made, u.index0, u.ipoib)
		} else {
			m.setSelf(u.pkey, u.guid, u.self)
		}
	}
	for k := range m.touched {
		g := m.keys[k]
		clear(g.moved)
		if g.empty() {
			delete(m.keys, k)
		}
	}
	m.log, m.ops = nil, nil
	clear(m.touched)
}

func (g *group) empty() bool { return !g.made && len(g.who) == 0 }

// commit returns all partitions. It costs time proportional to the number of partitions, and of
// members of those that changed.
func (m *members) commit() []partition.Partition {
	changed := make([]ib.PKey, 0, len(m.touched))
	for k := range m.touched {
		changed = append(changed, k)
	}
	slices.Sort(changed)
	m.log, m.ops = nil, nil
	clear(m.touched)
	list := make([]partition.Partition, 0, len(m.list)+len(changed))
	shown := make([]Members, 0, len(m.shown)+len(changed))
	i, j := 0, 0 // in the old lists
	until := func(k ib.PKey) {
		for ; i < len(m.list) && m.list[i].PKey < k; i++ {
			list = append(list, m.list[i])
		}
		for ; j < len(m.shown) && m.shown[j].PKey < k; j++ {
			shown = append(shown, m.shown[j])
		}
	}
	for _, k := range changed {
		until(k)
		if i < len(m.list) && m.list[i].PKey == k {
			i++
		}
		if j < len(m.shown) && m.shown[j].PKey == k {
			j++
		}
		g := m.keys[k]
		if g.empty() {
			delete(m.keys, k)
			continue
		}
		g.merge()
		list = append(list, g.partition(k))
		if s := g.members(k); g.made || len(s.Full)+len(s.Limited) > 0 {
			shown = append(shown, s)
		}
	}
	until(partition.DefaultKey + 1)
	m.list, m.shown = list, shown
	return list
}

// merge brings g.list up to date.
func (g *group) merge() {
	moved := make([]ib.GUID, 0, len(g.moved))
	for guid := range g.moved {
		moved = append(moved, guid)
	}
	slices.Sort(moved)
	clear(g.moved)
	old := g.list
	list := make([]partition.Member, 0, len(g.who))
	for _, guid := range moved {
		n, is := slices.BinarySearchFunc(old, guid, func(m partition.Member, guid ib.GUID) int { return cmp.Compare(m.GUID, guid) })
		list = append(list, old[:n]...)
		if old = old[n:]; is {
			old = old[1:]
		}
		if v, ok := g.who[guid]; ok {
			list = append(list, partition.Member{Kind: partition.Port, GUID: guid, As: v.membership()})
		}
	}
	g.list = append(list, old...)
}

// partition is g as the subnet manager receives it. Its name is its P_Key, so that the
// quarantine of a revoked key applies to other partitions and not to the same one.
func (g *group) partition(k ib.PKey) partition.Partition {
	p := partition.Partition{Name: k.String(), PKey: k, Index0: g.index0, Members: g.list}
	if g.ipoib {
		p.Groups = []partition.Group{partition.Broadcast(k)}
	}
	return p
}

// members is g as Views show it.
func (g *group) members(k ib.PKey) Members {
	m := Members{PKey: k, Index0: g.index0, IPoIB: g.ipoib}
	for _, x := range g.list {
		switch g.who[x.GUID].self {
		case full:
			m.Full = append(m.Full, x.GUID)
		case limited:
			m.Limited = append(m.Limited, x.GUID)
		}
	}
	return m
}

func (c *Core) loadMembership(r *store.Record) error {
	m, err := decodeMembership(r.Key, r.Value)
	if err != nil {
		return err
	}
	if m.guid == 0 {
		c.members.setMade(m.pkey, true, m.index0, m.ipoib)
		return nil
	}
	c.members.setSelf(m.pkey, m.guid, asOf(m.full))
	return nil
}
