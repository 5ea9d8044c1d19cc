package dataplane

import (
	"fmt"

	"heddle/ib"
)

// Program is what runs on a host: its adapter and what uses it. The Engine calls
// it in virtual time, and the calls are the only moments at which it acts by
// itself. It may change its own state and use the Door of its own host, and must
// touch no other host, so hosts can be computed apart from each other.
type Program interface {
	// Receive has a packet that another program sent, and whose last byte is in.
	// The packet is valid during the call.
	Receive(p *Arrived)
	// Left says that the first packet of a queue has started to leave, or is
	// discarded because the port went down: there is room for another.
	Left(queue int)
	// Timer comes at the time of Door.Wake, or earlier.
	Timer()
}

// Payload is what a packet of a program carries: headers of the transport, in a
// form that the programs agree on. Its size on the wire is that of Message.Bytes.
type Payload [4]uint64

// Message is a packet that a program sends.
type Message struct {
	DLID ib.LID
	// SLID is that of a virtual function; 0: the port's first.
	SLID    ib.LID
	SL      ib.SL
	Bytes   int // on the wire, headers included
	Payload Payload
}

// Arrived is a packet at its destination.
type Arrived struct {
	At      Time
	Host    int // that sent it
	SLID    ib.LID
	DLID    ib.LID
	SL      ib.SL
	PKey    ib.PKey
	Bytes   int
	Payload Payload
}

// Door is how a program reaches its port: it sends packets and asks for timers. A
// steady state allocates nothing.
type Door struct {
	e    *Engine
	host int32
}

// resident is a Program at its host.
type resident struct {
	program Program
	wake    Time // when an event comes, Never: none does
	arrived Arrived
}

// Attach puts a program on an end port, once.
func (e *Engine) Attach(host int, p Program) (*Door, error) {
	if err := e.hostError(host); err != nil {
		return nil, err
	}
	if e.residents == nil {
		e.residents = make([]resident, len(e.hosts))
		for i := range e.residents {
			e.residents[i].wake = Never
		}
	}
	if e.residents[host].program != nil {
		return nil, fmt.Errorf("dataplane: host %d has a program already", host)
	}
	e.residents[host].program = p
	e.share()
	return &Door{e, int32(host)}, nil
}

// Host is the number of the end port.
func (d *Door) Host() int { return int(d.host) }

// Now is the present time.
func (d *Door) Now() Time { return d.part().now }

// part is that of the host.
func (d *Door) part() *part { return d.e.partOfHost(int(d.host)) }

// LID is the first LID of the port, 0 before it has one.
func (d *Door) LID() ib.LID { return d.e.hosts[d.host].lid }

// Active reports whether the port sends data.
func (d *Door) Active() bool { return d.e.out[d.e.hosts[d.host].port].active }

// OpenQueue makes a send queue for packets with a P_Key: they leave one after the
// other, and the queues of a lane in turn. Queues stay, so programs use them again.
// Queue numbers are those of streams (Engine.Flow). Not to be called by a Program.
func (d *Door) OpenQueue(key ib.PKey) int {
	e, own := d.e, d.part()
	n := len(e.streams)
	q := own.newSendQueue(d.host, 0)
	own.sendq[q].stream = int32(n)
	e.streams = append(e.streams, stream{
		Stream: Stream{Src: int(d.host), Arrival: driven, To: Destination{kind: toGroup, one: -1}, End: Never, Packets: 1<<64 - 1},
		queue:  q, pkey: key,
	})
	for _, p := range e.parts {
		p.flows = append(p.flows, FlowStats{})
	}
	e.share()
	return n
}

// Queued is how many packets wait in a queue.
func (d *Door) Queued(queue int) int { return int(d.part().sendq[d.e.streams[queue].queue].n) }

// Send puts a packet into a queue. It is false if the adapter discards it at once,
// because its port is not Active (IBA §7.2.7) or its service level has no lane;
// Left is not called then.
func (d *Door) Send(queue int, m *Message) bool {
	e := d.part()
	if !e.send(d.host, queue, m) {
		return false
	}
	if !e.running {
		d.e.settle()
	}
	return true
}

func (e *part) send(host int32, queue int, m *Message) bool {
	s := &e.streams[queue]
	h := &e.hosts[host]
	s.made++
	e.stat.Created++
	e.flows[queue].Created++
	s.seq++
	if !e.out[h.port].active {
		e.dropNew(int32(queue), Inactive)
		return false
	}
	vl := e.tables.Lane(h.ref.Node, 0, h.ref.Port, m.SL)
	if h.ref.Port == 0 {
		vl = 0
	}
	if uint8(vl) >= e.out[h.port].vls || e.outLanes[h.port*e.stride+int32(vl)].capacity < int32(Blocks(m.Bytes)) {
		e.dropNew(int32(queue), NoLane)
		return false
	}
	id := e.newPacket()
	e.packets[id] = packet{
		created: e.now, next: -1, stream: int32(queue), dst: -1, seq: s.seq - 1, mc: -1, dlid: m.DLID, bytes: uint16(m.Bytes),
		blocks: uint16(Blocks(m.Bytes)), lane: uint8(vl), sl: m.SL, flags: flagProgram,
	}
	c := cargo{m.Payload, m.SLID}
	if c.slid == 0 {
		c.slid = h.lid
	}
	e.carry(id, c)
	e.stat.live++
	e.enqueueSend(s.queue, id)
	return true
}

// cargo is what a packet of a program carries, beside its record.
type cargo struct {
	payload Payload
	slid    ib.LID
}

// carry gives a packet what it carries.
func (e *part) carry(id int32, c cargo) {
	for len(e.cargo) < len(e.packets) {
		e.cargo = append(e.cargo, cargo{})
	}
	e.cargo[id] = c
}

// Wake asks for a call of Timer at a time, or earlier: an earlier call that is
// asked for already replaces it, and the program looks then what is due.
func (d *Door) Wake(at Time) {
	r, own := &d.e.residents[d.host], d.part()
	at = max(at, own.now)
	if at >= r.wake || at == Never {
		return
	}
	r.wake = at
	own.push(at, evProgram, d.host, 0)
}

// programTimer is the event of Door.Wake.
func (e *part) programTimer(h int32) {
	r := &e.residents[h]
	if r.program == nil || r.wake > e.now {
		return // an earlier one has come instead
	}
	r.wake = Never
	r.program.Timer()
}

// toProgram hands a packet to the program of its host, if it has one.
func (e *part) toProgram(hi, id int32) {
	if e.residents == nil || e.residents[hi].program == nil {
		return
	}
	p, c := &e.packets[id], &e.cargo[id]
	s := &e.streams[p.stream]
	r := &e.residents[hi]
	r.arrived = Arrived{
		At: e.now, Host: s.Src, SLID: c.slid, DLID: p.dlid, SL: p.sl, PKey: s.pkey, Bytes: int(p.bytes), Payload: c.payload,
	}
	r.program.Receive(&r.arrived)
}

// purgeQueue discards the packets of a send queue that is in no line.
func (e *part) purgeQueue(oi int32, s *sendQueue) {
	for id := s.q.head; id >= 0; {
		after := e.packets[id].next
		e.dropped(oi, id, Inactive)
		id = after
	}
	s.q, s.n = queue{-1, -1}, 0
	e.purged = append(e.purged, s.stream)
}

// purge discards what the programs of a host have in its queues, because the port
// is not Active any more.
func (e *part) purge(h int32) {
	if e.residents == nil || e.residents[h].program == nil {
		return
	}
	oi := e.hosts[h].port
	for vl := range e.stride {
		ready := &e.hostLanes[h*e.stride+vl]
		si := ready.head
		*ready = queue{-1, -1}
		for si >= 0 {
			s := &e.sendq[si]
			next := s.next
			if s.stream < 0 || e.streams[s.stream].Arrival != driven {
				s.next = -1
				if ready.tail >= 0 {
					e.sendq[ready.tail].next = si
				} else {
					ready.head = si
				}
				ready.tail = si
			} else {
				e.dropRequest(&e.out[oi], &e.outLanes[oi*e.stride+vl], uint8(vl))
				s.listed = false
				e.purgeQueue(oi, s)
			}
			si = next
		}
	}
	for i := range e.pacers {
		if s := &e.sendq[i]; s.held && s.host == h && s.q.head >= 0 && s.stream >= 0 && e.streams[s.stream].Arrival == driven {
			e.purgeQueue(oi, s)
		}
	}
	list := e.purged
	e.purged = e.purged[:0]
	for _, n := range list {
		e.residents[h].program.Left(int(n))
	}
}
