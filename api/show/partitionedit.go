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
	if c.Scope != nil {
		if err := mayEdit(c, st, v); err != nil {
			return nil, nil, err
		}
	}
	if c.Op == api.ReplacePartitions {
		return partition.Parse(strings.NewReader(c.Config), cmp.Or(c.Name, "partitions"))
	}
	if c.Op == api.CreatePartition {
		p, err := created(c, st, s, v)
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

// maxOwn is how many partitions a tenant may have, with those that it deleted and whose P_Keys ports may
// still hold: all tenants share 32,766 P_Keys and the MLIDs. One silent port keeps all P_Keys in quarantine.
const maxOwn = 64

// mayEdit refuses a change of partitions that a tenant may not make. It may create partitions without
// members, and delete them: virtual machines with the P_Key are the members. A line with a GUID could name
// a host of another tenant, and would outlive the machine that had the GUID.
func mayEdit(c *api.PartitionsChange, st *sm.PartitionStatus, v *vm.View) error {
	switch c.Op {
	case api.CreatePartition:
		own := 0
		for i := range st.Base.Partitions {
			if q := &st.Base.Partitions[i]; api.OwnsPartition(c.Scope, q.Name, q.PKey) {
				own++
			}
		}
		switch {
		case !c.Scope.Owns(c.New.Name):
			return fmt.Errorf("%w: the names of its partitions begin with %q, and %q does not", api.ErrForbidden, c.Scope.Prefix, c.New.Name)
		case strings.EqualFold(c.New.Name, partition.Default().Partitions[0].Name): // a file may call that one otherwise
			return fmt.Errorf("%w: %q is the name of the default partition", api.ErrForbidden, c.New.Name)
		case c.New.PKey != "":
			return fmt.Errorf("%w: the manager chooses P_Keys", api.ErrForbidden)
		case len(c.New.Members) > 0:
			return fmt.Errorf("%w: create the partition without members; its interfaces with the P_Key are the members", api.ErrForbidden)
		case own >= maxOwn:
			return fmt.Errorf("%w: it has %d partitions, the most there can be", api.ErrForbidden, own)
		case own+ownFreed(c, st) >= maxOwn:
			return fmt.Errorf("%w: it has %d partitions, and ports may still hold P_Keys of those that it deleted: there can be %d", api.ErrForbidden, own, maxOwn)
		}
		return nil
	case api.DeletePartition:
		key, err := Partition(st.InForce, c.Partition)
		q := st.Base.Find(key)
		if err != nil || q == nil || !api.OwnsPartition(c.Scope, q.Name, q.PKey) {
			return fmt.Errorf("partition %q: %w among those of this tenant; if several have the name, give the P_Key", c.Partition, partition.ErrNotFound)
		}
		if len(q.Members) > 0 {
			return fmt.Errorf("partition %q (%v) is %w: it has members that an administrator named, and only an administrator can end it", q.Name, key, api.ErrInUse)
		}
		if usedBy(c, v)[key] {
			return fmt.Errorf("partition %q (%v) is %w: delete its interfaces, or change their P_Keys", q.Name, key, api.ErrInUse)
		}
		return nil
	}
	return fmt.Errorf("%w: it creates and deletes partitions, and interfaces are their members", api.ErrForbidden)
}

// ownFreed counts the P_Keys in quarantine that were those of a tenant's partitions, without the one that
// the new partition gets.
func ownFreed(c *api.PartitionsChange, st *sm.PartitionStatus) (n int) {
	back := comesBack(c, st)
	for k, names := range st.Freed {
		if k != back && st.Base.Find(k) == nil && slices.ContainsFunc(names, func(s string) bool { return api.OwnsPartition(c.Scope, s, k) }) {
			n++
		}
	}
	return n
}

// comesBack is the P_Key in quarantine that the new partition had when it was deleted; 0: there is none.
// It comes out of quarantine with its partition.
func comesBack(c *api.PartitionsChange, st *sm.PartitionStatus) ib.PKey {
	for _, k := range st.Quarantined {
		if names := st.Freed[k]; len(names) == 1 && names[0] == c.New.Name {
			return k
		}
	}
	return 0
}

// usedBy are the P_Keys of interfaces, on a hypervisor or not, and of memberships without an interface,
// and those that they may have soon.
func usedBy(c *api.PartitionsChange, v *vm.View) map[ib.PKey]bool {
	used := map[ib.PKey]bool{}
	for _, k := range c.Asked {
		used[k.Base()] = true
	}
	if v == nil {
		return used
	}
	for i := range v.Partitions {
		used[v.Partitions[i].PKey.Base()] = true
	}
	for x := range v.All() {
		for _, k := range x.Keys {
			used[k.PKey.Base()] = true
		}
	}
	return used
}

// freeKey is the lowest P_Key that nobody has or waits for: no partition, interface, token or port. A
// partition that was deleted gets its own one again while ports may still hold it.
func freeKey(c *api.PartitionsChange, st *sm.PartitionStatus, s *subnet.Snapshot, v *vm.View) (ib.PKey, error) {
	used := usedBy(c, v)
	for _, k := range c.Reserved {
		used[k.Base()] = true
	}
	if s != nil {
		for i := range s.Kept {
			used[s.Kept[i].PKey.Base()] = true
		}
	}
	free := func(k ib.PKey) bool { return !used[k] && st.InForce.Find(k) == nil && st.Base.Find(k) == nil }
	if k := comesBack(c, st); k != 0 && free(k) {
		return k, nil
	}
	for _, k := range st.Quarantined {
		used[k] = true
	}
	for k := ib.PKey(1); k < partition.DefaultKey; k++ {
		if free(k) {
			return k, nil
		}
	}
	return 0, errors.New("no P_Key is free")
}

// created is the policy with a new partition.
func created(c *api.PartitionsChange, st *sm.PartitionStatus, s *subnet.Snapshot, v *vm.View) (*partition.Policy, error) {
	n := &c.New
	q := partition.Partition{Name: n.Name}
	if _, err := ib.ParsePKey(n.Name); err == nil {
		return nil, fmt.Errorf("the name %q reads as a P_Key: choose another name", n.Name)
	}
	if n.PKey != "" {
		k, err := ib.ParsePKey(n.PKey)
		if err != nil || k.Base() == 0 {
			return nil, fmt.Errorf("P_Key %q: give 0x0001 to 0x7ffe", n.PKey)
		}
		q.PKey = k.Base()
	}
	if n.PKey == "" {
		var err error
		if q.PKey, err = freeKey(c, st, s, v); err != nil {
			return nil, err
		}
	}
	for i := range st.Base.Partitions {
		if o := &st.Base.Partitions[i]; o.Name == n.Name {
			return nil, fmt.Errorf("partition %q has the P_Key %v: %w: choose another name", n.Name, o.PKey, partition.ErrExists)
		}
	}
	if n.IPoIB {
		groups := 0
		for i := range st.InForce.Partitions {
			groups += len(st.InForce.Partitions[i].Groups)
		}
		if groups >= partition.MaxGroups { // Validate would name another partition, maybe another tenant's
			return nil, fmt.Errorf("no multicast group is left: all partitions have %d", groups)
		}
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
