package live

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/replica"
	"heddle/replica/wire"
)

// claimEvery is the interval of attempts to claim a port that another process has.
const claimEvery = 50 * time.Millisecond

// probeTries is how often a look at the fabric asks: one packet may be lost.
const probeTries = 3

// band is what the pair does in band. It belongs to the pair's goroutine.
type band struct {
	p       *Pair
	tid     uint32
	waiting map[uint32]*request

	look struct {
		busy bool
		next mad.Time
		have bool
		at   mad.Time     // when the last look began
		info smp.PortInfo // of this manager's port, as last seen
		up   bool         // what the core was told
		mute int          // looks in a row that were not answered
		// named: in this mastership the port named this manager as its SM.
		named bool
	}
	poll struct {
		busy bool
		next mad.Time
	}
	other  other
	fence  fence
	ending ending
	echo   uint64 // the peer's nonce
	boot   uint64 // the start of the peer that it is of
	seq    uint64 // the last sign of that start that was taken
}

// request is a request of the pair that waits for its response.
type request struct {
	sent mad.Time
	due  mad.Time
	done func(r *ib.MAD, sent mad.Time) // r is nil if there was no response
}

// tids are the transaction IDs of the pair's requests, for the goroutine that receives. Managers
// may have one of the same number under way, hardly with the same attribute.
type tids struct {
	mu sync.Mutex
	m  map[uint32]what // guarded by mu
}

// what is asked for by a request.
type what struct {
	class ib.Class
	attr  ib.AttrID
}

func whatOf(m *ib.MAD) what { return what{m.Class(), m.AttrID()} }

func (t *tids) add(m *ib.MAD) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.m[uint32(m.TID())] = whatOf(m)
}

func (t *tids) remove(id uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.m, id)
}

func (t *tids) has(m *ib.MAD) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.m[uint32(m.TID())] == whatOf(m)
}

func (f *band) init(p *Pair) {
	f.p, f.tid, f.waiting = p, rand.Uint32(), map[uint32]*request{}
	f.look.up = true // as the core believes
}

// claim sets IsSM of the port. If a killed process still has it, because the kernel or the
// simulator has not released it yet, claim waits.
func (p *Pair) claim(ctx context.Context) error {
	for began := p.now(); ; {
		err := p.cfg.Port.SetIsSM(true)
		if err == nil {
			return nil
		}
		if p.now().Sub(began) >= p.cfg.ClaimWait {
			return fmt.Errorf("%w: %w", ErrBusyPort, err)
		}
		select {
		case <-time.After(claimEvery):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// ask sends a request, once.
func (f *band) ask(m *ib.MAD, to ib.LID, wait time.Duration, done func(r *ib.MAD, sent mad.Time)) {
	f.tid++
	m.SetTID(uint64(f.tid))
	now := f.p.now()
	f.waiting[f.tid] = &request{sent: now, due: now.Add(wait), done: done}
	f.p.own.add(m)
	q := mad.Packet{Addr: mad.Addr{LID: to}, Timeout: wait, Data: m[:]}
	if m.Class() == ib.ClassSubnDR {
		q.Addr.LID = ib.LIDPermissive
	}
	_ = f.p.cfg.Port.Send(&q) // what is not sent is not answered
}

// answered takes a response to one of the pair's requests, or its failure.
func (f *band) answered(m *ib.MAD, ok bool) {
	id := uint32(m.TID())
	r := f.waiting[id]
	if r == nil {
		return
	}
	f.end(id, r)
	if !ok {
		m = nil
	}
	r.done(m, r.sent)
}

func (f *band) end(id uint32, r *request) {
	delete(f.waiting, id)
	f.p.own.remove(id)
}

// data is the attribute of a response without error, or nil.
func data(m *ib.MAD) []byte {
	if m == nil || m.Status()&0x7FFF != 0 {
		return nil
	}
	return smp.Data(m)
}

// tick does what is due.
func (f *band) tick(now mad.Time) mad.Time {
	next := mad.Never
	for id, r := range f.waiting {
		if r.due <= now {
			f.end(id, r)
			r.done(nil, r.sent)
		}
	}
	if !f.look.busy {
		if f.look.next <= now {
			f.lookNow()
		} else {
			next = min(next, f.look.next)
		}
	}
	if !f.poll.busy && f.p.core.Role() == replica.Standby && f.peerLID() != 0 {
		if f.poll.next <= now {
			f.pollNow()
		} else {
			next = min(next, f.poll.next)
		}
	}
	next = min(next, f.fence.tick(f, now), f.ending.tick(f, now), f.other.tick(f, now))
	for _, r := range f.waiting {
		next = min(next, r.due)
	}
	return next
}

// peerLID is the LID of the peer's port, 0 if that is not known or this port has none.
func (f *band) peerLID() ib.LID {
	if !f.look.have || !f.look.info.LID.IsUnicast() {
		return 0
	}
	return f.p.known.peerLID(&f.p.cfg.Rules, f.look.info.LID)
}

// lookEvery is the interval of looks at this manager's port: rule 2 wants ten in Alone.
func (f *band) lookEvery() time.Duration {
	return min(f.p.cfg.Rules.Every, f.p.cfg.Rules.Alone/20)
}

func (f *band) askOwn(method ib.Method, wait time.Duration, pi *smp.PortInfo, done func(pi *smp.PortInfo, sent mad.Time)) {
	var m ib.MAD
	smp.NewDR(&m, method, smp.AttrPortInfo, 0, f.p.mkey(f.p.cfg.Rules.Me), nil)
	if pi != nil {
		pi.Put(smp.Data(&m))
	}
	f.ask(&m, ib.LIDPermissive, wait, func(r *ib.MAD, sent mad.Time) {
		var got smp.PortInfo
		if b := data(r); b != nil && got.Decode(b) == nil {
			done(&got, sent)
			return
		}
		done(nil, sent)
	})
}

// lookNow looks at this manager's port.
func (f *band) lookNow() {
	f.look.busy = true
	f.askOwn(ib.MethodGet, f.p.cfg.Rules.Every, nil, func(pi *smp.PortInfo, sent mad.Time) {
		f.look.busy = false
		f.look.next = sent.Add(f.lookEvery())
		if pi != nil {
			f.saw(pi, sent)
			return
		}
		// A process that was stopped finds one look without an answer.
		if f.look.mute++; f.look.mute == blindLooks {
			f.p.notice(&replica.Notice{Kind: replica.NoticePort, Err: ErrBlind, Mark: f.p.core.View(f.p.now()).Last})
			f.p.gate.unseen()
			f.tell(false)
		}
	})
}

// blindLooks is how many looks without an answer mean that this manager cannot see its port.
const blindLooks = 20

// tell tells the core whether this manager's port is active.
func (f *band) tell(up bool) {
	f.look.up = up
	f.p.step(replica.Port{Active: up})
}

// usable reports whether management packets pass the link of a port. Others need a manager
// first, which sets its state to Active: to wait for that would be to wait for each other.
func usable(pi *smp.PortInfo) bool { return pi.PortState >= ib.StateInit }

// mine reports whether a port names itself as its SM.
func mine(pi *smp.PortInfo) bool { return within(pi, pi.MasterSMLID) }

// within reports whether a LID is one of a port's.
func within(pi *smp.PortInfo, l ib.LID) bool {
	return pi.LID.IsUnicast() && l >= pi.LID && int(l-pi.LID) < 1<<pi.LMC
}

// saw takes what a look at this manager's port that began at sent showed.
func (f *band) saw(pi *smp.PortInfo, sent mad.Time) {
	p := f.p
	was := f.look.info
	again := f.look.have && usable(&was) && was.PortState > pi.PortState // down and up between two looks
	f.look.have, f.look.info, f.look.at, f.look.mute = true, *pi, sent, 0
	if up := usable(pi); up != f.look.up || again {
		if up && again {
			p.step(replica.Port{Active: false})
		}
		f.tell(up)
	}
	peer := p.known.peerLID(&p.cfg.Rules, pi.LID)
	switch {
	case !p.granted:
	case mine(pi):
		f.look.named = true
	case !f.look.named:
	case peer != 0 && pi.MasterSMLID == peer:
		f.look.named = false
		p.step(replica.Challenged{})
		return
	default:
		p.step(replica.Challenged{Third: true})
	}
	p.gate.saw(sent, f.look.named || f.fence.locked || !pi.LID.IsUnicast()) // without a LID it can name nobody
}

// probe looks at the port and at the switch next to it, for the core.
func (f *band) probe() { f.probeOnce(probeTries) }

func (f *band) probeOnce(tries int) {
	begun := f.p.now()
	wait := f.p.cfg.Rules.Every
	var own *smp.PortInfo
	switched, left, mute := false, 2, false
	done := func() {
		if left--; left > 0 {
			return
		}
		if (own == nil || !switched || mute) && tries > 1 {
			f.probeOnce(tries - 1)
			return
		}
		ev := replica.Probed{Begun: begun, Fabr: switched}
		if own != nil {
			ev.Port, ev.Mine, ev.Master = usable(own), mine(own), f.other.rival(f)
		}
		f.p.step(ev)
	}
	f.askOwn(ib.MethodGet, wait, nil, func(pi *smp.PortInfo, sent mad.Time) {
		if own = pi; pi != nil {
			f.saw(pi, sent)
			// Whether another master lives decides about a takeover of one that is no spare: here
			// it takes several packets to say that none does.
			left++
			f.other.ask(f, func(known bool) { mute = !known; done() })
		}
		done()
	})
	var m ib.MAD
	smp.NewDR(&m, ib.MethodGet, smp.AttrNodeInfo, 0, 0, []byte{f.portNum()})
	f.ask(&m, ib.LIDPermissive, wait, func(r *ib.MAD, _ mad.Time) {
		var ni smp.NodeInfo
		b := data(r)
		switched = b != nil && ni.Decode(b) == nil && ni.NodeType == ib.NodeSwitch
		done()
	})
}

// portNum is the number of this manager's port, the first hop of a directed route.
func (f *band) portNum() byte {
	if f.look.have && f.look.info.LocalPortNum > 0 {
		return f.look.info.LocalPortNum
	}
	return 1
}

// pollNow asks the peer's port for SMInfo, if this manager is standby.
func (f *band) pollNow() {
	to := f.peerLID()
	if f.poll.busy || to == 0 || f.p.core.Role() != replica.Standby {
		return
	}
	every := f.p.cfg.Rules.Every
	f.poll.busy = true
	var m ib.MAD
	smp.NewLID(&m, ib.MethodGet, smp.AttrSMInfo, 0, f.p.mkey(f.p.cfg.Rules.Peer))
	f.ask(&m, to, every+every/2, func(r *ib.MAD, sent mad.Time) {
		f.poll.busy = false
		f.poll.next = sent.Add(every)
		var si smp.SMInfo
		if b := data(r); b == nil || si.Decode(b) != nil || si.GUID != f.p.cfg.Rules.Peer {
			f.p.step(replica.Unanswered{})
		}
	})
}

// beat looks and polls together with a sign, if that is due soon: to be woken costs an idle standby more
// than all that it does then.
func (f *band) beat() {
	soon := f.p.now().Add(f.p.cfg.Rules.Every / 2)
	if !f.look.busy && f.look.have && f.look.next < soon {
		f.lookNow()
	}
	if f.poll.next < soon {
		f.pollNow()
	}
}

// sign sends a sign of life in band.
func (f *band) sign(s *replica.Sign) {
	to := f.peerLID()
	if to == 0 {
		return
	}
	d := wire.Datagram{From: f.p.cfg.Rules.Me, To: f.p.cfg.Rules.Peer, Nonce: f.p.nonce, Echo: f.echo, Sign: *s}
	var m ib.MAD
	d.Put(&m, &f.p.key)
	_ = f.p.cfg.Port.Send(&mad.Packet{Addr: mad.Addr{LID: to, QP: 1}, LocalQP: 1, Data: m[:]}) // the next one follows
}

// signed takes a sign in band.
func (f *band) signed(d *wire.Datagram, from ib.LID) {
	p := f.p
	if d.Sign.Boot < f.boot {
		return // a copy of one of an earlier start: the nonce of that one would have the peer deaf
	}
	if d.Sign.Boot > f.boot {
		f.boot, f.seq = d.Sign.Boot, 0
	}
	f.echo = d.Nonce
	if d.Echo != p.nonce {
		// It may be a copy of an old one. But if this manager knows no LID of the peer, as with an
		// empty store, the peer hears its nonce by an answer only.
		if p.known.peerLID(&p.cfg.Rules, 0) == 0 {
			p.known.met(p.cfg.Rules.Peer, from)
		}
		return
	}
	if d.Sign.Seq <= f.seq {
		return // a copy: it neither shows that the peer lives, nor where it is
	}
	f.seq = d.Sign.Seq
	p.known.met(p.cfg.Rules.Peer, from)
	p.heard(replica.Fabric, d.Sign)
}
