package sim

import (
	"slices"
	"testing"
	"time"

	"heddle/ib"
	"heddle/ib/pm"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sim/dataplane"
)

// withData is a configured chain with a data plane.
func withData(t testing.TB, c Config) (*testbed, *dataplane.Engine) {
	t.Helper()
	quick := c
	quick.HopLatency, quick.SMALatency, quick.Jitter = 0, 0, 0
	b := newTestbed(t, chain(), quick, "H1")
	b.configure()
	b.s.cfg.HopLatency, b.s.cfg.SMALatency, b.s.cfg.Jitter = c.HopLatency, c.SMALatency, c.Jitter
	for i := range b.s.infos {
		b.s.infos[i].HOQLife = 31 // nothing gets too old
	}
	for _, sw := range []int{nS1, nS2} {
		b.s.devs[sw].sw.info.LifeTimeValue = 31
	}
	dc := dataplane.Defaults()
	dc.Checks = true
	e, err := b.s.StartData(dc, dataplane.DefaultCable)
	if err != nil {
		t.Fatal(err)
	}
	return b, e
}

// flow saturates the chain from H1 to H2.
func flow(t testing.TB, e *dataplane.Engine) {
	t.Helper()
	if _, err := e.AddStream(dataplane.Stream{Src: 0, To: dataplane.To(2), Bytes: 2048 + dataplane.OverheadRC}); err != nil {
		t.Fatal(err)
	}
}

// took sends a request and returns when the answer came.
func (b *testbed) took(m *ib.MAD, to mad.Addr) (d time.Duration, ok bool) {
	b.Helper()
	from, old := b.s.Now(), b.e.OnPacket
	defer func() { b.e.OnPacket = old }()
	b.e.OnPacket = func(p *mad.Packet) { d, ok = b.s.Now().Sub(from), true }
	b.e.Send(&mad.Packet{Addr: to, LocalQP: to.QP, Data: m[:]})
	b.s.RunUntil(b.s.Now().Add(time.Millisecond))
	return d, ok
}

func nodeInfo(path []byte) *ib.MAD {
	var m ib.MAD
	smp.NewDR(&m, ib.MethodGet, smp.AttrNodeInfo, 0, 0, path)
	return &m
}

func classInfo() *ib.MAD {
	var m ib.MAD
	pm.New(&m, ib.MethodGet, pm.AttrClassPortInfo, 0)
	return &m
}

// TestCarriage: what datagrams share with packets, on idle links and on full ones.
func TestCarriage(t *testing.T) {
	gmp := mad.Addr{LID: 4, QP: 1}
	for _, x := range []struct {
		carriage Carriage
		hop      time.Duration
		smp, gmp time.Duration // idle: there and back
	}{
		// An SMP is stored at each of 3 hops of 23.2 + 10 ns, rounded up to nanoseconds; a GMP cuts
		// through two switches of 100 ns.
		{OnLanes, 0, 6 * 34, 2 * 254},
		{OnVL15, 0, 6 * 34, 0},
		{Apart, 0, 0, 0},
		{OnLanes, time.Microsecond, 6 * time.Microsecond, 2 * 254},
		{Apart, time.Microsecond, 6 * time.Microsecond, 6 * time.Microsecond},
	} {
		b, e := withData(t, Config{Carriage: x.carriage, HopLatency: x.hop})
		if d, ok := b.took(nodeInfo(toH2), dr); !ok || d != x.smp {
			t.Errorf("%v, hop %v: an SMP takes %v, want %v", x.carriage, x.hop, d, x.smp)
		}
		if d, ok := b.took(classInfo(), gmp); !ok || d != x.gmp {
			t.Errorf("%v, hop %v: a GMP takes %v, want %v", x.carriage, x.hop, d, x.gmp)
		}
		flow(t, e)
		e.Stop(2) // H2 takes no packets, so lanes fill
		b.s.RunUntil(b.s.Now().Add(time.Millisecond))
		if d, ok := b.took(nodeInfo(toH2), dr); !ok || d != x.smp {
			t.Errorf("%v, hop %v: an SMP past full lanes takes %v, want %v", x.carriage, x.hop, d, x.smp)
		}
		if _, ok := b.took(classInfo(), gmp); ok != (x.carriage != OnLanes) {
			t.Errorf("%v: a GMP through a full lane: answered %v", x.carriage, ok)
		}
		if err := e.Check(); err != nil {
			t.Error(err)
		}
		b.got = nil
		e.Resume(2)
		b.s.RunUntil(b.s.Now().Add(time.Millisecond))
		if x.carriage == OnLanes && len(b.got) != 1 {
			t.Errorf("the GMP does not go on when the lane does: %d answers", len(b.got))
		}
	}
}

// TestVL15Overflow: SMPs that wait for a slower link fill the VL15 buffer of the port they came in
// by; what finds it full is lost and counted there.
func TestVL15Overflow(t *testing.T) {
	for _, buffer := range []int{0, 3} {
		f := chain()
		f.Nodes[nS1].Ports[2].Width, f.Nodes[nS2].Ports[1].Width = ib.Width1x, ib.Width1x
		b := newTestbed(t, f, Config{VL15Buffer: buffer}, "H1")
		b.configure()
		if _, err := b.s.StartData(dataplane.Defaults(), dataplane.DefaultCable); err != nil {
			t.Fatal(err)
		}
		before := b.counters(2, 1).VL15Dropped
		b.got, b.lost = nil, nil
		const n = 10
		for range n {
			b.e.Send(&mad.Packet{Addr: dr, Data: nodeInfo(toS2)[:]})
		}
		b.s.RunUntil(b.s.Now().Add(time.Millisecond))
		// They come in every 23.2 ns and leave every 92.8 ns: in the time of 10 arrivals 3 leave, and so
		// many wait.
		want := 0
		if buffer > 0 {
			want = n - 3 - buffer
		}
		answers := len(b.got)
		if answers != n-want || len(b.lost) != want {
			t.Errorf("buffer %d: %d answers and %d lost, want %d and %d", buffer, answers, len(b.lost), n-want, want)
		}
		if d := b.counters(2, 1).VL15Dropped - before; int(d) != want {
			t.Errorf("buffer %d: VL15Dropped %d, want %d", buffer, d, want)
		}
	}
}

// TestRideEnds: a GMP on a data lane is lost for the reason and at the place that packets are lost,
// and with the data plane.
func TestRideEnds(t *testing.T) {
	gmp := func(lid ib.LID, sl ib.SL) mad.Addr { return mad.Addr{LID: lid, QP: 1, SL: sl} }
	b, _ := withData(t, Config{})
	var why []DropReason
	var where []uint8
	b.s.OnDrop = func(r DropReason, _ int, port uint8, _ *mad.Packet) { why, where = append(why, r), append(where, port) }
	lose := func(what string, to mad.Addr, reason DropReason, port uint8) {
		t.Helper()
		why, where, b.lost = nil, nil, nil
		if _, ok := b.took(classInfo(), to); ok || len(why) != 1 || why[0] != reason || where[0] != port || len(b.lost) != 1 {
			t.Errorf("%s: answered %v, lost %v at ports %v, undeliverable %d", what, ok, why, where, len(b.lost))
		}
	}
	lose("no such LID", gmp(40, 0), DropNoLID, 1)
	var e *dataplane.Engine
	b, e = withData(t, Config{})
	b.s.OnDrop = func(r DropReason, _ int, port uint8, _ *mad.Packet) { why, where = append(why, r), append(where, port) }
	flow(t, e)
	e.Stop(2)
	b.s.RunUntil(b.s.Now().Add(time.Millisecond))
	why, where, b.lost = nil, nil, nil
	if _, ok := b.took(classInfo(), gmp(4, 0)); ok {
		t.Fatal("answered through a full lane")
	}
	if err := b.s.LinkDown("S2", 2); err != nil {
		t.Fatal(err)
	}
	b.s.RunUntil(b.s.Now().Add(time.Millisecond))
	if !slices.Contains(why, DropState) { // and the trap of the switch, which nobody takes
		t.Errorf("on a path whose last link fails: lost %v at %v", why, where)
	}
	b, e = withData(t, Config{})
	flow(t, e)
	e.Stop(2)
	b.s.RunUntil(b.s.Now().Add(time.Millisecond))
	b.took(classInfo(), gmp(4, 0))
	b.lost = nil
	b.s.StopData()
	b.s.RunUntil(b.s.Now().Add(time.Millisecond))
	if len(b.lost) != 1 {
		t.Errorf("%d GMPs lost with the data plane, want 1", len(b.lost))
	}
	if _, ok := b.took(classInfo(), gmp(4, 0)); !ok {
		t.Error("no answer without the data plane")
	}
}

// TestMovedCable: the data plane has the cables of the fabric. If one is moved, packets do not use
// it, and datagrams do.
func TestMovedCable(t *testing.T) {
	b, e := withData(t, Config{})
	flow(t, e)
	if err := b.s.LinkDown("S2", 2); err != nil {
		t.Fatal(err)
	}
	if err := b.s.Link("S2", 3, "H2", 1); err != nil {
		t.Fatal(err)
	}
	for _, st := range []ib.PortState{ib.StateArmed, ib.StateActive} {
		active := func(pi *smp.PortInfo) { pi.PortState = st }
		b.mustChange(toS2, 3, active)
		b.mustChange([]byte{1, 2, 3}, 1, active)
	}
	b.table(toS2, 255, 1, 1, 0, 3)
	b.s.RunUntil(b.s.Now().Add(time.Millisecond))
	was := e.Stats().Delivered
	b.s.RunUntil(b.s.Now().Add(time.Millisecond))
	if now := e.Stats().Delivered; now != was {
		t.Errorf("%d packets over a cable that the data plane has not", now-was)
	}
	if _, ok := b.took(nodeInfo([]byte{1, 2, 3}), dr); !ok {
		t.Error("no SMP passes the new cable")
	}
	if _, ok := b.took(classInfo(), mad.Addr{LID: 4, QP: 1}); !ok {
		t.Error("no GMP passes the new cable")
	}
}

// TestCarriageRepeats: the history of datagrams and packets depends on nothing but the calls, and
// not on how the time is cut into steps.
func TestCarriageRepeats(t *testing.T) {
	run := func(step time.Duration) (uint64, uint64) {
		b, e := withData(t, Config{Seed: 7, TraceHash: true, Jitter: 50, SMALatency: 300})
		flow(t, e)
		for range 40 {
			b.e.Send(&mad.Packet{Addr: mad.Addr{LID: 4, QP: 1}, LocalQP: 1, Data: classInfo()[:]})
			b.e.Send(&mad.Packet{Addr: dr, Data: nodeInfo(toH2)[:]})
			for end := b.s.Now().Add(3 * time.Microsecond); b.s.Now() < end; {
				b.s.RunUntil(min(b.s.Now().Add(step), end))
			}
		}
		return b.s.TraceHash(), e.Stats().Hash
	}
	a, p := run(3 * time.Microsecond)
	for _, step := range []time.Duration{1, 7, 100} {
		if x, q := run(step); x != a || q != p {
			t.Errorf("in steps of %v: %x, %x; in one go %x, %x", step, x, q, a, p)
		}
	}
}
