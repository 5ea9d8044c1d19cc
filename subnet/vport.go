package subnet

import (
	"fmt"

	"heddle/ib"
	"heddle/ib/smp"
)

// Virtual functions and virtual ports. Queried by GUID, GID or LID, a VPort is an
// end port like any other, so it has an entry in Snapshot.Ports, after those of
// the nodes' ports. GUID, LID, P_Keys, aliases and state are its own; the rest
// (Node, Num, Peer, EndPort, MTU, Rate) is that of its physical port. LMC is 0,
// and Virtual is set. An unreachable VPort (not Armed or Active, no LID, its port
// not in the subnet) has EndPort -1 and is in no lookup of addresses.

// Model is how a port of a channel adapter holds the addresses of virtual
// functions.
type Model uint8

// Models, derived from a port's capabilities.
const (
	NoFunctions Model = iota // it has one address and no space for others
	// SharedPort: one LID and one P_Key table for all functions; an alias GUID at
	// its index of the port's GUID table identifies a function (ConnectX-3).
	SharedPort
	// VSwitch: every function has a LID, a GUID and a P_Key table of its own, all
	// written by the manager (Tasoulas et al., 2015).
	VSwitch
	// VPorts: IBTA virtualization. GUIDs come from the hypervisor; a VPort shares
	// the LID of its port or of another VPort, or requests its own.
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

// Virtual holds the additional fields of a VPort's entry in Snapshot.Ports. It
// is immutable.
type Virtual struct {
	Port   int32  // index in Snapshot.Ports of its physical port
	Index  uint16 // VPort index there, from 1
	OwnLID bool   // it owns its LID; otherwise packets to and from it need a GRH
	Info   smp.VPortInfo
	Node   smp.VNodeInfo
	Desc   string // VNodeDescription up to the first NUL
}

// Adapter describes the virtual ports or functions of a physical port of a
// channel adapter. It is immutable.
type Adapter struct {
	Model Model
	// Info is its VirtualizationInfo; zero on a SharedPort.
	Info smp.VirtualizationInfo
	// Functions is how many functions it can hold, in addition to the port itself.
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

// LIDKind says which LID leads to the interface of a Placement.
type LIDKind uint8

// The kinds.
const (
	// SharedLID: the LID of the port or VPort that the hardware names.
	SharedLID LIDKind = iota
	// OwnLID: a LID that moves with the GUID, the lowest free one.
	OwnLID
	// FloatingLID: as OwnLID, on a SharedPort: while the interface is there the port
	// itself has this LID instead of its own (LIDtracker: Tasoulas et al., 2014,
	// §IV-A). It is the highest free LID, and a port holds one placement at a time.
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

// MoveMode selects the switches whose entries change when a LID moves.
type MoveMode uint8

// The modes.
const (
	// MoveAuto: as MoveMinimal if both locations are on the same switch, which alone
	// changes then; otherwise as MoveBalanced. So no move of one LID to a free location
	// has to wait for packets to drain.
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

// Placement is the address of a virtual machine's interface and its intended location:
// the address manager decides it and the subnet manager carries it out. GUID is
// its key.
type Placement struct {
	GUID    ib.GUID // port GUID of the interface (vGUID)
	Place   Place   // the zero Place: nowhere; the LID stays reserved
	LIDKind LIDKind
	LID     ib.LID    // the requested LID; 0: the previous one, otherwise any
	Mode    MoveMode  // how the LID's entries move
	Aliases []ib.GUID // more GUIDs, for the VPort's GUID table from index 1 on
}

// PlacementState is the subnet manager's state of a Placement.
type PlacementState uint8

// The states.
const (
	// PlacementWaiting: its location does not exist, is not up, or is still in use by
	// another placement.
	PlacementWaiting PlacementState = iota
	// PlacementMoving: the move to its location is in progress.
	PlacementMoving
	// PlacementPlaced: the address works at its location, or, without a location, was
	// removed everywhere.
	PlacementPlaced
	// PlacementRefused: it is impossible; Reason says why. Nothing was moved. It is
	// retried after sm's RetryInterval, when the placement is set again, or when the
	// location returns.
	PlacementRefused
)

func (s PlacementState) String() string {
	switch s {
	case PlacementWaiting:
		return "waiting"
	case PlacementMoving:
		return "moving"
	case PlacementPlaced:
		return "placed"
	case PlacementRefused:
		return "refused"
	}
	return fmt.Sprintf("placement(%d)", uint8(s))
}

// PlacementReport reports a change of a Placement's state.
type PlacementReport struct {
	GUID   ib.GUID
	Place  Place // the location requested when the report was made
	Held   Place // the function that has the address then, as far as is known; zero if none
	State  PlacementState
	LID    ib.LID // that the interface is reached at, 0 if none
	Cause  Cause  // of PlacementRefused and PlacementWaiting: why, for programs
	Reason string // the same in words, with the remedy
	SMPs   int    // of PlacementPlaced: LFT blocks that this placement's LID took, by the paper's count
	AtRisk bool   // of PlacementPlaced: a transient cycle of credits was possible while its LID moved
}

// KeepsAddress reports whether a GUID at port i keeps its LID when it moves, so that hosts may
// remember the pair. A Placement keeps its own and its floating LID. A port keeps its LID while
// none floats there. An alias GUID and a function that shares a LID get another LID with each
// move, and so does a function's GUID whose LID belongs to no Placement.
func (s *Snapshot) KeepsAddress(i int32, g ib.GUID) bool {
	p := s.Ports[i]
	if p.Placed != 0 || p.Virtual != nil {
		return g == p.Placed && (p.Virtual == nil || p.Virtual.OwnLID)
	}
	return g == p.GUID
}
