// Package process runs the managers for the life of a process. A process has two phases: it is
// active while a Daemon runs in it, and on standby otherwise. An Authority decides when the process
// may be active, with which state and on which port:
//
//   - Single: this process alone, from its start. SMInfo elects the master of the subnet, and the
//     manager on standby is a Daemon too.
//   - Quorum: one of several processes that share their state in etcd. SMInfo elects the master.
//   - Pair: one of two processes that share their state (package replica/live). On standby no
//     manager runs.
//
// The API, /metrics and the events live as long as the process.
//
// Run is called once. All other methods may be called concurrently, also before and after Run.
package process

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"heddle/api"
	"heddle/daemon"
	"heddle/daemon/eventlog"
	"heddle/mad"
	"heddle/sa"
	"heddle/sm"
	"heddle/store"
	"heddle/store/ring"
	"heddle/subnet"
)

// Authority decides when this process may run a manager, and with which state.
type Authority interface {
	// Run runs the authority's own tasks until ctx ends. An error ends the process.
	Run(ctx context.Context) error
	// Await returns when this process may run a manager, or with an error.
	Await(ctx context.Context) (*Mandate, error)
	// Ended is called when the manager of a mandate has ended, with its error. The process then
	// waits for the next mandate, or ends with the error that is returned.
	Ended(m *Mandate, err error) (again bool, _ error)
	// Leave is called when the process is to end, while its manager still runs, so that another one
	// becomes active without interruption. It returns when this process may end.
	Leave(ctx context.Context)
	// Store has the state of this process, to be read in any phase.
	Store() store.Store
	// HA is the status of the authority; Active is that of the process.
	HA() api.HA
	Handover(ctx context.Context) error
	Takeover(ctx context.Context, stale bool) error
	Forks() ([]api.Fork, error)
	// Ready reports whether a process on standby can take over.
	Ready() (bool, string)
	// Metrics are those of the authority; nil: there are none.
	Metrics() prometheus.Gatherer
}

// Mandate permits a manager to run.
type Mandate struct {
	// Port is the manager's for as long as the mandate lasts. When it ends, Port.Recv fails with
	// Revoked, and the port accepts no more packets. Revoked is nil if the mandate has no end.
	Port    mad.Transport
	Revoked error
	Store   store.Store
	// Configure changes the configuration of the cores as the mandate needs it; may be nil.
	Configure func(*sm.Config, *sa.Config)
	// Inherited: the managers of other processes wrote Store too, so its contents take precedence
	// over a file that was given at the start.
	Inherited bool
	// Lead and Led are those of daemon.Config; may be nil.
	Lead func(dropped bool) error
	Led  func()
	// Warm returns the last snapshot of the previous manager, nil if that is not known, and the
	// moves of the LIDs of its port to Port, nil if they do not move. It is called once, before Store
	// is changed. Published is called with each snapshot of a subnet that is up, for the next manager.
	// Both may be nil.
	Warm      func() (*subnet.Snapshot, *sm.Float)
	Published func(*subnet.Snapshot)
	// Began is called with the manager before it runs, and Stopped when it has ended; settled says that it
	// was stopped while nothing was to be done. Both may be nil.
	Began   func(*daemon.Daemon)
	Stopped func(settled bool)
	// Wall is the time in which ends of leases are stored, in nanoseconds since 1970; nil: that of this
	// machine.
	Wall func() int64
	// Hints and Promises are those of daemon.Config; may be nil.
	Hints    <-chan daemon.Hint
	Promises daemon.Promises
	// Watch runs during the manager's run; turns is its ManagerTurns. It returns when ctx ends. May
	// be nil.
	Watch func(ctx context.Context, turns func(ctx context.Context) error)
	// Up is called when the manager has brought the subnet up; may be nil.
	Up func()
}

// Config configures a Process. Authority and New are required.
type Config struct {
	Authority Authority
	// New makes the manager of a mandate.
	New func(m *Mandate, events *eventlog.Log) (*daemon.Daemon, error)
	// PortName is the name of the port, for people.
	PortName string
	// Events records the events of all phases; nil: the process has its own.
	Events *eventlog.Log
	// Changed is called when a phase has begun; may be nil.
	Changed func()
	// Audit keeps the audit log; nil: there is none.
	Audit *ring.Ring
	// Control changes the settings of the program; nil: they cannot be changed while it runs.
	Control api.Controller
	// Metrics are shown in all phases, besides those of the manager and of the authority; may be nil.
	Metrics prometheus.Gatherer
	// Log may be nil.
	Log *slog.Logger
}

// Process is the outer loop of a program that manages a subnet.
type Process struct {
	cfg     Config
	events  *eventlog.Log
	started time.Time
	manager atomic.Pointer[daemon.Daemon] // nil: standby
	tokens  tokens

	mu    sync.Mutex
	views []*view // handlers of the API; guarded by mu
}

// New returns a process on standby, which knows the named tokens of the authority's store.
func New(cfg Config) *Process {
	p := &Process{cfg: cfg, events: cmp.Or(cfg.Events, eventlog.New()), started: time.Now()}
	p.events.SetSpare(true) // until a manager runs
	p.tokens.follow.Registry = &p.tokens.registry
	if err := p.tokens.poll(cfg.Authority.Store()); err != nil {
		p.log().Error("the named tokens cannot be read; they are refused", "kind", "tokens_unread", "err", err)
	}
	return p
}

// Daemon is the manager that runs now; nil on standby.
func (p *Process) Daemon() *daemon.Daemon { return p.manager.Load() }

// Run runs managers until ctx ends, one has finished, or an error occurs.
func (p *Process) Run(ctx context.Context) error {
	a := p.cfg.Authority
	whole, end := context.WithCancel(context.WithoutCancel(ctx)) // of the authority
	defer end()
	inner, stop := context.WithCancel(whole) // of managers: these end before it
	defer stop()
	defer context.AfterFunc(ctx, func() {
		a.Leave(whole)
		stop()
	})()
	ran := make(chan error, 1)
	go func() {
		defer stop()
		ran <- a.Run(whole)
	}()
	followed := make(chan struct{})
	go func() {
		defer close(followed)
		p.followTokens(whole)
	}()
	err := p.phases(inner)
	end()
	<-followed
	return errors.Join(err, <-ran)
}

// phases runs one manager after the other until ctx ends.
func (p *Process) phases(ctx context.Context) error {
	a := p.cfg.Authority
	for {
		m, err := a.Await(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		again, err := a.Ended(m, p.reign(ctx, m))
		if err != nil || !again || ctx.Err() != nil {
			return err
		}
	}
}

// reign runs the manager of a mandate.
func (p *Process) reign(ctx context.Context, m *Mandate) error {
	d, err := p.cfg.New(m, p.events)
	if err != nil {
		return err
	}
	p.tokens.enter(m.Store)
	defer p.tokens.enter(nil)
	p.enter(d)
	defer p.enter(nil)
	if m.Watch != nil {
		watching, end := context.WithCancel(ctx)
		var done sync.WaitGroup
		done.Go(func() { m.Watch(watching, d.ManagerTurns) })
		defer done.Wait()
		defer end()
	}
	if m.Began != nil {
		m.Began(d)
	}
	err = d.Run(ctx)
	if m.Stopped != nil {
		m.Stopped(err == nil && d.Settled())
	}
	return err
}

// enter begins a phase: with a manager, or on standby.
func (p *Process) enter(d *daemon.Daemon) {
	p.mu.Lock()
	p.manager.Store(d)
	p.events.SetSpare(d == nil)
	metrics := p.metrics(d)
	for _, v := range p.views {
		v.show(p, d, metrics)
	}
	p.mu.Unlock()
	if p.cfg.Changed != nil {
		p.cfg.Changed()
	}
}
