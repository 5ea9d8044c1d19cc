package live

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/replica/wire"
)

// portQueue is how many received packets wait for the managers; further ones are lost.
const portQueue = 4096

// receive sorts what the port receives, until that is closed.
func (p *Pair) receive() {
	k := &mad.Packet{Data: make([]byte, 0, ib.MADLen)}
	for {
		if err := p.cfg.Port.Recv(k); err != nil {
			p.post(func() { p.lost = fmt.Errorf("%w: %w", ErrPortLost, err) })
			p.gate.shut() // a packet that is handed to a port that is lost goes nowhere
			return
		}
		k = p.sort(k)
	}
}

// sort passes a packet on and returns one to receive into.
func (p *Pair) sort(k *mad.Packet) *mad.Packet {
	if len(k.Data) < ib.MADLen && k.Status != mad.Failed || len(k.Data) < 24 {
		return k
	}
	if k.Status == mad.Received && wire.IsSign(k.Data) {
		var d wire.Datagram
		if err := d.Decode((*ib.MAD)(k.Data), &p.key); err != nil || d.From != p.cfg.Rules.Peer || d.To != p.cfg.Rules.Me {
			p.set(func(st *Status) { st.Forged++ }) // a host can send anything
			return k
		}
		from := k.Addr.LID
		p.post(func() { p.band.signed(&d, from) })
		return k
	}
	var m ib.MAD
	copy(m[:24], k.Data)
	if (m.Method().IsResponse() || k.Status == mad.Failed) && p.own.has(&m) {
		copy(m[:], k.Data)
		ok := k.Status == mad.Received
		p.post(func() { p.band.answered(&m, ok) })
		return k
	}
	if next, ok := p.gate.deliver(k); ok {
		return next
	}
	p.relayQuery(k)
	if k.Status == mad.Received && m.Class().IsSMP() && m.AttrID() == smp.AttrSMInfo && !m.Method().IsResponse() {
		p.smInfo(k)
	}
	return k
}

// answer is what the goroutine that receives must know to answer SMInfo.
type answer struct {
	mu   sync.Mutex
	info smp.PortInfo // of this manager's port; guarded by mu
	acts uint32       // guarded by mu
}

// lid is the LID of this manager's port, 0 if it has none.
func (a *answer) lid() ib.LID {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.info.LID
}

// smInfo answers a request for SMInfo while no manager runs on the port: a standby is here, and
// nobody but its peer makes it master.
func (p *Pair) smInfo(k *mad.Packet) {
	m := *(*ib.MAD)(k.Data)
	a := &p.answer
	a.mu.Lock()
	port, acts := a.info, a.acts
	a.mu.Unlock()
	si := smp.SMInfo{GUID: p.cfg.Rules.Me, SMKey: p.cfg.SMKey, ActCount: acts, Priority: p.Priority(), SMState: smp.SMStandby}
	st := ib.StatusOK
	trusted := port.MKey == 0 || smp.MKey(&m) == port.MKey
	switch {
	case m.Method() == ib.MethodSet && trusted:
		st = ib.StatusInvalidField
	case m.Method() != ib.MethodGet || !trusted && port.MKeyProtectBits >= 2:
		return
	case !trusted && port.MKeyProtectBits == 1:
		si.SMKey = 0
	}
	clear(smp.Data(&m))
	si.Put(smp.Data(&m))
	smp.Respond(&m, st)
	_ = p.cfg.Port.Send(&mad.Packet{Addr: k.Addr, LocalQP: k.LocalQP, Data: m[:]})
}

// gate is between the managers and the port. It is open during a mastership.
type gate struct {
	p *Pair
	// sending is held for reading while packets of the managers are handed to the port. Whoever holds
	// it waits for nothing else, but a port may take long.
	sending sync.RWMutex
	seen    atomic.Int64 // mad.Time when the last look that found nobody else began; 0: shut
	mu      sync.Mutex
	cond    sync.Cond
	isOn    bool         // guarded by mu
	asked   bool         // a look was asked for; guarded by mu
	port    *managerPort // of the present mastership; guarded by mu
	named   bool         // in the present mastership the port named this manager, or cannot; guarded by mu
	blind   bool         // the port answers no look; guarded by mu
}

func (g *gate) init(p *Pair) {
	g.p = p
	g.cond.L = &g.mu
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.isOn, g.named = true, false
	g.seen.Store(int64(g.p.now()))
}

// shutEvery is the part of Config.Every for which a manager that gives up waits for packets that are
// being handed to the port. Those of a port that takes longer leave when another manager may be active,
// as those of a process that was stopped do.
const shutEvery = 4

// shut cuts the managers' port: no further packet of theirs is handed to the port. none is closed when
// no packet is being handed to it.
func (g *gate) shut() (none <-chan struct{}) {
	g.mu.Lock()
	g.isOn = false
	g.seen.Store(0)
	if g.port != nil {
		g.port.cutLocked()
		g.port = nil
	}
	g.cond.Broadcast()
	g.mu.Unlock()
	done := make(chan struct{})
	wait := func() {
		defer close(done)
		g.sending.Lock()
		defer g.sending.Unlock()
	}
	if g.sending.TryLock() {
		g.sending.Unlock()
		close(done)
	} else {
		go wait()
	}
	return done
}

// saw takes a look at the port, which began at sent, and did not find the peer to be its SM. named
// says that it has named this manager, or cannot.
func (g *gate) saw(sent mad.Time, named bool) {
	a := &g.p.answer
	a.mu.Lock()
	a.info = g.p.band.look.info
	a.acts++
	a.mu.Unlock()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked, g.named, g.blind = false, named, false
	if g.isOn && int64(sent) > g.seen.Load() {
		g.seen.Store(int64(sent))
		g.cond.Broadcast()
	}
}

// unseen takes that the port answers no look.
func (g *gate) unseen() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked, g.blind = false, true
	g.cond.Broadcast()
}

// fresh is how old the last look may be when the managers send. A process that was stopped looks
// first: the peer may have taken over.
func (g *gate) fresh() time.Duration { return g.p.cfg.Rules.Alone / 4 }

// condition is what must hold before a packet may be sent: a look at the port began at after or later, and
// with named the port has named this manager.
type condition struct {
	after mad.Time
	named bool
}

// passes reports whether the managers may send now: what they need holds, and the mastership lasts.
func (g *gate) passes(port *managerPort, n condition) bool {
	if n.named {
		g.mu.Lock()
		defer g.mu.Unlock()
		if !g.named {
			return false
		}
	}
	seen := g.seen.Load()
	return seen != 0 && mad.Time(seen) >= n.after && !port.cut.Load()
}

// pass waits until the managers may send.
func (g *gate) pass(port *managerPort, n condition) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for {
		seen := g.seen.Load()
		switch {
		case port.cut.Load() || seen == 0:
			return ErrCut
		case mad.Time(seen) >= n.after && (g.named || !n.named):
			return nil
		case g.blind:
			return ErrBlind
		}
		if !g.asked {
			g.asked = true
			f := &g.p.band
			go g.p.post(func() { f.look.next = 0 })
		}
		g.cond.Wait()
	}
}

// deliver hands a packet to the managers, and returns another one in its place; false: none runs.
func (g *gate) deliver(k *mad.Packet) (*mad.Packet, bool) {
	g.mu.Lock()
	port := g.port
	g.mu.Unlock()
	if port == nil {
		return nil, false
	}
	return port.deliver(k)
}

// managerPort is the port as the managers see it.
type managerPort struct {
	p   *Pair
	cut atomic.Bool

	burst mad.Burster // nil: the port cannot
	batch mad.Batcher // nil: the port cannot

	mu    sync.Mutex
	ready sync.Cond
	ring  []*mad.Packet // guarded by mu
	free  []*mad.Packet // guarded by mu
}

var (
	_ mad.Transport = (*managerPort)(nil)
	_ mad.Burster   = (*managerPort)(nil)
	_ mad.Batcher   = (*managerPort)(nil)
	_ mad.Returner  = (*managerPort)(nil)
)

// ManagerPort returns the port for the managers of the present mastership; call it in OnActive, or
// after. Send fails with ErrCut, and Recv returns it, as soon as the mastership ends, and after
// Close, which leaves the pair's port open. A Send may wait until the pair has checked its port.
// SetIsSM does nothing, because the pair holds IsSM in both roles. Signs of the peer and responses
// to the pair's own requests are not received there.
func (p *Pair) ManagerPort() mad.Transport {
	m := &managerPort{p: p}
	m.ready.L = &m.mu
	if b, ok := p.cfg.Port.(mad.Burster); ok && b.Bursts() {
		m.burst = b
	}
	m.batch, _ = p.cfg.Port.(mad.Batcher)
	g := &p.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.port != nil {
		g.port.cutLocked()
	}
	if g.port = m; !g.isOn {
		m.cutLocked()
		g.port = nil
	}
	return m
}

// cutLocked ends the port for the managers; the gate's lock is held.
func (m *managerPort) cutLocked() {
	m.cut.Store(true)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range m.ring {
		m.p.relayQuery(k)
	}
	m.ring, m.free = nil, nil
	m.ready.Broadcast()
}

// Close implements mad.Transport.
func (m *managerPort) Close() error {
	g := &m.p.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	m.cutLocked()
	if g.port == m {
		g.port = nil
	}
	g.cond.Broadcast()
	return nil
}

// deliver is that of the gate.
func (m *managerPort) deliver(k *mad.Packet) (*mad.Packet, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cut.Load() {
		return nil, false // since the gate looked
	}
	if len(m.ring) >= portQueue {
		return k, true
	}
	m.ring = append(m.ring, k)
	m.ready.Signal()
	if n := len(m.free); n > 0 {
		k = m.free[n-1]
		m.free = m.free[:n-1]
		return k, true
	}
	return &mad.Packet{Data: make([]byte, 0, ib.MADLen)}, true
}

// Recv implements mad.Transport.
func (m *managerPort) Recv(k *mad.Packet) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for len(m.ring) == 0 {
		if m.cut.Load() {
			return ErrCut
		}
		m.ready.Wait()
	}
	m.pop(k)
	return nil
}

// TryRecv implements mad.Burster.
func (m *managerPort) TryRecv(k *mad.Packet) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.cut.Load():
		return false, ErrCut
	case len(m.ring) == 0:
		return false, nil
	}
	m.pop(k)
	return true, nil
}

// pop exchanges the oldest packet's contents for k's buffer.
func (m *managerPort) pop(k *mad.Packet) {
	q := m.ring[0]
	m.ring[0] = nil
	m.ring = m.ring[1:]
	*k, *q = *q, mad.Packet{Data: k.Data[:0]}
	if len(m.free) < portQueue/16 {
		m.free = append(m.free, q)
	}
}

// sendSlice is how many packets are handed to a port that takes many at a time: a process that was
// stopped while it did so goes on with what is left of them.
const sendSlice = 16

// need is what a packet needs. One that writes the SM of this port needs a look at it that begins now
// (replica.Challenged). If the LID of the manager floats it may set that too: the pair's own Set, which
// has the LID of before, must not come after it. A port that takes none of those holds up nothing
// (fence.locked).
func (m *managerPort) need(k *mad.Packet) condition {
	if len(k.Data) < ib.MADLen {
		return condition{}
	}
	h := (*ib.MAD)(k.Data)
	if h.Class() == ib.ClassSubnDR && smp.HopCount(h) == 0 && h.Method() == ib.MethodSet && h.AttrID() == smp.AttrPortInfo {
		return condition{m.p.now(), m.p.known.floating() != 0}
	}
	return condition{}
}

// enter waits until packets may be handed to the port. It returns with gate.sending held, or with an
// error. The clock is read with it held: the process may be stopped at any moment before.
func (m *managerPort) enter(n condition) error {
	g := &m.p.gate
	for {
		g.sending.RLock()
		now := condition{max(n.after, m.p.now().Add(-g.fresh())), n.named}
		if g.passes(m, now) {
			return nil
		}
		g.sending.RUnlock() // a wait would hold up shut, and the look that ends it
		if err := g.pass(m, now); err != nil {
			return err
		}
	}
}

// Send implements mad.Transport.
func (m *managerPort) Send(k *mad.Packet) error {
	if k.Addr.Relayed {
		return m.relay(k)
	}
	if err := m.enter(m.need(k)); err != nil {
		return err
	}
	defer m.p.gate.sending.RUnlock()
	return m.p.cfg.Port.Send(k)
}

// SendAll implements mad.Batcher.
func (m *managerPort) SendAll(ps []mad.Packet) (n int, err error) {
	for n < len(ps) && err == nil {
		k := 0
		if m.batch != nil {
			k, err = m.sendSome(ps[n:min(n+sendSlice, len(ps))], m.batch.SendAll)
		} else if err = m.Send(&ps[n]); err == nil {
			k = 1
		}
		n += k
	}
	return n, err
}

// sendSome hands packets to the port as one.
func (m *managerPort) sendSome(ps []mad.Packet, send func([]mad.Packet) (int, error)) (int, error) {
	if i := firstRelayed(ps); i == 0 {
		if err := m.relay(&ps[0]); err != nil {
			return 0, err
		}
		return 1, nil
	} else if i > 0 {
		ps = ps[:i]
	}
	var all condition
	for i := range ps {
		n := m.need(&ps[i])
		all = condition{max(all.after, n.after), all.named || n.named}
	}
	if err := m.enter(all); err != nil {
		return 0, err
	}
	defer m.p.gate.sending.RUnlock()
	return send(ps)
}

// Bursts implements mad.Burster.
func (m *managerPort) Bursts() bool { return m.burst != nil }

// BurstsRMPP implements mad.Burster.
func (m *managerPort) BurstsRMPP() bool { return m.burst != nil && m.burst.BurstsRMPP() }

// TrySend implements mad.Burster.
func (m *managerPort) TrySend(ps []mad.Packet) (n int, err error) {
	for n < len(ps) && err == nil {
		part := ps[n:min(n+sendSlice, len(ps))]
		var k int
		k, err = m.sendSome(part, m.burst.TrySend)
		if n += k; k == 0 {
			break // there is no room for more
		}
	}
	return n, err
}

// SetIsSM implements mad.Transport: the pair has it in both roles.
func (m *managerPort) SetIsSM(bool) error {
	if m.cut.Load() {
		return ErrCut
	}
	return nil
}

// PortGUID implements mad.Transport.
func (m *managerPort) PortGUID() ib.GUID { return m.p.cfg.Port.PortGUID() }

// SegmentsRMPP implements mad.Transport.
func (m *managerPort) SegmentsRMPP() bool { return m.p.cfg.Port.SegmentsRMPP() }

// MaxInFlight implements mad.Transport.
func (m *managerPort) MaxInFlight() int { return m.p.cfg.Port.MaxInFlight() }
