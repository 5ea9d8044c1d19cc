package sa

import (
	"encoding/binary"
	"fmt"

	"heddle/ib"
	"heddle/store"
	"heddle/subnet"
)

// Store format of an entry of a port's GUIDInfo table. Key: port GUID (8 bytes), index
// (1). Value: version 1, the alias GUID (8; 0: none), the GUID that the SA last assigned
// here (8; 0: none). Version 2 is the same for an alias set by a trusted request.
const (
	aliasKeyLen   = 9
	aliasVersion  = 1
	carryVersion  = 2
	aliasValueLen = 17
)

func aliasKey(at aliasAt) []byte {
	b := make([]byte, aliasKeyLen)
	binary.BigEndian.PutUint64(b, uint64(at.port))
	b[8] = at.index
	return b
}

func aliasValue(e aliasEntry) []byte {
	b := make([]byte, aliasValueLen)
	if b[0] = aliasVersion; e.carries {
		b[0] = carryVersion
	}
	binary.BigEndian.PutUint64(b[1:], uint64(e.guid))
	binary.BigEndian.PutUint64(b[9:], uint64(e.assigned))
	return b
}

// AliasRecord encodes an alias GUID for the store. A GUID with the OUI of
// SA-assigned GUIDs counts as assigned.
func AliasRecord(a subnet.Alias) store.Record {
	e := aliasEntry{index: a.Index, guid: a.GUID, carries: a.Carries}
	if a.GUID>>40 == assignedOUI {
		e.assigned = a.GUID
	}
	return store.Record{Table: store.TableAliases, Key: aliasKey(aliasAt{a.Port, a.Index}), Value: aliasValue(e)}
}

func decodeAlias(key, value []byte) (aliasAt, aliasEntry, error) {
	if len(key) != aliasKeyLen || key[8] == 0 || len(value) != aliasValueLen || value[0] != aliasVersion && value[0] != carryVersion {
		return aliasAt{}, aliasEntry{}, fmt.Errorf("sa: stored alias GUID %x: a key of %d and a value of %d bytes, version %d; the record is ignored", key, len(key), len(value), version(value))
	}
	at := aliasAt{ib.GUID(binary.BigEndian.Uint64(key)), key[8]}
	return at, aliasEntry{
		index: at.index, guid: ib.GUID(binary.BigEndian.Uint64(value[1:])), assigned: ib.GUID(binary.BigEndian.Uint64(value[9:])),
		carries: value[0] == carryVersion,
	}, nil
}

// AliasOf decodes a record of AliasRecord. ok is false for another one.
func AliasOf(r *store.Record) (a subnet.Alias, ok bool) {
	if r.Table != store.TableAliases {
		return a, false
	}
	at, e, err := decodeAlias(r.Key, r.Value)
	return subnet.Alias{Port: at.port, Index: at.index, GUID: e.guid, Carries: e.carries}, err == nil
}
