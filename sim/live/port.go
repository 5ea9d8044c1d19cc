package live

import (
	"fmt"
	"sync"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sim"
)

// QueueLen is the capacity of a Port's receive queue. Further packets are lost
// and counted, like in a hardware receive queue; the reader's own timers must
// handle lost responses.
const QueueLen = 4096

// Port is a port of the simulated subnet, used from inside the process. It
// implements mad.Transport: Send and Recv may be used from any goroutines. A
// request that the simulation knows to be lost returns immediately as
// mad.Failed, as with ibsim's protocol; a request that stays unanswered for
// other reasons does not.
type Port struct {
	d    *Driver
	ep   *sim.Endpoint // guarded by d.mu
	gone bool          // guarded by d.mu
	held bool          // more packets follow, and the reader is woken after them; guarded by d.mu
	guid ib.GUID

	mu     sync.Mutex
	ready  sync.Cond // on mu
	ring   []slot    // power of two; guarded by mu
	head   int       // guarded by mu
	n      int       // guarded by mu
	lost   uint64    // guarded by mu
	closed bool      // guarded by mu
}

type slot struct {
	addr   mad.Addr
	status mad.SendStatus
	single bool
	qp     uint32
	len    int
	mad    ib.MAD
}

var (
	_ mad.Transport = (*Port)(nil)
	_ mad.Batcher   = (*Port)(nil)
)

// Port attaches to a node: port 1 of a CA or router, port 0 of a switch. node
// is a netlist id, else a description; "" is the first node.
func (d *Driver) Port(node string) (*Port, error) {
	return d.open(func(s *sim.Subnet) (*sim.Endpoint, error) { return s.Attach(node) })
}

// PortAt attaches to a port of a node by number.
func (d *Driver) PortAt(node string, num int) (*Port, error) {
	return d.open(func(s *sim.Subnet) (*sim.Endpoint, error) { return s.AttachPort(node, num) })
}

// VM attaches to the virtual function of a VM, and moves with it.
func (d *Driver) VM(name string) (*Port, error) {
	return d.open(func(s *sim.Subnet) (*sim.Endpoint, error) { return s.AttachVM(name) })
}

func (d *Driver) open(attach func(*sim.Subnet) (*sim.Endpoint, error)) (*Port, error) {
	p := &Port{d: d, ring: make([]slot, 64)}
	p.ready.L = &p.mu
	s := d.Begin()
	defer d.End()
	if d.closed {
		return nil, ErrClosed
	}
	ep, err := attach(s)
	if err != nil {
		return nil, fmt.Errorf("live: %w", err)
	}
	p.ep, p.guid = ep, ep.PortGUID()
	ep.OnPacket = p.take
	ep.OnUndeliverable = p.bounced
	return p, nil
}

// bounced processes a lost packet. It reports only requests and agents'
// responses to them: nothing waits for this port's own responses or for
// notices.
func (p *Port) bounced(q *mad.Packet) {
	if len(q.Data) < ib.MADLen {
		return
	}
	m := (*ib.MAD)(q.Data)
	if m.Method().IsResponse() && m.TID()>>48 != uint64(p.ep.Tag()) {
		return
	}
	switch m.Method() &^ ib.MethodResponseBit {
	case ib.MethodSend, ib.MethodTrap, ib.MethodTrapRepress:
		return
	}
	p.take(q)
}

// take copies a packet into the queue. The driver's lock is held.
func (p *Port) take(q *mad.Packet) {
	p.mu.Lock()
	if p.closed || p.n == QueueLen {
		p.lost++
		p.mu.Unlock()
		return
	}
	if p.n == len(p.ring) {
		p.grow()
	}
	t := &p.ring[(p.head+p.n)&(len(p.ring)-1)]
	t.addr, t.status, t.single, t.qp = q.Addr, q.Status, q.SingleMAD, q.LocalQP
	t.len = copy(t.mad[:], q.Data)
	p.n++
	p.mu.Unlock()
	if !p.held {
		p.ready.Signal()
	}
}

func (p *Port) grow() {
	r := make([]slot, 2*len(p.ring))
	for i := range p.n {
		r[i] = p.ring[(p.head+i)&(len(p.ring)-1)]
	}
	p.ring, p.head = r, 0
}

// Send implements mad.Transport.
func (p *Port) Send(q *mad.Packet) error {
	p.d.Begin()
	defer p.d.End()
	if p.d.closed || p.gone {
		return ErrClosed
	}
	p.ep.Send(q)
	return nil
}

// sendBatch is how many packets SendAll sends while it holds the driver's lock, which others wait for.
const sendBatch = 64

// SendAll implements mad.Batcher. Where answers take no time, the reader is woken once for all of
// them: to wake it for each takes longer than the answer.
func (p *Port) SendAll(qs []mad.Packet) (n int, err error) {
	for n < len(qs) && err == nil {
		k := min(len(qs)-n, sendBatch)
		if err = p.sendBatch(qs[n : n+k]); err == nil {
			n += k
		}
	}
	p.mu.Lock()
	waits := p.n > 0
	p.mu.Unlock()
	if waits {
		p.ready.Signal()
	}
	return n, err
}

func (p *Port) sendBatch(qs []mad.Packet) error {
	p.d.Begin()
	defer p.d.End()
	if p.d.closed || p.gone {
		return ErrClosed
	}
	p.held = true
	for i := range qs {
		p.ep.Send(&qs[i])
	}
	p.held = false
	return nil
}

// Recv implements mad.Transport.
func (p *Port) Recv(q *mad.Packet) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.n == 0 {
		if p.closed {
			return ErrClosed
		}
		p.ready.Wait()
	}
	p.pop(q)
	return nil
}

// TryRecv is Recv without waiting; false: the queue is empty.
func (p *Port) TryRecv(q *mad.Packet) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.n == 0 {
		return false
	}
	p.pop(q)
	return true
}

func (p *Port) pop(q *mad.Packet) {
	t := &p.ring[p.head]
	data := append(q.Data[:0], t.mad[:t.len]...)
	*q = mad.Packet{Addr: t.addr, Status: t.status, LocalQP: t.qp, SingleMAD: t.single, Data: data}
	p.head = (p.head + 1) & (len(p.ring) - 1)
	p.n--
}

// SetIsSM implements mad.Transport; it fails while another program on the port
// holds IsSM.
func (p *Port) SetIsSM(on bool) (err error) {
	p.d.Do(func(*sim.Subnet) { err = p.ep.SetIsSM(on) })
	return err
}

// PortGUID implements mad.Transport.
func (p *Port) PortGUID() ib.GUID { return p.guid }

// PortInfo is the PortInfo of the port at this moment.
func (p *Port) PortInfo() (pi smp.PortInfo) {
	p.d.Do(func(*sim.Subnet) { pi = p.ep.PortInfo() })
	return pi
}

// NodeInfo is the NodeInfo of the node as seen through the port.
func (p *Port) NodeInfo() (ni smp.NodeInfo) {
	p.d.Do(func(*sim.Subnet) { ni = p.ep.NodeInfo() })
	return ni
}

// SegmentsRMPP implements mad.Transport: every packet is one MAD.
func (p *Port) SegmentsRMPP() bool { return false }

// MaxInFlight implements mad.Transport: half the queue, which leaves room for
// unsolicited packets.
func (p *Port) MaxInFlight() int { return QueueLen / 2 }

// Lost is how many packets were lost because the queue was full.
func (p *Port) Lost() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lost
}

// Close implements mad.Transport. It detaches from the node, clears IsSM if
// the port had it, and ends a waiting Recv.
func (p *Port) Close() error {
	p.d.Do(func(*sim.Subnet) {
		p.gone = true
		p.ep.Close()
	})
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.ready.Broadcast()
	return nil
}
