package live

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"heddle/mad"
	"heddle/replica"
	"heddle/replica/relay"
	"heddle/replica/wire"
)

// relaying passes queries on that come to the port after a handover (package relay).
type relaying struct {
	mu     sync.Mutex
	relay  relay.Relay // guarded by mu
	opened mad.Time    // when the relay was, last; guarded by mu
	// idle is closed when queries need not be passed on any more; nil: none have to be. Guarded by mu.
	idle    chan struct{}
	answers chan *mad.Packet
	bytes   atomic.Int64  // of answers
	given   atomic.Uint64 // answers that were handed to the port
	full    atomic.Uint64 // answers for which there was no room
	// back is the stream on which the peer passed a query on last: the way of the answers.
	back atomic.Pointer[stream]
}

const (
	// relayAnswers is how many answers wait for the port: one for each query that waits. A port that takes
	// long holds up nothing else.
	relayAnswers = relay.Most
	// relayBytes is how many bytes of queries or of answers wait for a stream, and of answers for the port.
	relayBytes = 4 << 20
	// relayHaste is for how long after a handover a stream that ended is made anew without much of a
	// pause: the new manager ends it when its term begins, and hosts wait.
	relayHaste = time.Second
)

// relayOpen has queries taken from now on, if the peer takes over at once.
func (p *Pair) relayOpen(why replica.Why) {
	if why != replica.WhyHandover && why != replica.WhyDisk {
		return
	}
	x := &p.relaying
	x.mu.Lock()
	defer x.mu.Unlock()
	x.opened = p.now()
	x.relay.Open(x.opened)
	if x.idle == nil {
		x.idle = make(chan struct{})
	}
}

func (p *Pair) relayClose() {
	p.relaying.mu.Lock()
	is := p.relaying.relay.IsOpen()
	c := p.relaying.relay.Close()
	p.relaying.mu.Unlock()
	p.relayIdle()
	if is {
		p.log.Info("queries that came to this manager after the handover were passed on", "kind", "ha_relayed", "answered", c.Answered, "late", c.Late, "refused", c.Refused)
	}
}

// relayIdle notes that queries need not be passed on any more: hosts know the new manager, or nothing can
// be passed on.
func (p *Pair) relayIdle() {
	x := &p.relaying
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.idle != nil {
		close(x.idle)
		x.idle = nil
	}
}

// Relayed returns when this manager need not pass queries on any more: it has not handed over, the new
// manager has brought the subnet up, so hosts have been told of it, or takes no queries. An error is that
// of ctx.
func (p *Pair) Relayed(ctx context.Context) error {
	p.relaying.mu.Lock()
	idle := p.relaying.idle
	p.relaying.mu.Unlock()
	if idle == nil {
		return nil
	}
	select {
	case <-idle:
		return nil
	case <-p.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// relayQuery takes a packet for which no manager is here, and reports whether it is passed on.
func (p *Pair) relayQuery(k *mad.Packet) bool {
	if k.Addr.Relayed {
		return false // the peer has it, and passes it on again
	}
	p.relaying.mu.Lock()
	ok := p.relaying.relay.Take(p.now(), k)
	p.relaying.mu.Unlock()
	if ok {
		p.tryPost(func() {}) // without room its goroutine is awake
	}
	return ok
}

// relayTick passes on what is due. It belongs to the pair's goroutine.
func (p *Pair) relayTick(now mad.Time) mad.Time {
	x := &p.relaying
	x.mu.Lock()
	until := x.relay.Until()
	late := x.opened.Add(relayHaste)
	x.mu.Unlock()
	if now >= until {
		p.relayClose()
		return mad.Never
	}
	st := p.streams.mine
	switch {
	case until == mad.Never:
		return until
	case st == nil && now < late:
		return late
	case st == nil || !st.as.Relays():
		p.relayIdle()
		return until
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return min(until, x.relay.Due(now, func(k *mad.Packet) {
		st.pass(&wire.Relayed{From: k.Addr, SingleMAD: k.SingleMAD, Data: k.Data})
	}))
}

// hurries reports whether a stream to the peer is to be made soon: queries wait for it.
func (p *Pair) hurries(now mad.Time) bool {
	p.relaying.mu.Lock()
	defer p.relaying.mu.Unlock()
	u := p.relaying.relay.Until()
	return u != mad.Never && u.Sub(now) > relay.Window-relayHaste
}

// relayed takes what came on a stream. It belongs to the stream's reader.
func (p *Pair) relayed(st *stream, m *wire.Relayed) {
	if !m.Answer {
		k := mad.Packet{Addr: m.From, LocalQP: 1, SingleMAD: m.SingleMAD, Data: m.Data}
		a := &p.answer
		a.mu.Lock()
		own := within(&a.info, k.Addr.LID)
		a.mu.Unlock()
		if own || !relay.IsQuery(&k) {
			return // a program on this host is trusted by the address that its own port shows
		}
		p.relaying.back.Store(st)
		k.Addr.Relayed = true
		p.gate.deliver(&k)
		return
	}
	p.relaying.mu.Lock()
	k, ok := p.relaying.relay.Answer(p.now(), m.From, m.Data)
	p.relaying.mu.Unlock()
	if !ok {
		p.tryPost(func() {}) // it may be due sooner
		return
	}
	n := int64(len(k.Data))
	if p.relaying.bytes.Add(n) <= relayBytes {
		select {
		case p.relaying.answers <- &k:
			return
		default:
		}
	}
	p.relaying.bytes.Add(-n)
	p.relaying.full.Add(1)
}

// relaySend hands answers to the port until the pair ends.
func (p *Pair) relaySend() {
	for {
		select {
		case k := <-p.relaying.answers:
			p.relaying.given.Add(1)
			_ = p.cfg.Port.Send(k) // what is lost the host asks for again
			p.relaying.bytes.Add(-int64(len(k.Data)))
		case <-p.done:
			return
		}
	}
}

// firstRelayed is the index of the first packet that is an answer to a query that the peer passed on, -1 if
// there is none.
func firstRelayed(ps []mad.Packet) int {
	for i := range ps { // packets are large: no copies
		if ps[i].Addr.Relayed {
			return i
		}
	}
	return -1
}

// Return implements mad.Returner: a query that the managers had when their mastership ended is passed on.
func (m *managerPort) Return(k *mad.Packet) bool { return m.cut.Load() && m.p.relayQuery(k) }

// relay sends an answer to a query that the peer passed on.
func (m *managerPort) relay(k *mad.Packet) error {
	if err := m.enter(condition{}); err != nil {
		return err
	}
	defer m.p.gate.sending.RUnlock()
	if st := m.p.relaying.back.Load(); st != nil && len(k.Data) <= wire.MaxRelayed {
		from := k.Addr
		from.Relayed = false
		st.pass(&wire.Relayed{Answer: true, From: from, Data: append([]byte(nil), k.Data...)})
	}
	return nil
}

// pass queues a query or an answer, behind the messages of the journal. One for which there is no room
// is lost.
func (st *stream) pass(m *wire.Relayed) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if n := len(m.Data) + 64; !st.closed && st.as.Relays() && st.relayedBytes+n <= relayBytes {
		st.relayed = append(st.relayed, m)
		st.relayedBytes += n
		st.ring()
	}
}

// relayedNext is the next query or answer to write, nil if none waits. It is called with st.mu held.
func (st *stream) relayedNext() any {
	if len(st.relayed) == 0 {
		return nil
	}
	m := st.relayed[0]
	st.relayed[0] = nil
	st.relayed = st.relayed[1:]
	st.relayedBytes -= len(m.Data) + 64
	return m
}
