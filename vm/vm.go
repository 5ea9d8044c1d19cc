// Package vm is the address manager: it knows the network interfaces of virtual
// machines, which addresses each has (GUIDs, and so GIDs, P_Keys, and a LID of its
// own if it wants one), on which virtual function it is, and takes them from one
// hypervisor to another. What it decides are placements (subnet.Placement), which the
// subnet manager makes so in hardware, and memberships of partitions.
//
// Core is a state machine like sm.Core and sa.Core: the shell gives it events, one
// at a time, and does what the output lists, in the order of its fields. Every
// operation is stored before it is told or done: a manager that dies in the middle
// of one finishes it, or undoes it, when it is started again. Operations are
// idempotent: one that was done already is answered as if it had just been.
//
// Create with a place and Move have several parts, and one record like the others.
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

// State is where an interface stands.
type State uint8

// The states.
const (
	Created   State = iota // it has addresses and no place
	Attached               // it has a place
	Migrating              // it has a place, and another one is kept for it
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

// GUIDKind says whose the GUID of an interface is.
type GUIDKind uint8

// The kinds. What the first two say goes with the interface wherever it goes (the
// static vGUIDs of Tasoulas et al., "A Signalling Method"; those of a function are
// their dynamic ones).
const (
	StaticGUID   GUIDKind = iota // the interface's: who created it chose it
	PoolGUID                     // the interface's: the manager chose it from its pool
	FunctionGUID                 // the virtual function's: the interface has it while it is there
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
	// GUID is its port GUID (vGUID). One of the pool is given back when the interface
	// is deleted. With a FunctionGUID it is that of the function where it is, or, once
	// Finish was asked for, where it goes; 0 while it has none.
	GUID     ib.GUID
	GUIDKind GUIDKind
	DestGUID ib.GUID // FunctionGUID, Migrating: that of Dest; else 0
	Aliases  []ib.GUID
	LIDKind  subnet.LIDKind
	LID      ib.LID          // the one it asked for; else the one that it was last placed with, 0 before
	Pinned   bool            // it asked for LID
	Mode     subnet.MoveMode // how its LID moves
	Keys     []Membership
	State    State
	Place    subnet.Place // Attached, Migrating
	Dest     subnet.Place // Migrating
	// Doing is the operation that is stored and not finished: one of the Doing
	// constants. Empty if nothing is under way.
	Doing string
	// Placement is what the subnet manager last said of it; not stored.
	Placement subnet.PlacementState
	Reason    string // why it waits, was refused, or was rolled back
}

// Errors of operations. They are wrapped by what says which interface or value is
// concerned, and what to do.
var (
	ErrNotFound = errors.New("no such interface")
	ErrConflict = errors.New("conflict") // with another interface, or with the state of this one
	ErrInvalid  = errors.New("invalid")
	ErrNoRoom   = errors.New("none left") // of GUIDs, or LIDs
	ErrStore    = errors.New("could not be stored")
)

// Config is what a Core is told at start.
type Config struct {
	// GUIDFirst to GUIDLast is the pool, of interfaces and functions; that of Defaults
	// if both are 0, which is no GUID.
	GUIDFirst, GUIDLast ib.GUID
}

// Defaults returns the configuration of a Core that was told nothing.
func Defaults() Config { return Config{GUIDFirst: defaultFirst, GUIDLast: defaultLast} }

// Event is something that happens to a Core.
type Event interface{ event() }

// Start is the first event. Records are what the store held.
type Start struct{ Records []store.Record }

// Published is a new state of the subnet.
type Published struct{ Snap *subnet.Snapshot }

// Reports are what the subnet manager said of placements, in its order.
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

func (Start) event()     {}
func (Published) event() {}
func (Reports) event()   {}
func (Requests) event()  {}
func (Persisted) event() {}
func (Timer) event()     {}

// Op is an operation: one of the types below.
type Op interface{ op() }

// Create makes an interface. Of I count Name, GUID (0: one of the pool, unless GUIDKind
// is FunctionGUID), Aliases, LIDKind, LID (0: any), Mode, Keys and Place. With a
// FunctionGUID it has no aliases and a SharedLID. With a Place it is also attached
// there, in the same record, and the reply is that of Attach: if it cannot be there,
// it is Created all the same.
type Create struct{ I Interface }

// Attach gives an interface its place. Function 0 is any that is free.
type Attach struct {
	Name string
	At   subnet.Place
}

// Migrate keeps a place at another hypervisor for an interface. Nothing moves
// before Finish. Function 0 is any that is free.
type Migrate struct {
	Name string
	To   subnet.Place
}

// Finish moves a migrating interface's addresses to the place kept for it. If they
// cannot be there it stays, or is put back, where it was. An interface that the last
// Finish moved is finished already; one that was rolled back is not.
type Finish struct{ Name string }

// Move is Migrate and Finish in one record. If the interface cannot be at To, it
// stays, or is put back, where it was, and no place is kept for it.
type Move struct {
	Name string
	To   subnet.Place
}

// RollBack gives up a migration that was not finished.
type RollBack struct{ Name string }

// Detach takes an interface from its place. It keeps its addresses.
type Detach struct{ Name string }

// Delete ends an interface that has no place, or, with Force, any. One that is not
// there is as good as deleted.
type Delete struct {
	Name  string
	Force bool
}

// SetKeys replaces the P_Keys of an interface.
type SetKeys struct {
	Name string
	Keys []Membership
}

// AddMembers makes GUIDs members of a partition by themselves, whether they are on
// the fabric or not; a GUID that is a member already takes the new membership. The
// partition is made if it is not there; Index0 and IPoIB are added to what it has.
// A GUID that is also given the P_Key by its interface is a full member if either
// says so.
type AddMembers struct {
	PKey   ib.PKey // 15 bits
	GUIDs  []ib.GUID
	Full   bool
	Index0 bool // of the partition
	IPoIB  bool // the partition has the IPv4 broadcast group
	// Replace: the GUIDs are all members that the partition has by themselves, and
	// Index0 and IPoIB are as they are here.
	Replace bool
}

// RemoveMembers undoes AddMembers; All ends the whole partition. Without members
// and without All a partition that AddMembers made stays, empty.
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

// Reply is the end of an operation: what was asked is stored, or Err says why not.
// Attach, Finish, Move, RollBack and Detach are answered when the subnet manager has made
// it so (or cannot), unless the subnet is not up or the place is not there: then at
// once, with Waiting. So they are too when it takes longer than five seconds.
type Reply struct {
	Tag       uint64
	Err       error
	Interface Interface // as it is then; the zero value after Delete
	Waiting   bool      // it is stored and will be done; Interface.Reason says what it waits for
}

// Now is a Waiting reply as of a later view, in which the interface is i: how its
// operation ended, or Waiting still.
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

// Members are those of a partition by themselves.
type Members struct {
	PKey    ib.PKey // 15 bits
	Index0  bool
	IPoIB   bool
	Full    []ib.GUID // ascending
	Limited []ib.GUID
}

// Pools says how much is left.
type Pools struct {
	GUIDs, GUIDsUsed uint64 // of the pool; by interfaces and functions
	// LIDs is how many the subnet can have, bounded by the smallest LinearFDBCap;
	// LIDsUsed how many are given, to ports, functions and interfaces.
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
