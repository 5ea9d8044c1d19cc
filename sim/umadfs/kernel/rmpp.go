package kernel

import (
	"time"

	"heddle/ib"
	"heddle/mad"
)

// rmpp is the kernel's RMPP for one agent: messages written go out in
// segments, segments that arrive become messages to be read. The engines are
// package mad's; here they meet the agent's timers and pending requests.
type rmpp struct {
	a       *agent
	cfg     mad.RMPPConfig // of receptions
	recv    map[recvKey]*reception
	open    int          // receptions in recv that are not complete
	done    []*reception // complete receptions that linger, oldest first from head on
	head    int
	waiting int // bytes of the lingering messages
}

// ackTimeout is how long the kernel waits for an acknowledgment at most.
const ackTimeout = 2 * time.Second

// maxReceptions bounds the messages that an agent reassembles concurrently;
// segments of further ones are dropped. Complete receptions linger to
// acknowledge repeated segments; the oldest are dropped first when they are
// many or large.
const (
	maxReceptions  = 1024
	maxLingering   = 4096
	maxLingerBytes = 16 << 20
)

// recvKey identifies a reception, as in the kernel.
type recvKey struct {
	tid     uint64
	qp      uint32
	lid     ib.LID
	class   uint8
	version uint8
	method  uint8
}

type reception struct {
	timer
	key    recvKey
	engine *mad.RMPPReceiver
	packet mad.Packet // source of the segments, and destination of responses
	held   int        // bytes counted in Port.held
	size   int        // of the message when complete
	gone   bool       // no longer in recv
}

func newRMPP(a *agent) *rmpp {
	return &rmpp{a: a, cfg: mad.RMPPConfig{MaxBytes: MaxMessage}, recv: map[recvKey]*reception{}}
}

func (r *rmpp) close() {
	for _, x := range r.recv {
		r.a.file.port.timers.stop(&x.timer)
		r.a.file.port.held -= x.held
	}
	clear(r.recv)
	r.open, r.done, r.head, r.waiting = 0, nil, 0, 0
}

// send starts the transfer of the message in s. The message stays pending
// until it is acknowledged and, if one is expected, the response is there.
func (r *rmpp) send(s *send) {
	f, p := r.a.file, r.a.file.port
	cfg := mad.RMPPConfig{AckTimeout: ackTimeout, Retries: int(s.retries)}
	if cfg.Retries == 0 {
		cfg.Retries = -1 // the program requested none
	}
	if s.timeout > 0 && s.timeout < ackTimeout {
		cfg.AckTimeout = s.timeout
	}
	cfg.MinAckTimeout = cfg.AckTimeout // the kernel's time-out does not adapt
	engine, err := mad.NewRMPPSender(&cfg, s.packet.Data, s.timeout > 0 && !s.response)
	if err != nil {
		p.release(s)
		return
	}
	s.engine = engine
	s.fire = func() {
		s.engine.Expire(p.wire.Now(), s.segment)
		f.advance(s)
	}
	f.await(s)
	engine.Start(p.wire.Now(), s.segment)
	f.advance(s)
}

// segment puts one segment of the message on the wire.
func (s *send) segment(m *ib.MAD) {
	k := s.packet
	k.Data = m[:]
	s.agent.file.port.wire.Send(&k)
}

// advance checks the state of a transfer after an event.
func (f *File) advance(s *send) {
	p := f.port
	if !s.engine.Done() {
		p.timers.set(&s.timer, s.engine.NextTimer())
		return
	}
	err := s.engine.Err()
	switch {
	case err == nil && s.timeout > 0 && !s.response:
		// All acknowledged: now the response has its time. There are no
		// further tries.
		s.engine = nil
		s.retries = 0
		s.fire = func() { f.expired(s) }
		p.timers.set(&s.timer, p.wire.Now().Add(s.timeout))
		return
	case err != nil:
		if e, ok := err.(*mad.RMPPError); ok && e.Status == mad.RMPPTooManyTries && !e.ByPeer {
			f.complete(s)
		}
	}
	p.release(s)
}

// receive takes an RMPP packet for the agent.
func (r *rmpp) receive(pk *mad.Packet) {
	if len(pk.Data) < ib.MADLen {
		return
	}
	m := (*ib.MAD)(pk.Data)
	switch mad.RMPPTypeOf(m) {
	case mad.RMPPAck, mad.RMPPStop, mad.RMPPAbort:
		// It answers a segment of ours: a request's if it has the R bit.
		k := sendKey{tid: tid(m[:]), class: m[1], response: m[3]&0x80 == 0}
		if k.response {
			k.lid = pk.Addr.LID
		}
		if s := r.a.file.sends[k]; s != nil && s.agent == r.a && s.engine != nil {
			s.engine.Receive(r.a.file.port.wire.Now(), m, s.segment)
			r.a.file.advance(s)
			return
		}
		// Else it is for a reception: the turn of a double-sided transfer, or
		// the sender giving up. Their method differs by the R bit in an ACK.
		for _, method := range [2]uint8{m[3], m[3] ^ 0x80} {
			if x := r.recv[r.key(pk, m, method)]; x != nil {
				r.step(x, pk, m)
				return
			}
		}
	default:
		k := r.key(pk, m, m[3])
		x := r.recv[k]
		if x == nil {
			if r.open >= maxReceptions {
				r.a.file.port.dropped++
				return
			}
			x = &reception{key: k, engine: mad.NewRMPPReceiver(&r.cfg)}
			x.pos = -1
			x.fire = func() {
				x.engine.Expire(r.a.file.port.wire.Now(), x.answer(r))
				r.settle(x)
			}
			r.recv[k] = x
			r.open++
		}
		r.step(x, pk, m)
	}
}

func (r *rmpp) key(pk *mad.Packet, m *ib.MAD, method uint8) recvKey {
	return recvKey{tid: tid(m[:]), qp: pk.Addr.QP, lid: pk.Addr.LID, class: m[1], version: m[2], method: method}
}

// answer sends a reception's responses to the source of its segments.
func (x *reception) answer(r *rmpp) func(*ib.MAD) {
	return func(m *ib.MAD) {
		k := x.packet
		k.Data = m[:]
		r.a.file.port.wire.Send(&k)
	}
}

func (r *rmpp) step(x *reception, pk *mad.Packet, m *ib.MAD) {
	p := r.a.file.port
	if p.held+ib.MADLen > maxHeld {
		p.dropped++ // the sender will try again
		r.settle(x)
		return
	}
	if !x.engine.Complete() {
		p.held += ib.MADLen
		x.held += ib.MADLen
	}
	x.packet = mad.Packet{Addr: pk.Addr, LocalQP: pk.LocalQP}
	done := x.engine.Receive(p.wire.Now(), m, x.answer(r))
	if !done {
		r.settle(x)
		return
	}
	// The reception lingers to acknowledge repeated segments; its message is
	// the reader's now.
	msg := x.engine.Message()
	r.settle(x)
	r.linger(x, len(msg))
	whole := *pk
	whole.Data = msg
	if isResponse(msg) {
		s := r.a.match(&whole)
		if s == nil {
			r.a.file.port.dropped++
			return
		}
		r.a.file.port.release(s)
	}
	r.a.queue(&whole, msg, true)
}

// settle keeps the timer of a reception, or forgets it.
func (r *rmpp) settle(x *reception) {
	if x.gone {
		return
	}
	if x.engine.Ended() || x.engine.NextTimer() == mad.Never {
		r.forget(x)
		return
	}
	r.a.file.port.timers.set(&x.timer, x.engine.NextTimer())
}

// linger keeps a complete reception for a while.
func (r *rmpp) linger(x *reception, size int) {
	r.a.file.port.held -= x.held
	x.held = 0
	if x.gone {
		return
	}
	r.open--
	x.size = size
	r.waiting += size
	r.done = append(r.done, x)
	for len(r.done)-r.head > maxLingering || r.waiting > maxLingerBytes {
		old := r.done[r.head]
		r.done[r.head] = nil
		r.head++
		if !old.gone {
			r.forget(old)
		}
	}
	if r.head > len(r.done)/2 {
		r.done = r.done[:copy(r.done, r.done[r.head:])]
		r.head = 0
	}
}

// forget ends a reception. It may still be in done.
func (r *rmpp) forget(x *reception) {
	p := r.a.file.port
	p.timers.stop(&x.timer)
	p.held -= x.held
	x.held = 0
	if x.size > 0 {
		r.waiting -= x.size
	} else {
		r.open--
	}
	x.gone = true
	x.engine = nil
	delete(r.recv, x.key)
	for r.head < len(r.done) && r.done[r.head].gone {
		r.done[r.head] = nil
		r.head++
	}
}
