package live

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"sync/atomic"
	"testing"

	"heddle/ib"
	"heddle/ib/sa"
	"heddle/internal/fabrictest"
	"heddle/internal/need"
	"heddle/internal/snaptest"
	"heddle/mad"
	"heddle/replica"
	"heddle/replica/wire"
	"heddle/route/engine/minhop"
)

// asker is a program on the host without a manager.
type asker struct {
	b    *testbed
	port mad.Transport
	tid  uint64
	got  chan *ib.MAD
}

func newAsker(b *testbed) *asker {
	p, err := b.d.Port("H")
	if err != nil {
		b.Fatal(err)
	}
	x := &asker{b: b, port: p, got: make(chan *ib.MAD, 100)}
	b.Cleanup(func() { p.Close() })
	go func() {
		var k mad.Packet
		for p.Recv(&k) == nil {
			if m := *(*ib.MAD)(k.Data); k.Status == mad.Received && k.Addr.LID.IsUnicast() {
				binary.BigEndian.PutUint16(sa.Data(&m)[2:], uint16(k.Addr.LID))
				x.got <- &m
			}
		}
	}()
	return x
}

// ask sends a request to a site, and returns its transaction.
func (x *asker) ask(to *site, method ib.Method) uint64 {
	x.b.Helper()
	var m ib.MAD
	sa.New(&m, method, sa.AttrPathRecord, 0, 0)
	x.tid++
	m.SetTID(x.tid)
	if err := x.port.Send(&mad.Packet{Addr: mad.Addr{LID: lidHost + ib.LID(to.i), QP: 1}, LocalQP: 1, Data: m[:]}); err != nil {
		x.b.Fatal(err)
	}
	return x.tid
}

// expect waits for the next answer: to a transaction, made by one site and sent by the port of another.
func (x *asker) expect(tid uint64, by, from *site) {
	x.b.Helper()
	var m *ib.MAD
	x.b.eventually("an answer", func() bool {
		select {
		case m = <-x.got:
			return true
		default:
			return false
		}
	})
	d := sa.Data(m)
	if m.TID()&(1<<48-1) != tid || int(d[0]) != by.i || ib.LID(binary.BigEndian.Uint16(d[2:])) != lidHost+ib.LID(from.i) {
		x.b.Errorf("transaction %d has an answer of manager %d from LID %d, want %d of %d from %d", m.TID(), d[0], binary.BigEndian.Uint16(d[2:]), tid, by.i, lidHost+ib.LID(from.i))
	}
}

// TestRelayed: a query that comes to a manager which has handed over is answered by the new one, which
// knows from whom it is; the host gets the answer from where it asked. Changes are not passed on, nor is
// anything when the manager becomes active again.
func TestRelayed(t *testing.T) {
	b := newTestbed(t, 2)
	var mute atomic.Bool
	var dropped, changes, wrong atomic.Int32
	b.serve = func(x *site, port mad.Transport, k *mad.Packet) {
		if mute.Load() { // as a manager that has not begun
			dropped.Add(1)
			return
		}
		m := *(*ib.MAD)(k.Data)
		if m.Method() != ib.MethodGet {
			changes.Add(1)
		}
		if k.Addr.LID != lidOther || k.Addr.QP != 1 {
			wrong.Add(1)
		}
		m[3] |= byte(ib.MethodResponseBit)
		sa.Data(&m)[0] = byte(x.i)
		list := []mad.Packet{{Addr: k.Addr, LocalQP: 1, Data: m[:]}}
		if n, err := port.(mad.Batcher).SendAll(list); n != 1 && err == nil {
			t.Error("an answer is neither sent nor refused")
		}
	}
	a := b.begin()
	o := a.other()
	h := newAsker(b)
	h.expect(h.ask(a, ib.MethodGet), a, a)

	mute.Store(true)
	if err := a.pair().Handover(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.ask(a, ib.MethodSet)
	tid := h.ask(a, ib.MethodGet)
	b.eventually("the query is passed on until it is answered", func() bool { return dropped.Load() >= 3 })
	mute.Store(false)
	h.expect(tid, o, a)
	h.expect(h.ask(a, ib.MethodGet), o, a)
	h.expect(h.ask(o, ib.MethodGet), o, o)

	// What is not the peer's to send ends a stream or is ignored.
	for _, m := range []*wire.Relayed{
		{Answer: true, From: mad.Addr{LID: lidOther, QP: 1}, Data: make([]byte, ib.MADLen)},
		{From: mad.Addr{LID: lidHost + ib.LID(o.i), QP: 1}, Data: queryData(ib.MethodGet)}, // trusted if it were local
		{From: mad.Addr{LID: lidOther, QP: 1}, Data: queryData(ib.MethodSet)},
	} {
		o.pair().relayed(nil, m)
	}

	st := a.pair().Status()
	if c := st.Relayed; c.Passed != 2 || c.Answered != 2 || st.RelayGiven != 2 || c.Late+c.Refused+int(st.RelayFull) != 0 {
		t.Errorf("%+v, %d answers for hosts, %d without room", c, st.RelayGiven, st.RelayFull)
	}

	b.paired()
	if err := o.pair().Handover(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.eventually("the first one is active again", func() bool { return a.active.Load() })
	h.expect(h.ask(o, ib.MethodGet), a, o)
	h.expect(h.ask(a, ib.MethodGet), a, a)
	if changes.Load() != 0 || wrong.Load() != 0 {
		t.Errorf("%d changes were passed on, %d queries with another address", changes.Load(), wrong.Load())
	}
}

func queryData(method ib.Method) []byte {
	var m ib.MAD
	sa.New(&m, method, sa.AttrPathRecord, 0, 0)
	return m[:]
}

// TestRelayFull: answers for which the port has no room are dropped, and counted.
func TestRelayFull(t *testing.T) {
	p := alonePair(&handed{})
	p.relaying.answers = make(chan *mad.Packet, 2) // nobody takes them
	p.relaying.relay.Open(p.now())
	var list []*wire.Relayed
	for i := range 5 {
		q := mad.Packet{Addr: mad.Addr{LID: ib.LID(5 + i), QP: 1}, LocalQP: 1, Data: queryData(ib.MethodGet)}
		p.relayQuery(&q)
		list = append(list, &wire.Relayed{Answer: true, From: q.Addr, Data: queryData(ib.MethodGetResp)})
	}
	for _, m := range list {
		p.relayed(nil, m)
	}
	if st := p.Status(); st.Relayed.Answered != 5 || p.relaying.bytes.Load() != 2*ib.MADLen || st.RelayFull != 3 {
		t.Errorf("%+v, %d bytes wait, %d answers without room", st.Relayed, p.relaying.bytes.Load(), st.RelayFull)
	}
}

// TestRelaySends: answers to queries that were passed on go to the peer in order with others, which go to
// the port; nothing does after the mastership.
func TestRelaySends(t *testing.T) {
	var sizes []int
	port := &burstPort{handed{one: func() { sizes = append(sizes, 1) }, many: func(n int) { sizes = append(sizes, n) }}}
	p := alonePair(port)
	st := &stream{p: p, as: wire.Agreed{Stream: wire.Own().Stream.Newest, Journal: 1}, wake: make(chan struct{}, 1)}
	p.relaying.back.Store(st)
	m := p.ManagerPort().(*managerPort)
	list := packets(7)
	for _, i := range []int{0, 3, 4, 6} {
		list[i] = mad.Packet{Addr: mad.Addr{LID: ib.LID(i), Relayed: true}, LocalQP: 1, Data: queryData(ib.MethodGetResp)}
	}
	for name, send := range map[string]func([]mad.Packet) (int, error){"SendAll": m.SendAll, "TrySend": m.TrySend} {
		sizes, st.relayed = nil, nil
		if n, err := send(list); n != len(list) || err != nil {
			t.Fatalf("%s: %d, %v", name, n, err)
		}
		if len(st.relayed) != 4 || len(sizes) != 2 || sizes[0] != 2 || sizes[1] != 1 {
			t.Fatalf("%s: %d went to the peer, %d to the port", name, len(st.relayed), sizes)
		}
		for i, lid := range []ib.LID{0, 3, 4, 6} {
			if q := st.relayed[i]; q.From != (mad.Addr{LID: lid}) || !q.Answer {
				t.Errorf("%s: %+v", name, q)
			}
		}
	}
	st.relayed, st.relayedBytes = nil, 0
	for range 100 {
		if err := m.Send(&mad.Packet{Addr: list[0].Addr, Data: append(queryData(ib.MethodGetResp), make([]byte, relayBytes/50)...)}); err != nil {
			t.Fatal(err)
		}
	}
	if st.relayedBytes > relayBytes || len(st.relayed) > 50 {
		t.Errorf("%d bytes wait for the peer", st.relayedBytes)
	}
	p.gate.shut()
	sizes, st.relayed, st.relayedBytes = nil, nil, 0
	if n, err := m.TrySend(list); n != 0 || err == nil || len(st.relayed) != 0 {
		t.Errorf("after the mastership %d are sent: %v", n, err)
	}
}

// TestRelayOpens: queries are passed on after a handover alone, and wait as of the moment in which the
// managers get no more.
func TestRelayOpens(t *testing.T) {
	for why := replica.WhySilence; why <= replica.WhyOtherAlone; why++ {
		p := alonePair(&handed{})
		p.log = quiet
		m := p.ManagerPort().(*managerPort)
		m.deliver(&mad.Packet{Addr: mad.Addr{LID: 5, QP: 1}, LocalQP: 1, Data: queryData(ib.MethodGet)})
		p.yield(&replica.Output{Notices: []replica.Notice{{Kind: replica.NoticeStandby, Why: why}}})
		n := 0
		p.relaying.relay.Due(p.now(), func(*mad.Packet) { n++ })
		want := 0
		if why == replica.WhyHandover || why == replica.WhyDisk {
			want = 1
		}
		if n != want {
			t.Errorf("%v: %d queries wait, want %d", why, n, want)
		}
	}
}

// TestRelayedUntilUp: a manager that has handed over says that queries need not be passed on any more when
// the new one has brought the subnet up, and when that one has ended.
func TestRelayedUntilUp(t *testing.T) {
	b := newTestbed(t, 2)
	a := b.begin()
	f, err := fabrictest.Generate("xgft", []string{"2", "18,18", "1,18"}, 1)
	if err != nil {
		t.Fatal(err)
	}
	up := snaptest.New(t, f, minhop.Engine{}, 1)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	handOver := func(from *site) {
		t.Helper()
		if err := from.pair().Relayed(over); err != nil {
			t.Errorf("without a handover: %v", err)
		}
		if err := from.pair().Handover(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.eventually("the other one is active", func() bool { return from.other().active.Load() })
		if err := from.pair().Relayed(over); !errors.Is(err, context.Canceled) {
			t.Errorf("hosts may not know the new manager, and nothing waits for that: %v", err)
		}
	}
	waited := func(x *site, what string) {
		t.Helper()
		limited, cancel := context.WithTimeout(t.Context(), need.Patience)
		defer cancel()
		if err := x.pair().Relayed(limited); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}

	handOver(a)
	a.other().pair().Show()(up)
	waited(a, "the subnet is up")

	o := b.paired()
	if o != a.other() {
		t.Skip("the managers changed their roles: they did not get the processor")
	}
	handOver(o)
	o.other().kill()
	waited(o, "the new manager has ended")
}

// TestReturned: what the managers of a mastership have not answered when it ends is passed on, wherever it
// was: received and not read, read and not answered, or under way to them. What the peer passed on is not.
func TestReturned(t *testing.T) {
	query := func(tid uint64) *mad.Packet {
		k := &mad.Packet{Addr: mad.Addr{LID: 5, QP: 1}, LocalQP: 1, Data: queryData(ib.MethodGet)}
		(*ib.MAD)(k.Data).SetTID(tid)
		return k
	}
	p := alonePair(&handed{})
	p.log = quiet
	m := p.ManagerPort().(*managerPort)
	if m.Return(query(1)) {
		t.Error("a query is passed on although its manager can answer it")
	}
	m.deliver(query(2))
	p.yield(&replica.Output{Notices: []replica.Notice{{Kind: replica.NoticeStandby, Why: replica.WhyHandover}}})
	p.gate.port = m // as the goroutine that receives saw it a moment ago
	if _, ok := p.gate.deliver(query(3)); ok {
		t.Error("a query was delivered to a manager that has ended")
	} else {
		p.relayQuery(query(3))
	}
	relayed := query(4)
	relayed.Addr.Relayed = true
	change := query(5)
	change.Data = queryData(ib.MethodSet)
	if !m.Return(query(6)) || m.Return(relayed) || m.Return(change) {
		t.Error("what is passed on is not what hosts asked for, and changes nothing")
	}
	var list []uint64
	p.relaying.relay.Due(p.now(), func(k *mad.Packet) { list = append(list, (*ib.MAD)(k.Data).TID()) })
	if !slices.Equal(list, []uint64{2, 3, 6}) {
		t.Errorf("queries %v are passed on", list)
	}
}
