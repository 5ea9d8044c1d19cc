package vm

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"heddle/ib"
	"heddle/store"
	"heddle/subnet"
)

// functions are the GUIDs of virtual functions: the "GUID administration index table" of each
// hypervisor. A function gets one when the first interface of kind FunctionGUID is placed
// there, and keeps it for later interfaces.
type functions struct {
	guid   map[subnet.Place]ib.GUID
	owner  map[ib.GUID]subnet.Place
	fresh  []subnet.Place // of this transaction
	unread map[string]bool
	shown  []FunctionAddress // as last published; immutable
}

// FunctionAddress is the GUID of a virtual function.
type FunctionAddress struct {
	Place subnet.Place
	GUID  ib.GUID
}

func (f *functions) init() {
	f.guid, f.owner, f.unread = map[subnet.Place]ib.GUID{}, map[ib.GUID]subnet.Place{}, map[string]bool{}
}

func (f *functions) put(p subnet.Place, g ib.GUID, pool *pool) {
	f.guid[p], f.owner[g] = g, p
	if pool.has(g) {
		pool.used++
	}
}

// ops are the records of this transaction.
func (f *functions) ops() []store.Op {
	var ops []store.Op
	for _, p := range f.fresh {
		ops = append(ops, putFunction(p, f.guid[p]))
	}
	return ops
}

// undo removes the GUIDs that this transaction assigned.
func (f *functions) undo(pool *pool) {
	for _, p := range f.fresh {
		g := f.guid[p]
		delete(f.guid, p)
		delete(f.owner, g)
		if pool.has(g) {
			pool.used--
		}
		pool.freed(g)
	}
	f.fresh = nil
}

// commit updates the published list. It costs time proportional to the number of GUIDs, once
// for each new GUID.
func (f *functions) commit() {
	if len(f.fresh) == 0 {
		return
	}
	shown := slices.Clone(f.shown)
	for _, p := range f.fresh {
		shown = append(shown, FunctionAddress{p, f.guid[p]})
	}
	slices.SortFunc(shown, func(a, b FunctionAddress) int { return comparePlaces(a.Place, b.Place) })
	f.shown, f.fresh = shown, nil
}

func comparePlaces(a, b subnet.Place) int {
	return cmp.Or(cmp.Compare(a.Port, b.Port), cmp.Compare(a.Function, b.Function))
}

// bind assigns a GUID of the pool to function p, if e uses the function's GUID and p has none.
func (c *Core) bind(e *entry, p subnet.Place) error {
	f := &c.functions
	if e.GUIDKind != FunctionGUID || f.guid[p] != 0 {
		return nil
	}
	switch {
	case f.unread[string(functionKey(p))]:
		return conflict("interface %q: the GUID of function %v is stored in a form that this version cannot read: take another function", e.Name, p)
	case len(f.guid) >= maxFunctions:
		return noRoom("interface %q: function %v has no GUID, and %d others have one, the most that can be: take one of these", e.Name, p, len(f.guid))
	}
	g, err := c.pool.take(c, nil)
	if err != nil {
		return fmt.Errorf("interface %q: %w", e.Name, err)
	}
	f.put(p, g, &c.pool)
	f.fresh = append(f.fresh, p)
	return nil
}

// take gives e the GUID of its function, if e is of kind FunctionGUID: that of the destination
// during Finish, otherwise that of its place.
func (c *Core) take(e *entry) {
	if e.GUIDKind != FunctionGUID {
		return
	}
	e.GUID, e.DestGUID = c.functions.guid[e.Place], c.functions.guid[e.Dest]
	if e.Doing == DoingFinish {
		e.GUID = e.DestGUID
	}
}

// GUIDsAt are the functions of a port that have GUIDs of their own, ascending.
func (v *View) GUIDsAt(port ib.GUID) []FunctionAddress {
	from, _ := slices.BinarySearchFunc(v.Functions, subnet.Place{Port: port}, func(a FunctionAddress, p subnet.Place) int { return comparePlaces(a.Place, p) })
	to := from
	for to < len(v.Functions) && v.Functions[to].Place.Port == port {
		to++
	}
	return v.Functions[from:to]
}

// functionKey is the key of the record of a function's GUID.
func functionKey(p subnet.Place) []byte { return appendPlace(nil, p) }

func putFunction(p subnet.Place, g ib.GUID) store.Op {
	v := binary.BigEndian.AppendUint64([]byte{functionVersion}, uint64(g))
	return store.Op{Kind: store.PutRecord, Record: store.Record{Table: store.TableFunctionGUIDs, Key: functionKey(p), Value: v}}
}

func decodeFunction(key, v []byte) (a FunctionAddress, err error) {
	switch {
	case len(key) != 10:
		return a, fmt.Errorf("a key of %d bytes", len(key))
	case len(v) == 0 || v[0] != functionVersion:
		return a, errVersion
	case len(v) != 9:
		return a, fmt.Errorf("%d bytes, want 9", len(v))
	}
	be := binary.BigEndian
	a = FunctionAddress{subnet.Place{Port: ib.GUID(be.Uint64(key)), Function: be.Uint16(key[8:])}, ib.GUID(be.Uint64(v[1:]))}
	if a.Place.Port == 0 || a.Place.Function == 0 {
		return a, errors.New("no function has that key")
	}
	return a, checkGUID(a.GUID)
}

// loadFunction loads the record of a function's GUID.
func (c *Core) loadFunction(r *store.Record) error {
	f := &c.functions
	a, err := decodeFunction(r.Key, r.Value)
	if err == nil {
		if p, ok := f.owner[a.GUID]; ok {
			err = fmt.Errorf("GUID %v is that of function %v", a.GUID, p)
		}
	}
	if err != nil {
		f.unread[string(r.Key)] = true
		return fmt.Errorf("GUID of function % x: %w: it is left alone, and is not in force", r.Key, err)
	}
	f.put(a.Place, a.GUID, &c.pool)
	f.shown = append(f.shown, a)
	return nil
}
