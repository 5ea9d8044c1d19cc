package rmpp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"heddle/ib"
	"heddle/ib/sa"
	"heddle/mad"
)

// end is one end of a wire that carries single MADs and may lose and repeat
// them.
type end struct {
	self ib.LID
	in   chan mad.Packet
	peer *end
	gone chan struct{}
	once sync.Once

	mu   sync.Mutex
	bad  *rand.Rand // nil: nothing is lost
	sent [5]int     // by RMPP type
}

var errGone = errors.New("closed")

func wire(bad bool) (a, b *end) {
	a = &end{self: 1, in: make(chan mad.Packet, 1<<16), gone: make(chan struct{})}
	b = &end{self: 2, in: make(chan mad.Packet, 1<<16), gone: make(chan struct{}), peer: a}
	a.peer = b
	if bad {
		a.bad, b.bad = rand.New(rand.NewPCG(1, 1)), rand.New(rand.NewPCG(2, 2))
	}
	return a, b
}

func (e *end) Send(p *mad.Packet) error {
	select {
	case <-e.gone:
		return errGone
	default:
	}
	if len(p.Data) != ib.MADLen {
		return errors.New("no single MAD")
	}
	e.mu.Lock()
	e.sent[p.Data[25]%5]++
	n := 1
	if e.bad != nil {
		switch {
		case e.bad.IntN(20) == 0:
			n = 0
		case e.bad.IntN(20) == 0:
			n = 2
		}
	}
	e.mu.Unlock()
	for range n {
		q := mad.Packet{Addr: mad.Addr{LID: e.self, QP: 1}, LocalQP: 1, Data: bytes.Clone(p.Data)}
		e.peer.in <- q
	}
	return nil
}

func (e *end) Recv(p *mad.Packet) error {
	select {
	case *p = <-e.in:
		return nil
	case <-e.gone:
		return errGone
	}
}

func (e *end) SetIsSM(bool) error { return nil }
func (e *end) PortGUID() ib.GUID  { return ib.GUID(e.self) }
func (e *end) SegmentsRMPP() bool { return false }
func (e *end) MaxInFlight() int   { return 0 }
func (e *end) Close() error       { e.once.Do(func() { close(e.gone) }); return nil }

// quick has no time to lose.
var quick = mad.RMPPConfig{AckTimeout: 500 * time.Millisecond, MinAckTimeout: 2 * time.Millisecond}

func message(method ib.Method, tid uint64, n int) []byte {
	var m ib.MAD
	sa.New(&m, method, sa.AttrMultiPathRecord, 0, 0)
	m.SetTID(tid)
	m[26] = sa.RMPPActive
	b := append([]byte(nil), m[:sa.HeaderLen]...)
	for i := range n {
		b = append(b, byte(uint64(i)*7+tid))
	}
	return b
}

func tid(b []byte) uint64 { return binary.BigEndian.Uint64(b[8:]) }

// TestLossyTransfers: requests and responses of many segments, many concurrently, over
// a wire that loses or repeats one MAD in twenty.
func TestLossyTransfers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // its time-outs are virtual
		ea, eb := wire(true)
		client, server := OverWith(ea, quick), OverWith(eb, quick)
		defer client.Close()
		const n = 30
		var served sync.WaitGroup
		served.Go(func() {
			var p mad.Packet
			for server.Recv(&p) == nil {
				id := tid(p.Data)
				if want := message(ib.MethodGetMulti, id, int(id)*500); !bytes.Equal(p.Data[sa.HeaderLen:], want[sa.HeaderLen:]) || p.Addr.LID != 1 {
					t.Errorf("request %d: %d bytes", id, len(p.Data))
				}
				err := server.Send(&mad.Packet{Addr: p.Addr, LocalQP: 1, Data: message(ib.MethodGetMultiResp, id, int(id)*3000)})
				if err != nil {
					t.Errorf("answer %d: %v", id, err)
				}
			}
		})
		for id := range uint64(n) {
			if err := client.Send(&mad.Packet{Addr: mad.Addr{LID: 2, QP: 1}, LocalQP: 1, Data: message(ib.MethodGetMulti, id, int(id)*500)}); err != nil {
				t.Fatal(err)
			}
		}
		seen := map[uint64]bool{}
		var p mad.Packet
		for len(seen) < n {
			if err := client.Recv(&p); err != nil {
				t.Fatalf("%d of %d answers: %v", len(seen), n, err)
			}
			id := tid(p.Data)
			if want := message(ib.MethodGetMultiResp, id, int(id)*3000); !bytes.Equal(p.Data[sa.HeaderLen:], want[sa.HeaderLen:]) || seen[id] {
				t.Errorf("answer %d: %d bytes, again: %v", id, len(p.Data), seen[id])
			}
			seen[id] = true
		}
		server.Close()
		served.Wait()
	})
}

// TestPassThrough: ordinary MADs, and single segments of a client of ibsim's protocol,
// pass unchanged.
func TestPassThrough(t *testing.T) {
	ea, eb := wire(false)
	a, b := Over(ea), eb
	defer a.Close()
	plain := message(ib.MethodGetResp, 1, 200)
	plain[26] = 0
	segment := message(ib.MethodGetTableResp, 2, 200)
	segment[24], segment[25], segment[26] = 1, byte(mad.RMPPData), sa.RMPPActive|sa.RMPPFirst|sa.RMPPLast
	other := message(ib.MethodGetResp, 3, 200)
	other[1] = byte(ib.ClassPerf)
	for _, m := range [][]byte{plain, segment, other} {
		if err := a.Send(&mad.Packet{Addr: mad.Addr{LID: 2, QP: 1}, LocalQP: 1, Data: m}); err != nil {
			t.Fatal(err)
		}
		var p mad.Packet
		if err := b.Recv(&p); err != nil || !bytes.Equal(p.Data, m) {
			t.Fatalf("% x came out of % x, %v", p.Data[:36], m[:36], err)
		}
	}
	if tx, rx := a.rmpp.Transfers(); tx+rx != 0 || a.rmpp.NextTimer() != mad.Never {
		t.Errorf("%d and %d transfers", tx, rx)
	}
}

// TestSilentPeer: a peer that acknowledges nothing gets a bounded number of transfers
// until they give up; the messages' buffers are reused.
func TestSilentPeer(t *testing.T) {
	ea, eb := wire(false)
	a := OverWith(ea, mad.RMPPConfig{MaxPerPeer: 3})
	defer a.Close()
	send := func(id uint64) error {
		return a.Send(&mad.Packet{Addr: mad.Addr{LID: 2, QP: 1}, LocalQP: 1, Data: message(ib.MethodGetTableResp, id, 1000)})
	}
	for round := range uint64(5) {
		for i := range uint64(3) {
			if err := send(10*round + i); err != nil {
				t.Fatal(err)
			}
		}
		if err := send(10*round + 3); !errors.Is(err, mad.ErrRMPPFull) {
			t.Fatal(err)
		}
		if err := send(10 * round); !errors.Is(err, mad.ErrRMPPBusy) {
			t.Fatal(err)
		}
		var p mad.Packet
		for range 3 {
			if err := eb.Recv(&p); err != nil {
				t.Fatal(err)
			}
			p.Addr.LID = 1
			p.Data[3] ^= byte(ib.MethodResponseBit)
			p.Data[25], p.Data[26], p.Data[27] = byte(mad.RMPPAbort), sa.RMPPActive, byte(mad.RMPPUnspecified)
			if err := eb.Send(&p); err != nil {
				t.Fatal(err)
			}
		}
		p.Data[26] = 0 // an ordinary MAD: Recv returns when the others are done with
		if err := eb.Send(&p); err != nil {
			t.Fatal(err)
		}
		if err := a.Recv(&p); err != nil {
			t.Fatal(err)
		}
	}
	if len(a.messages) > 4 || len(a.free) != len(a.messages) {
		t.Errorf("%d buffers, %d free", len(a.messages), len(a.free))
	}
}

// A port that is closed in the middle of transfers sends nothing more.
func TestCloseMidway(t *testing.T) {
	ea, _ := wire(false)
	a := OverWith(ea, quick)
	if err := a.Send(&mad.Packet{Addr: mad.Addr{LID: 2, QP: 1}, LocalQP: 1, Data: message(ib.MethodGetTableResp, 1, 1000)}); err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if err := a.Send(&mad.Packet{Addr: mad.Addr{LID: 2, QP: 1}, LocalQP: 1, Data: message(ib.MethodGetTableResp, 2, 1000)}); err == nil {
		t.Error("a closed port sends")
	}
	var p mad.Packet
	if err := a.Recv(&p); !errors.Is(err, errGone) {
		t.Error(err)
	}
}

func BenchmarkSend(b *testing.B) {
	ea, eb := wire(false)
	server, client := Over(ea), Over(eb)
	defer server.Close()
	defer client.Close()
	msg := message(ib.MethodGetTableResp, 0, 200_000)
	go func() { // the server's acknowledgments
		var p mad.Packet
		for server.Recv(&p) == nil {
		}
	}()
	b.SetBytes(int64(len(msg)))
	b.ReportAllocs()
	id := uint64(0)
	for b.Loop() {
		id++
		binary.BigEndian.PutUint64(msg[8:], id)
		if err := server.Send(&mad.Packet{Addr: mad.Addr{LID: 2, QP: 1}, LocalQP: 1, Data: msg}); err != nil {
			b.Fatal(err)
		}
		var p mad.Packet
		if err := client.Recv(&p); err != nil || len(p.Data) != len(msg) {
			b.Fatal(err, len(p.Data))
		}
	}
}
