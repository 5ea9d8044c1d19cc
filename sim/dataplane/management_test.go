package dataplane

import (
	"slices"
	"testing"

	"heddle/ib"
)

// TestUrgent: a packet of VL15 leaves an idle link at once and waits for the data packet under
// way on a busy one, and data packets wait for it.
func TestUrgent(t *testing.T) {
	n := chain(qdr, qdr)
	e := mustNew(t, &n.Topology, n.tables(1), testConfig())
	a := n.Links[0].A
	mad := qdr.Time(BytesMAD)
	start, in := e.Urgent(a, BytesMAD)
	if start != 0 || in != mad+DefaultCable {
		t.Errorf("on an idle link: starts at %v, there at %v", start, in)
	}
	if start, in = e.Urgent(a, BytesMAD); start != mad || in != 2*mad+DefaultCable {
		t.Errorf("behind another one: starts at %v, there at %v", start, in)
	}
	mustAdd(t, e, Stream{Src: 0, To: To(1), Bytes: rc2k, Packets: 3})
	e.Run(2 * mad)
	if p := e.Port(a); p.XmitPackets != 0 || p.XmitWait != 0 {
		t.Errorf("while VL15 sends: %d packets, %v waited", p.XmitPackets, p.XmitWait)
	}
	e.Run(2*mad + 1)
	pkt := qdr.Time(rc2k)
	if start, in = e.Urgent(a, BytesMAD); start != 2*mad+pkt || in != 3*mad+pkt+DefaultCable {
		t.Errorf("behind a data packet that began at %v: starts at %v, there at %v", 2*mad, start, in)
	}
	var at []Time
	e.SetHooks(Hooks{OnDeliver: func(d *Delivery) { at = append(at, d.Injected) }})
	e.Run(Millisecond)
	mustCheck(t, e)
	if len(at) != 3 || at[0] != 2*mad || at[1] != 3*mad+pkt || at[2] != at[1]+pkt {
		t.Errorf("data packets begin at %v", at)
	}
	if w := e.Port(a).XmitWait; w != 0 {
		t.Errorf("PortXmitWait %v for packets that VL15 delayed", w)
	}
}

// TestUrgentWait: VL15 that uses a link does not count as waiting, whatever data waits for.
func TestUrgentWait(t *testing.T) {
	n := chain(qdr, qdr)
	e := mustNew(t, &n.Topology, n.tables(1), testConfig())
	a := n.Links[0].A
	e.Stop(1)
	mustAdd(t, e, Stream{Src: 0, To: To(1), Bytes: rc2k})
	e.Run(Millisecond) // the buffers are full
	was := e.Port(a).XmitWait
	e.Urgent(a, BytesMAD)
	e.Run(2 * Millisecond)
	if d := e.Port(a).XmitWait - was; d != Millisecond-qdr.Time(BytesMAD) {
		t.Errorf("waited %v of 1 ms in which VL15 sent for %v", d, qdr.Time(BytesMAD))
	}
	e.Urgent(a, BytesMAD)
	e.Resume(1)
	e.Run(3 * Millisecond)
	mustCheck(t, e)
	if f := e.Flow(0); f.Latest < 3*Millisecond-10*Microsecond {
		t.Errorf("the stream stands still since %v", f.Latest)
	}
}

// TestCarry: a datagram goes over the data lanes with credits, in turn with the streams of its
// host, and its end is reported.
func TestCarry(t *testing.T) {
	n := chain(qdr, qdr)
	p := n.tables(2)
	e := mustNew(t, &n.Topology, p, func() Config { c := testConfig(); c.Lanes = 2; return c }())
	e.fetcher.on = true // as in large fabrics; it changes nothing
	var got []Carried
	e.OnCarried(func(c *Carried) { got = append(got, *c) })
	carry := func(id uint32, to ib.LID, sl ib.SL) {
		t.Helper()
		if why, ok := e.Carry(&Datagram{Src: 0, DLID: to, SL: sl, PKey: ib.PKeyDefaultFull, Bytes: BytesMAD, ID: id}); !ok {
			t.Fatal(why)
		}
	}
	lid := p.lidOf(1)
	carry(7, lid, 0)
	e.Run(10 * Microsecond)
	want := qdr.Time(BytesMAD) + 2*DefaultCable + 100*Nanosecond
	if len(got) != 1 || got[0].ID != 7 || got[0].At != want || got[0].Host != 1 {
		t.Fatalf("%+v, want datagram 7 at %v", got, want)
	}
	carry(8, 99, 0)
	e.Run(20 * Microsecond)
	if len(got) != 2 || got[1].Host >= 0 || got[1].Cause != NoRoute {
		t.Fatalf("%+v, want datagram 8 without a route", got)
	}
	p.SLtoVL = func(_ int32, _, _ uint8, sl ib.SL) ib.VL { return ib.VL(sl) }
	if why, ok := e.Carry(&Datagram{Src: 0, DLID: lid, SL: 9, Bytes: BytesMAD}); ok || why != NoLane {
		t.Errorf("a service level without a lane: %v, %v", why, ok)
	}
	// A full lane holds datagrams back; another does not.
	e.Stop(1)
	mustAdd(t, e, Stream{Src: 0, To: To(1), Bytes: rc2k})
	e.Run(Millisecond)
	carry(9, lid, 0)
	carry(10, 2, 1) // the switch itself
	e.Run(2 * Millisecond)
	if len(got) != 2 {
		t.Errorf("behind a stopped host: %+v", got[2:])
	}
	e.Resume(1)
	e.Run(3 * Millisecond)
	if len(got) != 4 || got[2].ID+got[3].ID != 19 {
		t.Errorf("when the host has resumed: %+v", got[2:])
	}
	// What waits at a host is discarded when its port goes down, and nothing else is.
	e.Stop(1)
	e.Run(4 * Millisecond)
	got = nil
	for id := range uint32(3) {
		carry(20+id, lid, 0)
	}
	e.Run(5 * Millisecond)
	a := n.Links[0].A
	p.Attr[a.Node][a.Port].State = ib.StateInit
	e.Refresh(a.Node)
	if len(got) != 3 || got[0].Cause != Inactive || got[2].ID != 22 {
		t.Errorf("at a port that goes down: %+v", got)
	}
	p.Attr[a.Node][a.Port].State = ib.StateActive
	e.Refresh(a.Node)
	e.Resume(1)
	carry(30, lid, 0)
	e.Run(6 * Millisecond)
	if len(got) != 4 || got[3].Host != 1 {
		t.Errorf("when the port is up again: %+v", got)
	}
	s := e.Stats()
	if s.Drops() != 0 || s.Created != e.Flow(0).Created || s.Delivered != e.Flow(0).Delivered {
		t.Errorf("datagrams are in the statistics of streams: %+v, %+v", s, e.Flow(0))
	}
	mustCheck(t, e)
	e.ResetStats()
	mustCheck(t, e)
}

// TestWaitBeforeActive: what waits at a port that is not Active does not wait in PortXmitWait.
func TestWaitBeforeActive(t *testing.T) {
	n := chain(sdr1, sdr1)
	p := n.tables(1)
	a := n.Links[0].A
	set := func(e *Engine, state ib.PortState) {
		p.Attr[a.Node][a.Port].State = state
		e.Refresh(a.Node)
	}
	p.Attr[a.Node][a.Port].State = ib.StateInit
	e := mustNew(t, &n.Topology, p, testConfig())
	mustAdd(t, e, Stream{Src: 0, To: To(1), Bytes: rc256})
	waits := func(what string, want Time) {
		t.Helper()
		_, lane := e.Lane(a, 0)
		if w := e.Port(a).XmitWait; w != want || lane != want {
			t.Errorf("%s: waited %v, lane %v, want %v", what, w, lane, want)
		}
	}
	e.Run(Millisecond)
	waits("in Init", 0)
	set(e, ib.StateArmed)
	e.Run(2 * Millisecond)
	waits("in Armed", 0)
	set(e, ib.StateActive)
	e.Run(3 * Millisecond)
	waits("at the full rate", 0)
	e.Stop(1)
	e.Run(10 * Millisecond)
	was := e.Port(a).XmitWait
	e.Run(11 * Millisecond)
	waits("for a host that has stopped", was+Millisecond)
	set(e, ib.StateInit)
	e.Run(12 * Millisecond)
	waits("in Init again", was+Millisecond)
	set(e, ib.StateActive)
	e.Run(13 * Millisecond)
	waits("Active again", was+2*Millisecond)
	mustCheck(t, e)
}

// TestCarryWorkers: datagrams end at the same times, in the same order, whatever the number of
// workers, and change the history of packets in the same way.
func TestCarryWorkers(t *testing.T) {
	run := func(workers int) (ends []Carried, hash uint64) {
		n := newNet(6, 4, 6)
		for h := range 6 {
			n.link(h, 6+h%3, qdr)
		}
		for s := range 3 {
			n.link(6+s, 9, qdr)
		}
		p := n.tables(1)
		c := testConfig()
		c.Workers, c.CreditDelay = workers, 50*Nanosecond
		e := mustNew(t, &n.Topology, p, c)
		e.workers.always = true
		e.OnCarried(func(x *Carried) { ends = append(ends, *x) })
		for h := range 6 {
			mustAdd(t, e, Stream{Src: h, To: ToAny(), Bytes: rc2k, Arrival: Poisson, Gap: 600 * Nanosecond})
		}
		for i := range 300 {
			e.Run(Time(i) * 700 * Nanosecond)
			if i == 150 {
				e.CutLink(n.Links[0].A)
			}
			if i == 200 {
				e.RestoreLink(n.Links[0].A)
			}
			d := Datagram{Src: i % 6, DLID: p.lidOf((i*5 + 1) % 6), PKey: ib.PKey(0x8001 + i%2), Bytes: BytesMAD, ID: uint32(i)}
			if _, ok := e.Carry(&d); !ok {
				t.Fatal("no lane")
			}
			e.Urgent(n.Links[i%len(n.Links)].B, BytesMAD)
		}
		e.Run(Millisecond)
		mustCheck(t, e)
		return ends, e.Stats().Hash
	}
	want, hash := run(1)
	if len(want) != 300 {
		t.Fatalf("%d of 300 datagrams ended", len(want))
	}
	for w := 2; w <= 4; w++ {
		if got, h := run(w); !slices.Equal(got, want) || h != hash {
			t.Errorf("%d workers: %d ends, hash %x; one worker: %d, %x", w, len(got), h, len(want), hash)
		}
	}
}
