// Package vm is the address manager. It keeps the network interfaces of virtual machines with
// their addresses (GUIDs and thus GIDs, P_Keys, and optionally a LID of their own) and their
// virtual functions, and moves them between hypervisors. It decides placements
// (subnet.Placement), which the subnet manager carries out in hardware, and memberships of
// partitions.
//
// Core is a state machine like sm.Core and sa.Core: the shell gives it events, one at a time,
// and does what the output lists, in the order of its fields. Every operation is stored before
// it is answered or carried out. After a crash, a restarted manager finishes or undoes the
// operation. The end of a Finish that succeeded is stored after its answer: what was stored before
// leads to it (late.go). Operations are idempotent: a repeated one is answered like the first.
//
// Create with a place and Move consist of several operations, but store one record.
//
//	created ──attach──► attached ──migrate──► migrating ──finish──► attached, elsewhere
//	   │                   │  ▲                   │
//	   │                 detach └────roll back────┘
//	   ▼                   ▼
//	delete ◄─────────── detached
package vm

import (
	"errors"

	"heddle/ib"
	"heddle/mad"
	"heddle/partition"
	"heddle/store"
	"heddle/subnet"
)

// State is the state of an interface.
type State uint8

// The states.
const (
	Created   State = iota // it has addresses and no place
	Attached               // it has a place
	Migrating              // it has a place, and another one is reserved for it
	Detached               // it had a place; its addresses stay with it
)

var stateNames = [...]string{"created", "attached", "migrating", "detached"}

func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return "state?"
}

// What an interface is Doing.
const (
	DoingAttach   = "attach"
	DoingFinish   = "finish"
	DoingRollBack = "roll back"
	DoingDetach   = "detach"
)

// GUIDKind says where the GUID of an interface comes from.
type GUIDKind uint8

// The kinds. GUIDs of the first two stay with the interface when it moves (static assignment in
// W. L. Guay's thesis, Paper VI; those of a function are its dynamic assignment).
const (
	StaticGUID   GUIDKind = iota // the interface's: given at its creation
	PoolGUID                     // the interface's: the manager chose it from its pool
	FunctionGUID                 // the virtual function's: the interface has it while it is on that function
	guidKinds
)

var guidKindNames = [...]string{"static", "pool", "function"}

func (k GUIDKind) String() string {
	if int(k) < len(guidKindNames) {
		return guidKindNames[k]
	}
	return "GUID kind?"
}

// Membership is a P_Key that an interface has.
type Membership struct {
	PKey ib.PKey // 15 bits: the membership bit is 0
	Full bool
}

// Interface is a network interface of a virtual machine.
type Interface struct {
	// Name is its key, chosen by who created it: 1–128 characters of letters, digits
	// and ._:-/ .
	Name string
	// GUID is its port GUID (vGUID). A PoolGUID becomes free when the interface is deleted. A
	// FunctionGUID is that of the current function, or of the destination once Finish was
	// requested; 0 while there is none.
	GUID     ib.GUID
	GUIDKind GUIDKind
	DestGUID ib.GUID // FunctionGUID, Migrating: that of Dest; else 0
	Aliases  []ib.GUID
	LIDKind  subnet.LIDKind
	LID      ib.LID          // the requested one, otherwise that of the last placement; 0 before
	Pinned   bool            // it requested LID
	Mode     subnet.MoveMode // how its LID moves
	Keys     []Membership
	State    State
	Place    subnet.Place // Attached, Migrating
	Dest     subnet.Place // Migrating
	// Doing is the operation in progress, one of the Doing constants; empty if there is none.
	Doing string
	// Placement is the last state that the subnet manager reported; not stored.
	Placement subnet.PlacementState
	Reason    string // why it waits, was refused, or was rolled back
	Blocks    int    // LFT blocks that its last move wrote; not stored
}

// Errors of operations. They are wrapped in a text that names the interface or value, and what
// to do.
var (
	ErrNotFound = errors.New("no such interface")
	ErrConflict = errors.New("conflict") // with another interface, or with the state of this one
	ErrInvalid  = errors.New("invalid")
	ErrNoRoom   = errors.New("none left") // of GUIDs, or LIDs
	ErrStore    = errors.New("could not be stored")
)

// Config is the configuration of a Core.
type Config struct {
	// GUIDFirst to GUIDLast is the pool for interfaces and functions. If both are 0, New uses
	// Defaults.
	GUIDFirst, GUIDLast ib.GUID
}

// Defaults returns the default configuration.
func Defaults() Config { return Config{GUIDFirst: defaultFirst, GUIDLast: defaultLast} }

// Event is something that happens to a Core.
type Event interface{ event() }

// Start is the first event. Records are what the store held.
type Start struct{ Records []store.Record }

// Published is a new state of the subnet.
type Published struct{ Snap *subnet.Snapshot }

// Reports are the subnet manager's reports on placements, in their order.
type Reports struct{ List []subnet.PlacementReport }

// Requests are operations, in the order in which they came. Those of one event are
// stored together and move together.
type Requests struct{ List []Request }

// Request is an operation and the tag of its Reply.
type Request struct {
	Tag uint64
	Op  Op
}

// Persisted answers Output.Persist.
type Persisted struct {
	Gen uint64
	Err error
}

// Timer says that the deadline of the last Output has come. Early or spurious ones
// are harmless.
type Timer struct{}

// Stop says that the manager ends: what is not stored yet is stored now.
type Stop struct{}

func (Start) event()     {}
func (Published) event() {}
func (Reports) event()   {}
func (Requests) event()  {}
func (Persisted) event() {}
func (Timer) event()     {}
func (Stop) event()      {}

// Op is an operation: one of the types below.
type Op interface{ op() }

// Create makes an interface. It reads of I: Name, GUID (0: one of the pool, unless GUIDKind is
// FunctionGUID), Aliases, LIDKind, LID (0: any), Mode, Keys and Place. With a FunctionGUID it
// has no aliases and a SharedLID. With a Place it is also attached there, in the same record,
// and the reply is that of Attach. If it cannot be there, it is Created without a place.
type Create struct{ I Interface }

// Attach gives an interface its place. Function 0 is any that is free.
type Attach struct {
	Name string
	At   subnet.Place
}

// Migrate reserves a place at another hypervisor for an interface. Nothing moves before Finish.
// Function 0 is any that is free.
type Migrate struct {
	Name string
	To   subnet.Place
}

// Finish moves the addresses of a migrating interface to the reserved place. If they cannot be
// there, the interface stays at the old place or returns to it. A repeated Finish of a
// migration that succeeded succeeds; after a rollback it fails.
type Finish struct{ Name string }

// Move is Migrate and Finish in one record. If the interface cannot be at To, it stays at the
// old place or returns to it, and no place remains reserved.
type Move struct {
	Name string
	To   subnet.Place
}

// RollBack ends a migration that is not finished; the interface stays at the old place.
type RollBack struct{ Name string }

// Detach removes an interface from its place. It keeps its addresses.
type Detach struct{ Name string }

// Delete deletes an interface without a place, or with Force any interface. Deleting an
// interface that does not exist succeeds.
type Delete struct {
	Name  string
	Force bool
}

// SetKeys replaces the P_Keys of an interface.
type SetKeys struct {
	Name string
	Keys []Membership
}

// AddMembers makes GUIDs direct members of a partition, whether they are in the fabric or not.
// A GUID that is a member already gets the new membership. A partition that does not exist is
// created; Index0 and IPoIB are added to an existing one. A GUID that also has the P_Key
// through its interface is a full member if either membership is full.
type AddMembers struct {
	PKey   ib.PKey // 15 bits
	GUIDs  []ib.GUID
	Full   bool
	Index0 bool // of the partition
	IPoIB  bool // the partition has the IPv4 broadcast group
	// Replace: these GUIDs replace the direct members of the partition, and Index0 and IPoIB
	// replace its attributes.
	Replace bool
}

// RemoveMembers undoes AddMembers. With All it removes the whole partition; without All an
// empty partition of AddMembers remains.
type RemoveMembers struct {
	PKey  ib.PKey
	GUIDs []ib.GUID
	All   bool
}

func (Create) op()        {}
func (Attach) op()        {}
func (Migrate) op()       {}
func (Finish) op()        {}
func (Move) op()          {}
func (RollBack) op()      {}
func (Detach) op()        {}
func (Delete) op()        {}
func (SetKeys) op()       {}
func (AddMembers) op()    {}
func (RemoveMembers) op() {}

// Reply answers an operation: it is stored, or follows from what is stored, or Err says why not.
// Attach, Finish, Move, RollBack and Detach are answered when the subnet manager has carried them
// out or refused them. If the subnet is not up, the place is absent, or it takes longer than five
// seconds, they are answered with Waiting.
type Reply struct {
	Tag       uint64
	Err       error
	Interface Interface // as it is then; the zero value after Delete
	Waiting   bool      // it is stored and will be carried out; Interface.Reason says what it waits for
}

// Now updates a Waiting reply by a later view, in which the interface is i: the end of its
// operation, or still Waiting.
func (r Reply) Now(i Interface) Reply {
	if !r.Waiting {
		return r
	}
	to := r.Interface.Dest
	if r.Interface = i; i.Doing != "" {
		return r
	}
	if r.Waiting = false; i.Placement == subnet.PlacementRefused || to != (subnet.Place{}) && i.Place != to {
		r.Err = conflict("interface %q is %v: %s", i.Name, i.State, i.Reason)
	}
	return r
}

// Members are the direct members of a partition.
type Members struct {
	PKey    ib.PKey // 15 bits
	Index0  bool
	IPoIB   bool
	Full    []ib.GUID // ascending
	Limited []ib.GUID
}

// Pools counts what is used and what there is.
type Pools struct {
	GUIDs, GUIDsUsed uint64 // of the pool; by interfaces and functions
	// LIDs is how many the subnet can have, bounded by the smallest LinearFDBCap; LIDsUsed how
	// many ports, functions and interfaces have.
	LIDs, LIDsUsed int
}

// Output is what a Step wants done, in this order.
type Output struct {
	Persist    []store.Op
	PersistGen uint64 // to be returned in Persisted
	Publish    *View
	// Partitions, with PartitionsChanged, are all memberships for the subnet
	// manager's SetMembers.
	Partitions        []partition.Partition
	PartitionsChanged bool
	// Put and Drop, with PlacementsChanged, are for its SetPlacements; All: Put is all there is.
	Put               []subnet.Placement
	Drop              []ib.GUID
	All               bool
	PlacementsChanged bool
	Replies           []Reply
	Notices           []Notice
	Timer             mad.Time
}

// Notice is something worth logging.
type Notice struct {
	Kind string // vm_created, vm_attached, vm_migrated, vm_rolled_back, …: one for each fact
	Warn bool
	Text string
}

// Reset empties o for the next Step.
func (o *Output) Reset() { *o = Output{Timer: mad.Never} }
