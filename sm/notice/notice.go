// Package notice has what a subnet manager tells: facts, reports of sweeps, and repairs.
package notice

import (
	"strconv"
	"strings"
	"time"

	"heddle/internal/plural"
	"heddle/sm/topo"
	"heddle/subnet"
)

// Level is how much a notice matters.
type Level uint8

// The levels, ascending.
const (
	Debug Level = iota
	Info
	Warn
	Error
)

// Kind is what a notice is about. One kind per fact, so that logs and event
// streams can be filtered and counted.
type Kind uint8

// The kinds.
const (
	KindState             Kind = 1 + iota // our SM state changed: Text says from, to and why
	KindSubnetUp                          // the subnet is up: Up has the counts
	KindSweepStart                        // a full sweep begins: Text says why
	KindSweepEnd                          // a full sweep ended: Report
	KindNodeNew                           // a node appeared
	KindNodeGone                          // a node disappeared
	KindLinkUp                            // a link came up
	KindLinkDown                          // a link went down
	KindNodeSilent                        // a node or the far end of a link does not answer
	KindNodeGarbage                       // a node answers nonsense
	KindDuplicateGUID                     // two nodes claim one GUID
	KindLinkMismatch                      // the two ends of a link disagree
	KindTooFar                            // more than 63 hops away
	KindMKeyRefused                       // a port does not accept our M_Key
	KindLIDConflict                       // a port wanted a LID that another one has; it was moved
	KindNoLID                             // no LID left for a port
	KindTableTooSmall                     // a switch's LFT cannot hold the LIDs of the subnet
	KindSetFailed                         // a Set was refused or not answered
	KindEnginePassed                      // an engine's tables do not verify: Text says why
	KindRouteRefused                      // no tables that may be installed
	KindRouted                            // tables chosen; Text names engine and transition
	KindUnsafe                            // tables that do not verify are installed because the operator allows it
	KindTrap                              // a trap that has no kind of its own
	KindTrapStorm                         // one trap keeps coming and is now ignored
	KindTrapFalse                         // a trap in the name of another node, or from nobody's LID
	KindPortUnhealthy                     // trap 129–131 keep coming from a port
	KindSecurity                          // trap 256–259: a bad key
	KindOtherSM                           // another manager was seen, lost or ignored
	KindHandover                          // mastership handed over or received
	KindPersistFailed                     // the store could not be written
	KindPortDown                          // our own port has no link
	KindForeignChange                     // somebody else changed a table entry
	KindStaleMAD                          // an answer to nothing we asked
	KindLinkHeld                          // a link flaps and is held down
	KindLinkReleased                      // a link that was held down may come back
	KindRepath                            // hosts must resolve their paths again
	KindGroupRefused                      // a multicast group has no tree: Text says why
	KindPartitions                        // other partitions are in force; Tag
	KindPartitionsApplied                 // … and every port of the subnet holds what they say; Tag
	KindPartitionsWaiting                 // … but some ports could not be brought up to date yet; Tag
	KindPartitionsRefused                 // … or not: they stay as they were; Tag, Err
	KindPKeyQuarantined                   // a P_Key is not given before the last of its old owners has lost it
	KindPKeyRefused                       // a port cannot have all its P_Keys
	KindEnforceOff                        // a switch cannot enforce partitions at a port
	KindMoved                             // LIDs were moved, or could not be: Text says what it took, or why
	KindAliasRefused                      // a port does not get an alias GUID: Text says why
	KindVPortUp                           // a virtual port was made Active
	KindVPortDown                         // a virtual port that was Active is not any more
	KindVPortRefused                      // a virtual port, or all of a port, cannot be managed: Text says why
	KindVPortDuplicate                    // a virtual port has the GUID of another port, and is not brought up
	KindRepair                            // a fault broke pairs, which were repaired, or not: Repair
	KindNodeAnswers                       // a node that did not answer does again: Dur says after how long
	KindTransientCycle                    // a transition is not proved at every step: Text says through which channels, why, and how long
	KindLevelsUnanswered                  // hosts did not acknowledge new service levels in time
	KindKept                              // entries stay that the store does not know, because another manager may have given them
	KindManagerLevel                      // the service level of datagrams between hosts and the manager was chosen: Text says why
	KindSMLID                             // the LID of the manager does not float although it is to
	KindTakeover                          // a manager answers from what its predecessor published, or does not: Text says why
	KindPortAction                        // a port was disabled or enabled, as somebody asked for
	KindDrainKept                         // a link that is to be drained keeps its routes
	KindGaveWay                           // a change of routes that waits gave way to something else: Text says to what, Dur for how long
	KindInternal                          // the manager found a mistake in itself: Text says what
)

var kindNames = [...]string{
	KindState: "state", KindSubnetUp: "subnet_up", KindSweepStart: "sweep_start", KindSweepEnd: "sweep_end",
	KindNodeNew: "node_new", KindNodeGone: "node_gone", KindLinkUp: "link_up", KindLinkDown: "link_down",
	KindNodeSilent: "node_silent", KindNodeGarbage: "node_garbage", KindDuplicateGUID: "duplicate_guid",
	KindLinkMismatch: "link_mismatch", KindTooFar: "too_far", KindMKeyRefused: "mkey_refused",
	KindLIDConflict: "lid_conflict", KindNoLID: "no_lid", KindTableTooSmall: "table_too_small",
	KindSetFailed: "set_failed", KindEnginePassed: "engine_passed", KindRouteRefused: "route_refused",
	KindRouted: "routed", KindUnsafe: "unsafe", KindTrap: "trap", KindTrapStorm: "trap_storm", KindTrapFalse: "trap_false",
	KindPortUnhealthy: "port_unhealthy", KindSecurity: "security", KindOtherSM: "other_sm",
	KindHandover: "handover", KindPersistFailed: "persist_failed", KindPortDown: "port_down",
	KindForeignChange: "foreign_change", KindStaleMAD: "stale_mad",
	KindLinkHeld: "link_held", KindLinkReleased: "link_released", KindGroupRefused: "group_refused", KindRepath: "repath",
	KindPartitions: "partitions", KindPartitionsApplied: "partitions_applied", KindPartitionsWaiting: "partitions_waiting",
	KindPartitionsRefused: "partitions_refused", KindPKeyQuarantined: "pkey_quarantined", KindPKeyRefused: "pkey_refused",
	KindEnforceOff:   "enforce_off",
	KindAliasRefused: "alias_refused", KindMoved: "moved",
	KindVPortUp: "vport_up", KindVPortDown: "vport_down",
	KindVPortRefused: "vport_refused", KindVPortDuplicate: "vport_duplicate",
	KindPortAction: "port_action", KindDrainKept: "drain_kept", KindGaveWay: "gave_way",
	KindRepair: "repair", KindTransientCycle: "transient_cycle", KindNodeAnswers: "node_answers",
	KindLevelsUnanswered: "levels_unanswered", KindKept: "kept", KindManagerLevel: "manager_level", KindSMLID: "sm_lid", KindTakeover: "takeover", KindInternal: "internal",
}

// String is the name that logs and the API use.
func (k Kind) String() string {
	if int(k) < len(kindNames) && kindNames[k] != "" {
		return kindNames[k]
	}
	return "kind" + strconv.Itoa(int(k))
}

// Where names a port for people.
type Where = topo.Where

// Notice is a typed fact for logs, events and people.
type Notice struct {
	Kind  Kind
	Level Level
	Where Where // the port or node it is about, if any
	Peer  Where // the second one, if two are involved
	Text  string
	Err   error
	TID   uint64
	Dur   time.Duration
	Tag   uint64 // of the event that asked for what it tells

	Up     *subnet.Counts // KindSubnetUp
	Report *SweepReport   // KindSweepEnd, KindSubnetUp
	Repair *Repair        // KindRepair
}

// String prints the notice in one line.
func (n *Notice) String() string {
	var b strings.Builder
	b.WriteString(n.Kind.String())
	if n.Where.Known {
		b.WriteString(": ")
		b.WriteString(n.Where.String())
	}
	if n.Peer.Known {
		b.WriteString(" / ")
		b.WriteString(n.Peer.String())
	}
	if n.Text != "" {
		b.WriteString(": ")
		b.WriteString(n.Text)
	}
	if n.Err != nil {
		b.WriteString(": ")
		b.WriteString(n.Err.Error())
	}
	return b.String()
}

// SweepReport tells how a full sweep went.
type SweepReport struct {
	Reason      string
	Took        time.Duration
	Phases      [NumPhases]time.Duration // by Phase
	SMPs        uint64                   // requests sent, retries not counted
	Retried     uint64
	TimedOut    uint64
	LIDsSet     int // ports that were given a LID they did not show
	PortSets    int // Set(PortInfo) without a change of state
	Armed       int // Set(PortInfo) to Armed
	Activated   int // Set(PortInfo) to Active
	Downed      int // links taken down (static2003)
	BlocksRead  int
	BlocksSent  int // Set(LinearForwardingTable)
	GroupBlocks int // Set(MulticastForwardingTable)
	TopsSent    int // Set(SwitchInfo) that changed LinearFDBTop or MulticastFDBTop
	Engine      string
	PassedOver  []string
	Transition  string  // mode and reason
	Risk        *Risk   // not nil: the transition was not proved at every step
	Repair      *Repair // not nil: pairs were broken
	Problems    int
	Updated     bool // unchanged entries of the tables before were kept
	Region      bool // only what changed was read, not everything
	Read        int  // switches that a sweep of a region read whole
	Again       bool // another sweep follows, because something changed meanwhile
	Broken      bool // it was broken off because of a fault; the next goes on from what is installed
}

// Summary tells the sweep in one line.
func (r *SweepReport) Summary() string {
	what := ""
	if r.Region {
		what = "region of " + plural.Of(r.Read, "switch") + ", "
	}
	return r.Reason + ": " + what + plural.Of(r.SMPs, "SMP") + ", " + plural.Of(r.BlocksSent, "LFT block") + " sent, " +
		plural.Of(r.Armed, "port") + " armed, " + plural.Of(r.Problems, "problem")
}

// Phase is what a Core is doing.
type Phase uint8

// The phases of a full sweep in their order; PhaseIdle between sweeps.
const (
	PhaseIdle       Phase = iota
	PhaseDiscover         // reading the fabric
	PhaseAssign           // LIDs and port parameters
	PhaseReadback         // reading installed tables
	PhaseRoute            // computing, proving and planning
	PhaseDiscard          // discarding destinations
	PhaseDrain            // waiting until packets in flight have left
	PhaseDistribute       // writing blocks
	PhaseTop              // LinearFDBTop
	PhaseLanes            // SL2VL and VL arbitration
	PhaseArm              // links to Armed
	PhaseActivate         // links to Active
	PhaseLight            // light sweep
	PhaseMove             // LIDs of virtual machines go elsewhere, between sweeps
	PhaseUpkeep           // P_Keys, alias GUIDs, virtual ports and tables that somebody asked for, between sweeps
	PhaseTakeover         // what a predecessor published is checked, and hosts are told, before the first sweep
	NumPhases
)

var phaseNames = [NumPhases]string{
	"idle", "discover", "assign", "readback", "route", "discard", "drain",
	"distribute", "top", "lanes", "arm", "activate", "light", "move", "upkeep", "takeover",
}

// String is the name that status and metrics use.
func (p Phase) String() string {
	if p < NumPhases {
		return phaseNames[p]
	}
	return "phase?"
}
