package daemon

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"heddle/store"
)

// pulse shows whether a loop turns.
type pulse struct {
	name string
	ask  chan struct{} // the loop takes what is sent
	// storing: the loop waits for the store. A disk or a partner that is silent is no reason to
	// restart the process, and shows elsewhere.
	storing atomic.Bool
}

// pulses are those of the loops that a subnet depends on.
type pulses struct{ sm, sa, vm pulse }

func newPulses() *pulses {
	p := &pulses{}
	p.sm.name, p.sa.name, p.vm.name = "manager", "SA", "address manager"
	for _, x := range p.all() {
		x.ask = make(chan struct{})
	}
	return p
}

func (p *pulses) all() []*pulse { return []*pulse{&p.sm, &p.sa, &p.vm} }

// store applies ops for a loop.
func (d *Daemon) store(p *pulse, ops []store.Op) error {
	p.storing.Store(true)
	defer p.storing.Store(false)
	return d.apply(ops)
}

// apply stores ops, unless this manager is on standby.
func (d *Daemon) apply(ops []store.Op) error {
	if d.standby.drops() {
		return nil
	}
	return d.cfg.Store.Apply(ops)
}

// Turns returns nil when each loop has turned since the call, or waits for the store, and an error
// if one has not when ctx ends. It is to be called while Run runs.
func (d *Daemon) Turns(ctx context.Context) error { return allTurn(ctx, d.pulses.all()...) }

// ManagerTurns is Turns for the loop alone that answers SMInfo.
func (d *Daemon) ManagerTurns(ctx context.Context) error { return allTurn(ctx, &d.pulses.sm) }

func allTurn(ctx context.Context, list ...*pulse) error {
	for _, p := range list {
		select {
		case p.ask <- struct{}{}:
		case <-ctx.Done():
			if !p.storing.Load() {
				return fmt.Errorf("the loop of the %s does not turn", p.name)
			}
		}
	}
	return nil
}

// standby keeps a manager on standby from writing a store that belongs to the master (Config.Lead).
type standby struct {
	mu      sync.Mutex
	on      bool // guarded by mu
	dropped bool // guarded by mu
}

// drops reports whether what is to be stored is dropped.
func (s *standby) drops() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropped = s.dropped || s.on
	return s.on
}

// begin has changes dropped from now on.
func (s *standby) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.on = true
}

// end has changes stored again, and returns whether any was dropped.
func (s *standby) end() (dropped bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	dropped = s.dropped
	s.on, s.dropped = false, false
	return dropped
}
