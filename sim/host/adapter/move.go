package adapter

import (
	"errors"
	"fmt"

	"heddle/ib"
	"heddle/sim/host/rc"
)

// Queue pairs of virtual machines: they go from one adapter to another. A program that
// holds a Connection keeps it; what changes is behind it. An Engine with several
// workers must not be running in between.

// FirstGuest is the least number that Options.QPN may choose: those below are given by
// adapters, and from 0x800000 are those of datagrams.
const FirstGuest = 0x400000

// guest names a queue pair with a chosen number: by the LID of its function, 0: the
// port's.
type guest struct {
	lid ib.LID
	qpn uint32
}

// held is a message that waits for Release.
type held struct {
	id    uint64
	bytes int
}

// ErrTaken is returned when a chosen number is in use at the adapter.
var ErrTaken = errors.New("adapter: the number of the queue pair is in use")

// ErrNumber is returned for a number that cannot be chosen.
var ErrNumber = errors.New("adapter: a number may be chosen from 0x400000 to 0x7fffff")

// mayTake reports why a queue pair cannot be here.
func (a *Adapter) mayTake(c *Connection) error {
	if c.chosen == 0 {
		return nil
	}
	if c.chosen < FirstGuest || c.chosen >= firstUD {
		return fmt.Errorf("%w, not %#x", ErrNumber, c.chosen)
	}
	if a.guests[guest{c.lid, c.chosen}] != nil {
		return fmt.Errorf("%w: %#x at LID %v", ErrTaken, c.chosen, c.lid)
	}
	return nil
}

// Detach takes the queue pair off its adapter with all that it knows (rc.QP.Suspend).
// Messages may be posted meanwhile. Packets for it find nobody.
func (c *Connection) Detach() {
	if !c.gone && !c.away {
		c.leave()
		c.qp.Suspend()
	}
}

// Attach puts a detached queue pair on an adapter, where it sends from a LID; 0: that
// of the port. It keeps its number, which must have been chosen.
func (c *Connection) Attach(a *Adapter, lid ib.LID) error {
	switch {
	case c.gone || !c.away:
		return rc.ErrState
	case c.chosen == 0:
		return fmt.Errorf("%w: queue pair %d got it from its adapter", ErrNumber, c.QPN())
	}
	was := c.lid
	c.lid = lid
	if err := c.enter(a); err != nil {
		c.lid = was
		return err
	}
	return c.Do(func(q *rc.QP, _ Time) error {
		q.Continue()
		return nil
	})
}

// Renew replaces the queue pair, which was reset or detached, by a new one in INIT with
// another number, at this adapter or another. Unused receives and counters go over.
func (c *Connection) Renew(a *Adapter) error {
	if c.gone || c.chosen != 0 {
		return rc.ErrState
	}
	old := c.qp
	c.leave()
	c.qp = nil
	if err := c.enter(a); err != nil {
		c.qp = old
		return err
	}
	c.qp.Count = old.Count
	c.qp.PostReceives(old.Receives())
	return c.qp.Init()
}

// Away reports whether the queue pair is on no adapter.
func (c *Connection) Away() bool { return c.away }

// LID is that which the queue pair sends from.
func (c *Connection) LID() ib.LID {
	if c.lid != 0 {
		return c.lid
	}
	return c.a.LID()
}

// Hold has a library keep what its program posts until Release.
func (c *Connection) Hold() { c.holds = true }

// Release posts what was kept.
func (c *Connection) Release() error {
	c.holds = false
	for len(c.held) > 0 {
		if err := c.Post(c.held[0].id, c.held[0].bytes); err != nil {
			return err
		}
		c.held = c.held[1:]
	}
	c.held = nil
	return nil
}

// Held is how many messages wait for Release.
func (c *Connection) Held() int { return len(c.held) }
