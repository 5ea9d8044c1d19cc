package show

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"heddle/access"
	"heddle/api"
	"heddle/ib"
	"heddle/partition"
	"heddle/sm"
)

// TestDeletedPartitionsCount: P_Keys that ports may still hold count as those of the tenant that had them,
// which would take all by creating and deleting partitions while a port is silent. A partition that comes
// back has its P_Key of before.
func TestDeletedPartitionsCount(t *testing.T) {
	base, err := partition.Default().WithPartition(partition.Partition{Name: "acme-net", PKey: 1})
	if err != nil {
		t.Fatal(err)
	}
	st := &sm.PartitionStatus{Base: base, InForce: base, Freed: map[ib.PKey][]string{}}
	free := func(k ib.PKey, names ...string) {
		st.Quarantined = append(st.Quarantined, k)
		st.Freed[k] = names
	}
	create := func(prefix, name string) (ib.PKey, error) {
		c := &api.PartitionsChange{Op: api.CreatePartition, Scope: &access.Scope{Prefix: prefix}, New: api.NewPartition{Name: name}}
		p, _, err := EditPartitions(c, st, nil, nil)
		if err != nil {
			return 0, err
		}
		for i := range p.Partitions {
			if p.Partitions[i].Name == name {
				return p.Partitions[i].PKey, nil
			}
		}
		return 0, errors.New("it is missing")
	}
	is := func(prefix, name string, want ib.PKey) {
		t.Helper()
		if k, err := create(prefix, name); k != want || err != nil {
			t.Errorf("%s: %v, %v, want %v", name, k, err, want)
		}
	}
	free(2, "other-net")
	free(3, "acme-2", "0x0003") // interfaces had it, too
	for k := ib.PKey(4); k < 65; k++ {
		free(k, fmt.Sprintf("acme-%d", k))
	}
	is("acme-", "acme-new", 65) // the 64th
	free(65, "acme-65")
	is("acme-", "acme-7", 7)
	if _, err := create("acme-", "acme-2"); !errors.Is(err, api.ErrForbidden) || !strings.Contains(err.Error(), "may still hold") {
		t.Errorf("one more than there can be: %v", err)
	}
	is("other-", "other-1", 66)
	is("other-", "other-net", 2)
}

// TestNoGroupLeft: the error when no multicast group is left names no partition of others.
func TestNoGroupLeft(t *testing.T) {
	q := partition.Partition{Name: "secret", PKey: 0x100}
	for i := range partition.MaxGroups - 1 { // the default partition has one
		g := partition.Broadcast(0x100)
		g.MGID[12], g.MGID[14], g.MGID[15] = 0, byte(i>>8), byte(i)
		q.Groups = append(q.Groups, g)
	}
	base, err := partition.Default().WithPartition(q)
	if err != nil {
		t.Fatal(err)
	}
	c := &api.PartitionsChange{Op: api.CreatePartition, Scope: &access.Scope{Prefix: "acme-"}, New: api.NewPartition{Name: "acme-net"}}
	st := &sm.PartitionStatus{Base: base, InForce: base}
	if _, _, err := EditPartitions(c, st, nil, nil); err != nil {
		t.Errorf("a partition without a group: %v", err)
	}
	c.New.IPoIB = true
	if _, _, err := EditPartitions(c, st, nil, nil); err == nil || !strings.Contains(err.Error(), "no multicast group is left") || strings.Contains(err.Error(), "secret") {
		t.Errorf("one group more than there can be: %v", err)
	}
}
