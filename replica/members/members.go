// Package members has the streams between managers that keep one state in etcd: signs of life, and what
// the master publishes, so that each standby finds a dead master soon and can answer before it has read
// the subnet.
//
// Each manager connects to each other one, and listens. Who listens shows: it sends a sign every 80 ms,
// and what it publishes while it is master. Nothing is acknowledged, and nothing that is stored goes
// over these streams. So they decide nothing: a standby asks the master in the subnet before it takes
// its place, and etcd decides whose changes count.
//
//	m, err := members.New(members.Config{…})
//	go m.Run(ctx)
//	m.Begin(guid); m.Show(snapshot); list := m.Members()
//
// All methods may be called concurrently. docs/format/pair.md describes what goes over the wire.
package members

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"heddle/ib"
	"heddle/mad"
	"heddle/replica"
	"heddle/replica/wire"
	"heddle/store/journal"
	"heddle/subnet"
)

// Times of streams.
const (
	// Every is the time between two signs.
	Every = 80 * time.Millisecond
	// Silent is how long a member may be silent until it is not heard any more.
	Silent = 3 * Every
	// patience is how long a stream may be silent until it is ended, and a write may take.
	patience = 2 * time.Second
	// redial is the time between two attempts to connect.
	redial = 200 * time.Millisecond
	// warmAge is how long what was shown counts after the stream has ended.
	warmAge = time.Minute
)

// Config are the settings of Members. The first three are required.
type Config struct {
	// Listen is the address on which others connect, Peers those of the others: HOST:PORT, resolved anew
	// for each attempt. This manager's own may be among them.
	Listen string
	Peers  []string
	// TLS has this manager's certificate and the authorities of those of the others, for both directions
	// (live.LoadTLS). The name in a certificate must be the host of one of Peers.
	TLS *tls.Config
	// Log gets what happens; nil: nothing is logged.
	Log *slog.Logger
	// Changed is called when Members or Warm may return something else; nil: nobody waits for that. It
	// must not block.
	Changed func()
	// Last is the last entry of the shared state that this manager knows; nil: it is not told. It must
	// not wait.
	Last func() journal.Mark
	// Settings are those that all managers should have alike; they are compared with those of managers that
	// compare too. Members.SetSettings changes them. OnDiffer gets the address of another manager and the
	// names of the settings that differ from its own when these have changed, none when no setting differs
	// any more; nil: nobody. It must not block, nor call Members.
	Settings []wire.Setting
	OnDiffer func(address string, names []string)
	// Clock is this machine's wall time in nanoseconds since 1970; nil: time.Now.
	Clock func() int64
}

// Member is what is known of another manager.
type Member struct {
	Address string
	GUID    ib.GUID // of its port; 0: it was never heard
	// Heard: its stream is open and not silent.
	Heard bool
	// Active: it is master, as it last said.
	Active bool
	// Err is why there is no stream, "" if there is one.
	Err string
	// Differ are the settings that it should have as this one and does not, by name; none also if it does
	// not say.
	Differ []string
}

// Members are the streams of one manager.
type Members struct {
	cfg Config
	log *slog.Logger

	begun chan struct{} // closed by Begin

	mu     sync.Mutex
	guid   ib.GUID          // of this manager's port; guarded by mu
	active bool             // it is master; guarded by mu
	hung   bool             // its loop hangs; guarded by mu
	shown  *subnet.Snapshot // what it publishes; nil: nothing. Guarded by mu
	news   chan struct{}    // closed when active, shown or settings have changed; guarded by mu
	peers  []*peer          // the list is constant; what they know is guarded by mu
	boot   uint64
	listen string // where it listens; guarded by mu

	settings *[]wire.Setting // replaced as a whole; guarded by mu

	newest journal.Mark // the last entry that a peer has told of; guarded by mu

	epoch time.Time     // the zero of clock
	clock replica.Clock // guarded by mu
}

// peer is another manager, as this one sees it.
type peer struct {
	address string
	guid    ib.GUID
	open    bool
	last    time.Time // when it was heard
	sign    replica.Sign
	err     string
	warm    *subnet.Snapshot
	ended   time.Time     // when the stream of warm ended; zero: it is open
	digests *wire.Digests // of its settings; nil: not known
	differ  []string
}

// New checks the settings. Nothing runs yet.
func New(cfg Config) (*Members, error) {
	switch {
	case cfg.Listen == "":
		return nil, errors.New("members: the address to listen on is missing")
	case len(cfg.Peers) == 0:
		return nil, errors.New("members: the addresses of the other managers are missing")
	case cfg.TLS == nil:
		return nil, errors.New("members: the certificate is missing")
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	m := &Members{cfg: cfg, log: cfg.Log, begun: make(chan struct{}), news: make(chan struct{}), boot: rand.Uint64() | 1}
	m.settings = &cfg.Settings
	m.epoch = time.Now()
	wall := m.epoch.UnixNano()
	if cfg.Clock != nil {
		wall = cfg.Clock()
	}
	m.clock.Start(0, wall)
	for _, a := range cfg.Peers {
		m.peers = append(m.peers, &peer{address: a, err: "no stream yet"})
	}
	return m, nil
}

// Begin says which port this manager has: without it there is no stream. Only the first call counts.
func (m *Members) Begin(guid ib.GUID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.guid == 0 && guid != 0 {
		m.guid = guid
		close(m.begun)
	}
}

// Lead says whether this manager is master. Nothing is shown of one that is not.
func (m *Members) Lead(active bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.active == active {
		return
	}
	if m.active = active; !active {
		m.shown = nil
	}
	m.changed()
}

// Hang says whether the loop of this manager hangs. One that hangs does not count as master for the others,
// which keep what it has shown.
func (m *Members) Hang(hung bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.hung != hung {
		m.hung = hung
		m.changed()
	}
}

// Show shows the others what this manager publishes as master.
func (m *Members) Show(s *subnet.Snapshot) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.active && m.shown != s {
		m.shown = s
		m.changed()
	}
}

// changed wakes the streams. The holder of mu calls it.
func (m *Members) changed() {
	close(m.news)
	m.news = make(chan struct{})
}

// SetSettings says what the settings are now (Config.Settings).
func (m *Members) SetSettings(list []wire.Setting) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.settings = &list
	for _, p := range m.peers {
		m.compare(p)
	}
	m.changed()
}

// compare says which settings of a peer differ, when these have changed. The holder of mu calls it.
func (m *Members) compare(p *peer) {
	var names []string
	if p.digests != nil && p.guid != m.guid {
		names = p.digests.Differ(*m.settings, nil)
	}
	if slices.Equal(names, p.differ) {
		return
	}
	p.differ = names
	if len(names) > 0 {
		m.log.Warn("settings of another manager differ: give all the same", "peer", p.address, "settings", strings.Join(names, ", "))
	} else {
		m.log.Info("no settings of another manager differ any more", "peer", p.address)
	}
	if m.cfg.OnDiffer != nil {
		m.cfg.OnDiffer(p.address, slices.Clone(names))
	}
}

// current is what is to be sent now, and what tells of the next change.
type current struct {
	active   bool
	shown    *subnet.Snapshot
	settings *[]wire.Setting
	news     <-chan struct{}
}

func (m *Members) now() current {
	m.mu.Lock()
	defer m.mu.Unlock()
	return current{m.active && !m.hung, m.shown, m.settings, m.news}
}

// Wall is the time in which the managers store ends of leases, in nanoseconds since 1970: that of the
// manager that was master first, which goes on over changes of the master. A manager that has heard no
// master has its own.
func (m *Members) Wall() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.clock.At(m.elapsed())
}

func (m *Members) elapsed() mad.Time { return mad.Time(time.Since(m.epoch)) }

// Newest is the last entry of the shared state of which another manager has told.
func (m *Members) Newest() journal.Mark {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.newest
}

// heard takes a sign of a peer. The holder of mu calls it.
func (m *Members) heard(s *replica.Sign) {
	if s.Last.Compare(m.newest) > 0 {
		m.newest = s.Last
	}
	if s.Active && !m.active {
		m.clock.Heard(m.elapsed(), s.Boot, s.Wall)
	}
}

// Members returns the other managers. This one's own address is left out as soon as that is known.
func (m *Members) Members() (list []Member) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.peers {
		if p.guid == m.guid && p.guid != 0 {
			continue
		}
		list = append(list, Member{
			Address: p.address, GUID: p.guid, Heard: p.heard(), Active: p.open && p.sign.Active, Err: p.err,
			Differ: slices.Clone(p.differ),
		})
	}
	return list
}

func (p *peer) heard() bool { return p.open && time.Since(p.last) <= Silent }

// Warm returns what the master with a port GUID published last, nil if that is not known or old.
func (m *Members) Warm(guid ib.GUID) *subnet.Snapshot {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.peers {
		if p.guid == guid && p.warm != nil && (p.ended.IsZero() || time.Since(p.ended) <= warmAge) {
			return p.warm
		}
	}
	return nil
}

// Address is where this manager listens, "" before Run.
func (m *Members) Address() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.listen
}

// Run keeps the streams until ctx ends. It fails if the address cannot be listened on.
func (m *Members) Run(ctx context.Context) error {
	l, err := net.Listen("tcp", m.cfg.Listen)
	if err != nil {
		return err
	}
	m.mu.Lock()
	m.listen = l.Addr().String()
	m.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { l.Close() })()
	select {
	case <-m.begun:
	case <-ctx.Done():
		return nil
	}
	var running sync.WaitGroup
	for _, p := range m.peers {
		running.Go(func() { m.follow(ctx, p) })
	}
	running.Go(func() { m.accept(ctx, l) })
	running.Wait()
	return nil
}

// pause waits, and reports false if ctx ends before.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
