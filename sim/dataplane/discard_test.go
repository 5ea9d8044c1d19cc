package dataplane

import (
	"testing"

	"heddle/fabric"
	"heddle/ib"
)

// TestDiscards makes each cause happen on a path of two switches, to 10 packets,
// and looks where it is counted.
func TestDiscards(t *testing.T) {
	first, second := fabric.Ref{Node: 2, Port: 1}, fabric.Ref{Node: 3, Port: 2}
	for _, c := range []struct {
		cause Cause
		port  fabric.Ref // where it is counted
		setup func(p *Plain, e *Engine)
		s     Stream
	}{
		{NoRoute, first, func(p *Plain, _ *Engine) { p.SetRoute(2, p.lidOf(1), 255) }, Stream{}},
		{NoRoute, first, func(p *Plain, _ *Engine) { p.SetRoute(2, p.lidOf(1), 77) }, Stream{}},
		{NoRoute, first, func(p *Plain, _ *Engine) { p.SetRoute(2, p.lidOf(1), 1) }, Stream{}}, // back through the input
		{NoRoute, first, func(*Plain, *Engine) {}, Stream{To: ToGroup(0xC001)}},
		{NoLane, second, func(p *Plain, _ *Engine) {
			p.SLtoVL = func(n int32, _, _ uint8, _ ib.SL) ib.VL {
				if n == 3 {
					return 15
				}
				return 0
			}
		}, Stream{}},
		{NoLane, fabric.Ref{Node: 0, Port: 1}, func(p *Plain, _ *Engine) {
			p.SLtoVL = func(int32, uint8, uint8, ib.SL) ib.VL { return 3 } // two lanes are operational
		}, Stream{}},
		{TooLong, second, func(p *Plain, e *Engine) { p.Attr[3][2].MTU = 1024; e.Refresh(3) }, Stream{}},
		{Inactive, second, func(p *Plain, e *Engine) { p.Attr[3][2].State = ib.StateArmed; e.Refresh(3) }, Stream{}},
		{NotReceiving, fabric.Ref{Node: 3, Port: 1}, func(p *Plain, e *Engine) { p.Attr[3][1].State = ib.StateInit; e.Refresh(3) }, Stream{}},
		{NotReceiving, fabric.Ref{Node: 1, Port: 1}, func(p *Plain, e *Engine) { p.Attr[1][1].State = ib.StateInit; e.Refresh(1) }, Stream{}},
		{FilteredIn, first, func(p *Plain, e *Engine) {
			p.Attr[2][1].FilterIn = true
			p.Filter = func(sw int32, port uint8, out bool, key ib.PKey) bool {
				return sw != 2 || port != 1 || out || key != 0x8007
			}
			e.Refresh(2)
		}, Stream{PKey: 0x8007}},
		{FilteredOut, second, func(p *Plain, e *Engine) {
			p.Attr[3][2].FilterOut = true
			p.Filter = func(_ int32, _ uint8, out bool, _ ib.PKey) bool { return !out }
			e.Refresh(3)
		}, Stream{}},
		{WrongHost, fabric.Ref{Node: 1, Port: 1}, func(p *Plain, _ *Engine) { // what is for a switch comes to a host
			p.SetRoute(2, p.lidOf(2), 2)
			p.SetRoute(3, p.lidOf(2), 2)
		}, Stream{To: To(2)}},
		{Expired, second, func(p *Plain, e *Engine) {
			p.Lives[3] = LifeOf(2)
			e.Refresh(3)
			e.Stop(1)
		}, Stream{}},
		{SourceFull, fabric.Ref{Node: 0, Port: 1}, func(_ *Plain, e *Engine) {
			e.SetCaps(0, Rate{100_000_000, 1}, Rate{}) // nothing more leaves in this test
		}, Stream{Arrival: Constant, Gap: Microsecond, Queue: LaneQueue, Packets: 10 + 65}},
	} {
		n := chain(qdr, qdr, qdr)
		p := n.tables(2)
		cfg := testConfig()
		cfg.Lanes, cfg.HostBuffer = 2, 66
		e := mustNew(t, &n.Topology, p, cfg)
		c.setup(p, e)
		c.s.Src, c.s.Bytes = 0, rc2k
		if c.s.Packets == 0 {
			c.s.Packets = 10
		}
		if c.s.To.kind == toOne && c.s.To.one == 0 {
			c.s.To = To(1)
		}
		mustAdd(t, e, c.s)
		e.Run(Millisecond)
		mustCheck(t, e)
		s := e.Stats()
		want := uint64(10)
		if c.cause == Expired {
			want = 9 // one fits into the lane of the host
		}
		if s.Dropped[c.cause] != want || e.Port(c.port).Dropped[c.cause] != want || s.Drops() != want {
			t.Errorf("%v: %d dropped, %d at %v, in all %v", c.cause, s.Dropped[c.cause], e.Port(c.port).Dropped[c.cause], c.port, s.Dropped)
		}
	}
}

// TestManagementPorts: packets to and from port 0 of a switch, as GMPs are, ride
// the data lanes.
func TestManagementPorts(t *testing.T) {
	n := chain(qdr, ddr, qdr)
	p := n.tables(1)
	e := mustNew(t, &n.Topology, p, testConfig())
	sw := e.NumHosts() // the first switch
	if e.NumHosts() != 2 || e.NumEnds() != 4 || e.HostPort(sw) != (fabric.Ref{Node: 2}) {
		t.Fatalf("%d hosts, %d ends, %v", e.NumHosts(), e.NumEnds(), e.HostPort(sw))
	}
	got := map[[2]int]int{}
	e.SetHooks(Hooks{OnDeliver: func(d *Delivery) { got[[2]int{d.Stream, d.Host}]++ }})
	mustAdd(t, e, Stream{Src: 1, To: To(sw), Bytes: BytesMAD, Packets: 20})
	mustAdd(t, e, Stream{Src: sw, To: To(1), Bytes: BytesMAD, Packets: 30})
	mustAdd(t, e, Stream{Src: sw, To: To(sw + 1), Bytes: BytesMAD, Packets: 40})
	e.Run(Millisecond)
	mustCheck(t, e)
	if got[[2]int{0, sw}] != 20 || got[[2]int{1, 1}] != 30 || got[[2]int{2, sw + 1}] != 40 || e.Stats().Drops() != 0 {
		t.Errorf("delivered %v, lost %v", got, e.Stats().Dropped)
	}
}

// TestGroup: each member gets each packet once, on FIFO and VoQ inputs, also
// while other traffic keeps outputs busy.
func TestGroup(t *testing.T) {
	for _, in := range []Queueing{FIFO, VOQ} {
		n := newNet(6, 3, 4)
		for h := range 6 {
			n.link(h, 6+h/2, qdr)
		}
		n.link(6, 7, qdr)
		n.link(7, 8, ddr)
		p := n.tables(1)
		ports := func(sw int32, list ...uint8) {
			var m PortMask
			for _, x := range list {
				m.Add(x)
			}
			p.SetGroup(sw, 0xC005, m)
		}
		ports(6, 1, 2, 3)    // hosts 0 and 1, and on
		ports(7, 1, 3, 4)    // host 2, not 3
		ports(8, 1, 2, 3, 0) // hosts 4 and 5, back, and the switch itself
		c := testConfig()
		c.Input, c.LaneBuffer = in, 80
		e := mustNew(t, &n.Topology, p, c)
		got := map[int]int{}
		e.SetHooks(Hooks{OnDeliver: func(d *Delivery) {
			if d.Stream == 0 {
				got[d.Host]++
			}
		}})
		mustAdd(t, e, Stream{Src: 0, To: ToGroup(0xC005), Bytes: rc2k, Packets: 50})
		for h := range 6 {
			mustAdd(t, e, Stream{Src: h, To: ToAny(), Bytes: rc256, End: 200 * Microsecond})
		}
		e.Run(10 * Millisecond)
		mustCheck(t, e)
		want := map[int]int{1: 50, 2: 50, 4: 50, 5: 50, 6 + 2: 50}
		for h := range e.NumEnds() {
			if got[h] != want[h] {
				t.Errorf("%v: end port %d got %d packets, want %d", in, h, got[h], want[h])
			}
		}
		if e.Live() != 0 || e.Stats().Drops() != 0 {
			t.Errorf("%v: %d left, lost %v", in, e.Live(), e.Stats().Dropped)
		}
	}
}

// TestRefusals: what cannot be is refused with the reason before anything runs.
func TestRefusals(t *testing.T) {
	n := chain(qdr, qdr)
	e := mustNew(t, &n.Topology, n.tables(1), testConfig())
	for _, s := range []Stream{
		{Src: 9, To: To(1), Bytes: rc2k},
		{Src: 0, To: To(9), Bytes: rc2k},
		{Src: 0, To: To(0), Bytes: rc2k},
		{Src: 0, To: To(1), Bytes: 5},
		{Src: 0, To: To(1), Bytes: 9000},
		{Src: 0, To: To(1), Bytes: rc2k, Arrival: Poisson},
		{Src: 0, To: To(1), Bytes: rc2k, Arrival: Closed},
		{Src: 0, To: ToAmong([]int{0}), Bytes: rc2k},
		{Src: 0, To: ToGroup(7), Bytes: rc2k},
		{Src: 0, To: To(1), Bytes: rc2k, Queue: LaneQueue},
		{Src: 0, To: To(1), Bytes: rc2k, Start: 5, End: 4},
		{Src: 0, To: To(1), Bytes: rc2k, Arrival: OnOff, Gap: 1},
	} {
		if _, err := e.AddStream(s); err == nil {
			t.Errorf("accepted %+v", s)
		} else {
			t.Log(err)
		}
	}
	for _, f := range []func(c *Config, t *Topology){
		func(c *Config, _ *Topology) { c.Lanes = 16 }, func(c *Config, _ *Topology) { c.Buffer = 0 }, func(c *Config, _ *Topology) { c.Reads = -1 },
		func(c *Config, _ *Topology) { c.LaneBuffer = 4096 }, func(c *Config, _ *Topology) { c.SourceQueue = 0 },
		func(_ *Config, t *Topology) { t.Links[0].B.Port = 9 }, func(_ *Config, t *Topology) { t.Links[0].Rate = Rate{} },
		func(_ *Config, t *Topology) { t.Links[0].B = t.Links[1].B }, func(_ *Config, t *Topology) { t.Nodes[0].Ports = 255 },
	} {
		n := chain(qdr, qdr)
		c := testConfig()
		p := n.tables(1)
		f(&c, &n.Topology)
		if _, err := New(&n.Topology, p, c); err == nil {
			t.Errorf("accepted %+v %+v", c, n.Topology)
		} else {
			t.Log(err)
		}
	}
}

// TestCutUnderPacket cuts the first of three cables at moments of one packet's
// way, whose last byte leaves the host at 518.5 ns.
func TestCutUnderPacket(t *testing.T) {
	for _, c := range []struct {
		at    Time
		cause Cause
		port  fabric.Ref
	}{
		{5 * Nanosecond, LostOnWire, fabric.Ref{Node: 2, Port: 1}},  // the head is on the cable
		{60 * Nanosecond, LostOnWire, fabric.Ref{Node: 2, Port: 1}}, // it is in the first switch, not yet looked up
		{115 * Nanosecond, BadEnd, fabric.Ref{Node: 3, Port: 1}},    // on the second cable
		{300 * Nanosecond, BadEnd, fabric.Ref{Node: 1, Port: 1}},    // the second switch passes it on
		{528_499, BadEnd, fabric.Ref{Node: 1, Port: 1}},             // the last byte is on the cable
		{528_500, numCauses, fabric.Ref{}},                          // it is in
		{2 * Microsecond, numCauses, fabric.Ref{Node: 1, Port: 1}},
	} {
		n := chain(qdr, qdr, qdr)
		e := mustNew(t, &n.Topology, n.tables(1), testConfig())
		mustAdd(t, e, Stream{Src: 0, To: To(1), Bytes: rc2k, Packets: 1})
		e.Run(c.at)
		e.CutLink(n.Links[0].A)
		mustCheck(t, e)
		e.Run(Millisecond)
		mustCheck(t, e)
		s := e.Stats()
		if c.cause == numCauses {
			if s.Delivered != 1 {
				t.Errorf("cut at %v: lost by %v", c.at, s.Dropped)
			}
		} else if s.Dropped[c.cause] != 1 || e.Port(c.port).Dropped[c.cause] != 1 {
			t.Errorf("cut at %v: delivered %d, dropped %v, want %v at %v", c.at, s.Delivered, s.Dropped, c.cause, c.port)
		}
		if e.Live() != 0 {
			t.Errorf("cut at %v: %d left", c.at, e.Live())
		}
	}
	// A packet that waits, partly in, behind a busy output is lost from the queue.
	n := newNet(3, 1, 3)
	for h := range 3 {
		n.link(h, 3, qdr)
	}
	e := mustNew(t, &n.Topology, n.tables(1), testConfig())
	mustAdd(t, e, Stream{Src: 0, To: To(2), Bytes: rc2k, Packets: 1})
	mustAdd(t, e, Stream{Src: 1, To: To(2), Bytes: rc2k, Packets: 1})
	e.Run(300 * Nanosecond)
	e.CutLink(n.Links[1].A)
	mustCheck(t, e)
	e.Run(Millisecond)
	mustCheck(t, e)
	if s := e.Stats(); s.Delivered != 1 || s.Dropped[LostOnWire] != 1 || e.Live() != 0 {
		t.Errorf("delivered %d, dropped %v, %d left", s.Delivered, s.Dropped, e.Live())
	}
}

// TestCutUnderCopies cuts the cable of a multicast packet while a switch passes
// its copies on: all of them lose their end, with any number of workers.
func TestCutUnderCopies(t *testing.T) {
	for _, workers := range []int{1, 3} {
		n := newNet(4, 2, 4)
		n.link(0, 4, qdr)
		n.link(4, 5, qdr)
		for h := 1; h < 4; h++ {
			n.link(h, 5, qdr)
		}
		p := n.tables(1)
		for sw, list := range [][]uint8{{1, 2}, {1, 2, 3, 4}} {
			var m PortMask
			for _, x := range list {
				m.Add(x)
			}
			p.SetGroup(int32(4+sw), 0xC005, m)
		}
		c := testConfig()
		c.Reads, c.Workers = 0, workers // all copies at once
		e := mustNew(t, &n.Topology, p, c)
		e.workers.always = true
		mustAdd(t, e, Stream{Src: 0, To: ToGroup(0xC005), Bytes: rc2k, Packets: 1})
		e.Run(400 * Nanosecond)
		e.CutLink(n.Links[0].A)
		e.Run(Millisecond)
		mustCheck(t, e)
		if s := e.Stats(); s.Delivered != 0 || s.Dropped[BadEnd] != 3 || e.Live() != 0 {
			t.Errorf("%d workers: delivered %d, dropped %v, %d left", workers, s.Delivered, s.Dropped, e.Live())
		}
	}
}

// TestRates: data rates of 4X links in ps a byte, and those of other widths.
func TestRates(t *testing.T) {
	for s, want := range map[ib.LinkSpeed]Rate{
		ib.SpeedSDR: {1000, 1}, ib.SpeedDDR: {500, 1}, ib.SpeedQDR: {250, 1}, ib.SpeedFDR10: {200, 1}, ib.SpeedFDR: {440, 3}, ib.SpeedEDR: {80, 1},
		ib.SpeedHDR: {40, 1}, ib.SpeedNDR: {20, 1}, ib.SpeedXDR: {10, 1}, ib.SpeedNone: {},
	} {
		if got := LinkRate(ib.Width4x, s); got != want {
			t.Errorf("4X %v: %v, want %v", s, got, want)
		}
	}
	for w, want := range map[ib.LinkWidth]Rate{ib.Width1x: {80, 1}, ib.Width2x: {40, 1}, ib.Width4x: {20, 1}, ib.Width8x: {10, 1}, ib.Width12x: {20, 3}, 3: {}} {
		if got := LinkRate(w, ib.SpeedNDR); got != want {
			t.Errorf("%v NDR: %v, want %v", w, got, want)
		}
	}
	// Whole packets are rounded once.
	if got := LinkRate(ib.Width4x, ib.SpeedFDR).Time(rc2k); got != 304_187 {
		t.Errorf("2 KiB at FDR: %v", got)
	}
	if got := gbps(1, 2048, Cap(12.9, 2048, rc2k).Time(rc2k)); got < 12.8999 || got > 12.9001 {
		t.Errorf("cap of 12.9 Gb/s gives %v", got)
	}
}
