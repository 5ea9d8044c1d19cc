package mad

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"heddle/ib"
)

// rmppEnd is a port with an RMPP engine: LID self talks to LID peer.
type rmppEnd struct {
	p    *RMPP
	self ib.LID
	peer ib.LID
	out  func(*ib.MAD)
	got  func(now Time, p *Packet)
	// plain, if set, takes what is no segment
	plain func(now Time, p *Packet)
	done  map[uint64]error
	pass  int
}

// agent is what a kernel writes into the upper half of a transaction ID.
const agent = 0xABC << 32

func (e *rmppEnd) send(p *Packet) {
	m := *(*ib.MAD)(p.Data)
	if !m.Method().IsResponse() {
		// ibsim writes the client's slot over the top of a request's ID, and the
		// kernel the agent's number over the upper half.
		m.SetTID(m.TID()&0xFFFFFFFF | agent | uint64(e.self)<<48)
	}
	e.out(&m)
}

func (e *rmppEnd) finished(token uint64, err error) {
	if _, twice := e.done[token]; twice {
		panic("done twice")
	}
	e.done[token] = err
}

func (e *rmppEnd) Receive(now Time, m *ib.MAD) {
	p := &Packet{Addr: Addr{LID: e.peer, QP: 1}, LocalQP: 1, Data: m[:]}
	msg, kind := e.p.Receive(now, p, e.send, e.finished)
	switch kind {
	case RMPPMessage:
		if e.got != nil {
			e.got(now, msg)
		}
	case RMPPPass:
		e.pass++
		if e.plain != nil {
			e.plain(now, p)
		}
	}
}

func (e *rmppEnd) Expire(now Time) { e.p.Expire(now, e.send, e.finished) }
func (e *rmppEnd) NextTimer() Time { return e.p.NextTimer() }

func joined(l *lossy, cfg RMPPConfig) (a, b *rmppEnd) {
	a = &rmppEnd{p: NewRMPP(cfg), self: 1, peer: 2, out: l.to(1), done: map[uint64]error{}}
	b = &rmppEnd{p: NewRMPP(cfg), self: 2, peer: 1, out: l.to(0), done: map[uint64]error{}}
	l.ends[0], l.ends[1] = a, b
	return a, b
}

// Many transfers at once, in both directions, on a bad network: every message
// arrives once, whole, and nothing is left over.
func TestRMPPPort(t *testing.T) {
	l := &lossy{r: rand.New(rand.NewPCG(9, 9)), loss: 0.05, dup: 0.05, delay: 10 * time.Microsecond, vary: 100 * time.Microsecond}
	a, b := joined(l, RMPPConfig{})
	const n = 40
	want := map[uint64][]byte{}
	count := 0
	check := func(_ Time, p *Packet) {
		m := want[(*ib.MAD)(p.Data[:ib.MADLen:ib.MADLen]).TID()&0xFFFFFFFF]
		if !bytes.Equal(body(m), body(p.Data)) {
			t.Errorf("%d bytes of %d, or others", len(p.Data), len(m))
		}
		count++
	}
	a.got, b.got = check, check
	for i := range uint64(n) {
		e, to := a, ib.LID(2)
		if i%2 == 1 {
			e, to = b, 1
		}
		want[i] = message(ib.ClassSA, ib.MethodGetTableResp, i|agent, 300+int(i)*1000)
		p := &Packet{Addr: Addr{LID: to, QP: 1}, LocalQP: 1, Data: want[i]}
		if err := e.p.Send(0, p, false, i, e.send); err != nil {
			t.Fatal(err)
		}
		if err := e.p.Send(0, p, false, i, e.send); !errors.Is(err, ErrRMPPBusy) {
			t.Fatal(err)
		}
	}
	l.run(func() bool { return false })
	if count != n || len(a.done)+len(b.done) != n {
		t.Fatalf("%d of %d arrived, %d and %d done", count, n, len(a.done), len(b.done))
	}
	for _, e := range []*rmppEnd{a, b} {
		for token, err := range e.done {
			if err != nil {
				t.Errorf("transfer %d: %v", token, err)
			}
		}
		if tx, rx := e.p.Transfers(); tx != 0 || rx != 0 {
			t.Errorf("%d and %d transfers left", tx, rx)
		}
	}
}

// A GetMulti request and its answer: two transfers with one transaction ID,
// of which the simulator rewrites the top.
func TestRMPPPortDoubleSided(t *testing.T) {
	l := &lossy{r: rand.New(rand.NewPCG(9, 9)), delay: time.Microsecond}
	a, b := joined(l, RMPPConfig{})
	req := message(ib.ClassSA, ib.MethodGetMulti, 77, 500)
	resp := message(ib.ClassSA, ib.MethodGetMultiResp, 77, 20_000)
	b.got = func(now Time, p *Packet) {
		if p.Addr.LID != 1 || len(p.Data) != len(req) {
			t.Errorf("from %v, %d bytes", p.Addr.LID, len(p.Data))
		}
		tid := (*ib.MAD)(p.Data[:ib.MADLen]).TID()
		if tid != 77|agent|1<<48 {
			t.Errorf("transaction ID %#x", tid)
		}
		m := bytes.Clone(resp)
		copy(m[8:16], p.Data[8:16])
		if err := b.p.Send(now, &Packet{Addr: p.Addr, LocalQP: 1, Data: m}, false, 2, b.send); err != nil {
			t.Fatal(err)
		}
	}
	whole := false
	a.got = func(_ Time, p *Packet) { whole = bytes.Equal(p.Data[36:], resp[36:]) }
	if err := a.p.Send(0, &Packet{Addr: Addr{LID: 2, QP: 1}, LocalQP: 1, Data: req}, true, 1, a.send); err != nil {
		t.Fatal(err)
	}
	l.run(func() bool { return whole })
	l.run(func() bool { return false })
	if !whole || a.done[1] != nil || b.done[2] != nil || len(a.done)+len(b.done) != 2 {
		t.Fatalf("whole %v, %v, %v", whole, a.done, b.done)
	}
}

func TestRMPPPortLimitsAndPassing(t *testing.T) {
	p := NewRMPP(RMPPConfig{MaxTransfers: 2})
	var sent []Packet
	send := func(k *Packet) { c := *k; c.Data = bytes.Clone(k.Data); sent = append(sent, c) }
	var ended []error
	done := func(_ uint64, err error) { ended = append(ended, err) }

	// Ordinary MADs, failed ones and short ones are not ours.
	var m ib.MAD
	m.SetHeader(ib.ClassSA, 2, ib.MethodGet, 0x11, 0)
	for _, k := range []*Packet{{Data: m[:]}, {Data: m[:100]}, {Status: Failed, Data: message(ib.ClassSA, 0x92, 1, 200)}} {
		if _, kind := p.Receive(0, k, send, done); kind != RMPPPass {
			t.Fatal(kind)
		}
	}
	r := dr(ib.MethodGet, 0x11, 0, 1)
	r.MAD[offRMPPFlags] = 1
	if _, kind := p.Receive(0, &Packet{Data: r.MAD[:]}, send, done); kind != RMPPPass {
		t.Fatal(kind)
	}
	// Sending: two, not three.
	for i := range uint64(3) {
		k := &Packet{Addr: Addr{LID: 5, QP: 1}, Data: message(ib.ClassSA, 0x92, i, 1000)}
		if err := p.Send(0, k, false, i, send); (err != nil) != (i == 2) || i == 2 && !errors.Is(err, ErrRMPPFull) {
			t.Fatal(i, err)
		}
	}
	if err := p.Send(0, &Packet{Data: make([]byte, 20)}, false, 9, send); !errors.Is(err, ErrNoRMPP) {
		t.Fatal(err)
	}
	// An ABORT ends one.
	a := *(*ib.MAD)(sent[0].Data)
	a.SetMethod(ib.MethodGetTable)
	putRMPP(&a, RMPPAbort, 0, RMPPUnspecified, 0, 0)
	if _, kind := p.Receive(0, &Packet{Addr: Addr{LID: 5, QP: 1}, Data: a[:]}, send, done); kind != RMPPUsed || len(ended) != 1 || ended[0] == nil {
		t.Fatal(kind, ended)
	}
	// Receiving: two first segments from strangers, not three; nothing is
	// kept for a second segment or a broken first one.
	for i := range 3 {
		var s ib.MAD
		copy(s[:], message(ib.ClassSA, 0x92, uint64(i), 200))
		for _, f := range []struct {
			flags uint8
			seg   uint32
		}{{1, 2}, {1, 1}, {3, 1}} {
			putRMPP(&s, RMPPData, f.flags, 0, f.seg, 0)
			p.Receive(0, &Packet{Addr: Addr{LID: 6, QP: 1}, Data: s[:]}, send, done)
		}
	}
	if tx, rx := p.Transfers(); tx != 1 || rx != 2 {
		t.Fatal(tx, rx)
	}
	for p.NextTimer() != Never {
		p.Expire(p.NextTimer(), send, done)
	}
	if tx, rx := p.Transfers(); tx != 0 || rx != 0 || len(ended) != 2 {
		t.Fatal(tx, rx, ended)
	}
}

// Virtual ports share a LID, and their transaction IDs may be the same: each has its
// own transfers. A request to a service GID is acknowledged from another GID.
func TestRMPPPortSharedLID(t *testing.T) {
	r := NewRMPP(RMPPConfig{})
	var sent []Packet
	send := func(p *Packet) {
		q := *p
		q.Data = bytes.Clone(p.Data)
		sent = append(sent, q)
	}
	gid := func(g ib.GUID) ib.GID { return ib.MakeGID(ib.DefaultSubnetPrefix, g) }
	to := func(g ib.GUID) Addr { return Addr{LID: 9, QP: 1, HasGRH: true, GRH: GRH{GID: gid(g)}} }
	var ended []uint64
	done := func(token uint64, err error) {
		if err != nil {
			t.Error(err)
		}
		ended = append(ended, token)
	}
	for token, a := range []Addr{to(1), to(2), {LID: 9, QP: 1}} {
		p := &Packet{Addr: a, LocalQP: 1, Data: message(ib.ClassSA, ib.MethodGetTableResp, 7, 100)}
		if err := r.Send(0, p, false, uint64(token), send); err != nil {
			t.Fatal(err)
		}
		if err := r.Send(0, p, false, uint64(token), send); !errors.Is(err, ErrRMPPBusy) {
			t.Fatal(err)
		}
	}
	p := &Packet{Addr: to(5), LocalQP: 1, Data: message(ib.ClassSA, ib.MethodGetMulti, 8, 100)}
	if err := r.Send(0, p, false, 3, send); err != nil {
		t.Fatal(err)
	}
	ack := func(i int, from Addr) {
		var m ib.MAD
		copy(m[:], sent[i].Data)
		m[3] ^= byte(ib.MethodResponseBit)
		m[25] = byte(RMPPAck)
		copy(m[32:36], []byte{0, 0, 0, 64})
		r.Receive(0, &Packet{Addr: from, Data: m[:]}, send, done)
	}
	ack(1, to(2))
	ack(2, Addr{LID: 9, QP: 1})
	ack(3, to(6))
	ack(0, to(4))
	if !slices.Equal(ended, []uint64{1, 2, 3}) {
		t.Errorf("ended: %v", ended)
	}
	ack(0, to(1))
	if tx, _ := r.Transfers(); tx != 0 || len(ended) != 4 {
		t.Errorf("%d transfers left", tx)
	}
}
