package mad

import (
	"errors"
	"testing"
	"time"

	"heddle/ib"
)

// A host that asks from many QPs, and a few that ask for as much as they can get,
// leave room for one that comes new: in transfers, in bytes, in both directions.
func TestRMPPShare(t *testing.T) {
	drop := func(*Packet) {}
	done := func(uint64, error) {}
	p := NewRMPP(RMPPConfig{MaxSending: 1 << 20})
	send := func(lid ib.LID, qp uint32, tid uint64, n int) error {
		err := p.Send(0, &Packet{Addr: Addr{LID: lid, QP: qp}, Data: message(ib.ClassSA, 0x92, tid, n)}, false, tid, drop)
		p.check(t)
		return err
	}
	for i := range uint64(2000) {
		send(1, uint32(i), i, 10)
	}
	if n := p.peers[1].tx; n != 64 {
		t.Errorf("one host has %d transfers", n)
	}
	for lid := ib.LID(2); lid < 8; lid++ {
		for i := range uint64(100) {
			send(lid, 1, i, 10)
		}
	}
	if err := send(999, 1, 1, 10); err != nil {
		t.Errorf("nothing is left of the transfers for one more host: %v", err)
	}
	for p.NextTimer() != Never {
		p.Expire(p.NextTimer(), drop, done)
	}
	p.idle(t)

	// Bytes. The first one may be of any length.
	for lid := ib.LID(1); lid < 8; lid++ {
		for i := range uint64(10) {
			send(lid, 1, i, 400_000>>(2*i))
		}
	}
	if p.sent > 1<<20 || p.peers[1].sent < 400_000 || p.peers[1].sent > 600_000 {
		t.Errorf("%d bytes, %d of one", p.sent, p.peers[1].sent)
	}
	if err := send(999, 1, 1, 200); err != nil {
		t.Errorf("nothing is left of the bytes for one more host: %v", err)
	}

	// Receptions: who is refused is told.
	stops := map[ib.LID]int{}
	receive := func(lid ib.LID, qp uint32, tid uint64, seg uint32) {
		var m ib.MAD
		copy(m[:], message(ib.ClassSA, 0x14, tid, 200))
		flags := uint8(0)
		if seg == 1 {
			flags = RMPPFirst
		}
		putRMPP(&m, RMPPData, flags, 0, seg, 220)
		p.Receive(0, &Packet{Addr: Addr{LID: lid, QP: qp}, Data: m[:]}, func(k *Packet) {
			if m := (*ib.MAD)(k.Data); RMPPTypeOf(m) == RMPPStop && k.Addr.LID == lid && k.Addr.QP == qp && m.TID() == tid {
				stops[lid]++
			}
		}, done)
		p.check(t)
	}
	for lid := ib.LID(1); lid < 20; lid++ {
		for i := range uint64(100) {
			receive(lid, uint32(i), i, 1)
		}
	}
	if stops[1] != 36 || p.peers[1].rx != 64 {
		t.Errorf("%d receptions of one host, %d refused of 100", p.peers[1].rx, stops[1])
	}
	receive(999, 1, 1, 1)
	if stops[999] != 0 || p.peers[999].rx != 1 {
		t.Error("nothing is left of the receptions for one more host")
	}
	receive(1, 1, 1000, 7) // of nothing that is known: silence
	if stops[1] != 36 {
		t.Error("a segment of no transfer was stopped")
	}
}

// Messages without end from a few hosts are stopped; another one's comes whole.
func TestRMPPReceivingShare(t *testing.T) {
	p := NewRMPP(RMPPConfig{MaxReceiving: 1 << 20, MaxBytes: 1 << 30})
	whole, stopped := false, false
	receive := func(lid ib.LID, seg uint32, flags uint8) {
		var m ib.MAD
		copy(m[:], message(ib.ClassSA, 0x14, 1, 200))
		putRMPP(&m, RMPPData, flags, 0, seg, 220)
		_, kind := p.Receive(0, &Packet{Addr: Addr{LID: lid, QP: 1}, Data: m[:]}, func(k *Packet) {
			stopped = stopped || lid == 9 && RMPPTypeOf((*ib.MAD)(k.Data)) == RMPPStop
		}, func(uint64, error) {})
		whole = whole || lid == 9 && kind == RMPPMessage
	}
	for seg := uint32(1); seg < 3000; seg++ {
		for lid := range ib.LID(3) {
			receive(lid, seg, map[bool]uint8{true: RMPPFirst}[seg == 1])
		}
		switch {
		case seg == 2900:
			receive(9, 1, RMPPFirst)
		case seg > 2900 && seg < 2999:
			receive(9, seg-2899, 0)
		case seg == 2999:
			receive(9, seg-2899, RMPPLast)
		}
	}
	if !whole || stopped {
		t.Errorf("the message of another host: whole %v, stopped %v", whole, stopped)
	}
}

// TestRMPPSlowPeer: a peer that acknowledges just often enough cannot keep a transfer
// open without end.
func TestRMPPSlowPeer(t *testing.T) {
	s, err := NewRMPPSender(nil, message(ib.ClassSA, 0x92, 1, 10<<20), false)
	if err != nil {
		t.Fatal(err)
	}
	var last ib.MAD
	send := func(m *ib.MAD) { last = *m }
	s.Start(0, send)
	now := Time(0)
	for seg := uint32(1); !s.Done() && seg < 1000; seg++ {
		s.Receive(now, ackTo(&last, seg, seg+1), send)
		next := now.Add(7 * time.Second)
		for s.NextTimer() < next {
			s.Expire(s.NextTimer(), send)
		}
		now = next
	}
	var e *RMPPError
	if !errors.As(s.Err(), &e) || e.Status != RMPPTooLong || RMPPTypeOf(&last) != RMPPAbort || RMPPStatus(last[offRMPPStatus]) != RMPPTooLong {
		t.Errorf("the transfer: %v", s.Err())
	}
	if now > Time(50*time.Second) {
		t.Errorf("it took %v", time.Duration(now))
	}
}
