package dftree

import (
	"fmt"

	"heddle/ib"
	"heddle/lab"
	"heddle/sim/host/rc"
	"heddle/sm"
)

// Loop is what moves flows to hot spots to the slow lane and back.
type Loop interface {
	// String names it in tables.
	String() string
	// Configure changes the manager's configuration.
	Configure(cfg *sm.Config)
	// Attach gives the manager what the loop needs, before its first event.
	Attach(m *lab.Manager)
	// Begins is called before a flow begins, to the hot spot or elsewhere.
	Begins(b *TestBed, f *Flow, hot bool) error
	// Marked are the hosts that were marked as hot spots, and those that ceased to be, in
	// their order.
	Marked() (opened, closed []string)
}

// none leaves all flows where they are.
type none struct{}

func (none) String() string                     { return "without" }
func (none) Configure(*sm.Config)               {}
func (none) Attach(*lab.Manager)                {}
func (none) Begins(*TestBed, *Flow, bool) error { return nil }

func (none) Marked() (opened, closed []string) { return nil, nil }

// ideal knows which flows will be hot, and puts them on a level of their own before they
// begin.
type ideal struct{ none }

// idealLevel is the service level, and so the lane, of the ideal loop.
const idealLevel = ib.SL(1)

func (ideal) String() string { return "ideal" }

// Begins implements Loop.
func (ideal) Begins(_ *TestBed, f *Flow, hot bool) error {
	if !hot {
		return nil
	}
	err := f.Conn.Do(func(q *rc.QP, _ rc.Time) error {
		if err := q.Drain(); err != nil {
			return err
		}
		to := q.Path()
		to.SL = idealLevel
		if err := q.SetPath(to); err != nil {
			return err
		}
		return q.Resume()
	})
	if err != nil {
		return fmt.Errorf("level of %v: %w", f.Flow, err)
	}
	return nil
}
