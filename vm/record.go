package vm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"heddle/ib"
	"heddle/store"
	"heddle/subnet"
)

// docs/format/store.md describes the records of interfaces and memberships. Each value begins
// with the version of its layout. A record decodes whole or not at all, and encodes to the same
// bytes.
const (
	interfaceVersion = 1
	partitionVersion = 1
	memberVersion    = 1
	functionVersion  = 1

	interfaceHead = 37 // bytes before the lists

	flagPool        = 1 << 0 // PoolGUID
	flagPinned      = 1 << 1
	flagBalanced    = 1 << 2
	flagAnyFunction = 1 << 3
	flagMinimal     = 1 << 4
	flagFunction    = 1 << 5 // FunctionGUID
	interfaceFlags  = 1<<6 - 1

	flagIndex0     = 1 << 0
	flagIPoIB      = 1 << 1
	partitionFlags = 1<<2 - 1

	flagFull    = 1 << 0
	memberFlags = 1<<1 - 1
)

var errVersion = errors.New("a layout that this version does not know")

// doings are the operations by the number they are stored as.
var doings = [...]string{"", DoingAttach, DoingFinish, DoingRollBack, DoingDetach}

// modes are the modes of moves by the flags they are stored as.
var modes = map[byte]subnet.MoveMode{flagBalanced: subnet.MoveBalanced, flagMinimal: subnet.MoveMinimal}

func appendPlace(b []byte, p subnet.Place) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(p.Port))
	return binary.BigEndian.AppendUint16(b, p.Function)
}

// encode is the value of the record of an interface.
func (e *entry) encode() []byte {
	flags := byte(0)
	for i, on := range [...]bool{e.GUIDKind == PoolGUID, e.Pinned, e.Mode == subnet.MoveBalanced, e.anyFunction, e.Mode == subnet.MoveMinimal, e.GUIDKind == FunctionGUID} {
		if on {
			flags |= 1 << i
		}
	}
	be := binary.BigEndian
	b := make([]byte, 0, interfaceHead+6+8*len(e.Aliases)+2*len(e.Keys)+len(e.why))
	b = append(b, interfaceVersion, flags, byte(e.State), byte(slices.Index(doings[:], e.Doing)), byte(e.before), byte(e.last), byte(e.LIDKind))
	b = be.AppendUint16(b, uint16(e.LID))
	b = be.AppendUint64(b, uint64(e.storedGUID()))
	b = appendPlace(appendPlace(b, e.Place), e.Dest)
	b = be.AppendUint16(b, uint16(len(e.Aliases)))
	for _, a := range e.Aliases {
		b = be.AppendUint64(b, uint64(a))
	}
	b = be.AppendUint16(b, uint16(len(e.Keys)))
	for _, k := range e.Keys {
		key := k.PKey
		if k.Full {
			key |= 0x8000
		}
		b = be.AppendUint16(b, uint16(key))
	}
	b = be.AppendUint16(b, uint16(len(e.why)))
	return append(b, e.why...)
}

// storedKind is the GUID kind that flags say.
func storedKind(flags byte) GUIDKind {
	switch {
	case flags&flagFunction != 0:
		return FunctionGUID
	case flags&flagPool != 0:
		return PoolGUID
	}
	return StaticGUID
}

// storedGUID is the GUID in the record of an interface. The GUID of a function is in the
// function's own record.
func (e *entry) storedGUID() ib.GUID {
	if e.GUIDKind == FunctionGUID {
		return 0
	}
	return e.GUID
}

func putInterface(e *entry) store.Op {
	return store.Op{Kind: store.PutRecord, Record: store.Record{Table: store.TableInterfaces, Key: []byte(e.Name), Value: e.encode()}}
}

func dropInterface(name string) store.Op {
	return store.Op{Kind: store.DeleteRecord, Record: store.Record{Table: store.TableInterfaces, Key: []byte(name)}}
}

// list reads n values of size bytes each from the front of b, n being a count of
// two bytes before them.
func list(b []byte, size int) (values, rest []byte, err error) {
	if len(b) < 2 {
		return nil, nil, errors.New("it ends before a list")
	}
	n := int(binary.BigEndian.Uint16(b)) * size
	if b = b[2:]; len(b) < n {
		return nil, nil, fmt.Errorf("a list of %d bytes, and %d left", n, len(b))
	}
	return b[:n], b[n:], nil
}

// decodeInterface reads the record of an interface. It refuses records that no core stores.
func decodeInterface(key, v []byte) (*entry, error) {
	switch {
	case len(v) == 0 || v[0] != interfaceVersion:
		return nil, errVersion
	case len(v) < interfaceHead:
		return nil, fmt.Errorf("%d bytes, at least %d are needed", len(v), interfaceHead)
	case v[1]&^interfaceFlags != 0, v[1]&flagBalanced != 0 && v[1]&flagMinimal != 0, v[1]&flagPool != 0 && v[1]&flagFunction != 0:
		return nil, fmt.Errorf("flags of %#x", v[1])
	case v[2] > byte(Detached) || int(v[3]) >= len(doings) || v[4] > byte(Detached) || v[5] > byte(rolledBack) || v[6] > byte(subnet.FloatingLID):
		return nil, fmt.Errorf("a state of % x", v[2:7])
	}
	be := binary.BigEndian
	place := func(b []byte) subnet.Place {
		return subnet.Place{Port: ib.GUID(be.Uint64(b)), Function: be.Uint16(b[8:])}
	}
	e := &entry{
		Interface: Interface{
			Name: string(key), GUID: ib.GUID(be.Uint64(v[9:])), LIDKind: subnet.LIDKind(v[6]), LID: ib.LID(be.Uint16(v[7:])),
			GUIDKind: storedKind(v[1]), Pinned: v[1]&flagPinned != 0, Mode: modes[v[1]&(flagBalanced|flagMinimal)],
			State: State(v[2]), Place: place(v[17:]), Dest: place(v[27:]), Doing: doings[v[3]],
		},
		before: State(v[4]), last: outcome(v[5]), anyFunction: v[1]&flagAnyFunction != 0,
	}
	aliases, rest, err := list(v[interfaceHead:], 8)
	if err != nil {
		return nil, err
	}
	keys, rest, err := list(rest, 2)
	if err != nil {
		return nil, err
	}
	why, rest, err := list(rest, 1)
	if err != nil {
		return nil, err
	}
	if len(rest) != 0 {
		return nil, fmt.Errorf("%d bytes behind its end", len(rest))
	}
	for ; len(aliases) > 0; aliases = aliases[8:] {
		e.Aliases = append(e.Aliases, ib.GUID(be.Uint64(aliases)))
	}
	for ; len(keys) > 0; keys = keys[2:] {
		k := ib.PKey(be.Uint16(keys))
		e.Keys = append(e.Keys, Membership{PKey: k.Base(), Full: k.IsFull()})
	}
	e.why = string(why)
	e.Reason = e.why
	if err := e.check(); err != nil {
		return nil, err
	}
	return e, nil
}

// check validates an interface from a store.
func (e *entry) check() error {
	i := e.Interface
	if !e.Pinned {
		i.LID = 0
	}
	if i.GUIDKind == PoolGUID {
		i.GUIDKind = StaticGUID // validated like a chosen one
	}
	n, err := normal(&i)
	switch {
	case err != nil:
		return err
	case e.GUID == 0 && e.GUIDKind != FunctionGUID:
		return errors.New("no GUID")
	case !slices.Equal(n.Keys, e.Keys):
		return errors.New("its P_Keys are not in order")
	case e.Pinned && e.LID == 0 || e.LID != 0 && !e.LID.IsUnicast():
		return fmt.Errorf("a LID of %d", e.LID)
	case len(e.why) > maxReason || !utf8.ValidString(e.why):
		return errors.New("a reason that is no text")
	case e.Doing == DoingAttach && e.before != Created && e.before != Detached, e.Doing != DoingAttach && e.before != Created:
		return fmt.Errorf("%s while it was %v", e.Doing, e.before)
	}
	hasPlace, hasDest, idle := e.Place.Port != 0, e.Dest.Port != 0, e.Place.Port == 0 && e.Place.Function != 0 || e.Dest.Port == 0 && e.Dest.Function != 0
	ok := false
	switch e.State {
	case Created, Detached:
		ok = !hasPlace && !hasDest && e.Doing == "" && !e.anyFunction
	case Attached:
		ok = hasPlace && !hasDest && e.Doing != DoingFinish && (e.Place.Function != 0 || e.anyFunction) && (!e.anyFunction || e.Doing == DoingAttach)
	case Migrating:
		ok = hasPlace && hasDest && e.Place != e.Dest && e.Place.Function != 0 && e.Dest.Function != 0 && (e.Doing == "" || e.Doing == DoingFinish)
	}
	if !ok || idle {
		return fmt.Errorf("%v at %v, going to %v: %q", e.State, e.Place, e.Dest, e.Doing)
	}
	return nil
}

// partitionKey and memberKey are the keys of the records of AddMembers.
func partitionKey(k ib.PKey) []byte { return binary.BigEndian.AppendUint16(nil, uint16(k)) }

func memberKey(k ib.PKey, g ib.GUID) []byte {
	return binary.BigEndian.AppendUint64(partitionKey(k), uint64(g))
}

func putPartition(k ib.PKey, index0, ipoib bool) store.Op {
	flags := byte(0)
	if index0 {
		flags |= flagIndex0
	}
	if ipoib {
		flags |= flagIPoIB
	}
	return store.Op{Kind: store.PutRecord, Record: store.Record{Table: store.TableMemberships, Key: partitionKey(k), Value: []byte{partitionVersion, flags}}}
}

func putMember(k ib.PKey, g ib.GUID, full bool) store.Op {
	flags := byte(0)
	if full {
		flags = flagFull
	}
	return store.Op{Kind: store.PutRecord, Record: store.Record{Table: store.TableMemberships, Key: memberKey(k, g), Value: []byte{memberVersion, flags}}}
}

func dropMembership(key []byte) store.Op {
	return store.Op{Kind: store.DeleteRecord, Record: store.Record{Table: store.TableMemberships, Key: key}}
}

// membership is a record of a partition (GUID 0) or of a member.
type membership struct {
	pkey          ib.PKey
	guid          ib.GUID
	full          bool
	index0, ipoib bool
}

func decodeMembership(key, v []byte) (m membership, err error) {
	head := len(key) == 2
	if !head && len(key) != 10 {
		return m, fmt.Errorf("a key of %d bytes", len(key))
	}
	k := ib.PKey(binary.BigEndian.Uint16(key))
	known := byte(memberFlags)
	if head {
		known = partitionFlags
	}
	switch {
	case len(v) == 0 || head && v[0] != partitionVersion || !head && v[0] != memberVersion:
		return m, errVersion
	case len(v) != 2:
		return m, fmt.Errorf("%d bytes, want 2", len(v))
	case v[1]&^known != 0:
		return m, fmt.Errorf("flags of %#x", v[1])
	case k.IsEmpty() || k.IsFull():
		return m, fmt.Errorf("a P_Key of %v", k)
	}
	if head {
		return membership{pkey: k, index0: v[1]&flagIndex0 != 0, ipoib: v[1]&flagIPoIB != 0}, nil
	}
	g := ib.GUID(binary.BigEndian.Uint64(key[2:]))
	if g == 0 {
		return m, errors.New("a member without a GUID")
	}
	return membership{pkey: k, guid: g, full: v[1]&flagFull != 0}, nil
}
