package sm

import (
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sm/pkey"
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
	byGUID map[ib.GUID]vportRef // VPorts that are known and not Down, by port GUID; one of them, if several show it
	// rivals wait for the one in byGUID to go.
	rivals map[ib.GUID][]vportRef
	todo   []*adapter // with something to do; the first MaxVirtualPorts are worked on
	later  []vportRef // to be looked at when their time has come
	retry  mad.Time   // when the first of them is due

	shown   []vportRef              // changed since the last snapshot; index 0: the adapter's own entry
	relist  bool                    // … and entries came, or those of physical ports changed
	flush   bool                    // what changed is published at the next opportunity
	unseen  []*adapter              // that wait for their VPorts to be published
	shownAt mad.Time                // when changes were published last
	first   int32                   // index in snap.Ports of the first virtual port
	up      [ib.StateActive + 1]int // VPorts by their state, of which that of Down is not kept
}

// adapter is a CA port with virtual ports or functions. It outlasts sweeps, and
// its port's absence.
type adapter struct {
	port  ib.GUID
	at    ref // in Core.f; NoRef while it is not there
	model subnet.Model
	info  smp.VirtualizationInfo
	shows *subnet.Adapter // of info, for snapshots; nil: nothing to show
	step  adapterStep
	// functions is how many it can hold; vports has one entry for each index that
	// was ever of interest, by index, else nil. Entry 0, the port itself, is not used.
	functions int
	vports    []*vport
	look      []uint16 // VPorts to be looked at

	first   bool // it is treated for the first time since it came, came back or this mastership began
	met     bool // its VirtualizationInfo was read since then
	wasOn   bool // … and virtualization was on: what is down may hold what an earlier manager gave it
	running bool // … and had VPorts up, which do not know of us yet
	asked   int  // requests under way, about it and about its VPorts
	clears  uint8
	tries   uint8
	retryAt mad.Time // nothing is asked of it before; 0 = at once
	doubtAt mad.Time // its states are not read again before because a VPort is not there
	waiting bool     // in virtuals.later
	queued  bool     // in virtuals.todo
	// held are the GUIDs of its VPorts when its port went, until it is known that the port
	// left or they are read again.
	held []ib.GUID
}

// adapterStep is what is asked of an adapter next.
type adapterStep uint8

const (
	adapterInfo    adapterStep = iota // VirtualizationInfo
	adapterEnable                     // Set VirtualizationEnable, clear VPortStateChange
	adapterStates                     // VPortState, block by block
	adapterKnown                      // nothing; single VPorts have their own steps
	adapterRefused                    // it has no usable VPorts: another revision, or it refuses; or they are turned off
)

// vport is a virtual port or a function of a vSwitch. Once made it stays with its
// adapter.
type vport struct {
	index  uint16
	state  ib.PortState // as last read or set; Down to begin with
	known  vportKnown
	blocks uint8 // of its GUID table that are known, from the first
	info   smp.VPortInfo
	node   smp.VNodeInfo
	desc   string
	guids  []ib.GUID   // VPortGUIDInfo by index; 0 at 0, and no empty entries at its end; snapshots share it
	pk     *pkey.Table // as of physical ports; nil if nothing is known of it
	shows  *subnet.Virtual

	met     ib.GUID // that it showed first since it came up; VPorts only
	anew    bool    // it shows another one and is Armed or Active: it is taken down
	found   bool    // it was up when this manager met it: what is in its tables is in use
	told    bool    // its client was asked to register again, or brought up by us
	own     ib.GUID // vSwitch: the GUID that it was made with, once that was seen
	needed  bool    // its LID is of interest while it is Down: another one uses it
	seen    bool    // its VPortInfo was read since its adapter came
	unsure  bool    // a Set may or may not have been applied: it is read again, even if it is down
	entered bool    // it has an entry in snapshots

	confirm   vportConfirm   // what is being made sure of before it is made Active
	lost      uint8          // Sets of VPortInfo that were not answered
	readAt    mad.Time       // when its VPortInfo was read or acknowledged last
	sending   *smp.VPortInfo // a Set that is not built yet
	asked     uint8          // requests under way
	refusals  uint8          // of Sets of VPortInfo, in a row
	refused   *functionWant  // what it does not take; not asked again before that changes or it comes up anew
	noGUIDs   bool           // its GUID table cannot be read or written
	tries     uint8          // unanswered, in a row
	retryAt   mad.Time       // nothing is asked of it before; 0 = at once
	lateUntil mad.Time       // until when a copy of a Set of VPortInfo may arrive
	checkAt   mad.Time       // when its VPortInfo is read again, as an older Set may arrive late; 0 = no need
	lookAt    mad.Time       // when it is looked at again in any case; 0 = no need
	waiting   bool           // in virtuals.later
	queued    bool           // in adapter.look
}

// vportConfirm is what is read again of a vport that is to be Active as soon as that
// says that all is as it was: tables and VPortInfo may have changed unseen.
type vportConfirm uint8

const (
	confirmNothing vportConfirm = iota
	confirmKeys                 // its P_Key table
	confirmInfo                 // then its VPortInfo
)

// vportKnown says what has been read of a vport since it came up.
type vportKnown uint8

const (
	knowInfo vportKnown = 1 << iota
	knowNode
	knowDesc
	knowGUIDs
	knowPKeys
)

const knowAll = knowInfo | knowNode | knowDesc | knowGUIDs

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
	return virtuals{
		byPort: map[ib.GUID]*adapter{}, byGUID: map[ib.GUID]vportRef{}, rivals: map[ib.GUID][]vportRef{}, retry: mad.Never,
	}
}

// vport is the VPort with an index, nil if it was never of interest.
func (a *adapter) vport(index uint16) *vport {
	if int(index) >= len(a.vports) {
		return nil
	}
	return a.vports[index]
}

// ensure is vport that makes one.
func (a *adapter) ensure(index uint16) *vport {
	for len(a.vports) <= int(index) {
		a.vports = append(a.vports, nil)
	}
	v := a.vports[index]
	if v == nil {
		v = &vport{index: index, state: ib.StateDown}
		a.vports[index] = v
	}
	return v
}

// aliases are the entries of its GUID table from index 1 on.
func (v *vport) aliases() []ib.GUID { return v.guids[min(1, len(v.guids)):] }

// vport is the VPort that r names, nil if there is none.
func (r vportRef) vport() *vport { return r.a.vport(r.index) }
