// Package daemon runs the managers in real time. It owns the clock, the port, the store and the
// workers, and implements the effects of package shell, which drives the cores: the subnet
// manager's core in one goroutine, the SA's in a second, the address manager's in a third.
// Workers on all processors answer queries from the published state, without these goroutines.
// Packages api/show and api/metrics present the published state.
//
// A Daemon is made by New, run once by Run, and serves the API (it implements
// api.Backend) from any goroutine while it runs.
package daemon

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"heddle/api/show"
	"heddle/congestion"
	"heddle/daemon/eventlog"
	"heddle/daemon/mailbox"
	"heddle/daemon/recent"
	"heddle/drain"
	"heddle/ib"
	"heddle/mad"
	"heddle/partition"
	"heddle/perf"
	"heddle/perf/dftree"
	"heddle/perf/findings"
	"heddle/sa"
	"heddle/sa/holder"
	"heddle/settings"
	"heddle/shell"
	"heddle/sm"
	"heddle/store"
	"heddle/store/ring"
	"heddle/subnet"
	"heddle/vm"
)

// Errors of Run that callers decide on.
var (
	// ErrPortLost: the port is gone (device removed, simulator ended).
	ErrPortLost = errors.New("the port is lost")
	// ErrStandby: with Once, another manager is master.
	ErrStandby = errors.New("another subnet manager is master")
	// ErrBusy: the port cannot be claimed, because another manager runs on it.
	ErrBusy = errors.New("the port cannot be claimed (is another subnet manager running on it?)")
	// ErrRevoked: another manager may drive the subnet now (Config.Revoked).
	ErrRevoked = errors.New("this manager may not drive the subnet any more")
	// ErrRefused: with Once, the subnet cannot be brought up.
	ErrRefused = errors.New("the subnet was not brought up")
)

// Config configures a daemon. Port, Core and Store are required.
type Config struct {
	Port     mad.Transport
	PortName string // as given by the user, for messages
	// ClaimWait is how long the start waits for a port that another process has claimed and may
	// release soon, because it was killed; 0 = no wait.
	ClaimWait time.Duration
	Core      sm.Config
	Store     store.Store
	Groups    []sm.Group // permanent multicast groups
	// Partitions replace the stored partitions. If nil, the stored ones stay; without any,
	// every port is a full member of the default partition.
	Partitions *partition.Policy
	// PartitionsFile is where they were read, for messages; empty: nowhere.
	PartitionsFile string
	// PartitionsErr says why Partitions could not be read, so that the stored ones stay; it is
	// logged at the start.
	PartitionsErr error
	Log           *slog.Logger
	// Wall is the time in which ends of leases are stored, in nanoseconds since 1970; nil: that of this
	// machine.
	Wall func() int64
	// Warm is what the master published last whose place this manager is to take now: the SA
	// answers from it until the subnet is read. nil: the subnet is read first.
	Warm *subnet.Snapshot
	// Float is how the LIDs of that master's port come to Port (sm.Config.FloatLID); nil: not known.
	Float *sm.Float
	// Once ends Run when the subnet is up, with everything left Active.
	Once bool
	// OnUp is called each time the subnet has come up, from the loop.
	OnUp func(*subnet.Snapshot)
	// OnPublish is called with every snapshot of a master, from the loop.
	OnPublish func(*subnet.Snapshot)
	// OnState is called when the state of the mastership is another one, from the loop.
	OnState func(subnet.SMState)
	// OnPlan is called with the result of Core.PlanOnly.
	OnPlan func(*sm.Plan)
	// Progress is called about ten times a second during a sweep.
	Progress func(sm.Status)
	// SA are the options of answers; nil: no request is trusted.
	SA *sa.Options
	// Registry configures the SA's core; begin with sa.Defaults(). The daemon sets SAKey,
	// TrustLocal, FirstTID and TransportTimed.
	Registry sa.Config
	// QueuePerRequester is how many SA requests of one port may wait, and Queue how many
	// altogether (at most 65,535); 0: those of settings. Changes, tables and other queries wait
	// in separate queues. Further requests are answered BUSY.
	QueuePerRequester, Queue int
	// Cores is how many processors answers and routing jobs share; 0: what the runtime has.
	Cores int
	// VM are the settings of the address manager.
	VM vm.Config
	// Perf configures the performance manager, which sets FirstTID and TransportTimed itself; nil:
	// no counter is read.
	Perf *perf.Config
	// Thresholds are those of findings; nil: those of the table.
	Thresholds *findings.Thresholds
	// Actions say what rules of findings may do with links.
	Actions drain.Config
	// Cabling is the plan of the cables; nil: there is none.
	Cabling *CablingPlan
	// DFTree says what becomes of flows to hot spots, which the performance manager finds.
	DFTree dftree.Config
	// Congestion configures the congestion control manager in the same way. In its mode Off it sends
	// nothing until a user gives it another.
	Congestion congestion.Config
	// Meter knows how busy links are; nil: nobody measures.
	Meter show.Meter
	// History keeps what the subnet looked like (package subnet/past); nil: memory does.
	History *ring.Ring
	// Events gets what happens, beside the log; nil: the daemon has its own.
	Events *eventlog.Log
	// Lead is called from the loop when the core has become master of the subnet, before it stores or
	// sends anything as such, and Led when it is master no more. An error of Lead ends Run with it,
	// at once. Nil: nobody has to be asked, and a manager on standby stores what it likes. Otherwise
	// the store belongs to the master: what is to be stored on standby is dropped, and Lead is told
	// so, because the cores then know more than the store. A Hint that it brings is taken before
	// anything else happens.
	Lead func(dropped bool) error
	Led  func()
	// Promises keeps what answers rest on while the store may have something else; nil: it never has.
	Promises Promises
	// Hints brings what other managers say, newest first read; nil: nothing.
	Hints <-chan Hint
	// Revoked is the error of Port.Recv which says that another manager may drive the subnet from
	// now on; nil: there is none. Run then ends at once with ErrRevoked. It writes nothing more,
	// because the port takes nothing more.
	Revoked error
}

// Promises are records that hosts were told of by a master that cannot write, and that another manager may
// withdraw meanwhile. Any goroutine may call the methods.
type Promises interface {
	// Unsure reports whether that is so now.
	Unsure() bool
	// Promise is called before the answers leave. It keeps the list.
	Promise(list []store.Record)
}

// Hint is what is known of other managers otherwise than from the subnet.
type Hint struct {
	// Allies have the same stored state as this manager.
	Allies []sm.Ally
	// Warm is what the master publishes, nil if that is not known.
	Warm *subnet.Snapshot
	// Unsure is what a manager that is master is to be told of its store.
	Unsure sm.SetUnsure
}

const (
	smpQueue    = 4096 // packets for the core
	reportQueue = 1024 // answers to Reports, and traps, for the SA's loop
	// maxTableWorkers bounds the memory of table responses in preparation, at most 128 MiB each
	// (sa.Answer).
	maxTableWorkers = 4
	stopTime        = 5 * time.Second
	progressEvery   = 100 * time.Millisecond
)

// Daemon runs one manager on one port.
type Daemon struct {
	cfg    Config
	log    *slog.Logger
	core   *sm.Core
	clock  clock
	events *eventlog.Log

	shared shell.Shared              // published state, and mail between the cores
	upAt   atomic.Int64              // Unix nanoseconds; 0 while the subnet is not up
	status atomic.Pointer[sm.Status] // as of the last notice or snapshot
	pictures
	repairs recent.Repairs
	sweeps  recent.Sweeps

	packets *mailbox.Box  // to the loop
	smpsCut atomic.Uint64 // packets dropped because packets was full
	// noticesCut counts suppressed notices. Several goroutines write it.
	noticesCut atomic.Uint64
	free       freeList
	jobs       chan *sm.JobResult
	commands   chan command // of operators
	ask        chan chan sm.Status
	lost       chan error
	jobSlot    chan struct{} // one computation at a time
	cores      int           // Config.Cores, never 0

	// The SA.
	durable
	options atomic.Pointer[sa.Options]
	held    *holder.Table // where answers note the paths that they hand out; nil: nobody needs to know
	single  bool          // the port cannot segment
	sa      saStats
	recv    receiver // of receive

	// To the workers, and to the SA's loop:
	queries *queue
	tables  *queue // queries that may take long
	changes *queue
	reports chan *mad.Packet
	// Questions to the SA's loop.
	signalAsks chan signalAsk
	mails

	pulses     *pulses
	standby    standby
	vm         vmSide // the address manager
	gsi               // managers with requests of their own on QP1
	finder     finder // what is wrong, by the rounds of counters
	feed       *feed
	migrations migrations
}

// pictures are what the page asks for again and again, the maps of before, and plans.
type pictures struct {
	page    pageViews
	dates   dates
	history *history
	planner planner
}

// durable is what is known of changes that the store lacks.
type durable struct {
	unsaved atomic.Pointer[unsavedChanges] // of the SA; nil: none
	settled bool                           // the core was when it was told to stop; for Settled
}

// mails are rung when something waits in shared for a loop.
type mails struct{ smMail, saMail, vmMail bell }

// gsi are a Daemon's managers whose requests go to agents on QP1.
type gsi struct {
	perf       perfSide       // the performance manager
	congestion congestionSide // the congestion control manager
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
		clock:    clock{started: time.Now()},
		events:   cmp.Or(cfg.Events, eventlog.New()),
		packets:  mailbox.New(smpQueue),
		free:     make(freeList, smpQueue),
		jobs:     make(chan *sm.JobResult, 1),
		commands: make(chan command, 1),
		ask:      make(chan chan sm.Status),
		lost:     make(chan error, 1),
		jobSlot:  make(chan struct{}, 1),
		cores:    cmp.Or(cfg.Cores, runtime.GOMAXPROCS(0)),

		single:     !cfg.Port.SegmentsRMPP(),
		queries:    newQueue(each, total),
		tables:     newQueue(each, total),
		changes:    newQueue(each, total),
		reports:    make(chan *mad.Packet, reportQueue),
		signalAsks: make(chan signalAsk),
		mails:      mails{smMail: newBell(), saMail: newBell(), vmMail: newBell()},
		vm:         newVMSide(),
		pulses:     newPulses(),
		finder:     finder{cables: cableWatch{bell: newBell()}},
	}
	d.planner.editing = make(chan struct{}, 1)
	d.planner.partitions.Store(&cfg.PartitionsFile)
	d.shared.WakeSM, d.shared.WakeSA, d.shared.WakeVM = d.smMail.ring, d.saMail.ring, d.vmMail.ring
	d.startAgents()
	d.shared.Standing = cfg.Groups
	d.feed = newFeed(&d.migrations)
	d.history = newHistory(cfg.History)
	d.finder.run = d.events.NextRun()
	d.options.Store(cfg.SA)
	d.sa.workers = make([]answerStats, d.cores)
	d.sa.tables = make([]answerStats, min(maxTableWorkers, max(1, d.cores-1)))
	return d
}

// Snapshot is the newest published state, nil before the first.
func (d *Daemon) Snapshot() *subnet.Snapshot { return d.shared.Snap.Load() }

// View is the SA's registry as queries see it; nil before Run.
func (d *Daemon) View() *sa.View { return d.shared.View.Load() }

// SetOptions changes the options of answers for later requests. The options that decide whether
// a request is trusted stay those of the start.
func (d *Daemon) SetOptions(o sa.Options) {
	o.SAKey, o.TrustLocal = d.cfg.SA.SAKey, d.cfg.SA.TrustLocal
	d.options.Store(&o)
}

// Busy reports whether the manager that runs is master of a subnet that is up, and has something to do.
func (d *Daemon) Busy() bool {
	st := d.fresh()
	return st.Up && st.State == subnet.Master && (!st.Settled || d.unsaved.Load() != nil)
}

// Settled reports, after Run, whether the manager was stopped while the subnet was as Snapshot shows it and
// all was stored.
func (d *Daemon) Settled() bool { return d.settled && d.unsaved.Load() == nil }

func (d *Daemon) now() mad.Time { return d.clock.now() }

// clock counts the time since the start, or that of a test.
type clock struct {
	started time.Time // epoch of mad.Time
	virtual func() mad.Time
}

func (c *clock) now() mad.Time {
	if c.virtual != nil {
		return c.virtual()
	}
	return mad.Time(time.Since(c.started))
}

// Run manages the subnet until ctx ends, the port is lost or, with Once, the
// subnet is up. It closes neither the port nor the store.
func (d *Daemon) Run(ctx context.Context) error {
	stored, err := d.cfg.Store.Load()
	if err != nil {
		return err
	}
	endSA := d.administer(stored.Records)
	defer endSA()
	endVM := d.manageAddresses(vm.New(d.cfg.VM), stored.Records)
	defer endVM()
	defer d.readCounters()()
	defer d.controlCongestion()()
	defer d.keepHistory()()
	defer d.keepPorts(stored.Records)()
	defer d.watchCables()()
	go d.receive() // ends when the port is closed, which the caller does after Run
	l := newLoop(ctx, d)
	defer l.alarm.timer.Stop()
	defer l.cut.timer.Stop()
	defer l.stale.timer.Stop()
	defer l.unchanged()
	return l.run(stored)
}

// administer restores the SA's stored state and starts its goroutines; end stops them and waits
// for them.
func (d *Daemon) administer(records []store.Record) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	l := newSALoop(d)
	wall := d.cfg.Wall
	if wall == nil {
		wall = func() int64 { return time.Now().UnixNano() }
	}
	l.shell.Start(records, wall())
	running.Go(func() { l.run(ctx) })
	running.Go(func() { l.alarm.nap.run(ctx) })
	for i := range d.sa.workers {
		w := worker{d: d, from: d.queries, peers: len(d.sa.workers), most: maxBatch, stats: &d.sa.workers[i], burst: burstsOf(d.cfg.Port)}
		running.Go(func() { w.run(ctx) })
	}
	for i := range d.sa.tables {
		w := worker{d: d, from: d.tables, peers: len(d.sa.tables), most: 1, stats: &d.sa.tables[i]}
		running.Go(func() { w.run(ctx) })
	}
	return func() {
		// At the end, queued requests must not occupy the workers. They are answered BUSY, so
		// that requesters need not wait for a timeout, unless another manager answers them.
		waited := slices.Concat(d.queries.end(), d.tables.end(), d.changes.end())
		cancel()
		running.Wait()
		for _, q := range waited {
			if !d.giveBack(q.p) {
				d.busy(q.p, busyStopping, &d.sa.changing)
			}
		}
	}
}

// freeList recycles packets between the receiver and the other goroutines.
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

// pageViews keep what the page asks for again and again.
type pageViews struct {
	show.Artist
	show.Tables
}
