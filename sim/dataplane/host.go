package dataplane

import (
	"cmp"
	"fmt"
	"slices"

	"heddle/fabric"
	"heddle/ib"
	"heddle/sim/dataplane/wheel"
)

type ibLID = ib.LID

// host is an end port: of an adapter, or the management port of a switch.
type host struct {
	ref     fabric.Ref
	port    int32
	lid     ib.LID
	lids    uint16
	stopped bool
	unread  int32 // packets that came, or will, and are not to be read yet
	free    Time  // until when it reads what has come
	take    Rate  // of reading
	send    Rate
	held    queue // packets that came while it was stopped
}

// sendQueue holds the packets of one or more streams at their source.
type sendQueue struct {
	q      queue
	n      int32
	limit  int32 // packets, 0: none
	next   int32 // in the ready list of its lane
	host   int32
	stream int32 // that fills it on demand, -1: none
	listed bool
	held   bool // congestion control has it pause
}

// sendKey names a queue that streams of a host share.
type sendKey struct {
	kind Sharing
	host int32
	sub  int32 // lane or destination
}

// NumHosts is the number of end ports of adapters: hosts 0 … NumHosts()-1, in the
// order of nodes and ports. NumEnds counts the management ports of switches too,
// which follow in the order of switches.
func (e *Engine) NumHosts() int { return e.numHosts }

// NumEnds is the number of all end ports.
func (e *Engine) NumEnds() int { return len(e.hosts) }

// HostPort names the port of an end port.
func (e *Engine) HostPort(h int) fabric.Ref { return e.hosts[h].ref }

// partOfHost is the part that an end port belongs to.
func (e *Engine) partOfHost(h int) *part { return e.partOf(e.hosts[h].port) }

// SetCaps limits what a host sends and takes, zero: the rate of its link. A host
// that takes less than its link brings holds credits back.
func (e *Engine) SetCaps(h int, send, take Rate) { e.hosts[h].send, e.hosts[h].take = send, take }

// Stop makes a host take no packets until Resume. Those that it is reading it
// takes.
func (e *Engine) Stop(h int) {
	e.partOfHost(h).stop(h)
	e.settle()
}

func (e *part) stop(h int) {
	x := &e.hosts[h]
	if x.stopped {
		return
	}
	x.stopped = true
	x.free = e.now
	up := e.in[x.port].up
	if up < 0 {
		return
	}
	// What has not begun to be read waits; its blocks stay taken.
	var waits []int32
	e.q.Remove(func(ev wheel.Event) bool {
		if ev.Key != uint32(evDeliver|h) {
			return false
		}
		p := &e.packets[ev.Arg]
		switch {
		case p.flags&flagUnread != 0:
		case p.since >= e.now:
			p.flags |= flagUnread
			x.unread++
			waits = append(waits, ev.Arg)
			return true
		default:
			x.free = max(x.free, Time(ev.At))
		}
		return false
	})
	slices.SortFunc(waits, func(a, b int32) int { return cmp.Compare(e.packets[a].tail, e.packets[b].tail) })
	for _, id := range waits {
		if t := e.packets[id].tail; t > e.now {
			e.push(t, evDeliver, int32(h), id)
		} else {
			e.hold(x, id)
		}
	}
	for v := range e.stride {
		e.forgetReads(&e.outLanes[up*e.stride+v])
	}
	e.touched.add(up)
}

// forgetReads takes back reads that have not begun.
func (e *part) forgetReads(l *outLane) {
	e.fold(l)
	last := int32(-1)
	for i := l.readHead; i >= 0; {
		next := e.reads[i].next
		if e.reads[i].start < e.now {
			last = i
		} else {
			if last < 0 {
				l.readHead = next
			} else {
				e.reads[last].next = next
			}
			e.reads[i].next = e.freeRead
			e.freeRead = i
		}
		i = next
	}
	l.readTail = last
	l.armedAt = Never
}

// Resume undoes Stop.
func (e *Engine) Resume(h int) {
	x := &e.hosts[h]
	if !x.stopped {
		return
	}
	x.stopped = false
	e.partOfHost(h).readHeld(x)
	e.settle()
}

// candidateOfHost is the packet that a lane of a host's port would send.
func (e *part) candidateOfHost(oi int32, o *outPort, vl uint8) (candidate, bool) {
	ol := oi*e.stride + int32(vl)
	l := &e.outLanes[ol]
	s := e.hostLanes[o.source*e.stride+int32(vl)].head
	c := candidate{queue: s, packet: e.sendq[s].q.head}
	need := e.packets[c.packet].blocks
	if e.covered(l, need) {
		l.need = 0
		return c, true
	}
	l.need = need
	e.awaitCredits(ol, l)
	return c, false
}

// leaveHost takes a packet out of its send queue, which goes to the end of the
// line if it has another.
func (e *part) leaveHost(oi int32, o *outPort, vl uint8, c candidate) {
	p, s := &e.packets[c.packet], &e.sendq[c.queue]
	h := &e.hosts[o.source]
	p.injected = e.now
	ready := &e.hostLanes[o.source*e.stride+int32(vl)]
	if ready.head = s.next; ready.head < 0 {
		ready.tail = -1
	}
	s.listed = false
	s.q.head = p.next
	if s.n--; s.q.head < 0 {
		s.q.tail = -1
	}
	if h.send.slower(o.rate) {
		o.gate = e.now + h.send.Time(int(p.bytes))
		o.waitFrom = max(o.waitFrom, o.gate)
	}
	e.dropRequest(o, &e.outLanes[oi*e.stride+int32(vl)], vl)
	if e.cong != nil {
		e.pause(o.source, c.queue, p, o.busy-e.now)
	}
	if s.stream >= 0 {
		e.refill(s.stream)
		s = &e.sendq[c.queue]
	}
	if s.q.head >= 0 {
		e.list(c.queue)
	}
	if o.reqs > 0 {
		e.armFree(oi)
	}
}

// list puts a send queue that has packets into the line of its head's lane.
func (e *part) list(si int32) {
	s := &e.sendq[si]
	if s.listed || e.cong != nil && e.heldBack(si, s) {
		return
	}
	s.listed, s.next = true, -1
	p := &e.packets[s.q.head]
	ready := &e.hostLanes[s.host*e.stride+int32(p.lane)]
	if ready.tail >= 0 {
		e.sendq[ready.tail].next = si
	} else {
		ready.head = si
	}
	ready.tail = si
	oi := e.hosts[s.host].port
	o := &e.out[oi]
	e.addRequest(o, &e.outLanes[oi*e.stride+int32(p.lane)], p.lane)
	if o.busy > e.now {
		e.armFree(oi)
	} else {
		e.touched.add(oi)
	}
}

// enqueueSend puts a packet into a send queue.
func (e *part) enqueueSend(si, id int32) {
	s := &e.sendq[si]
	e.packets[id].next = -1
	s.n++
	if s.q.tail >= 0 {
		e.packets[s.q.tail].next = id
	} else {
		s.q.head = id
	}
	s.q.tail = id
	e.list(si)
}

func (e *Engine) hostError(h int) error {
	if h < 0 || h >= len(e.hosts) {
		return fmt.Errorf("dataplane: host %d of %d", h, len(e.hosts))
	}
	if e.out[e.hosts[h].port].peer < 0 {
		return fmt.Errorf("dataplane: host %d (%s) has no cable", h, e.top.PortName(e.hosts[h].ref))
	}
	return nil
}
