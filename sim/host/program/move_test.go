package program

import (
	"errors"
	"testing"

	"heddle/sim/dataplane"
	"heddle/sim/host/adapter"
	"heddle/sim/host/rc"
)

// TestLoopback: connections between queue pairs of one adapter share its loopback rate
// and use no cable.
func TestLoopback(t *testing.T) {
	b := newTestbed(t, 2)
	a := b.hosts[0]
	a.Loopback = dataplane.Cap(10, 2048, 2074)
	l := b.links()
	var sinks [2]Sink
	var list [2]Stream
	for i := range sinks {
		list[i] = Stream{Bytes: 1 << 14, Depth: 4}
		c, _, err := Pair(a, a, l.Options, l.Sender, rc.Path{DLID: a.LID()}, rc.Path{DLID: a.LID()}, &list[i], &sinks[i])
		must(t, err)
		list[i].Run(c)
	}
	b.e.Run(10 * dataplane.Millisecond)
	sum := 0.0
	for i := range sinks {
		must(t, sinks[i].Check(&list[i]))
		_, n := sinks[i].Got()
		gbps := float64(n) * 8 / 10e6
		if sum += gbps; gbps < 4.7 || gbps > 5.1 {
			t.Errorf("stream %d has %.2f Gb/s, want half of 10 less acknowledgments", i, gbps)
		}
	}
	if sum > 10 {
		t.Errorf("%.2f Gb/s in all", sum)
	}
	if s := b.e.Stats(); s.Created != 0 {
		t.Errorf("%d packets on cables", s.Created)
	}
}

// TestGuests: a queue pair with a chosen number goes from one adapter to another and to
// the adapter of its peer; its number must be free there.
func TestGuests(t *testing.T) {
	b := newTestbed(t, 3)
	l := b.links()
	s, sink := &Stream{Bytes: 5000, Depth: 3, Limit: 300}, &Sink{}
	o := l.Options
	o.QPN = adapter.FirstGuest + 7
	c, err := b.hosts[0].Connect(o, s)
	must(t, err)
	if _, err := b.hosts[0].Connect(o, s); !errors.Is(err, adapter.ErrTaken) {
		t.Errorf("taken: %v", err)
	}
	for _, n := range []uint32{adapter.FirstGuest - 1, 0x800000} {
		bad := o
		bad.QPN = n
		if _, err := b.hosts[0].Connect(bad, s); !errors.Is(err, adapter.ErrNumber) {
			t.Errorf("%#x: %v", n, err)
		}
	}
	d, err := b.hosts[2].Connect(l.Options, sink)
	must(t, err)
	d.PostReceives(1000)
	must(t, d.Start(rc.Connect{RemoteQPN: c.QPN(), Path: rc.Path{DLID: c.LID()}}, l.Sender))
	must(t, c.Start(rc.Connect{RemoteQPN: d.QPN(), Path: rc.Path{DLID: d.LID()}}, l.Sender))
	s.Run(c)
	if err := d.Attach(b.hosts[1], 0); !errors.Is(err, rc.ErrState) {
		t.Errorf("attached without detach: %v", err)
	}
	for step, host := range []int{1, 2, 0} {
		b.e.Run(b.e.Now() + 40*dataplane.Microsecond)
		c.Detach()
		if !c.Away() || b.hosts[host].Live() > 1 {
			t.Fatalf("away %v, %d live", c.Away(), b.hosts[host].Live())
		}
		b.e.Run(b.e.Now() + 10*dataplane.Microsecond)
		must(t, c.Attach(b.hosts[host], 0))
		// The peer must learn the LID, which is the port's here: as it is, it drops what comes.
		must(t, reconnect(d, c))
		if c.QPN() != adapter.FirstGuest+7 || c.Adapter() != b.hosts[host] {
			t.Errorf("step %d: %#x at %v", step, c.QPN(), c.Adapter())
		}
	}
	b.e.Run(b.e.Now() + 20*dataplane.Millisecond)
	must(t, sink.Check(s))
	if got, _ := sink.Got(); got != 300 {
		t.Errorf("%d messages have come", got)
	}
	must(t, b.e.Check())
}

// reconnect gives d the path to where c is.
func reconnect(d, c *adapter.Connection) error {
	return d.Do(func(q *rc.QP, _ adapter.Time) error {
		return errors.Join(q.Drain(), q.SetPath(rc.Path{DLID: c.LID()}), q.Resume())
	})
}

// TestHold: what a program posts while its library holds goes out in order when it is
// released.
func TestHold(t *testing.T) {
	b := newTestbed(t, 2)
	l := b.links()
	s, sink := &Stream{Bytes: 100, Depth: 50, Limit: 50}, &Sink{}
	c, _, err := Pair(b.hosts[0], b.hosts[1], l.Options, l.Sender, rc.Path{DLID: b.hosts[1].LID()}, rc.Path{DLID: b.hosts[0].LID()}, s, sink)
	must(t, err)
	c.Hold()
	s.Run(c)
	b.e.Run(dataplane.Millisecond)
	if got, _ := sink.Got(); got != 0 || c.Held() != 50 {
		t.Errorf("%d have come, %d are held", got, c.Held())
	}
	must(t, c.Release())
	b.e.Run(2 * dataplane.Millisecond)
	if got, _ := sink.Got(); got != 50 || c.Held() != 0 {
		t.Errorf("%d have come, %d are held", got, c.Held())
	}
	must(t, sink.Check(s))
}

// TestPause: a stream whose machine stands still posts nothing, whichever way it is
// driven, and goes on.
func TestPause(t *testing.T) {
	for _, gap := range []Time{0, 5 * dataplane.Microsecond} {
		b := newTestbed(t, 2)
		l := b.links()
		s, sink := &Stream{Bytes: 2000, Depth: 2, Gap: gap}, &Sink{}
		c, _, err := Pair(b.hosts[0], b.hosts[1], l.Options, l.Sender, rc.Path{DLID: b.hosts[1].LID()}, rc.Path{DLID: b.hosts[0].LID()}, s, sink)
		must(t, err)
		s.Run(c)
		b.e.Run(dataplane.Millisecond)
		s.Pause()
		was := s.Posted()
		b.e.Run(2 * dataplane.Millisecond)
		if s.Posted() != was || was == 0 {
			t.Errorf("gap %v: %d posted, then %d", gap, was, s.Posted())
		}
		s.Continue()
		s.Continue()
		b.e.Run(3 * dataplane.Millisecond)
		if s.Posted() < was*3/2 {
			t.Errorf("gap %v: %d posted, then %d", gap, was, s.Posted())
		}
		must(t, sink.Check(s))
	}
}
