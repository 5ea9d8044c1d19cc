// Package congestion is the congestion control manager (IBA annex A10, class 0x21): it reads what
// switches and channel adapters can do and which settings they hold, says what differs from the
// settings that are wanted, and writes these if it is to act.
//
// Core is a state machine like sm.Core and perf.Core: the shell gives it events, one at a time, and
// does what the output lists. Only in the modes Act and Withdraw does it ever send a Set. It works
// while the newest snapshot is that of a master whose subnet is up.
//
// What it found is a View, which is immutable.
package congestion

import (
	"time"

	"heddle/ib/cc"
	"heddle/mad"
	"heddle/subnet"
)

// Mode says what a core does.
type Mode uint8

// The modes.
const (
	// Off: it sends nothing. Nodes keep the settings that they have.
	Off Mode = iota
	// Observe: it reads settings and logs, and writes nothing.
	Observe
	// Act: it writes the wanted settings where nodes hold others.
	Act
	// Withdraw: it turns congestion control off at all nodes, and removes its key from them.
	Withdraw
)

// String is the name of the mode in settings.
func (m Mode) String() string {
	switch m {
	case Observe:
		return "observe"
	case Act:
		return "act"
	case Withdraw:
		return "withdraw"
	}
	return "off"
}

// ModeOf is the mode of a name.
func ModeOf(name string) (m Mode, ok bool) {
	for _, m := range []Mode{Off, Observe, Act, Withdraw} {
		if m.String() == name {
			return m, true
		}
	}
	return Off, false
}

// writes reports whether a core in this mode sends Sets.
func (m Mode) writes() bool { return m == Act || m == Withdraw }

// KeyPolicy is about the CC_Key, which nodes check like an M_Key.
type KeyPolicy struct {
	// Key is the one that requests carry.
	Key uint64
	// Write has nodes given Key, so that they refuse the settings of others. Protect has them
	// hide it, and Lease, in seconds, is after which time without a request with the right key
	// they show it again, once one with a wrong key has come; 0: never.
	Write   bool
	Protect bool
	Lease   uint16
}

// Config configures a core. Begin with Defaults.
type Config struct {
	Mode   Mode
	Policy Policy
	Key    KeyPolicy
	// Interval is the longest time between two readings of the settings of a node.
	Interval time.Duration
	// Logs is the time between two readings of the log of a switch; 0: logs are not read. The
	// logs of adapters are read when that of a switch names them.
	Logs time.Duration
	// Window is the highest number of requests in flight, Rate of those that are begun per
	// second.
	Window, Rate int
	// Timeout is how long a try of a request waits, and Retries how many tries follow the first.
	Timeout time.Duration
	Retries int
	// FirstTID and TransportTimed are those of mad.Config.
	FirstTID       uint32
	TransportTimed bool
}

// Defaults is the configuration of a manager unless told otherwise.
func Defaults() Config {
	return Config{
		Mode: Observe, Policy: DefaultPolicy(), Interval: 5 * time.Minute, Logs: 30 * time.Second,
		Window: 64, Rate: 5000, Timeout: 250 * time.Millisecond, Retries: 2,
	}
}

// Event is an input of a Core.
type Event interface{ isEvent() }

// Published is a new snapshot.
type Published struct{ Snap *subnet.Snapshot }

// Received are packets of the congestion control class. The core does not keep them.
type Received struct{ List []*mad.Packet }

// SetMode changes the mode. In Withdraw, what was written is taken back.
type SetMode struct{ Mode Mode }

// Timer is the time that Output.Timer named, or an earlier one.
type Timer struct{}

func (Published) isEvent() {}
func (Received) isEvent()  {}
func (SetMode) isEvent()   {}
func (Timer) isEvent()     {}

// Output is what a step of a Core wants done, in the order of the fields.
type Output struct {
	// Sends go to the port; their Data is valid until the next step.
	Sends []mad.Packet
	// Publish, if not nil, is the newest view.
	Publish *View
	Notices []Notice
	// Timer is when a Timer event is due; mad.Never: none.
	Timer mad.Time
}

// Reset empties the output and keeps its memory.
func (o *Output) Reset() {
	clear(o.Notices)
	*o = Output{Sends: o.Sends[:0], Notices: o.Notices[:0], Timer: mad.Never}
}

// Notice is something to be told: one event, one line of the log.
type Notice struct {
	// Kind is one of the Kind constants; Warn: it needs a human.
	Kind string
	Warn bool
	Text string
}

// The kinds of notices.
const (
	KindMode     = "congestion_mode"     // the mode was changed
	KindDone     = "congestion_settings" // all nodes hold what is wanted, or some do not any more
	KindForeign  = "congestion_foreign"  // a node lost its settings, or another tool wrote some
	KindUnkept   = "congestion_unkept"   // a node does not keep what is written
	KindKey      = "congestion_key"      // a node has another CC_Key
	KindSilent   = "congestion_silent"   // a node that had congestion control does not answer
	KindRedirect = "congestion_redirect" // a node redirects to another agent
	KindMarking  = "congestion_marking"  // a switch marks packets, or stopped
	KindCapacity = "congestion_capacity" // the table is longer than that of a node
)

// Status is the state of a core in numbers.
type Status struct {
	Agents   int // switches and ports of adapters that are asked
	Managed  int // of them, those with congestion control
	Without  int // of them, those that refuse the class
	Silent   int // of them, those that do not answer
	Locked   int // of them, those with another CC_Key, which they hide
	Pending  int // not read yet
	Differs  int // those that hold other settings than wanted
	Senders  int // how many senders to one host the defaults are computed for
	Requests uint64
	Sets     uint64 // of them
	Failed   uint64 // of them, those not answered, or refused
	Strange  uint64 // answers that fit no request, or make no sense
	Repairs  uint64 // times that a node was found with other settings than it had
	Restarts uint64 // times that the clock of a node began anew
	Marks    uint64 // events in the logs of switches
	Slowed   uint64 // events in the logs of adapters
	InFlight int
}

// Settings are those that a node holds, or is to hold. They are not changed once they are in a View.
type Settings struct {
	// Of a switch. Ports are by port, without those at the end that are 0.
	Switch cc.SwitchCongestionSetting
	Ports  []cc.PortSetting
	// Of an adapter, and of an enhanced port 0. Limit is the highest index of the table that is used;
	// of a node the table may have been read in part.
	CA    cc.CACongestionSetting
	Limit uint16
	Table []cc.Delay
}

// Diff is a set of attributes in which a node differs.
type Diff uint8

// The attributes.
const (
	DiffKey Diff = 1 << iota
	DiffSwitch
	DiffPorts
	DiffCA
	DiffTable
)

// Names are those of the attributes in the set.
func (d Diff) Names() (names []string) {
	for i, n := range []string{
		"CongestionKeyInfo", "SwitchCongestionSetting", "SwitchPortCongestionSetting", "CACongestionSetting", "CongestionControlTable",
	} {
		if d>>i&1 != 0 {
			names = append(names, n)
		}
	}
	return names
}
