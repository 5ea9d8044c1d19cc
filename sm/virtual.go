package sm

import (
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/subnet"
)

// Virtual ports and functions (docs/virtualization.md). An adapter is a CA port
// that has them. What it holds is known as it was read or acknowledged in this
// mastership; what it is to hold follows from leases (leases.go), from LIDs
// (functionlids.go) and from partitions. The two are brought together as upkeep,
// between sweeps, VPort by VPort, each by a small state machine (vports.go); it
// never delays the bring-up of physical links. LIDs of their own are routed before a
// VPort that has one is made Active (moves.go).

// virtuals is what a manager knows and does about virtual ports.
type virtuals struct {
	byPort map[ib.GUID]*adapter // by port GUID of the physical port
	list   []*adapter           // ascending port GUID
	byGUID map[ib.GUID]vportRef // VPorts that are known, by port GUID; the first Active one, if several show it
	todo   []vportRef           // to be looked at
	asked  int                  // requests under way
	retry  mad.Time             // when the first that failed is due
	shown  bool                 // something changed since the last snapshot
}

// adapter is a CA port with virtual ports or functions. It outlasts sweeps.
type adapter struct {
	port  ib.GUID
	at    ref // in Core.f; NoRef while it is not there
	model subnet.Model
	info  smp.VirtualizationInfo
	shows *subnet.Adapter // of info, for snapshots
	step  adapterStep
	// functions is how many it can hold; vports has one entry for each index that
	// was ever of interest, by index. Entry 0, the port itself, is not used.
	functions int
	vports    []*vport

	tries   uint8
	retryAt mad.Time
	queued  bool // in virtuals.todo, as a whole
}

// adapterStep is what is asked of an adapter next.
type adapterStep uint8

const (
	adapterInfo    adapterStep = iota // VirtualizationInfo
	adapterEnable                     // Set VirtualizationEnable, clear VPortStateChange
	adapterStates                     // VPortState, block by block
	adapterKnown                      // nothing; single VPorts have their own steps
	adapterRefused                    // it has no usable VPorts: another revision, or it refuses
)

// vport is a virtual port or a function of a vSwitch.
type vport struct {
	index uint16
	state ib.PortState // as last read or set
	known vportKnown
	info  smp.VPortInfo
	node  smp.VNodeInfo
	desc  string
	guids []ib.GUID  // VPortGUIDInfo by index from 1, without empty entries at its end; snapshots share it
	pk    *pkeyTable // as of physical ports; nil if nothing is known of it
	shows *subnet.Virtual

	tries   uint8
	retryAt mad.Time
	refused bool // it does not take what is wanted; not asked again before that changes or it comes up anew
	queued  bool
}

// vportKnown says what has been read of a vport since it came up.
type vportKnown uint8

const (
	knowInfo vportKnown = 1 << iota
	knowNode
	knowDesc
	knowGUIDs
	knowPKeys
)

// vportRef names a vport; index 0 is the adapter as a whole.
type vportRef struct {
	a     *adapter
	index uint16
}

// place is the name of a vport to others.
func (r vportRef) place() subnet.Place { return subnet.Place{Port: r.a.port, Function: r.index} }

// functionWant is what a VPort, or a function of a vSwitch, is to hold.
type functionWant struct {
	lid  ib.LID  // of its own; 0: none
	guid ib.GUID // vSwitch only: that it is to be known by; 0: the one it was made with
	up   bool    // may be brought to Active (its LID, if it is to have one, is routed)
	// GUIDs from index 1 of its GUID table on.
	aliases []ib.GUID
}

func newVirtuals() virtuals {
	return virtuals{byPort: map[ib.GUID]*adapter{}, byGUID: map[ib.GUID]vportRef{}, retry: mad.Never}
}
