package sm

import (
	"encoding/json"
	"fmt"

	"heddle/ib"
	"heddle/partition"
	"heddle/store"
)

// Records of store.TablePartitions (docs/format/store.md): the policy in force,
// and the keys in quarantine with the names of the partitions that had them.
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
}

// encodePolicy checks a policy and makes the bytes that are stored.
func encodePolicy(p *partition.Policy) ([]byte, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	b, err := json.Marshal(storedPolicy{partitionVersion, p.Partitions})
	if err == nil && len(b) > store.MaxRecordValue {
		err = fmt.Errorf("the policy takes %d bytes, and the store takes %d at most: name classes of ports instead of all of them", len(b), store.MaxRecordValue)
	}
	return b, err
}

func putPartitions(key string, value []byte) store.Op {
	return store.Op{Kind: store.PutRecord, Record: store.Record{Table: store.TablePartitions, Key: []byte(key), Value: value}}
}

func policyOps(policy []byte, freed map[ib.PKey][]string) []store.Op {
	return append([]store.Op{putPartitions(recordPolicy, policy)}, freedOps(freed)...)
}

// freedOps stores which keys are in quarantine.
func freedOps(freed map[ib.PKey][]string) []store.Op {
	if len(freed) == 0 {
		op := putPartitions(recordFreed, nil)
		op.Kind = store.DeleteRecord
		return []store.Op{op}
	}
	b, err := json.Marshal(storedFreed{partitionVersion, freed}) // keys ascending
	if err != nil {
		panic("sm: a map of names cannot be encoded: " + err.Error())
	}
	return []store.Op{putPartitions(recordFreed, b)}
}

func isPolicyOp(o *store.Op) bool {
	return (o.Kind == store.PutRecord || o.Kind == store.DeleteRecord) && o.Record.Table == store.TablePartitions
}

// StoredPartitions is the policy that a manager stored, nil if there is none. A
// manager that is given records of which it returns an error lets nobody meet
// anybody.
func StoredPartitions(list []store.Record) (*partition.Policy, error) {
	p, _, err := decodePartitions(list)
	return p, err
}

// decodePartitions reads the records; p is nil if there is no policy.
func decodePartitions(list []store.Record) (p *partition.Policy, freed map[ib.PKey][]string, err error) {
	for i := range list {
		r := &list[i]
		if r.Table != store.TablePartitions {
			continue
		}
		switch string(r.Key) {
		case recordPolicy:
			var v storedPolicy
			if err := unmarshalRecord(r.Value, &v, &v.Version); err != nil {
				return nil, nil, fmt.Errorf("sm: the stored policy: %w", err)
			}
			p = &partition.Policy{Partitions: v.Partitions}
			if err := p.Validate(); err != nil {
				return nil, nil, fmt.Errorf("sm: the stored policy: %w", err)
			}
		case recordFreed:
			var v storedFreed
			if err := unmarshalRecord(r.Value, &v, &v.Version); err != nil {
				return nil, nil, fmt.Errorf("sm: the stored P_Keys in quarantine: %w", err)
			}
			freed = v.Freed
		}
	}
	return p, freed, nil
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
