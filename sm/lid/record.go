package lid

import (
	"cmp"
	"encoding/binary"
	"fmt"

	"heddle/ib"
	"heddle/store"
	"heddle/subnet"
)

func comparePlaces(a, b subnet.Place) int {
	return cmp.Or(cmp.Compare(a.Port, b.Port), cmp.Compare(a.Function, b.Function))
}

// functionKey is the key of a record of store.TableFunctionLIDs (docs/format/store.md).
func functionKey(p subnet.Place) []byte {
	return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint64(nil, uint64(p.Port)), p.Function)
}

// functionOp stores the LID of a function; 0 deletes the record.
func functionOp(p subnet.Place, l ib.LID) store.Op {
	r := store.Record{Table: store.TableFunctionLIDs, Key: functionKey(p)}
	if l == 0 {
		return store.Op{Kind: store.DeleteRecord, Record: r}
	}
	r.Value = binary.BigEndian.AppendUint16(nil, uint16(l))
	return store.Op{Kind: store.PutRecord, Record: r}
}

// parseFunction is the inverse of functionOp; it refuses what that does not write.
func parseFunction(r *store.Record) (p subnet.Place, l ib.LID, err error) {
	if len(r.Key) != 10 || len(r.Value) != 2 {
		return p, 0, fmt.Errorf("lid: LID of a function: %d bytes of key and %d of value are stored instead of 10 and 2", len(r.Key), len(r.Value))
	}
	p = subnet.Place{Port: ib.GUID(binary.BigEndian.Uint64(r.Key)), Function: binary.BigEndian.Uint16(r.Key[8:])}
	l = ib.LID(binary.BigEndian.Uint16(r.Value))
	if p.Port == 0 || !l.IsUnicast() {
		return p, 0, fmt.Errorf("lid: LID of function %v: LID %d is stored, which is not unicast, or no port", p, l)
	}
	return p, l, nil
}

// LoadFunctions takes the LIDs of functions that the store held. It returns what to store for
// records that are of no use: unless prepopulate is set, functions have no LIDs of their own. It
// calls bad for records that cannot be read or whose LID another function has; those are left out.
func (t *Table) LoadFunctions(list []store.Record, prepopulate bool, bad func(error)) (ops []store.Op) {
	taken := map[ib.LID]subnet.Place{}
	for i := range list {
		if list[i].Table != store.TableFunctionLIDs {
			continue
		}
		p, l, err := parseFunction(&list[i])
		if o, twice := taken[l]; err == nil && twice {
			err = fmt.Errorf("lid: LID %d is stored for functions %v and %v", l, o, p)
		}
		if err != nil {
			bad(err)
			continue
		}
		taken[l] = p
		if p.Function > 0 && !prepopulate {
			ops = append(ops, functionOp(p, 0))
			continue
		}
		t.SetFunction(p, l)
	}
	return ops
}
