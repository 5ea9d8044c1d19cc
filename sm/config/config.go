// Package config says what a subnet manager is told at start, and its defaults.
package config

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
	"heddle/route/transition"
	"heddle/sm/history"
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
	// again, after the method of the 2003 report (lab/manager2003 is its own).
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

// Enforce says where switches drop packets whose P_Key the end port behind a
// port does not have (IBA §10.9.7).
type Enforce uint8

// The choices. A switch enforces only what it says it can; while every port is
// a full member of the only partition there is nothing to enforce, and switches
// are not told to.
const (
	EnforceBoth Enforce = iota // what comes from the end port and what goes to it
	EnforceIn                  // what comes from it
	EnforceOut                 // what goes to it
	EnforceOff
)

// Sides says whether what comes from an end port is checked, and what goes to it.
func (e Enforce) Sides() (in, out bool) {
	return e == EnforceBoth || e == EnforceIn, e == EnforceBoth || e == EnforceOut
}

// Config is what a manager is told at start. It begins with Defaults; New panics
// on one that no manager can work with.
type Config struct {
	PortGUID ib.GUID // port GUID of the port we work through (required)
	Priority uint8   // 0–15, higher wins the mastership
	SMKey    uint64  // key shared by all managers of the subnet; 1 is the usual one, 0 trusts any
	// PlanOnly makes the core discover and compute without writing to the
	// fabric or claiming IsSM; the result is Output.Plan.
	PlanOnly bool
	// Inactive: the manager stays out of the election and leaves the subnet alone, answers as
	// NotActive, and waits: for a Set(SMInfo) of the master which makes it standby (IBA §14.4.1), or for
	// a configuration without this.
	Inactive bool
	// Granted: the program has made sure that this manager is to be master, in another way than by
	// SMInfo. It answers as master from the start, leads after its first discovery without waiting
	// for any manager to fall silent, and from then on obeys the rules for masters (IBA §14.4.1).
	Granted bool
	// Partner is the port GUID of the manager with which this one shares its state; 0: there is
	// none. The two settle who is master in another way, so it never counts in an election. A
	// manager with a partner writes its store as a master only.
	Partner ib.GUID
	// FloatLID: the port of whichever of the two partners is master has the LIDs that the master's port
	// had before, so that no host has to be told, and the other one has its own. Requires Partner.
	FloatLID bool
	// MayLack: the partner may have given what the store does not know, so that is kept.
	MayLack bool

	// Names are the operator's names of nodes, by node GUID, in place of their descriptions. Only
	// the SA's records have the descriptions.
	Names map[ib.GUID]string

	Prefix           ib.SubnetPrefix // of every GID; fe80::/64 by default
	LMC              uint8           // 0–7, of CA and router ports
	LMCPort0         uint8           // 0–7, of enhanced switch ports 0
	MKey             ib.MKey         // M_Key given to every port; 0 = none
	MKeyLease        uint16          // seconds, 0 = never expires
	MKeyProtect      uint8           // M_KeyProtectBits 0–3
	MaxMTU           ib.MTU          // upper limit of NeighborMTU
	MaxOpVLs         uint8           // upper limit of OperationalVLs as a code 1–5
	LinkWidth        ib.LinkWidth    // widths to enable; 0 = leave as it is
	LinkSpeed        ib.SpeedBits    // LinkSpeedEnabled mask; 0 = leave as it is
	LinkSpeedExt     ib.SpeedExtBits // LinkSpeedExtEnabled; 0 = leave as it is
	SubnetTimeOut    uint8           // 4.096 µs × 2^n, 0–31
	PacketLife       uint8           // switch LifeTimeValue, 4.096 µs × 2^n; above 19 without limit
	HOQLife          uint8           // head-of-queue life towards switches, 4.096 µs × 2^n; above 19 without limit
	LeafHOQLife      uint8           // the same towards CAs and routers
	VLStallCount     uint8           // 0–7: so many drops in a row stall a lane; see IBA §18.2.5.4
	LeafVLStallCount uint8           // the same towards CAs and routers
	LocalPhyErr      uint8           // threshold for trap 129, 0–15
	OverrunErr       uint8           // threshold for trap 130, 0–15
	MasterSMSL       ib.SL           // of datagrams between hosts and the manager, unless SMSLAuto
	// SMSLAuto has the manager choose: a level on a lane that no path uses, if the engine uses
	// levels and there is one, else 0. It keeps the choice while it is master.
	SMSLAuto     bool
	NoReregister bool // do not ask clients to renew their SA registrations
	// QoS programs SL2VL (identity modulo the lanes of the link) and VL
	// arbitration (all lanes alike) on every link. Without it they are
	// programmed only when the installed tables need more than one lane.
	QoS bool
	// Lanes are the lane tables of the classes of ports, with QoS.
	Lanes [NumPortClasses]Lanes
	// AvoidThrottled leaves links between switches without routes that are narrower or slower than both
	// of their ends can be. Those that have to be used have a high cost, for engines that have costs.
	AvoidThrottled bool
	// SlowLane keeps the highest lane that all links between switches have free of paths, where
	// they have two or more, and sets up lane tables from the start, so that flows to hot spots can
	// be moved there.
	SlowLane bool

	// ReadLanes: the lane tables of all nodes are read once the subnet is up if
	// it has no more switches than this; 0 = only those that ReadTables asks for.
	ReadLanes int
	// PartEnforce says where switches enforce partitions.
	PartEnforce Enforce
	// StrictPartitions: a manager that takes over revokes P_Keys and addresses that its store does
	// not know, even where another manager may have assigned them.
	StrictPartitions bool

	// Virtualization says what to do with ports that have virtual ports.
	Virtualization VirtualMode
	// VSwitchPrepopulate gives every virtual function of a vSwitch adapter a LID
	// when the adapter is found, used or not, which the engine routes (§V-A of the
	// vSwitch paper). Without it a function has one only while a placement is placed
	// there (§V-B).
	VSwitchPrepopulate bool
	// MaxVirtualPorts is how many ports' virtual ports are brought up at a time.
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

	Window     int           // SMPs in flight at the start
	MaxWindow  int           // most SMPs in flight, at most what the transport takes
	SMPTimeout time.Duration // of the first try; later ones wait longer
	SMPRetries int           // tries after the first; 0 = none
	// TransportTimed: the port keeps the time of a try itself (umad) and
	// reports failures; the core's own timers are then only a safety net.
	TransportTimed bool

	// FirstTID shifts transaction IDs, so that answers meant for an earlier
	// life of the process are not taken for ours; the shell draws it.
	FirstTID uint32

	SweepInterval time.Duration // between light sweeps; 0 = none
	RetryInterval time.Duration // until what was left out is tried again, doubling to 16 ×
	TrapSettle    time.Duration // a sweep asked for by a trap waits this long for more
	TrapMinGap    time.Duration // least time between two sweeps asked for by traps, when they keep coming
	PollInterval  time.Duration // of the master by a standby
	PollRetries   int           // unanswered polls before the master is taken for dead
	// RepathTime is how long hosts take, at most, to use the new service level
	// of a path after the SA tells it; 0 = there is no limit, so that a change of
	// tables which needs one is refused.
	RepathTime time.Duration
	// DrainTime is between discard and write; 0 = computed from the lifetimes.
	DrainTime time.Duration
	// FullInterval is the time between full sweeps that nothing asks for; 0 =
	// none. Traps and light sweeps lead to sweeps of a region.
	FullInterval time.Duration
	// ImproveDelay: when the tables of an engine later in the chain were kept
	// over a change, the engines before it are tried again after so much quiet;
	// 0 = only by full sweeps.
	ImproveDelay time.Duration

	// Damping of links that keep failing (see package sm/damp). DampFree failures in a
	// row are free, each further one keeps the link out for twice
	// as long as the one before, beginning with DampDelay; from
	// DampHold failures on (0 = no damping) it is held down until
	// it was quiet for DampQuiet, doubled for each hold that
	// follows, 16 × at most.
	DampFree, DampHold   int
	DampDelay, DampQuiet time.Duration
}

// Defaults returns the configuration of a manager that was told nothing. It is
// the one owner of these values: settings shows them, and a Config begins here.
// A zero means zero everywhere.
func Defaults() Config {
	return Config{
		SMKey:            1, // OpenSM's too
		Prefix:           ib.DefaultSubnetPrefix,
		MaxMTU:           ib.MTU4096,
		MaxOpVLs:         4, // VL0-7
		SubnetTimeOut:    18,
		PacketLife:       18,
		HOQLife:          18,
		LeafHOQLife:      16,
		VLStallCount:     7,
		LeafVLStallCount: 7,
		LocalPhyErr:      8,
		OverrunErr:       8,

		MaxVirtualPorts: 64,

		Window:     4,
		MaxWindow:  32,
		SMPTimeout: 200 * time.Millisecond,
		SMPRetries: 3,

		SweepInterval: 10 * time.Second,
		RetryInterval: 10 * time.Second,
		TrapSettle:    5 * time.Millisecond,
		TrapMinGap:    100 * time.Millisecond,
		PollInterval:  10 * time.Second,
		PollRetries:   4,
		RepathTime:    30 * time.Second,
		SMSLAuto:      true,
		ImproveDelay:  10 * time.Second,

		DampFree:  3,
		DampHold:  8,
		DampDelay: time.Second,
		DampQuiet: time.Minute,
	}
}

// RouteOptions are those of the engines.
func (c *Config) RouteOptions() route.Options {
	o := c.Route
	o.Seed, o.MaxVLs = c.RouteSeed, c.MaxVLs
	if len(c.Roots) > 0 {
		o.Roots = c.Roots
	}
	return o
}

// LeavesOut reports whether links that are slower than they could be may be left without routes: the
// engines dor, torus and file want all links of a subnet.
func (c *Config) LeavesOut() bool {
	return c.AvoidThrottled && (len(c.Engines) == 0 || !slices.Contains([]string{"dor", "torus", "file"}, c.Engines[0].Name()))
}

// PathLanes is how many lanes the paths of a graph may use; 0: all. g may be nil.
func (c *Config) PathLanes(g *fabric.Graph) int {
	most := c.MaxVLs
	if c.SlowLane && g != nil && len(g.Channels) > 0 {
		if lanes := route.Budget(g, 0); lanes > 1 && (most == 0 || most >= lanes) {
			most = lanes - 1
		}
	}
	return most
}

// throttledWeight is the cost of a hop over a link that is slower than it could be: above that of any
// way around it that is worth the name, and there is still a path where it is the only one.
const throttledWeight = 100

// OptionsFor are those of the engines for a graph. throttled reports whether the link at a port of a
// switch of the graph is slower than both of its ends can be.
func (c *Config) OptionsFor(g *fabric.Graph, throttled func(s int32, port uint8) bool) route.Options {
	o := c.RouteOptions()
	o.MaxVLs = c.PathLanes(g)
	if !c.AvoidThrottled || g == nil {
		return o
	}
	var list []route.HopWeight
	for i := range g.Channels {
		x := &g.Channels[i]
		if throttled(x.From, x.OutPort) {
			list = append(list, route.HopWeight{Switch: g.Switches[x.From].GUID, Port: x.OutPort, Weight: throttledWeight})
		}
	}
	o.HopWeights = append(list, o.HopWeights...) // what is given counts more
	return o
}

// check refuses what no manager can work with. Who forgot to begin with
// Defaults hears of it at once.
func (c *Config) Check() error {
	switch {
	case c.Window < 1 || c.MaxWindow < 1:
		return errors.New("sm: Config.Window and MaxWindow must be positive (a Config begins with sm.Defaults())")
	case c.SMPTimeout <= 0 || c.RetryInterval <= 0 || c.PollInterval <= 0:
		return errors.New("sm: Config.SMPTimeout, RetryInterval and PollInterval must be positive (a Config begins with sm.Defaults())")
	case c.SMPRetries < 0 || c.PollRetries < 0 || c.DampFree < 0 || c.DampHold < 0:
		return errors.New("sm: a negative number of retries or failures in Config; none is 0")
	case c.MaxMTU < 1 || c.MaxOpVLs < 1 || c.MaxVirtualPorts < 1:
		return errors.New("sm: Config.MaxMTU, MaxOpVLs and MaxVirtualPorts must be positive (a Config begins with sm.Defaults())")
	}
	return nil
}

// flight is how long a packet can be under way in any subnet; 0 if lifetimes
// have no limit.
func (c *Config) Flight() time.Duration {
	stay, queue := transition.Lifetime(c.PacketLife), transition.Lifetime(max(c.HOQLife, c.LeafHOQLife))
	if stay < 0 || queue < 0 {
		return 0
	}
	return history.LongestPath * (stay + queue)
}

var transitionNames = [...]string{
	TransitionAvailability: "availability", TransitionStrict: "strict", TransitionDiscard: "discard",
	TransitionStatic: "static", TransitionStatic2003: "static2003",
}

// String is the name that the flag --transition and metrics use.
func (t Transition) String() string {
	if int(t) < len(transitionNames) {
		return transitionNames[t]
	}
	return "transition" + strconv.Itoa(int(t))
}

// Adopt takes from n what a running manager can change: see Change. The rest of c stays: it is agreed
// with others (keys, prefix, LIDs), of the port, or the lanes of tables that are in force rest on it.
func (c *Config) Adopt(n *Config) (ch Change) {
	was := *c
	c.Priority, c.Names = n.Priority, n.Names
	if ch.Activate = c.Inactive && !n.Inactive; ch.Activate {
		c.Inactive = false
	}
	c.MaxMTU, c.LinkWidth, c.LinkSpeed, c.LinkSpeedExt = n.MaxMTU, n.LinkWidth, n.LinkSpeed, n.LinkSpeedExt
	c.SubnetTimeOut, c.PacketLife, c.HOQLife, c.LeafHOQLife = n.SubnetTimeOut, n.PacketLife, n.HOQLife, n.LeafHOQLife
	c.VLStallCount, c.LeafVLStallCount, c.LocalPhyErr, c.OverrunErr = n.VLStallCount, n.LeafVLStallCount, n.LocalPhyErr, n.OverrunErr
	c.Lanes = n.Lanes
	c.NoReregister, c.QoS, c.ReadLanes, c.PartEnforce, c.MaxVirtualPorts = n.NoReregister, n.QoS, n.ReadLanes, n.PartEnforce, n.MaxVirtualPorts
	c.Engines, c.Explicit, c.AllowUnsafe, c.Roots = n.Engines, n.Explicit, n.AllowUnsafe, n.Roots
	c.RouteSeed, c.Route, c.MaxVLs, c.Transition, c.AvoidThrottled = n.RouteSeed, n.Route, n.MaxVLs, n.Transition, n.AvoidThrottled
	c.SMPTimeout, c.SMPRetries = n.SMPTimeout, n.SMPRetries
	c.SweepInterval, c.RetryInterval, c.TrapSettle, c.TrapMinGap = n.SweepInterval, n.RetryInterval, n.TrapSettle, n.TrapMinGap
	c.PollInterval, c.PollRetries, c.RepathTime, c.DrainTime = n.PollInterval, n.PollRetries, n.RepathTime, n.DrainTime
	c.FullInterval, c.ImproveDelay = n.FullInterval, n.ImproveDelay
	c.DampFree, c.DampHold, c.DampDelay, c.DampQuiet = n.DampFree, n.DampHold, n.DampDelay, n.DampQuiet

	// Engines have memory in their tables and are not compared: the caller says so.
	ch.Sweep = !maps.Equal(was.Names, c.Names) || c.Priority != was.Priority ||
		c.LinkWidth != was.LinkWidth || c.LinkSpeed != was.LinkSpeed || c.LinkSpeedExt != was.LinkSpeedExt ||
		c.SubnetTimeOut != was.SubnetTimeOut || c.PacketLife != was.PacketLife || c.HOQLife != was.HOQLife || c.LeafHOQLife != was.LeafHOQLife ||
		c.VLStallCount != was.VLStallCount || c.LeafVLStallCount != was.LeafVLStallCount || c.LocalPhyErr != was.LocalPhyErr || c.OverrunErr != was.OverrunErr ||
		c.QoS != was.QoS || c.PartEnforce != was.PartEnforce
	ch.Sweep = ch.Sweep || c.AvoidThrottled != was.AvoidThrottled
	ch.Lanes = c.QoS && !was.QoS
	for i := range c.Lanes {
		if c.QoS && !c.Lanes[i].Equal(&was.Lanes[i]) {
			ch.Sweep, ch.Lanes = true, true
		}
	}
	ch.Sweeps = c.SweepInterval != was.SweepInterval || c.FullInterval != was.FullInterval
	ch.Polls = c.PollInterval != was.PollInterval || c.Priority != was.Priority
	return ch
}

// Change is what follows from other settings.
type Change struct {
	Activate bool // a manager that was inactive takes part from now on
	Sweep    bool // a full sweep writes what differs
	Lanes    bool // lane tables are to be set up that were not
	Sweeps   bool // the times of the next sweeps are others
	Polls    bool // the master is to be polled now
}
