package partition

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"heddle/ib"
)

// Errors of edits. They are wrapped in a text that names the partition or member, and what to do.
var (
	ErrNotFound = errors.New("not found") // no such partition, or no such member
	ErrExists   = errors.New("it exists")
)

// WithPartition is the policy with a new partition, which may be without members. ErrExists if its P_Key
// is in use.
func (p *Policy) WithPartition(q Partition) (*Policy, error) {
	if o := p.Find(q.PKey); o != nil {
		return nil, fmt.Errorf("P_Key %v belongs to partition %q: %w: choose another one, or change its members", o.PKey, o.Name, ErrExists)
	}
	if err := ownPort(&q); err != nil {
		return nil, err
	}
	q.normalize()
	out := &Policy{Partitions: append(slices.Clone(p.Partitions), q)}
	out.sort()
	return out.valid()
}

// WithoutPartition is the policy without a partition. The default one stays.
func (p *Policy) WithoutPartition(k ib.PKey) (*Policy, error) {
	q := p.Find(k)
	switch {
	case q == nil:
		return nil, noPartition(k)
	case q.PKey == DefaultKey:
		return nil, fmt.Errorf("the default partition %v cannot be deleted: without it no port reaches the subnet administrator", DefaultKey)
	}
	out := &Policy{Partitions: slices.DeleteFunc(slices.Clone(p.Partitions), func(x Partition) bool { return x.PKey == q.PKey })}
	return out.valid()
}

// WithMember is the policy with a member of a partition, whose lines of before are replaced. A single
// port and SELF become the last line, so that nothing overrides it. A class of ports keeps its place.
// A new class comes before single ports, and ALL before all, so that these stay exceptions to it. The P_Key is at index 0 if
// that is so for the other members of the partition; m.AnyIndex does not count.
func (p *Policy) WithMember(k ib.PKey, m Member) (*Policy, error) {
	q := p.Find(k)
	if q == nil {
		return nil, noPartition(k)
	}
	x := *q
	m.AnyIndex = !x.Index0
	same := func(o Member) bool { return o.Kind == m.Kind && o.GUID == m.GUID }
	single := m.Kind == Port || m.Kind == Self
	at := slices.IndexFunc(x.Members, same)
	if at >= 0 {
		m.AnyIndex = x.Members[at].AnyIndex
	}
	if at >= 0 && !single {
		x.Members = slices.Clone(x.Members)
		x.Members[at] = m
	} else {
		x.Members = slices.DeleteFunc(slices.Clone(x.Members), same)
		x.Members = slices.Insert(x.Members, x.placeFor(m.Kind), m)
	}
	if err := ownPort(&x); err != nil {
		return nil, err
	}
	return p.with(x)
}

// placeFor is where a new line goes: one that names more ports before one that names fewer.
func (q *Partition) placeFor(k Kind) int {
	switch k {
	case All:
		return 0
	case Port, Self:
		return len(q.Members)
	}
	if i := slices.IndexFunc(q.Members, func(o Member) bool { return o.Kind == Port || o.Kind == Self }); i >= 0 {
		return i
	}
	return len(q.Members)
}

// WithoutMember is the policy without the lines of a partition that name a member: the same class of
// ports, or the same GUID. ErrNotFound if there are none. The last member of a partition stays:
// WithoutPartition ends both.
func (p *Policy) WithoutMember(k ib.PKey, m Member) (*Policy, error) {
	q := p.Find(k)
	if q == nil {
		return nil, noPartition(k)
	}
	x := *q
	x.Members = slices.DeleteFunc(slices.Clone(q.Members), func(o Member) bool { return o.Kind == m.Kind && o.GUID == m.GUID })
	switch {
	case len(x.Members) == len(q.Members):
		hint := "it is a member by a class of ports, by an interface of a virtual machine, or not at all"
		if m.Kind != Port {
			hint = "'heddle ctl partitions show' prints the members"
		}
		return nil, fmt.Errorf("partition %q (%v) has no line for %v: %w; %s", q.Name, q.PKey, m, ErrNotFound, hint)
	case len(x.Members) == 0:
		return nil, fmt.Errorf("%v is the last member of partition %q (%v): delete the partition", m, q.Name, q.PKey)
	case q.PKey == DefaultKey && m.Kind == Self:
		return nil, errOwnPort
	}
	return p.with(x)
}

// with replaces the partition of the same P_Key.
func (p *Policy) with(q Partition) (*Policy, error) {
	q.normalize()
	out := &Policy{Partitions: slices.Clone(p.Partitions)}
	*out.Find(q.PKey) = q
	return out.valid()
}

// normalize makes Index0 and AnyIndex as Parse has them.
func (q *Partition) normalize() {
	q.Index0 = slices.ContainsFunc(q.Members, func(m Member) bool { return !m.AnyIndex }) && q.Index0
	for i := range q.Members {
		if m := &q.Members[i]; m.AnyIndex && !q.Index0 {
			q.Members = slices.Clone(q.Members)
			for j := range q.Members {
				q.Members[j].AnyIndex = false
			}
			return
		}
	}
}

var errOwnPort = fmt.Errorf("the port of the subnet manager stays a full member of the default partition %v: otherwise no port would reach it", DefaultKey)

// ownPort refuses a line of the default partition that Grants.Of would not follow.
func ownPort(q *Partition) error {
	if q.PKey == DefaultKey && slices.ContainsFunc(q.Members, func(m Member) bool { return m.Kind == Self && m.As == Limited }) {
		return errOwnPort
	}
	return nil
}

func (p *Policy) valid() (*Policy, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	return p, nil
}

func noPartition(k ib.PKey) error {
	return fmt.Errorf("no partition has the P_Key %v: %w; 'heddle ctl partitions' lists them", k.Base(), ErrNotFound)
}

// ParseMembership reads full, limited or both.
func ParseMembership(s string) (Membership, error) {
	for as := Limited; as <= Both; as++ {
		if s == as.String() {
			return as, nil
		}
	}
	return 0, fmt.Errorf("membership %s: want full, limited or both", short(s))
}

// ParseMember reads a member as Member.String prints it: a port GUID with 0x, or a class of ports.
// The membership is not set; ok is false if s is neither.
func ParseMember(s string) (m Member, ok bool) {
	for k := All; int(k) < len(kindNames); k++ {
		if s == kindNames[k] {
			return Member{Kind: k}, true
		}
	}
	if !strings.HasPrefix(s, "0x") && !strings.HasPrefix(s, "0X") {
		return m, false // it may be a name, such as "cafe"
	}
	g, err := ib.ParseGUID(s)
	if err != nil || g == 0 {
		return m, false
	}
	return Member{Kind: Port, GUID: g}, true
}
