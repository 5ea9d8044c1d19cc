// Package adapter is the channel adapter of a simulated host: it has the queue
// pairs of a port, hands packets of the data plane to them, and sends theirs.
//
//	a, _ := adapter.New(engine, host)
//	c, _ := a.Connect(adapter.Options{MTU: 2048, Window: 64}, program)
//	c.Start(peer, path, …)
//	c.Post(1, 1<<20)
//
// The queue pairs of a lane take turns by packet. Each has at most one packet in
// the adapter; the next is made when that one leaves, so what a change of path
// finds in the adapter is one packet. Queue pairs are listed in the order of their
// creation (Connections), as the kernel module of W. L. Guay's thesis keeps them.
//
// Everything here belongs to one host: the Engine calls it in virtual time, and
// what calls it from outside does so between events. Its programs hear at once
// what happens; the host's management software takes events when it looks
// (TakeEvents), as from an event queue of the kernel.
package adapter

import (
	"errors"
	"fmt"

	"heddle/ib"
	"heddle/internal/heap"
	"heddle/sim/dataplane"
	"heddle/sim/host/rc"
)

// Time is that of the data plane.
type Time = dataplane.Time

// Program uses queue pairs. Its methods are called when something has happened,
// and may use the queue pairs of the same adapter.
type Program interface {
	// Sent completes a send, in the order of Post.
	Sent(c *Connection, id uint64, s rc.Status)
	// Received completes a receive.
	Received(c *Connection, message uint64, bytes int)
	// Happened reports an event of a connection.
	Happened(c *Connection, e rc.Event)
	// Due comes at a time that was asked for by Adapter.After.
	Due(token uint64)
}

// Event is something for the management software of the host.
type Event struct {
	At         Time
	Connection *Connection
	Kind       rc.Event
}

// Adapter is a channel adapter at an end port.
type Adapter struct {
	door  *dataplane.Door
	slots []*Connection // by low bits of the number of a queue pair; nil: free
	free  []int32
	gen   []uint8 // by slot
	byQ   []int32 // slot by queue, of the door, from first on; -1: none
	first int
	spare []queueKey
	// guests are the queue pairs with numbers that were chosen for them.
	guests map[guest]*Connection
	lids   map[ib.LID]int // of functions: how many guests have one
	loop   loop

	oldest, latest *Connection // the list of live queue pairs
	live           int

	touched []*Connection
	busy    bool
	timers  heap.Heap[Time, timer]
	seq     uint64
	events  []Event
	list    []*Connection // scratch
	grams   datagrams

	// OnMigrated, if set, hears that a connection uses its alternate path: the management software
	// is woken by that event.
	OnMigrated func(c *Connection)

	// Loopback is the rate between queue pairs of this adapter; zero: that of a QDR cable.
	Loopback dataplane.Rate
	// Count counts packets that no queue pair took.
	Count Counters
}

// Counters count packets.
type Counters struct {
	Unknown uint64 // for a queue pair that does not exist
	BadPKey uint64 // with a P_Key that does not match the queue pair's
	BadQKey uint64 // datagrams
}

type queueKey struct {
	queue int
	key   ib.PKey
}

// timer is an entry of Adapter.timers: of a queue pair, or of a program.
type timer struct {
	program Program
	token   uint64
	slot    int32
}

// New puts an adapter on an end port.
func New(e *dataplane.Engine, host int) (*Adapter, error) {
	a := &Adapter{first: -1}
	d, err := e.Attach(host, (*port)(a))
	if err != nil {
		return nil, err
	}
	a.door = d
	return a, nil
}

// Door is the adapter's access to the data plane.
func (a *Adapter) Door() *dataplane.Door { return a.door }

// LID is that of the port.
func (a *Adapter) LID() ib.LID { return a.door.LID() }

// Now is the present time.
func (a *Adapter) Now() Time { return a.door.Now() }

// Live is how many queue pairs there are.
func (a *Adapter) Live() int { return a.live }

// Connections lists the live queue pairs, the oldest first. The list is valid
// until the next call.
func (a *Adapter) Connections() []*Connection {
	a.list = a.list[:0]
	for c := a.oldest; c != nil; c = c.newer {
		a.list = append(a.list, c)
	}
	return a.list
}

// TakeEvents moves all events that have happened into list.
func (a *Adapter) TakeEvents(list []Event) []Event {
	list = append(list, a.events...)
	clear(a.events)
	a.events = a.events[:0]
	return list
}

// After has Due of a program called at a time.
func (a *Adapter) After(at Time, p Program, token uint64) {
	a.seq++
	a.timers.Push(at, a.seq, timer{program: p, token: token, slot: -1})
	a.wake()
}

func (a *Adapter) wake() {
	if a.timers.Len() > 0 {
		a.door.Wake(a.timers.Min().Key)
	}
}

// slotBits are the bits of a queue pair's number that say its slot; the others
// count its uses, so that packets for an earlier one find nobody.
const slotBits = 16

// ErrQueuePairs is returned when an adapter has no number for another queue pair.
var ErrQueuePairs = errors.New("adapter: 65,534 queue pairs exist")

// newSlot takes a free slot. Numbers 0 and 1 are those of the management.
func (a *Adapter) newSlot() (int32, uint32, error) {
	if len(a.slots) == 0 {
		a.slots, a.gen = make([]*Connection, 2), make([]uint8, 2)
	}
	var i int32
	if n := len(a.free); n > 0 {
		i = a.free[n-1]
		a.free = a.free[:n-1]
		a.gen[i]++
	} else {
		if len(a.slots) >= 1<<slotBits {
			return 0, 0, ErrQueuePairs
		}
		i = int32(len(a.slots))
		a.slots, a.gen = append(a.slots, nil), append(a.gen, 0)
	}
	return i, uint32(a.gen[i])<<slotBits | uint32(i), nil
}

// queueFor is a send queue with a P_Key that no queue pair uses.
func (a *Adapter) queueFor(key ib.PKey, slot int32) int {
	for i := len(a.spare) - 1; i >= 0; i-- {
		if a.spare[i].key == key {
			q := a.spare[i].queue
			a.spare = append(a.spare[:i], a.spare[i+1:]...)
			a.byQ[q-a.first] = slot
			return q
		}
	}
	q := a.door.OpenQueue(key)
	if a.first < 0 {
		a.first = q
	}
	for len(a.byQ) <= q-a.first {
		a.byQ = append(a.byQ, -1)
	}
	a.byQ[q-a.first] = slot
	return q
}

// connection is the live queue pair with a number at a LID, nil: none.
func (a *Adapter) connection(lid ib.LID, qpn uint32) *Connection {
	if len(a.guests) > 0 {
		if c := a.guests[guest{lid, qpn}]; c != nil {
			return c
		}
		if c := a.guests[guest{0, qpn}]; c != nil {
			return c
		}
	}
	i := qpn & (1<<slotBits - 1)
	if int(i) >= len(a.slots) || a.slots[i] == nil || a.slots[i].qp.QPN() != qpn {
		return nil
	}
	return a.slots[i]
}

// touch has a queue pair looked at before the adapter is left.
func (a *Adapter) touch(c *Connection) {
	if !c.touched {
		c.touched = true
		a.touched = append(a.touched, c)
	}
}

// enter begins a call from outside; leave ends it.
func (a *Adapter) enter() (outer bool) {
	outer = !a.busy
	a.busy = true
	return outer
}

// leave sends what queue pairs have to send, and sets their timers.
func (a *Adapter) leave(outer bool) {
	if !outer {
		return
	}
	for i := 0; i < len(a.touched); i++ { // it may grow
		c := a.touched[i]
		c.touched = false
		if !c.gone {
			a.pump(c)
		}
	}
	clear(a.touched)
	a.touched = a.touched[:0]
	a.busy = false
	a.wake()
}

// pump fills the send queue of a queue pair and sets its timer.
func (a *Adapter) pump(c *Connection) {
	var p rc.Packet
	now := a.door.Now()
	for a.room(c) && c.qp.Poll(now, &p) {
		path := c.qp.Path()
		if a.loops(path.DLID) {
			a.loop.put(a, c, &p)
			continue
		}
		m := dataplane.Message{DLID: path.DLID, SLID: c.lid, SL: path.SL, Bytes: p.Length + p.HeaderBytes()}
		p.Pack(&m.Payload)
		if !a.door.Send(c.queue, &m) {
			c.qp.Left(now)
		}
	}
	if t := c.qp.NextTimer(); t < c.armed {
		c.armed = t
		a.seq++
		a.timers.Push(t, a.seq, timer{slot: c.slot, token: uint64(c.qp.QPN())})
	}
}

// port is the adapter as the data plane sees it.
type port Adapter

// Receive implements dataplane.Program.
func (x *port) Receive(r *dataplane.Arrived) {
	a := (*Adapter)(x)
	if isDatagram(&r.Payload) {
		a.datagram(r)
		return
	}
	var p rc.Packet
	p.Unpack(&r.Payload)
	outer := a.enter()
	a.take(r.At, &p, r.SLID, r.DLID, r.PKey)
	a.leave(outer)
}

// take hands a packet to its queue pair.
func (a *Adapter) take(at Time, p *rc.Packet, slid, dlid ib.LID, key ib.PKey) {
	c := a.connection(dlid, p.RemoteQPN)
	switch {
	case c == nil:
		a.Count.Unknown++
	case !matches(key, c.key):
		a.Count.BadPKey++
	default:
		a.touch(c)
		c.qp.Receive(at, p, slid)
	}
}

// matches is the P_Key check of an adapter: the same partition, and one end a full
// member (IBA §10.9.3).
func matches(a, b ib.PKey) bool { return a&0x7FFF == b&0x7FFF && (a|b)&0x8000 != 0 }

// Left implements dataplane.Program.
func (x *port) Left(queue int) {
	a := (*Adapter)(x)
	i := queue - a.first
	if i < 0 || i >= len(a.byQ) || a.byQ[i] < 0 {
		return
	}
	c := a.slots[a.byQ[i]]
	outer := a.enter()
	a.touch(c)
	c.qp.Left(a.door.Now())
	a.leave(outer)
}

// Timer implements dataplane.Program.
func (x *port) Timer() {
	a := (*Adapter)(x)
	now := a.door.Now()
	outer := a.enter()
	for a.timers.Len() > 0 && a.timers.Min().Key <= now {
		t := a.timers.Pop()
		if t.Value.slot == loopSlot {
			a.looped(now)
			continue
		}
		if t.Value.slot < 0 {
			t.Value.program.Due(t.Value.token)
			continue
		}
		c := a.slots[t.Value.slot]
		if c == nil || c.qp.QPN() != uint32(t.Value.token) || c.armed != t.Key {
			continue
		}
		c.armed = dataplane.Never
		a.touch(c)
		if c.qp.NextTimer() <= now {
			c.qp.Expire(now)
		}
	}
	a.leave(outer)
}

func (a *Adapter) String() string {
	return fmt.Sprintf("adapter of host %d, LID %d, %d queue pairs", a.door.Host(), a.LID(), a.live)
}
