package mad

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"heddle/ib"
)

// idle fails the test unless a port has forgotten everything.
func (r *RMPP) idle(t testing.TB) {
	t.Helper()
	lingering := 0
	for _, q := range r.done[r.head:] {
		if !q.gone {
			lingering++
		}
	}
	if len(r.tx)+len(r.rx)+len(r.peers)+r.alarms.heap.Len()+r.sent+r.got+r.open+lingering != 0 {
		t.Fatalf("left over: %d and %d transfers, %d peers, %d alarms, %d and %d bytes, %d open, %d lingering",
			len(r.tx), len(r.rx), len(r.peers), r.alarms.heap.Len(), r.sent, r.got, r.open, lingering)
	}
}

// check fails the test if what a port counts is not what it holds.
func (r *RMPP) check(t testing.TB) {
	t.Helper()
	sent, got, open := 0, 0, 0
	peers := map[ib.LID]rmppCount{}
	for k, x := range r.tx {
		sent += len(x.msg)
		c := peers[k.lid]
		c.tx++
		c.sent += len(x.msg)
		peers[k.lid] = c
		if x.done || x.alarm.pos < 0 || x.alarm.at != x.due {
			t.Fatalf("a transfer is done: %v, alarm at %v, due at %v", x.done, x.alarm.at, x.due)
		}
	}
	for k, x := range r.rx {
		if x.gone || x.alarm.pos < 0 || x.alarm.at != x.due {
			t.Fatalf("a reception is gone: %v, alarm at %v, due at %v", x.gone, x.alarm.at, x.due)
		}
		if x.complete {
			continue
		}
		open++
		got += cap(x.msg)
		c := peers[k.lid]
		c.rx++
		c.got += cap(x.msg)
		peers[k.lid] = c
	}
	if sent != r.sent || got != r.got || open != r.open || fmt.Sprint(peers) != fmt.Sprint(r.peers) {
		t.Fatalf("%d, %d, %d, %v counted; there are %d, %d, %d, %v", r.sent, r.got, r.open, r.peers, sent, got, open, peers)
	}
	if r.alarms.heap.Len() != len(r.tx)+len(r.rx) || len(r.done)-r.head > maxLinger+1 || len(r.done) > 2*maxLinger+2 {
		t.Fatalf("%d alarms for %d and %d, %d lingering", r.alarms.heap.Len(), len(r.tx), len(r.rx), len(r.done))
	}
}

// exchange is a request of several segments and its answer, between two ports,
// without loss. step is called before each packet is delivered and may
// replace it, or take it away by returning nil.
func exchange(t *testing.T, step func(n int, from, to *rmppEnd, m *ib.MAD) *ib.MAD) (a, b *rmppEnd, packets int, answered bool) {
	l := &lossy{r: rand.New(rand.NewPCG(9, 9)), delay: time.Microsecond}
	a, b = joined(l, RMPPConfig{Window: 4})
	for _, e := range []struct{ from, to *rmppEnd }{{a, b}, {b, a}} {
		out := e.from.out
		e.from.out = func(m *ib.MAD) {
			if m = step(packets, e.from, e.to, m); m != nil {
				out(m)
			}
			packets++
		}
	}
	req := message(ib.ClassSA, ib.MethodGetMulti, 7, 1000)
	resp := message(ib.ClassSA, ib.MethodGetMultiResp, 7, 1700)
	b.got = func(now Time, p *Packet) {
		if !bytes.Equal(p.Data[36:], req[36:]) {
			t.Error("another request arrived")
		}
		m := bytes.Clone(resp)
		copy(m[8:16], p.Data[8:16])
		if err := b.p.Send(now, &Packet{Addr: p.Addr, LocalQP: 1, Data: m}, false, 2, b.send); err != nil {
			t.Error(err)
		}
	}
	a.got = func(_ Time, p *Packet) {
		if !bytes.Equal(p.Data[36:], resp[36:]) {
			t.Error("another answer arrived")
		}
		answered = true
	}
	if err := a.p.Send(0, &Packet{Addr: Addr{LID: 2, QP: 1}, LocalQP: 1, Data: req}, true, 1, a.send); err != nil {
		t.Fatal(err)
	}
	l.run(func() bool { a.p.check(t); b.p.check(t); return false })
	a.p.idle(t)
	b.p.idle(t)
	if l.now > Time(60*time.Second) {
		t.Errorf("over after %v", time.Duration(l.now))
	}
	return a, b, packets, answered
}

// A STOP or ABORT in place of any packet of an exchange, from either side, and a
// peer that is silent from any packet on: the exchange ends, and nothing is left
// of it.
func TestRMPPEndsAnywhere(t *testing.T) {
	pass := func(_ int, _, _ *rmppEnd, m *ib.MAD) *ib.MAD { return m }
	_, _, packets, answered := exchange(t, pass)
	if !answered || packets < 20 {
		t.Fatalf("answered: %v, by %d packets", answered, packets)
	}
	for k := range packets {
		for _, typ := range []RMPPType{RMPPStop, RMPPAbort} {
			data, free := false, false // free: nothing is there yet, or any more, that it could end
			a, b, _, answered := exchange(t, func(n int, _, _ *rmppEnd, m *ib.MAD) *ib.MAD {
				if n == k {
					data = RMPPTypeOf(m) == RMPPData
					seg, _ := rmppData(m)
					free = seg == 0 || data && seg == 1 || m[offRMPPFlags]&RMPPLast != 0
					putRMPP(m, typ, 0, RMPPUnspecified, 0, 0)
				}
				return m
			})
			// A sender that gets it knows at once that the peer ended the
			// transfer; one whose reader got it in place of a segment gives up
			// when nothing is acknowledged any more.
			var e *RMPPError
			switch failed := errors.As(a.done[1], &e) || errors.As(b.done[2], &e); {
			case !failed && !answered:
				t.Errorf("packet %d, type %d: no answer and no error: %v, %v", k, typ, a.done, b.done)
			case failed && (e.ByPeer == data || e.ByPeer && e.Type != typ || !e.ByPeer && e.Status != RMPPTooManyTries):
				t.Errorf("packet %d, type %d: %v", k, typ, e)
			case !failed && !free:
				t.Errorf("packet %d, type %d: the transfer went on", k, typ)
			}
		}
		_, _, n, _ := exchange(t, func(n int, _, _ *rmppEnd, m *ib.MAD) *ib.MAD {
			if n >= k {
				return nil
			}
			return m
		})
		if n > k+400 {
			t.Errorf("%d packets into the void after packet %d", n-k, k)
		}
		for _, dead := range []ib.LID{1, 2} {
			exchange(t, func(n int, from, _ *rmppEnd, m *ib.MAD) *ib.MAD {
				if n >= k && from.self == dead {
					return nil
				}
				return m
			})
		}
	}
}

// One peer cannot take all transfers, and complete receptions take none.
func TestRMPPPerPeer(t *testing.T) {
	p := NewRMPP(RMPPConfig{MaxTransfers: 10, MaxPerPeer: 4, MaxSending: 12 * 1056})
	drop := func(*Packet) {}
	done := func(uint64, error) {}
	send := func(lid ib.LID, qp uint32, tid uint64) error {
		return p.Send(0, &Packet{Addr: Addr{LID: lid, QP: qp}, Data: message(ib.ClassSA, 0x92, tid, 1000)}, false, tid, drop)
	}
	for i := range uint64(4) {
		if err := send(1, 1, i); err != nil {
			t.Fatal(err)
		}
	}
	if err := send(1, 1, 9); !errors.Is(err, ErrRMPPPeer) || !errors.Is(err, ErrRMPPFull) {
		t.Fatal(err)
	}
	if err := send(1, 1, 3); !errors.Is(err, ErrRMPPBusy) {
		t.Fatal(err)
	}
	for i := range uint64(6) {
		if err := send(2+ib.LID(i), 1, i); err != nil {
			t.Fatal(err)
		}
	}
	if err := send(9, 1, 1); errors.Is(err, ErrRMPPPeer) || !errors.Is(err, ErrRMPPFull) {
		t.Fatal(err)
	}
	p.check(t)
	for p.NextTimer() != Never {
		p.Expire(p.NextTimer(), drop, done)
	}
	p.idle(t)
	// Bytes: the first message goes whatever its length.
	big := message(ib.ClassSA, 0x92, 1, 20*1000)
	if err := p.Send(0, &Packet{Addr: Addr{LID: 1, QP: 1}, Data: big}, false, 1, drop); err != nil {
		t.Fatal(err)
	}
	if err := send(2, 1, 1); !errors.Is(err, ErrRMPPFull) {
		t.Fatal(err)
	}

	receive := func(lid ib.LID, tid uint64, flags uint8) bool {
		var m ib.MAD
		copy(m[:], message(ib.ClassSA, 0x92, tid, 200))
		putRMPP(&m, RMPPData, flags, 0, 1, 220)
		_, kind := p.Receive(0, &Packet{Addr: Addr{LID: lid, QP: 1}, Data: m[:]}, drop, done)
		p.check(t)
		return kind == RMPPMessage
	}
	for i := range uint64(3 * maxLinger) {
		if !receive(1, i, RMPPFirst|RMPPLast) {
			t.Fatalf("message %d of one segment did not arrive", i)
		}
	}
	for i := range uint64(20) {
		receive(1, 1<<20+i, RMPPFirst)
	}
	for i := range uint64(20) {
		receive(2+ib.LID(i), 1<<20+i, RMPPFirst)
	}
	if p.open != 10 || p.peers[1].rx != 4 {
		t.Fatalf("%d open, %v", p.open, p.peers)
	}
	for p.NextTimer() != Never {
		p.Expire(p.NextTimer(), drop, done)
	}
	p.idle(t)
}

// Messages that never end, from many peers, are stopped when they hold too
// much memory.
func TestRMPPReceivingBound(t *testing.T) {
	const bound = 1 << 20
	p := NewRMPP(RMPPConfig{MaxReceiving: bound, MaxBytes: 1 << 19})
	stops := 0
	send := func(k *Packet) {
		if RMPPTypeOf((*ib.MAD)(k.Data)) == RMPPStop {
			stops++
		}
	}
	var m ib.MAD
	copy(m[:], message(ib.ClassSA, 0x92, 1, 200))
	for seg := uint32(1); seg < 600; seg++ {
		for lid := ib.LID(1); lid <= 50; lid++ {
			flags := uint8(0)
			if seg == 1 {
				flags = RMPPFirst
			}
			putRMPP(&m, RMPPData, flags, 0, seg, 0)
			p.Receive(0, &Packet{Addr: Addr{LID: lid, QP: 1}, Data: m[:]}, send, func(uint64, error) {})
			if p.got > bound+1<<20 {
				t.Fatalf("%d bytes held", p.got)
			}
		}
		p.check(t)
	}
	if stops == 0 {
		t.Fatal("nothing was stopped")
	}
}

// A peer that grants a window of its whole message does not keep the port to
// itself: others send between its bursts.
func TestRMPPFair(t *testing.T) {
	p := NewRMPP(RMPPConfig{})
	var sent []ib.LID
	var first [3]ib.MAD
	send := func(k *Packet) {
		m := (*ib.MAD)(k.Data)
		if seg, _ := rmppData(m); seg == 1 && RMPPTypeOf(m) == RMPPData {
			first[k.Addr.LID] = *m
			return
		}
		sent = append(sent, k.Addr.LID)
	}
	done := func(uint64, error) {}
	for lid := range ib.LID(3) {
		if err := p.Send(0, &Packet{Addr: Addr{LID: lid, QP: 1}, Data: message(ib.ClassSA, 0x92, 1, 1<<20)}, false, 1, send); err != nil {
			t.Fatal(err)
		}
	}
	for lid := range ib.LID(3) {
		p.Receive(0, &Packet{Addr: Addr{LID: lid, QP: 1}, Data: ackTo(&first[lid], 1, 1<<30)[:]}, send, done)
	}
	for p.NextTimer() == 0 {
		before := len(sent)
		p.Expire(0, send, done)
		if len(sent) > before+3*64 {
			t.Fatalf("%d segments in one call", len(sent)-before)
		}
	}
	var by [3]int
	for i, lid := range sent {
		by[lid]++
		if lo, hi := min(by[0], by[1], by[2]), max(by[0], by[1], by[2]); hi > lo+64 {
			t.Fatalf("after %d segments: %v", i+1, by)
		}
	}
	if n := RMPPSegments(ib.ClassSA, 1<<20); by != [3]int{n - 1, n - 1, n - 1} {
		t.Fatalf("%v segments of %d", by, n)
	}
}

// A thousand transfers at once, on a bad network.
func TestRMPPThousand(t *testing.T) {
	l := &lossy{r: rand.New(rand.NewPCG(4, 4)), loss: 0.05, dup: 0.05, delay: 20 * time.Microsecond, vary: 200 * time.Microsecond}
	a, b := joined(l, RMPPConfig{MaxTransfers: 2048, MaxPerPeer: 1024})
	const n = 1000
	whole := 0
	b.got = func(_ Time, p *Packet) {
		if tid := (*ib.MAD)(p.Data[:ib.MADLen]).TID() &^ agent; len(p.Data) != 56+5000+int(tid) {
			t.Errorf("message %d has %d bytes", tid, len(p.Data))
		}
		whole++
	}
	for i := range uint64(n) {
		m := message(ib.ClassSA, ib.MethodGetTableResp, i|agent, 5000+int(i))
		if err := a.p.Send(0, &Packet{Addr: Addr{LID: 2, QP: 1}, LocalQP: 1, Data: m}, false, i, a.send); err != nil {
			t.Fatal(err)
		}
	}
	l.run(func() bool { return false })
	if whole != n {
		t.Errorf("%d of %d messages arrived", whole, n)
	}
	for token, err := range a.done {
		if err != nil {
			t.Errorf("transfer %d: %v", token, err)
		}
	}
	a.p.idle(t)
	b.p.idle(t)
}

// What arrives from strangers while transfers are under way: nothing grows past
// its bound, the counts stay right, and everything ends.
func FuzzRMPP(f *testing.F) {
	f.Add([]byte{0, 1, 3, 0, 1, 9, 0x92, 0, 1, 5, 0, 2, 30, 0x92})
	f.Add([]byte{4, 2, 1, 0, 1, 65, 0x12, 0xFF, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		p := NewRMPP(RMPPConfig{MaxTransfers: 6, MaxPerPeer: 3, MaxReceiving: 40_000, MaxSending: 40_000, MaxBytes: 20_000, Window: 5, Burst: 3})
		ended := map[uint64]bool{}
		done := func(token uint64, _ error) {
			if ended[token] {
				t.Fatalf("transfer %d ended twice", token)
			}
			ended[token] = true
		}
		send := func(k *Packet) {
			if len(k.Data) != ib.MADLen {
				t.Fatalf("%d bytes sent", len(k.Data))
			}
		}
		now, token := Time(0), uint64(0)
		for ; len(b) >= 7; b = b[7:] {
			lid, tid := ib.LID(b[0]&3), uint64(b[0]>>2&3)
			switch b[0] >> 5 {
			case 0: // ours
				token++
				pk := &Packet{Addr: Addr{LID: lid, QP: 1}, Data: message(ib.ClassSA, ib.Method(b[6]), tid, int(b[5])<<8)}
				if p.Send(now, pk, b[1]&1 != 0, token, send) != nil {
					ended[token] = true
				}
			case 1:
				now = now.Add(time.Duration(b[1]) << (b[2] & 31))
				p.Expire(now, send, done)
			default:
				var m ib.MAD
				copy(m[:], message(ib.ClassSA, ib.Method(b[6]), tid, 200))
				putRMPP(&m, RMPPType(b[1]&7), b[2]&7, RMPPStatus(b[3]), uint32(b[4]), uint32(b[5]))
				m[offRMPPVersion] -= b[1] >> 7
				p.Receive(now, &Packet{Addr: Addr{LID: lid, QP: 1}, Data: m[:]}, send, done)
			}
			p.check(t)
			if p.open > 6 || len(p.tx) > 6 || p.got > 40_000+30_000 {
				t.Fatalf("%d and %d transfers, %d bytes", len(p.tx), p.open, p.got)
			}
		}
		for k := 0; p.NextTimer() != Never; k++ {
			if k > 10_000 {
				t.Fatal("does not end")
			}
			p.Expire(max(now, p.NextTimer()), send, done)
			p.check(t)
		}
		p.idle(t)
		for i := uint64(1); i <= token; i++ {
			if !ended[i] {
				t.Fatalf("transfer %d never ended", i)
			}
		}
	})
}
