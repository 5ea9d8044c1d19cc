package ibsimd

import (
	"encoding/binary"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"heddle/ib"
	"heddle/ib/pm"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sim"
)

// client is one attached program.
//
// Lock order: the driver's lock, then mu; sendMu, then mu.
type client struct {
	srv  *Server
	slot int
	udp  bool
	id   uint32 // process id, or UDP port of the client's data socket
	ctl  unix.Sockaddr
	ctlP int // UDP port of the client's control socket
	node string
	all  bool // connected as SM, as servers of other classes do: see accepts

	extAddr bool // the client supports extAddr
	times   bool // it has timers of its own: see extTimes

	// Guarded by the driver's lock.
	ep      *sim.Endpoint
	tag     uint64 // bits 63..48 of its transaction ids
	pend    pending
	cur     *dataMsg // request being sent now
	curTID  uint64
	used    [4]uint64 // classes that it has sent requests of
	late    uint64    // responses dropped because their request had been returned
	expired uint64    // requests returned for lack of a response

	flagged atomic.Bool // Flush was requested
	dead    atomic.Bool // the peer is gone

	mu   sync.Mutex
	ring []dataMsg // power of two; guarded by mu
	head int       // guarded by mu
	n    int       // guarded by mu
	lost uint64    // guarded by mu

	sendMu  sync.Mutex
	fd      int   // -1 once closed; guarded by sendMu, written by the loop only
	waiting bool  // for EPOLLOUT; guarded by sendMu
	out     mmsgs // guarded by sendMu
}

// expectsAnswer reports whether m, or the request to which m responds, expects
// a response. RMPP acknowledgments look like requests.
func expectsAnswer(m *ib.MAD) bool {
	switch m.Method() &^ ib.MethodResponseBit {
	case ib.MethodSend, ib.MethodTrap, ib.MethodTrapRepress:
		return false
	}
	return m.Class() != ib.ClassSA || !rmppActive(m) || m[offRMPPType] == rmppData || m[offRMPPType] == 0
}

const (
	offRMPPType  = 25
	offRMPPFlags = 26
	rmppData     = 1
)

func rmppActive(m *ib.MAD) bool { return m[offRMPPFlags]&1 != 0 }

// handle processes a message from the client's socket; addressed says that an
// address follows it. msg may be changed. The driver's lock is held.
func (c *client) handle(msg *dataMsg, addressed bool, now mad.Time) {
	m := msg.MAD()
	n := msg.Length()
	clear(m[n:])
	resp := m.Method().IsResponse()
	if m.Class() == ib.ClassSubnDR {
		if resp != smp.Direction(m) {
			return // like ibsim
		}
		if resp && smp.HopPointer(m) == 0 {
			smp.SetHopPointer(m, smp.HopCount(m)+1)
		}
	}
	pkt := &c.srv.pkt
	*pkt = mad.Packet{Addr: mad.Addr{LID: msg.DLID(), QP: msg.DQP()}, LocalQP: msg.SQP(), Data: m[:]}
	if s := msg.SLID(); s != 0 && s != ib.LIDPermissive {
		pkt.Addr.PathBits = uint8(s & (1<<c.ep.LMC() - 1))
	}
	if addressed {
		msg.Addr(&pkt.Addr)
	}
	if resp || !expectsAnswer(m) {
		if resp {
			if d := c.srv.tagged(m.TID()); d != nil {
				if i := d.pend.find(m.TID() & tidMask); i >= 0 {
					d.pend.ents[i].respLen = int16(n)
				}
			}
		} else {
			c.noteClass(m.Class())
		}
		c.ep.Send(pkt)
		return
	}
	c.noteClass(m.Class())
	tid := m.TID() & tidMask
	m.SetTID(c.tag | tid)
	if i := c.pend.find(tid); i >= 0 {
		c.pend.remove(i) // a retry
	}
	c.cur, c.curTID = msg, tid
	c.ep.Send(pkt)
	if c.cur == nil {
		return
	}
	c.cur = nil
	if c.srv.opt.AnswerTimeout < 0 {
		return
	}
	if c.pend.n >= maxPending {
		if !c.times {
			c.expireOne(c.pend.first, now)
		}
		c.pend.remove(c.pend.first)
	}
	c.pend.add(tid, c.deadline(now)).msg = *msg
}

func (c *client) noteClass(k ib.Class) { c.used[k>>6] |= 1 << (k & 63) }

// accepts decides about requests of other ports: see the package comment.
func (c *client) accepts(p *mad.Packet) bool {
	if !c.ep.IsSM() {
		return false
	}
	k := (*ib.MAD)(p.Data).Class()
	manager := !c.all || c.uses(ib.ClassSubnDR) || c.uses(ib.ClassSubnLID)
	switch k {
	case ib.ClassSubnLID, ib.ClassSubnDR, ib.ClassSA:
		return manager
	}
	return c.all || c.uses(k)
}

func (c *client) uses(k ib.Class) bool { return c.used[k>>6]&(1<<(k&63)) != 0 }

// take queues a packet of the subnet for the client. The driver's lock is held.
func (c *client) take(p *mad.Packet) {
	m := (*ib.MAD)(p.Data)
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.room()
	if t == nil {
		return
	}
	length := ib.MADLen
	if m.Method().IsResponse() {
		tid := m.TID() & tidMask
		if c.cur != nil && tid == c.curTID {
			c.cur = nil
		} else if i := c.pend.find(tid); i >= 0 {
			e := &c.pend.ents[i]
			if e.returned {
				c.late++
				return
			}
			if e.respLen > 0 {
				length = int(e.respLen)
			}
			c.pend.remove(i)
		}
	}
	if length == ib.MADLen {
		length = tableLen(m)
	}
	counted := m.Class() == ib.ClassSA && (m.Method() == ib.MethodGetTableResp || rmppActive(m))
	if length == ib.MADLen && !counted && !m.Class().IsSMP() && tailUnused(m) {
		length = ib.MADLen - tailLen
	}
	dlid, slid := c.ep.LID(), p.Addr.LID
	if m.Class() == ib.ClassSubnDR {
		dlid, slid = ib.LIDPermissive, ib.LIDPermissive
	}
	t.PutHeader(dlid, slid, p.LocalQP, p.Addr.QP, 0, length)
	if !p.SingleMAD {
		t.setFlag(flagReassembles)
	}
	if c.extAddr {
		t.PutAddr(&p.Addr)
	}
	*t.MAD() = *m
	switch m.Class() {
	case ib.ClassSubnDR:
		smp.SetHopPointer(t.MAD(), 0)
	case ib.ClassPerf:
		hideDamaged(t.MAD())
	}
	c.push()
}

// tableLen is the length of a table response in one segment: the clients count
// records by it. A responder in this process cannot pass it in another way.
func tableLen(m *ib.MAD) int {
	if m.Class() != ib.ClassSA || m.Method() != ib.MethodGetTableResp || m[offRMPPType] != rmppData || m[offRMPPFlags]&7 != 7 {
		return ib.MADLen
	}
	const before = 36 // bytes that PayloadLength does not count
	n := binary.BigEndian.Uint32(m[32:36])
	if n < 20 || n > ib.MADLen-before {
		return ib.MADLen
	}
	return before + int(n)
}

// hideDamaged clears the second group of PortCountersExtended in a PMA's
// capabilities: the counters extend into the last bytes of the MAD, which
// clients under the preload library see as garbage and report as errors.
func hideDamaged(m *ib.MAD) {
	const capMask2 = 64 + 4 // in ClassPortInfo: 27 bits, then RespTimeValue
	if m.AttrID() == pm.AttrClassPortInfo && m.Method() == ib.MethodGetResp {
		be := binary.BigEndian
		be.PutUint32(m[capMask2:], be.Uint32(m[capMask2:])&^(pm.Cap2ExtendedCounters<<5))
	}
}

// undeliverable processes the loss of a packet of the client, or of a response
// to it. The driver's lock is held.
func (c *client) undeliverable(p *mad.Packet) {
	m := (*ib.MAD)(p.Data)
	if !expectsAnswer(m) || m.Method().IsResponse() && m.TID()&^tidMask != c.tag {
		return
	}
	tid := m.TID() & tidMask
	now := c.srv.now
	if c.cur != nil && tid == c.curTID {
		if !c.giveBack(c.cur) {
			return // stays open
		}
		c.cur = nil
		c.pend.add(tid, c.deadline(now)).returned = true
		return
	}
	if i := c.pend.find(tid); i >= 0 && !c.pend.ents[i].returned {
		c.expireOne(i, c.srv.drv.Now())
	}
}

// expireOne returns an open request to the client, and remembers it in case a
// late response comes.
func (c *client) expireOne(i int32, now mad.Time) {
	e := &c.pend.ents[i]
	e.returned = e.returned || c.giveBack(&e.msg)
	c.pend.renew(i, c.deadline(now))
}

// deadline is when a request processed now is returned, or, of a client that times its requests
// itself, forgotten. The driver's lock is held.
func (c *client) deadline(now mad.Time) mad.Time {
	wait := max(c.srv.opt.AnswerTimeout, time.Millisecond)
	if c.times {
		wait = max(wait, forget)
	}
	return c.srv.wakeAt(now.Add(wait))
}

// forget is longer than a client waits for an answer.
const forget = 5 * time.Minute

// expire returns due requests to the client, and returns the next deadline.
func (c *client) expire(now mad.Time) mad.Time {
	for c.pend.next() <= now {
		i := c.pend.first
		if c.pend.ents[i].returned || c.times {
			c.pend.remove(i)
			continue
		}
		c.expireOne(i, now)
		c.expired++
	}
	return c.pend.next()
}

// giveBack queues a request of the client with status 110; false if the queue
// is full.
func (c *client) giveBack(msg *dataMsg) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.room()
	if t == nil {
		return false
	}
	*t = *msg
	t.PutHeader(msg.DLID(), msg.SLID(), msg.DQP(), msg.SQP(), statusTimedOut, msg.Length())
	c.push()
	return true
}

// room returns the next free slot of the queue, nil if it is full. mu is held.
func (c *client) room() *dataMsg {
	if c.n == len(c.ring) {
		if c.n >= c.srv.opt.Queue {
			c.lost++
			return nil
		}
		r := make([]dataMsg, max(16, 2*len(c.ring)))
		for i := range c.n {
			r[i] = c.ring[(c.head+i)&(len(c.ring)-1)]
		}
		c.ring, c.head = r, 0
	}
	return &c.ring[(c.head+c.n)&(len(c.ring)-1)]
}

// push appends the message in that slot to the queue. mu and the driver's lock
// are held.
func (c *client) push() {
	c.n++
	if !c.flagged.Swap(true) {
		c.srv.drv.AfterUnlock(c)
	}
}

// Flush writes the queue to the socket until the socket is full.
func (c *client) Flush() {
	c.flagged.Store(false)
	c.sendMu.Lock()
	defer c.sendMu.Unlock()
	for c.fd >= 0 && !c.dead.Load() {
		c.mu.Lock()
		ring, head, n := c.ring, c.head, c.n
		c.mu.Unlock()
		// ring[head:head+n] does not change until head moves.
		var sent int
		var err unix.Errno
		switch {
		case n == 0:
			if c.waiting {
				c.waiting = false
				c.srv.watch(c, false)
			}
			return
		case n == 1:
			if err = sendOne(c.fd, &ring[head]); err == 0 {
				sent = 1
			}
		default:
			k := min(n, batch)
			for i := range k {
				m := &ring[(head+i)&(len(ring)-1)]
				c.out.set(i, &m[0], m.size())
			}
			sent, err = sendBatch(c.fd, &c.out, k)
		}
		if sent > 0 {
			c.mu.Lock()
			c.head = (c.head + sent) & (len(c.ring) - 1)
			c.n -= sent
			c.mu.Unlock()
		}
		switch err {
		case 0, unix.EINTR:
		case unix.EAGAIN, unix.ENOBUFS:
			if !c.waiting {
				c.waiting = true
				c.srv.watch(c, true)
			}
			return
		default:
			c.dead.Store(true)
			c.srv.kick()
			return
		}
	}
}
