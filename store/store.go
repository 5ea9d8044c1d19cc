// Package store keeps what a subnet manager must remember across restarts:
// which LIDs belong to which port GUID, which M_Key a port was given, and the
// records of its other parts (groups, services, subscriptions, partitions), whose
// bytes only their owners understand. Forwarding tables are not kept: what is
// installed is read back from the switches by every new master.
//
// Store is the seam. store/boltdb implements it on a file, NewMemory for tests and for
// simulated managers; both pass the same conformance suite (internal/storetest). The managers of one process share a Store: its methods may
// be called concurrently. Operations on one entry are for one owner, as the
// order of two Apply calls that overlap is anyone's guess.
//
// Promises: Apply is atomic (all operations or none, also to a Load that
// overlaps) and, on a file, durable when it returns. A damaged file is an error that leaves the file as it is;
// nothing is repaired or deleted silently. The bytes on disk are described in
// docs/format/store.md.
package store

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"

	"heddle/ib"
)

// LIDEntry is the LID range of one end port: LID … LID + 2^LMC - 1.
type LIDEntry struct {
	GUID ib.GUID // port GUID
	LID  ib.LID  // base LID, 0x0001–0xBFFF
	LMC  uint8   // 0–7
}

// MKeyEntry is the M_Key that a port was given or is about to be given.
type MKeyEntry struct {
	GUID ib.GUID // port GUID; for a switch that of port 0
	MKey ib.MKey
}

// NeighborEntry says which end port was found behind a switch port, so that
// the key of a port can be guessed before its NodeInfo has been read.
type NeighborEntry struct {
	Node ib.GUID // node GUID of the switch
	Port uint8
	Peer ib.GUID // port GUID (for a switch port 0's) on the far side
}

// Table names a set of records whose keys and values only their owner
// understands (docs/format/store.md).
type Table uint8

// The tables and their owners.
const (
	TableGroups        Table = 1 + iota // multicast groups: package sa
	TableMembers                        // members of groups: package sa
	TableServices                       // service records: package sa
	TableSubscriptions                  // event subscriptions: package sa
	TableAliases                        // alias GUIDs of ports: package sa
	TablePartitions                     // the partition policy, and what is still to be revoked: package sm
	TableFunctionLIDs                   // LIDs of virtual functions by place, and of ports whose LID floats: package sm
	TableInterfaces                     // interfaces of virtual machines, with what is under way: package vm
	TableMemberships                    // memberships of partitions that were given by themselves: package vm
	TableFunctionGUIDs                  // GUIDs of virtual functions, which whoever is there has: package vm
	tableEnd
)

// Limits of a record, in bytes.
const (
	MaxRecordKey   = 256
	MaxRecordValue = 16 << 20
)

// Record is an entry of a table.
type Record struct {
	Table      Table
	Key, Value []byte
}

// State is everything a store holds, each list in ascending order: by GUID,
// records by table and key.
type State struct {
	LIDs      []LIDEntry
	MKeys     []MKeyEntry
	Neighbors []NeighborEntry
	Records   []Record
}

// Ops are the operations that make an empty store hold s. They share its bytes.
func (s *State) Ops() []Op {
	ops := make([]Op, 0, len(s.LIDs)+len(s.MKeys)+len(s.Neighbors)+len(s.Records))
	for _, e := range s.LIDs {
		ops = append(ops, Op{Kind: PutLID, GUID: e.GUID, LID: e.LID, LMC: e.LMC})
	}
	for _, e := range s.MKeys {
		ops = append(ops, Op{Kind: PutMKey, GUID: e.GUID, MKey: e.MKey})
	}
	for _, e := range s.Neighbors {
		ops = append(ops, Op{Kind: PutNeighbor, GUID: e.Node, Port: e.Port, Peer: e.Peer})
	}
	for _, r := range s.Records {
		ops = append(ops, Op{Kind: PutRecord, Record: r})
	}
	return ops
}

// OpKind is what an Op does.
type OpKind uint8

const (
	// PutLID sets the LID range of a port GUID.
	PutLID OpKind = 1 + iota
	// DeleteLID forgets the LID range of a port GUID.
	DeleteLID
	// PutMKey sets the M_Key of a port GUID.
	PutMKey
	// DeleteMKey forgets it.
	DeleteMKey
	// PutNeighbor sets what is behind port Port of node GUID: Peer.
	PutNeighbor
	// DeleteNeighbor forgets it.
	DeleteNeighbor
	// PutRecord sets the value of Record.Key in Record.Table.
	PutRecord
	// DeleteRecord forgets it.
	DeleteRecord
)

// Op is one change. Only the fields that Kind names are meaningful.
type Op struct {
	Kind OpKind
	GUID ib.GUID
	LID  ib.LID
	LMC  uint8
	MKey ib.MKey
	Port uint8
	Peer ib.GUID
	// Record belongs to PutRecord and DeleteRecord, which reads no Value.
	Record Record
}

// Store is what survives a restart.
type Store interface {
	// Load returns everything, or an error that names the damaged entry.
	Load() (*State, error)
	// Apply makes the changes durable, all or none; among operations on one
	// entry the last counts. It keeps nothing of ops.
	Apply(ops []Op) error
	// Close releases the store. Apply and Load fail afterwards.
	Close() error
}

// ErrClosed is returned by a store that has been closed.
var ErrClosed = errors.New("store: closed")

// Check refuses operations that no correct manager makes.
func (o *Op) Check() error {
	switch o.Kind {
	case PutLID:
		if !o.LID.IsUnicast() || o.LMC > 7 || int(o.LID)+1<<o.LMC-1 > int(ib.LIDMaxUnicast) {
			return fmt.Errorf("store: port %v: LID %d with LMC %d is no unicast range", o.GUID, o.LID, o.LMC)
		}
	case DeleteLID, PutMKey, DeleteMKey, PutNeighbor, DeleteNeighbor:
	case PutRecord, DeleteRecord:
		r := &o.Record
		if r.Table == 0 || r.Table >= tableEnd || len(r.Key) == 0 || len(r.Key) > MaxRecordKey || len(r.Value) > MaxRecordValue {
			return fmt.Errorf("store: no record can be in table %d with a key of %d and a value of %d bytes", r.Table, len(r.Key), len(r.Value))
		}
	default:
		return fmt.Errorf("store: unknown operation %d", o.Kind)
	}
	return nil
}

func (s *State) sort() {
	slices.SortFunc(s.LIDs, func(a, b LIDEntry) int { return cmp.Compare(a.GUID, b.GUID) })
	slices.SortFunc(s.MKeys, func(a, b MKeyEntry) int { return cmp.Compare(a.GUID, b.GUID) })
	slices.SortFunc(s.Neighbors, func(a, b NeighborEntry) int {
		if c := cmp.Compare(a.Node, b.Node); c != 0 {
			return c
		}
		return cmp.Compare(a.Port, b.Port)
	})
	slices.SortFunc(s.Records, func(a, b Record) int {
		return cmp.Or(cmp.Compare(a.Table, b.Table), bytes.Compare(a.Key, b.Key))
	})
}
