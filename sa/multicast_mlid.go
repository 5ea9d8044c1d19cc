package sa

import (
	"cmp"
	"slices"

	"heddle/ib"
	"heddle/subnet"
)

// mlids owns the multicast LIDs and the groups of their trees.
//
// A group has an MLID of its own while free ones remain. When they run out,
// groups whose trees would have the same parameters share one. A host selects
// packets by MGID (IBA §10.5.2.2), so sharing only costs packets to ports that
// drop them; a refused join would cost the host its network.
// Config.ExclusiveMLIDs refuses instead.
type mlids struct {
	trees []*mcTree // by MLID - 0xC000; nil: never used
	free  int       // no tree below this index is free
	used  int       // trees with groups
	dirty []*mcTree
}

// mcTree is the tree of one MLID.
type mcTree struct {
	mlid   ib.LID
	groups []*mcGroup // ascending MGID; none: the MLID is free
	mixed  bool       // their parameters differ
	told   *subnet.Group
	dirty  bool
}

// at returns the tree of an MLID.
func (x *mlids) at(l ib.LID) *mcTree {
	i := int(l - ib.LIDMinMulticast)
	for len(x.trees) <= i {
		x.trees = append(x.trees, nil)
	}
	if x.trees[i] == nil {
		x.trees[i] = &mcTree{mlid: l}
	}
	return x.trees[i]
}

// inUse reports whether a group has the MLID.
func (x *mlids) inUse(l ib.LID) bool {
	i := int(l - ib.LIDMinMulticast)
	return i < len(x.trees) && x.trees[i] != nil && len(x.trees[i].groups) > 0
}

// touch marks the tree of an MLID as changed.
func (x *mlids) touch(l ib.LID) {
	if t := x.at(l); !t.dirty {
		t.dirty = true
		x.dirty = append(x.dirty, t)
	}
}

func (x *mlids) add(g *mcGroup) {
	t := x.at(g.MLID)
	if len(t.groups) == 0 {
		x.used++
	}
	i, _ := slices.BinarySearchFunc(t.groups, g.MGID, func(o *mcGroup, m ib.GID) int { return compareGID(o.MGID, m) })
	t.groups = slices.Insert(t.groups, i, g)
}

func (x *mlids) remove(g *mcGroup) {
	t := x.at(g.MLID)
	t.groups = slices.DeleteFunc(t.groups, func(o *mcGroup) bool { return o == g })
	if len(t.groups) == 0 {
		x.used--
		x.free = min(x.free, int(g.MLID-ib.LIDMinMulticast))
	}
}

// lowest returns the lowest free MLID up to limit, 0 if there is none.
func (x *mlids) lowest(limit ib.LID) ib.LID {
	for ; ; x.free++ {
		l := int(ib.LIDMinMulticast) + x.free
		if l > int(limit) {
			return 0
		}
		if !x.inUse(ib.LID(l)) {
			return ib.LID(l)
		}
	}
}

// alike reports whether two groups can share one tree.
func alike(a, b *Group) bool {
	return a.PKey.Base() == b.PKey.Base() && a.SL == b.SL && a.MTU == b.MTU && a.Rate == b.Rate
}

// solicited reports whether an MGID is one of IPv6's solicited-node groups,
// FF1s:601B:<P_Key>::1:FFxx:xxxx (RFC 4391 §4, RFC 4291 §2.7.1).
func solicited(m ib.GID) bool {
	return m[0] == 0xFF && m[1]>>4 == 1 && m[2] == 0x60 && m[3] == 0x1B &&
		[7]byte(m[6:13]) == [7]byte{0, 0, 0, 0, 0, 1, 0xFF}
}

// solicitedLen is the length of the common prefix of two solicited-node MGIDs
// with the same scope and P_Key.
const solicitedLen = 13

// choose returns the MLID for a new group: the requested one if it is free,
// else the lowest free one, else one to share; 0: none. by is the requesting
// port, 0 for groups of partitions. A port that has more than its share of the
// MLIDs must share.
func (x *multicast) choose(c *Core, g *Group, asked ib.LID, by ib.GUID) ib.LID {
	may := by == 0 || x.may(by, int(x.limit)-int(ib.LIDMinMulticast)+1-x.mlids.used)
	if may && asked.IsMulticast() && asked <= x.limit && !x.mlids.inUse(asked) {
		return asked
	}
	if c.cfg.ConsolidateSNM && solicited(g.MGID) {
		lo, _ := x.find(ib.GID(append(slices.Clone(g.MGID[:solicitedLen]), 0, 0, 0)))
		for _, o := range x.list[lo:] {
			if [solicitedLen]byte(o.MGID[:solicitedLen]) != [solicitedLen]byte(g.MGID[:solicitedLen]) {
				break
			}
			if alike(&o.Group, g) {
				return o.MLID
			}
		}
	}
	if may {
		if l := x.mlids.lowest(x.limit); l != 0 {
			return l
		}
	}
	if c.cfg.ExclusiveMLIDs {
		return 0
	}
	return x.mlids.shared(g, x.limit)
}

// shared returns the MLID whose sharing delivers the fewest unwanted packets:
// the one with the fewest members and groups, as last routed, among those whose
// groups all agree with g.
func (x *mlids) shared(g *Group, limit ib.LID) ib.LID {
	best, most := ib.LID(0), 0
	for _, t := range x.trees {
		if t == nil || len(t.groups) == 0 || t.mlid > limit || t.mixed || !alike(&t.groups[0].Group, g) {
			continue
		}
		n := len(t.groups)
		if t.told != nil {
			n += len(t.told.Members)
		}
		if best == 0 || n < most {
			best, most = t.mlid, n
		}
	}
	return best
}

// settle updates the routed groups and reports whether they differ from those
// last reported.
func (x *mlids) settle() (changed bool) {
	for _, t := range x.dirty {
		t.dirty = false
		now := t.route()
		if !sameRoute(t.told, now) {
			t.told, changed = now, true
		}
	}
	x.dirty = x.dirty[:0]
	return changed
}

func sameRoute(a, b *subnet.Group) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.MGID == b.MGID && a.SL == b.SL && a.PKey == b.PKey && a.MTU == b.MTU && a.Rate == b.Rate &&
		slices.Equal(a.Members, b.Members) && slices.Equal(a.Senders, b.Senders)
}

// route returns the tree for the subnet manager to route; nil if its groups
// have no members. Groups of one tree agree, except for groups that other
// managers stored: then the tree gets what all of them support, and the service
// level of the first.
func (t *mcTree) route() *subnet.Group {
	type end struct {
		port     ib.GUID
		receives bool
	}
	n := 0
	t.mixed = false
	for _, g := range t.groups {
		n += len(g.Members)
		t.mixed = t.mixed || !alike(&g.Group, &t.groups[0].Group)
	}
	if n == 0 {
		return nil
	}
	ends := make([]end, 0, n)
	sorted := true
	first := &t.groups[0].Group
	r := &subnet.Group{MGID: first.MGID, MLID: t.mlid, SL: first.SL, PKey: first.PKey, MTU: first.MTU, Rate: first.Rate}
	for _, g := range t.groups {
		r.MTU, r.Rate = min(r.MTU, g.MTU), ib.MinRate(r.Rate, g.Rate)
		for i := range g.Members {
			m := &g.Members[i]
			sorted = sorted && (len(ends) == 0 || ends[len(ends)-1].port < m.PortGUID)
			ends = append(ends, end{m.PortGUID, m.JoinState&joinReceives != 0})
		}
	}
	if !sorted {
		slices.SortFunc(ends, func(a, b end) int { return cmp.Compare(a.port, b.port) })
	}
	r.Members = make([]ib.GUID, 0, n)
	for i := 0; i < len(ends); {
		e := ends[i]
		for i++; i < len(ends) && ends[i].port == e.port; i++ {
			e.receives = e.receives || ends[i].receives
		}
		r.Members = append(r.Members, e.port)
		if !e.receives {
			r.Senders = append(r.Senders, e.port)
		}
	}
	return r
}

// routed lists the groups last reported, in ascending MLID.
func (x *mlids) routed() []subnet.Group {
	var out []subnet.Group
	for _, t := range x.trees {
		if t != nil && t.told != nil {
			out = append(out, *t.told)
		}
	}
	return out
}
