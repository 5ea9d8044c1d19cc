// Package live runs one manager of a pair (package replica) in real time: its disk, its streams
// over TLS, its signs of life in band, its probes of the fabric.
//
// A Pair owns the port. Other packages use the port only through Pair.ManagerPort, for as long as
// the pair's manager is active: when that ends, their port is cut, and no further packet is sent
// through it. After a handover queries that come to the port are passed on to the peer, and its
// answers to the hosts (package replica/relay). They write the state only through Pair.Store.
//
//	p, err := live.New(live.Config{…, OnActive: start, OnStandby: halt})
//	go p.Run(ctx)
//	// start: daemon.New(daemon.Config{Port: p.ManagerPort(), Store: p.Store(), …})
//
// All methods of Pair may be called concurrently. docs/ha.md describes the pair to operators,
// docs/ha-rules.md its rules, docs/format/pair.md the messages.
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
	"heddle/replica/wire"
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
	// those of the managers. Pair.SetPriority changes the first.
	Priority uint8
	SMKey    uint64
	// Versions are those of the stream and of the journal; zero: those of this program.
	Versions wire.Versions
	// Clock returns this machine's clock, in nanoseconds since 1970; nil: the time now.
	Clock func() int64
	// MKey returns the M_Key of a port, 0 if it has none; nil: those in Store.
	MKey func(ib.GUID) ib.MKey
	// ForkDir is where entries are saved that a copy of the peer's journal replaces; it must
	// exist. Usually the directory of the store.
	ForkDir string
	// OnFork is called for each fork file that is written, and, with deleted, for each that is
	// deleted because there are too many; may be nil. It runs on the disk's goroutine.
	OnFork func(f Fork, deleted bool)
	// Log logs the events of the pair; nil: nothing is logged.
	Log *slog.Logger
	// OnActive is called when this manager becomes active: start the managers. OnStandby is called
	// when it is no longer active: halt them. By then ManagerPort is cut and Store refuses writes.
	// Both run on the pair's goroutine, in turns, and must return soon, because they delay the
	// pair's rules. Neither may wait for a call of Store or of another method of the Pair that
	// needs the pair's goroutine (Handover, Takeover), nor for a manager that does.
	OnActive  func(replica.Grant)
	OnStandby func(replica.Why)
	// OnShown is called when the snapshot of the active peer has changed (Pair.Shown); may be nil.
	// It runs on a separate goroutine, and delays later changes.
	OnShown func()
	// Tell passes messages about events for the standby to put, until ctx has ended or put returns
	// false; may be nil. It runs on a separate goroutine for each stream, and put waits for the
	// stream.
	Tell func(ctx context.Context, put func([]byte) bool)
	// OnTold is called with each message of the active peer's Tell; may be nil. It runs on the
	// stream's reader, so it must return soon. An error is logged.
	OnTold func([]byte) error
	// Settings are those that both managers should have alike; they are compared if the peer compares too.
	// Pair.SetSettings changes them. OnDiffer gets the names of those that differ when these have changed, none
	// when no setting differs any more; may be nil. It runs on the pair's goroutine.
	Settings []wire.Setting
	OnDiffer func(names []string)
	// OnNotice is called with notices for people; may be nil. It runs on the pair's goroutine.
	OnNotice func(replica.Notice)
}

// Errors of Pair.
var (
	// ErrBusyPort: another process has the port's IsSM.
	ErrBusyPort = errors.New("replica: the port cannot be claimed (is another subnet manager running on it?)")
	// ErrCut: the port of a mastership that has ended.
	ErrCut = errors.New("replica: this manager is no longer active")
	// ErrBlind: the port of a mastership does not answer this manager, which therefore cannot know
	// whether the other one has taken over.
	ErrBlind = errors.New("replica: this manager's port does not answer: is its M_Key the one that is stored?")
	// ErrStopped: Run has returned, or was not called.
	ErrStopped = errors.New("replica: the pair does not run")
	// ErrNotActive: a handover was asked of a manager that is standby.
	ErrNotActive = errors.New("replica: this manager is standby: hand over at the other one")
	// ErrAlone: a handover was asked for, and no standby has all entries or is about to.
	ErrAlone = errors.New("replica: no standby can take over: none is paired, or its port is down; this manager goes on")
	// ErrNoSpare: a handover was asked for, and the standby lacks entries or does not answer.
	ErrNoSpare = errors.New("replica: the standby has not all entries, or cannot take over")
	// ErrActive: a takeover was asked of a manager that is active.
	ErrActive = errors.New("replica: this manager is active already")
	// ErrPeerActive: a takeover was asked for, and the other manager is active.
	ErrPeerActive = errors.New("replica: the other manager is active: hand over there")
	// ErrPortLost: the port is gone.
	ErrPortLost = errors.New("replica: the port is lost")
	// ErrSpare: a takeover without stale was asked of a standby that is paired.
	ErrSpare = errors.New("replica: this manager has all entries, and takes over by itself when the other one is silent and this one's port and a switch work")
	// ErrOlderPeer: a change that the program of the other manager cannot carry out, so that it would cease to be a
	// spare. Nothing was changed.
	ErrOlderPeer = errors.New("replica: the other manager of the pair has an older version, which cannot store this: upgrade it first")
	// ErrMayLack: a takeover without stale was asked of a standby that is not paired.
	ErrMayLack = errors.New("replica: this manager may lack entries that were acknowledged")
)
