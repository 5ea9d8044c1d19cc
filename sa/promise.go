package sa

import (
	"bytes"
	"slices"

	"heddle/ib"
	"heddle/store"
)

// rests reports whether a record is stored as the core has it, and promises it.
func (c *Core) rests(r store.Record) bool {
	if !c.isStored(r.Table, r.Key) {
		return false
	}
	c.promise(r)
	return true
}

// promise notes records on which an answer without a write rests (Output.Promised).
func (c *Core) promise(list ...store.Record) {
	if c.unsure {
		c.out.Promised = append(c.out.Promised, list...)
	}
}

// Redeem returns what has to be written so that a state has what was promised (Output.Promised), in the
// order of a store's records, groups before members. A group is left out, with its members, if another one
// has its MLID now: dropped lists those.
func Redeem(st *store.State, promised []store.Record) (ops []store.Op, dropped []ib.GID) {
	has := func(r *store.Record) bool {
		i, ok := slices.BinarySearchFunc(st.Records, *r, store.CompareRecords)
		return ok && (r.Table == store.TableGroups || bytes.Equal(st.Records[i].Value, r.Value))
	}
	var missing []store.Record
	for i := range promised {
		if !has(&promised[i]) {
			missing = append(missing, promised[i])
		}
	}
	if len(missing) == 0 {
		return nil, nil
	}
	slices.SortFunc(missing, store.CompareRecords)
	taken := map[ib.LID]bool{}
	for i := range st.Records {
		if g, err := decodeGroup(st.Records[i].Key, st.Records[i].Value); st.Records[i].Table == store.TableGroups && err == nil {
			taken[g.MLID] = true
		}
	}
	for _, r := range missing {
		switch r.Table {
		case store.TableGroups:
			if g, err := decodeGroup(r.Key, r.Value); err != nil || taken[g.MLID] {
				dropped = append(dropped, g.MGID)
				continue
			}
		case store.TableMembers:
			if mgid, _, _, err := decodeMember(r.Key, r.Value); err != nil || slices.Contains(dropped, mgid) {
				continue
			}
		}
		ops = append(ops, store.Op{Kind: store.PutRecord, Record: r})
	}
	return ops, dropped
}
