// Package live runs one manager of a pair (package replica) in real time: its disk, its streams
// over TLS, its signs in band, its looks at the fabric.
//
// A Pair owns the port. Other packages use the port only through Pair.ManagerPort, for as long as
// the pair's manager is active: when that ends, the port that they have is cut, and no packet
// leaves through it any more. They write the state only through Pair.Store.
//
//	p, err := live.New(live.Config{…, OnActive: start, OnStandby: halt})
//	go p.Run(ctx)
//	// start: daemon.New(daemon.Config{Port: p.ManagerPort(), Store: p.Store(), …})
//
// All methods of Pair may be called concurrently. docs/ha.md describes the pair to operators,
// docs/format/pair.md what goes over the wire.
package live

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"time"

	"heddle/ib"
	"heddle/mad"
	"heddle/replica"
	"heddle/store"
	"heddle/store/journal"
)

// Config are the settings of a Pair. Store, Port, Listen, Peer, TLS, Secret and both GUIDs of
// Rules are required.
type Config struct {
	// Rules begin with replica.Defaults. Me is the GUID of Port.
	Rules replica.Config
	// Store keeps the journal. The pair does not close it. From Run on nobody else writes it.
	Store journal.Store
	// Port is this manager's port. The pair does not close it; it must be closed after Run.
	Port mad.Transport
	// ClaimWait is how long Run waits for a port whose IsSM another process has; 0: not at all.
	ClaimWait time.Duration
	// Listen is the address on which the peer copies this manager's journal, Peer the one on
	// which this manager copies the peer's: HOST:PORT. Peer is resolved anew for each attempt.
	Listen, Peer string
	// TLS has this manager's certificate and the authorities of the peer's, for both directions
	// (RootCAs and ClientCAs; see LoadTLS). The pair demands TLS 1.3 and a certificate of the
	// peer. ServerName is the name in the peer's certificate; if empty, the host of Peer.
	TLS *tls.Config
	// Secret authenticates signs in band, because any host could send one: the same bytes at
	// both managers, at least 16.
	Secret []byte
	// Priority and SMKey are those of SMInfo while no manager runs on the port, and must be
	// those of the managers.
	Priority uint8
	SMKey    uint64
	// MKey returns the M_Key of a port, 0 if it has none; nil: those in Store.
	MKey func(ib.GUID) ib.MKey
	// ForkDir is where entries are saved that a copy of the peer's journal replaces; it must
	// exist. Usually the directory of the store.
	ForkDir string
	// Log gets what happens to the pair; nil: nothing is logged.
	Log *slog.Logger
	// OnActive is called when this manager becomes active: start the managers. OnStandby is
	// called when it is no longer active: halt them. By then ManagerPort is cut and Store
	// refuses writes. Both run on the pair's goroutine, in turns, and must return soon: they
	// hold up the pair's rules. Neither may wait for a call of Store or of another method of
	// the Pair that needs the pair's goroutine (Handover, Takeover), nor for a manager that
	// does.
	OnActive  func(replica.Grant)
	OnStandby func(replica.Why)
	// OnNotice gets what people should know of; nil: nobody. It runs on the pair's goroutine.
	OnNotice func(replica.Notice)
}

// Errors of Pair.
var (
	// ErrBusyPort: another process has the port's IsSM.
	ErrBusyPort = errors.New("replica: the port cannot be claimed (is another subnet manager running on it?)")
	// ErrCut: the port of a mastership that has ended.
	ErrCut = errors.New("replica: this manager is no longer active")
	// ErrStopped: Run has returned, or was not called.
	ErrStopped = errors.New("replica: the pair does not run")
	// ErrNotActive: a handover was asked of a manager that is standby.
	ErrNotActive = errors.New("replica: this manager is standby: hand over at the other one")
	// ErrNoSpare: a handover was asked for, and the standby lacks entries or does not answer.
	ErrNoSpare = errors.New("replica: the standby has not all entries, or cannot take over")
	// ErrActive: a takeover was asked of a manager that is active.
	ErrActive = errors.New("replica: this manager is active already")
	// ErrMayLack: a takeover without stale was asked of a standby that is not paired.
	ErrMayLack = errors.New("replica: this manager may lack entries that were acknowledged")
)

// State says how a manager stands to its peer.
type State uint8

// States.
const (
	Starting State = iota // Run has not begun, or the disk does not answer
	Paired                // both have every entry that counts
	Alone                 // active; entries count without the peer
	Waiting               // active; entries wait for the peer, or for the permission to go alone
	Copying               // standby; it copies the active manager's journal
	Stale                 // standby; it may lack entries
)

// String implements fmt.Stringer.
func (s State) String() string {
	return [...]string{"starting", "paired", "alone", "waiting", "copying", "stale"}[s]
}

// Status is what a Pair shows. It is a copy.
type Status struct {
	Role  replica.Role
	State State
	Why   replica.Why // why it has this role; 0 since the start
	Since time.Time   // when it got it
	Term  journal.Term
	Last  journal.Mark // last durable entry
	// Me and Peer are the port GUIDs.
	Me, Peer ib.GUID
	// Address is the peer's, as configured. Connected: this manager's stream, on which it copies
	// the peer's journal, is open; Serving: the peer's stream to this manager is.
	Address            string
	Connected, Serving bool
	// StreamError is why the last attempt at a stream failed; "" if it did not.
	StreamError string
	// PeerLID is where signs in band are sent; 0: not known yet.
	PeerLID ib.LID
	// Signs is how long ago the last sign came on each channel; negative: none since the start.
	Signs [2]time.Duration
	// PeerRole, PeerTerm and PeerLast are what the peer said last; zero without a sign.
	PeerRole replica.Role
	PeerTerm journal.Term
	PeerLast journal.Mark
	// LagEntries is how many entries the standby of the two lacks, as far as this manager knows;
	// LagTime for how long it has lacked any.
	LagEntries uint64
	LagTime    time.Duration
	// PortActive and SMOfPort are this manager's port as last seen: it is active, and the LID
	// that it names as its SM.
	PortActive bool
	SMOfPort   ib.LID
	// Counts since the start.
	Entries   uint64        // entries that count, of this manager's terms
	Commit    time.Duration // time that they took, from the call of Apply, summed up
	Takeovers uint64        // times that this manager became active
	Forks     int           // fork files in ForkDir
	LastError string        // of the disk; "" if there was none
}

// Fork is a file with entries that a copy of the peer's journal replaced.
type Fork struct {
	File    string       // path
	At      time.Time    // when it was written
	First   journal.Mark // of the entries in it
	Last    journal.Mark
	Entries int
	Size    int64 // bytes
}

// Pair is one manager of a pair.
type Pair struct {
	cfg Config
}

// New checks the settings and the store's note. Nothing runs yet.
func New(cfg Config) (*Pair, error) { return &Pair{cfg: cfg}, nil }

// Run claims the port and runs the pair until ctx ends, the port is lost or the store cannot be
// read. A manager that is active then stops being so without a word to the peer, and OnStandby
// is not called: to stop without a gap, call Handover before. It returns nil if ctx ended.
func (p *Pair) Run(ctx context.Context) error { return ErrStopped }

// Store returns the store of the managers. Apply returns when its entry counts, or fails with
// replica.ErrBusy, replica.ErrStandby, replica.ErrSuperseded (it may have been carried out), an
// error of the disk, or ErrStopped. Load reads what this manager's disk has, which may be more
// than what counts. Close does nothing.
func (p *Pair) Store() store.Store { return nil }

// ManagerPort returns the port for the managers of the present mastership; call it in OnActive,
// or after. Send fails with ErrCut, and Recv returns it, as soon as the mastership ends, and
// after Close, which leaves the pair's port open. A Send may wait until the pair has looked at
// its port. SetIsSM does nothing, because the pair holds IsSM in both roles. Signs of the
// peer and responses to the pair's own requests do not get there.
func (p *Pair) ManagerPort() mad.Transport { return nil }

// Status returns how the pair stands.
func (p *Pair) Status() Status { return Status{} }

// Handover makes the paired standby active and this manager standby. It returns nil when this
// manager has stopped, ErrNotActive, or ErrNoSpare when the standby did not come within
// Rules.Alone: this manager then goes on.
func (p *Pair) Handover(ctx context.Context) error { return ErrStopped }

// Takeover makes a standby active whose peer is silent. Without stale it fails with ErrMayLack,
// because what the peer acknowledged alone would be lost; with stale an operator has said that
// it may be. A paired standby takes over by itself.
func (p *Pair) Takeover(ctx context.Context, stale bool) error { return ErrStopped }

// Forks lists the fork files in ForkDir, oldest first.
func (p *Pair) Forks() ([]Fork, error) { return nil, nil }

// LoadTLS reads a certificate with its key and the authorities of the peer's certificate, PEM
// files, for Config.TLS.
func LoadTLS(cert, key, ca string) (*tls.Config, error) { return nil, errors.ErrUnsupported }

// LoadSecret reads Config.Secret from a file: its bytes without white space at the ends, at least
// 16. A file that others than its owner can read is refused.
func LoadSecret(file string) ([]byte, error) { return nil, errors.ErrUnsupported }
