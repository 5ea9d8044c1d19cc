package adapter

import (
	"heddle/ib"
	"heddle/sim/dataplane"
	"heddle/sim/host/rc"
)

// Packets between queue pairs of one adapter, as those of virtual machines on one host,
// do not leave it: they go through its memory interface one after the other, at
// Adapter.Loopback, and share nothing with what the cable carries.

// loop has the packets that are inside.
type loop struct {
	free  Time // when the next may begin
	queue []looped
}

// looped is a packet with the queue pair that sent it, unless that has gone since.
type looped struct {
	packet     rc.Packet
	slid, dlid ib.LID
	key        ib.PKey
	from       *Connection
}

// loopSlot marks the timers of packets that stay inside.
const loopSlot = -2

// defaultLoopback is the rate of Adapter.Loopback, if it is zero.
var defaultLoopback = dataplane.LinkRate(ib.Width4x, ib.SpeedQDR)

// loops reports whether packets to a LID stay inside: that of the port, or of a
// function with a queue pair here.
func (a *Adapter) loops(dlid ib.LID) bool {
	return (dlid == a.door.LID() || a.lids[dlid] > 0) && dlid != 0 && a.door.Active()
}

// room reports whether a queue pair may make its next packet.
func (a *Adapter) room(c *Connection) bool { return !c.inside && a.door.Queued(c.queue) == 0 }

// put sends a packet to this adapter.
func (l *loop) put(a *Adapter, c *Connection, p *rc.Packet) {
	rate := a.Loopback
	if rate.Unlimited() {
		rate = defaultLoopback
	}
	c.inside = true
	l.free = max(l.free, a.door.Now()) + rate.Time(p.Length+p.HeaderBytes())
	l.queue = append(l.queue, looped{*p, c.LID(), c.qp.Path().DLID, c.key, c})
	a.seq++
	a.timers.Push(l.free, a.seq, timer{slot: loopSlot})
}

// looped takes the packet that is through.
func (a *Adapter) looped(now Time) {
	x := a.loop.queue[0]
	if a.loop.queue = a.loop.queue[1:]; len(a.loop.queue) == 0 {
		a.loop.queue = nil
	}
	if c := x.from; c.a == a && c.inside && !c.away {
		c.inside = false
		c.qp.Left(now)
		a.touch(c)
	}
	a.take(now, &x.packet, x.slid, x.dlid, x.key)
}
