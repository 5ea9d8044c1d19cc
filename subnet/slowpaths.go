package subnet

import (
	"cmp"
	"iter"
	"slices"

	"heddle/ib"
)

// PortPair is a path from a port to another one, by the port GUIDs of physical ports.
type PortPair struct{ From, To ib.GUID }

// SlowPaths are the paths that for a while have another service level than the tables say, that of a
// slow lane: those that feed hot spots (docs/hotspots.md). They are immutable; nil: there are none.
type SlowPaths struct {
	SL    ib.SL
	pairs []PortPair // ascending To, From
}

func comparePairs(a, b PortPair) int {
	return cmp.Or(cmp.Compare(a.To, b.To), cmp.Compare(a.From, b.From))
}

// NewSlowPaths returns the paths of pairs on a level; nil if there are none.
func NewSlowPaths(sl ib.SL, pairs []PortPair) *SlowPaths {
	if len(pairs) == 0 {
		return nil
	}
	list := slices.Clone(pairs)
	slices.SortFunc(list, comparePairs)
	return &SlowPaths{SL: sl, pairs: slices.Compact(list)}
}

// Has reports whether the path between two physical ports is one of them.
func (p *SlowPaths) Has(from, to ib.GUID) bool {
	if p == nil {
		return false
	}
	_, ok := slices.BinarySearchFunc(p.pairs, PortPair{from, to}, comparePairs)
	return ok
}

// Len is how many there are.
func (p *SlowPaths) Len() int {
	if p == nil {
		return 0
	}
	return len(p.pairs)
}

// All are the pairs, in ascending order of To, then From.
func (p *SlowPaths) All() iter.Seq[PortPair] {
	if p == nil {
		return func(func(PortPair) bool) {}
	}
	return slices.Values(p.pairs)
}

// Equal reports whether two are the same paths on the same level.
func (p *SlowPaths) Equal(q *SlowPaths) bool {
	return p.Len() == q.Len() && (p.Len() == 0 || p.SL == q.SL && slices.Equal(p.pairs, q.pairs))
}

// Among are those that are also in q, on the same level.
func (p *SlowPaths) Among(q *SlowPaths) *SlowPaths {
	if p.Len() == 0 || q.Len() == 0 || p.SL != q.SL {
		return nil
	}
	both := slices.DeleteFunc(slices.Clone(p.pairs), func(x PortPair) bool { return !q.Has(x.From, x.To) })
	if len(both) == len(p.pairs) {
		return p
	}
	return NewSlowPaths(p.SL, both)
}

// Hash is 0 if there are none, and otherwise never 0.
func (p *SlowPaths) Hash() uint64 {
	if p.Len() == 0 {
		return 0
	}
	h := uint64(p.SL) + 1
	for _, x := range p.pairs {
		for _, g := range [...]ib.GUID{x.To, x.From} {
			h = (h ^ uint64(g)) * 0x9E3779B97F4A7C15
			h ^= h >> 29
		}
	}
	return h | 1
}

// ChangedSlowPaths are the pairs whose level differs between two, in ascending order.
func ChangedSlowPaths(a, b *SlowPaths) (list []PortPair) {
	other := a.Len() > 0 && b.Len() > 0 && a.SL != b.SL
	for x := range a.All() {
		if other || !b.Has(x.From, x.To) {
			list = append(list, x)
		}
	}
	for x := range b.All() {
		if !a.Has(x.From, x.To) {
			list = append(list, x)
		}
	}
	slices.SortFunc(list, comparePairs)
	return list
}

// LIDsAt are the LIDs of a physical port, an index in Ports: its own, and those that only a virtual
// port there has.
func (s *Snapshot) LIDsAt(port int32) []ib.LID {
	p := s.Ports[port]
	list := make([]ib.LID, 0, 1<<p.LMC)
	add := func(base ib.LID, lmc uint8) {
		for k := range ib.LID(1) << lmc {
			if l := base + k; base != 0 && !slices.Contains(list, l) {
				list = append(list, l)
			}
		}
	}
	add(p.LID, p.LMC)
	for i := range s.VPortsOf(port) {
		add(s.Ports[i].LID, s.Ports[i].LMC)
	}
	return list
}
