package ibsim

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"heddle/ib"
	"heddle/ib/sa"
	"heddle/ib/smp"
	"heddle/internal/need"
	"heddle/mad"
	"heddle/transport/rmpp"
)

// smpDo does one request by directed route and returns the answer's data.
func smpDo(t *testing.T, c *Conn, method ib.Method, attr ib.AttrID, mod uint32, data []byte, path ...byte) []byte {
	t.Helper()
	var m ib.MAD
	smp.NewDR(&m, method, attr, mod, 0, path)
	copy(smp.Data(&m), data)
	m.SetTID(42)
	if err := c.Send(&mad.Packet{Addr: mad.Addr{LID: ib.LIDPermissive}, Data: m[:]}); err != nil {
		t.Fatal(err)
	}
	var p mad.Packet
	if err := c.Recv(&p); err != nil || p.Status != mad.Received {
		t.Fatalf("attribute %#x: %v, status %d", uint16(attr), err, p.Status)
	}
	r := (*ib.MAD)(p.Data)
	if st := smp.StatusOf(r); st != 0 {
		t.Fatalf("attribute %#x at %v: status %#x", uint16(attr), path, uint16(st))
	}
	return bytes.Clone(smp.Data(r))
}

// bringUp gives Hca1 LID 1, Hca2 LID 2 and Switch1 LID 3, as seen from Hca1.
func bringUp(t *testing.T, c *Conn) {
	set := func(port uint8, f func(*smp.PortInfo), path ...byte) {
		t.Helper()
		var pi smp.PortInfo
		if err := pi.Decode(smpDo(t, c, ib.MethodGet, smp.AttrPortInfo, uint32(port), nil, path...)); err != nil {
			t.Fatal(err)
		}
		pi.PortState, pi.PortPhysicalState = 0, 0
		pi.LinkWidthEnabled, pi.LinkSpeedEnabled = 0, 0
		f(&pi)
		b := make([]byte, 64)
		pi.Put(b)
		smpDo(t, c, ib.MethodSet, smp.AttrPortInfo, uint32(port), b, path...)
	}
	lid := func(l ib.LID) func(*smp.PortInfo) {
		return func(pi *smp.PortInfo) { pi.LID, pi.MasterSMLID = l, 1 }
	}
	set(0, lid(3), 1)
	set(1, lid(1))
	set(1, lid(2), 1, 4)
	var si smp.SwitchInfo
	if err := si.Decode(smpDo(t, c, ib.MethodGet, smp.AttrSwitchInfo, 0, nil, 1)[:smp.SwitchInfoLen]); err != nil {
		t.Fatal(err)
	}
	si.LinearFDBTop = 3
	b := make([]byte, 64)
	si.Put(b)
	smpDo(t, c, ib.MethodSet, smp.AttrSwitchInfo, 0, b, 1)
	lft := bytes.Repeat([]byte{0xFF}, 64)
	lft[1], lft[2], lft[3] = 1, 4, 0
	smpDo(t, c, ib.MethodSet, smp.AttrLFT, 0, lft, 1)
	for _, st := range []ib.PortState{ib.StateArmed, ib.StateActive} {
		to := func(pi *smp.PortInfo) { pi.PortState = st }
		set(1, to)
		set(1, to, 1)
		set(4, to, 1)
		set(1, to, 1, 4)
	}
}

// peer runs an RMPP engine over a Conn in real time.
type peer struct {
	c    *Conn
	r    *mad.RMPP
	zero time.Time
	in   chan mad.Packet
	t    *testing.T
}

func newPeer(t *testing.T, c *Conn) *peer {
	p := &peer{c: c, r: mad.NewRMPP(mad.RMPPConfig{}), zero: time.Now(), in: make(chan mad.Packet, 64), t: t}
	go func() {
		defer close(p.in)
		for {
			var k mad.Packet
			if c.Recv(&k) != nil {
				return
			}
			p.in <- k
		}
	}()
	return p
}

func (p *peer) now() mad.Time { return mad.Time(time.Since(p.zero)) }

func (p *peer) send(k *mad.Packet) {
	if err := p.c.Send(k); err != nil {
		p.t.Error(err)
	}
}

// run gives whole messages and ordinary MADs to got until it returns true.
func (p *peer) run(got func(k *mad.Packet) bool, done func(error) bool) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	limit := time.After(need.Patience)
	end := false
	finished := func(_ uint64, err error) { end = done(err) || end }
	for !end {
		if due := p.r.NextTimer(); due != mad.Never {
			timer.Reset(due.Sub(p.now()))
		}
		select {
		case k, ok := <-p.in:
			if !ok {
				p.t.Error("port ended")
				return
			}
			msg, kind := p.r.Receive(p.now(), &k, p.send, finished)
			switch kind {
			case mad.RMPPPass:
				end = got(&k) || end
			case mad.RMPPMessage:
				end = got(msg) || end
			}
		case <-timer.C:
			p.r.Expire(p.now(), p.send, finished)
		case <-limit:
			p.t.Error("does not end")
			return
		}
	}
}

// A table of 5,000 records between two clients: the segments find the
// requester by their transaction ID, its ACKs the other SM.
func TestRMPPOverIbsim(t *testing.T) {
	s := startIbsim(t)
	a := s.dialWhenUp(t, Options{SockName: s.name, Node: "Hca1"})
	b := s.dialWhenUp(t, Options{SockName: s.name, Node: "Hca2", IsSM: true})
	bringUp(t, a)

	table := make([]byte, 56+5000*112)
	for i := range table[56:] {
		table[56+i] = byte(i * 7 / 5)
	}
	server := newPeer(t, b)
	over := make(chan error, 1)
	go server.run(func(k *mad.Packet) bool {
		m := (*ib.MAD)(k.Data)
		if m.Class() != ib.ClassSA || m.Method() != ib.MethodGetTable {
			return false
		}
		copy(table, m[:56])
		(*ib.MAD)(table[:256]).SetMethod(ib.MethodGetTableResp)
		if err := server.r.Send(server.now(), &mad.Packet{Addr: k.Addr, LocalQP: 1, Data: table}, false, 1, server.send); err != nil {
			t.Error(err)
		}
		return false
	}, func(err error) bool {
		over <- err
		return true
	})

	client := newPeer(t, a)
	var q ib.MAD
	q.SetHeader(ib.ClassSA, 2, ib.MethodGetTable, 0x11, 0)
	q.SetTID(0xABCD)
	client.send(&mad.Packet{Addr: mad.Addr{LID: 2, QP: 1}, LocalQP: 1, Data: q[:]})
	var whole []byte
	client.run(func(k *mad.Packet) bool {
		if k.Status != mad.Received || k.Addr.LID != 2 {
			t.Errorf("status %d from LID %v", k.Status, k.Addr.LID)
		}
		whole = bytes.Clone(k.Data)
		return true
	}, func(error) bool { return false })
	if !bytes.Equal(whole[min(56, len(whole)):], table[56:]) {
		t.Errorf("%d bytes of %d came out, or others", len(whole), len(table))
	}
	if err := <-over; err != nil {
		t.Error(err)
	}
}

// deliver does to a data message what the server does on its way: the sender's
// LID comes behind the destination's, and each end's queue pair is the other's
// far one.
func deliver(b *message) {
	copy(b[4:6], b[0:2])
	var qp [4]byte
	copy(qp[:], b[8:12])
	copy(b[8:12], b[12:16])
	copy(b[12:16], qp[:])
}

func FuzzDataMessage(f *testing.F) {
	var b message
	putPacket(&b, neighbor())
	f.Add(b[:dataLen])
	f.Add(b[:100])
	far := neighbor()
	far.LocalQP = 1
	far.Addr = mad.Addr{LID: 7, QP: 0x1234, SL: 3, PathBits: 1, PKeyIndex: 2, HasGRH: true, GRH: mad.GRH{HopLimit: 1, GID: ib.GID{0xFE, 0x80}}}
	putPacket(&b, far)
	putAddr(&b, &far.Addr)
	deliver(&b)
	f.Add(b[:])
	b[4+1], b[15] = 9, 5 // another LID, another queue pair
	f.Add(b[:dataLen])
	f.Fuzz(func(t *testing.T, in []byte) {
		var p, q mad.Packet
		if !getPacket(&p, in) {
			return
		}
		if len(p.Data) < 24 || len(p.Data) > ib.MADLen {
			t.Fatalf("%d bytes", len(p.Data))
		}
		var out message
		putPacket(&out, &p)
		n := putAddr(&out, &p.Addr)
		deliver(&out)
		if !getPacket(&q, out[:n]) || !bytes.Equal(p.Data, q.Data) || p.Addr != q.Addr {
			t.Fatal("another packet comes back")
		}
	})
}

// losing drops one SA packet in twenty that its port sends.
type losing struct {
	mad.Transport
	r *rand.Rand
}

func (l *losing) Send(p *mad.Packet) error {
	if ib.Class(p.Data[1]) == ib.ClassSA && l.r.IntN(20) == 0 {
		return nil
	}
	return l.Transport.Send(p)
}

// Requests and answers of many segments, through ibsim, which loses nothing,
// and over ports that do.
func TestRMPPBothWaysOverIbsim(t *testing.T) {
	s := startIbsim(t)
	a := s.dialWhenUp(t, Options{SockName: s.name, Node: "Hca1"})
	b := s.dialWhenUp(t, Options{SockName: s.name, Node: "Hca2", IsSM: true})
	bringUp(t, a)
	cfg := mad.RMPPConfig{MinAckTimeout: 5 * time.Millisecond, Retries: 30} // ibsim may get no turn for long
	client := rmpp.OverWith(&losing{a, rand.New(rand.NewPCG(1, 1))}, cfg)
	server := rmpp.OverWith(&losing{b, rand.New(rand.NewPCG(2, 2))}, cfg)

	message := func(method ib.Method, tid uint64, n int) []byte {
		var m ib.MAD
		sa.New(&m, method, sa.AttrMultiPathRecord, 0, 0)
		m.SetTID(tid)
		m[26] = sa.RMPPActive
		msg := m[:sa.HeaderLen:sa.HeaderLen]
		for i := range n {
			msg = append(msg, byte(uint64(i)*7+tid))
		}
		return msg
	}
	go func() {
		var p mad.Packet
		for server.Recv(&p) == nil {
			id := (*ib.MAD)(p.Data[:ib.MADLen]).TID()
			n := len(p.Data) - sa.HeaderLen
			if !bytes.Equal(p.Data[sa.HeaderLen:], message(0, id&0xFFFFFFFF, n)[sa.HeaderLen:]) {
				t.Errorf("request %#x: %d bytes, or others", id, n)
			}
			answer := message(ib.MethodGetMultiResp, id, 0)
			answer = append(answer, message(0, id&0xFFFFFFFF, 8*n)[sa.HeaderLen:]...)
			if err := server.Send(&mad.Packet{Addr: p.Addr, LocalQP: 1, Data: answer}); err != nil && !errors.Is(err, mad.ErrRMPPBusy) {
				t.Error(err)
			}
		}
	}()
	late := time.AfterFunc(need.Patience, func() { client.Close() })
	defer late.Stop()
	for id := range uint64(5) {
		n := 500 + int(id)*3000
		if err := client.Send(&mad.Packet{Addr: mad.Addr{LID: 2, QP: 1}, LocalQP: 1, Data: message(ib.MethodGetMulti, id, n)}); err != nil {
			t.Fatal(err)
		}
		var p mad.Packet
		if err := client.Recv(&p); err != nil {
			t.Fatalf("request %d: %v", id, err)
		}
		if !bytes.Equal(p.Data[sa.HeaderLen:], message(0, id, 8*n)[sa.HeaderLen:]) {
			t.Errorf("answer %d: %d bytes, or others, of %d", id, len(p.Data), 8*n)
		}
	}
	server.Close()
}
