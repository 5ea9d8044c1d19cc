package sm

import (
	"time"

	"heddle/ib"
	"heddle/route"
)

// Transition says how a change of tables is applied.
type Transition uint8

const (
	// TransitionAvailability connects broken pairs immediately. Where no proof
	// covers that it says which channels may wait for each other in a circle for a
	// moment. Pairs that work stay connected.
	TransitionAvailability Transition = iota
	// TransitionStrict writes nothing that is not proved at every step: pairs
	// stay broken until the packets have left that new entries do not mix with.
	TransitionStrict
	// TransitionDiscard discards what would close a cycle even where writing
	// in place is clean.
	TransitionDiscard
	// TransitionStatic discards every destination that changes, drains, and writes.
	TransitionStatic
	// TransitionStatic2003 takes all ports down, writes and brings them up
	// again: the method of the 2003 report, for reproducing its experiment.
	// On real hardware every link bounces. Never the default.
	TransitionStatic2003
)

// VirtualMode says what a manager does with ports that have virtual ports.
type VirtualMode uint8

// The modes; NVIDIA's manager counts them 2, 1, 0 (virt_enabled).
const (
	VirtualOn     VirtualMode = iota // turned on, brought up, and managed
	VirtualOff                       // turned off at every port that has it on
	VirtualIgnore                    // as if there were none
)

// Config is what a manager is told at start. The zero value of a field takes
// the default that its comment names; Default fills them in.
type Config struct {
	PortGUID ib.GUID // port GUID of the port we work through (required)
	Priority uint8   // 0–15, higher wins the mastership
	SMKey    uint64  // key shared by all managers of the subnet; 1 is the usual one, 0 trusts any
	// PlanOnly makes the core discover and compute without writing to the
	// fabric or claiming IsSM; the result is Output.Plan.
	PlanOnly bool

	Prefix        ib.SubnetPrefix // default fe80::/64
	LMC           uint8           // 0–7, of CA and router ports
	LMCPort0      uint8           // 0–7, of enhanced switch ports 0
	MKey          ib.MKey         // M_Key given to every port; 0 = none
	MKeyLease     uint16          // seconds, 0 = never expires
	MKeyProtect   uint8           // M_KeyProtectBits 0–3
	MaxMTU        ib.MTU          // upper limit of NeighborMTU; default 5 (4096)
	MaxOpVLs      uint8           // upper limit of OperationalVLs as a code 1–5; default 4 (VL0-7)
	LinkWidth     ib.LinkWidth    // widths to enable; 0 = leave as it is
	LinkSpeed     uint8           // LinkSpeedEnabled mask; 0 = leave as it is
	LinkSpeedExt  uint8           // LinkSpeedExtEnabled; 0 = leave as it is
	SubnetTimeOut uint8           // 4.096 µs × 2^n; default 18
	PacketLife    uint8           // switch LifeTimeValue, 4.096 µs × 2^n; default 18
	HOQLife       uint8           // head-of-queue life towards switches, 4.096 µs × 2^n; default 18
	LeafHOQLife   uint8           // towards CAs; default 16
	VLStallCount  uint8           // 0–7; default 7
	LocalPhyErr   uint8           // threshold for trap 129, 0–15; default 8
	OverrunErr    uint8           // threshold for trap 130, 0–15; default 8
	MasterSMSL    ib.SL
	NoReregister  bool // do not ask clients to renew their SA registrations
	// QoS programs SL2VL (identity modulo the lanes of the link) and VL
	// arbitration (all lanes alike) on every link. Without it they are
	// programmed only when the installed tables need more than one lane.
	QoS bool

	// ReadLanes: the lane tables of all nodes are read once the subnet is up if
	// it has no more switches than this; 0 = only those that ReadTables asks for.
	ReadLanes int
	// PartEnforce says where switches enforce partitions; default EnforceBoth.
	PartEnforce Enforce

	// Virtualization says what to do with ports that have virtual ports; default
	// VirtualOn.
	Virtualization VirtualMode
	// VSwitchPrepopulate gives every virtual function of a vSwitch adapter a LID
	// when the adapter is found, used or not, which the engine routes (§V-A of the
	// vSwitch paper). Without it a function has one only while a lease is placed
	// there (§V-B).
	VSwitchPrepopulate bool
	// MaxVirtualPorts is how many ports' virtual ports are brought up at a time;
	// default 64.
	MaxVirtualPorts int

	// Engines is the chain: the first whose tables verify is taken.
	Engines []route.Engine
	// Explicit: the operator named the engine. Tables that do not verify are
	// then refused, or installed if AllowUnsafe, and no other engine is tried.
	Explicit    bool
	AllowUnsafe bool
	Roots       []ib.GUID // roots for up*/down*; none = found
	RouteSeed   uint64
	Route       route.Options // further options of the engines; Seed, MaxVLs and Roots of this Config count
	MaxVLs      int
	Transition  Transition

	Window     int           // SMPs in flight at the start; default 4 (8 on ports known to take it)
	MaxWindow  int           // most SMPs in flight; default 32, the transport's limit if lower
	SMPTimeout time.Duration // of one try; default 200 ms
	SMPRetries int           // tries after the first; default 3, < 0 = none
	// TransportTimed: the port keeps the time of a try itself (umad) and
	// reports failures; the core's own timers are then only a safety net.
	TransportTimed bool

	// FirstTID shifts transaction IDs, so that answers meant for an earlier
	// life of the process are not taken for ours; the shell draws it.
	FirstTID uint32

	SweepInterval time.Duration // between light sweeps; default 10 s, < 0 = off
	RetryInterval time.Duration // until what was left out is tried again; default 10 s, doubling to 16 ×
	TrapSettle    time.Duration // a sweep asked for by a trap waits this long for more; default 5 ms
	TrapMinGap    time.Duration // least time between two sweeps asked for by traps; default 100 ms when they keep coming
	PollInterval  time.Duration // of the master by a standby; default 10 s
	PollRetries   int           // unanswered polls before the master is taken for dead; default 4
	// RepathTime is how long hosts take, at most, to use the new service level
	// of a path after the SA tells it; default 30 s, < 0 = they may never do.
	RepathTime time.Duration
	DrainTime  time.Duration // between discard and write; default computed from lifetimes
	// FullInterval is the time between full sweeps that nothing asks for; 0 =
	// none. Traps and light sweeps lead to sweeps of a region.
	FullInterval time.Duration
	// ImproveDelay: when the tables of an engine later in the chain were kept
	// over a change, the engines before it are tried again after so much quiet;
	// default 10 s, < 0 = only by full sweeps.
	ImproveDelay time.Duration

	// Damping of links that keep failing (see package sm/damp). DampFree failures in a
	// row are free (default 3), each further one keeps the link out for twice
	// as long as the one before, beginning with DampDelay (default 1 s); from
	// DampHold failures on (default 8, < 0 = no damping) it is held down until
	// it was quiet for DampQuiet (default 60 s), doubled for each hold that
	// follows, 16 × at most.
	DampFree, DampHold   int
	DampDelay, DampQuiet time.Duration
}

// Default returns c with every zero field that has a default filled in.
func (c Config) Default() Config {
	def(&c.Prefix, ib.DefaultSubnetPrefix)
	def(&c.MaxMTU, 5)
	def(&c.MaxOpVLs, 4)
	def(&c.SubnetTimeOut, 18)
	def(&c.PacketLife, 18)
	def(&c.HOQLife, 18)
	def(&c.LeafHOQLife, 16)
	def(&c.VLStallCount, 7)
	def(&c.LocalPhyErr, 8)
	def(&c.OverrunErr, 8)
	def(&c.Window, 4)
	def(&c.MaxWindow, 32)
	def(&c.SMPTimeout, 200*time.Millisecond)
	def(&c.SMPRetries, 3)
	def(&c.SweepInterval, 10*time.Second)
	def(&c.RetryInterval, 10*time.Second)
	def(&c.TrapSettle, 5*time.Millisecond)
	def(&c.TrapMinGap, 100*time.Millisecond)
	def(&c.PollInterval, 10*time.Second)
	def(&c.PollRetries, 4)
	def(&c.ImproveDelay, 10*time.Second)
	def(&c.RepathTime, 30*time.Second)
	def(&c.MaxVirtualPorts, 64)
	def(&c.DampFree, 3)
	def(&c.DampHold, 8)
	def(&c.DampDelay, time.Second)
	def(&c.DampQuiet, time.Minute)
	return c
}

func def[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}
