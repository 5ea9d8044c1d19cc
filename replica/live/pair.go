package live

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"heddle/mad"
	"heddle/replica"
	"heddle/replica/wire"
	"heddle/store"
	"heddle/store/journal"
)

// Pair is one manager of a pair.
type Pair struct {
	cfg   Config
	log   *slog.Logger
	key   wire.Key
	nonce uint64
	epoch time.Time

	events chan func() // run on the pair's goroutine
	done   chan struct{}
	ran    atomic.Bool
	loops  atomic.Bool   // the pair's goroutine takes events
	reign  atomic.Uint64 // number of the mastership

	gate   gate  // of the managers' port
	known  known // of both ports, from the journal
	own    tids  // of the pair's own requests
	answer answer

	priority atomic.Uint32

	mu sync.Mutex
	st Status // guarded by mu

	warm     warm
	relaying relaying

	// Everything below belongs to the pair's goroutine.
	core    *replica.Core
	out     replica.Output
	next    []replica.Event // to be stepped after what is being done
	wake    mad.Time
	clock   replica.Clock
	granted bool // OnActive was called for this mastership
	disk    *disk
	lost    error // why Run ends
	ends    []func()
	band
	streams
	comparing
	changes  map[uint64]change
	lastID   uint64
	handing  []waiter
	taking   []waiter
	heardAt  [2]mad.Time // by channel; 0: never
	lagSince mad.Time    // 0: no lag
}

// change is a call of Apply that waits.
type change struct {
	began mad.Time
	done  chan error
}

// waiter is a call of Handover or Takeover that waits.
type waiter struct {
	until mad.Time
	done  chan error
}

// New checks the settings and the store's note. Nothing runs yet.
func New(cfg Config) (*Pair, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	for _, x := range []struct {
		missing bool
		what    string
	}{
		{cfg.Store == nil, "store"},
		{cfg.Port == nil, "port"},
		{cfg.Listen == "", "address to listen on"},
		{cfg.Peer == "", "address of the peer"},
		{cfg.TLS == nil, "certificate"},
		{cfg.Rules.Me == 0 || cfg.Rules.Peer == 0, "GUID of both ports"},
	} {
		if x.missing {
			return nil, fmt.Errorf("replica: a pair needs the %s", x.what)
		}
	}
	if g := cfg.Port.PortGUID(); g != cfg.Rules.Me {
		return nil, fmt.Errorf("replica: the port has GUID %v, not %v", g, cfg.Rules.Me)
	}
	if cfg.Rules.Me == cfg.Rules.Peer {
		return nil, fmt.Errorf("replica: both managers of the pair have the port GUID %v", cfg.Rules.Me)
	}
	key, err := wire.NewKey(cfg.Secret)
	if err != nil {
		return nil, err
	}
	note, err := cfg.Store.Note()
	if err != nil {
		return nil, err
	}
	if err := replica.CheckNote(note); err != nil {
		return nil, err
	}
	p := &Pair{
		cfg: cfg, log: cfg.Log, key: key, nonce: rand.Uint64() | 1, epoch: time.Now(),
		events: make(chan func(), 256), done: make(chan struct{}),
		core: replica.New(cfg.Rules), changes: map[uint64]change{},
	}
	if p.cfg.Versions == (wire.Versions{}) {
		p.cfg.Versions = wire.Own()
	}
	p.SetPriority(cfg.Priority)
	p.comparing.own = cfg.Settings
	wall := p.epoch.UnixNano()
	if cfg.Clock != nil {
		wall = cfg.Clock()
	}
	p.clock.Start(p.now(), wall)
	p.gate.init(p)
	p.own.m = map[uint32]what{}
	p.band.init(p)
	p.streams.init(p)
	p.disk = newDisk(p)
	p.relaying.answers = make(chan *mad.Packet, relayAnswers)
	p.st = Status{Me: cfg.Rules.Me, Peer: cfg.Rules.Peer, Address: cfg.Peer, PeerPriority: -1, Signs: [2]time.Duration{-1, -1}, Since: time.Now()}
	return p, nil
}

// now is a clock that does not jump, not even when the process was stopped. It is never 0.
func (p *Pair) now() mad.Time { return mad.Time(time.Since(p.epoch)) + 1 }

// post has f run on the pair's goroutine; false: Run has returned.
func (p *Pair) post(f func()) bool {
	select {
	case p.events <- f:
		return true
	case <-p.done:
		return false
	}
}

// Run claims the port and runs the pair until ctx ends, the port is lost or the store cannot be
// read. A manager that is active then stops without notifying the peer, and OnStandby is not
// called: to stop without interruption, call Handover before. It returns nil if ctx ended.
func (p *Pair) Run(ctx context.Context) error {
	if !p.ran.CompareAndSwap(false, true) {
		return errors.New("replica: a pair runs once")
	}
	defer p.end()
	start, err := p.start()
	if err != nil {
		return err
	}
	if err := p.claim(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	end, err := p.streams.listen()
	if err != nil {
		return err
	}
	p.ends = append(p.ends, end)
	diskDone := make(chan struct{})
	go func() { defer close(diskDone); p.disk.run() }()
	p.ends = append(p.ends, func() { p.disk.stop(); <-diskDone })
	go p.relaySend()
	go p.receive() // ends when the port is closed, which the caller does after Run

	timer := time.NewTimer(0)
	defer timer.Stop()
	p.step(start)
	p.loops.Store(true)
	for p.lost == nil {
		timer.Reset(max(p.tick().Sub(p.now()), 0))
		select {
		case <-ctx.Done():
			return nil
		case f := <-p.events:
			f()
			for range len(p.events) { // one timer for many
				(<-p.events)()
			}
		case <-timer.C:
		}
	}
	return p.lost
}

// Turns returns nil if the pair's goroutine responds within the time of ctx, or does not run. It
// waits neither for the disk nor for the peer.
func (p *Pair) Turns(ctx context.Context) error {
	if !p.loops.Load() {
		return nil
	}
	turned := make(chan struct{})
	select {
	case p.events <- func() { close(turned) }:
	case <-p.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("replica: too much waits for the pair's loop: %w", ctx.Err())
	}
	select {
	case <-turned:
		return nil
	case <-p.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("replica: the pair's loop does not turn: %w", ctx.Err())
	}
}

// start reads what the core begins with.
func (p *Pair) start() (replica.Start, error) {
	s := p.cfg.Store
	st, last, err := s.Contents()
	if err != nil {
		return replica.Start{}, err
	}
	note, err := s.Note()
	if err != nil {
		return replica.Start{}, err
	}
	p.known.replaced(&p.cfg.Rules, st)
	p.disk.before = last.Number
	ev := replica.Start{Last: last, Note: note, Boot: uint64(max(time.Now().Unix(), 0))}
	list, err := s.Entries(last.Number, 1)
	switch {
	case errors.Is(err, journal.ErrTrimmed):
	case err != nil:
		return replica.Start{}, err
	case len(list) > 0:
		ev.Begin = list[0].Begin
	}
	forks, err := p.Forks()
	if err != nil {
		return replica.Start{}, err
	}
	p.set(func(st *Status) { st.Forks = len(forks) })
	return ev, nil
}

// end ends what the pair's goroutine alone can end, and waits for its other goroutines. From done
// on none of them waits for events, which nobody takes any more.
func (p *Pair) end() {
	p.relayClose()
	<-p.gate.shut()
	close(p.done)
	for _, c := range p.changes {
		c.done <- ErrStopped
	}
	for _, w := range append(p.handing, p.taking...) {
		w.done <- ErrStopped
	}
	p.streams.close()
	for _, end := range slices.Backward(p.ends) {
		end()
	}
}

// tick does what is due and returns when something is next.
func (p *Pair) tick() mad.Time {
	now := p.now()
	if p.wake <= now {
		p.step(replica.Timer{})
	}
	next := min(p.band.tick(now), p.streams.tick(now), p.relayTick(now))
	p.wait(&p.handing, ErrNoSpare)
	p.wait(&p.taking, context.DeadlineExceeded)
	p.publish(now)
	for _, w := range append(p.handing, p.taking...) {
		next = min(next, w.until)
	}
	return min(next, p.wake)
}

// step has the core take an event, and does what it says.
func (p *Pair) step(ev replica.Event) {
	p.next = append(p.next, ev)
	if len(p.next) > 1 {
		return // something is being done: this follows
	}
	for len(p.next) > 0 {
		p.out.Reset()
		p.core.Step(p.now(), p.next[0], &p.out)
		p.wake = p.out.Wake
		p.do(&p.out)
		p.next = p.next[1:]
	}
	p.next = nil
}

func (p *Pair) do(out *replica.Output) {
	if len(out.Disk) > 0 {
		p.disk.add(out.Disk)
	}
	for _, d := range out.Done {
		p.answered(d)
	}
	if out.Yield {
		p.yield(out)
	}
	if out.Grant != nil {
		p.grant(*out.Grant)
	}
	if out.Close {
		p.streams.drop(true)
	}
	if out.Hangup {
		p.streams.drop(false)
	}
	for _, m := range out.Sends {
		p.streams.send(m)
	}
	if out.Sign != nil {
		out.Sign.Rank = p.Priority() + 1
		if out.Sign.Active {
			out.Sign.Wall = p.clock.At(p.now())
		}
		p.streams.sign(out.Sign)
		p.band.sign(out.Sign)
		p.band.beat()
	}
	if out.Probe {
		p.band.probe()
	}
	for i := range out.Notices {
		p.notice(&out.Notices[i])
	}
}

// yield halts the managers.
func (p *Pair) yield(out *replica.Output) {
	var why replica.Why
	for _, n := range out.Notices {
		if n.Kind == replica.NoticeStandby {
			why = n.Why
		}
	}
	p.relayOpen(why) // before the managers get nothing more
	select {
	case <-p.gate.shut():
	case <-time.After(p.cfg.Rules.Every / shutEvery):
		p.log.Warn("the port takes long for a packet of the managers, which may leave after this manager has given up")
	}
	p.showNothing()
	p.band.release()
	p.since()
	if !p.granted {
		return
	}
	p.granted = false
	p.set(func(st *Status) { st.Why = why })
	if p.cfg.OnStandby != nil {
		p.cfg.OnStandby(why)
	}
	release(&p.handing, nil)
}

// grant starts the managers.
func (p *Pair) grant(g replica.Grant) {
	p.granted = true
	p.relayClose()
	p.reign.Add(1)
	p.since()
	// The peer connects from now on.
	p.set(func(st *Status) {
		st.Why, st.StreamError = g.Why, ""
		if !g.First {
			st.Takeovers++
		}
	})
	p.gate.open()
	p.band.take(g.Until)
	if p.cfg.OnActive != nil {
		p.cfg.OnActive(g)
	}
	release(&p.taking, nil)
}

func (p *Pair) since() { p.set(func(st *Status) { st.Since = time.Now() }) }

// release answers waiters.
func release(list *[]waiter, err error) {
	for _, w := range *list {
		w.done <- err
	}
	*list = nil
}

// wait answers waiters whose time is over.
func (p *Pair) wait(list *[]waiter, err error) {
	now := p.now()
	kept := (*list)[:0]
	for _, w := range *list {
		if w.until <= now {
			w.done <- err
		} else {
			kept = append(kept, w)
		}
	}
	*list = kept
}

// Wall is the time in which the managers of the present mastership store ends of leases, in
// nanoseconds since 1970 (replica.Clock); call it in OnActive.
func (p *Pair) Wall() int64 { return p.clock.At(p.now()) }

// Changes.

// managed is the store of the managers of one mastership.
type managed struct {
	p     *Pair
	reign uint64
}

// Store returns the store for the managers of the present mastership; call it in OnActive, or
// after. Apply returns when its entry counts, or fails with replica.ErrBusy, replica.ErrStandby,
// replica.ErrSuperseded (it may have been carried out), ErrOlderPeer, an error of the disk, or ErrStopped. After
// the mastership it fails, also in the next one, whose state old managers do not know. Load reads
// the state on this manager's disk, which may have more entries than those that count. Close does
// nothing.
func (p *Pair) Store() store.Store { return managed{p, p.reign.Load()} }

func (m managed) Load() (*store.State, error) { return m.p.cfg.Store.Load() }
func (m managed) Close() error                { return nil }

// Contents is Load with the last entry.
func (m managed) Contents() (*store.State, journal.Mark, error) { return m.p.cfg.Store.Contents() }

// Apply implements store.Store.
func (m managed) Apply(ops []store.Op) error {
	if len(ops) == 0 {
		return nil
	}
	// The journal keeps entries in memory for the peer.
	kept := make([]store.Op, len(ops))
	for i := range ops {
		if err := ops[i].Check(); err != nil {
			return err
		}
		kept[i] = ops[i]
		r := &kept[i].Record
		r.Key, r.Value = append([]byte(nil), r.Key...), append([]byte(nil), r.Value...)
	}
	p := m.p
	done := make(chan error, 1)
	began := p.now()
	ok := p.post(func() {
		if m.reign != p.reign.Load() {
			done <- replica.ErrStandby
			return
		}
		if st := p.streams.theirs; st != nil && journal.NeededBy(kept) > st.as.Journal {
			done <- ErrOlderPeer
			return
		}
		p.lastID++
		p.changes[p.lastID] = change{began, done}
		p.step(replica.Change{ID: p.lastID, Wall: p.clock.At(p.now()), Ops: kept})
	})
	if !ok {
		return ErrStopped
	}
	return p.await(context.Background(), done)
}

// await waits for the answer of the pair's goroutine.
func (p *Pair) await(ctx context.Context, done chan error) error {
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-p.done:
		select {
		case err := <-done:
			return err
		default:
			return ErrStopped
		}
	}
}

func (p *Pair) answered(d replica.Done) {
	c, ok := p.changes[d.ID]
	if !ok {
		return
	}
	delete(p.changes, d.ID)
	if d.Err == nil {
		took := p.now().Sub(c.began)
		p.set(func(st *Status) { st.Entries++; st.Commit += took })
	}
	c.done <- d.Err
}

// Operators.

// Handover makes the paired standby active and this manager standby. It returns nil when this
// manager has stopped, ErrNotActive, ErrAlone immediately if there is no standby for it, or
// ErrNoSpare if the standby did not take over within Rules.Alone: this manager then continues.
func (p *Pair) Handover(ctx context.Context) error {
	done := make(chan error, 1)
	if !p.post(func() {
		if p.core.Role() != replica.Active || !p.granted {
			done <- ErrNotActive
			return
		}
		if !p.core.View(p.now()).Heir {
			done <- ErrAlone
			return
		}
		// The core gives up after Alone, and this a moment later.
		p.handing = append(p.handing, waiter{p.now().Add(p.cfg.Rules.Alone + p.cfg.Rules.Every), done})
		p.step(replica.Handover{})
	}) {
		return ErrStopped
	}
	return p.await(ctx, done)
}

// Takeover makes a standby active whose peer is silent. Without stale it fails: with ErrSpare if it
// is paired, because it takes over by itself then, otherwise with ErrMayLack, because changes that
// only the peer has stored would be lost; with stale an operator accepts this. A peer that is
// active and was heard within Rules.Take makes it fail with ErrPeerActive.
func (p *Pair) Takeover(ctx context.Context, stale bool) error {
	done := make(chan error, 1)
	if !p.post(func() {
		now := p.now()
		v := p.core.View(now)
		heard := max(p.heardAt[0], p.heardAt[1])
		switch {
		case v.Role == replica.Active:
			done <- ErrActive
		case !v.Ready:
			done <- ErrStopped
		case v.Peer.Active && heard > 0 && now.Sub(heard) < p.cfg.Rules.Take:
			done <- ErrPeerActive
		case !stale && v.Paired:
			done <- ErrSpare
		case !stale:
			done <- ErrMayLack
		default:
			p.taking = append(p.taking, waiter{now.Add(p.cfg.Rules.Stale), done})
			p.step(replica.Takeover{})
		}
	}) {
		return ErrStopped
	}
	return p.await(ctx, done)
}
