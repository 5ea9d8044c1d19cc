package mad

import (
	"bytes"
	"container/heap"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"heddle/ib"
)

// message makes an RMPP message of n data bytes.
func message(c ib.Class, method ib.Method, tid uint64, n int) []byte {
	var h ib.MAD
	h.SetHeader(c, 2, method, 0x11, 0)
	h.SetTID(tid)
	h[offRMPPFlags] = RMPPActive
	hdr := RMPPHeaderLen(c)
	for i := rmppHeaderEnd; i < hdr; i++ {
		h[i] = byte(i)
	}
	msg := append([]byte(nil), h[:hdr]...)
	r := rand.New(rand.NewPCG(uint64(n), 1))
	for range n {
		msg = append(msg, byte(r.Uint32()))
	}
	return msg
}

// body is a message without the RMPP fields, which the engines fill.
func body(msg []byte) []byte {
	b := bytes.Clone(msg)
	clear(b[24:36])
	return b
}

// lossy is a pair of ends with a bad network between them, in virtual time.
type lossy struct {
	r           *rand.Rand
	loss, dup   float64
	delay, vary time.Duration
	now         Time
	q           events
	seq         int
	ends        [2]interface {
		Receive(Time, *ib.MAD)
		Expire(Time)
		NextTimer() Time
	}
	packets int
}

type event struct {
	at  Time
	seq int
	to  int
	m   ib.MAD
}

type events []event

func (q events) Len() int { return len(q) }
func (q events) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].seq < q[j].seq
}
func (q events) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *events) Push(x any)   { *q = append(*q, x.(event)) }
func (q *events) Pop() any {
	o := *q
	x := o[len(o)-1]
	*q = o[:len(o)-1]
	return x
}

func (l *lossy) to(end int) func(*ib.MAD) {
	return func(m *ib.MAD) {
		l.packets++
		if l.r.Float64() < l.loss {
			return
		}
		for range 1 + btoi(l.r.Float64() < l.dup) {
			l.seq++
			d := l.delay
			if l.vary > 0 {
				d += time.Duration(l.r.Int64N(int64(l.vary)))
			}
			heap.Push(&l.q, event{at: l.now.Add(d), seq: l.seq, to: end, m: *m})
		}
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// run goes on until nothing is left to do or stop says so.
func (l *lossy) run(stop func() bool) {
	for !stop() {
		t := min(l.ends[0].NextTimer(), l.ends[1].NextTimer())
		if len(l.q) > 0 && l.q[0].at <= t {
			e := heap.Pop(&l.q).(event)
			l.now = e.at
			l.ends[e.to].Receive(l.now, &e.m)
			continue
		}
		if t == Never {
			return
		}
		l.now = max(l.now, t)
		l.ends[0].Expire(l.now)
		l.ends[1].Expire(l.now)
	}
}

type txEnd struct {
	s *RMPPSender
	l *lossy
}

func (e txEnd) Receive(now Time, m *ib.MAD) { e.s.Receive(now, m, e.l.to(1)) }
func (e txEnd) Expire(now Time)             { e.s.Expire(now, e.l.to(1)) }
func (e txEnd) NextTimer() Time             { return e.s.NextTimer() }

type rxEnd struct {
	r     *RMPPReceiver
	l     *lossy
	whole *int
}

func (e rxEnd) Receive(now Time, m *ib.MAD) {
	if e.r.Receive(now, m, e.l.to(0)) {
		*e.whole++
	}
}
func (e rxEnd) Expire(now Time) { e.r.Expire(now, e.l.to(0)) }
func (e rxEnd) NextTimer() Time { return e.r.NextTimer() }

// transfer sends msg and returns both ends when it is over.
func transfer(t testing.TB, l *lossy, cfg *RMPPConfig, msg []byte) (*RMPPSender, *RMPPReceiver) {
	t.Helper()
	s, err := NewRMPPSender(cfg, msg, false)
	if err != nil {
		t.Fatal(err)
	}
	r := NewRMPPReceiver(cfg)
	whole := 0
	l.ends[0], l.ends[1] = txEnd{s, l}, rxEnd{r, l, &whole}
	s.Start(l.now, l.to(1))
	l.run(func() bool { return s.Done() && (r.Complete() || r.Ended()) })
	if whole > 1 {
		t.Fatalf("completed %d times", whole)
	}
	if r.Complete() && !bytes.Equal(body(r.Message()), body(msg)) {
		t.Fatalf("%d bytes came out of %d, or others", len(r.Message()), len(msg))
	}
	return s, r
}

func TestRMPPLengths(t *testing.T) {
	for _, c := range []ib.Class{ib.ClassSA, ib.ClassDM, 0x10, 0x12, 0x30, 0x4F} {
		d := ib.MADLen - RMPPHeaderLen(c)
		for _, n := range []int{0, 1, 112, d - 1, d, d + 1, 2*d - 1, 2 * d, 2*d + 1, 65*d - 1, 65 * d, 66 * d, 129 * d, 200*d + 7} {
			l := &lossy{r: rand.New(rand.NewPCG(1, 2)), delay: time.Microsecond}
			s, r := transfer(t, l, nil, message(c, ib.MethodGetTableResp, 7, n))
			if s.Err() != nil || !r.Complete() {
				t.Errorf("class %#x, %d bytes: %v, %v", uint8(c), n, s.Err(), r.Err())
			}
			segs := RMPPSegments(c, n)
			acks := 1
			for edge := 1; edge < segs; edge += 64 {
				acks++
			}
			if l.packets != segs+acks {
				t.Errorf("class %#x, %d bytes: %d packets for %d segments and %d ACKs", uint8(c), n, l.packets, segs, acks)
			}
			if l.now > Time(10*time.Millisecond) {
				t.Errorf("took %v without loss", time.Duration(l.now))
			}
		}
	}
}

// The fields as the Linux kernel sends them: a message of 1,976 bytes gives
// 10 segments and a first payload length of 2,120 (observed on 6.1).
func TestRMPPSegmentFields(t *testing.T) {
	type want struct{ flags, seg, length int }
	for _, c := range []struct {
		n    int
		want []want
	}{
		{0, []want{{7, 1, 20}}},
		{112, []want{{7, 1, 132}}},
		{200, []want{{7, 1, 220}}},
		{448, []want{{3, 1, 508}, {1, 2, 0}, {5, 3, 68}}},
		{1920, []want{{3, 1, 2120}, {1, 2, 0}, {1, 3, 0}, {1, 4, 0}, {1, 5, 0}, {1, 6, 0}, {1, 7, 0}, {1, 8, 0}, {1, 9, 0}, {5, 10, 140}}},
	} {
		msg := message(ib.ClassSA, ib.MethodGetTableResp, 0x99, c.n)
		s, err := NewRMPPSender(nil, msg, false)
		if err != nil {
			t.Fatal(err)
		}
		var out []ib.MAD
		send := func(m *ib.MAD) { out = append(out, *m) }
		s.Start(0, send)
		if len(out) != 1 {
			t.Fatalf("%d segments before the first ACK", len(out))
		}
		if len(c.want) > 1 {
			s.Receive(1, ackTo(&out[0], 1, 65), send)
		}
		if len(out) != len(c.want) {
			t.Fatalf("%d segments, want %d", len(out), len(c.want))
		}
		for i, w := range c.want {
			m := &out[i]
			seg, length := rmppData(m)
			if int(m[offRMPPFlags]) != w.flags || int(seg) != w.seg || int(length) != w.length ||
				m[offRMPPVersion] != 1 || m[offRMPPType] != 1 || m[offRMPPStatus] != 0 ||
				m.TID() != 0x99 || m.Method() != ib.MethodGetTableResp || !bytes.Equal(m[36:56], msg[36:56]) {
				t.Errorf("%d bytes, segment %d: % x", c.n, i+1, m[:56])
			}
		}
		s.Receive(2, ackTo(&out[0], uint32(len(out)), 129), send)
		if !s.Done() || s.Err() != nil || s.NextTimer() != Never {
			t.Errorf("not done: %v", s.Err())
		}
	}
}

func ackTo(data *ib.MAD, seg, win uint32) *ib.MAD {
	var m ib.MAD
	rmppReply(&m, data)
	putRMPP(&m, RMPPAck, 0, 0, seg, win)
	return &m
}

// 50,000 NodeRecords with 5 % of everything lost, more repeated and
// reordered, arrive whole, within the receiver's 40 s.
func TestRMPPLargeTableOverBadNetwork(t *testing.T) {
	msg := message(ib.ClassSA, ib.MethodGetTableResp, 1, 50_000*112)
	for seed := range uint64(3) {
		l := &lossy{r: rand.New(rand.NewPCG(seed, 3)), loss: 0.05, dup: 0.05, delay: 20 * time.Microsecond, vary: 200 * time.Microsecond}
		s, r := transfer(t, l, nil, msg)
		if s.Err() != nil || !r.Complete() {
			t.Fatalf("seed %d: %v, %v after %v", seed, s.Err(), r.Err(), time.Duration(l.now))
		}
		t.Logf("seed %d: %d packets for %d segments, %v", seed, l.packets, RMPPSegments(ib.ClassSA, len(msg)-56), time.Duration(l.now))
	}
}

// A large table over a slow wire takes longer than a small one may: what ends a
// transfer is that too little arrives in its time.
func TestRMPPSlowWire(t *testing.T) {
	msg := message(ib.ClassSA, ib.MethodGetTableResp, 1, 40<<20)
	for _, c := range []struct {
		delay time.Duration
		whole bool
	}{{13 * time.Millisecond, true}, {30 * time.Millisecond, false}} {
		l := &lossy{r: rand.New(rand.NewPCG(1, 3)), delay: c.delay}
		s, r := transfer(t, l, &RMPPConfig{MaxBytes: 64 << 20}, msg)
		if took := time.Duration(l.now); r.Complete() != c.whole || (s.Err() == nil) != c.whole || took < 40*time.Second || took > 2*time.Minute {
			t.Errorf("%v one way: whole %v, %v, %v after %v", c.delay, r.Complete(), s.Err(), r.Err(), took)
		}
	}
}

// Whatever happens to the packets, a transfer ends, and a message that comes
// out is the one that went in. With little loss it does come out.
func TestRMPPProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := &lossy{
			r:     rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)),
			loss:  float64(rapid.IntRange(0, 60).Draw(t, "loss")) / 100,
			dup:   float64(rapid.IntRange(0, 50).Draw(t, "dup")) / 100,
			delay: time.Duration(rapid.IntRange(1, 1000).Draw(t, "delay µs")) * time.Microsecond,
			vary:  time.Duration(rapid.IntRange(0, 30_000).Draw(t, "jitter µs")) * time.Microsecond,
		}
		cfg := &RMPPConfig{Window: rapid.IntRange(1, 70).Draw(t, "window")}
		if rapid.Bool().Draw(t, "kernel's fixed time-out") {
			cfg.MinAckTimeout = 2 * time.Second
		}
		n := rapid.IntRange(0, 40_000).Draw(t, "bytes")
		msg := message(ib.ClassSA, ib.MethodGetTableResp, 5, n)
		s, err := NewRMPPSender(cfg, msg, false)
		if err != nil {
			t.Fatal(err)
		}
		r := NewRMPPReceiver(cfg)
		whole := 0
		l.ends[0], l.ends[1] = txEnd{s, l}, rxEnd{r, l, &whole}
		s.Start(0, l.to(1))
		l.run(func() bool { return false })
		if !s.Done() || whole > 1 {
			t.Fatalf("done %v, completed %d times", s.Done(), whole)
		}
		if whole == 1 && !bytes.Equal(body(r.Message()), body(msg)) {
			t.Fatal("another message came out")
		}
		if s.Err() == nil && whole == 0 {
			t.Fatal("the sender believes in a message that did not arrive")
		}
		if l.loss <= 0.1 && cfg.Window >= 16 && cfg.MinAckTimeout == 0 && (s.Err() != nil || whole == 0) {
			t.Fatalf("lost with %v loss: %v, %v", l.loss, s.Err(), r.Err())
		}
		if l.now > Time(60*time.Second) {
			t.Fatalf("took %v", time.Duration(l.now))
		}
	})
}

func TestRMPPSenderErrors(t *testing.T) {
	msg := message(ib.ClassSA, ib.MethodGetTableResp, 1, 1000)
	for _, c := range []struct {
		name string
		edit func(m *ib.MAD)
		want RMPPError
	}{
		{"window below segment", func(m *ib.MAD) { putRMPP(m, RMPPAck, 0, 0, 1, 0) }, RMPPError{Type: RMPPAbort, Status: RMPPWindowSmall}},
		{"segment never sent", func(m *ib.MAD) { putRMPP(m, RMPPAck, 0, 0, 2, 65) }, RMPPError{Type: RMPPAbort, Status: RMPPSegmentBig}},
		{"status", func(m *ib.MAD) { putRMPP(m, RMPPAck, 0, 9, 1, 65) }, RMPPError{Type: RMPPAbort, Status: RMPPBadStatus}},
		{"version", func(m *ib.MAD) { m[offRMPPVersion] = 2 }, RMPPError{Type: RMPPAbort, Status: RMPPBadVersion}},
		{"type", func(m *ib.MAD) { m[offRMPPType] = 9 }, RMPPError{Type: RMPPAbort, Status: RMPPBadType}},
		{"stop", func(m *ib.MAD) { putRMPP(m, RMPPStop, 0, RMPPResources, 0, 0) }, RMPPError{Type: RMPPStop, Status: RMPPResources, ByPeer: true}},
		{"abort", func(m *ib.MAD) { putRMPP(m, RMPPAbort, 0, RMPPTooLong, 0, 0) }, RMPPError{Type: RMPPAbort, Status: RMPPTooLong, ByPeer: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := NewRMPPSender(nil, msg, false)
			if err != nil {
				t.Fatal(err)
			}
			var out []ib.MAD
			send := func(m *ib.MAD) { out = append(out, *m) }
			s.Start(0, send)
			a := ackTo(&out[0], 1, 65)
			c.edit(a)
			out = nil
			s.Receive(1, a, send)
			var got *RMPPError
			if !s.Done() || !errors.As(s.Err(), &got) || *got != c.want || got.Error() == "" {
				t.Fatalf("%v", s.Err())
			}
			if c.want.ByPeer != (len(out) == 0) {
				t.Fatalf("%d packets in answer", len(out))
			}
			if len(out) > 0 && (RMPPTypeOf(&out[0]) != RMPPAbort || out[0][offRMPPStatus] != byte(c.want.Status) || out[0].Method() != ib.MethodGetTableResp) {
				t.Fatalf("% x", out[0][:36])
			}
		})
	}
	t.Run("shrinking window", func(t *testing.T) {
		s, _ := NewRMPPSender(nil, message(ib.ClassSA, ib.MethodGetTableResp, 1, 20_000), false)
		var first ib.MAD
		s.Start(0, func(m *ib.MAD) { first = *m })
		drop := func(*ib.MAD) {}
		s.Receive(1, ackTo(&first, 1, 65), drop)
		s.Receive(1, ackTo(&first, 1, 40), drop) // an old one
		if s.Done() {
			t.Fatal(s.Err())
		}
		s.Receive(1, ackTo(&first, 10, 40), drop)
		var got *RMPPError
		if !errors.As(s.Err(), &got) || got.Status != RMPPWindowSmall {
			t.Fatal(s.Err())
		}
	})
	t.Run("nobody there", func(t *testing.T) {
		for _, cfg := range []*RMPPConfig{nil, {MinAckTimeout: 2 * time.Second}} {
			s, _ := NewRMPPSender(cfg, msg, false)
			var last ib.MAD
			n := 0
			send := func(m *ib.MAD) { last = *m; n++ }
			s.Start(0, send)
			now := Time(0)
			for !s.Done() {
				now = s.NextTimer()
				s.Expire(now, send)
			}
			var got *RMPPError
			if !errors.As(s.Err(), &got) || got.Status != RMPPTooManyTries || now != Time(8*time.Second) ||
				RMPPTypeOf(&last) != RMPPAbort || last.Method() != ib.MethodGetTableResp {
				t.Errorf("%v after %v", s.Err(), time.Duration(now))
			}
			if cfg != nil && n != 5 {
				t.Errorf("%d packets, want 4 tries and the ABORT", n)
			}
		}
	})
	for _, b := range [][]byte{nil, make([]byte, 36), message(ib.ClassSA, 0x92, 1, 0)[:50]} {
		if _, err := NewRMPPSender(nil, b, false); !errors.Is(err, ErrNoRMPP) {
			t.Errorf("%d bytes: %v", len(b), err)
		}
	}
}

func TestRMPPReceiverErrors(t *testing.T) {
	seg := func(n uint32, flags uint8, length uint32) *ib.MAD {
		var m ib.MAD
		copy(m[:], message(ib.ClassSA, ib.MethodGetTableResp, 1, 200))
		putRMPP(&m, RMPPData, flags, 0, n, length)
		return &m
	}
	edit := func(m *ib.MAD, off int, v byte) *ib.MAD { m[off] = v; return m }
	for _, c := range []struct {
		name string
		in   []*ib.MAD
		want RMPPError
	}{
		{"segment 0", []*ib.MAD{seg(0, 1, 0)}, RMPPError{Type: RMPPAbort, Status: RMPPBadSegment}},
		{"first without flag", []*ib.MAD{seg(1, 1, 0)}, RMPPError{Type: RMPPAbort, Status: RMPPBadSegment}},
		{"second with flag", []*ib.MAD{seg(1, 3, 0), seg(2, 3, 0)}, RMPPError{Type: RMPPAbort, Status: RMPPBadSegment}},
		{"short last", []*ib.MAD{seg(1, 3, 0), seg(2, 5, 19)}, RMPPError{Type: RMPPAbort, Status: RMPPBadLength}},
		{"after the last", []*ib.MAD{seg(1, 3, 0), seg(3, 5, 30), seg(4, 1, 0)}, RMPPError{Type: RMPPAbort, Status: RMPPBadLength}},
		{"last too early", []*ib.MAD{seg(1, 3, 0), seg(4, 1, 0), seg(3, 5, 30)}, RMPPError{Type: RMPPAbort, Status: RMPPBadLength}},
		{"version", []*ib.MAD{edit(seg(1, 3, 0), offRMPPVersion, 0)}, RMPPError{Type: RMPPAbort, Status: RMPPBadVersion}},
		{"type", []*ib.MAD{edit(seg(1, 3, 0), offRMPPType, 5)}, RMPPError{Type: RMPPAbort, Status: RMPPBadType}},
		{"status", []*ib.MAD{edit(seg(1, 3, 0), offRMPPStatus, 5)}, RMPPError{Type: RMPPAbort, Status: RMPPBadStatus}},
		{"too long", []*ib.MAD{seg(1, 3, 0), seg(2, 1, 0), seg(3, 1, 0), seg(4, 1, 0), seg(5, 1, 0)}, RMPPError{Type: RMPPStop, Status: RMPPResources}},
		{
			"aborted",
			[]*ib.MAD{seg(1, 3, 0), edit(edit(seg(2, 1, 0), offRMPPType, 4), offRMPPStatus, 126)},
			RMPPError{Type: RMPPAbort, Status: RMPPTooManyTries, ByPeer: true},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := NewRMPPReceiver(&RMPPConfig{MaxBytes: 600})
			var out []ib.MAD
			for _, m := range c.in {
				if r.Receive(0, m, func(m *ib.MAD) { out = append(out, *m) }) {
					t.Fatal("complete")
				}
			}
			var got *RMPPError
			if !r.Ended() || !errors.As(r.Err(), &got) || *got != c.want || r.Message() != nil {
				t.Fatalf("%v", r.Err())
			}
			if !c.want.ByPeer {
				last := &out[len(out)-1]
				if RMPPTypeOf(last) != c.want.Type || last[offRMPPStatus] != byte(c.want.Status) || last.Method() != ib.MethodGetTable {
					t.Fatalf("% x", last[:36])
				}
			}
		})
	}
	t.Run("out of window", func(t *testing.T) {
		r := NewRMPPReceiver(nil)
		var out []ib.MAD
		send := func(m *ib.MAD) { out = append(out, *m) }
		r.Receive(0, seg(2, 1, 0), send)
		if len(out) != 0 || r.NextTimer() != Never {
			t.Fatal("it took a second segment without the first")
		}
		r.Receive(0, seg(1, 3, 0), send)
		r.Receive(0, seg(66, 1, 0), send) // the window ends at 65
		if len(out) != 2 || *ackTo(seg(1, 3, 0), 1, 65) != out[0] {
			t.Fatalf("%d packets, % x", len(out), out[0][:56])
		}
	})
	t.Run("took too long", func(t *testing.T) {
		r := NewRMPPReceiver(nil)
		var last ib.MAD
		send := func(m *ib.MAD) { last = *m }
		r.Receive(0, seg(1, 3, 0), send)
		if r.NextTimer() != Time(40*time.Second) {
			t.Fatal(r.NextTimer())
		}
		r.Expire(Time(40*time.Second), send)
		if !r.Ended() || RMPPTypeOf(&last) != RMPPAbort || last[offRMPPStatus] != byte(RMPPTooLong) {
			t.Fatalf("% x", last[:36])
		}
	})
	t.Run("lingers", func(t *testing.T) {
		r := NewRMPPReceiver(nil)
		n := 0
		send := func(*ib.MAD) { n++ }
		if !r.Receive(0, seg(1, 7, 120), send) || len(r.Message()) != 156 || n != 1 {
			t.Fatalf("%d bytes, %d ACKs", len(r.Message()), n)
		}
		if r.Receive(1, seg(1, 7, 120), send) || n != 2 {
			t.Fatalf("%d ACKs", n)
		}
		r.Expire(Time(10*time.Second), send)
		if !r.Ended() || r.Err() != nil {
			t.Fatal(r.Err())
		}
	})
}

// A double-sided transfer: the end of the request gives a window of one to
// the answer, by an ACK of segment 0.
func TestRMPPDoubleSided(t *testing.T) {
	req := message(ib.ClassSA, ib.MethodGetMulti, 3, 24+16*20)
	s, err := NewRMPPSender(nil, req, true)
	if err != nil {
		t.Fatal(err)
	}
	r := NewRMPPReceiver(nil)
	var toR, toS []ib.MAD
	sendR := func(m *ib.MAD) { toR = append(toR, *m) }
	sendS := func(m *ib.MAD) { toS = append(toS, *m) }
	s.Start(0, sendR)
	for len(toR)+len(toS) > 0 {
		in := toR
		toR = nil
		for i := range in {
			if typ := RMPPTypeOf(&in[i]); typ == RMPPAck {
				if seg, win := rmppData(&in[i]); seg != 0 || win != 1 || in[i].Method() != ib.MethodGetMulti {
					t.Errorf("ACK %d, window %d, method %#x", seg, win, uint8(in[i].Method()))
				}
				in[i][offRMPPData2+3] = 5
			}
			r.Receive(0, &in[i], sendS)
		}
		in = toS
		toS = nil
		for i := range in {
			s.Receive(0, &in[i], sendR)
		}
	}
	if !s.Done() || !r.Complete() || r.ReplyWindow() != 5 {
		t.Fatalf("done %v, complete %v, window %d", s.Done(), r.Complete(), r.ReplyWindow())
	}
}

// Hostile streams of packets: no panic, no memory beyond what arrived, and
// every transfer ends.
func FuzzRMPPReceiver(f *testing.F) {
	f.Add([]byte{1, 3, 0, 0, 2, 1, 0, 0, 3, 5, 30, 0})
	f.Add([]byte{1, 7, 20, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		r := NewRMPPReceiver(&RMPPConfig{MaxBytes: 10_000})
		n := 0
		for i := 0; i+4 <= len(b); i += 4 {
			var m ib.MAD
			copy(m[:], message(ib.ClassSA, ib.MethodGetTableResp, 1, 200))
			putRMPP(&m, RMPPData, b[i+1]&7, 0, uint32(b[i]), uint32(b[i+2]))
			m[offRMPPType+int(b[i+3]&3)] ^= b[i+3] >> 2 // type, flags, status
			if r.Receive(Time(i), &m, func(*ib.MAD) { n++ }) && len(r.Message()) > 56+10_000+200 {
				t.Fatal(len(r.Message()))
			}
		}
		if cap(r.msg) > 8*10_000 {
			t.Fatalf("%d bytes held", cap(r.msg))
		}
		for r.NextTimer() != Never {
			r.Expire(r.NextTimer(), func(*ib.MAD) {})
		}
	})
}

func FuzzRMPPSender(f *testing.F) {
	f.Add(uint16(5000), []byte{1, 65, 0, 25, 80, 0})
	f.Fuzz(func(t *testing.T, n uint16, b []byte) {
		s, err := NewRMPPSender(nil, message(ib.ClassSA, ib.MethodGetTableResp, 1, int(n)), len(b)%2 == 0)
		if err != nil {
			t.Fatal(err)
		}
		var first ib.MAD
		s.Start(0, func(m *ib.MAD) { first = *m })
		send := func(m *ib.MAD) {
			if seg, _ := rmppData(m); RMPPTypeOf(m) == RMPPData && (seg > s.win || seg > s.segs) {
				t.Fatalf("segment %d of %d, window %d", seg, s.segs, s.win)
			}
		}
		for i := 0; i+3 <= len(b); i += 3 {
			m := ackTo(&first, uint32(b[i]), uint32(b[i+1]))
			m[offRMPPVersion+int(b[i+2]&3)] ^= b[i+2] >> 2
			s.Receive(Time(i), m, send)
		}
		for k := 0; !s.Done(); k++ {
			if k > 1000 {
				t.Fatal("does not end")
			}
			s.Expire(s.NextTimer(), send)
		}
	})
}

func BenchmarkRMPP(b *testing.B) {
	msg := message(ib.ClassSA, ib.MethodGetTableResp, 1, 5000*112)
	b.SetBytes(int64(len(msg)))
	b.ReportAllocs()
	for b.Loop() {
		s, err := NewRMPPSender(nil, msg, false)
		if err != nil {
			b.Fatal(err)
		}
		r := NewRMPPReceiver(nil)
		acks := make([]ib.MAD, 0, 4)
		toS := func(m *ib.MAD) { acks = append(acks, *m) }
		toR := func(m *ib.MAD) { r.Receive(0, m, toS) }
		s.Start(0, toR)
		for len(acks) > 0 {
			a := acks[0]
			acks = acks[:0]
			s.Receive(0, &a, toR)
		}
		if !r.Complete() {
			b.Fatal(fmt.Sprint(s.Err(), r.Err()))
		}
	}
}
