package show

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"heddle/api"
	"heddle/ib"
	"heddle/partition"
	"heddle/sm"
	"heddle/subnet"
	"heddle/vm"
)

// EditPartitions is the policy of administrators after a change; s and v may be nil.
func EditPartitions(c *api.PartitionsChange, st *sm.PartitionStatus, s *subnet.Snapshot, v *vm.View) (*partition.Policy, []partition.Warning, error) {
	base := st.Base
	if c.Op == api.ReplacePartitions {
		return partition.Parse(strings.NewReader(c.Config), cmp.Or(c.Name, "partitions"))
	}
	if c.Op == api.CreatePartition {
		p, err := created(&c.New, st, s, v)
		return p, nil, err
	}
	key, err := Partition(st.InForce, c.Partition)
	if err != nil {
		return nil, nil, err
	}
	if c.Op == api.DeletePartition {
		p, err := base.WithoutPartition(key)
		return p, nil, onlyAdded(err, base, st.InForce, key)
	}
	if c.Op == api.RemoveMember {
		m, err := Member(s, v, c.Member)
		if err != nil {
			return nil, nil, err
		}
		p, err := base.WithoutMember(key, m)
		return p, nil, onlyAdded(err, base, st.InForce, key)
	}
	m, err := newMember(s, v, c.Member)
	if err != nil {
		return nil, nil, err
	}
	if m.As, err = partition.ParseMembership(c.Membership); err != nil {
		return nil, nil, err
	}
	if q := st.InForce.Find(key); q != nil && base.Find(key) == nil { // virtual machines made it: it keeps its name
		p, err := base.WithPartition(partition.Partition{Name: q.Name, PKey: key, Members: []partition.Member{m}})
		return p, nil, err
	}
	p, err := base.WithMember(key, m)
	return p, nil, err
}

// onlyAdded says of a partition that is not found that it is one of virtual machines.
func onlyAdded(err error, base, inForce *partition.Policy, key ib.PKey) error {
	if err != nil && base.Find(key) == nil && inForce.Find(key) != nil {
		return fmt.Errorf("partition %v consists of members that virtual machines add to it: change their P_Keys ('heddle ctl vm keys')", key)
	}
	return err
}

// created is the policy with a new partition.
func created(n *api.NewPartition, st *sm.PartitionStatus, s *subnet.Snapshot, v *vm.View) (*partition.Policy, error) {
	q := partition.Partition{Name: n.Name}
	if n.PKey != "" {
		k, err := ib.ParsePKey(n.PKey)
		if err != nil || k.Base() == 0 {
			return nil, fmt.Errorf("P_Key %q: give 0x0001 to 0x7ffe", n.PKey)
		}
		q.PKey = k.Base()
	}
	for q.PKey == 0 || n.PKey == "" && (st.InForce.Find(q.PKey) != nil || slices.Contains(st.Quarantined, q.PKey)) {
		if q.PKey++; q.PKey == partition.DefaultKey {
			return nil, errors.New("no P_Key is free")
		}
	}
	for i := range st.Base.Partitions {
		if o := &st.Base.Partitions[i]; o.Name == n.Name {
			return nil, fmt.Errorf("partition %q has the P_Key %v: %w: choose another name", n.Name, o.PKey, partition.ErrExists)
		}
	}
	if n.IPoIB {
		q.Groups = []partition.Group{partition.Broadcast(q.PKey)}
	}
	for _, x := range n.Members {
		m, err := newMember(s, v, x.Member)
		if err != nil {
			return nil, err
		}
		if m.As, err = partition.ParseMembership(cmp.Or(x.Membership, partition.Limited.String())); err != nil {
			return nil, err
		}
		q.Members = append(q.Members, m)
	}
	return st.Base.WithPartition(q)
}

// newMember is Member for one that is to begin. A number that may be a P_Key is none: no port has so short
// a GUID, and 'create NAME 0x7fff HOST' means the P_Key.
func newMember(s *subnet.Snapshot, v *vm.View, text string) (partition.Member, error) {
	m, err := Member(s, v, text)
	if err == nil && m.Kind == partition.Port && m.GUID <= 0xFFFF {
		return m, fmt.Errorf("member %q is too short for a port GUID: if it is the P_Key of the new partition, give --pkey %s (in the API: \"pkey\")", text, text)
	}
	return m, err
}
