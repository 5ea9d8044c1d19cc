package adapter

import (
	"heddle/ib"
	"heddle/sim/dataplane"
	"heddle/sim/host/rc"
)

// Options are those of a connection.
type Options struct {
	MTU      int     // path MTU in bytes
	Window   int     // packets without acknowledgment
	AckEvery int     // packets between requests for one; 0: with messages alone
	PKey     ib.PKey // 0: the default partition, as a full member
	Credits  bool    // the responder counts its receives
	// Peer names the other end for the host's software: what a notice of changed
	// paths, or a cache of paths, is about.
	Peer ib.GID
	// QPN and LID are for queue pairs that move with a virtual machine: a number that
	// is chosen, at least FirstGuest, and the LID of the virtual function. 0: the
	// adapter's next number, the port's LID.
	QPN uint32
	LID ib.LID
}

// Connection is a queue pair of type RC at an adapter.
type Connection struct {
	a       *Adapter
	qp      *rc.QP
	program Program
	slot    int32
	queue   int
	key     ib.PKey
	peer    ib.GID
	armed   Time   // of its timer in the adapter's heap
	lid     ib.LID // that it sends from, 0: the port's
	chosen  uint32 // Options.QPN
	window  [3]int // Options.MTU, Window, AckEvery
	credits bool
	touched bool
	gone    bool
	inside  bool // a packet of it is in the adapter's loop
	away    bool // on no adapter: a is the last one
	holds   bool
	held    []held

	older, newer *Connection
}

// Connect makes a queue pair in INIT and puts it at the end of the list.
func (a *Adapter) Connect(o Options, p Program) (*Connection, error) {
	if o.PKey == 0 {
		o.PKey = ib.PKeyDefaultFull
	}
	c := &Connection{
		program: p, key: o.PKey, peer: o.Peer, lid: o.LID, chosen: o.QPN, window: [3]int{o.MTU, o.Window, o.AckEvery}, credits: o.Credits,
	}
	if err := c.enter(a); err != nil {
		return nil, err
	}
	return c, c.qp.Init()
}

// enter gives the queue pair its place at an adapter. One that has no number yet is
// made.
func (c *Connection) enter(a *Adapter) error {
	if err := a.mayTake(c); err != nil {
		return err
	}
	slot, qpn, err := a.newSlot()
	if err != nil {
		return err
	}
	if c.chosen != 0 {
		qpn = c.chosen
		if a.guests == nil {
			a.guests, a.lids = map[guest]*Connection{}, map[ib.LID]int{}
		}
		a.lids[c.lid]++
		a.guests[guest{c.lid, qpn}] = c
	}
	if c.qp == nil {
		c.qp = rc.New(rc.Config{QPN: qpn, MTU: c.window[0], Window: c.window[1], AckEvery: c.window[2], Credits: c.credits}, c)
	}
	c.a, c.slot, c.queue, c.armed, c.away = a, slot, a.queueFor(c.key, slot), dataplane.Never, false
	a.slots[slot] = c
	if c.older = a.latest; c.older != nil {
		c.older.newer = c
	} else {
		a.oldest = c
	}
	a.latest = c
	a.live++
	return nil
}

// Destroy takes the queue pair away. Nothing more is reported of it.
func (c *Connection) Destroy() {
	if !c.gone {
		c.leave()
		c.gone = true
	}
}

// leave takes the queue pair off its adapter.
func (c *Connection) leave() {
	if c.away {
		return
	}
	a := c.a
	c.away, c.inside = true, false
	if c.older != nil {
		c.older.newer = c.newer
	} else {
		a.oldest = c.newer
	}
	if c.newer != nil {
		c.newer.older = c.older
	} else {
		a.latest = c.older
	}
	c.older, c.newer = nil, nil
	a.live--
	a.slots[c.slot] = nil
	a.free = append(a.free, c.slot)
	a.byQ[c.queue-a.first] = -1
	a.spare = append(a.spare, queueKey{c.queue, c.key})
	if c.chosen != 0 {
		delete(a.guests, guest{c.lid, c.chosen})
		a.lids[c.lid]--
	}
}

// Adapter is the adapter of the queue pair.
func (c *Connection) Adapter() *Adapter { return c.a }

// QPN is its number.
func (c *Connection) QPN() uint32 { return c.qp.QPN() }

// QP shows the queue pair. What changes it goes through the Connection.
func (c *Connection) QP() *rc.QP { return c.qp }

// Peer is the other end, as Options named it.
func (c *Connection) Peer() ib.GID { return c.peer }

// PKey is its P_Key.
func (c *Connection) PKey() ib.PKey { return c.key }

// Gone reports whether it was destroyed.
func (c *Connection) Gone() bool { return c.gone }

// Start takes it from INIT to RTS.
func (c *Connection) Start(to rc.Connect, s rc.Sender) error {
	if err := c.qp.Receivable(to); err != nil {
		return err
	}
	return c.Do(func(q *rc.QP, _ Time) error { return q.Sendable(s) })
}

// Do changes the queue pair, and sends what it then has to send.
func (c *Connection) Do(change func(q *rc.QP, now Time) error) error {
	if c.gone {
		return rc.ErrState
	}
	if c.away {
		return change(c.qp, c.a.door.Now())
	}
	outer := c.a.enter()
	err := change(c.qp, c.a.door.Now())
	c.a.touch(c)
	c.a.leave(outer)
	return err
}

// Post posts a message.
func (c *Connection) Post(id uint64, bytes int) error {
	if c.gone {
		return rc.ErrState
	}
	if c.holds {
		c.held = append(c.held, held{id, bytes})
		return nil
	}
	if c.away {
		return c.qp.Post(id, bytes)
	}
	outer := c.a.enter()
	err := c.qp.Post(id, bytes)
	c.a.touch(c)
	c.a.leave(outer)
	return err
}

// PostReceives adds receives.
func (c *Connection) PostReceives(n int) {
	if c.away {
		c.qp.PostReceives(n)
		return
	}
	outer := c.a.enter()
	c.qp.PostReceives(n)
	c.a.touch(c)
	c.a.leave(outer)
}

// Sent implements rc.Owner.
func (c *Connection) Sent(_ *rc.QP, id uint64, s rc.Status) {
	if !c.gone {
		c.program.Sent(c, id, s)
	}
}

// Received implements rc.Owner.
func (c *Connection) Received(_ *rc.QP, message uint64, bytes int) {
	if !c.gone {
		c.program.Received(c, message, bytes)
	}
}

// Happened implements rc.Owner.
func (c *Connection) Happened(_ *rc.QP, e rc.Event) {
	if c.gone {
		return
	}
	c.a.events = append(c.a.events, Event{At: c.a.door.Now(), Connection: c, Kind: e})
	if e == rc.Migrated && c.a.OnMigrated != nil {
		c.a.OnMigrated(c)
	}
	c.program.Happened(c, e)
}

// SetPeer names the other end anew.
func (c *Connection) SetPeer(g ib.GID) { c.peer = g }
