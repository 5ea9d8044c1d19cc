package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"heddle/ib"
	"heddle/mad"
	"heddle/replica/members"
	"heddle/sa"
	"heddle/sm"
	"heddle/store"
	"heddle/store/journal"
	"heddle/subnet"
)

// Terms is a store that several managers share, and that only the one with the term can write:
// store/etcd. Without the term, or while the store is unavailable, Apply fails with
// store.ErrUnavailable.
type Terms interface {
	store.Store
	// Contents is Load with the last entry.
	Contents() (*store.State, journal.Mark, error)
	// Latest is the last entry that the store has now.
	Latest(ctx context.Context) (journal.Mark, error)
	// Win takes the term from its current owner, and returns the last entry before.
	Win(ctx context.Context, guid ib.GUID, reason string) (journal.Mark, error)
	// Holds reports whether this process has the term, as far as it knows.
	Holds() bool
	// Away is the reason that all changes are currently refused, or nil.
	Away() error
	// Resign releases the term. Vacant reports whether its last owner did that, or, when it is
	// called repeatedly, has not called Attend for a while.
	Resign(ctx context.Context) error
	Vacant(ctx context.Context) (bool, error)
	// Attend is to be called by the owner every attendEvery at the latest. It also detects whether
	// the term was lost, and whether the store is unavailable.
	Attend(ctx context.Context) error
	// Synced is the last entry that is known, and when there was no later one. It does not wait.
	Synced() (journal.Mark, time.Time)
	// Followed is the state up to that entry. It does not wait either.
	Followed() (*store.State, journal.Mark, error)
	// MKey is the M_Key of a port in that state, ok false if it has none. It does not wait either.
	MKey(port ib.GUID) (key ib.MKey, ok bool)
	// Follow keeps what Contents returns up to date, until ctx ends.
	Follow(ctx context.Context) error
}

// errStale: the cores know an older state than the store has, so they are started anew.
var errStale = errors.New("other managers have changed the state since it was read")

// Quorum lets a process manage its subnet with a state that other processes share. SMInfo elects
// the master. A new master wins the term before it stores anything. If its cores have an older
// state than this process has followed, they are restarted with the mastership, and again if the
// store then turns out to have a newer one.
//
// A master that cannot win the term soon, because the store is unavailable, drives the subnet
// nevertheless, with the state that it has followed; changes are refused until the store is back.
// Then it wins the term, unless another master has won it in the meantime. A master that loses the
// term to another master, in another part of a subnet that split, or finds it there, continues in
// this way until the other one is no longer master, or is gone.
type Quorum struct {
	Single
	Terms Terms
	Log   *slog.Logger
	// Members are the streams with the other managers; nil: there are none.
	Members *members.Members
	// Wait bounds an attempt to win the term, Look is the interval at which a master without the
	// term tries again. 0: the defaults.
	Wait, Look time.Duration

	// gate is shut by whoever wins the term, until it is known what the cores make of it: by lead, or by
	// keep, for which lead waits. Their changes pass it. Taken before mu.
	gate gate

	mu       sync.Mutex
	kept     *keptPort          // guarded by mu
	port     mad.Transport      // of the mandate; guarded by mu
	stale    bool               // the cores are to be started anew; guarded by mu
	since    journal.Term       // the last one that was known when they led without a term; guarded by mu
	granted  bool               // they are, as master; guarded by mu
	wall     func() int64       // of the cores; nil: this machine's. Guarded by mu
	stop     context.CancelFunc // of keep; nil while the core is not master; guarded by mu
	why      error              // why the term was not won, or is lost; guarded by mu
	regain   bool               // it was won after it could not be, or was lost; guarded by mu
	tally    tally              // guarded by mu
	resting  chan struct{}      // closed when keep, or the resignation after it, has ended; guarded by mu
	warmth                      // guarded by mu
	promises                    // guarded by mu
	grasp                       // guarded by mu
}

// Defaults of a Quorum.
const (
	quorumWait = 2 * time.Second
	quorumLook = 250 * time.Millisecond
	// quorumSoon bounds the attempt to win the term in the manager's loop. Hosts wait for their answers
	// meanwhile, and an etcd that elects a leader takes longer.
	quorumSoon = 150 * time.Millisecond
	// attendEvery is not longer than etcd.AttendEvery.
	attendEvery = 2 * time.Second
)

// Run implements Authority: it follows the writes of other processes, and runs the streams with them.
func (q *Quorum) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var running sync.WaitGroup
	defer running.Wait()
	var failed error
	if q.Members != nil {
		running.Go(func() {
			defer cancel()
			failed = q.Members.Run(ctx)
		})
	}
	running.Go(func() { q.advise(ctx) })
	q.follow(ctx)
	running.Wait()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.kept != nil { // the process ended before the next mandate
		failed = errors.Join(failed, q.kept.port.Close())
		q.kept = nil
	}
	return failed
}

// follow follows what other processes write.
func (q *Quorum) follow(ctx context.Context) {
	for ctx.Err() == nil {
		if err := q.Terms.Follow(ctx); ctx.Err() == nil {
			q.log().Error("the shared state cannot be followed; it is tried again", "err", err)
			rest(ctx, 10*time.Second)
		}
	}
}

// rest waits, or until ctx ends.
func rest(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

func (q *Quorum) log() *slog.Logger {
	if q.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return q.Log
}

func (q *Quorum) wait() time.Duration { return cmp.Or(q.Wait, quorumWait) }
func (q *Quorum) look() time.Duration { return cmp.Or(q.Look, quorumLook) }

// Await implements Authority.
func (q *Quorum) Await(ctx context.Context) (*Mandate, error) {
	q.mu.Lock()
	kept := q.kept
	q.mu.Unlock()
	if kept == nil {
		port, err := q.Open(ctx)
		if err != nil {
			return nil, err
		}
		kept = keep(port)
	}
	port := kept.begin()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.kept = kept
	q.port, q.stale, q.term, q.lost, q.unsure = port, false, journal.Term{}, false, sm.SetUnsure{}
	granted := q.granted
	q.granted, q.again = false, granted
	if q.Members != nil {
		q.Members.Begin(port.PortGUID())
	}
	var watch func(context.Context, func(context.Context) error)
	if q.Members != nil {
		watch = q.watch
	}
	return &Mandate{
		Watch: watch, Promises: q,
		Hints: q.newHints(), Warm: func() (*subnet.Snapshot, *sm.Float) { return q.warmIf(granted), nil }, Published: q.published,
		Port: port, Revoked: errTurn, Store: &reader{q.Terms, q}, Inherited: true, Wall: q.begin(),
		Configure: func(core *sm.Config, registry *sa.Config) {
			core.Granted, registry.MustSave = granted, true
		},
		Lead: func(dropped bool) error { return q.lead(ctx, port.PortGUID(), dropped) },
		Led:  func() { q.led() },
	}, nil
}

// clockError is how far the time of the cores may be from that of the masters before.
const clockError = time.Second

// begin returns the time in which the cores of a mandate store ends of leases: that of the masters before,
// if their streams are heard. nil: this machine's. The holder of mu calls it.
func (q *Quorum) begin() func() int64 {
	if q.Members == nil {
		return nil
	}
	wall, at := q.Members.Wall(), time.Now()
	q.wall = func() int64 { return wall + int64(time.Since(at)) }
	return q.wall
}

// off reports whether the cores began with another time than that of the masters before, which were not
// heard yet. The holder of mu calls it.
func (q *Quorum) off() bool {
	return q.wall != nil && time.Duration(q.Members.Wall()-q.wall()).Abs() > clockError
}

// reader is the shared store for the cores of one mandate: it notes what they have read, and refuses
// their changes when they are to be started anew.
type reader struct {
	Terms
	q *Quorum
}

// Load implements store.Store, for the cores; others ask for Contents. The state may be behind that of
// the store: Win says so, which every mastership begins with.
func (r *reader) Load() (*store.State, error) {
	st, at, err := r.Followed()
	if err == nil {
		r.q.mu.Lock()
		r.q.known = at
		r.q.mu.Unlock()
	}
	return st, err
}

// Apply implements store.Store. While the term is being won it does not wait: a change that was asked
// for before must not be written after that by cores that know an older state.
func (r *reader) Apply(ops []store.Op) error {
	if !r.q.gate.enter() {
		return fmt.Errorf("%w: the term is being won", store.ErrUnavailable)
	}
	defer r.q.gate.leave()
	r.q.mu.Lock()
	stale, why := r.q.stale, r.q.why
	r.q.mu.Unlock()
	switch {
	case stale:
		return fmt.Errorf("%w: %w", store.ErrUnavailable, errStale)
	case why != nil && !r.Holds(): // to ask a store that is away takes a while
		return why
	}
	return r.measured(ops)
}

// lead is called by the manager's loop when the core has become master.
func (q *Quorum) lead(ctx context.Context, guid ib.GUID, dropped bool) error {
	q.led() // of a mastership before: it has resigned
	q.mu.Lock()
	resting := q.resting
	q.mu.Unlock()
	if resting != nil {
		<-resting
	}
	q.gate.Lock()
	defer q.gate.Unlock()
	if q.behind(dropped) {
		return errStale
	}
	limited, cancel := context.WithTimeout(ctx, min(q.wait(), quorumSoon))
	had, err := q.Terms.Win(limited, guid, "master of the subnet by SMInfo")
	cancel()
	if err == nil {
		q.redeem()
	}
	q.mu.Lock() // not before: who asks for the state does not wait
	defer q.mu.Unlock()
	switch {
	case err == nil && q.lacks(had, dropped):
		q.renew("had", q.known.String(), "has", had.String())
		return errStale
	case err == nil:
		q.won(had.Term.Next(guid))
		q.promised = nil // the store has what the cores know
		q.log().Info("this manager is master and has the term", "after", had.String())
	default:
		last, _ := q.Terms.Synced()
		q.since = last.Term
		q.unsure = sm.SetUnsure{Unsure: true, Lacks: q.lacking(last)}
		q.log().Error("this manager is master without the term: it changes nothing that is stored", "err", err, "lacks", q.unsure.Lacks)
	}
	if q.Members != nil {
		q.expect = time.Time{}
		q.Members.Lead(true)
	}
	keeping, stop := context.WithCancel(ctx)
	q.stop, q.resting = stop, make(chan struct{})
	q.dropped, q.why = dropped, err
	if err == nil {
		q.count(had)
	}
	q.observe()
	q.advised()
	q.kept.look.arm(func() ib.MKey { return q.portKey(guid) }, q.superseded)
	go q.keep(keeping, guid, err == nil, q.resting)
	return nil
}

// behind reports whether the cores, which were on standby, know less than this process, or began with
// another clock: then they are started anew, without asking the store, which may be away.
func (q *Quorum) behind(dropped bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	last, _ := q.Terms.Synced()
	if !q.behindOf(last, dropped, q.off()) {
		return false
	}
	q.renew("had", q.known.String(), "has", last.String())
	return true
}

// lacking reports whether cores that are master without a term lack an entry; last is the last one that
// this process knows. The holder of mu calls it.
func (q *Quorum) lacking(last journal.Mark) bool {
	var newest journal.Mark
	if q.Members != nil {
		newest = q.Members.Newest()
	}
	return q.lags(last, newest, q.since)
}

// renew has the cores started anew, as master. The holder of mu calls it.
func (q *Quorum) renew(more ...any) {
	q.log().Info("this manager is master: its cores are started anew with the state of the others", more...)
	q.stale, q.granted = true, true
	if q.Members != nil {
		q.expect = time.Now()
		q.Members.Lead(true) // who waits for the new cores is not to take over
	}
}

// keep looks after the term while the core is master: if it could not be won, it is tried again; if it
// was lost, or another manager has won it since, it is won when its owner has resigned, or is gone.
func (q *Quorum) keep(ctx context.Context, guid ib.GUID, won bool, ended chan<- struct{}) {
	defer close(ended)
	tick := time.NewTicker(q.look())
	defer tick.Stop()
	attended := time.Now()
	for soon := !won; ; soon = false {
		if !soon {
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
		}
		if ctx.Err() != nil {
			q.resign()
			return
		}
		q.mu.Lock()
		q.observe()
		q.mu.Unlock()
		if q.Terms.Holds() {
			won = true
			if time.Since(attended) >= attendEvery {
				attended = time.Now()
				q.attend(ctx)
			}
			continue
		}
		limited, cancel := context.WithTimeout(ctx, 5*q.wait())
		vacant := !won && q.untaken(limited, guid)
		if !vacant {
			vacant, _ = q.Terms.Vacant(limited) // an error is not vacant
		}
		if vacant {
			q.gate.Lock()
			if had, err := q.Terms.Win(limited, guid, "master of the subnet without a term"); err == nil {
				q.redeem()
				q.regained(had, won)
				won = true
			}
			q.gate.Unlock()
		}
		cancel()
	}
}

// untaken reports whether nobody has won the term since this manager became master.
func (q *Quorum) untaken(ctx context.Context, guid ib.GUID) bool {
	last, err := q.Terms.Latest(ctx)
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case err != nil:
		return false
	case last.Term.Number <= q.since.Number || last.Term.Owner == guid: // of an attempt without an answer
		return true
	}
	by := "another manager has won the term"
	if last.Term.Owner == 0 {
		by = "'heddle store import' has replaced the state"
	}
	q.why = fmt.Errorf("%w: %s: %v", store.ErrUnavailable, by, last.Term)
	return false
}

// attend says that this process lives. What comes of that, Terms shows.
func (q *Quorum) attend(ctx context.Context) {
	if q.Terms.Away() != nil {
		return // it is asked already
	}
	limited, cancel := context.WithTimeout(ctx, q.wait())
	defer cancel()
	err := q.Terms.Attend(limited)
	q.refuses(err)
	if err != nil && ctx.Err() == nil && q.Terms.Holds() { // else it answered that the term is lost
		q.log().Warn("the shared state does not answer", "err", err)
	}
}

// regained decides what a term that was won late means.
func (q *Quorum) regained(had journal.Mark, again bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.keeps(had, again) {
		q.won(had.Term.Next(q.port.PortGUID()))
		q.regain, q.why, q.unsure, q.promised = true, nil, sm.SetUnsure{}, nil
		q.advised()
		q.count(had)
		q.log().Info("this manager has the term: changes are stored again")
		return
	}
	q.renew("had", q.known.String(), "has", had.String())
	q.regain = true
	q.port.Close() // which ends the manager
}

// led ends a mastership: the term is given back, so that a master elsewhere can have it.
func (q *Quorum) led() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.stop != nil {
		q.stop()
		q.stop = nil
		q.why, q.unsure = nil, sm.SetUnsure{}
		if !q.stale || !q.granted {
			q.promised = nil // another manager is master, and tells hosts what is
		}
		if q.kept != nil {
			q.kept.look.disarm()
		}
		q.observe()
	}
	if !q.stale {
		q.own = nil
		if q.Members != nil && q.expect.IsZero() {
			q.Members.Lead(false)
		}
	}
}

// resign gives the term back, if the cores do not go on with it.
func (q *Quorum) resign() {
	q.mu.Lock()
	goesOn := q.stale && q.granted
	q.lost = q.lost || !q.Terms.Holds()
	q.mu.Unlock()
	if goesOn {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), q.wait())
	defer cancel()
	if err := q.Terms.Resign(ctx); err != nil {
		// The last change may be stored although it was refused.
		q.mu.Lock()
		q.lost = true
		q.mu.Unlock()
		q.log().Warn("the term was not given back", "err", err)
	}
}

// Ended implements Authority.
func (q *Quorum) Ended(m *Mandate, err error) (bool, error) {
	q.led()
	q.mu.Lock()
	stale, resting, kept := q.stale, q.resting, q.kept
	q.resting = nil
	if !stale || kept.lost() != nil {
		q.kept = nil
	}
	q.mu.Unlock()
	if resting != nil {
		<-resting
	}
	m.Port.Close()
	if stale && kept.lost() == nil {
		return true, nil
	}
	if e := kept.port.Close(); e != nil {
		q.log().Debug("the port was not closed", "err", e)
	}
	if err != nil && q.Again != nil && q.Again(err) || stale {
		return true, nil
	}
	return false, err
}

// Store implements Authority.
func (q *Quorum) Store() store.Store { return q.Terms }
