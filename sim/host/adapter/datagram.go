package adapter

import (
	"heddle/ib"
	"heddle/sim/dataplane"
	"heddle/sim/host/rc"
)

// Unreliable datagrams: packets to a queue pair, with a Q_Key and no memory.

// udSend is the operation of a datagram (BTH, IBA §9.2.1).
const udSend = 0x64

// Address is where a datagram goes.
type Address struct {
	Path rc.Path // of a port, or of a multicast group
	QPN  uint32
	QKey uint32
}

// Datagram is one that has come.
type Datagram struct {
	At      Time
	From    ib.LID
	QPN     uint32 // of the sender
	Message uint64
	More    uint64 // the lower 56 bits, for SendMore
	Bytes   int
	Group   ib.LID // multicast LID, 0: it was for this port
}

// Socket is a queue pair of type UD.
type Socket struct {
	a     *Adapter
	qpn   uint32
	qkey  uint32
	key   ib.PKey
	queue int
	take  func(*Datagram)
}

// datagrams are the UD queue pairs of an adapter, with numbers from firstUD.
type datagrams struct {
	list []*Socket
}

// firstUD is the number of the first UD queue pair. The opcode tells them from
// connections, so the two kinds count by themselves.
const firstUD = 0x800000

// Datagrams makes a UD queue pair. take is called for each datagram.
func (a *Adapter) Datagrams(qkey uint32, key ib.PKey, take func(*Datagram)) *Socket {
	if key == 0 {
		key = ib.PKeyDefaultFull
	}
	s := &Socket{a: a, qpn: firstUD + uint32(len(a.grams.list)), qkey: qkey, key: key, take: take, queue: a.queueFor(key, -1)}
	a.grams.list = append(a.grams.list, s)
	return s
}

// QPN is the number of the queue pair.
func (s *Socket) QPN() uint32 { return s.qpn }

// SetQKey changes the Q_Key that datagrams must have.
func (s *Socket) SetQKey(qkey uint32) { s.qkey = qkey }

// Send sends a datagram of so many bytes, at most the MTU. It is false if the
// adapter discards it.
func (s *Socket) Send(to Address, message uint64, bytes int) bool {
	return s.SendMore(to, message, 0, bytes)
}

// SendMore is Send with 56 bits more.
func (s *Socket) SendMore(to Address, message, more uint64, bytes int) bool {
	m := dataplane.Message{DLID: to.Path.DLID, SL: to.Path.SL, Bytes: bytes + dataplane.OverheadUD}
	if to.Path.DLID.IsMulticast() {
		m.Bytes += 40 // the GRH
	}
	m.Payload = dataplane.Payload{
		udSend<<56 | uint64(to.QPN&0xFFFFFF)<<24 | more>>32&0xFFFFFF, uint64(s.qpn)<<40 | uint64(bytes)<<8, message,
		more<<32 | uint64(to.QKey),
	}
	outer := s.a.enter()
	ok := s.a.door.Send(s.queue, &m)
	s.a.leave(outer)
	return ok
}

func isDatagram(w *dataplane.Payload) bool { return w[0]>>56 == udSend }

// datagram hands a datagram to its queue pair; one for a group, to all that have
// the Q_Key.
func (a *Adapter) datagram(r *dataplane.Arrived) {
	d := Datagram{
		At: r.At, From: r.SLID, QPN: uint32(r.Payload[1]>>40) & 0xFFFFFF, Message: r.Payload[2],
		More: r.Payload[0]&0xFFFFFF<<32 | r.Payload[3]>>32, Bytes: int(r.Payload[1] >> 8 & 0xFFFF),
	}
	qpn, qkey := uint32(r.Payload[0]>>24)&0xFFFFFF, uint32(r.Payload[3])
	outer := a.enter()
	defer a.leave(outer)
	if r.DLID.IsMulticast() {
		d.Group = r.DLID
		for _, s := range a.grams.list {
			if s.qkey == qkey && matches(r.PKey, s.key) {
				s.take(&d)
			}
		}
		return
	}
	i := int(qpn) - firstUD
	switch {
	case i < 0 || i >= len(a.grams.list):
		a.Count.Unknown++
	case !matches(r.PKey, a.grams.list[i].key):
		a.Count.BadPKey++
	case a.grams.list[i].qkey != qkey:
		a.Count.BadQKey++
	default:
		a.grams.list[i].take(&d)
	}
}
