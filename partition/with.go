package partition

import (
	"fmt"
	"slices"

	"heddle/ib"
)

// With is the policy with members added. If p has the P_Key, the members of more
// follow its own, so that of two lines that name one port the added one applies;
// the partition keeps its name and service level, has index 0 if either has, and
// has the groups of both. A partition with another P_Key is added unchanged. A
// P_Key may occur more than once. The result is validated and shares what it can
// with p and more, which are not changed.
//
// It takes time proportional to p's partitions and to those extended.
func (p *Policy) With(more []Partition) (*Policy, error) {
	if p == nil {
		return nil, fmt.Errorf("partition: members cannot be added to no policy")
	}
	if len(more) == 0 {
		if err := p.Validate(); err != nil {
			return nil, err
		}
		return p, nil
	}
	out := &Policy{Partitions: slices.Clone(p.Partitions)}
	at := make(map[ib.PKey]int, len(p.Partitions)+len(more))
	for i := range out.Partitions {
		at[out.Partitions[i].PKey] = i
	}
	added := make(map[ib.PKey]bool, len(more))
	for i := range more {
		q := &more[i]
		added[q.PKey] = true
		if j, ok := at[q.PKey]; ok {
			out.Partitions[j].add(q)
			continue
		}
		at[q.PKey] = len(out.Partitions)
		x := *q
		x.Members, x.Groups = slices.Clip(x.Members), slices.Clip(x.Groups)
		out.Partitions = append(out.Partitions, x)
	}
	out.sort()
	if k, err := out.check(); err != nil {
		if added[k] {
			return nil, fmt.Errorf("P_Key %v cannot have the members that are added to it: %w: take them back, or change the policy", k, err)
		}
		return nil, err
	}
	return out, nil
}

// add adds the members and groups of o. The slices of q are not written to.
func (q *Partition) add(o *Partition) {
	q.Members = append(slices.Clip(q.Members), o.Members...)
	q.Index0 = q.Index0 || o.Index0
	q.Groups = slices.Clip(q.Groups)
	for _, g := range o.Groups {
		if !slices.ContainsFunc(q.Groups, func(x Group) bool { return x.MGID == g.MGID }) {
			q.Groups = append(q.Groups, g)
		}
	}
}

// Equal reports whether two policies are equal, line by line.
func (p *Policy) Equal(o *Policy) bool {
	if p == nil || o == nil {
		return p == o
	}
	return p == o || EqualPartitions(p.Partitions, o.Partitions)
}

// EqualPartitions reports whether two lists of partitions are equal, line by
// line.
func EqualPartitions(a, b []Partition) bool {
	return slices.EqualFunc(a, b, func(a, b Partition) bool {
		return a.Name == b.Name && a.PKey == b.PKey && a.Index0 == b.Index0 && a.SL == b.SL && a.HasSL == b.HasSL &&
			slices.Equal(a.Members, b.Members) && slices.Equal(a.Groups, b.Groups)
	})
}
