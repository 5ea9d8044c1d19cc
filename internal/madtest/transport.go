// Package madtest is a conformance suite for implementations of mad.Transport.
// Each implementation runs it against its real peer.
package madtest

import (
	"sync"
	"testing"
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/internal/need"
	"heddle/mad"
)

// patience is how long a test waits for an event that should be immediate.
const patience = need.Patience

// RunTransport tests the transports that open creates. Each must be a port with
// IsSM off and no other user, which answers directed-route SMPs with no hops
// itself. The suite closes it.
func RunTransport(t *testing.T, open func(t *testing.T) mad.Transport) {
	for _, c := range []struct {
		name string
		run  func(t *testing.T, p *port)
	}{
		{"NodeInfo", nodeInfo},
		{"KeepsNothing", keepsNothing},
		{"SendsAtOnce", sendsAtOnce},
		{"Window", window},
		{"Engine", engine},
		{"UnknownPath", unknownPath},
		{"IsSM", isSM},
		{"RefusesNonsense", refusesNonsense},
		{"CloseEndsRecv", closeEndsRecv},
		{"CloseTwice", closeTwice},
	} {
		t.Run(c.name, func(t *testing.T) {
			tr := open(t)
			p := &port{Transport: tr, in: make(chan mad.Packet, 64), ended: make(chan error, 1)}
			go p.read()
			t.Cleanup(func() {
				tr.Close()
				select {
				case <-p.ended:
				case <-time.After(patience):
					t.Error("Recv did not return after Close")
				}
			})
			c.run(t, p)
		})
	}
	t.Run("Bursts", func(t *testing.T) { bursts(t, open(t)) })
}

// bursts tests that a transport that moves several packets at once loses none,
// and does not block where it must not.
func bursts(t *testing.T, tr mad.Transport) {
	defer tr.Close()
	b, ok := tr.(mad.Burster)
	if !ok || !b.Bursts() {
		t.Skip("one packet at a time")
	}
	var k mad.Packet
	none := func(when string) {
		t.Helper()
		for range 20 { // not all are needed
			if ok, err := b.TryRecv(&k); ok || err != nil {
				t.Fatalf("TryRecv %s: %v, %v: %x", when, ok, err, k.Data)
			}
		}
	}
	none("before anything was sent")
	const rounds = 10
	each := max(1, min(20, tr.MaxInFlight()))
	for r := range rounds {
		ps := make([]mad.Packet, each)
		for i := range ps {
			var m ib.MAD
			smp.NewDR(&m, ib.MethodGet, smp.AttrNodeInfo, 0, 0, nil)
			m.SetTID(uint64(r*each + i + 1))
			ps[i] = *packet(&m)
		}
		seen := make([]bool, each)
		for left, tries := each, 0; left > 0; {
			n, err := b.TrySend(ps)
			if err != nil {
				t.Fatalf("TrySend: %v", err)
			}
			ps = ps[n:]
			// Wait for half of the responses, and poll for the others.
			for (len(ps) == 0 || n == 0) && left > 0 {
				ok, err := true, error(nil)
				if tries++; tries%2 == 0 {
					err = tr.Recv(&k)
				} else {
					ok, err = b.TryRecv(&k)
				}
				if err != nil {
					t.Fatal(err)
				}
				if !ok {
					continue
				}
				i := int(uint32(answer(t, k, smp.AttrNodeInfo).TID())) - r*each - 1
				if i < 0 || i >= each || seen[i] {
					t.Fatalf("answer %d in round %d was not asked for, or came twice", i, r)
				}
				seen[i] = true
				left--
				break
			}
		}
	}
	none("after the last answer")
}

// port is a transport with its receiving goroutine.
type port struct {
	mad.Transport
	in    chan mad.Packet
	ended chan error
}

func (p *port) read() {
	var k mad.Packet
	for {
		if err := p.Recv(&k); err != nil {
			p.ended <- err
			close(p.ended)
			return
		}
		c := k
		c.Data = append([]byte(nil), k.Data...)
		p.in <- c
	}
}

func (p *port) next(t *testing.T) mad.Packet {
	t.Helper()
	select {
	case k := <-p.in:
		return k
	case err := <-p.ended:
		t.Fatalf("port ended: %v", err)
	case <-time.After(patience):
		t.Fatal("nothing received")
	}
	panic("unreachable")
}

func (p *port) get(t *testing.T, attr ib.AttrID, tid uint32, path ...byte) {
	t.Helper()
	var m ib.MAD
	smp.NewDR(&m, ib.MethodGet, attr, 0, 0, path)
	m.SetTID(uint64(tid))
	if err := p.Send(packet(&m)); err != nil {
		t.Fatalf("send: %v", err)
	}
}

func packet(m *ib.MAD) *mad.Packet {
	return &mad.Packet{Addr: mad.Addr{LID: ib.LIDPermissive}, Timeout: patience, Data: m[:]}
}

// answer checks that k answers an SMP and returns the MAD.
func answer(t *testing.T, k mad.Packet, attr ib.AttrID) *ib.MAD {
	t.Helper()
	if k.Status != mad.Received || len(k.Data) < ib.MADLen {
		t.Fatalf("got status %d with %d bytes", k.Status, len(k.Data))
	}
	m := (*ib.MAD)(k.Data)
	if m.Method() != ib.MethodGetResp || m.AttrID() != attr || smp.StatusOf(m) != 0 || m.Class() != ib.ClassSubnDR {
		t.Fatalf("got class %#x method %#x attribute %#x status %#x",
			m.Class(), m.Method(), m.AttrID(), m.Status())
	}
	return m
}

func nodeInfo(t *testing.T, p *port) {
	p.get(t, smp.AttrNodeInfo, 0x12345678)
	k := p.next(t)
	m := answer(t, k, smp.AttrNodeInfo)
	if uint32(m.TID()) != 0x12345678 {
		t.Errorf("transaction ID %#x: the low 32 bits are ours", m.TID())
	}
	if k.LocalQP != 0 || k.Addr.QP != 0 {
		t.Errorf("QPs %d and %d of an SMP", k.LocalQP, k.Addr.QP)
	}
	var ni smp.NodeInfo
	if err := ni.Decode(smp.Data(m)[:smp.NodeInfoLen]); err != nil {
		t.Fatal(err)
	}
	if ni.PortGUID != p.PortGUID() {
		t.Errorf("NodeInfo says port GUID %v, the transport %v", ni.PortGUID, p.PortGUID())
	}
}

// sendsAtOnce tests concurrent senders: each packet arrives whole.
func sendsAtOnce(t *testing.T, p *port) {
	const senders, each = 4, 50
	var sending sync.WaitGroup
	turns := make(chan struct{}, max(1, min(8, p.MaxInFlight())))
	for i := range senders {
		sending.Go(func() {
			for k := range each {
				turns <- struct{}{}
				var m ib.MAD
				smp.NewDR(&m, ib.MethodGet, smp.AttrNodeInfo, 0, 0, nil)
				m.SetTID(uint64(1 + i*each + k))
				if err := p.Send(packet(&m)); err != nil {
					t.Errorf("send: %v", err)
				}
			}
		})
	}
	seen := map[uint32]bool{}
	for range senders * each {
		tid := uint32(answer(t, p.next(t), smp.AttrNodeInfo).TID())
		if tid == 0 || tid > senders*each || seen[tid] {
			t.Errorf("an answer with transaction ID %d, which is not awaited", tid)
		}
		seen[tid] = true
		<-turns
	}
	sending.Wait()
}

func keepsNothing(t *testing.T, p *port) {
	var m ib.MAD
	smp.NewDR(&m, ib.MethodGet, smp.AttrNodeInfo, 0, 0, nil)
	m.SetTID(77)
	k := packet(&m)
	if err := p.Send(k); err != nil {
		t.Fatal(err)
	}
	clear(m[:])
	*k = mad.Packet{}
	if r := answer(t, p.next(t), smp.AttrNodeInfo); uint32(r.TID()) != 77 {
		t.Errorf("transaction ID %#x", r.TID())
	}
}

func window(t *testing.T, p *port) {
	n := p.MaxInFlight()
	if n <= 0 || n > 64 {
		n = 64
	}
	seen := make([]int, n)
	for range 20 {
		clear(seen)
		for i := range n {
			p.get(t, smp.AttrNodeDescription, uint32(1000+i))
		}
		for range n {
			m := answer(t, p.next(t), smp.AttrNodeDescription)
			seen[uint32(m.TID())-1000]++
		}
		for i, k := range seen {
			if k != 1 {
				t.Fatalf("request %d of %d got %d answers", i, n, k)
			}
		}
	}
}

func engine(t *testing.T, p *port) {
	const n = 2000
	start := time.Now()
	now := func() mad.Time { return mad.Time(time.Since(start)) }
	e := mad.NewEngine(mad.Config{Timeout: patience}.Tuned(p.MaxInFlight()))
	var r mad.Request
	r.Addr.LID = ib.LIDPermissive
	smp.NewDR(&r.MAD, ib.MethodGet, smp.AttrNodeInfo, 0, 0, nil)
	for i := range n {
		r.Token = uint64(i)
		if err := e.Submit(&r); err != nil {
			t.Fatal(err)
		}
	}
	send := func(k *mad.Packet) {
		if err := p.Send(k); err != nil {
			t.Fatal(err)
		}
	}
	seen := make([]bool, n)
	for left := n; left > 0; {
		e.Poll(now(), send)
		k := p.next(t)
		c, kind := e.Receive(now(), &k)
		if kind != mad.KindCompletion || c.Err != nil || seen[c.Token] || c.Tries != 1 {
			t.Fatalf("token %d: kind %d, error %v, tries %d", c.Token, kind, c.Err, c.Tries)
		}
		seen[c.Token] = true
		left--
	}
	if !e.Idle() {
		t.Error("the engine is not idle")
	}
}

// unknownPath tests a path that leads nowhere: it produces Failed or nothing,
// and does not disturb later requests.
func unknownPath(t *testing.T, p *port) {
	var m ib.MAD
	smp.NewDR(&m, ib.MethodGet, smp.AttrNodeInfo, 0, 0, []byte{254, 254})
	m.SetTID(5)
	k := packet(&m)
	k.Timeout = 50 * time.Millisecond
	if err := p.Send(k); err != nil {
		t.Fatal(err)
	}
	p.get(t, smp.AttrNodeInfo, 6)
	for {
		k := p.next(t)
		switch tid := uint32((*ib.MAD)(append(k.Data, make([]byte, ib.MADLen)...)).TID()); {
		case k.Status == mad.Failed && tid == 5:
		case tid == 6:
			answer(t, k, smp.AttrNodeInfo)
			return
		default:
			t.Fatalf("status %d, transaction %d", k.Status, tid)
		}
	}
}

func isSM(t *testing.T, p *port) {
	for i, on := range []bool{true, false, true} {
		if err := p.SetIsSM(on); err != nil {
			t.Fatal(err)
		}
		p.get(t, smp.AttrPortInfo, uint32(100+i))
		var pi smp.PortInfo
		if err := pi.Decode(smp.Data(answer(t, p.next(t), smp.AttrPortInfo))); err != nil {
			t.Fatal(err)
		}
		if got := pi.CapabilityMask&ib.CapIsSM != 0; got != on {
			t.Errorf("IsSM is %v after SetIsSM(%v)", got, on)
		}
	}
}

func refusesNonsense(t *testing.T, p *port) {
	k := packet(new(ib.MAD))
	k.Data = k.Data[:10]
	if err := p.Send(k); err == nil {
		t.Error("a MAD of 10 bytes was taken")
	}
	p.get(t, smp.AttrNodeInfo, 9)
	answer(t, p.next(t), smp.AttrNodeInfo)
}

func closeEndsRecv(t *testing.T, p *port) {
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-p.ended:
		if err == nil {
			t.Error("Recv returned nil after Close")
		}
	case <-time.After(patience):
		t.Fatal("Recv still blocks after Close")
	}
	var m ib.MAD
	smp.NewDR(&m, ib.MethodGet, smp.AttrNodeInfo, 0, 0, nil)
	if err := p.Send(packet(&m)); err == nil {
		t.Error("Send after Close succeeded")
	}
	var k mad.Packet
	if err := p.Recv(&k); err == nil {
		t.Error("Recv after Close succeeded")
	}
}

func closeTwice(t *testing.T, p *port) {
	p.Close()
	if err := p.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
}
