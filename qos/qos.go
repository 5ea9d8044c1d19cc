// Package qos holds the QoS policy of path answers: the service level, MTU,
// rate, lifetime and P_Key of a path, depending on the requester and the
// requested service (IBA Annex A13). Parse reads it from OpenSM's
// qos-policy.conf and compiles it; a Policy is immutable and safe for
// concurrent use.
package qos

import (
	"slices"

	"heddle/ib"
)

// End is one end of a path.
type End struct {
	GUID  ib.GUID     // port GUID
	Node  string      // node description
	Port  uint8       // port number, 0 for a switch
	Type  ib.NodeType // of the node
	Self  bool        // the subnet manager's own port
	PKeys []ib.PKey   // its P_Key table; nil: unknown, counts as a member of the default partition
}

// Query holds the parameters of a path query.
type Query struct {
	Src, Dst     *End
	PKey         ib.PKey // with HasPKey
	ServiceID    uint64  // with HasServiceID
	QoSClass     uint16  // with HasQoSClass, 12 bits
	HasPKey      bool
	HasServiceID bool
	HasQoSClass  bool
}

// Level holds the parameters of a path. A zero limit is none.
type Level struct {
	Name       string
	SL         ib.SL
	MTULimit   ib.MTU
	RateLimit  ib.Rate
	PacketLife uint8 // with HasLife: lifetime code, 4.096 µs · 2^n
	HasLife    bool
	PKeys      []PKeyRange // P_Keys that a path may use, ascending and disjoint; empty: any
}

// PKeyRange is the P_Keys First to Last, both included, without their
// membership bit.
type PKeyRange struct{ First, Last ib.PKey }

// Allows reports whether a path of this level may use the partition of k,
// regardless of the membership bit.
func (l *Level) Allows(k ib.PKey) bool {
	if len(l.PKeys) == 0 {
		return true
	}
	k = k.Base()
	for _, r := range l.PKeys {
		if k <= r.Last {
			return k >= r.First
		}
	}
	return false
}

// Policy maps queries to levels. The zero value, like nil, has none.
type Policy struct {
	fallback *Level
	groups   []group
	rules    []rule
	// matchable lists, by the components that a query has, the rules that need no
	// others, in the order of the file.
	matchable [8][]int32
}

// Components of a query that rules can test, as index of Policy.matchable.
const (
	asksPKey = 1 << iota
	asksService
	asksClass
)

// span is the numbers lo to hi, both included.
type span struct{ lo, hi uint64 }

// spans are ascending and neither overlap nor touch.
type spans []span

func (s spans) has(v uint64) bool {
	// Most lists have one span or two.
	if len(s) <= 4 {
		for _, x := range s {
			if v <= x.hi {
				return v >= x.lo
			}
		}
		return false
	}
	i, _ := slices.BinarySearchFunc(s, v, func(x span, v uint64) int {
		switch {
		case x.hi < v:
			return -1
		case x.lo > v:
			return 1
		}
		return 0
	})
	return i < len(s) && v >= s[i].lo && v <= s[i].hi
}

// rule is a match rule: a query matches it if it has every component that the
// rule tests, with a value of its list.
type rule struct {
	src, dst []int32 // indices of groups, any of which will do; empty: every port
	service  spans
	class    spans
	pkeys    spans // bases
	level    *Level
}

func (r *rule) asks() int {
	a := 0
	if len(r.pkeys) > 0 {
		a |= asksPKey
	}
	if len(r.service) > 0 {
		a |= asksService
	}
	if len(r.class) > 0 {
		a |= asksClass
	}
	return a
}

// group is a set of ports.
type group struct {
	types uint8 // bit n: nodes of type n
	self  bool
	guids spans
	pkeys spans // base values of the partitions whose members belong to it
	names map[string]*portSet
}

// portSet is a set of port numbers.
type portSet [4]uint64

func (s *portSet) add(n uint8)      { s[n>>6] |= 1 << (n & 63) }
func (s *portSet) has(n uint8) bool { return s[n>>6]&(1<<(n&63)) != 0 }

func (g *group) has(e *End) bool {
	if g.types&(1<<e.Type) != 0 || g.self && e.Self || g.guids.has(uint64(e.GUID)) {
		return true
	}
	if len(g.pkeys) > 0 {
		if e.PKeys == nil && g.pkeys.has(uint64(ib.PKeyDefaultLimited)) {
			return true
		}
		for _, k := range e.PKeys {
			if !k.IsEmpty() && g.pkeys.has(uint64(k.Base())) {
				return true
			}
		}
	}
	if len(g.names) > 0 {
		// A switch has one end port, which all its port numbers name.
		if s := g.names[e.Node]; s != nil {
			return e.Type == ib.NodeSwitch || s.has(e.Port)
		}
	}
	return false
}

// side is one end of a query with its cached group memberships.
type side struct {
	end    *End
	looked uint64 // groups 0 to 63: membership is cached
	member uint64
}

func (s *side) in(p *Policy, groups []int32) bool {
	if s.end == nil {
		return false
	}
	for _, g := range groups {
		if g >= 64 {
			if p.groups[g].has(s.end) {
				return true
			}
			continue
		}
		bit := uint64(1) << g
		if s.looked&bit == 0 {
			s.looked |= bit
			if p.groups[g].has(s.end) {
				s.member |= bit
			}
		}
		if s.member&bit != 0 {
			return true
		}
	}
	return false
}

// Level returns the level of the first matching rule, the default level if no
// rule matches, nil if there is no policy. It allocates nothing; its time grows
// with the number of rules that test only components that the query has.
func (p *Policy) Level(q *Query) *Level {
	if p == nil {
		return nil
	}
	has := 0
	if q.HasPKey {
		has |= asksPKey
	}
	if q.HasServiceID {
		has |= asksService
	}
	if q.HasQoSClass {
		has |= asksClass
	}
	src, dst := side{end: q.Src}, side{end: q.Dst}
	for _, i := range p.matchable[has] {
		r := &p.rules[i]
		switch {
		case len(r.pkeys) > 0 && !r.pkeys.has(uint64(q.PKey.Base())),
			len(r.service) > 0 && !r.service.has(q.ServiceID),
			len(r.class) > 0 && !r.class.has(uint64(q.QoSClass)),
			len(r.src) > 0 && !src.in(p, r.src),
			len(r.dst) > 0 && !dst.in(p, r.dst):
			continue
		}
		return r.level
	}
	return p.fallback
}

// index fills matchable.
func (p *Policy) index() {
	for has := range p.matchable {
		for i := range p.rules {
			if p.rules[i].asks()&^has == 0 {
				p.matchable[has] = append(p.matchable[has], int32(i))
			}
		}
	}
}
