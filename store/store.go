// Package store keeps what a subnet manager must remember across restarts: which LIDs
// belong to which port GUID, which M_Key a port has, and the records of other packages
// (groups, services, subscriptions, partitions), whose format only their owners know. It
// does not keep forwarding tables: every new master reads the installed tables from the
// switches.
//
// Store is the interface. store/boltdb implements it on a file, NewMemory in memory for
// tests and simulated managers; both pass the same conformance suite (store/storetest).
// The managers of one process share a Store: its methods may be called concurrently. Each
// entry needs a single owner, because the order of two overlapping Apply calls is
// undefined.
//
// Guarantees: Apply is atomic (all operations or none, also to a Load that overlaps) and,
// on a file, durable when it returns. A damaged file is an error and stays unchanged;
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

// ManagerGUID stands for the master subnet manager in an LIDEntry: the LIDs that its port has, whichever
// port that is. No port has this GUID. Without such an entry the LIDs of manager ports do not float.
const ManagerGUID ib.GUID = 1<<64 - 1

// NeighborEntry is the end port last found at a switch port, so that the
// manager can guess the M_Key of a port before it has read its NodeInfo.
type NeighborEntry struct {
	Node ib.GUID // node GUID of the switch
	Port uint8
	Peer ib.GUID // port GUID (for a switch port 0's) on the far side
}

// Table identifies a set of records whose keys and values only their owner
// understands (docs/format/store.md).
type Table uint8

// The tables and their owners.
const (
	TableGroups        Table = 1 + iota // multicast groups: package sa
	TableMembers                        // members of groups: package sa
	TableServices                       // service records: package sa
	TableSubscriptions                  // event subscriptions: package sa
	TableAliases                        // alias GUIDs of ports: package sa
	TablePartitions                     // the partition policy, and pending revocations: package sm
	TableFunctionLIDs                   // LIDs of virtual functions by location, and of ports whose LID floats: package sm
	TableInterfaces                     // interfaces of virtual machines, with their operations in progress: package vm
	TableMemberships                    // memberships of partitions that were given by themselves: package vm
	TableFunctionGUIDs                  // GUIDs of virtual functions, which their current user has: package vm
	TablePathHistory                    // generation of the path state, and who has it: package sa
	TableTokens                         // named tokens of the API, as hashes: package access
	TablePortActions                    // links that are drained or isolated: package daemon
	tableEnd
)

// tableNames are those of docs/format/store.md.
var tableNames = [tableEnd]string{
	TableGroups: "groups", TableMembers: "members", TableServices: "services", TableSubscriptions: "subscriptions",
	TableAliases: "aliases", TablePartitions: "partitions", TableFunctionLIDs: "function_lids", TableInterfaces: "interfaces",
	TableMemberships: "memberships", TableFunctionGUIDs: "function_guids", TablePathHistory: "path_history",
	TableTokens: "tokens", TablePortActions: "port_actions",
}

// String implements fmt.Stringer.
func (t Table) String() string {
	if t > 0 && t < tableEnd {
		return tableNames[t]
	}
	return fmt.Sprintf("table(%d)", uint8(t))
}

// Format is the format of the state file whose programs know the table (docs/upgrade.md). Older programs refuse such
// a file by its number; the record itself they would call damage.
func (t Table) Format() uint8 {
	if t >= TableTokens {
		return 4
	}
	return 2
}

// TableNamed returns the table of a name.
func TableNamed(name string) (Table, bool) {
	i := slices.Index(tableNames[1:], name)
	return Table(i + 1), i >= 0
}

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

// OpKind is the kind of an Op.
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
	// PutNeighbor sets the end port at port Port of node GUID: Peer.
	PutNeighbor
	// DeleteNeighbor forgets it.
	DeleteNeighbor
	// PutRecord sets the value of Record.Key in Record.Table.
	PutRecord
	// DeleteRecord forgets it.
	DeleteRecord
)

// Op is one change. Only the fields that Kind names are used.
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

// Store is the persistent state.
type Store interface {
	// Load returns everything, or an error that names the damaged entry.
	Load() (*State, error)
	// Apply makes the changes durable, all or none; of several operations on one
	// entry the last applies. It does not keep ops.
	Apply(ops []Op) error
	// Close releases the store. Apply and Load fail afterward.
	Close() error
}

// Errors of stores.
var (
	// ErrClosed is returned by a store that has been closed.
	ErrClosed = errors.New("store: closed")
	// ErrUnavailable is returned by Apply of a store on other machines that cannot be reached, or
	// that another manager writes. The change has no effect, now or later. The caller refuses it
	// as one that may be asked for again.
	ErrUnavailable = errors.New("store: unavailable")
)

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
	slices.SortFunc(s.Records, CompareRecords)
}

// CompareRecords is the order of State.Records: by table and key.
func CompareRecords(a, b Record) int {
	return cmp.Or(cmp.Compare(a.Table, b.Table), bytes.Compare(a.Key, b.Key))
}
