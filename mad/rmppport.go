package mad

import (
	"errors"

	"heddle/ib"
)

// RMPP carries all segmented transfers of one port over a transport that
// takes single MADs: it does for such a port what the Linux kernel does for
// umad. It stands between transport and Engine: packets go to Receive first,
// and what comes out of it whole goes on. Pure, not safe for concurrent use.
type RMPP struct {
	cfg    RMPPConfig
	tx     []*rmppTx
	rx     []*rmppRx
	txAt   map[rmppKey]*rmppTx
	rxAt   map[rmppKey]*rmppRx
	next   Time
	stale  bool // next must be computed again
	pkt    Packet
	outPkt Packet
}

// rmppKey names a transfer: the peer, and class, method and transaction ID of
// its DATA packets. Only 48 bits of the transaction ID count, because ibsim
// writes over the others.
type rmppKey struct {
	lid    ib.LID
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
	index int
}

type rmppRx struct {
	RMPPReceiver
	key   rmppKey
	pkt   Packet
	index int
}

// RMPPKind tells what became of a packet given to RMPP.Receive.
type RMPPKind uint8

const (
	// RMPPPass: an ordinary MAD; go on with it.
	RMPPPass RMPPKind = iota
	// RMPPMessage: the packet completed the message that is returned.
	RMPPMessage
	// RMPPUsed: part of a transfer; nothing to go on with.
	RMPPUsed
)

var (
	// ErrRMPPBusy: the same message is on its way already (a request that was
	// repeated while its answer is being sent).
	ErrRMPPBusy = errors.New("mad: this message is being sent already")
	// ErrRMPPFull: RMPPConfig.MaxTransfers are under way.
	ErrRMPPFull = errors.New("mad: too many RMPP transfers")
)

// NewRMPP returns a port without transfers.
func NewRMPP(c RMPPConfig) *RMPP {
	c.setDefaults()
	return &RMPP{cfg: c, txAt: map[rmppKey]*rmppTx{}, rxAt: map[rmppKey]*rmppRx{}, next: Never}
}

const tidMask = 1<<48 - 1

func keyOf(a *Addr, m *ib.MAD) rmppKey {
	return rmppKey{lid: a.LID, qp: a.QP, class: m.Class(), method: m.Method(), tid: m.TID() & tidMask}
}

// Send starts the transfer of the message p.Data to p.Addr; p.Data is kept
// until done is called with the token, from Receive or Expire. With reply the
// message is a request whose answer is segmented too and needs a window.
func (r *RMPP) Send(now Time, p *Packet, reply bool, token uint64, send func(*Packet)) error {
	if len(p.Data) < rmppHeaderEnd {
		return ErrNoRMPP
	}
	var h ib.MAD
	copy(h[:rmppHeaderEnd], p.Data)
	t := &rmppTx{key: keyOf(&p.Addr, &h), token: token, pkt: *p, index: len(r.tx)}
	t.pkt.Data = nil
	if r.txAt[t.key] != nil {
		return ErrRMPPBusy
	}
	if len(r.tx) >= r.cfg.MaxTransfers {
		return ErrRMPPFull
	}
	if err := t.init(&r.cfg, p.Data, reply); err != nil {
		return err
	}
	asked := t.key
	asked.method ^= ib.MethodResponseBit
	if q := r.rxAt[asked]; q != nil {
		t.win = q.ReplyWindow()
	}
	r.tx = append(r.tx, t)
	r.txAt[t.key] = t
	r.stale = true
	t.Start(now, r.via(&t.pkt, send))
	return nil
}

// via sends single MADs to where p goes.
func (r *RMPP) via(p *Packet, send func(*Packet)) func(*ib.MAD) {
	return func(m *ib.MAD) {
		r.outPkt = *p
		r.outPkt.Data = m[:]
		send(&r.outPkt)
	}
}

// Receive takes a packet from the transport. With RMPPMessage it returns the
// whole message, valid until the next call, with the address of its sender.
// done is called if the packet ended a transfer of ours.
func (r *RMPP) Receive(now Time, p *Packet, send func(*Packet), done func(token uint64, err error)) (*Packet, RMPPKind) {
	if p.Status != Received || len(p.Data) < ib.MADLen {
		return nil, RMPPPass
	}
	m := (*ib.MAD)(p.Data[:ib.MADLen])
	typ := RMPPTypeOf(m)
	if typ == RMPPNone {
		return nil, RMPPPass
	}
	r.stale = true
	key := keyOf(&p.Addr, m)
	if typ != RMPPData {
		ours := key
		ours.method ^= ib.MethodResponseBit
		if t := r.txAt[ours]; t != nil {
			t.RMPPSender.Receive(now, m, r.via(&t.pkt, send))
			r.check(t, done)
			return nil, RMPPUsed
		}
	}
	q := r.rxAt[key]
	if q == nil {
		if typ != RMPPData || len(r.rx) >= r.cfg.MaxTransfers {
			return nil, RMPPUsed
		}
		q = &rmppRx{key: key, pkt: *p, index: len(r.rx)}
		q.pkt.Data = nil
		q.pkt.Timeout = 0
		q.init(&r.cfg)
		q.RMPPReceiver.Receive(now, m, r.via(&q.pkt, send))
		if q.due == Never {
			return nil, RMPPUsed // not a first segment, or a bad one
		}
		r.rx = append(r.rx, q)
		r.rxAt[key] = q
		if !q.complete {
			return nil, RMPPUsed
		}
	} else if !q.RMPPReceiver.Receive(now, m, r.via(&q.pkt, send)) {
		if q.ended {
			r.dropRx(q)
		}
		return nil, RMPPUsed
	}
	r.pkt = q.pkt
	r.pkt.Data = q.Message()
	q.msg = nil // it is the caller's now; the rest stays to answer repeats
	return &r.pkt, RMPPMessage
}

func (r *RMPP) check(t *rmppTx, done func(token uint64, err error)) {
	if !t.done {
		return
	}
	last := r.tx[len(r.tx)-1]
	r.tx[t.index], last.index = last, t.index
	r.tx[len(r.tx)-1] = nil
	r.tx = r.tx[:len(r.tx)-1]
	delete(r.txAt, t.key)
	done(t.token, t.err)
}

func (r *RMPP) dropRx(q *rmppRx) {
	last := r.rx[len(r.rx)-1]
	r.rx[q.index], last.index = last, q.index
	r.rx[len(r.rx)-1] = nil
	r.rx = r.rx[:len(r.rx)-1]
	delete(r.rxAt, q.key)
}

// NextTimer is when Expire must be called; Never if nothing waits.
func (r *RMPP) NextTimer() Time {
	if r.stale {
		r.next, r.stale = Never, false
		for _, t := range r.tx {
			r.next = min(r.next, t.due)
		}
		for _, q := range r.rx {
			r.next = min(r.next, q.due)
		}
	}
	return r.next
}

// Expire does what is due at now. Receptions that failed are forgotten; their
// requester's own time-out tells it.
func (r *RMPP) Expire(now Time, send func(*Packet), done func(token uint64, err error)) {
	if now < r.NextTimer() {
		return
	}
	r.stale = true
	for i := len(r.tx) - 1; i >= 0; i-- {
		t := r.tx[i]
		t.RMPPSender.Expire(now, r.via(&t.pkt, send))
		r.check(t, done)
	}
	for i := len(r.rx) - 1; i >= 0; i-- {
		q := r.rx[i]
		q.RMPPReceiver.Expire(now, r.via(&q.pkt, send))
		if q.ended {
			r.dropRx(q)
		}
	}
}

// Transfers is how many messages are being sent and received, receptions that
// only linger included.
func (r *RMPP) Transfers() (sending, receiving int) { return len(r.tx), len(r.rx) }
