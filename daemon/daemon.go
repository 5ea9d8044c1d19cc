// Package daemon is the real-time shell of the managers: it owns the clock,
// the port, the store and the workers, feeds the pure core (package sm) one
// event at a time from one goroutine, and does what the core's output lists,
// in the order that package sm documents. A second goroutine does the same for
// the core of the SA, a third for the address manager's. Queries pass through none:
// workers answer them, on all cores, from what those have published.
//
// A Daemon is made by New, run once by Run, and serves the API (it implements
// api.Backend) from any goroutine while it runs.
package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"heddle/ib"
	"heddle/mad"
	"heddle/partition"
	"heddle/sa"
	"heddle/settings"
	"heddle/sm"
	"heddle/store"
	"heddle/subnet"
	"heddle/vm"
)

// Errors of Run that callers decide on.
var (
	// ErrPortLost: the port is gone (device removed, simulator ended).
	ErrPortLost = errors.New("the port is lost")
	// ErrStandby: with Once, another manager is master.
	ErrStandby = errors.New("another subnet manager is master")
	// ErrBusy: the port cannot be claimed, another manager runs on it.
	ErrBusy = errors.New("the port cannot be claimed (is another subnet manager running on it?)")
	// ErrRefused: with Once, the subnet cannot be brought up.
	ErrRefused = errors.New("the subnet was not brought up")
)

// Config is what a daemon is made of. Port, Core and Store are required.
type Config struct {
	Port     mad.Transport
	PortName string // as the user gave it, for messages
	// ClaimWait is how long the start waits for a port that somebody else has claimed, which
	// may have been killed just now; 0 = not at all.
	ClaimWait time.Duration
	Core      sm.Config
	Store     store.Store
	Groups    []sm.Group // multicast groups that are always there
	// Partitions replace those that are stored; nil: they stand, or everybody is
	// a full member of the default partition.
	Partitions *partition.Policy
	// PartitionsErr says why Partitions could not be read, so that those that
	// are stored stand: it is told at the start.
	PartitionsErr error
	Log           *slog.Logger
	// Once ends Run when the subnet is up, with everything left Active.
	Once bool
	// OnUp is called each time the subnet has come up, from the loop.
	OnUp func(*subnet.Snapshot)
	// OnPublish is called with every snapshot of a master, from the loop.
	OnPublish func(*subnet.Snapshot)
	// OnPlan is called with the result of Core.PlanOnly.
	OnPlan func(*sm.Plan)
	// Progress is called about ten times a second while a sweep goes on.
	Progress func(sm.Status)
	// SA are the settings of answers; nil: no request is trusted.
	SA *sa.Options
	// Registry are the settings of what the SA keeps. What the daemon knows by
	// itself it fills in: SAKey, TrustLocal, FirstTID and TransportTimed. It begins
	// with sa.Defaults().
	Registry sa.Config
	// QueuePerRequester is how many SA requests of one port may wait, and Queue
	// how many altogether (at most 65,535); 0: those of settings. Changes, tables
	// and other queries wait in different queues. What is more is answered BUSY.
	QueuePerRequester, Queue int
	// VM are the settings of the address manager.
	VM vm.Config
}

const (
	smpQueue    = 4096 // packets for the core; the port's own queues bound what is outstanding
	reportQueue = 1024 // answers to Reports, and traps, for the SA's loop
	// maxTableWorkers bounds the memory of tables that are being made, 128 MiB
	// each at most (sa.Answer).
	maxTableWorkers = 4
	stopTime        = 5 * time.Second
	progressEvery   = 100 * time.Millisecond
)

// Daemon runs one manager on one port.
type Daemon struct {
	cfg     Config
	log     *slog.Logger
	core    *sm.Core
	started time.Time // epoch of mad.Time
	events  *ring

	snap    atomic.Pointer[subnet.Snapshot]
	upAt    atomic.Int64              // Unix nanoseconds; 0 while the subnet is not up
	status  atomic.Pointer[sm.Status] // as of the last notice or snapshot
	phases  phaseTimes
	drawn   drawingCache
	repairs repairs

	packets chan *mad.Packet // to the loop
	smpsCut atomic.Uint64    // packets that found too many there
	// Notices that were left out for their number, by the loop alone.
	noticesCut atomic.Uint64
	free       freeList
	jobs       chan *sm.JobResult
	commands   chan command // of operators
	ask        chan chan sm.Status
	lost       chan error
	jobSlot    chan struct{} // one computation at a time

	// The SA. What answers are made from:
	view    atomic.Pointer[sa.View]
	unsaved atomic.Pointer[unsavedChanges] // nil: none
	options atomic.Pointer[sa.Options]
	single  bool // the port cannot segment, whoever asks
	sa      saStats
	recv    receiver // of receive

	// To the workers, and to the SA's loop:
	queries   *queue
	tables    *queue // queries that may take long
	changes   *queue
	published chan struct{}
	traps     chan sa.Trap
	reports   chan *mad.Packet
	// From the SA's loop to the manager's:
	groups  *latest[[]sm.Group]
	aliases *latest[[]subnet.Alias]
	reads   *latest[[]ib.GUID] // nodes whose lane tables are asked for

	vm vmSide // the address manager
}

// New prepares a daemon; nothing runs yet.
func New(cfg Config) *Daemon {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	cfg.Core.PortGUID = cfg.Port.PortGUID()
	// Answers to an earlier process on this port must not look like ours.
	cfg.Core.FirstTID = rand.Uint32()
	if cfg.SA == nil {
		cfg.SA = &sa.Options{}
	}
	total := min(cmp.Or(cfg.Queue, settings.DefaultQueue), maxFair)
	each := min(cmp.Or(cfg.QueuePerRequester, settings.DefaultQueueEach), total)
	d := &Daemon{
		cfg:      cfg,
		log:      cfg.Log,
		core:     sm.New(cfg.Core),
		started:  time.Now(),
		events:   newRing(keptEvents),
		repairs:  newRepairs(),
		packets:  make(chan *mad.Packet, smpQueue),
		free:     make(freeList, smpQueue),
		jobs:     make(chan *sm.JobResult, 1),
		commands: make(chan command, 1),
		ask:      make(chan chan sm.Status),
		lost:     make(chan error, 1),
		jobSlot:  make(chan struct{}, 1),

		single:    !cfg.Port.SegmentsRMPP(),
		queries:   newQueue(each, total),
		tables:    newQueue(each, total),
		changes:   newQueue(each, total),
		published: make(chan struct{}, 1),
		traps:     make(chan sa.Trap, reportQueue),
		reports:   make(chan *mad.Packet, reportQueue),
		groups:    newLatest[[]sm.Group](),
		aliases:   newLatest[[]subnet.Alias](),
		reads:     newLatest[[]ib.GUID](),
		vm:        newVMSide(),
	}
	d.options.Store(cfg.SA)
	cores := runtime.GOMAXPROCS(0)
	d.sa.workers = make([]answerStats, cores)
	d.sa.tables = make([]answerStats, min(maxTableWorkers, max(1, cores-1)))
	return d
}

// Snapshot is the newest published state, nil before the first.
func (d *Daemon) Snapshot() *subnet.Snapshot { return d.snap.Load() }

// View is what the SA keeps, as queries see it; nil before Run.
func (d *Daemon) View() *sa.View { return d.view.Load() }

// SetOptions changes the settings of answers, for requests whose turn comes
// after it. What makes a request trusted stays that of the start.
func (d *Daemon) SetOptions(o sa.Options) {
	o.SAKey, o.TrustLocal = d.cfg.SA.SAKey, d.cfg.SA.TrustLocal
	d.options.Store(&o)
}

func (d *Daemon) now() mad.Time { return mad.Time(time.Since(d.started)) }

// Run manages the subnet until ctx ends, the port is lost or, with Once, the
// subnet is up. It closes neither the port nor the store.
func (d *Daemon) Run(ctx context.Context) error {
	stored, err := d.cfg.Store.Load()
	if err != nil {
		return err
	}
	endSA := d.administer(stored.Records)
	defer endSA()
	if core := newAddressManager(d.cfg.VM); core != nil {
		endVM := d.manageAddresses(core, stored.Records)
		defer endVM()
	}
	go d.receive() // ends when the port is closed, which the caller does after Run
	l := loop{d: d, ctx: ctx, cut: newAlarm(), timer: time.NewTimer(time.Hour), changes: map[uint64]chan<- error{}}
	defer l.timer.Stop()
	defer l.cut.timer.Stop()
	defer l.unchanged()
	return l.run(sm.Start{Stored: stored})
}

// administer restores what the SA kept and starts its goroutines; end stops
// them and waits for them.
func (d *Daemon) administer(records []store.Record) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	l := newSALoop(d)
	l.start(records)
	running.Go(func() { l.run(ctx) })
	for i := range d.sa.workers {
		w := worker{d: d, from: d.queries, peers: len(d.sa.workers), most: maxBatch, stats: &d.sa.workers[i], burst: burstsOf(d.cfg.Port)}
		running.Go(func() { w.run(ctx) })
	}
	for i := range d.sa.tables {
		w := worker{d: d, from: d.tables, peers: len(d.sa.tables), most: 1, stats: &d.sa.tables[i]}
		running.Go(func() { w.run(ctx) })
	}
	return func() {
		// Whoever floods must not keep the workers here, and whoever waits need
		// not wait for a time-out of his own.
		waited := slices.Concat(d.queries.end(), d.tables.end(), d.changes.end())
		cancel()
		running.Wait()
		for _, q := range waited {
			d.busy(q.p, busyStopping, &d.sa.changing)
		}
	}
}

// loop is the goroutine that owns the core.
type loop struct {
	d     *Daemon
	ctx   context.Context
	out   sm.Output
	timer *time.Timer
	due   mad.Time

	told       eventLimit
	cut        alarm // when what told left out is to be told
	stopping   bool
	stopped    bool
	result     error
	claimed    bool // IsSM was ours
	sendFailed uint64

	changes map[uint64]chan<- error // of partitions, by tag: who waits to hear that one is stored
	tag     uint64                  // of the last one
}

func (l *loop) run(start sm.Start) error {
	d := l.d
	// Those of the store are in force from the start: nobody loses a P_Key or an
	// address because the manager was started again.
	l.setMembers()
	l.setLeases()
	l.step(start)
	if err := d.cfg.PartitionsErr; err != nil {
		d.note(slog.LevelError, sm.KindPartitionsRefused.String(), "the partitions given at the start cannot be read, so those that are stored stay in force: mend the file and send SIGHUP",
			map[string]string{"err": err.Error()})
	}
	if d.cfg.Partitions != nil {
		l.step(sm.SetPartitions{Policy: d.cfg.Partitions})
	}
	// Before the first sweep needs them.
	l.setGroups()
	l.setAliases()
	cancelled := l.ctx.Done()
	var stopBy <-chan time.Time
	var progress <-chan time.Time
	if d.cfg.Progress != nil {
		t := time.NewTicker(progressEvery)
		defer t.Stop()
		progress = t.C
	}
	for !l.stopped {
		select {
		case p := <-d.packets:
			l.step(sm.Received{P: p})
			d.free.put(p)
		case <-l.timer.C:
			l.step(sm.Timer{})
		case <-l.cut.timer.C:
			l.cut.rang()
			d.tellCut(l.told.end())
		case r := <-d.jobs:
			l.step(sm.JobDone{Result: r})
		case c := <-d.commands:
			l.command(c)
		case <-d.groups.bell:
			l.setGroups()
		case <-d.reads.bell:
			if nodes, ok := d.reads.take(); ok {
				l.step(sm.ReadTables{Nodes: nodes})
			}
		case <-d.aliases.bell:
			l.setAliases()
		case <-d.vm.members.bell:
			l.setMembers()
		case <-d.vm.leases.bell:
			l.setLeases()
		case a := <-d.ask:
			a <- d.core.Status()
		case <-progress:
			d.cfg.Progress(d.core.Status())
		case err := <-d.lost:
			if l.stopping {
				return l.result
			}
			l.step(sm.PortLost{})
			return fmt.Errorf("%w: %s: %w", ErrPortLost, d.cfg.PortName, err)
		case <-cancelled:
			cancelled = nil
			l.stop(nil)
		case <-stopBy:
			return errors.Join(l.result, errors.New("the manager did not stop in time; IsSM may still be set"))
		}
		if l.stopping && stopBy == nil {
			stopBy = time.After(stopTime)
		}
	}
	return l.result
}

// tell tells a notice, as far as the limit of its kind goes.
func (l *loop) tell(n *sm.Notice) {
	if limited[n.Kind] && n.Level > sm.Debug {
		ok, cut := l.told.allow(l.d.now(), n.Kind.String(), n.Where.LID)
		l.d.tellCut(cut)
		l.cut.set(l.d.now(), l.told.due())
		if !ok {
			bump(&l.d.noticesCut)
			return
		}
	}
	l.d.tell(n)
}

// setGroups hands the core the groups that the SA wants routed, if they are
// others than before.
func (l *loop) setGroups() {
	if g, ok := l.d.groups.take(); ok {
		l.step(sm.SetGroups{Groups: g})
	}
}

func (l *loop) setAliases() {
	if a, ok := l.d.aliases.take(); ok {
		l.step(sm.SetAliases{Aliases: a})
	}
}

// stop ends the run with err once the core has let go of the subnet.
func (l *loop) stop(err error) {
	if l.stopping {
		return
	}
	l.stopping = true
	l.result = err
	l.step(sm.Stop{})
}

// claimEvery is how often a port is claimed that somebody else has.
const claimEvery = 50 * time.Millisecond

// claim sets IsSM of the port. A manager that was killed may have it for a moment still, until
// the kernel or the simulator has noticed: that is waited for.
func (l *loop) claim() error {
	d := l.d
	err := d.cfg.Port.SetIsSM(true)
	wait := d.cfg.ClaimWait
	if err == nil || wait <= 0 {
		return err
	}
	d.note(slog.LevelWarn, "issm", "the port is claimed by another manager, or by one that was killed just now: waiting up to "+wait.String(),
		map[string]string{"err": err.Error()})
	limit, again := time.NewTimer(wait), time.NewTicker(claimEvery)
	defer limit.Stop()
	defer again.Stop()
	for {
		select {
		case <-again.C:
			if err = d.cfg.Port.SetIsSM(true); err == nil {
				return nil
			}
		case <-limit.C:
			return fmt.Errorf("after %v: %w", wait, err)
		case <-l.ctx.Done():
			return err
		}
	}
}

// step hands one event to the core and does what it asks for.
func (l *loop) step(ev sm.Event) {
	d := l.d
	l.out.Reset()
	d.core.Step(d.now(), ev, &l.out)
	out := &l.out
	var then sm.Event
	if len(out.Persist) > 0 || out.PersistGen != 0 {
		then = sm.Persisted{Gen: out.PersistGen, Err: d.cfg.Store.Apply(out.Persist)}
	}
	switch out.IsSM {
	case sm.IsSMClaim, sm.IsSMRelease:
		claim := out.IsSM == sm.IsSMClaim
		var err error
		if claim && !l.claimed {
			err = l.claim()
		} else {
			err = d.cfg.Port.SetIsSM(claim)
		}
		if err != nil && claim && !l.claimed {
			// Before anything is sent: two managers on one port would take
			// each other's answers.
			l.stopped, l.result = true, fmt.Errorf("%w: %s: %w", ErrBusy, d.cfg.PortName, err)
			return
		}
		l.claimed = l.claimed || claim
		if err != nil {
			d.note(slog.LevelError, "issm", "IsSM of the port cannot be changed", map[string]string{"err": err.Error()})
		}
	}
	for i := range out.Sends {
		if err := d.cfg.Port.Send(&out.Sends[i]); err != nil {
			l.sendFailed++
			if l.sendFailed == 1 || l.sendFailed%1000 == 0 {
				d.note(slog.LevelWarn, "send_failed", "the port does not take a MAD; it will be sent again",
					map[string]string{"err": err.Error(), "count": fmt.Sprint(l.sendFailed)})
			}
		}
	}
	for _, j := range out.Jobs {
		go d.compute(j)
	}
	if out.Publish != nil {
		d.snap.Store(out.Publish)
		if d.cfg.OnPublish != nil && out.Publish.State == subnet.Master {
			d.cfg.OnPublish(out.Publish)
		}
	}
	d.passOn(out)
	var up bool
	var refused error
	for i := range out.Notices {
		n := &out.Notices[i]
		l.tell(n)
		switch n.Kind {
		case sm.KindPartitions, sm.KindPartitionsRefused:
			l.changed(n)
		case sm.KindSubnetUp:
			up = true
		case sm.KindRouteRefused, sm.KindPortDown:
			refused = fmt.Errorf("%w: %s", ErrRefused, n)
		}
	}
	l.arm(out.Timer)
	l.stopped = l.stopped || out.Stopped
	// The status is copied when something worth telling happened; whoever
	// wants it fresher asks the loop.
	if told := len(out.Notices) > 0 || out.Publish != nil; told {
		st := d.core.Status()
		d.status.Store(&st)
		switch {
		case !st.Up:
			d.upAt.Store(0)
		case d.upAt.Load() == 0:
			d.upAt.Store(time.Now().UnixNano())
		}
		if up && d.cfg.OnUp != nil {
			d.cfg.OnUp(d.snap.Load())
		}
		if d.cfg.Once && !l.stopping {
			switch {
			case up:
				l.stop(nil)
				return
			case refused != nil:
				l.stop(refused)
				return
			case st.State == subnet.Standby:
				l.stop(fmt.Errorf("%w: port GUID %v, priority %d", ErrStandby, st.Master.GUID, st.Master.Priority))
				return
			}
		}
	}
	if out.Plan != nil && d.cfg.OnPlan != nil && !l.stopping {
		d.cfg.OnPlan(out.Plan)
		l.stop(nil)
		return
	}
	if then != nil {
		l.step(then)
	}
}

func (l *loop) arm(due mad.Time) {
	if due == l.due {
		return
	}
	l.due = due
	if due == mad.Never {
		l.timer.Stop()
		return
	}
	l.timer.Reset(max(0, due.Sub(l.d.now())))
}

// freeList recycles packets between the receiver and whoever used them.
type freeList chan *mad.Packet

func (f freeList) get() *mad.Packet {
	select {
	case p := <-f:
		return p
	default:
		return &mad.Packet{Data: make([]byte, 0, ib.MADLen)}
	}
}

func (f freeList) put(p *mad.Packet) {
	select {
	case f <- p:
	default:
	}
}
