package comm

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"heddle/fabric"
	"heddle/ib"
	wire "heddle/ib/cm"
	"heddle/mad"
	"heddle/sim/dataplane"
	"heddle/sim/host/adapter"
	"heddle/sim/host/program"
	"heddle/sim/host/rc"
)

// pair is two hosts on a switch, and a channel for their datagrams.
type pair struct {
	t     *testing.T
	e     *dataplane.Engine
	a     [2]*adapter.Adapter
	m     [2]*Manager
	wires []datagram
	sent  []ib.AttrID // in order, those that are lost too
	level []ib.SL     // of each
	lose  func(from int, d *ib.MAD) bool
	sink  *program.Sink
}

type datagram struct {
	at   mad.Time
	to   int
	lid  ib.LID
	sl   ib.SL
	data ib.MAD
}

const service = 0x1000

func quick() Config { return Config{PacketLife: 5, Response: 6, Retries: 4} }

func newPair(t *testing.T, c Config) *pair {
	t.Helper()
	top := &dataplane.Topology{Nodes: []dataplane.Node{{Name: "a", Ports: 1}, {Name: "b", Ports: 1}, {Name: "s", Switch: true, Ports: 2}}}
	for i := range 2 {
		top.Links = append(top.Links, dataplane.Link{
			A: fabric.Ref{Node: int32(i), Port: 1}, B: fabric.Ref{Node: 2, Port: uint8(i + 1)},
			Rate: dataplane.LinkRate(ib.Width4x, ib.SpeedQDR), Delay: dataplane.DefaultCable,
		})
	}
	pl := dataplane.NewPlain(top, 2)
	for i := range 2 {
		pl.SetRoute(2, pl.Attr[i][1].LID, uint8(i+1))
	}
	dc := dataplane.Defaults()
	dc.Lanes = 2
	e, err := dataplane.New(top, pl, dc)
	must(t, err)
	p := &pair{t: t, e: e, sink: &program.Sink{}, lose: func(int, *ib.MAD) bool { return false }}
	for i := range 2 {
		p.a[i], err = adapter.New(e, i)
		must(t, err)
		lid := p.a[i].LID()
		send := func(k *mad.Packet) {
			d := (*ib.MAD)(k.Data)
			d.SetTID(d.TID()&(1<<48-1) | uint64(i+7)<<48) // as a port does
			p.sent, p.level = append(p.sent, d.AttrID()), append(p.level, k.Addr.SL)
			if !p.lose(i, d) {
				p.wires = append(p.wires, datagram{p.now().Add(5 * time.Microsecond), 1 - i, lid, k.Addr.SL, *d})
			}
		}
		p.m[i] = New(c, send, func() (ib.LID, ib.GID) { return lid, ib.MakeGID(1, ib.GUID(lid)) })
	}
	p.m[1].Listen(service, func(_ mad.Time, r *wire.REQ) (*adapter.Connection, uint32, wire.Reason) {
		if r.MTU == 1 {
			return nil, 0, wire.ReasonConsumer
		}
		c, err := p.a[1].Connect(adapter.Options{MTU: 2048, Window: 16}, p.sink)
		must(t, err)
		c.PostReceives(1 << 20)
		return c, 0x7000, 0
	})
	return p
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (p *pair) now() mad.Time { return mad.Time(p.e.Now().Duration()) }

// run runs for d.
func (p *pair) run(d time.Duration) {
	end := p.now().Add(d)
	for {
		t := end
		for _, w := range p.wires {
			t = min(t, w.at)
		}
		t = max(min(t, p.m[0].NextTimer(), p.m[1].NextTimer()), p.now())
		p.e.Run(dataplane.FromDuration(time.Duration(t)))
		list := p.wires
		p.wires = nil
		for _, w := range list {
			if w.at > t {
				p.wires = append(p.wires, w)
				continue
			}
			p.m[w.to].Receive(p.now(), &mad.Packet{Addr: mad.Addr{LID: w.lid, QP: 1, SL: w.sl}, LocalQP: 1, Data: w.data[:]})
		}
		for _, m := range p.m {
			if m.NextTimer() <= p.now() {
				m.Expire(p.now())
			}
		}
		if t >= end {
			return
		}
	}
}

// connect asks for a connection; the error is set when it ends.
func (p *pair) connect(to uint64, mtu ib.MTU) (c *Conn, s *program.Stream, err *error) {
	s = &program.Stream{Bytes: 5000, Depth: 4, Limit: 50}
	qp, e := p.a[0].Connect(adapter.Options{MTU: 2048, Window: 16, Peer: ib.MakeGID(1, 2)}, s)
	must(p.t, e)
	qp.PostReceives(1 << 20)
	var out error
	err = &out
	out = errPending
	c = p.m[0].Connect(p.now(), Request{
		Service: to, QP: qp, Path: rc.Path{DLID: p.a[1].LID()}, MTU: mtu,
		Sender: rc.Sender{PSN: 0x3000, Timeout: 8, Retries: 7, RNRRetries: 7},
	}, func(_ mad.Time, e error) {
		if !errors.Is(out, errPending) {
			p.t.Error("a connection ends twice")
		}
		out = e
	})
	return c, s, err
}

var errPending = errors.New("pending")

// TestConnect: three messages, and then data.
func TestConnect(t *testing.T) {
	p := newPair(t, quick())
	c, s, err := p.connect(service, 4)
	p.run(100 * time.Microsecond)
	must(t, *err)
	if len(p.sent) != 3 || p.sent[0] != wire.AttrREQ || p.sent[1] != wire.AttrREP || p.sent[2] != wire.AttrRTU {
		t.Fatalf("%v", p.sent)
	}
	if c.State() != Established || p.m[0].Of(c.QP()) != c {
		t.Errorf("%v", c.State())
	}
	back := p.a[1].Connections()[0]
	if back.QP().State() != rc.ReadyToSend || back.QP().RemoteQPN() != c.QP().QPN() || back.QP().Path().DLID != p.a[0].LID() {
		t.Errorf("%v, %d, %+v", back.QP().State(), back.QP().RemoteQPN(), back.QP().Path())
	}
	s.Run(c.QP())
	p.run(time.Millisecond)
	if n, _ := p.sink.Got(); n != 50 {
		t.Errorf("%d messages", n)
	}
	if c.QP().QP().Count.Repeats != 0 {
		t.Errorf("%+v", c.QP().QP().Count)
	}
}

// TestRefused: a service that nobody has, and one that refuses.
func TestRefused(t *testing.T) {
	for _, c := range []struct {
		to   uint64
		mtu  ib.MTU
		want wire.Reason
	}{{service + 1, 4, wire.ReasonServiceID}, {service, 1, wire.ReasonConsumer}} {
		p := newPair(t, quick())
		x, _, err := p.connect(c.to, c.mtu)
		p.run(100 * time.Microsecond)
		var r *RejectError
		if !errors.As(*err, &r) || r.Reason != c.want || x.State() != Closed || len(p.sent) != 2 || p.a[1].Live() != 0 {
			t.Errorf("%v, %v, %v", *err, x.State(), p.sent)
		}
	}
}

// TestSilence: a request is repeated Retries times, and then ends. The times are those
// of equations 2 and 3 of Tasoulas et al. (2015): 6.44 s, 96.6 s for 15.
func TestSilence(t *testing.T) {
	p := newPair(t, quick())
	p.lose = func(int, *ib.MAD) bool { return true }
	_, _, err := p.connect(service, 4)
	p.run(5*quick().Timeout() - time.Microsecond)
	if !errors.Is(*err, errPending) || len(p.sent) != 5 {
		t.Errorf("%v after %d tries", *err, len(p.sent))
	}
	p.run(2 * time.Microsecond)
	if !errors.Is(*err, ErrTimeout) {
		t.Errorf("%v", *err)
	}
	c := Defaults()
	if s := c.Timeout().Seconds(); s < 6.44 || s > 6.45 || s*float64(c.Retries) < 96.6 || s*float64(c.Retries) > 96.7 {
		t.Errorf("%v, %v for all", c.Timeout(), c.Timeout()*time.Duration(c.Retries))
	}
}

// TestMRA: a message that says to wait gives more time.
func TestMRA(t *testing.T) {
	p := newPair(t, quick())
	p.lose = func(int, *ib.MAD) bool { return true }
	c, _, _ := p.connect(service, 4)
	var d ib.MAD
	wire.New(&d, wire.AttrMRA, 0)
	(&wire.MRA{RemoteID: c.local, Timeout: 10}).Put(wire.Data(&d))
	p.m[0].Receive(p.now(), &mad.Packet{Addr: mad.Addr{LID: p.a[1].LID(), QP: 1}, Data: d[:]})
	p.run(quick().Timeout() + 4*time.Millisecond)
	if len(p.sent) != 1 {
		t.Errorf("%d tries", len(p.sent))
	}
	p.run(time.Millisecond)
	if len(p.sent) < 2 {
		t.Error("it is not repeated at last")
	}
}

// TestDisconnect: both queue pairs go, also if messages are lost.
func TestDisconnect(t *testing.T) {
	for lost := range 3 {
		p := newPair(t, quick())
		c, _, err := p.connect(service, 4)
		p.run(100 * time.Microsecond)
		must(t, *err)
		ended := 0
		p.m[1].conns[0].Ended = func(mad.Time) { ended++ }
		n := 0
		p.lose = func(int, *ib.MAD) bool { n++; return n == lost }
		c.Disconnect(p.now())
		p.run(3 * time.Millisecond)
		if p.a[0].Live()+p.a[1].Live() != 0 || len(p.m[0].conns)+len(p.m[1].conns) != 0 || ended != 1 {
			t.Errorf("message %d lost: %d and %d queue pairs, ended %d times", lost, p.a[0].Live(), p.a[1].Live(), ended)
		}
	}
}

// TestAlternate: both ends load an alternate path though one of them has another; the
// connection is ARMED, and migrates.
func TestAlternate(t *testing.T) {
	for lost := range 4 { // 0: none
		p := newPair(t, quick())
		c, s, err := p.connect(service, 4)
		p.run(100 * time.Microsecond)
		must(t, *err)
		s.Limit, s.Gap = 0, 10*dataplane.Microsecond
		s.Run(c.QP())
		n, loaded := 0, 0
		p.lose = func(int, *ib.MAD) bool { n++; return n == lost }
		c.LoadAlternate(p.now(), rc.Path{DLID: p.a[1].LID(), SL: 1}, func(_ mad.Time, err error) {
			loaded++
			must(t, err)
		})
		p.run(3 * time.Millisecond)
		back := p.a[1].Connections()[0]
		if loaded != 1 || c.QP().QP().Migration() != rc.StateArmed || back.QP().Migration() != rc.StateArmed {
			t.Fatalf("message %d lost: loaded %d times, %v and %v", lost, loaded, c.QP().QP().Migration(), back.QP().Migration())
		}
		must(t, c.QP().Do(func(q *rc.QP, now rc.Time) error { return q.Migrate(now) }))
		p.run(time.Millisecond)
		if c.QP().QP().Path().SL != 1 || back.QP().Path().SL != 0 || back.QP().Migration() != rc.StateMigrated {
			t.Errorf("%+v and %+v, %v", c.QP().QP().Path(), back.QP().Path(), back.QP().Migration())
		}
		must(t, p.sink.Check(s))
	}
}

// TestAlternatesCross: both ends ask for another path at once, as when a reroute changes
// both directions. Each loads its own, whichever message comes first.
func TestAlternatesCross(t *testing.T) {
	for _, apart := range []time.Duration{0, 3 * time.Microsecond, 8 * time.Microsecond} {
		p := newPair(t, quick())
		c, s, err := p.connect(service, 4)
		p.run(100 * time.Microsecond)
		must(t, *err)
		s.Limit, s.Gap = 0, 10*dataplane.Microsecond
		s.Run(c.QP())
		loaded := 0
		done := func(_ mad.Time, err error) {
			loaded++
			must(t, err)
		}
		c.LoadAlternate(p.now(), rc.Path{DLID: p.a[1].LID(), SL: 1}, done)
		p.run(apart)
		p.m[1].conns[0].LoadAlternate(p.now(), rc.Path{DLID: p.a[0].LID(), SL: 2}, done)
		p.run(3 * time.Millisecond)
		a, b := c.QP().QP(), p.a[1].Connections()[0].QP()
		if loaded != 2 || a.Migration() != rc.StateArmed || b.Migration() != rc.StateArmed || a.Alternate().SL != 1 || b.Alternate().SL != 2 {
			t.Errorf("%v apart: loaded %d times, %v with %+v and %v with %+v", apart, loaded, a.Migration(), a.Alternate(), b.Migration(), b.Alternate())
		}
	}
}

// TestLosses: whatever is lost, both ends agree in the end: connected, or neither.
func TestLosses(t *testing.T) {
	established := 0
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		p := newPair(t, quick())
		loss := r.Float64() * 0.7
		p.lose = func(int, *ib.MAD) bool { return r.Float64() < loss }
		c, s, err := p.connect(service, 4)
		p.run(20 * time.Millisecond)
		if errors.Is(*err, errPending) {
			t.Fatalf("seed %d: %v", seed, c.State())
		}
		if *err == nil {
			s.Run(c.QP())
		}
		p.run(20 * time.Millisecond)
		switch {
		case *err == nil && p.a[1].Live() == 1:
			established++
			if n, _ := p.sink.Got(); n != 50 {
				t.Errorf("seed %d: %d messages", seed, n)
			}
		case *err == nil:
			// Each RTU was lost in all tries of the REP: the passive end gives up, and
			// the data finds nobody.
			if st, _ := s.Failed(); st != rc.RetryExceeded {
				t.Errorf("seed %d: %v", seed, st)
			}
		case p.a[1].Live() != 0:
			t.Errorf("seed %d: %v, and the passive end has a queue pair", seed, *err)
		}
	}
	if established < 100 {
		t.Errorf("%d of 300 connect", established)
	}
}

// FuzzReceive: no message upsets a communication manager.
func FuzzReceive(f *testing.F) {
	for _, a := range []ib.AttrID{wire.AttrREQ, wire.AttrREP, wire.AttrRTU, wire.AttrREJ, wire.AttrMRA, wire.AttrDREQ, wire.AttrDREP, wire.AttrLAP, wire.AttrAPR} {
		var m ib.MAD
		wire.New(&m, a, 1<<16|1)
		m[24+7], m[24+3] = 1, 1
		f.Add(m[:])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p := newPair(t, quick())
		_, _, _ = p.connect(service, 4)
		from := mad.Addr{LID: p.a[1].LID(), QP: 1}
		p.m[0].Receive(p.now(), &mad.Packet{Addr: from, Data: append([]byte(nil), b...)})
		p.run(100 * time.Microsecond)
		p.m[0].Receive(p.now(), &mad.Packet{Addr: from, Data: append([]byte(nil), b...)})
		p.m[1].Receive(p.now(), &mad.Packet{Addr: mad.Addr{LID: p.a[0].LID(), QP: 1}, Data: append([]byte(nil), b...)})
		p.run(3 * time.Millisecond)
	})
}

// TestLostRTU: the REP is repeated, and so is the RTU.
func TestLostRTU(t *testing.T) {
	p := newPair(t, quick())
	lost := false
	p.lose = func(_ int, d *ib.MAD) bool {
		if d.AttrID() == wire.AttrRTU && !lost {
			lost = true
			return true
		}
		return false
	}
	c, _, err := p.connect(service, 4)
	p.run(100 * time.Microsecond)
	must(t, *err)
	if p.a[1].Connections()[0].QP().State() != rc.ReadyToReceive {
		t.Error("the passive end is ready without an RTU")
	}
	p.run(quick().Timeout())
	if p.a[1].Connections()[0].QP().State() != rc.ReadyToSend || c.State() != Established {
		t.Errorf("%v", p.a[1].Connections()[0].QP().State())
	}
}

// TestRounded: Linux counts 2^(n-8) ms for 4.096 µs·2^n, and a request is sent once more
// than it is repeated: with its codes 16 times in 98.3 s.
func TestRounded(t *testing.T) {
	c := Defaults()
	if d := c.Timeout(); d != 4096*time.Nanosecond*(1<<19+1<<20) {
		t.Errorf("time-out %v", d)
	}
	c.Rounded = true
	if d := c.Timeout(); d != 6144*time.Millisecond {
		t.Errorf("time-out of Linux %v", d)
	}
	if d := (Config{PacketLife: 3, Response: 9, Rounded: true}).Timeout(); d != 4*time.Millisecond {
		t.Errorf("time-out of Linux with a short lifetime %v", d)
	}
}

// TestLevels: messages of both ends take the level of the path that the request names, and that of the
// alternate path when the connection uses it. A refusal takes the level of what it answers.
func TestLevels(t *testing.T) {
	p := newPair(t, quick())
	connect := func(service uint64) *Conn {
		qp, err := p.a[0].Connect(adapter.Options{MTU: 2048, Window: 16, Peer: ib.MakeGID(1, 2)}, &program.Stream{Bytes: 100})
		must(t, err)
		return p.m[0].Connect(p.now(), Request{
			Service: service, QP: qp, Path: rc.Path{DLID: p.a[1].LID(), SL: 1}, MTU: ib.MTU2048, Sender: rc.Sender{Timeout: 8, Retries: 7},
		}, func(mad.Time, error) {})
	}
	connect(service + 1) // nobody listens
	c := connect(service)
	p.run(time.Millisecond)
	for i, a := range p.sent {
		if p.level[i] != 1 {
			t.Errorf("%v is sent on level %d", a, p.level[i])
		}
	}
	c.LoadAlternate(p.now(), rc.Path{DLID: p.a[1].LID(), SL: 0}, func(mad.Time, error) {})
	p.run(time.Millisecond)
	n := len(p.sent)
	must(t, c.QP().Post(1, 100))
	p.run(time.Millisecond)
	must(t, c.QP().Do(func(q *rc.QP, now rc.Time) error { return q.Migrate(now) }))
	c.Disconnect(p.now())
	p.run(time.Millisecond)
	if len(p.sent) < n+1 || p.level[n-1] != 1 || p.level[n] != 0 {
		t.Errorf("%v on levels %v, migrated after %d", p.sent, p.level, n)
	}
}
