package dataplane

import (
	"heddle/fabric"
	"heddle/ib"
)

// Management datagrams among packets. What is on VL15 has a buffer of its own and
// needs no credits, so when it leaves is known at once: Urgent. A datagram on a
// data lane is a packet like any other, whose end Engine.OnCarried reports.

// Urgent puts a packet of VL15 on the link at port r, and returns when its first
// byte leaves and when its last byte is at the far end. It starts before all data
// packets, as soon as the packet that is being sent and the packets of VL15 before
// it are out (IBA §7.6.9): an idle link sends it now. It is not counted.
func (e *Engine) Urgent(r fabric.Ref, bytes int) (start, in Time) {
	p := e.port(r)
	o, f := &e.out[p], &e.faults[p]
	start = max(e.now, o.busy, f.urgent)
	f.urgent = start + o.rate.Time(bytes)
	// Data packets wait as for the gap of a rate cap: the port is sending, so that is
	// not PortXmitWait.
	o.gate = max(o.gate, f.urgent)
	if o.reqs > 0 {
		o.waited += max(0, e.now-o.waitFrom)
	}
	o.waitFrom = max(o.waitFrom, f.urgent)
	return start, f.urgent + o.cable
}

// Datagram is a management datagram on a data lane.
type Datagram struct {
	Src   int // end port
	DLID  ib.LID
	SL    ib.SL
	PKey  ib.PKey
	Bytes int
	ID    uint32 // the caller's
}

// Carried is what became of a Datagram.
type Carried struct {
	At   Time
	ID   uint32
	Host int // end port that has it; if it was lost, -1
	// Cause and Port say why and where it was lost.
	Cause Cause
	Port  fabric.Ref
}

// carriers is the state of datagrams. A packet of carrier k has stream −2−k.
type carriers struct {
	list   []carrier
	known  map[carrier]int32 // place in list
	queues map[int32]int32   // by end port: its send queue
	report func(*Carried)
}

// carrier is what datagrams of an end port with a P_Key have in common.
type carrier struct {
	host int32
	pkey ib.PKey
}

// OnCarried sets what is called when a datagram has reached an end port or was
// lost. It is a hook (see Hooks), and is not copied by Clone.
func (e *Engine) OnCarried(fn func(*Carried)) {
	e.carriers.report = fn
	e.share()
}

// Carry puts a datagram into the send queue that all datagrams of its end port
// share, and which takes turns with the queues of streams: the queue pair 1 of
// the port. Datagrams are packets in the counters of ports, and not in Stats. A
// host checks neither their LID nor anything else. ok is false, with the cause,
// if the datagram has no lane at its source.
func (e *Engine) Carry(d *Datagram) (why Cause, ok bool) {
	h := &e.hosts[d.Src]
	vl := ib.VL(0)
	if h.ref.Port != 0 {
		vl = e.tables.Lane(h.ref.Node, 0, h.ref.Port, d.SL)
	}
	if uint8(vl) >= e.out[h.port].vls {
		e.faults[h.port].drops[NoLane]++
		return NoLane, false
	}
	if e.carriers.queues == nil {
		e.carriers.queues, e.carriers.known = map[int32]int32{}, map[carrier]int32{}
		e.share()
	}
	own := e.partOf(h.port)
	q, known := e.carriers.queues[int32(d.Src)]
	if !known {
		q = own.newSendQueue(int32(d.Src), 0)
		e.carriers.queues[int32(d.Src)] = q
	}
	stream := e.carrierOf(int32(d.Src), d.PKey)
	id := own.newPacket()
	own.packets[id] = packet{
		created: e.now, next: -1, stream: stream, dst: -1, seq: d.ID, mc: -1, dlid: d.DLID,
		bytes: uint16(d.Bytes), blocks: uint16(Blocks(d.Bytes)), lane: uint8(vl), sl: d.SL,
	}
	own.stat.live++
	own.stat.made++
	own.enqueueSend(q, id)
	e.settle()
	return 0, true
}

// carrierOf is the stream of datagrams of an end port with a P_Key.
func (e *Engine) carrierOf(host int32, key ib.PKey) int32 {
	x := &e.carriers
	c := carrier{host, key}
	k, ok := x.known[c]
	if !ok {
		k = int32(len(x.list))
		x.list = append(x.list, c)
		x.known[c] = k
		e.share()
	}
	return -2 - k
}

// carried reports whether a packet is a datagram.
func (p *packet) carried() bool { return p.stream < -1 }

// pkeyOf is the P_Key of a packet.
func (e *part) pkeyOf(p *packet) ib.PKey {
	if p.flags&flagNotify != 0 {
		return e.streams[p.seq].pkey
	}
	if p.carried() {
		return e.carriers.list[-2-p.stream].pkey
	}
	return e.streams[p.stream].pkey
}

// purgeDatagrams discards the datagrams that wait at a host whose port is not
// Active any more (IBA §7.2.7).
func (e *part) purgeDatagrams(h int32) {
	si, ok := e.carriers.queues[h]
	if !ok || e.sendq[si].q.head < 0 {
		return
	}
	s := &e.sendq[si]
	oi, lane := e.hosts[h].port, e.packets[s.q.head].lane
	ol := oi*e.stride + int32(lane)
	ready := &e.hostLanes[h*e.stride+int32(lane)]
	before := int32(-1)
	for i := ready.head; i != si; i = e.sendq[i].next {
		before = i
	}
	if before < 0 {
		ready.head = s.next
	} else {
		e.sendq[before].next = s.next
	}
	if ready.tail == si {
		ready.tail = before
	}
	e.dropRequest(&e.out[oi], &e.outLanes[ol], lane)
	e.outLanes[ol].need = 0
	for id := s.q.head; id >= 0; {
		next := e.packets[id].next
		e.dropped(oi, id, Inactive)
		id = next
	}
	s.q, s.n, s.listed = queue{-1, -1}, 0, false
}

// ended reports the end of a datagram: at end port hi, or lost at a port.
func (e *part) ended(p *packet, hi, port int32, why Cause) {
	e.stat.gone++
	if e.carriers.report == nil || p.flags&flagNotify != 0 {
		return
	}
	c := Carried{At: e.now, ID: p.seq, Host: int(hi), Cause: why}
	if hi < 0 {
		c.Port = e.ref(port)
	}
	if m := &e.mail; !m.direct {
		m.notes[m.turn] = append(m.notes[m.turn], note{at: e.now, round: m.round, during: m.during, c: &c})
		return
	}
	e.carriers.report(&c)
}
