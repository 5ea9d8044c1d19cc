package process

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"heddle/api"
	"heddle/api/metrics"
	"heddle/daemon"
	"heddle/internal/version"
	"heddle/replica/wire"
	"heddle/store/backup"
	"heddle/subnet"
	"heddle/vm"
)

// view is a handler of the API that follows the phases.
type view struct {
	now atomic.Pointer[func() http.Handler]
	o   api.Options
}

func (v *view) ServeHTTP(w http.ResponseWriter, r *http.Request) { (*v.now.Load())().ServeHTTP(w, r) }

// show has the view show a phase. Its first request makes the handler: that takes tens of
// milliseconds, for which a manager that takes over shall not wait.
func (v *view) show(p *Process, d *daemon.Daemon, metrics func() prometheus.Gatherer) {
	o := v.o
	o.HA = p
	handler := sync.OnceValue(func() http.Handler {
		o.Metrics = metrics()
		if d != nil {
			return api.New(d, o)
		}
		return api.NewSpare(p, o)
	})
	v.now.Store(&handler)
}

// Handler returns a handler of the API in all phases. HA, Metrics, Tokens, TokenKeeper, Audit and Control
// of o are set by it.
func (p *Process) Handler(o api.Options) http.Handler {
	o.Tokens, o.TokenKeeper, o.Audit, o.Control = &p.tokens.registry, keeper{p}, p.Auditor(), p.cfg.Control
	if o.Limits == nil { // one for all phases
		o.Limits = api.NewLimits(0)
	}
	v := &view{o: o}
	p.mu.Lock()
	defer p.mu.Unlock()
	d := p.Daemon()
	v.show(p, d, p.metrics(d))
	p.views = append(p.views, v)
	return v
}

// metrics are the contents of /metrics in a phase, one for all views: each sweep is counted once.
func (p *Process) metrics(d *daemon.Daemon) func() prometheus.Gatherer {
	return sync.OnceValue(func() prometheus.Gatherer {
		var list prometheus.Gatherers
		if d != nil {
			list = append(list, d.Metrics())
		} else {
			list = append(list, metrics.Idle())
		}
		if g := p.cfg.Authority.Metrics(); g != nil {
			list = append(list, g)
		}
		if g := p.cfg.Metrics; g != nil {
			list = append(list, g)
		}
		return list
	})
}

// Auditor keeps the audit log; nil: there is none.
func (p *Process) Auditor() api.Auditor {
	if p.cfg.Audit == nil {
		return nil
	}
	return &auditor{p, p.cfg.Audit}
}

// HA implements api.Availability, as do the methods below.
func (p *Process) HA() api.HA {
	h := p.cfg.Authority.HA()
	h.Active = p.Daemon() != nil
	return h
}

func (p *Process) Handover(ctx context.Context) error { return p.cfg.Authority.Handover(ctx) }

func (p *Process) Takeover(ctx context.Context, stale bool) error {
	return p.cfg.Authority.Takeover(ctx, stale)
}

func (p *Process) Forks() ([]api.Fork, error) { return p.cfg.Authority.Forks() }

// SetPriority changes the priority of this manager in SMInfo, 0 to 15, for an authority that
// answers SMInfo while no manager runs. A running manager gets it by daemon.Daemon.ConfigureCore.
func (p *Process) SetPriority(priority uint8) {
	if a, ok := p.cfg.Authority.(*Pair); ok {
		a.pair.SetPriority(priority)
	}
}

// SetSettings says what the settings are now that all managers of the subnet should have alike. Without other managers
// nobody wants to know.
func (p *Process) SetSettings(list []wire.Setting) {
	switch a := p.cfg.Authority.(type) {
	case *Pair:
		a.pair.SetSettings(list)
	case *Quorum:
		if a.Members != nil {
			a.Members.SetSettings(list)
		}
	}
}

// looper is an Authority with a loop of its own.
type looper interface {
	// Turns is that of a Daemon.
	Turns(ctx context.Context) error
}

// Healthy also implements the watchdog of the service manager.
func (p *Process) Healthy(ctx context.Context) error {
	if l, ok := p.cfg.Authority.(looper); ok {
		if err := l.Turns(ctx); err != nil {
			return err
		}
	}
	d := p.Daemon()
	if d == nil {
		return nil
	}
	err := d.Turns(ctx)
	if p.Daemon() != d {
		return nil // it has ended meanwhile
	}
	return err
}

// Status implements api.Spare, as do the methods below. They show a process on standby.
func (p *Process) Status() api.Status {
	h := p.HA()
	st := api.Status{
		Version: version.Version, State: subnet.NotActive.String(), Phase: h.State, Port: p.cfg.PortName,
		Damped: []api.Damped{}, Started: p.started,
	}
	if h.Pair != nil {
		st.State, st.PortGUID, st.LID, st.Priority, st.Stale = subnet.Standby.String(), h.Pair.PortGUID, h.Pair.LID, h.Pair.Priority, h.Stale
		if h.Pair.PeerActive {
			st.Master = h.Pair.PeerGUID
		}
	}
	return st
}

func (p *Process) Ready() (bool, string) {
	if d := p.Daemon(); d != nil {
		return d.Ready()
	}
	return p.cfg.Authority.Ready()
}

func (p *Process) Events(after uint64) ([]api.Event, <-chan struct{}) { return p.events.Since(after) }

func (p *Process) FindEvents(q api.EventsQuery) ([]api.Event, error) { return p.events.Find(q) }

func (p *Process) Backup(w io.Writer) error { return backup.WriteStore(w, p.cfg.Authority.Store()) }

// Memberships are those of the manager that runs now, for the UFM calls.
func (p *Process) Memberships() api.Memberships { return memberships{p} }

type memberships struct{ p *Process }

func (m memberships) Perform(ctx context.Context, ops []vm.Op) ([]vm.Reply, error) {
	if d := m.p.Daemon(); d != nil {
		return d.Perform(ctx, ops)
	}
	return nil, m.Master()
}

func (m memberships) Interfaces() *vm.View {
	if d := m.p.Daemon(); d != nil {
		return d.Interfaces()
	}
	return nil
}

func (m memberships) Master() error {
	if d := m.p.Daemon(); d != nil {
		return d.Master()
	}
	if at := m.p.HA().ActiveAt; at != "" {
		return fmt.Errorf("%w: ask the one at %s", api.ErrNotMaster, at)
	}
	return fmt.Errorf("%w, and the master is not known", api.ErrNotMaster)
}

func (m memberships) VPorts() []api.VPort {
	if d := m.p.Daemon(); d != nil {
		return d.VPorts()
	}
	return nil
}
