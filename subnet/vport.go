package subnet

import (
	"fmt"

	"heddle/ib"
	"heddle/ib/smp"
)

// Virtual functions and virtual ports. A VPort is an end port like any other to
// those who ask for it by GUID, GID or LID, so it has an entry of its own in
// Snapshot.Ports, behind those of the nodes' ports: its GUID, LID, P_Keys,
// aliases and state are its own, the rest (Node, Num, Peer, EndPort, MTU, Rate)
// is what it shares with its physical port. LMC is 0, and Virtual is set. One that
// cannot be reached (not Armed or Active, no LID, its port not in the subnet) has
// EndPort -1 and is found by no lookup of addresses.

// Model is how a port of a channel adapter holds the addresses of virtual
// functions.
type Model uint8

// The models, from what a port says it can do.
const (
	NoFunctions Model = iota // it has one address and room for no other
	// SharedPort: one LID and one P_Key table for all functions; a function is
	// known by an alias GUID at its index of the port's GUID table (ConnectX-3).
	SharedPort
	// VSwitch: every function has a LID, a GUID and a P_Key table of its own, all
	// written by the manager (Tasoulas et al., 2015).
	VSwitch
	// VPorts: IBTA virtualization. GUIDs come from the hypervisor; a VPort shares
	// its port's LID, or another VPort's, or asks for one of its own.
	VPorts
)

func (m Model) String() string {
	switch m {
	case NoFunctions:
		return "none"
	case SharedPort:
		return "shared"
	case VSwitch:
		return "vswitch"
	case VPorts:
		return "vport"
	}
	return fmt.Sprintf("model(%d)", uint8(m))
}

// Virtual is what the entry of a VPort in Snapshot.Ports has besides. It is
// immutable.
type Virtual struct {
	Port   int32  // index in Snapshot.Ports of its physical port
	Index  uint16 // VPort index there, from 1
	OwnLID bool   // its LID is its own; else it is the default of no LID, and packets to and from it need a GRH
	Info   smp.VPortInfo
	Node   smp.VNodeInfo
	Desc   string // VNodeDescription up to the first NUL
}

// Adapter is what a physical port of a channel adapter says about its virtual
// ports or functions. It is immutable.
type Adapter struct {
	Model Model
	// Info is its VirtualizationInfo; zero on a SharedPort.
	Info smp.VirtualizationInfo
	// Functions is how many functions it can hold, besides the port itself.
	Functions int
}

func (a *Adapter) String() string {
	if a == nil {
		return NoFunctions.String()
	}
	return fmt.Sprintf("%v %d %+v", a.Model, a.Functions, a.Info)
}

func (v *Virtual) String() string {
	if v == nil {
		return "not virtual"
	}
	return fmt.Sprintf("VPort %d of port %d %q own=%v %+v %+v", v.Index, v.Port, v.Desc, v.OwnLID, v.Info, v.Node)
}

// Place is a virtual function: a port of a channel adapter and the function's
// index there: the VPort index, or on a SharedPort the index in the GUID table.
// The zero Place is nowhere.
type Place struct {
	Port     ib.GUID // of the physical port
	Function uint16  // from 1
}

func (p Place) String() string {
	if p == (Place{}) {
		return "nowhere"
	}
	return fmt.Sprintf("%v/%d", p.Port, p.Function)
}

// LIDKind is which LID the holder of a Lease is reached at.
type LIDKind uint8

// The kinds.
const (
	// SharedLID: that of the port or VPort that the hardware says.
	SharedLID LIDKind = iota
	// OwnLID: one that goes with the GUID wherever it goes, the lowest that is free.
	OwnLID
	// FloatingLID: as OwnLID, on a SharedPort: while the lease is placed the port
	// itself has this LID instead of its own (LIDtracker: Tasoulas et al., 2014,
	// §IV-A). It takes the highest that is free, and a port holds one lease at a
	// time.
	FloatingLID
)

func (k LIDKind) String() string {
	switch k {
	case SharedLID:
		return "shared"
	case OwnLID:
		return "own"
	case FloatingLID:
		return "floating"
	}
	return fmt.Sprintf("lid(%d)", uint8(k))
}

// MoveMode says which switches' entries change where a LID moves.
type MoveMode uint8

// The modes.
const (
	// MoveAuto: as MoveMinimal where both places hang on the same switch, which alone
	// changes then; as MoveBalanced elsewhere. So no move of one LID to a place that no
	// other gives up has to wait for packets to drain.
	MoveAuto MoveMode = iota
	// MoveBalanced: those of every switch where they differ from the entries that the LID
	// copies or swaps. The engine's balance stays.
	MoveBalanced
	// MoveMinimal: those of the fewest switches with which it is delivered. Between
	// switches that leaves a turn from down to up, and later moves may wait for it.
	MoveMinimal
)

func (m MoveMode) String() string {
	switch m {
	case MoveAuto:
		return "auto"
	case MoveBalanced:
		return "balanced"
	case MoveMinimal:
		return "minimal"
	}
	return fmt.Sprintf("mode(%d)", uint8(m))
}

// Lease is the address of a virtual machine's interface and where it is to be:
// what the address manager wants and the subnet manager makes so. GUID is its key.
type Lease struct {
	GUID    ib.GUID // port GUID of the interface (vGUID)
	Place   Place   // the zero Place: nowhere; the LID stays reserved
	LIDKind LIDKind
	LID     ib.LID    // the one it must have; 0 = what it had before, else any
	Mode    MoveMode  // how the LID's entries move
	Aliases []ib.GUID // more GUIDs, for the VPort's GUID table from index 1 on
}

// LeaseState is how far the subnet manager has come with a Lease.
type LeaseState uint8

// The states.
const (
	// LeaseWaiting: its place is not there, not up, or somebody else's still.
	LeaseWaiting LeaseState = iota
	// LeaseMoving: it is being put in its place.
	LeaseMoving
	// LeasePlaced: the address works at its place, or, without a place, nowhere
	// any more.
	LeasePlaced
	// LeaseRefused: it cannot be so; Reason says why. Nothing is where it was not
	// before. It is tried again after sm's RetryInterval, when the lease is set again,
	// or when the place comes back.
	LeaseRefused
)

func (s LeaseState) String() string {
	switch s {
	case LeaseWaiting:
		return "waiting"
	case LeaseMoving:
		return "moving"
	case LeasePlaced:
		return "placed"
	case LeaseRefused:
		return "refused"
	}
	return fmt.Sprintf("lease(%d)", uint8(s))
}

// LeaseReport says that the state of a Lease changed.
type LeaseReport struct {
	GUID   ib.GUID
	Place  Place // what the report is about: the place asked for when it was made
	State  LeaseState
	LID    ib.LID // that the interface is reached at, 0 if none
	Cause  Cause  // of LeaseRefused and LeaseWaiting: why, for programs
	Reason string // the same for people, and what to do
	SMPs   int    // of LeasePlaced: LFT blocks that this lease's LID took, by the paper's count
	AtRisk bool   // of LeasePlaced: a transient cycle of credits was possible while its LID moved
}
