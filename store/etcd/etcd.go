// Package etcd implements journal.Store on an etcd cluster (3.4 or later), so that three or more
// managers have one state.
//
// Each Apply is one entry of the journal and one value in etcd (docs/format/etcd.md). The entry is
// written in a transaction that fails unless this Store has the term: the key "term" has the value
// that its Claim wrote. So a manager that lost its term can never write again, whatever it believes.
// Who is master is not decided here: the manager that SMInfo makes master calls Win.
//
// Promises:
//
//   - An Apply that returns nil is on a majority of the members, synced.
//   - An Apply that returns store.ErrUnavailable has no effect. If etcd did not say whether a
//     transaction was carried out, that is found out, and undone, before anything else is written.
//     Only if the manager loses its term in that very moment, the next one may find the change.
//   - Load, Contents, Last and Entries return what the cluster has, read with its consent, and never
//     an older state. They fail while there is no majority.
//   - A watch is only a hint. What it does not bring in sequence is read by number, or from the
//     snapshot.
//
// All methods may be called concurrently. There is no copy on the local disk: a manager that starts
// while etcd is away must not act on what it once knew, and one that runs has the state in memory.
package etcd

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"heddle/ib"
	"heddle/store"
	"heddle/store/journal"
)

// Defaults of Options.
const (
	// DefaultPrefix is where the keys begin.
	DefaultPrefix = "/heddle"
	// DefaultWait outlasts the election of a leader at etcd's own timing (1 to 2 s).
	DefaultWait = 2 * time.Second
	// DefaultSnapshotEvery is the number of entries after which a snapshot is written.
	DefaultSnapshotEvery = 10_000
)

// Options say where the cluster is and how it is used.
type Options struct {
	// Endpoints are HOST:PORT of the members; at least one.
	Endpoints []string
	// Prefix begins every key; "" means DefaultPrefix. Each subnet needs its own.
	Prefix string
	// TLS is nil for unencrypted connections.
	TLS *tls.Config
	// User and Password are those of etcd's own authentication; "" for none.
	User, Password string
	// Wait is how long a change waits for etcd before it is refused; 0 means DefaultWait. A
	// change that finds another one waiting waits up to twice as long.
	Wait time.Duration
	// Name of this process, for people who read the key "term".
	Name string
	// SnapshotEvery is the number of entries between snapshots; 0 means DefaultSnapshotEvery.
	SnapshotEvery int
	// NoCompact leaves the compaction of etcd's history to etcd.
	NoCompact bool
	// Log is told when etcd is away, and when it is back; nil for no log.
	Log *slog.Logger
}

// Cluster is what a Store needs of a client of etcd: *clientv3.Client, or a test's substitute. The
// options of Watch and Compact are those that this package gives.
type Cluster interface {
	Txn(ctx context.Context) clientv3.Txn
	Watch(ctx context.Context, key string, opts ...clientv3.OpOption) clientv3.WatchChan
	Compact(ctx context.Context, rev int64, opts ...clientv3.CompactOption) (*clientv3.CompactResponse, error)
	Close() error
}

// Store is a journal.Store in etcd.
type Store struct {
	cli  Cluster
	keys keys
	opt  Options
	life context.Context // ends with Close
	end  context.CancelFunc
	jobs sync.WaitGroup
	// bound limits how long something may take: context.WithTimeout, or in tests what does not
	// depend on time.
	bound func(context.Context, time.Duration) (context.Context, context.CancelFunc)

	// conversation is held by whoever reads and writes in sequence: it guards the fields of
	// talk. Taken before mu.
	conversation chan struct{}
	talk

	holding atomic.Bool // talk.claim is held; for who cannot wait for the conversation
	gaveUp  atomic.Bool // talk.claim is to be dropped by the next one who has the conversation

	mu     sync.Mutex // guards everything below
	state  *store.Memory
	at     position
	synced time.Time // when there was no later entry
	queue  []*waiter
	away   error // etcd does not answer, and a goroutine asks until it does
	closed bool
}

// talk is what this Store knows of the cluster.
type talk struct {
	claim    claim  // zero: this Store has no term
	lost     error  // why it has none; nil: it was never claimed
	doubt    *batch // it may have been written
	stale    bool   // the state is to be read anew
	head     snapshotHead
	bytes    int  // of the entries since the snapshot, as far as they are known
	snapping bool // a snapshot is being written
	asked    asked
	unsure   bool // a note that was refused may still be written
}

// position is the last entry of the state, as etcd has it.
type position struct {
	journal.Mark
	rev int64  // revision that wrote its key; 0: it has no key, so the snapshot says what it is
	sum uint32 // its checksum
	// seen is a revision at which there was no later entry.
	seen int64
}

// errClosed also ends waits.
var errClosed = store.ErrClosed

// Open connects to the cluster and reads the state. It tries until ctx ends: while etcd is away there
// is nothing to begin with.
func Open(ctx context.Context, o Options) (*Store, error) {
	if len(o.Endpoints) == 0 {
		return nil, errors.New("etcd: no endpoint is given")
	}
	cli, err := dial(ctx, &o)
	if err != nil {
		return nil, err
	}
	return Over(ctx, cli, o)
}

// Over is Open with a client that is connected, which the Store closes. Endpoints, TLS, User and Password
// of the options are not used.
func Over(ctx context.Context, cli Cluster, o Options) (*Store, error) {
	s := newStore(cli, o)
	if err := s.reading(ctx, s.catchUp); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func newStore(cli Cluster, o Options) *Store {
	o.Prefix = cmp.Or(o.Prefix, DefaultPrefix)
	o.Wait = cmp.Or(o.Wait, DefaultWait)
	o.SnapshotEvery = cmp.Or(o.SnapshotEvery, DefaultSnapshotEvery)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Store{
		cli: cli, keys: keys{o.Prefix}, opt: o,
		bound: context.WithTimeout, conversation: make(chan struct{}, 1), state: store.NewMemory(), talk: talk{stale: true},
	}
	s.life, s.end = context.WithCancel(context.Background())
	return s
}

// How connections are made and watched.
const (
	dialTimeout = 2 * time.Second
	// etcd closes connections that are pinged more often than every 5 s.
	pingEvery   = 5 * time.Second
	pingTimeout = 2 * time.Second
	// gRPC's own pause grows to two minutes, and members return sooner.
	dialPause, dialPauseMost = 50 * time.Millisecond, time.Second
)

// dial returns a client. With a user it must reach a member, so it tries until ctx ends.
func dial(ctx context.Context, o *Options) (*clientv3.Client, error) {
	scheme := "http://"
	if o.TLS != nil {
		scheme = "https://"
	}
	cfg := clientv3.Config{
		DialTimeout: dialTimeout, DialKeepAliveTime: pingEvery, DialKeepAliveTimeout: pingTimeout,
		TLS: o.TLS, Username: o.User, Password: o.Password, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: dialPause, Multiplier: 1.5, Jitter: 0.2, MaxDelay: dialPauseMost},
			MinConnectTimeout: dialTimeout,
		})},
	}
	for _, e := range o.Endpoints {
		cfg.Endpoints = append(cfg.Endpoints, scheme+e)
	}
	for pause := firstPause; ; pause = min(2*pause, mostPause) {
		cli, err := clientv3.New(cfg)
		if err == nil {
			return cli, nil
		}
		if refused(err) {
			return nil, fmt.Errorf("etcd: %w", err)
		}
		if rest(ctx, pause) != nil {
			return nil, unavailable(err)
		}
	}
}

// Close implements store.Store. It leaves the term: another manager wins it when it needs it.
func (s *Store) Close() error {
	s.mu.Lock()
	was := s.closed
	s.closed = true
	s.mu.Unlock()
	if was {
		return nil
	}
	s.end()
	s.jobs.Wait()
	s.conversation <- struct{}{} // whoever has it ends soon, because life has
	<-s.conversation
	if err := s.cli.Close(); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("etcd: %w", err)
	}
	return nil
}

// converse runs f as the only one who reads and writes in sequence.
func (s *Store) converse(ctx context.Context, f func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.life, cancel)()
	select {
	case s.conversation <- struct{}{}:
	case <-ctx.Done():
		return s.over(context.Cause(ctx))
	}
	defer func() { <-s.conversation }()
	if s.life.Err() != nil {
		return errClosed
	}
	s.giveUp()
	return f(ctx)
}

// giveUp drops a claim whose resignation had no time for the conversation. The holder of the conversation
// calls it first.
func (s *Store) giveUp() {
	if s.gaveUp.Swap(false) {
		s.setClaim(claim{})
		s.lost = nil
	}
}

// over is ErrClosed if the Store is, else ErrUnavailable because of err.
func (s *Store) over(err error) error {
	if s.life.Err() != nil {
		return errClosed
	}
	return unavailable(err)
}

// reading is converse for what reads: what is in doubt is settled first.
func (s *Store) reading(ctx context.Context, f func(ctx context.Context) error) error {
	return s.converse(ctx, func(ctx context.Context) error {
		if err := s.settle(ctx); err != nil && (s.doubt != nil || s.claim.held()) {
			return err
		} // else the term is lost, which only writing needs
		return f(ctx)
	})
}

// Load implements store.Store.
func (s *Store) Load() (*store.State, error) {
	st, _, err := s.Contents()
	return st, err
}

// Contents implements journal.Store.
func (s *Store) Contents() (st *store.State, m journal.Mark, err error) {
	ctx, cancel := s.bound(s.life, s.readWait())
	defer cancel()
	err = s.reading(ctx, func(ctx context.Context) error {
		if err := s.catchUp(ctx); err != nil {
			return err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		st, err = s.state.Load()
		m = s.at.Mark
		return err
	})
	return st, m, err
}

// Last implements journal.Store.
func (s *Store) Last() (m journal.Mark, err error) {
	ctx, cancel := s.bound(s.life, s.readWait())
	defer cancel()
	return s.Latest(ctx)
}

// Latest is Last until ctx ends.
func (s *Store) Latest(ctx context.Context) (m journal.Mark, err error) {
	err = s.reading(ctx, func(ctx context.Context) error {
		if err := s.catchUp(ctx); err != nil {
			return err
		}
		m = s.position().Mark
		return nil
	})
	return m, err
}

// Synced returns the last entry that this Store knows, and when etcd last had no later one. It does
// not wait. A Store that follows asks every 10 s at the latest.
func (s *Store) Synced() (journal.Mark, time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at.Mark, s.synced
}

// Followed returns the state up to that entry. It does not wait, and etcd may have a newer one.
func (s *Store) Followed() (*store.State, journal.Mark, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st, err := s.state.Load()
	return st, s.at.Mark, err
}

// MKey returns the M_Key of a port in the state that Followed returns, without a copy of all of it. ok is
// false if the state has none.
func (s *Store) MKey(port ib.GUID) (key ib.MKey, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.MKey(port)
}

// readWait bounds a read. It may have to fetch a snapshot of many pieces, so it is longer than that
// of a change.
func (s *Store) readWait() time.Duration { return 10 * s.opt.Wait }

func (s *Store) position() position {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at
}
