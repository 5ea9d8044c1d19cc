// Package replica replicates one state on two managers: a change that one of them acknowledges is
// durable on both, or the other one cannot act without it.
//
// A Core belongs to one manager of the pair. It decides which manager appends to the journal, when
// an entry is committed, and when the other manager may take over. It is pure: its shell writes the
// disk, carries messages and signs of life, probes the fabric and drives the subnet manager. In
// this package an entry *counts* when it is committed. A manager is *alone* when entries count
// without the other one.
//
// # Rules
//
// One manager is active. It owns the term of the journal, which only it appends to. The other
// one is standby and copies.
//
//  1. While the active manager is paired, an entry counts when it is durable on both disks.
//  2. The active manager goes alone, so that entries count when they are durable on its own disk,
//     in three cases only. The standby reported that it left the pairing. Its process has ended
//     (Ended), and this port was active when the last sign came. Or no sign came for Config.Alone,
//     and this port was active for as long. In the last two cases a later probe of the fabric must
//     show this port active, a switch that answers, and this manager as the SM of its own port. The
//     manager stores that it is alone before an entry counts.
//  3. The standby's pairing is a lease. Signs are numbered, and the active manager returns the
//     highest number that it received. The standby is paired until Config.Lease after it sent that
//     sign. Lease is shorter than Alone, so the lease has ended before rule 2 can act.
//  4. A paired standby takes over when no sign came for Config.Take on any channel, or its stream
//     broke and the peer's SMInfo was not answered or its process has ended, if its port is active
//     and a switch answers. It takes the next term, and stores that first.
//  5. A manager that took over first makes itself the SM of the old one's port, before its lease
//     ends, unless no path leads to that port: then as soon as one does. If it cannot, it is
//     standby again, and its entries of that term are no newer than any. After a handover the old
//     one has stopped, and this may take longer. An active manager whose port names the other one
//     is standby from then on. So of two managers on one fabric at most one goes alone. When the
//     old one's port names the new one, and the old one's process has ended or had Config.Fence to
//     check its port, the new one need not wait for Config.Alone. An active manager that is paired,
//     whose port named a third manager since the last sign of its peer, does not go alone, but is
//     standby.
//  6. A standby that is not paired takes over after Config.Stale without a sign, and reports that
//     it may lack entries. If it stops before it appends more, it reports this again next time.
//     Such a manager, and one of rule 8 that was alone, does not take over while its port names
//     another manager that answers as master: the peer, whose signs do not come, or a third one. So
//     two managers without contact do not take over by turns.
//  7. A manager that learns of a newer term is standby from then on. Entries of an older term are
//     refused. But a manager in whose term no entry counts yet becomes standby if it lacks entries
//     that counted at the other one alone: the fabric had split, or it lost its port.
//  8. After a start a manager is standby. If it was alone before, it has all acknowledged entries,
//     and may take over after Config.Look without a sign. Of two standby managers the one with the
//     newer entries takes over. Unless it was alone, no entry counts before the other one knows its
//     term and has stored that it is not alone, if it was.
//
// Entries count in one order, and a manager that appends sees the earlier ones. A query whose
// answer must not be stale is answered by a manager that is alone, or that is paired and saw no
// third manager, if a probe within the last 1.5 Config.Every showed it as the SM of its port.
// TestLinear checks this against histories. Any active manager answers other queries.
//
// Spans are of a monotonic clock. Those of two managers may differ in speed by 10 %.
package replica

import (
	"errors"
	"time"

	"heddle/ib"
	"heddle/mad"
	"heddle/store"
	"heddle/store/journal"
)

// Config are the settings of a Core.
type Config struct {
	Me, Peer ib.GUID       // port GUIDs of the two managers
	Every    time.Duration // between two signs
	Take     time.Duration // silence after which a paired standby takes over
	Alone    time.Duration // silence after which a paired active manager goes alone
	Lease    time.Duration // how long a paired standby is paired after a sign that was echoed
	// Fence is how long the peer's port names this manager until this one may go alone. It is longer
	// than a manager answers without a look at its port (replica/live: Alone/4).
	Fence   time.Duration
	Left    time.Duration // how long a standby without a stream stays paired while it hears signs
	Stall   time.Duration // how long a write of a standby may take until it leaves the pairing; of an active one twice that until it hands over
	Look    time.Duration // silence after a start until a manager that was alone takes over
	Stale   time.Duration // silence until a standby that is not paired takes over
	Waiting int           // bytes of changes that wait for the peer at most; more are ErrBusy
}

// Defaults returns the usual spans.
func Defaults(me, peer ib.GUID) Config {
	return Config{
		Me: me, Peer: peer,
		Every: 100 * time.Millisecond, Take: 400 * time.Millisecond,
		Alone: 2 * time.Second, Lease: 1800 * time.Millisecond,
		Fence: 600 * time.Millisecond, Left: 200 * time.Millisecond, Stall: 500 * time.Millisecond,
		Look: time.Second, Stale: 10 * time.Second,
		Waiting: 32 << 20,
	}
}

// Role is what a manager does in the pair.
type Role uint8

const (
	// Standby copies the journal.
	Standby Role = iota
	// Active appends to it.
	Active
)

// Channel is a transport of signs of life.
type Channel uint8

const (
	// Stream is the TCP connection.
	Stream Channel = iota
	// Fabric is in band: SMInfo and datagrams of the vendor class.
	Fabric
)

// Sign is a sign of life. It is sent on both channels.
type Sign struct {
	Boot uint64 // the sender's start; higher ones are later
	Seq  uint64 // higher ones are later, since Boot
	// Echo is the highest Seq that the sender heard, of the start EchoBoot.
	EchoBoot, Echo uint64

	Term   journal.Term // newest that the sender knows; its own if it is active
	Last   journal.Mark // the last durable entry of a term that began
	Active bool
	Alone  bool   // it is active, and entries count without the peer
	Was    bool   // it is not active, and its disk may say that it was alone when it stopped
	Pair   uint64 // active: the pairing that it offers; standby: the last one that it accepted
	Paired bool   // it is standby, and the pairing holds on its side
	Yield  bool   // it gave up being active for the pairing Pair
	Left   uint64 // the highest number of a stream of its own that it has left
	PortOK bool   // its port is active
	// Wall is the time in which an active manager stores ends of leases (Clock), in nanoseconds since
	// 1970; 0: it is standby. The shell sets it.
	Wall int64
	// Rank is 1 more than the priority in SMInfo, which counts against third managers only; 0:
	// unknown. The shell sets it, and no rule of this package uses it.
	Rank uint8
}

// Message goes over a stream. A standby sends Hello and Ack on its own stream, and the active
// manager sends the others on it.
type Message interface{ message() }

// Messages.
type (
	// Hello is the first message of a standby on a stream.
	Hello struct {
		Boot, Conn uint64 // Conn: the number of the stream, from 1; higher ones are later, since Boot
		Last       journal.Mark
		Term       journal.Term
	}
	// Refused answers a message of an older term.
	Refused struct{ Term journal.Term }
	// Entries are those after the last that the standby has.
	Entries struct {
		Term journal.Term
		List []journal.Entry
	}
	// Snapshot replaces the state of the standby. Nothing follows it before its Ack.
	Snapshot struct {
		Term  journal.Term
		At    journal.Mark
		State *store.State
	}
	// Ack says that entries up to a number are durable.
	Ack struct {
		Term   journal.Term
		Number uint64
	}
	// Pair offers a pairing to a standby that has the entries up to Mark: no later one counts
	// without it.
	Pair struct {
		Term journal.Term
		ID   uint64
		Mark uint64
	}
	// Over makes the paired standby take over: the sender has stopped.
	Over struct {
		Term journal.Term
		ID   uint64
	}
)

func (Hello) message()    {}
func (Refused) message()  {}
func (Entries) message()  {}
func (Snapshot) message() {}
func (Ack) message()      {}
func (Pair) message()     {}
func (Over) message()     {}

// Command is work for the disk. The shell carries commands out one by one, in order, and
// answers each with Did.
type Command interface{ command() }

// Commands.
type (
	// Append calls journal.Store.Append.
	Append struct{ Entry journal.Entry }
	// SetNote calls journal.Store.SetNote.
	SetNote struct{ Note []byte }
	// ReadEntries calls journal.Store.Entries.
	ReadEntries struct {
		From uint64
		Size int
	}
	// ReadState reads the state and its mark together.
	ReadState struct{}
	// Replace calls journal.Store.Replace. If Counted, entries after Fork may have been
	// acknowledged, and the peer may lack them: it saves them next to the store first. Otherwise
	// they were never acknowledged.
	Replace struct {
		State   *store.State
		At      journal.Mark
		Fork    uint64
		Counted bool
	}
)

func (Append) command()      {}
func (SetNote) command()     {}
func (ReadEntries) command() {}
func (ReadState) command()   {}
func (Replace) command()     {}

// Event is an input of Core.Step.
type Event interface{ event() }

// Events.
type (
	// Start is the first event.
	Start struct {
		Last  journal.Mark
		Begin *journal.Begin // of the last entry
		Note  []byte
		// Boot is higher than those of earlier starts, if the shell's clock is right: seconds since
		// 1970. So the peer accepts the signs of a manager that lost its disk.
		Boot uint64
	}
	// Heard is a sign of the peer.
	Heard struct {
		Channel Channel
		Sign    Sign
	}
	// Unanswered is a request in band to the peer's port that got no answer.
	Unanswered struct{}
	// Ended reports that the peer's process of the start Boot, or of an earlier one, has ended:
	// after its last sign, the peer's port reported that it has no manager (IsSM is clear). A later
	// sign of that start, or of an earlier one, cancels it.
	Ended struct{ Boot uint64 }
	// Opened is a new stream. Mine: this manager made it, to copy the other one's journal.
	// There is at most one of mine and one of the peer's.
	Opened struct{ Mine bool }
	// Closed is its end.
	Closed struct{ Mine bool }
	// Received is a message of a stream.
	Received struct{ Message Message }
	// Change asks for an entry. Output.Done answers it, in order of arrival.
	Change struct {
		ID   uint64
		Wall int64 // this manager's clock, as in journal.Entry
		Ops  []store.Op
	}
	// Did answers the oldest Command without an answer.
	Did struct {
		Err     error
		Entries []journal.Entry // of ReadEntries
		State   *store.State    // of ReadState
		// Mark is that of ReadState; of an Append or Replace that failed the last entry that the
		// disk has now, or 0 if that cannot be read: it may have been carried out.
		Mark journal.Mark
	}
	// Probed answers Output.Probe.
	Probed struct {
		Begun mad.Time // no earlier than the Probe
		Port  bool     // this manager's port is active
		Fabr  bool     // a switch answered
		Mine  bool     // the port names this manager as its SM
		// Master is the other manager that the port names as its SM, if it answers as master and
		// this one does not outrank it, or is the peer; otherwise 0.
		Master ib.GUID
	}
	// Fenced reports that this manager is the SM of the peer's port, or that no path leads there.
	// The shell then writes itself there in less than Config.Alone after a path exists.
	Fenced struct{ Unreachable bool }
	// Challenged reports that the port named this manager as its SM, and names the peer now. The
	// shell checks before it writes the SM of its port, and at least ten times in Config.Alone.
	Challenged struct {
		// Third: it names a third manager, as each look says until it does not. What the peer
		// wrote there before may be lost.
		Third bool
	}
	// Port is a change of this manager's port. One that went down and came back is two.
	Port struct{ Active bool }
	// Handover asks an active manager to stop, and the paired standby to take over. If there is no
	// such standby (View.Heir) nothing happens.
	Handover struct{}
	// Takeover asks a standby that is not paired to take over. It does when Config.Alone has passed
	// since it started or was active: until then the peer may believe that it is paired.
	Takeover struct{}
	// Timer is the time that Output.Wake named.
	Timer struct{}
)

func (Start) event()      {}
func (Heard) event()      {}
func (Unanswered) event() {}
func (Ended) event()      {}
func (Opened) event()     {}
func (Closed) event()     {}
func (Received) event()   {}
func (Change) event()     {}
func (Did) event()        {}
func (Probed) event()     {}
func (Fenced) event()     {}
func (Challenged) event() {}
func (Port) event()       {}
func (Handover) event()   {}
func (Takeover) event()   {}
func (Timer) event()      {}

// Errors of changes.
var (
	// ErrStandby: this manager appends nothing.
	ErrStandby = errors.New("replica: this manager is standby")
	// ErrBusy: too many changes wait for the peer.
	ErrBusy = errors.New("replica: too many changes wait for the other manager")
	// ErrSuperseded: the other manager took over. The change may have been carried out.
	ErrSuperseded = errors.New("replica: the other manager took over")
)

// Done answers a Change: the entry counts, or Err has the reason that it does not.
type Done struct {
	ID  uint64
	Err error
}

// Why is the reason that a manager became active or standby.
type Why uint8

// Reasons.
const (
	WhySilence    Why = 1 + iota // the active manager was silent
	WhyHandover                  // it handed over
	WhyStale                     // it was silent, and this manager may lack entries
	WhyAsked                     // an operator asked, and this manager may lack entries
	WhyWasAlone                  // this manager was alone before it started
	WhyNewer                     // the other manager has all of this one's entries, or newer ones
	WhySuperseded                // the other manager has a newer term
	WhyDisk                      // the disk failed
	WhyPort                      // the port is down
	WhyLate                      // it could not become the SM of the other one's port in time
	WhyChallenged                // the other manager is the SM of this one's port
	WhyOtherAlone                // the other manager did not say that it follows, and may go on alone
)

// Grant says that this manager is active.
type Grant struct {
	Why   Why
	Stale bool // it may lack entries that were acknowledged
	First bool // no manager has written its state before: nobody was active
	// Until is the time until which this manager must become the SM of the peer's port. After that
	// the shell must write nothing to that port, because the peer may be alone.
	Until mad.Time
}

// NoticeKind is the kind of a Notice.
type NoticeKind uint8

// Kinds of notices.
const (
	NoticeActive  NoticeKind = 1 + iota // this manager is active; Why
	NoticeStandby                       // this manager gave up being active; Why
	NoticePaired                        // both have all entries
	NoticeAlone                         // entries count on this manager alone
	NoticeLeft                          // this standby left the pairing; Err, if its disk failed
	NoticeCopied                        // this standby replaced its state by a snapshot
	NoticeDisk                          // a write failed; Err
	NoticeHeld                          // Other is master, so this standby does not take over
	// NoticeVersions: the managers cannot be a pair, because they have no version of the stream or of
	// the journal in common; Err says which one is older. Of the shell.
	NoticeVersions
	// NoticePort: this manager's port does not answer; Err says what, and what follows. Of the shell.
	NoticePort
)

// Notice reports an event of the pair to people.
type Notice struct {
	Kind NoticeKind
	Why  Why
	Err  error
	Mark journal.Mark
	// Other is the other manager of NoticeHeld: the peer, whose signs do not come, or a third one.
	Other ib.GUID
}

// Output is what the shell is to do, in the order of the fields.
type Output struct {
	Disk   []Command
	Done   []Done
	Yield  bool   // stop driving the fabric now: this manager is standby
	Grant  *Grant // drive the fabric: make this manager the SM of the peer's port first
	Close  bool   // close the stream of this manager, and make another; Closed is not sent for it
	Hangup bool   // close the peer's stream; Closed is not sent for it
	// Sends go on the stream that Opened named last. If that one has ended they are lost, though
	// the peer may have made another one by now.
	Sends   []Message
	Sign    *Sign // send on both channels
	Probe   bool  // look at the fabric, and answer with Probed
	Notices []Notice
	Wake    mad.Time // when Timer is wanted
}

// Reset empties the output.
func (o *Output) Reset() { *o = Output{Wake: mad.Never} }
