package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"heddle/partition"
	"heddle/sm"
)

// command is an operator's request to the loop: an event for the core, or new partitions, whose
// outcome is sent once to told.
type command struct {
	ev         sm.Event
	partitions *partition.Policy
	was        *partition.Policy // that they replace; nil: any
	told       chan<- error      // has room for one
}

// Sweep implements api.Backend.
func (d *Daemon) Sweep(context.Context) error { return d.command(sm.Sweep{}) }

// Reroute implements api.Backend.
func (d *Daemon) Reroute(_ context.Context, rebalance bool) error {
	return d.command(sm.Reroute{Rebalance: rebalance})
}

// command passes an operator's event to the core.
func (d *Daemon) command(ev sm.Event) error {
	select {
	case d.commands <- command{ev: ev}:
		return nil
	default:
		return errors.New("another sweep or rerouting was requested and has not begun yet")
	}
}

// changeTime is how long a change of partitions may take until it is stored.
const changeTime = 20 * time.Second

// ApplyPartitions replaces the partitions, also on a standby. It returns when they are stored
// and in force, or with the reason why nothing was changed. P_Key tables are written
// afterwards.
func (d *Daemon) ApplyPartitions(ctx context.Context, p *partition.Policy) error {
	return d.replacePartitions(ctx, nil, p)
}

// replacePartitions is ApplyPartitions in place of a policy; nil: any. sm.ErrOtherPolicy if another one is
// in force.
func (d *Daemon) replacePartitions(ctx context.Context, was, p *partition.Policy) error {
	ctx, cancel := context.WithTimeoutCause(ctx, changeTime, fmt.Errorf("it took more than %v", changeTime))
	defer cancel()
	told := make(chan error, 1)
	select {
	case d.commands <- command{partitions: p, was: was, told: told}:
	case <-ctx.Done():
		return fmt.Errorf("nothing was changed: %w", context.Cause(ctx))
	}
	select {
	case err := <-told:
		if err != nil {
			return fmt.Errorf("nothing was changed: %w", err)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("it is not known yet whether the partitions are stored: %w", context.Cause(ctx))
	}
}

// command carries out an operator's request.
func (l *loop) command(c command) {
	if c.partitions == nil {
		l.shell.Step(c.ev)
		return
	}
	l.tag++
	l.changes[l.tag] = c.told
	l.shell.Step(sm.SetPartitions{Policy: c.partitions, Was: c.was, Tag: l.tag})
}

// changed reports to the waiting caller that a change of partitions is in force, or why it is
// not.
func (l *loop) changed(n *sm.Notice) {
	if told := l.changes[n.Tag]; told != nil {
		l.publishStatus() // fresh may read it soon: it must not have the partitions of before
		told <- n.Err
		delete(l.changes, n.Tag)
	}
}

// unchanged reports to the remaining callers that the manager ends.
func (l *loop) unchanged() {
	for _, told := range l.changes {
		told <- errors.New("the manager has ended")
	}
}
