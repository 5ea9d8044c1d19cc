package mad

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"heddle/ib"
)

// dr makes a directed-route request.
func dr(method ib.Method, attr ib.AttrID, mod uint32, path ...byte) Request {
	var r Request
	r.Addr.LID = ib.LIDPermissive
	r.MAD.SetHeader(ib.ClassSubnDR, 1, method, attr, mod)
	r.MAD[offHopCount] = byte(len(path))
	copy(r.MAD[offInitialPath+1:], path)
	return r
}

// toLID makes a request that is routed by LID.
func toLID(c ib.Class, lid ib.LID, method ib.Method, attr ib.AttrID, mod uint32) Request {
	var r Request
	r.Addr.LID = lid
	r.MAD.SetHeader(c, 1, method, attr, mod)
	return r
}

// respond makes the answer an agent would give.
func respond(req *ib.MAD) ib.MAD {
	m := *req
	m.SetMethod(answerMethod(req.Method()))
	if m.Class() == ib.ClassSubnDR {
		m.SetStatus(0x8000)
	}
	return m
}

// The transcripts know these commands:
//
//	new [window=N] [max=N] [timeout=D] [retries=N] [queue=N] [timed]
//	submit token=N [get|set] attr=A [mod=M] (path=P.P.P | lid=L [class=C]) [urgent] [timeout=D] [retries=N]
//	poll at=D               sends what may be sent
//	answer at=D token=N [status=S] [tid=… class=… method=… attr=… mod=… version=… lid=… path=…]
//	                        an answer to the last try of token N, with parts of it replaced
//	failed at=D token=N     status 110 for the last try
//	request at=D method=M attr=A   something unsolicited
//	short at=D              a packet of 10 bytes
//	expire at=D
//	timer                   when Expire is due
//	cancel from=N to=N
//	state, stats
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata/engine", func(t *testing.T, path string) {
		tr := &transcript{}
		datadriven.RunTest(t, path, tr.run)
	})
}

type transcript struct {
	e    *Engine
	sent map[uint64]ib.MAD
	addr map[uint64]Addr
	out  strings.Builder
}

func (tr *transcript) run(t *testing.T, d *datadriven.TestData) string {
	tr.out.Reset()
	at := func() Time { return Time(dur(t, d, "at")) }
	switch d.Cmd {
	case "new":
		tr.e = NewEngine(Config{
			Window: num(t, d, "window"), MaxWindow: num(t, d, "max"), Timeout: dur(t, d, "timeout"),
			Retries: num(t, d, "retries"), MaxQueued: num(t, d, "queue"), TransportTimed: d.HasArg("timed"),
		})
		tr.sent, tr.addr = map[uint64]ib.MAD{}, map[uint64]Addr{}
	case "submit":
		method := ib.MethodGet
		if d.HasArg("set") {
			method = ib.MethodSet
		}
		r := dr(method, ib.AttrID(num(t, d, "attr")), uint32(num(t, d, "mod")), hops(t, d)...)
		if d.HasArg("lid") {
			c := ib.ClassSubnLID
			if d.HasArg("class") {
				c = ib.Class(num(t, d, "class"))
			}
			r = toLID(c, ib.LID(num(t, d, "lid")), method, ib.AttrID(num(t, d, "attr")), uint32(num(t, d, "mod")))
		}
		r.Token = uint64(num(t, d, "token"))
		r.Timeout, r.Retries = dur(t, d, "timeout"), num(t, d, "retries")
		if d.HasArg("urgent") {
			r.Priority = Urgent
		}
		if err := tr.e.Submit(&r); err != nil {
			fmt.Fprintln(&tr.out, err)
		}
	case "poll":
		tr.e.Poll(at(), tr.send)
	case "answer":
		token := uint64(num(t, d, "token"))
		req := tr.sent[token]
		m := respond(&req)
		a := tr.addr[token]
		if d.HasArg("tid") {
			m.SetTID(uint64(num(t, d, "tid")))
		}
		if d.HasArg("status") {
			m.SetStatus(m.Status() | ib.Status(num(t, d, "status")))
		}
		if d.HasArg("class") {
			m[1] = byte(num(t, d, "class"))
		}
		if d.HasArg("version") {
			m[0] = byte(num(t, d, "version"))
		}
		if d.HasArg("method") {
			m.SetMethod(ib.Method(num(t, d, "method")))
		}
		if d.HasArg("attr") {
			m.SetAttrID(ib.AttrID(num(t, d, "attr")))
		}
		if d.HasArg("mod") {
			m.SetAttrMod(uint32(num(t, d, "mod")))
		}
		if d.HasArg("lid") {
			a.LID = ib.LID(num(t, d, "lid"))
		}
		if d.HasArg("path") {
			copy(m[offInitialPath+1:], hops(t, d))
		}
		tr.receive(at(), &Packet{Addr: a, Data: m[:]})
	case "failed":
		m := tr.sent[uint64(num(t, d, "token"))]
		tr.receive(at(), &Packet{Status: Failed, Data: m[:24]})
	case "request":
		r := dr(ib.Method(num(t, d, "method")), ib.AttrID(num(t, d, "attr")), 0)
		tr.receive(at(), &Packet{Data: r.MAD[:]})
	case "short":
		tr.receive(at(), &Packet{Data: make([]byte, 10)})
	case "expire":
		tr.e.Expire(at(), func(c Completion) { tr.completion(&c) })
	case "timer":
		if n := tr.e.NextTimer(); n == Never {
			fmt.Fprintln(&tr.out, "never")
		} else {
			fmt.Fprintln(&tr.out, time.Duration(n))
		}
	case "cancel":
		fmt.Fprintln(&tr.out, tr.e.Cancel(uint64(num(t, d, "from")), uint64(num(t, d, "to"))))
	case "state":
		fmt.Fprintf(&tr.out, "window=%d queued=%d outstanding=%d idle=%v\n",
			tr.e.Window(), tr.e.Queued(), tr.e.Outstanding(), tr.e.Idle())
	case "stats":
		var s Stats
		tr.e.Stats(&s)
		for _, a := range s.Attrs {
			fmt.Fprintf(&tr.out, "class=%#x attr=%#04x method=%#x sent=%d retried=%d answered=%d timedout=%d failed=%d bad=%d errors=%d rtt=%d/%v max=%v\n",
				uint8(a.Class), uint16(a.Attr), uint8(a.Method), a.Sent, a.Retried, a.Answered, a.TimedOut, a.Failed, a.Bad, a.Errors, a.RTTCount, a.RTTSum, a.RTTMax)
		}
		fmt.Fprintf(&tr.out, "stale=%d unsolicited=%d\n", s.Stale, s.Unsolicited)
	default:
		t.Fatalf("unknown command %s", d.Cmd)
	}
	return tr.out.String()
}

func (tr *transcript) send(p *Packet) {
	m := *(*ib.MAD)(p.Data)
	for i := range tr.e.slots {
		if s := &tr.e.slots[i]; s.state == slotInFlight && s.mad.TID() == m.TID() {
			tr.sent[s.token], tr.addr[s.token] = m, p.Addr
			fmt.Fprintf(&tr.out, "send token=%d tid=%#x attr=%#x to lid=%v qp=%d timeout=%v\n",
				s.token, m.TID(), uint16(m.AttrID()), p.Addr.LID, p.Addr.QP, p.Timeout)
		}
	}
}

func (tr *transcript) receive(now Time, p *Packet) {
	c, kind := tr.e.Receive(now, p)
	switch kind {
	case KindCompletion:
		tr.completion(&c)
	case KindStale:
		fmt.Fprintln(&tr.out, "stale")
	case KindRetry:
		fmt.Fprintln(&tr.out, "retry")
	case KindUnsolicited:
		fmt.Fprintln(&tr.out, "unsolicited")
	}
}

func (tr *transcript) completion(c *Completion) {
	fmt.Fprintf(&tr.out, "done token=%d tries=%d elapsed=%v", c.Token, c.Tries, c.Elapsed)
	if c.Err != nil {
		fmt.Fprintf(&tr.out, " err=%v\n", c.Err)
		return
	}
	fmt.Fprintf(&tr.out, " rtt=%v\n", c.RTT)
}

func num(t *testing.T, d *datadriven.TestData, key string) int {
	t.Helper()
	if !d.HasArg(key) {
		return 0
	}
	var s string
	d.ScanArgs(t, key, &s)
	var n int
	if _, err := fmt.Sscanf(s, "%v", &n); err != nil {
		t.Fatalf("%s=%s: %v", key, s, err)
	}
	return n
}

func dur(t *testing.T, d *datadriven.TestData, key string) time.Duration {
	t.Helper()
	if !d.HasArg(key) {
		return 0
	}
	var s string
	d.ScanArgs(t, key, &s)
	v, err := time.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func hops(t *testing.T, d *datadriven.TestData) []byte {
	t.Helper()
	if !d.HasArg("path") {
		return nil
	}
	var s string
	d.ScanArgs(t, "path", &s)
	var out []byte
	for f := range strings.SplitSeq(s, ".") {
		var n byte
		if _, err := fmt.Sscanf(f, "%d", &n); err != nil {
			t.Fatal(err)
		}
		out = append(out, n)
	}
	return out
}

// An echo of the response that the transport shortened is padded, not refused.
func TestShortAnswer(t *testing.T) {
	e := NewEngine(Config{})
	r := toLID(ib.ClassSA, 7, ib.MethodGet, 0x11, 0)
	e.Submit(&r)
	var req ib.MAD
	e.Poll(0, func(p *Packet) { copy(req[:], p.Data) })
	m := respond(&req)
	c, k := e.Receive(1, &Packet{Addr: Addr{LID: 7, QP: 1}, Data: m[:168]})
	if k != KindCompletion || len(c.Data) != 168 || c.MAD[167] != m[167] || c.MAD[200] != 0 {
		t.Fatalf("kind %d, %d bytes", k, len(c.Data))
	}
}

func TestErrorKinds(t *testing.T) {
	if !Unanswered(ErrTimeout) || !Unanswered(fmt.Errorf("x: %w", ErrFailed)) || Unanswered(&AnswerError{}) || Unanswered(nil) {
		t.Error("Unanswered is wrong")
	}
	for k := WrongTID; k <= WrongModifier; k++ {
		if s := (&AnswerError{Kind: k, Want: 1, Got: 2}).Error(); !strings.Contains(s, "0x2 instead of 0x1") {
			t.Error(s)
		}
	}
}

func TestQueueFull(t *testing.T) {
	e := NewEngine(Config{MaxQueued: 3})
	r := dr(ib.MethodGet, 0x11, 0)
	for range 3 {
		if err := e.Submit(&r); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Submit(&r); !errors.Is(err, ErrQueueFull) {
		t.Fatal(err)
	}
}

// TestPollSome: no more leave than asked for but for urgent requests, and it is told whether others
// could leave.
func TestPollSome(t *testing.T) {
	e := NewEngine(Config{Window: 4, MaxWindow: 4})
	for i := range 6 {
		r := dr(ib.MethodGet, 0x11, 0)
		r.Token = uint64(i)
		if i == 5 {
			r.Priority = Urgent
		}
		if err := e.Submit(&r); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []struct {
		most, sent int
		more       bool
	}{{0, 1, true}, {2, 2, true}, {2, 1, false}, {2, 0, false}} { // the window is full then
		sent := 0
		if more := e.PollSome(0, want.most, func(*Packet) { sent++ }); sent != want.sent || more != want.more {
			t.Errorf("call %d: %d sent, more %v; want %d, %v", i, sent, more, want.sent, want.more)
		}
	}
	e.CancelAll()
	if sent := 0; e.PollSome(0, 1, func(*Packet) { sent++ }) || sent != 0 {
		t.Errorf("%d sent after all were canceled", sent)
	}
}

// TestPending: incomplete requests are listed, sent and unsent ones separately.
func TestPending(t *testing.T) {
	e := NewEngine(Config{Window: 2, MaxWindow: 2})
	for i := range 5 {
		r := dr(ib.MethodGet, 0x11, 0)
		r.Token = uint64(i)
		if i == 4 {
			r.Priority = Urgent
		}
		if err := e.Submit(&r); err != nil {
			t.Fatal(err)
		}
	}
	list := func() (s string) {
		e.Pending(func(token uint64, sent bool) { s += fmt.Sprint(token, sent, " ") })
		return s
	}
	if got := list(); got != "4 false 0 false 1 false 2 false 3 false " {
		t.Error(got)
	}
	e.Poll(0, func(*Packet) {})
	e.Cancel(2, 2)
	if got := list(); got != "4 true 0 true 1 false 3 false " {
		t.Error(got)
	}
	e.CancelAll()
	if got := list(); got != "" {
		t.Error(got)
	}
}

// The transaction IDs of one slot go round without ever being 0 or that of
// another request.
func TestTIDs(t *testing.T) {
	for _, first := range []uint32{0, 0xFFFFFFFE, 0x1FFFFFF, 12345} {
		e := NewEngine(Config{MaxWindow: 8, FirstTID: first})
		seen := map[uint32]bool{}
		r := dr(ib.MethodGet, 0x11, 0)
		for range 1000 {
			e.Submit(&r)
			var req ib.MAD
			e.Poll(0, func(p *Packet) { copy(req[:], p.Data) })
			tid := uint32(req.TID())
			if tid == 0 || seen[tid] || req.TID()>>32 != 0 {
				t.Fatalf("first %#x: transaction ID %#x", first, req.TID())
			}
			seen[tid] = true
			m := respond(&req)
			if _, k := e.Receive(0, &Packet{Addr: Addr{LID: ib.LIDPermissive}, Data: m[:]}); k != KindCompletion {
				t.Fatal(k)
			}
			if _, k := e.Receive(0, &Packet{Addr: Addr{LID: ib.LIDPermissive}, Data: m[:]}); k != KindStale {
				t.Fatal(k)
			}
		}
	}
}

// Long queues: order is kept, memory is that of what is queued, and nothing
// is allocated once the chunks exist.
func TestLongQueue(t *testing.T) {
	const n = 300_000
	e := NewEngine(Config{MaxWindow: 64, Window: 64})
	r := dr(ib.MethodSet, 0x19, 0, 1, 2, 3)
	for i := range n {
		r.Token = uint64(i)
		r.MAD.SetAttrMod(uint32(i))
		if err := e.Submit(&r); err != nil {
			t.Fatal(err)
		}
	}
	next := uint64(0)
	pending := make([]ib.MAD, 0, 64)
	for now := Time(0); !e.Idle(); now++ {
		pending = pending[:0]
		e.Poll(now, func(p *Packet) { pending = append(pending, *(*ib.MAD)(p.Data)) })
		for i := range pending {
			m := respond(&pending[i])
			c, k := e.Receive(now, &Packet{Addr: Addr{LID: ib.LIDPermissive}, Data: m[:]})
			if k != KindCompletion || c.Token != next || c.AttrMod != uint32(next) {
				t.Fatalf("kind %d token %d, want %d", k, c.Token, next)
			}
			next++
		}
	}
	if next != n {
		t.Fatalf("%d of %d", next, n)
	}
}

func TestNoAllocations(t *testing.T) {
	e := NewEngine(Config{MaxWindow: 32, Window: 32})
	l := newLoop(e)
	l.round(1000) // warm up
	if a := testing.AllocsPerRun(50, func() { l.round(1000) }); a > 0 {
		t.Errorf("%v allocations for 1000 requests", a)
	}
}

// loop is an engine with a perfect fabric behind it.
type loop struct {
	e       *Engine
	req     Request
	pending []ib.MAD
	send    func(*Packet)
	in      Packet
	now     Time
}

func newLoop(e *Engine) *loop {
	l := &loop{e: e, req: dr(ib.MethodGet, 0x15, 3, 1, 2, 3), pending: make([]ib.MAD, 0, 64)}
	l.send = func(p *Packet) { l.pending = append(l.pending, *(*ib.MAD)(p.Data)) }
	l.in.Addr.LID = ib.LIDPermissive
	return l
}

func (l *loop) round(n int) {
	for range n {
		l.e.Submit(&l.req)
	}
	for !l.e.Idle() {
		l.pending = l.pending[:0]
		l.e.Poll(l.now, l.send)
		l.now += 1000
		for i := range l.pending {
			m := &l.pending[i]
			m.SetMethod(ib.MethodGetResp)
			l.in.Data = m[:]
			if _, k := l.e.Receive(l.now, &l.in); k != KindCompletion {
				panic(k)
			}
		}
	}
}

func BenchmarkEngine(b *testing.B) {
	for _, w := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("window=%d", w), func(b *testing.B) {
			l := newLoop(NewEngine(Config{MaxWindow: w, Window: w}))
			b.ReportAllocs()
			for b.Loop() {
				l.round(100)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/100, "ns/request")
		})
	}
}

// TestUrgentDespiteSilentNode: while a node with very many requests is silent, urgent
// requests to others are sent immediately, not after the time-outs.
func TestUrgentDespiteSilentNode(t *testing.T) {
	e := NewEngine(Config{Window: 32, MaxWindow: 32, Timeout: 200 * time.Millisecond, Retries: 3})
	submit := func(r Request, p Priority) {
		r.Priority = p
		if err := e.Submit(&r); err != nil {
			t.Fatal(err)
		}
	}
	// One answer, so that it is known how fast they come.
	submit(dr(ib.MethodGet, 0x11, 0), Normal)
	var m ib.MAD
	var from Addr
	e.Poll(0, func(p *Packet) { m, from = respond((*ib.MAD)(p.Data)), p.Addr })
	now := Time(10 * time.Microsecond)
	if _, k := e.Receive(now, &Packet{Addr: from, Data: m[:]}); k != KindCompletion {
		t.Fatal(k)
	}
	for i := range 500 {
		submit(dr(ib.MethodGet, 0x17, uint32(i), 1), Normal)
	}
	sent := 0
	for { // tries stop to count, and others follow
		before := sent
		e.Poll(now, func(*Packet) { sent++ })
		if sent == before && e.NextTimer() > Time(190*time.Millisecond) {
			break
		}
		now = e.NextTimer()
		e.Expire(now, func(Completion) { t.Fatalf("a request ends after %v", time.Duration(now)) })
	}
	before := sent
	for i := range 4 {
		submit(dr(ib.MethodGet, 0x15, uint32(i), 2), Urgent)
	}
	if e.Poll(now, func(*Packet) { sent++ }); sent != before+4 {
		t.Errorf("%d of 4 urgent requests go out beside %d without an answer", sent-before, e.Outstanding())
	}
}
