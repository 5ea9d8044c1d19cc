// Package vmdriver is the driver of a set of hypervisors: it starts, stops and
// migrates their virtual machines (guests) as the interfaces of a manager say. It is
// a client of the manager's HTTP API (docs/vm.md, "Live migration").
//
// Core is a state machine without clock, goroutine or socket: Step takes an event and
// returns what to do. Package vmdriver/live runs it in real time. What a hypervisor
// is able to do is behind orders: sim/hypervisor/guests carries them out for simulated
// hosts; a driver of real ones would for QEMU.
//
// The core remembers nothing that matters. What to do follows from two states at any
// time: the manager's view of the interface, and what the hypervisors have of the
// guest. So it goes on after its own restart and after the manager's, wherever it was.
//
// A migration has one moment of decision, and the manager makes it: the answer to
// finish, which is stored. Before it the guest can go on at the source; after it the
// guest runs at the destination. Both have its memory then, and it runs at neither.
//
//	manager             driver                 source            destination
//	migrate ──────────► Precopy ─────────────► pre-copy, rounds ──────────►
//	                                           Copied
//	                    Halt ────────────────► stops, the rest ───────────► function up
//	finish  ◄────────── Finish                 Stopped
//	stored, moved ────► Resume at destination ───────────────────────────► runs
//	refused       ────► RollBack, Resume at source ► runs
package vmdriver

import (
	"time"

	"heddle/ib"
	"heddle/mad"
)

// Place is a virtual function.
type Place struct {
	Port     ib.GUID // of the hypervisor's physical port
	Function uint16  // from 1; 0: not known yet
}

// State is the state of an interface.
type State uint8

// The states, as docs/vm.md has them.
const (
	Created State = iota
	Attached
	Migrating
	Detached
)

// Doing is the operation of an interface that the manager has stored and not finished.
type Doing uint8

// The operations.
const (
	Nothing Doing = iota
	Attaching
	Finishing
	RollingBack
	Detaching
)

// Interface is the manager's view of an interface.
type Interface struct {
	Name   string
	State  State
	Doing  Doing
	At     Place // Attached, Migrating
	To     Place // Migrating
	GUID   ib.GUID
	OwnLID bool
	Reason string // why it waits, was refused or was rolled back
}

// Phase is what a guest does.
type Phase uint8

// The phases.
const (
	Running  Phase = iota // at At
	Copying               // it runs at At, and its memory is being copied to To
	Copied                // it runs at At, and little is left: the time to stop it
	Stopping              // it is stopped at At, and the rest is on its way to To
	Stopped               // it is stopped, To has all of it, and its function at To is up
	Broken                // it is stopped at At, and the copy failed: To is zero
)

var phaseNames = [...]string{"running", "copying", "copied", "stopping", "stopped", "broken"}

func (p Phase) String() string {
	if int(p) < len(phaseNames) {
		return phaseNames[p]
	}
	return "phase?"
}

// Guest is what the hypervisors have of a virtual machine. It has the name of its
// interface.
type Guest struct {
	Name   string
	At, To Place
	Phase  Phase
	// Failed is why the last order could not be carried out; empty after one that was.
	Failed string
	Copy   Copy
}

// Copy describes the last migration of a guest.
type Copy struct {
	Memory int64   // bytes that it has
	Rounds []Round // those that have ended, the first MaxRounds; the last of a complete copy is after the stop
	// Outage is how long the guest was stopped. Felt is the longest time between two
	// answers that a peer had from it, if somebody measured it. They are set when it runs.
	Outage, Felt time.Duration
}

// Round is a round of a copy.
type Round struct {
	Bytes int64
	Time  time.Duration
}

// MaxRounds bounds Copy.Rounds.
const MaxRounds = 64

// Kind of an order.
type Kind uint8

// The orders. A hypervisor answers each with a Status, also if it has been carried out
// before or cannot be.
const (
	Start   Kind = iota // a new guest runs at At, with GUID and OwnLID on adapters that take them from the host
	End                 // the guest is no more
	Precopy             // its memory is copied to To while it runs
	Halt                // it stops, and To gets the rest, or all of it. Refused while it runs if To cannot be reached
	Resume              // it runs: at To, and the source forgets it, or at At, and To forgets it
)

var kindNames = [...]string{"start", "end", "copy", "halt", "resume"}

func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "order?"
}

// Order is for the hypervisors.
type Order struct {
	Kind   Kind
	Name   string
	Place  Place // Start, Copy, Halt, Resume
	GUID   ib.GUID
	OwnLID bool
}

// Verb is a request to the manager.
type Verb uint8

// The requests.
const (
	List     Verb = iota + 1 // all interfaces
	Get                      // one
	Finish                   // POST …/finish
	RollBack                 // POST …/rollback
	Move                     // POST …/move to Place: the guest runs there, and its interface is elsewhere
	Report                   // PUT …/migration: Progress
)

var verbNames = [...]string{"?", "list", "get", "finish", "rollback", "move", "report"}

func (v Verb) String() string {
	if int(v) < len(verbNames) {
		return verbNames[v]
	}
	return "?"
}

// Call is a request to the manager. There is one at a time for a name, beside a Report,
// and one List.
type Call struct {
	Verb     Verb
	Name     string
	Place    Place
	Progress Progress
	// Ends: a Report is the first one of this migration's end. Others of it follow if a report was
	// not answered, or when it is known what a peer felt.
	Ends bool
}

// Stage is how far a migration is, as the manager shows it.
type Stage string

// The stages.
const (
	StageQueued    Stage = "queued"    // it waits until other migrations of the hypervisor end
	StageCopying   Stage = "copying"   // the guest runs, and its memory is being copied
	StageStopping  Stage = "stopping"  // it is stopped, and the rest is on its way
	StageFinishing Stage = "finishing" // it is stopped, and its address moves
	StageResumed   Stage = "resumed"   // it runs at the destination
	StageFailed    Stage = "failed"    // it stays at the source; Reason says why
)

// Over reports whether nothing more comes.
func (s Stage) Over() bool { return s == StageResumed || s == StageFailed }

// Progress is what the driver reports of a migration.
type Progress struct {
	Stage    Stage
	From, To Place
	Copy     Copy
	Reason   string
}

// Result is how a call ended.
type Result uint8

// The results.
const (
	Done    Result = iota // View is the interface
	Absent                // there is no such interface
	Refused               // nothing was done, and Reason says why
	Unknown               // no answer, or none that says what was done
)

// Event is something that happens to a Core.
type Event interface{ event() }

// Inventory is all that the hypervisors have. It is the first event, and comes again
// when a hypervisor joins or leaves.
type Inventory struct {
	Ports  []ib.GUID // of the hypervisors
	Guests []Guest
}

// Status is the state of a guest that changed; Gone: it is no more, or was not started
// for the reason of Guest.Failed.
type Status struct {
	Guest Guest
	Gone  bool
}

// Changed is a notice of the manager about an interface. Deleted: that it was deleted.
type Changed struct {
	Name    string
	Deleted bool
}

// Connected says that the manager's notices can be read from now on, and that some may
// have been missed.
type Connected struct{}

// Answer is the end of a call. Of a List it has the interfaces.
type Answer struct {
	Call   Call
	Result Result
	View   Interface
	List   []Interface
	Reason string
}

// Timer says that the deadline of the last Output has come. Spurious ones are harmless.
type Timer struct{}

func (Inventory) event() {}
func (Status) event()    {}
func (Changed) event()   {}
func (Connected) event() {}
func (Answer) event()    {}
func (Timer) event()     {}

// Output is what a Step wants done.
type Output struct {
	Orders []Order
	Calls  []Call
	Timer  mad.Time // Never: none
}

// Config is the configuration of a Core. Start from Defaults.
type Config struct {
	// Outbound is how many guests leave a hypervisor at a time; the others wait.
	Outbound int
	// FinishTime is how long a guest stays stopped for the sake of its migration, while
	// the manager answers that it is not finished; then it is rolled back.
	FinishTime time.Duration
	// Retry is the time between two attempts at what is refused or not answered.
	Retry time.Duration
}

// Defaults returns the default configuration: two guests at a time (as KubeVirt), 30 s, 500 ms.
func Defaults() Config {
	return Config{Outbound: 2, FinishTime: 30 * time.Second, Retry: 500 * time.Millisecond}
}
