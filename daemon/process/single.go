package process

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"heddle/api"
	"heddle/mad"
	"heddle/store"
)

// Single lets a process manage its subnet from the start to the end.
type Single struct {
	// Open opens the port. It is called again if Again says so.
	Open func(ctx context.Context) (mad.Transport, error)
	// Again reports whether a manager that ended with err is to be followed by another one, on the
	// port opened anew; nil: never.
	Again func(err error) bool
	State store.Store
	// Checkpoints keep what the manager published last while the process is restarted; nil: nothing does.
	Checkpoints *Checkpoints
}

// Run implements Authority, as do the methods below.
func (s *Single) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func (s *Single) Await(ctx context.Context) (*Mandate, error) {
	port, err := s.Open(ctx)
	if err != nil {
		return nil, err
	}
	m := &Mandate{Port: port, Store: s.State}
	if s.Checkpoints != nil {
		s.Checkpoints.give(m)
	}
	return m, nil
}

func (s *Single) Ended(m *Mandate, err error) (bool, error) {
	m.Port.Close()
	if err != nil && s.Again != nil && s.Again(err) {
		return true, nil
	}
	return false, err
}

func (s *Single) Leave(ctx context.Context) {
	if s.Checkpoints != nil {
		s.Checkpoints.leave(ctx)
	}
}

func (s *Single) Store() store.Store { return s.State }

func (s *Single) HA() api.HA { return api.HA{Mode: "single", State: "single"} }

func (s *Single) Handover(context.Context) error { return api.ErrNoPair }

func (s *Single) Takeover(context.Context, bool) error { return api.ErrNoPair }

func (s *Single) Forks() ([]api.Fork, error) { return nil, nil }

func (s *Single) Ready() (bool, string) { return false, "waiting for the port" }

func (s *Single) Metrics() prometheus.Gatherer { return nil }
