package sm

import (
	"reflect"
	"testing"

	"heddle/ib"
	"heddle/partition"
	"heddle/store"
)

func records(ops []store.Op) (list []store.Record) {
	for _, o := range ops {
		if o.Kind == store.PutRecord {
			list = append(list, o.Record)
		}
	}
	return list
}

// TestPartitionRecords: what is stored is read back as it was.
func TestPartitionRecords(t *testing.T) {
	for _, freed := range []map[ib.PKey][]string{nil, {5: {"a", "b"}, 6: {""}}} {
		want := partition.Default()
		b, err := encodePolicy(want)
		if err != nil {
			t.Fatal(err)
		}
		p, got, err := decodePartitions(records(policyOps(b, freed)))
		if err != nil || !reflect.DeepEqual(p, want) || !reflect.DeepEqual(got, freed) {
			t.Errorf("%v %v %v", p, got, err)
		}
	}
	if p, _, err := decodePartitions(nil); p != nil || err != nil {
		t.Error("a policy from an empty store")
	}
	for _, bad := range []string{"", "{", `{"Version":2}`, `{"Version":1}`, `{"Version":1,"Partitions":[{"PKey":"0x8001"}]}`} {
		if _, _, err := decodePartitions([]store.Record{putPartitions(recordPolicy, []byte(bad)).Record}); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	if _, err := encodePolicy(&partition.Policy{}); err == nil {
		t.Error("a policy that is not valid is stored")
	}
}

func FuzzPartitionRecords(f *testing.F) {
	b, _ := encodePolicy(partition.Default())
	f.Add(b, []byte(`{"Version":1,"Freed":{"0x0005":["a"]}}`))
	f.Fuzz(func(t *testing.T, policy, freed []byte) {
		p, _, err := decodePartitions([]store.Record{putPartitions(recordFreed, freed).Record, putPartitions(recordPolicy, policy).Record})
		if err == nil && p.Validate() != nil {
			t.Error("a policy that is not valid")
		}
	})
}
