package sim

import (
	"slices"
	"testing"
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"pgregory.net/rapid"
)

// TestEventOrder: events run in order of time, and those of one moment in the order in
// which they were scheduled.
func TestEventOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &Subnet{}
		times := rapid.SliceOfN(rapid.Int64Range(0, 20), 1, 200).Draw(t, "times")
		type ran struct {
			at  mad.Time
			seq int
		}
		var got []ran
		for i, at := range times {
			s.At(mad.Time(at), func() {
				if s.Now() != mad.Time(at) {
					t.Fatalf("event of %d runs at %d", at, s.Now())
				}
				got = append(got, ran{s.Now(), i})
			})
		}
		half := mad.Time(rapid.Int64Range(0, 20).Draw(t, "until"))
		s.RunUntil(half)
		if s.Now() != half || s.NextEvent() <= half {
			t.Fatalf("after RunUntil(%d): now %d, next %d", half, s.Now(), s.NextEvent())
		}
		for s.Step() {
		}
		if !slices.IsSortedFunc(got, func(a, b ran) int {
			if a.at != b.at {
				return int(a.at - b.at)
			}
			return a.seq - b.seq
		}) || len(got) != len(times) {
			t.Fatalf("order %v", got)
		}
	})
}

// TestPastEvents run now, never in the past.
func TestPastEvents(t *testing.T) {
	s := &Subnet{}
	s.RunUntil(100)
	ran := mad.Time(-1)
	s.At(50, func() { ran = s.Now() })
	s.RunUntil(100)
	if ran != 100 {
		t.Errorf("ran at %d", ran)
	}
	s.RunUntil(10)
	if s.Now() != 100 {
		t.Errorf("time went back to %d", s.Now())
	}
}

// TestStreams: an entity's stream depends on the seed and its GUID alone.
func TestStreams(t *testing.T) {
	draw := func(seed uint64, g ib.GUID) (v [4]uint64) {
		r := newStream(seed, g)
		for i := range v {
			v[i] = r.next()
		}
		return v
	}
	if again := draw(1, 2); draw(1, 2) != again || draw(1, 2) == draw(1, 3) || draw(1, 2) == draw(2, 2) || draw(0, 0) == [4]uint64{} {
		t.Error("streams are not what they should be")
	}
	r := newStream(7, 7)
	var hist [10]int
	for range 10000 {
		hist[r.below(10)]++
	}
	for i, n := range hist {
		if n < 850 || n > 1150 {
			t.Errorf("below(10) = %d came %d times of 10000", i, n)
		}
	}
}

// schedule is a random run: traffic, faults and time.
func schedule(t *rapid.T, s *Subnet, eps []*Endpoint) {
	nodes := []string{"spine0", "spine1", "leaf0", "leaf1", "h0.0", "h1.1"}
	n := rapid.IntRange(1, 60).Draw(t, "steps")
	for range n {
		node := rapid.SampledFrom(nodes).Draw(t, "node")
		port := rapid.IntRange(1, 4).Draw(t, "port")
		switch rapid.IntRange(0, 7).Draw(t, "what") {
		case 0:
			_ = s.LinkDown(node, port)
		case 1:
			_ = s.LinkUp(node, port)
		case 2:
			_ = s.NodeDown(node)
		case 3:
			_ = s.NodeUp(node)
		case 4:
			s.RunUntil(s.Now().Add(time.Duration(rapid.IntRange(0, 3000).Draw(t, "ns"))))
		default:
			var m ib.MAD
			path := rapid.SliceOfN(rapid.ByteRange(0, 5), 0, 5).Draw(t, "path")
			smp.NewDR(&m, ib.MethodGet, smp.AttrPortInfo, uint32(port), 0, path)
			eps[rapid.IntRange(0, len(eps)-1).Draw(t, "from")].Send(&mad.Packet{Addr: dr, Data: m[:]})
		}
	}
	s.RunUntil(s.Now().Add(time.Minute))
}

// TestSameSeedSameRun: two runs with one schedule and one seed send identical packets;
// no state remains at the end; and both ends of every link always agree.
func TestSameSeedSameRun(t *testing.T) {
	f := tree(2, 2, 2)
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		c := Config{
			Seed: seed, HopLatency: 100, SMALatency: 500, Jitter: 50, Drop: 0.05, Duplicate: 0.05,
			Reorder: 0.1, ReorderMax: 2000, TrainDelay: 300, TraceHash: true,
		}
		if rapid.Bool().Draw(t, "fast") {
			c = Config{Seed: seed, TraceHash: true}
		}
		gen := rapid.Custom(func(t *rapid.T) *Subnet {
			s, err := New(f, c)
			if err != nil {
				panic(err)
			}
			var eps []*Endpoint
			for _, n := range []string{"h0.0", "leaf1"} {
				e, err := s.Attach(n)
				if err != nil {
					panic(err)
				}
				eps = append(eps, e)
			}
			schedule(t, s, eps)
			return s
		})
		example := rapid.IntRange(0, 1<<30).Draw(t, "example")
		a, b := gen.Example(example), gen.Example(example)
		if a.TraceHash() != b.TraceHash() || a.Stats() != b.Stats() {
			t.Fatalf("seed %d: hash %x and %x", seed, a.TraceHash(), b.TraceHash())
		}
		if a.NextEvent() != mad.Never || len(a.idle) != len(a.flights) || a.head != len(a.work) {
			t.Fatalf("%d of %d flights idle, next event %d", len(a.idle), len(a.flights), a.NextEvent())
		}
		for i := range a.ports {
			p := &a.ports[i]
			if p.peer < 0 {
				if p.num != 0 && p.state != ib.StateDown {
					t.Fatalf("%s has no cable and is %v", a.portName(int32(i)), p.state)
				}
				continue
			}
			q := &a.ports[p.peer]
			if q.peer != int32(i) || p.phys != q.phys || (p.phys == ib.PhysLinkUp) != (p.state != ib.StateDown) {
				t.Fatalf("%s is %v/%v, its peer %v/%v", a.portName(int32(i)), p.state, p.phys, q.state, q.phys)
			}
		}
	})
}

// TestSendInCallback: an endpoint that responds from its own callback does not grow the
// stack, and order is kept.
func TestSendInCallback(t *testing.T) {
	b := newTestbed(t, chain(), Config{}, "H1")
	n, depth := 0, 0
	var m ib.MAD
	smp.NewDR(&m, ib.MethodGet, smp.AttrNodeInfo, 0, 0, toS1)
	b.e.OnPacket = func(*mad.Packet) {
		if depth++; depth > 1 {
			t.Fatal("callback inside a callback")
		}
		if n++; n < 10000 {
			b.e.Send(&mad.Packet{Addr: dr, Data: m[:]})
			if n%100 == 0 { // two at a time
				b.e.Send(&mad.Packet{Addr: dr, Data: m[:]})
			}
		}
		depth--
	}
	b.e.Send(&mad.Packet{Addr: dr, Data: m[:]})
	if n < 10000 || cap(b.s.work) > 1024 {
		t.Errorf("%d answers, queue of %d", n, cap(b.s.work))
	}
}

// TestEndpointsShareAPort: responses reach the requesting endpoint, regardless of
// others on the port.
func TestEndpointsShareAPort(t *testing.T) {
	b := newTestbed(t, chain(), Config{}, "H1")
	other := b.attach("H1")
	got := 0
	other.OnPacket = func(p *mad.Packet) { got++ }
	var m ib.MAD
	smp.NewDR(&m, ib.MethodGet, smp.AttrNodeInfo, 0, 0, toS1)
	m.SetTID(0xFFFF_1234_5678_9ABC)
	other.Send(&mad.Packet{Addr: dr, Data: m[:]})
	b.e.Send(&mad.Packet{Addr: dr, Data: m[:]})
	if got != 1 || len(b.got) != 1 {
		t.Errorf("%d and %d answers", got, len(b.got))
	}
	if r := ib.MAD(b.got[0].Data); r.TID() != uint64(b.e.Tag())<<48|0x1234_5678_9ABC {
		t.Errorf("TID %x", r.TID())
	}
	tag := other.Tag()
	other.Close()
	other.Close()
	other.Send(&mad.Packet{Addr: dr, Data: m[:]})
	if again := b.attach("H1"); again.Tag() != tag {
		t.Errorf("slot %d is not used again", tag)
	}
	if n := len(b.s.Attached()); n != 2 {
		t.Errorf("%d attached", n)
	}
}
