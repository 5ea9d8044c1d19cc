package ipoib

import (
	"math/rand/v2"
	"testing"
	"time"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/ib/smp"
	"heddle/mad"
)

// TestBroadcast: the example of RFC 4391, §4: the default partition, as a full member.
func TestBroadcast(t *testing.T) {
	want, err := ib.ParseGID("ff12:401b:ffff::ffff:ffff")
	if err != nil || Broadcast(0xFFFF) != want || Broadcast(0x7FFF) != want {
		t.Errorf("%v, want %v (%v)", Broadcast(0xFFFF), want, err)
	}
}

// TestPack: what a datagram carries comes out as it was put in.
func TestPack(t *testing.T) {
	for _, f := range []Frame{
		{Kind: ARPRequest, From: 0xFEDCBA, To: 0x123456, Hardware: Hardware{0x800001, gid(1 << 40)}},
		{Kind: ARPReply, From: 1, To: 0xFFFFFF, Hardware: Hardware{5, gid(9)}},
		{Kind: Data, From: 0xFFFFFF, Stream: 0xFFFF, Seq: 1<<64 - 1, Len: 1988},
		{Kind: Ack, From: 7, Stream: 3, Seq: 1 << 33},
	} {
		m, more := f.Pack()
		if more>>56 != 0 {
			t.Errorf("%+v: %#x", f, more)
		}
		var g Frame
		if g.Unpack(m, more, f.Bytes(), f.Hardware.QPN, ib.DefaultSubnetPrefix); g != f {
			t.Errorf("%+v, want %+v", g, f)
		}
	}
}

// TestResolve: one ARP request and one path query at each end make a stream possible.
func TestResolve(t *testing.T) {
	w := &world{t: t}
	a, b := w.add(1, Defaults(), 0), w.add(2, Defaults(), 0)
	w.run(time.Millisecond)
	r := b.Receive(7)
	got := tiles(t, r)
	s := a.Send(7, 2, 1_000_000, TCPDefaults())
	w.run(time.Second)
	if *got != 1_000_000 || s.Acked() != *got || r.Got() != *got {
		t.Errorf("%d of %d bytes", *got, s.Acked())
	}
	x, y := a.Device().Count, b.Device().Count
	if x.Requests != 2 || x.Unsolicited != 1 || y.Replies != 1 || y.Requests != 1 || x.Queries != 1 || y.Queries != 1 || x.Joins != 1 {
		t.Errorf("%+v\n%+v", x, y)
	}
	if n := s.Count; n.Timeouts != 0 || n.Repeated != 0 || n.Segments != 16 {
		t.Errorf("%+v", n)
	}
}

// TestInside: between two VMs of one adapter the acknowledgment comes while the segment is sent.
func TestInside(t *testing.T) {
	w := &world{t: t, inside: true}
	a, b := w.add(1, Defaults(), 0), w.add(2, Defaults(), 0)
	w.run(time.Millisecond)
	r := b.Receive(7)
	got := tiles(t, r)
	tcp := TCPDefaults()
	tcp.Rate = 8e9
	s := a.Send(7, 2, 0, tcp)
	w.run(time.Second)
	w.move(1, time.Second, 2)
	w.run(time.Second)
	if gbps := float64(*got) * 8 / 1e9; gbps < 12.5 || s.Count.Fast != 0 || s.Count.Repeated > 70 || r.Count.Early != 0 {
		t.Errorf("%.3g Gb in 3 s, 1.4 of them cut off; %+v %+v", gbps, s.Count, r.Count)
	}
}

// TestNobody: an address that nobody has is asked for three times; frames that wait in vain are
// dropped, and the timer of the stream backs off.
func TestNobody(t *testing.T) {
	w := &world{t: t}
	a := w.add(1, Defaults(), 0)
	w.run(time.Millisecond)
	s := a.Send(7, 9, 0, TCPDefaults())
	w.run(2900 * time.Millisecond)
	if n := a.Device().Count; n.Requests != 1+3 || n.Dropped != 0 {
		t.Errorf("%+v", n)
	}
	w.run(200 * time.Millisecond)
	if n := a.Device().Count; n.Dropped != 2 {
		t.Errorf("%+v", n)
	}
	w.run(29800 * time.Millisecond)
	if s.Count.Timeouts != 5 { // after 1, 3, 7, 15, 31 s
		t.Errorf("%+v", s.Count)
	}
}

// TestJoinRefused: a device without its group asks again, and then serves what waits.
func TestJoinRefused(t *testing.T) {
	w := &world{t: t, noGroup: true}
	a, b := w.add(1, Defaults(), 0), w.add(2, Defaults(), 0)
	r := b.Receive(1)
	a.Send(1, 2, 1000, TCPDefaults())
	w.run(2500 * time.Millisecond)
	if a.Device().Joined() || a.Device().Count.Requests != 0 || a.Device().Count.Joins != 3 {
		t.Errorf("%+v", a.Device().Count)
	}
	w.noGroup = false
	w.run(5 * time.Second)
	if r.Got() != 1000 {
		t.Errorf("%d bytes: %+v", r.Got(), a.Device().Count)
	}
}

// TestMovedLID: the peer comes back at another LID with another queue pair, and announces itself.
// That tells its queue pair, not its LID: without a notice the stream stands still until the path
// is too old; with one it goes on when its timer ends.
func TestMovedLID(t *testing.T) {
	const away = 4 * time.Second
	mask := wire.PathCompSGID | wire.PathCompDGID
	for _, c := range []struct {
		name     string
		lifetime time.Duration
		notice   func(*Device, mad.Time)
		from, to time.Duration // the stream goes on
	}{
		// The timer ends 0.2, 0.6, 1.4, 3, 6.2, 12.6, 25.4, 51 s after the first loss.
		{"nothing", 0, func(*Device, mad.Time) {}, -1, -1},
		{"lifetime", 20 * time.Second, func(*Device, mad.Time) {}, 25 * time.Second, 26 * time.Second},
		{"notice with values", 0, func(d *Device, now mad.Time) {
			d.Notice(now, notice(mask, wire.PathRecord{DGID: gid(2), DLID: 8, SL: 1, MTU: 4}, smp.TrapRePath))
		}, 6 * time.Second, 6300 * time.Millisecond},
		{"notice without values", 0, func(d *Device, now mad.Time) {
			d.Notice(now, notice(mask, wire.PathRecord{DGID: gid(2)}, smp.TrapRePath))
		}, 6 * time.Second, 6300 * time.Millisecond},
		{"any path", 0, func(d *Device, now mad.Time) {
			d.Notice(now, notice(wire.PathCompSGID, wire.PathRecord{}, smp.TrapRePath))
		}, 6 * time.Second, 6300 * time.Millisecond},
		{"of another GID", 0, func(d *Device, now mad.Time) {
			d.Notice(now, notice(mask, wire.PathRecord{DGID: gid(3), DLID: 8, MTU: 4}, smp.TrapRePath))
		}, -1, -1},
		{"no path", 0, func(d *Device, now mad.Time) {
			d.Notice(now, notice(mask, wire.PathRecord{DGID: gid(2)}, smp.TrapUnPath))
		}, 6 * time.Second, 6300 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := &world{t: t}
			cfg := Defaults()
			cfg.Lifetime = c.lifetime
			tcp := TCPDefaults()
			tcp.Rate = 100e6
			a, b := w.add(1, cfg, 0), w.add(2, Defaults(), 0)
			w.run(time.Millisecond)
			r := b.Receive(7)
			got := tiles(t, r)
			s := a.Send(7, 2, 0, tcp)
			w.run(time.Second)
			b.Device().Count = Counters{}
			began := w.now
			w.move(1, away, 8)
			w.run(time.Millisecond)
			c.notice(a.Device(), w.now)
			was := r.Got()
			if a.Device().Count.Moved != 1 {
				t.Errorf("the announcement is not heard: %+v", a.Device().Count)
			}
			for r.Got() == was && w.now < began.Add(50*time.Second) {
				w.run(time.Millisecond)
			}
			took := w.now.Sub(began)
			if c.from < 0 {
				if r.Got() != was || w.places[1].told != 0 {
					t.Errorf("the stream goes on after %v", took)
				}
				return
			}
			if took < c.from || took > c.to {
				t.Errorf("the stream goes on after %v, not in %v to %v; %+v %+v", took, c.from, c.to, s.Count, a.Device().Count)
			}
			w.run(time.Second)
			if r.Got() < was+10e6 || *got != r.Got() {
				t.Errorf("%d bytes after it", r.Got()-was)
			}
		})
	}
}

// TestOwnMove: the timer of a sender whose own interface is away doubles as for any loss: at 0.2,
// 0.6, 1.4, 3 and 6.2 s.
func TestOwnMove(t *testing.T) {
	w := &world{t: t}
	tcp := TCPDefaults()
	tcp.Rate = 100e6
	a, b := w.add(1, Defaults(), 0), w.add(2, Defaults(), 0)
	w.run(time.Millisecond)
	r := b.Receive(7)
	s := a.Send(7, 2, 0, tcp)
	w.run(time.Second)
	r.Gap(w.now)
	w.move(0, 4*time.Second, 8)
	b.Device().Notice(w.now, notice(wire.PathCompSGID|wire.PathCompDGID, wire.PathRecord{DGID: gid(1)}, smp.TrapRePath))
	w.run(3 * time.Second)
	if g := r.Gap(w.now); g < 6100*time.Millisecond || g > 6300*time.Millisecond {
		t.Errorf("%v without a byte; %+v", g, s.Count)
	}
	if s.Count.Refused == 0 || s.Count.Timeouts != 5 {
		t.Errorf("%+v", s.Count)
	}
}

// TestSilentNeighbor: a peer whose announcement was lost is asked for again by broadcast when
// nothing has been heard of it for Reachable.
func TestSilentNeighbor(t *testing.T) {
	w := &world{t: t}
	a, b := w.add(1, Defaults(), 0), w.add(2, Defaults(), 0)
	w.run(time.Millisecond)
	r := b.Receive(7)
	a.Send(7, 2, 0, TCP{Segment: 1000, Window: 10_000, Rate: 1e6, RTOMin: 200 * time.Millisecond, RTOMax: 2 * time.Second, RTOInitial: time.Second})
	w.run(time.Second)
	w.harm = func() (bool, time.Duration) { return true, 0 }
	w.move(1, time.Second, 2) // the same LID, another queue pair
	w.run(time.Second)
	w.harm = nil
	was := r.Got()
	w.run(26 * time.Second)
	if r.Got() != was || w.places[1].told == 0 {
		t.Errorf("%d bytes, %d datagrams for the old queue pair", r.Got()-was, w.places[1].told)
	}
	w.run(8 * time.Second)
	if r.Got() == was || a.Device().Count.Probes == 0 {
		t.Errorf("%+v", a.Device().Count)
	}
}

// TestServer: connections of a server take turns, each up to its own rate.
func TestServer(t *testing.T) {
	w := &world{t: t}
	a := w.add(1, Defaults(), 19e9)
	tcp := TCPDefaults()
	tcp.Rate = 8e9
	var got []*Receiver
	for i := range 4 {
		b := w.add(2+i, Defaults(), 0)
		got = append(got, b.Receive(uint16(i)))
	}
	w.run(time.Millisecond)
	var list []*Sender
	for i := range 4 {
		list = append(list, a.Send(uint16(i), IP(2+i), 0, tcp))
	}
	w.run(10 * time.Millisecond)
	for _, c := range []struct {
		n    int
		gbps float64
	}{{4, 4.75}, {3, 19.0 / 3}, {2, 8}} {
		for i := c.n; i < 4; i++ {
			list[i].Stop()
		}
		w.run(10 * time.Millisecond)
		var was [4]uint64
		busy := a.Server().Busy()
		for i, r := range got {
			was[i] = r.Got()
		}
		w.run(100 * time.Millisecond)
		for i, r := range got[:c.n] {
			if gbps := float64(r.Got()-was[i]) * 8 / 1e8; gbps < 0.98*c.gbps || gbps > 1.02*c.gbps {
				t.Errorf("%d connections: %.3g Gb/s for %d, want %.3g", c.n, gbps, i, c.gbps)
			}
		}
		want := 0.3 * float64(c.n) * c.gbps / 8 * 1e8 // ns
		if d := float64(a.Server().Busy() - busy); d < 0.98*want || d > 1.02*want {
			t.Errorf("%d connections: the processor works %v ns, want %v", c.n, d, want)
		}
	}
}

// TestStreamsUnderLoss: whatever datagrams are lost or overtaken, and however often interfaces
// move, all bytes come once, in order.
func TestStreamsUnderLoss(t *testing.T) {
	fast, timeouts := uint64(0), uint64(0)
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 9))
		w := &world{t: t}
		c := Defaults()
		c.Lifetime, c.Reachable = 2*time.Second, 2*time.Second
		a, b := w.add(1, c, 0), w.add(2, c, 0)
		w.run(time.Millisecond)
		w.harm = lossy(r, []float64{0.001, 0.02, 0.2}[seed%3])
		tcp := TCPDefaults()
		tcp.Segment, tcp.RTOMin, tcp.RTOMax = 1500, 5*time.Millisecond, time.Second
		x, y := b.Receive(1), a.Receive(2)
		to, back := tiles(t, x), tiles(t, y)
		s, q := a.Send(1, 2, 300_000, tcp), b.Send(2, 1, 300_000, tcp)
		for i := range 3 {
			w.run(time.Duration(r.IntN(30)) * time.Millisecond)
			if r.IntN(2) == 0 {
				w.move(i%2, time.Duration(r.IntN(50))*time.Millisecond, ib.LID(10+i))
			}
		}
		w.harm = nil
		w.run(20 * time.Second)
		if *to != 300_000 || *back != 300_000 || s.Acked() != *to || q.Acked() != *back {
			t.Fatalf("seed %d: %d and %d bytes; %+v %+v", seed, *to, *back, s.Count, q.Count)
		}
		fast += s.Count.Fast + q.Count.Fast
		timeouts += s.Count.Timeouts + q.Count.Timeouts
	}
	if fast == 0 || timeouts == 0 {
		t.Errorf("%d fast retransmissions, %d time-outs: this proves little", fast, timeouts)
	}
}
