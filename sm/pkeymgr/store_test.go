package pkeymgr

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
	for _, want := range []storedPartitions{
		{},
		{freed: map[ib.PKey][]string{5: {"a", "b"}, 6: {""}}},
		{added: map[ib.PKey]string{9: "vm"}},
		{freed: map[ib.PKey][]string{5: {"a", "b"}}, added: map[ib.PKey]string{5: "", 9: "vm"}},
	} {
		want.policy = partition.Default()
		b, err := encodePolicy(want.policy)
		if err != nil {
			t.Fatal(err)
		}
		got, err := decodePartitions(records(append(policyOps(b), freedOps(want.freed, want.added)...)))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, %v, want %+v", got, err, want)
		}
	}
	if st, err := decodePartitions(nil); st.policy != nil || err != nil {
		t.Error("a policy from an empty store")
	}
	for _, bad := range []string{"", "{", `{"Version":2}`, `{"Version":1}`, `{"Version":1,"Partitions":[{"PKey":"0x8001"}]}`} {
		if _, err := decodePartitions([]store.Record{putPartitions(recordPolicy, []byte(bad)).Record}); err == nil {
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
	f.Add(b, []byte(`{"Version":1,"Added":{"0x0005":"a","0xffff":"b"}}`))
	f.Fuzz(func(t *testing.T, policy, freed []byte) {
		st, err := decodePartitions([]store.Record{putPartitions(recordFreed, freed).Record, putPartitions(recordPolicy, policy).Record})
		if err != nil {
			return
		}
		if st.policy.Validate() != nil {
			t.Error("a policy that is not valid")
		}
		st.freed = freeing(st.before(), st.policy, st.freed)
		var again storedPartitions
		if again, err = decodePartitions(records(freedOps(st.freed, nil))); err != nil || len(st.freed) > 0 && !reflect.DeepEqual(again.freed, st.freed) {
			t.Errorf("%v is read as %v, %v", st.freed, again.freed, err)
		}
	})
}
