package sm

import (
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/partition"
	"heddle/sm/config"
	"heddle/sm/job"
	"heddle/sm/notice"
	"heddle/sm/takeover"
	"heddle/store"
	"heddle/subnet"
)

// Event is something that happens to a Core: one of the types below.
type Event interface{ event() }

// Start is the first event.
type Start struct {
	Stored *store.State // what the store held; nil = nothing
	// Warm is what a master published last, whose place this manager is to take now; nil = read the
	// subnet first.
	Warm *subnet.Snapshot
	// Float is how the LIDs of that master's port come to ours (takeover.Prepare of Warm); nil = not
	// known. It is used where Config.FloatLID has them float.
	Float *takeover.Float
}

// Received is a packet from QP0 of our port, or a Failed one of ours. P need
// only live for the call.
type Received struct{ P *mad.Packet }

// Timer says that the deadline of the last Output has come. Early or spurious
// ones are harmless.
type Timer struct{}

// Persisted answers Output.Persist: everything up to PersistGen Gen is
// durable, or Err says why not; nothing that depends on it is then sent.
type Persisted struct {
	Gen uint64
	Err error
}

// JobDone is the result of an Output.Jobs entry.
type JobDone struct{ Result *job.Result }

// Sweep asks for a full sweep. With Audit the tables of all switches are read
// back too; with Rebalance tables are computed without regard to those that
// are installed.
type Sweep struct{ Audit, Rebalance bool }

// Reroute asks for tables to be computed from scratch by the whole chain,
// without reading the fabric again; with Rebalance without regard to those that
// are installed.
type Reroute struct{ Rebalance bool }

// SetGroups replaces the multicast groups of the subnet.
type SetGroups struct{ Groups []Group }

// Group is a multicast group as a manager routes it.
type Group = subnet.Group

// SetPartitions replaces the partitions of the subnet, in one transaction: the
// policy is stored first, then the ports that it concerns are changed, what is
// taken away before what is given. A policy that does not validate changes
// nothing. Tag comes back in the notice that tells the end.
type SetPartitions struct {
	Policy *partition.Policy
	// Was is the policy that it is to replace; nil: any. If another one is in force by then, the
	// notice has ErrOtherPolicy, and nothing changes.
	Was *partition.Policy
	Tag uint64
}

// SetAliases replaces the alias GUIDs of the subnet. The manager programs what
// differs from what the ports have acknowledged, and again after a port came
// back; the snapshot shows what is acknowledged.
type SetAliases struct{ Aliases []subnet.Alias }

// SetPlacements changes the addresses of virtual machines' interfaces and where they
// are to be: Put replaces the placements of those GUIDs, Drop ends others; with All
// every placement that is not in Put ends. The caller stores the placements; the
// manager stores only the LIDs that it assigned. Output.Placements reports the outcome
// of each, also of one that is put again unchanged, because the caller waits for a
// report. All placements of one event move together, in common LFT blocks.
type SetPlacements struct {
	Put  []subnet.Placement
	Drop []ib.GUID
	All  bool
}

// SetMembers replaces the memberships that are added to the partitions of the
// policy: of a P_Key that the policy has the members, of others the whole
// partition (partition.Policy.With). They are durable with who sets them, and
// set before Start those of the store are never in force without them.
type SetMembers struct {
	Partitions []partition.Partition
	Tag        uint64
}

// DropKept revokes entries that were kept because the store does not know them: those at the given
// ports, by the port GUID of the physical port, or all of them.
type DropKept struct {
	Ports []ib.GUID // nil = all
}

// ReadTables has the SL-to-VL and VL arbitration tables of nodes read that are
// not known yet, in the background: a snapshot is published when those of a node
// are in. Tables that the manager reads or writes of its own accord are known in
// any case.
type ReadTables struct {
	Nodes []ib.GUID // node GUIDs; nil = all nodes
}

// HostsNotified says how many subscribers have not acknowledged the notice that a service level
// of a path changed with snapshot Gen or an earlier one.
type HostsNotified struct {
	Gen  uint64
	Left int
}

// SetSlowPaths replaces the paths that hosts are to use on a slow lane (docs/hotspots.md). The output
// has those that they may: while tables are computed or written no new ones.
type SetSlowPaths struct {
	Paths *subnet.SlowPaths // nil: none
	// Snap is the snapshot that they are for, Until when they end, unless the event comes again.
	Snap  *subnet.Snapshot
	Until mad.Time
}

// SetWarm gives a manager on standby what the master published last; nil = it is not known any more.
// When the master dies or hands over the SA answers from it until the subnet is read.
type SetWarm struct{ Snapshot *subnet.Snapshot }

// SetAllies replaces the managers that have the same stored state: one of them that is master is polled
// often.
type SetAllies struct{ List []Ally }

// SetUnsure tells a manager that is master whether its store may have what the manager does not know,
// because the store could not be asked when the mastership began. While that is so, nothing is revoked
// that the manager does not know. Lacks: the store certainly has such a thing; then the subnet is left as
// it is, and the SA answers from what the last master published. With Unsure false the manager knows all
// that the store has, and changes are stored again: those that waited are stored now.
type SetUnsure struct{ Unsure, Lacks bool }

// Configure changes the settings of a running manager, as far as Config.Adopt takes them. Reroute has
// tables computed anew, because those of routing changed.
type Configure struct {
	Config  config.Config
	Reroute bool
}

// SetPortActions replaces the links that are to be without routes, and says which ports are to be
// disabled and enabled. The caller stores them; those of the store are in force from the start.
type SetPortActions struct{ List []subnet.PortAction }

// PortLost says that our port is gone (device removed, transport closed).
type PortLost struct{}

// Stop ends the manager: IsSM is released and everything is left Active.
type Stop struct{}

func (Start) event()          {}
func (Received) event()       {}
func (Timer) event()          {}
func (Persisted) event()      {}
func (JobDone) event()        {}
func (Sweep) event()          {}
func (Reroute) event()        {}
func (SetGroups) event()      {}
func (SetPartitions) event()  {}
func (SetAliases) event()     {}
func (SetPlacements) event()  {}
func (SetMembers) event()     {}
func (SetUnsure) event()      {}
func (DropKept) event()       {}
func (ReadTables) event()     {}
func (HostsNotified) event()  {}
func (SetSlowPaths) event()   {}
func (SetWarm) event()        {}
func (SetAllies) event()      {}
func (Configure) event()      {}
func (SetPortActions) event() {}
func (PortLost) event()       {}
func (Stop) event()           {}

// IsSMChange is what to do with CapabilityMask.IsSM of the port.
type IsSMChange int8

// The changes.
const (
	IsSMKeep    IsSMChange = 0
	IsSMClaim   IsSMChange = 1
	IsSMRelease IsSMChange = -1
)

// Trap is a trap of an agent.
type Trap struct {
	Notice smp.Notice
	From   mad.Addr
}

// Output is what a Step wants done, in the order of the package comment. It
// owns its buffers: the packets in Sends live until Reset.
type Output struct {
	Persist    []store.Op
	PersistGen uint64 // to be returned in Persisted
	IsSM       IsSMChange
	Sends      []mad.Packet
	Jobs       []*job.Job
	Publish    *subnet.Snapshot
	Notices    []notice.Notice
	Plan       *job.Plan
	// Traps are the traps that were taken, for subscribers: all but those of a
	// source that keeps sending them.
	Traps      []Trap
	Placements []subnet.PlacementReport // in the order of the changes
	Slow       *SetSlowPaths            // those that hosts may use, for the SA; nil: as before
	Timer      mad.Time
	Stopped    bool // Stop is complete; the core wants no further events

	bufs []*ib.MAD
}

// Reset empties o for the next Step, keeping its buffers.
func (o *Output) Reset() {
	clear(o.Notices)
	clear(o.Jobs)
	clear(o.Persist)
	*o = Output{
		Persist: o.Persist[:0], Sends: o.Sends[:0], Jobs: o.Jobs[:0], Notices: o.Notices[:0],
		Traps: o.Traps[:0], Placements: o.Placements[:0], Timer: mad.Never, bufs: o.bufs,
	}
}

// OnlySends reports whether nothing is to be done but to send, and to set the timer.
func (o *Output) OnlySends() bool {
	return len(o.Persist) == 0 && o.PersistGen == 0 && o.IsSM == IsSMKeep && len(o.Jobs) == 0 && o.Publish == nil && len(o.Notices) == 0 &&
		o.Plan == nil && len(o.Traps) == 0 && len(o.Placements) == 0 && o.Slow == nil && !o.Stopped
}

// Send implements env.Output. The data is copied into a buffer of o.
func (o *Output) Send(p *mad.Packet) {
	i := len(o.Sends)
	if i == len(o.bufs) {
		o.bufs = append(o.bufs, new(ib.MAD))
	}
	q := *p
	q.Data = o.bufs[i][:copy(o.bufs[i][:], p.Data)]
	o.Sends = append(o.Sends, q)
}

// Notify implements env.Output.
func (o *Output) Notify(n notice.Notice) { o.Notices = append(o.Notices, n) }

// Store implements env.Output.
func (o *Output) Store(ops []store.Op, gen uint64) {
	o.Persist, o.PersistGen = append(o.Persist[:0], ops...), gen
}
