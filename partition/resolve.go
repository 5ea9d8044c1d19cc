package partition

import (
	"cmp"
	"slices"

	"heddle/ib"
)

// Class is the kind of node that an end port belongs to.
type Class uint8

// The classes.
const (
	CA     Class = iota
	Switch       // port 0 of a switch
	Router
)

// Grants maps the ports of a subnet to the P_Keys that a policy grants them. It
// is immutable.
type Grants struct {
	pol    *Policy
	index0 []int32                 // partitions with index 0, in OpenSM's order
	class  [Router + 1][]ib.PKey   // for a port that no list names individually, ascending by base
	last   [Router + 1][]classLast // by partition
	some   [Router + 1][]int32     // partitions with a line that covers the class
	self   []int32                 // partitions with a line for the manager's own port
	// The lines of single ports: those of guids[i] are lines[start[i]:start[i+1]],
	// ascending by partition.
	guids []ib.GUID // ascending
	start []int32
	lines []guidGrant
}

// classLast is the last member line of a partition that covers a class.
type classLast struct {
	as Membership // 0: none
	at int32      // index of the line
}

type guidGrant struct {
	part int32
	as   Membership
	at   int32
}

// Resolve compiles a valid policy.
func Resolve(p *Policy) *Grants {
	g := &Grants{pol: p}
	n := 0
	for i := range p.Partitions {
		n += len(p.Partitions[i].Members)
	}
	named := make([]guidLine, 0, n)
	for c := range g.last {
		g.last[c] = make([]classLast, len(p.Partitions))
	}
	for i := range p.Partitions {
		q := &p.Partitions[i]
		if q.Index0 {
			g.index0 = append(g.index0, int32(i))
		}
		for at, m := range q.Members {
			x := classLast{m.As, int32(at)}
			switch m.Kind {
			case Port:
				named = append(named, guidLine{m.GUID, guidGrant{int32(i), m.As, int32(at)}})
			case All:
				g.last[CA][i], g.last[Switch][i], g.last[Router][i] = x, x, x
			case AllCAs:
				g.last[CA][i] = x
			case AllSwitches:
				g.last[Switch][i] = x
			case AllRouters:
				g.last[Router][i] = x
			}
		}
	}
	slices.SortFunc(g.index0, func(a, b int32) int { return osmOrder(p.Partitions[a].PKey, p.Partitions[b].PKey) })
	g.index(named)
	for i := range p.Partitions {
		if slices.ContainsFunc(p.Partitions[i].Members, func(m Member) bool { return m.Kind == Self }) {
			g.self = append(g.self, int32(i))
		}
	}
	for c := range g.class {
		for i := range p.Partitions {
			if g.last[c][i].as != 0 {
				g.some[c] = append(g.some[c], int32(i))
			}
			g.class[c] = appendKeys(g.class[c], p.Partitions[i].PKey, g.last[c][i].as)
		}
		g.class[c] = slices.Clip(floor(g.class[c], ib.PKeyDefaultLimited))
	}
	return g
}

// guidLine is a member line of a single port.
type guidLine struct {
	guid ib.GUID
	guidGrant
}

// index sorts the lines of single ports, which are in order of partition and
// line. Of those of one partition the last applies.
func (g *Grants) index(named []guidLine) {
	slices.SortStableFunc(named, func(a, b guidLine) int { return cmp.Compare(a.guid, b.guid) })
	g.lines = make([]guidGrant, 0, len(named))
	for i, x := range named {
		switch {
		case i == 0 || x.guid != named[i-1].guid:
			g.guids, g.start = append(g.guids, x.guid), append(g.start, int32(len(g.lines)))
		case x.part == named[i-1].part:
			g.lines[len(g.lines)-1] = x.guidGrant
			continue
		}
		g.lines = append(g.lines, x.guidGrant)
	}
	g.start = append(g.start, int32(len(g.lines)))
}

// named are the lines of a GUID.
func (g *Grants) named(guid ib.GUID) []guidGrant {
	i, ok := slices.BinarySearch(g.guids, guid)
	if !ok {
		return nil
	}
	return g.lines[g.start[i]:g.start[i+1]]
}

// Names reports whether a GUID is named by a member line.
func (g *Grants) Names(guid ib.GUID) bool { return len(g.named(guid)) > 0 }

// Policy is the policy of the grants.
func (g *Grants) Policy() *Policy { return g.pol }

// appendKeys appends the table entries of a membership, the full one last.
func appendKeys(list []ib.PKey, base ib.PKey, as Membership) []ib.PKey {
	switch as {
	case Limited:
		return append(list, base)
	case Full:
		return append(list, base|0x8000)
	case Both:
		return append(list, base, base|0x8000)
	}
	return list
}

// floor makes sure that a list, ascending by base, has at least key of the
// default partition, whose base is the highest.
func floor(list []ib.PKey, key ib.PKey) []ib.PKey {
	n := len(list)
	switch {
	case n == 0 || list[n-1].Base() != DefaultKey:
		return append(list, key)
	case key.IsFull() && !list[n-1].IsFull():
		list[n-1] = key
	}
	return list
}

// Of lists the P_Keys of an end port, with bit 15 set for full membership,
// ascending by base: those granted to its port GUID, its class, or (with self)
// to the manager's own port, according to the last line that names it; plus
// those granted to its alias GUIDs. Every port is a member of the default
// partition, and the manager's a full one. The list is shared and must not be
// changed.
func (g *Grants) Of(class Class, guid ib.GUID, aliases []ib.GUID, self bool) []ib.PKey {
	own := g.named(guid)
	var more []guidGrant
	for _, a := range aliases {
		if a != 0 && a != guid {
			more = append(more, g.named(a)...)
		}
	}
	if !self && len(own)+len(more) == 0 {
		return g.class[class]
	}
	slices.SortFunc(more, func(a, b guidGrant) int { return cmp.Compare(a.part, b.part) })
	parts := make([]int32, 0, len(g.some[class])+len(own)+len(more)+len(g.self))
	parts = append(parts, g.some[class]...)
	for _, l := range [2][]guidGrant{own, more} {
		for _, x := range l {
			parts = append(parts, x.part)
		}
	}
	if self {
		parts = append(parts, g.self...)
	}
	slices.Sort(parts)
	list := make([]ib.PKey, 0, len(parts)+1)
	for _, i := range slices.Compact(parts) {
		q := &g.pol.Partitions[i]
		x := g.last[class][i]
		if len(own) > 0 && own[0].part == i {
			if x.as == 0 || own[0].at > x.at {
				x = classLast{own[0].as, own[0].at}
			}
			own = own[1:]
		}
		if self {
			for at := len(q.Members) - 1; at >= 0; at-- {
				if q.Members[at].Kind == Self {
					if x.as == 0 || int32(at) > x.at {
						x.as = q.Members[at].As
					}
					break
				}
			}
		}
		for len(more) > 0 && more[0].part == i {
			switch as := more[0].as; {
			case x.as == Both || as == Both:
				x.as = Both
			case x.as < as:
				x.as = as
			}
			more = more[1:]
		}
		list = appendKeys(list, q.PKey, x.as)
	}
	if self {
		return floor(list, ib.PKeyDefaultFull)
	}
	return floor(list, ib.PKeyDefaultLimited)
}

// Index0 is the base of the P_Key that an end port (see Of) has at index 0, 0 if
// that is free: the line that grants the key decides. Of several such keys the
// first in OpenSM's order counts.
func (g *Grants) Index0(class Class, guid ib.GUID, aliases []ib.GUID, self bool) ib.PKey {
	for _, i := range g.index0 {
		q := &g.pol.Partitions[i]
		at := int32(-1)
		if x := g.last[class][i]; x.as != 0 {
			at = x.at
		}
		at = max(at, g.line(i, guid))
		if self {
			for k := len(q.Members) - 1; k > int(at); k-- {
				if q.Members[k].Kind == Self {
					at = int32(k)
				}
			}
		}
		for k := 0; at < 0 && k < len(aliases); k++ {
			at = g.line(i, aliases[k])
		}
		if at >= 0 && !q.Members[at].AnyIndex {
			return q.PKey
		}
	}
	return 0
}

// line is the last line of a partition that names a GUID, -1 if there is none.
func (g *Grants) line(part int32, guid ib.GUID) int32 {
	for _, x := range g.named(guid) {
		if x.part == part {
			return x.at
		}
	}
	return -1
}
