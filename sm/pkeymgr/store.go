package pkeymgr

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"heddle/ib"
	"heddle/partition"
	"heddle/store"
)

// Records of store.TablePartitions (docs/format/store.md): the policy, without
// the members that were added to it, and the keys in quarantine with the names of
// the partitions that had them.
const (
	recordPolicy = "policy"
	recordFreed  = "freed"
)

// partitionVersion is the version of the layout of both records.
const partitionVersion = 1

type storedPolicy struct {
	Version    int
	Partitions []partition.Partition
}

type storedFreed struct {
	Version int
	Freed   map[ib.PKey][]string
	// Added are the names of the partitions in force that the policy does not have.
	Added map[ib.PKey]string `json:",omitempty"`
}

// storedPartitions is what the records say.
type storedPartitions struct {
	policy *partition.Policy // nil if there is none
	freed  map[ib.PKey][]string
	added  map[ib.PKey]string
}

// before is a policy with the partitions that were in force, by P_Key and name.
func (st *storedPartitions) before() *partition.Policy {
	p := &partition.Policy{}
	if st.policy != nil {
		p.Partitions = slices.Clone(st.policy.Partitions)
	}
	for k, name := range st.added {
		if st.policy == nil || st.policy.Find(k) == nil {
			p.Partitions = append(p.Partitions, partition.Partition{PKey: k, Name: name})
		}
	}
	slices.SortFunc(p.Partitions, func(a, b partition.Partition) int { return cmp.Compare(a.PKey, b.PKey) })
	return p
}

// encodePolicy checks a policy and makes the bytes that are stored.
func encodePolicy(p *partition.Policy) ([]byte, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	b, err := json.Marshal(storedPolicy{partitionVersion, p.Partitions})
	if err == nil && len(b) > store.MaxRecordValue {
		err = fmt.Errorf("the policy takes %d bytes, and the store takes %d at most: "+
			"name classes of ports instead of all of them", len(b), store.MaxRecordValue)
	}
	return b, err
}

func putPartitions(key string, value []byte) store.Op {
	r := store.Record{Table: store.TablePartitions, Key: []byte(key), Value: value}
	return store.Op{Kind: store.PutRecord, Record: r}
}

func policyOps(policy []byte) []store.Op { return []store.Op{putPartitions(recordPolicy, policy)} }

// freedOps stores which keys are in quarantine, and the names of the partitions that members made.
func freedOps(freed map[ib.PKey][]string, added map[ib.PKey]string) []store.Op {
	if len(freed)+len(added) == 0 {
		op := putPartitions(recordFreed, nil)
		op.Kind = store.DeleteRecord
		return []store.Op{op}
	}
	b, err := json.Marshal(storedFreed{partitionVersion, freed, added}) // keys ascending
	if err != nil {
		panic("pkeymgr: a map of names cannot be encoded: " + err.Error())
	}
	return []store.Op{putPartitions(recordFreed, b)}
}

func isPolicyOp(o *store.Op) bool {
	if o.Kind != store.PutRecord && o.Kind != store.DeleteRecord || o.Record.Table != store.TablePartitions {
		return false
	}
	key := string(o.Record.Key)
	return key == recordPolicy || key == recordFreed
}

// StoredPartitions is the policy that a manager stored, nil if there is none. If it returns an error, a
// manager that loads the records makes every port a limited member of the default partition alone.
func StoredPartitions(list []store.Record) (*partition.Policy, error) {
	st, err := decodePartitions(list)
	return st.policy, err
}

// decodePartitions reads the records.
func decodePartitions(list []store.Record) (st storedPartitions, err error) {
	for i := range list {
		r := &list[i]
		if r.Table != store.TablePartitions {
			continue
		}
		switch string(r.Key) {
		case recordPolicy:
			var v storedPolicy
			if err := unmarshalRecord(r.Value, &v, &v.Version); err != nil {
				return storedPartitions{}, fmt.Errorf("pkeymgr: the stored policy: %w", err)
			}
			p := &partition.Policy{Partitions: v.Partitions}
			if err := p.Validate(); err != nil {
				return storedPartitions{}, fmt.Errorf("pkeymgr: the stored policy: %w", err)
			}
			st.policy = p
		case recordFreed:
			var v storedFreed
			if err := unmarshalRecord(r.Value, &v, &v.Version); err != nil {
				return storedPartitions{}, fmt.Errorf("pkeymgr: the stored P_Keys in quarantine: %w", err)
			}
			st.freed, st.added = v.Freed, v.Added
		}
	}
	return st, nil
}

func unmarshalRecord(b []byte, v any, version *int) error {
	if err := json.Unmarshal(b, v); err != nil {
		return err
	}
	if *version != partitionVersion {
		return fmt.Errorf("version %d is not known", *version)
	}
	return nil
}
