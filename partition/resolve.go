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

// Grants says which keys the ports of a subnet are to have under a policy. It
// is immutable.
type Grants struct {
	pol    *Policy
	index0 []ib.PKey               // bases that want index 0
	class  [Router + 1][]ib.PKey   // of a port that is in no list by itself, ascending by base
	guids  map[ib.GUID][]guidGrant // ascending by partition
	last   [Router + 1][]classLast // by partition
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

// Resolve prepares a valid policy for asking.
func Resolve(p *Policy) *Grants {
	g := &Grants{pol: p, guids: map[ib.GUID][]guidGrant{}}
	for c := range g.last {
		g.last[c] = make([]classLast, len(p.Partitions))
	}
	for i := range p.Partitions {
		q := &p.Partitions[i]
		if q.Index0 {
			g.index0 = append(g.index0, q.PKey)
		}
		for at, m := range q.Members {
			x := classLast{m.As, int32(at)}
			switch m.Kind {
			case Port:
				list := g.guids[m.GUID]
				if n := len(list); n > 0 && list[n-1].part == int32(i) {
					list = list[:n-1] // the later line counts
				}
				g.guids[m.GUID] = append(list, guidGrant{int32(i), m.As, int32(at)})
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
	for c := range g.class {
		for i := range p.Partitions {
			g.class[c] = appendKeys(g.class[c], p.Partitions[i].PKey, g.last[c][i].as)
		}
		g.class[c] = slices.Clip(floor(g.class[c], ib.PKeyDefaultLimited))
	}
	return g
}

// Policy is what the grants were made from.
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

// Of lists the keys of an end port, with bit 15 where it is a full member,
// ascending by base: what its port GUID is given, or its class, or it as the
// manager's own, by the last of the lines that name it; and besides what its
// alias GUIDs are given. Every port is a member of the default partition, and
// the manager's a full one. The list is shared: it is not to be changed.
func (g *Grants) Of(class Class, guid ib.GUID, aliases []ib.GUID, self bool) []ib.PKey {
	own := g.guids[guid]
	if !self && len(own) == 0 && !slices.ContainsFunc(aliases, func(a ib.GUID) bool { return len(g.guids[a]) > 0 }) {
		return g.class[class]
	}
	var more []guidGrant
	for _, a := range aliases {
		if a != 0 && a != guid {
			more = append(more, g.guids[a]...)
		}
	}
	slices.SortFunc(more, func(a, b guidGrant) int { return cmp.Compare(a.part, b.part) })
	list := make([]ib.PKey, 0, len(g.class[class])+len(own)+len(more)+1)
	for i := range g.pol.Partitions {
		q := &g.pol.Partitions[i]
		x := g.last[class][i]
		if len(own) > 0 && own[0].part == int32(i) {
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
		for len(more) > 0 && more[0].part == int32(i) {
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

// WantsIndex0 reports whether a key wants index 0 of the tables it is in.
func (g *Grants) WantsIndex0(k ib.PKey) bool { return slices.Contains(g.index0, k.Base()) }
