package process

import (
	"errors"
	"sync"

	"heddle/ib"
	"heddle/mad"
)

// keptPort is a port that stays open while one manager on it follows another one: requests of other
// managers wait for the next one, and IsSM stays. Without that a standby that asks in this moment would
// be told that no manager is here, and take over.
type keptPort struct {
	port mad.Transport
	look *lookout

	burst mad.Burster // nil: the port cannot
	batch mad.Batcher // nil: the port cannot

	mu    sync.Mutex
	ready sync.Cond
	ring  []*mad.Packet // received, for the present turn or the next; guarded by mu
	free  []*mad.Packet // guarded by mu
	err   error         // the port is gone; guarded by mu
	now   *turn         // guarded by mu
	isSM  bool          // as last set; guarded by mu
}

// keptPackets is how many received packets wait; further ones are lost.
const keptPackets = 4096

// errTurn ends the turn of a manager.
var errTurn = errors.New("another manager follows on this port")

func keep(port mad.Transport) *keptPort {
	k := &keptPort{port: port, look: newLookout(port)}
	k.ready.L = &k.mu
	if b, ok := port.(mad.Burster); ok && b.Bursts() {
		k.burst = b
	}
	k.batch, _ = port.(mad.Batcher)
	go k.receive() // both end when the port is closed
	go k.look.run()
	return k
}

func (k *keptPort) receive() {
	p := &mad.Packet{Data: make([]byte, 0, ib.MADLen)}
	for {
		err := k.port.Recv(p)
		k.mu.Lock()
		if err != nil {
			k.err = err
			k.ready.Broadcast()
			k.mu.Unlock()
			close(k.look.ended)
			return
		}
		if k.look.takes(p) {
			k.mu.Unlock()
			continue
		}
		if len(k.ring) < keptPackets {
			k.ring = append(k.ring, p)
			k.ready.Signal()
			if n := len(k.free); n > 0 {
				p, k.free = k.free[n-1], k.free[:n-1]
			} else {
				p = &mad.Packet{Data: make([]byte, 0, ib.MADLen)}
			}
		}
		k.mu.Unlock()
	}
}

// begin begins the turn of a manager, and ends that of the one before.
func (k *keptPort) begin() *turn {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.look.disarm()
	k.now = &turn{k: k}
	k.ready.Broadcast()
	return k.now
}

// lost is why the port cannot be used any more, nil if it can.
func (k *keptPort) lost() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.err
}

// turn is the port for one manager.
type turn struct{ k *keptPort }

var (
	_ mad.Transport = (*turn)(nil)
	_ mad.Burster   = (*turn)(nil)
	_ mad.Batcher   = (*turn)(nil)
)

// Close implements mad.Transport: it ends the turn, and leaves the port open.
func (t *turn) Close() error {
	t.k.mu.Lock()
	defer t.k.mu.Unlock()
	if t.k.now == t {
		t.k.now = nil
	}
	t.k.ready.Broadcast()
	return nil
}

// over is why the turn is over, nil if it is not. The holder of mu calls it.
func (t *turn) over() error {
	if t.k.now != t {
		return errTurn
	}
	return t.k.err
}

// check returns when the manager of the turn may send, or an error.
func (t *turn) check() error {
	if !t.k.look.pass() {
		return errTurn
	}
	t.k.mu.Lock()
	defer t.k.mu.Unlock()
	return t.over()
}

// slices sends packets some at a time: before each of them, the manager must still be master.
func (t *turn) slices(ps []mad.Packet, send func(ps []mad.Packet) (int, error)) (n int, err error) {
	for n < len(ps) {
		if err := t.check(); err != nil {
			return n, err
		}
		some := ps[n:min(n+sendSlice, len(ps))]
		k, err := send(some)
		if n += k; err != nil || k < len(some) {
			return n, err
		}
	}
	return n, nil
}

// Recv implements mad.Transport.
func (t *turn) Recv(p *mad.Packet) error {
	k := t.k
	k.mu.Lock()
	defer k.mu.Unlock()
	for {
		if err := t.over(); err != nil {
			return err
		}
		if len(k.ring) > 0 {
			t.pop(p)
			return nil
		}
		k.ready.Wait()
	}
}

// TryRecv implements mad.Burster.
func (t *turn) TryRecv(p *mad.Packet) (bool, error) {
	k := t.k
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := t.over(); err != nil || len(k.ring) == 0 {
		return false, err
	}
	t.pop(p)
	return true, nil
}

// pop exchanges the oldest packet's contents for p's buffer.
func (t *turn) pop(p *mad.Packet) {
	k := t.k
	q := k.ring[0]
	k.ring[0] = nil
	k.ring = k.ring[1:]
	*p, *q = *q, mad.Packet{Data: p.Data[:0]}
	if len(k.free) < keptPackets/16 {
		k.free = append(k.free, q)
	}
}

// Send implements mad.Transport.
func (t *turn) Send(p *mad.Packet) error {
	if err := t.check(); err != nil {
		return err
	}
	return t.k.port.Send(p)
}

// SendAll implements mad.Batcher.
func (t *turn) SendAll(ps []mad.Packet) (int, error) {
	if t.k.batch != nil {
		return t.slices(ps, t.k.batch.SendAll)
	}
	for i := range ps {
		if err := t.Send(&ps[i]); err != nil {
			return i, err
		}
	}
	return len(ps), nil
}

// TrySend implements mad.Burster.
func (t *turn) TrySend(ps []mad.Packet) (int, error) {
	return t.slices(ps, t.k.burst.TrySend)
}

// Bursts implements mad.Burster.
func (t *turn) Bursts() bool { return t.k.burst != nil }

// BurstsRMPP implements mad.Burster.
func (t *turn) BurstsRMPP() bool { return t.k.burst != nil && t.k.burst.BurstsRMPP() }

// SetIsSM implements mad.Transport. A manager that follows another one finds it set.
func (t *turn) SetIsSM(on bool) error {
	k := t.k
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := t.over(); err != nil {
		return err
	}
	if k.isSM == on {
		return nil
	}
	err := k.port.SetIsSM(on)
	if err == nil {
		k.isSM = on
	}
	return err
}

// PortGUID implements mad.Transport.
func (t *turn) PortGUID() ib.GUID { return t.k.port.PortGUID() }

// SegmentsRMPP implements mad.Transport.
func (t *turn) SegmentsRMPP() bool { return t.k.port.SegmentsRMPP() }

// MaxInFlight implements mad.Transport.
func (t *turn) MaxInFlight() int { return t.k.port.MaxInFlight() }

// KeepsTime says that the port times every try of a request itself.
func (t *turn) KeepsTime() bool {
	timed, ok := t.k.port.(interface{ KeepsTime() bool })
	return ok && timed.KeepsTime()
}
