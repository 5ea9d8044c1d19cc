package mad

import (
	"errors"
	"fmt"

	"heddle/ib"
)

// RMPP performs all segmented transfers of one port over a transport of single MADs, as the
// Linux kernel does for umad. It stands between transport and Engine: packets go to Receive
// first, and whole messages go on from there. Pure, not safe for concurrent use. send may
// deliver a response, and so call Receive, before it returns.
//
// The share of one peer is bounded (RMPPConfig.MaxPerPeer), as is the memory of all transfers,
// and none keeps others from sending (RMPPConfig.Burst). A peer is a LID, regardless of QPs. A
// peer that holds more transfers or bytes than are left for all others gets no more, so greedy
// peers leave room for a new one. A peer that vanishes holds its transfers until they time out;
// one that acknowledges as slowly as possible, until RMPPConfig.RecvTimeout.
type RMPP struct {
	cfg    RMPPConfig
	tx     map[rmppKey]*rmppTx
	rx     map[rmppKey]*rmppRx
	peers  map[ib.LID]rmppCount
	alarms alarms
	sent   int // bytes of the messages in tx
	got    int // bytes held by incomplete receptions
	open   int // incomplete receptions in rx
	// complete receptions in order of completion, from head on; ended ones may
	// still be listed
	done []*rmppRx
	head int

	pkt    Packet // last result of Receive
	to     *Packet
	send   func(*Packet)
	outPkt Packet
	emit   func(*ib.MAD) // sends to the peer of to
}

// maxLinger bounds the complete receptions that are remembered to acknowledge
// repeated segments.
const maxLinger = 1024

// rmppCount counts a peer's current transfers and their bytes.
type rmppCount struct{ tx, rx, sent, got int }

// rmppKey identifies a transfer: the peer, and class, method and transaction ID of
// its DATA packets. Only 48 bits of the transaction ID count, because ibsim
// overwrites the others; in our own requests only 32, because the kernel overwrites
// them. The GID of a GRH is part of the peer, because virtual ports share LIDs and
// their hosts may use equal transaction IDs. Our own requests leave it out: they
// may go to a service GID and be acknowledged from another.
type rmppKey struct {
	lid    ib.LID
	gid    ib.GID
	qp     uint32
	class  ib.Class
	method ib.Method
	tid    uint64
}

type rmppTx struct {
	RMPPSender
	key   rmppKey
	token uint64
	pkt   Packet // without data
	alarm alarm
}

type rmppRx struct {
	RMPPReceiver
	key   rmppKey
	pkt   Packet
	held  int // bytes counted in RMPP.got
	gone  bool
	alarm alarm
}

// RMPPKind is the outcome of RMPP.Receive.
type RMPPKind uint8

const (
	// RMPPPass: an ordinary MAD for the caller.
	RMPPPass RMPPKind = iota
	// RMPPMessage: the packet completed the message that is returned.
	RMPPMessage
	// RMPPUsed: part of a transfer; nothing for the caller.
	RMPPUsed
)

var (
	// ErrRMPPBusy: the same message is being sent already (a request was repeated
	// during its response). Nothing is left to do.
	ErrRMPPBusy = errors.New("mad: this message is being sent already")
	// ErrRMPPFull: no room for another transfer. The caller should respond with
	// BUSY in a single MAD.
	ErrRMPPFull = errors.New("mad: too many RMPP transfers")
	// ErrRMPPPeer is the ErrRMPPFull of a peer that has used up its share of
	// transfers or of bytes.
	ErrRMPPPeer = fmt.Errorf("%w to one peer", ErrRMPPFull)
)

// NewRMPP returns a port without transfers.
func NewRMPP(c RMPPConfig) *RMPP {
	c.setDefaults()
	r := &RMPP{cfg: c, tx: map[rmppKey]*rmppTx{}, rx: map[rmppKey]*rmppRx{}, peers: map[ib.LID]rmppCount{}}
	r.alarms.heap.Moved = (*alarm).moved
	r.emit = func(m *ib.MAD) {
		r.outPkt = *r.to
		r.outPkt.Data = m[:]
		r.send(&r.outPkt)
	}
	return r
}

// via makes emit send to the destination of p, and returns the previous state,
// because calls may be nested.
func (r *RMPP) via(p *Packet, send func(*Packet)) (*Packet, func(*Packet)) {
	to, old := r.to, r.send
	r.to, r.send = p, send
	return to, old
}

const tidMask = 1<<48 - 1

func keyOf(a *Addr, m *ib.MAD) rmppKey {
	k := rmppKey{lid: a.LID, qp: a.QP, class: m.Class(), method: m.Method(), tid: m.TID() & tidMask}
	if a.HasGRH {
		k.gid = a.GRH.GID
	}
	return k
}

// mine is the key of the tx transfer with these DATA packets.
func (k rmppKey) mine() rmppKey {
	if !k.method.IsResponse() {
		k.tid &= 1<<32 - 1
		k.gid = ib.GID{}
	}
	return k
}

// count adds d to a peer's transfers.
func (r *RMPP) count(lid ib.LID, d rmppCount) {
	r.sent += d.sent
	r.got += d.got
	c := r.peers[lid]
	c = rmppCount{c.tx + d.tx, c.rx + d.rx, c.sent + d.sent, c.got + d.got}
	if c == (rmppCount{}) {
		delete(r.peers, lid)
		return
	}
	r.peers[lid] = c
}

// Room returns the error that Send would return now because of its limits or
// because the message is being sent already; nil if it would begin.
func (r *RMPP) Room(p *Packet) error {
	if len(p.Data) < rmppHeaderEnd {
		return ErrNoRMPP
	}
	return r.room(sendKey(p).mine(), len(p.Data))
}

func sendKey(p *Packet) rmppKey {
	var h ib.MAD
	copy(h[:rmppHeaderEnd], p.Data)
	return keyOf(&p.Addr, &h)
}

// room is Room for a message of n bytes.
func (r *RMPP) room(key rmppKey, n int) error {
	c := r.peers[key.lid]
	transfers, bytes := r.cfg.MaxTransfers-len(r.tx), r.cfg.MaxSending-r.sent
	switch {
	case r.tx[key] != nil:
		return ErrRMPPBusy
	case transfers <= 0:
		return ErrRMPPFull
	case c.tx >= r.cfg.MaxPerPeer, c.tx > transfers:
		return ErrRMPPPeer
	case len(r.tx) == 0:
		return nil // regardless of its length
	case c.sent+n > bytes-n && c.tx > 0:
		return ErrRMPPPeer
	case n > bytes-n:
		return ErrRMPPFull
	}
	return nil
}

// Send starts the transfer of the message p.Data to p.Addr; p.Data is kept until done
// is called with the token, from Receive or Expire. With reply the message is a
// request whose response is segmented too and needs a window. On an error
// (ErrRMPPBusy, ErrRMPPFull, ErrRMPPPeer or ErrNoRMPP) nothing was sent.
func (r *RMPP) Send(now Time, p *Packet, reply bool, token uint64, send func(*Packet)) error {
	if len(p.Data) < rmppHeaderEnd {
		return ErrNoRMPP
	}
	key := sendKey(p)
	t := &rmppTx{key: key.mine(), token: token, pkt: *p, alarm: alarm{pos: -1}}
	t.alarm.tx = t
	t.pkt.Data = nil
	if err := r.room(t.key, len(p.Data)); err != nil {
		return err
	}
	if err := t.init(&r.cfg, p.Data, reply); err != nil {
		return err
	}
	key.method ^= ib.MethodResponseBit
	if q := r.rx[key]; q != nil {
		t.win = q.ReplyWindow()
	}
	r.tx[t.key] = t
	r.count(key.lid, rmppCount{tx: 1, sent: len(p.Data)})
	to, old := r.via(&t.pkt, send)
	t.Start(now, r.emit)
	r.via(to, old)
	r.alarms.set(&t.alarm, t.due)
	return nil
}

// Receive processes a packet from the transport. With RMPPMessage it returns
// the whole message with the address of its sender: the packet is valid until
// the next call, its Data belongs to the caller. done is called if the packet
// ended a transfer that this port sends.
func (r *RMPP) Receive(now Time, p *Packet, send func(*Packet), done func(token uint64, err error)) (*Packet, RMPPKind) {
	if p.Status != Received || len(p.Data) < ib.MADLen {
		return nil, RMPPPass
	}
	m := (*ib.MAD)(p.Data[:ib.MADLen])
	typ := RMPPTypeOf(m)
	if typ == RMPPNone {
		return nil, RMPPPass
	}
	key := keyOf(&p.Addr, m)
	if typ != RMPPData {
		ours := key
		ours.method ^= ib.MethodResponseBit
		if t := r.tx[ours.mine()]; t != nil {
			to, old := r.via(&t.pkt, send)
			t.RMPPSender.Receive(now, m, r.emit)
			r.via(to, old)
			r.settleTx(t, done)
			return nil, RMPPUsed
		}
	}
	q := r.rx[key]
	if q == nil {
		if typ != RMPPData {
			return nil, RMPPUsed
		}
		if q = r.accept(key, p); q == nil {
			r.refuse(p, m, send)
			return nil, RMPPUsed
		}
	}
	to, old := r.via(&q.pkt, send)
	defer r.via(to, old)
	if room := r.cfg.MaxReceiving - r.got - ib.MADLen; !q.complete && (room < 0 || q.held > 0 && r.peers[key.lid].got > room) {
		q.stop(m, r.emit)
		r.dropRx(q)
		return nil, RMPPUsed
	}
	whole := q.RMPPReceiver.Receive(now, m, r.emit)
	r.settleRx(q)
	if !whole {
		return nil, RMPPUsed
	}
	r.linger(q)
	r.pkt = q.pkt
	r.pkt.Data = q.Message()
	q.msg = nil // the caller owns it; the reception stays to acknowledge repeated segments
	return &r.pkt, RMPPMessage
}

// accept begins a reception if there is room for it.
func (r *RMPP) accept(key rmppKey, p *Packet) *rmppRx {
	room := r.cfg.MaxTransfers - r.open
	if n := r.peers[key.lid].rx; room <= 0 || n >= r.cfg.MaxPerPeer || n > room {
		return nil
	}
	q := &rmppRx{key: key, pkt: *p, alarm: alarm{pos: -1}}
	q.alarm.rx = q
	q.pkt.Data = nil
	q.pkt.Timeout = 0
	q.init(&r.cfg)
	r.rx[key] = q
	r.open++
	r.count(key.lid, rmppCount{rx: 1})
	return q
}

// refuse tells the sender of a first segment that there is no room.
func (r *RMPP) refuse(p *Packet, m *ib.MAD, send func(*Packet)) {
	if seg, _ := rmppData(m); seg != 1 {
		return // refused already, or a segment of an old transfer
	}
	var out ib.MAD
	rmppReply(&out, m)
	putRMPP(&out, RMPPStop, 0, RMPPResources, 0, 0)
	to := *p
	to.Timeout = 0
	via, old := r.via(&to, send)
	r.emit(&out)
	r.via(via, old)
}

// settleTx sets the alarm of a transfer, or removes it if it has ended.
func (r *RMPP) settleTx(t *rmppTx, done func(token uint64, err error)) {
	if !t.done {
		r.alarms.set(&t.alarm, t.due)
		return
	}
	if r.tx[t.key] != t {
		return // a nested call has ended it
	}
	delete(r.tx, t.key)
	r.alarms.clear(&t.alarm)
	r.count(t.key.lid, rmppCount{tx: -1, sent: -len(t.msg)})
	t.msg = nil
	done(t.token, t.err)
}

// settleRx sets the alarm of a reception and updates its memory, or removes it
// if it has ended or did not begin with a first segment.
func (r *RMPP) settleRx(q *rmppRx) {
	if q.gone {
		return
	}
	if q.ended || q.due == Never {
		r.dropRx(q)
		return
	}
	if !q.complete {
		r.count(q.key.lid, rmppCount{got: cap(q.msg) - q.held})
		q.held = cap(q.msg)
	}
	r.alarms.set(&q.alarm, q.due)
}

// linger moves a complete reception to those that only acknowledge repeated
// segments.
func (r *RMPP) linger(q *rmppRx) {
	r.closeRx(q)
	r.done = append(r.done, q)
	if len(r.done)-r.head > maxLinger {
		if old := r.done[r.head]; !old.gone {
			r.dropRx(old)
		}
		r.done[r.head] = nil
		r.head++
	}
	for r.head < len(r.done) && r.done[r.head].gone {
		r.done[r.head] = nil
		r.head++
	}
	if r.head > maxLinger {
		n := copy(r.done, r.done[r.head:])
		clear(r.done[n:])
		r.done, r.head = r.done[:n], 0
	}
}

// closeRx removes a reception from the limits' counts.
func (r *RMPP) closeRx(q *rmppRx) {
	r.count(q.key.lid, rmppCount{rx: -1, got: -q.held})
	q.held = 0
	r.open--
}

func (r *RMPP) dropRx(q *rmppRx) {
	if q.gone {
		return
	}
	q.gone = true
	if !q.complete {
		r.closeRx(q)
	}
	r.alarms.clear(&q.alarm)
	delete(r.rx, q.key)
}

// NextTimer is when Expire must be called; Never if nothing waits.
func (r *RMPP) NextTimer() Time { return r.alarms.next() }

// Expire performs what is due at now, once for each transfer: what is due again at
// the same moment waits for the next call. Failed receptions are dropped; the
// requester notices by its own time-out.
func (r *RMPP) Expire(now Time, send func(*Packet), done func(token uint64, err error)) {
	last := r.alarms.seq
	for r.alarms.next() <= now && r.alarms.heap.Min().Tie <= last {
		a := r.alarms.heap.Min().Value
		if t := a.tx; t != nil {
			to, old := r.via(&t.pkt, send)
			t.RMPPSender.Expire(now, r.emit)
			r.via(to, old)
			r.alarms.clear(a) // it goes behind the others even if it is due immediately
			r.settleTx(t, done)
			continue
		}
		q := a.rx
		to, old := r.via(&q.pkt, send)
		q.RMPPReceiver.Expire(now, r.emit)
		r.via(to, old)
		r.settleRx(q)
	}
}

// Transfers is the number of messages being sent and received, including
// receptions that only acknowledge repeats.
func (r *RMPP) Transfers() (sending, receiving int) { return len(r.tx), len(r.rx) }
