package mad

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"heddle/ib"
)

// clientEnd is a Client as an end of a lossy network, LID 1.
type clientEnd struct {
	t    *testing.T
	k    *Client
	l    *lossy
	done []Completion
	data map[uint64][]byte
}

func (e *clientEnd) send(p *Packet) {
	m := *(*ib.MAD)(p.Data)
	if !m.Method().IsResponse() {
		m.SetTID(m.TID()&0xFFFFFFFF | agent | 1<<48)
	}
	e.l.to(1)(&m)
}

func (e *clientEnd) finish(c Completion) {
	if c.Err == nil {
		e.data[c.Token] = bytes.Clone(c.Data)
	}
	e.done = append(e.done, c)
}

func (e *clientEnd) Receive(now Time, m *ib.MAD) {
	c, kind := e.k.Receive(now, &Packet{Addr: Addr{LID: 2, QP: 1}, LocalQP: 1, Data: m[:]}, e.send)
	if kind == KindCompletion {
		e.finish(c)
	}
	e.k.Poll(now, e.send)
}

func (e *clientEnd) Expire(now Time) {
	e.k.Expire(now, e.send, e.finish)
	e.k.Poll(now, e.send)
}

func (e *clientEnd) NextTimer() Time { return e.k.NextTimer() }

// asked makes a client and a server that answers every request with n bytes,
// by attribute 0x35.
func asked(t *testing.T, l *lossy, c Config, n func(p *Packet) int) (*clientEnd, *rmppEnd) {
	e := &clientEnd{t: t, k: NewClient(c, RMPPConfig{}), l: l, data: map[uint64][]byte{}}
	s := &rmppEnd{p: NewRMPP(RMPPConfig{}), self: 2, peer: 1, out: l.to(0), done: map[uint64]error{}}
	l.ends[0], l.ends[1] = e, s
	token := uint64(0)
	s.got = func(now Time, p *Packet) {
		m := (*ib.MAD)(append(bytes.Clone(p.Data), make([]byte, ib.MADLen)...))
		resp := message(ib.ClassSA, m.Method()|ib.MethodResponseBit, m.TID(), n(p))
		copy(resp[20:24], p.Data[20:24])
		if m.Method() == ib.MethodGetMulti {
			resp[17] = 0x35
		} else {
			copy(resp[16:18], p.Data[16:18])
		}
		token++
		if err := s.p.Send(now, &Packet{Addr: p.Addr, LocalQP: 1, Data: resp}, false, token, s.send); err != nil && !errors.Is(err, ErrRMPPBusy) {
			t.Error(err)
		}
	}
	s.plain = s.got
	return e, s
}

func request(method ib.Method, active uint8, token uint64) *Request {
	r := &Request{Addr: Addr{LID: 2, QP: 1}, Token: token}
	r.MAD.SetHeader(ib.ClassSA, 2, method, 0x11, 0)
	r.MAD[offRMPPFlags] = active
	return r
}

// Tables and GetMulti answers of any length come whole over a bad network, each
// once.
func TestClient(t *testing.T) {
	l := &lossy{r: rand.New(rand.NewPCG(3, 3)), loss: 0.05, dup: 0.05, delay: 20 * time.Microsecond, vary: 100 * time.Microsecond}
	length := func(p *Packet) int { return int(p.Data[22])<<8 | int(p.Data[23]) }
	e, s := asked(t, l, Config{Window: 8, Timeout: time.Second}, length)
	const n = 60
	for i := range uint64(n) {
		r := request(ib.MethodGetTable, 0, i)
		if i%3 == 0 {
			r = request(ib.MethodGetMulti, RMPPActive, i)
		}
		r.MAD.SetHeader(ib.ClassSA, 2, r.MAD.Method(), 0x11, uint32(i)*1000) // the modifier says how long
		if err := e.k.Submit(r); err != nil {
			t.Fatal(err)
		}
	}
	e.k.Poll(0, e.send)
	l.run(func() bool { return false })
	if len(e.done) != n || len(e.data) != n || !e.k.Idle() {
		for _, c := range e.done {
			if c.Err != nil {
				t.Errorf("request %d, %d tries in %v: %v", c.Token, c.Tries, c.Elapsed, c.Err)
			}
		}
		t.Fatalf("%d completions, %d answers, idle %v; server: %v", len(e.done), len(e.data), e.k.Idle(), s.done)
	}
	for token, b := range e.data {
		want := message(ib.ClassSA, 0x92, 0, int(token)*1000)
		if !bytes.Equal(b[56:], want[56:]) {
			t.Errorf("request %d: %d bytes, or others, of %d", token, len(b), len(want))
		}
	}
	e.k.rmpp.idle(t)
	s.p.idle(t)
}

// An answer that takes longer than a try is waited for while it comes; one
// that stops coming is asked for again.
func TestClientWaits(t *testing.T) {
	// A window of 64 segments each 100 ms: 5 MB take 40 s and more, 1 MB 8 s.
	l := &lossy{r: rand.New(rand.NewPCG(3, 3)), delay: 50 * time.Millisecond}
	requests := 0
	e, _ := asked(t, l, Config{Timeout: 500 * time.Millisecond}, func(*Packet) int { requests++; return 1_000_000 })
	if err := e.k.Submit(request(ib.MethodGetTable, 0, 1)); err != nil {
		t.Fatal(err)
	}
	e.k.Poll(0, e.send)
	l.run(func() bool { return len(e.done) > 0 })
	if requests != 1 || len(e.done) != 1 || e.done[0].Err != nil || e.done[0].Tries != 1 || l.now < Time(5*time.Second) {
		t.Fatalf("%d requests, %+v after %v", requests, e.done, time.Duration(l.now))
	}

	// The server dies in the middle.
	l = &lossy{r: rand.New(rand.NewPCG(3, 3)), delay: 50 * time.Millisecond}
	e, s := asked(t, l, Config{Timeout: 500 * time.Millisecond, Retries: 2}, func(*Packet) int { return 1_000_000 })
	if err := e.k.Submit(request(ib.MethodGetTable, 0, 1)); err != nil {
		t.Fatal(err)
	}
	out := s.out
	s.out = func(m *ib.MAD) {
		if l.now < Time(2*time.Second) {
			out(m)
		}
	}
	e.k.Poll(0, e.send)
	l.run(func() bool { return len(e.done) > 0 })
	if len(e.done) != 1 || !errors.Is(e.done[0].Err, ErrTimeout) || e.done[0].Tries != 3 || l.now > Time(10*time.Second) {
		t.Fatalf("%+v after %v", e.done, time.Duration(l.now))
	}
	l.run(func() bool { return false })
	e.k.rmpp.idle(t)
	s.p.idle(t)
}
