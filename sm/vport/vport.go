// Package vport manages virtual ports (VPorts) and the virtual functions of vSwitches: it finds
// them, reads what they are, programs their addresses and brings them up (docs/virtualization.md).
//
// An adapter is a CA port that has VPorts or functions. Manager is a part of a subnet manager. It
// owns what is known of adapters and of their VPorts, as read or acknowledged in this mastership.
// Its inputs are discoveries (Discovered), traps and light sweeps, answers (Answered), and what
// VPorts are to hold: addresses (Placements), and P_Keys (PKeys), which another part programs. Its
// outputs are items on the work list, which Build makes into SMPs, the entries of VPorts in
// snapshots (Append, Update), and notices.
//
// The work is upkeep: it is done between sweeps, VPort by VPort, and never delays the bring-up of
// physical links. Each adapter and each VPort has a small state machine of its own (step.go). A
// VPort with a LID of its own becomes Active only when that LID is routed.
package vport

import (
	"slices"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sm/env"
	"heddle/sm/pkey"
	"heddle/sm/topo"
	"heddle/subnet"
)

// Placements is the part that gives addresses to virtual functions.
type Placements interface {
	// Wanted is what a VPort is to hold now. It may change at any step; Look is called then.
	Wanted(r Ref) Want
	// Changed tells that a VPort was read, took what was wanted, changed its state, came or went.
	// Index 0 is the adapter as a whole.
	Changed(r Ref)
	// AdapterChanged tells that the kind of an adapter changed.
	AdapterChanged(a *Adapter)
	// Refused tells that a VPort does not take what is wanted.
	Refused(r Ref, err error)
	// Entry is the entry that a snapshot goes on showing for a VPort whose address is on its way,
	// behind the port with an index in s.Ports; false: the VPort is shown as it is.
	Entry(s *subnet.Snapshot, r Ref, port int32) (subnet.Port, bool)
	// ShownElsewhere reports whether snapshots show a GUID at another place than p.
	ShownElsewhere(g ib.GUID, p subnet.Place) bool
	// LIDOwner is the GUID of the placement that has a LID, 0 if none has it.
	LIDOwner(l ib.LID) ib.GUID
}

// PKeys is the part that programs P_Key tables.
type PKeys interface {
	// Ready reports whether the P_Keys of a VPort are as they should be, so that it may become
	// Active. If not, the part sees to that and calls Look or Confirmed when it is done.
	Ready(r Ref) bool
	// Touch tells that a VPort behind a port came, went, or has another state or other GUIDs.
	Touch(port ib.GUID)
	// Shown is what snapshots show of a P_Key table, which may be nil.
	Shown(t *pkey.Table) []ib.PKey
}

// Groups is the part that routes multicast groups.
type Groups interface {
	// MemberMoved tells that a GUID came to a VPort or left one.
	MemberMoved(g ib.GUID)
}

// Aliases is the part that programs alias GUIDs.
type Aliases interface {
	// Holder is the port that holds an alias GUID, 0 if there is none.
	Holder(g ib.GUID) ib.GUID
}

// Discovery is the part that finds the ports of the subnet.
type Discovery interface {
	// AdapterMet tells that all VPorts of an adapter are known, or cannot be.
	AdapterMet()
}

// Needs are the parts that a Manager depends on.
type Needs struct {
	Placements Placements
	PKeys      PKeys
	Groups     Groups
	Aliases    Aliases
	Discovery  Discovery
}

// Manager has the adapters of a subnet and their VPorts.
type Manager struct {
	*env.Env
	needs Needs

	byPort map[ib.GUID]*Adapter // by port GUID of the physical port
	list   []*Adapter           // ascending port GUID
	byGUID map[ib.GUID]Ref      // VPorts that are known and not Down, by port GUID; one of them, if several show it
	// rivals wait for the one in byGUID to go.
	rivals map[ib.GUID][]Ref
	todo   []*Adapter // with something to do; the first MaxVirtualPorts are worked on
	later  []Ref      // to be looked at when their time has come
	retry  mad.Time   // when the first of them is due

	shown   []Ref      // changed since the last snapshot; index 0: the adapter's own entry
	relist  bool       // … and entries came, or those of physical ports changed
	flush   bool       // what changed is published at the next opportunity
	unseen  []*Adapter // that wait for their VPorts to be published
	shownAt mad.Time   // when changes were published last
	first   int32      // index in Ports of the last snapshot of the first VPort
	// odd are the VPorts whose entries in the last snapshot say otherwise than their LIDs lead.
	odd []Ref

	// states counts VPorts by their state. Those that are Down are not counted.
	states [ib.StateActive + 1]int
	shared int // adapters of a shared kind
}

// Adapter is a CA port with VPorts or functions. It outlasts sweeps, and the absence of its port.
type Adapter struct {
	port  ib.GUID
	at    subnet.Ref // in Env.Fabric; NoRef while it is not there
	kind  *kind
	info  smp.VirtualizationInfo
	shows *subnet.Adapter // of info, for snapshots; nil: nothing to show
	step  adapterStep
	// functions is how many it can hold. vports has one entry for each index that was ever of
	// interest, by index, else nil. Entry 0, the port itself, is not used.
	functions int
	vports    []*Port
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
	waiting bool     // in Manager.later
	queued  bool     // in Manager.todo
	// held are the GUIDs of its VPorts when its port went, until it is known that the port left
	// or they are read again.
	held []ib.GUID
}

// kind is how adapters of a model work (docs/virtualization.md).
type kind struct {
	model subnet.Model
	// shared: functions have no SMPs of their own. They are entries of the port's GUID table, which
	// package guid programs.
	shared bool
	// assigned: the manager assigns LID and GUID of each function. It keeps both while it is down.
	assigned bool
	// hosted: the host assigns the GUID of each VPort, and may give it to another VM at any moment.
	hosted bool
}

var (
	noKind      = &kind{model: subnet.NoFunctions} // not known yet, or no functions that can be used
	sharedKind  = &kind{model: subnet.SharedPort, shared: true}
	vswitchKind = &kind{model: subnet.VSwitch, assigned: true}
	vportKind   = &kind{model: subnet.VPorts, hosted: true}
)

// adapterStep is what is asked of an adapter next.
type adapterStep uint8

const (
	adapterInfo    adapterStep = iota // VirtualizationInfo
	adapterEnable                     // Set VirtualizationEnable, clear VPortStateChange
	adapterStates                     // VPortState, block by block
	adapterKnown                      // nothing; single VPorts have their own steps
	adapterRefused                    // it has no usable VPorts: another revision, or it refuses; or they are turned off
)

// Port is a VPort, or a function of a vSwitch. Once made it stays with its adapter.
type Port struct {
	// Keys is its P_Key table, which belongs to the part that programs P_Keys; nil if nothing is
	// known of it.
	Keys *pkey.Table

	index  uint16
	state  ib.PortState // as last read or set; Down to begin with
	known  knowledge
	blocks uint8 // of its GUID table that are known, from the first
	info   smp.VPortInfo
	node   smp.VNodeInfo
	desc   string
	guids  []ib.GUID // VPortGUIDInfo by index; 0 at 0, and no empty entries at its end; snapshots share it
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

	confirm   confirmation   // what is being made sure of before it is made Active
	lost      uint8          // Sets of VPortInfo that were not answered
	readAt    mad.Time       // when its VPortInfo was read or acknowledged last
	sending   *smp.VPortInfo // a Set that is not built yet
	asked     uint8          // requests under way
	refusals  uint8          // of Sets of VPortInfo, in a row
	refused   *Want          // what it does not take; not asked again before that changes or it comes up anew
	noGUIDs   bool           // its GUID table cannot be read or written
	tries     uint8          // unanswered, in a row
	retryAt   mad.Time       // nothing is asked of it before; 0 = at once
	lateUntil mad.Time       // until when a copy of a Set of VPortInfo may arrive
	checkAt   mad.Time       // when its VPortInfo is read again, as an older Set may arrive late; 0 = no need
	lookAt    mad.Time       // when it is looked at again in any case; 0 = no need
	waiting   bool           // in Manager.later
	queued    bool           // in Adapter.look
}

// confirmation is what is read again of a VPort that is to be Active as soon as that says that all
// is as it was: tables and VPortInfo may have changed unseen.
type confirmation uint8

const (
	confirmNothing confirmation = iota
	confirmKeys                 // its P_Key table
	confirmInfo                 // then its VPortInfo
)

// knowledge says what has been read of a VPort since it came up.
type knowledge uint8

const (
	knowInfo knowledge = 1 << iota
	knowNode
	knowDesc
	knowGUIDs
	knowPKeys
)

const knowAll = knowInfo | knowNode | knowDesc | knowGUIDs

// Ref names a VPort; index 0 is the adapter as a whole.
type Ref struct {
	Adapter *Adapter
	Index   uint16
}

// Place is the name of a VPort to others.
func (r Ref) Place() subnet.Place { return subnet.Place{Port: r.Adapter.port, Function: r.Index} }

// VPort is the VPort that r names, nil if there is none.
func (r Ref) VPort() *Port { return r.Adapter.VPort(r.Index) }

// Want is what a VPort, or a function of a vSwitch, is to hold.
type Want struct {
	LID  ib.LID  // of its own; 0: none
	GUID ib.GUID // vSwitch only: that it is to be known by; 0: the one it was made with
	Up   bool    // may be brought to Active (its LID, if it is to have one, is routed)
	Away bool    // the GUID that it shows belongs to another function: it is taken down
	// Aliases are the GUIDs from index 1 of its GUID table on.
	Aliases []ib.GUID
}

// same reports whether two wants are equal.
func (w *Want) same(o *Want) bool {
	return w.LID == o.LID && w.GUID == o.GUID && w.Up == o.Up && w.Away == o.Away && slices.Equal(w.Aliases, o.Aliases)
}

// New returns a manager that knows of no adapter.
func New(e *env.Env, needs Needs) *Manager {
	m := &Manager{Env: e, needs: needs, byPort: map[ib.GUID]*Adapter{}}
	m.clear()
	return m
}

// clear forgets all but the adapters.
func (m *Manager) clear() {
	*m = Manager{
		Env: m.Env, needs: m.needs, byPort: m.byPort, list: m.list,
		byGUID: map[ib.GUID]Ref{}, rivals: map[ib.GUID][]Ref{}, retry: mad.Never,
	}
}

// Reset begins a new mastership: nothing is known of any adapter.
func (m *Manager) Reset() {
	m.clear()
	for _, a := range m.list {
		*a = Adapter{port: a.port, at: subnet.NoRef(), kind: noKind, vports: a.vports}
		for _, v := range a.vports {
			if v != nil {
				*v = Port{index: v.index, state: ib.StateDown}
			}
		}
	}
}

// All are the adapters, ascending by port GUID, those included whose port is not there. The list
// is not to be changed.
func (m *Manager) All() []*Adapter { return m.list }

// AnyShared reports whether some adapter, present or not, holds addresses in its GUID table alone.
func (m *Manager) AnyShared() bool { return m.shared > 0 }

// is gives an adapter its kind.
func (m *Manager) is(a *Adapter, k *kind) {
	if a.kind.shared {
		m.shared--
	}
	if a.kind = k; k.shared {
		m.shared++
	}
}

// Adapter is the adapter with a port GUID, nil if there is none.
func (m *Manager) Adapter(port ib.GUID) *Adapter { return m.byPort[port] }

// Find is the VPort that is known by a port GUID; if several show it, the one that has it.
func (m *Manager) Find(g ib.GUID) (Ref, bool) {
	r, ok := m.byGUID[g]
	return r, ok
}

// AllMet reports whether all adapters of the subnet were met, or cannot be.
func (m *Manager) AllMet() bool { return !slices.ContainsFunc(m.list, (*Adapter).ToBeMet) }

// PortGUID is the port GUID of the physical port.
func (a *Adapter) PortGUID() ib.GUID { return a.port }

// Present reports whether its port is in the subnet.
func (a *Adapter) Present() bool { return a.at.Node >= 0 }

// Shared reports whether its functions are entries of its port's GUID table alone.
func (a *Adapter) Shared() bool { return a.kind.shared }

// Assigned reports whether the manager assigns LID and GUID of each function, which keeps both while it
// is down (vSwitch).
func (a *Adapter) Assigned() bool { return a.kind.assigned }

// Hosted reports whether the host assigns the GUID of each VPort, and may give it to another VM at any
// moment.
func (a *Adapter) Hosted() bool { return a.kind.hosted }

// Model is its model, as snapshots show it.
func (a *Adapter) Model() subnet.Model { return a.kind.model }

// Functions is how many functions it can hold, of index 1 on.
func (a *Adapter) Functions() int { return a.functions }

// Known reports whether the states of its VPorts are known.
func (a *Adapter) Known() bool { return a.step == adapterKnown }

// Refused reports whether its VPorts cannot be used.
func (a *Adapter) Refused() bool { return a.step == adapterRefused }

// Failing reports whether its last request was not answered.
func (a *Adapter) Failing() bool { return a.tries > 0 }

// WasOn reports whether virtualization was on when this manager met it, so that VPorts that are
// down may hold what an earlier manager gave them.
func (a *Adapter) WasOn() bool { return a.wasOn }

// ToBeMet reports whether it may have VPorts that were not asked for yet.
func (a *Adapter) ToBeMet() bool { return a.at.Node >= 0 && a.first && a.step != adapterRefused }

// Ref names one of its VPorts; index 0 is the adapter as a whole.
func (a *Adapter) Ref(index uint16) Ref { return Ref{a, index} }

// VPorts has an entry for each index that was ever of interest, by index, else nil. The list is not
// to be changed.
func (a *Adapter) VPorts() []*Port { return a.vports }

// VPort is the VPort with an index, nil if it was never of interest.
func (a *Adapter) VPort(index uint16) *Port {
	if int(index) >= len(a.vports) {
		return nil
	}
	return a.vports[index]
}

// ensure is VPort that makes one.
func (a *Adapter) ensure(index uint16) *Port {
	for len(a.vports) <= int(index) {
		a.vports = append(a.vports, nil)
	}
	v := a.vports[index]
	if v == nil {
		v = &Port{index: index, state: ib.StateDown}
		a.vports[index] = v
	}
	return v
}

// Index is its index at its adapter, from 1.
func (v *Port) Index() uint16 { return v.index }

// State is its state as last read or set: Down to Active.
func (v *Port) State() ib.PortState { return v.state }

// Info is what it last showed. It is not to be changed, and says nothing certain while InfoKnown
// is false.
func (v *Port) Info() *smp.VPortInfo { return &v.info }

// InfoKnown reports whether its VPortInfo was read since it came up, and nothing came between.
func (v *Port) InfoKnown() bool { return v.known&knowInfo != 0 }

// Seen reports whether its VPortInfo was read since its adapter came.
func (v *Port) Seen() bool { return v.seen }

// Asked reports whether requests about it are under way.
func (v *Port) Asked() bool { return v.asked > 0 }

// Failing reports whether its last request was not answered.
func (v *Port) Failing() bool { return v.tries > 0 }

// Refuses reports whether it does not take what it is to hold.
func (v *Port) Refuses() bool { return v.refused != nil }

// PKeyCap is how many entries its P_Key table has.
func (v *Port) PKeyCap() int { return int(v.node.PartitionCap) }

// GUIDs is its GUID table by index, with 0 at 0 and no empty entries at its end. The list is not to
// be changed.
func (v *Port) GUIDs() []ib.GUID { return v.guids }

// Aliases are the entries of its GUID table from index 1 on.
func (v *Port) Aliases() []ib.GUID { return v.guids[min(1, len(v.guids)):] }

// TakesPart reports whether it counts as a VPort that has P_Keys. One that is down has none:
// whatever its table holds, it is put right before it is Active again. One that was met and is
// read again goes on with what was known of it.
func (v *Port) TakesPart() bool {
	const both = knowInfo | knowNode
	return v.state >= ib.StateInit && v.known&both == both ||
		v.state >= ib.StateArmed && v.info.PortGUID != 0 && v.node.PartitionCap != 0
}

// MeetKeys reports whether it came up since MeetKeys was called last, so that nothing is known of
// its P_Key table any more.
func (v *Port) MeetKeys() bool {
	first := v.known&knowPKeys == 0
	v.known |= knowPKeys
	return first
}

// Confirming reports whether something of it is read again before it is made Active.
func (v *Port) Confirming() bool { return v.confirm != confirmNothing }

// ConfirmKeys says that its P_Key table is read again before it is made Active. Who reads it calls
// KeysConfirmed.
func (v *Port) ConfirmKeys() { v.confirm = confirmKeys }

// KnownBehind reports whether all VPorts behind a port are known that may send.
func (m *Manager) KnownBehind(p *topo.Port) bool {
	a := m.byPort[p.GUID]
	switch {
	case a == nil:
		return !p.Info.IsVirtualizationSupported()
	case a.kind.shared || a.step == adapterRefused:
		return true
	case a.step != adapterKnown:
		return false
	}
	unknown := func(v *Port) bool { return v != nil && v.state >= ib.StateArmed && !v.TakesPart() }
	return !slices.ContainsFunc(a.vports, unknown)
}

// Unsure are the GUIDs of VPorts that may still be behind a port of the list, which ascends, or behind
// an adapter that has not been asked for all of its VPorts. The others that went with their port are
// forgotten.
func (m *Manager) Unsure(ports []ib.GUID) (list []ib.GUID) {
	for _, a := range m.list {
		if len(a.held) == 0 {
			continue
		}
		if _, ok := slices.BinarySearch(ports, a.port); ok || a.ToBeMet() {
			list = append(list, a.held...)
		} else {
			a.held = nil
		}
	}
	return list
}

// Next is when something waits to be looked at, or to be published.
func (m *Manager) Next() mad.Time { return m.retry }
