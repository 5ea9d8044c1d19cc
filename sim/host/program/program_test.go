package program

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"heddle/sim/dataplane"
	"heddle/sim/host/adapter"
	"heddle/sim/host/rc"
)

// stream starts a stream between two hosts of a testbed.
func (b *testbed) stream(t testing.TB, from, to, bytes int) (*Stream, *Sink, *adapter.Connection) {
	t.Helper()
	l := b.links()
	s, k := &Stream{Bytes: bytes, Depth: 8}, &Sink{}
	c, _, err := Pair(b.hosts[from], b.hosts[to], l.Options, l.Sender, rc.Path{DLID: b.hosts[to].LID()}, rc.Path{DLID: b.hosts[from].LID()}, s, k)
	must(t, err)
	s.Run(c)
	return s, k, c
}

// TestLineRate (V1): a stream of packets of 2 KiB gets 31.599 Gb/s of payload on a
// QDR link, and nothing is repeated.
func TestLineRate(t *testing.T) {
	b := newTestbed(t, 3)
	s, k, c := b.stream(t, 0, 1, 1<<20)
	b.e.Run(2 * dataplane.Millisecond)
	_, was := k.Got()
	b.e.Run(12 * dataplane.Millisecond)
	_, now := k.Got()
	if got := float64(now-was) * 8 / 10e6; got < 31.3 || got > 31.9 { // in whole MiB
		t.Errorf("%.3f Gb/s, want 31.599", got)
	}
	if n := c.QP().Count; n.Repeats != 0 || n.Timeouts != 0 {
		t.Errorf("%+v", n)
	}
	must(t, k.Check(s))
	must(t, b.e.Check())
}

// TestStreamAllocations: streams in steady state allocate nothing.
func TestStreamAllocations(t *testing.T) {
	b := newTestbed(t, 4)
	for i := range b.hosts {
		b.stream(t, i, (i+1)%4, 1<<16)
	}
	at := 2 * dataplane.Millisecond
	b.e.Run(at)
	if n := testing.AllocsPerRun(10, func() { at += 200 * dataplane.Microsecond; b.e.Run(at) }); n > 0 {
		t.Errorf("%v allocations in 200 µs", n)
	}
}

// TestCut: a cable that is cut for less than the retries bear stops a stream and
// loses nothing; for longer it ends the connection, after time-out × retries.
func TestCut(t *testing.T) {
	b := newTestbed(t, 3)
	s, k, c := b.stream(t, 0, 1, 1<<16)
	other, sink, _ := b.stream(t, 2, 0, 1<<16)
	timer := rc.AckTimeout(b.links().Sender.Timeout)
	at := dataplane.Millisecond
	b.e.Run(at)
	b.e.CutLink(b.cable[3])
	at += 5 * timer
	b.e.Run(at)
	b.e.RestoreLink(b.cable[3])
	n, _ := k.Got()
	at += 3 * timer
	b.e.Run(at)
	if m, _ := k.Got(); m == n || c.QP().Count.Timeouts < 4 {
		t.Fatalf("%d messages before, %d after the cut, %+v", n, m, c.QP().Count)
	}
	must(t, k.Check(s))
	b.e.CutLink(b.cable[3])
	cut := at
	b.e.Run(at + 12*timer)
	if st, when := s.Failed(); st != rc.RetryExceeded || when-cut < 7*timer || when-cut > 9*timer {
		t.Errorf("%v %v after the cut; a timer is %v", st, when-cut, timer)
	}
	if st, _ := other.Failed(); st != rc.Success {
		t.Errorf("a stream that does not cross the cable: %v", st)
	}
	must(t, k.Check(s))
	must(t, sink.Check(other))
	found := false
	for _, ev := range b.hosts[0].TakeEvents(nil) {
		found = found || ev.Kind == rc.Failed && ev.Connection == c
	}
	if !found {
		t.Error("the host's software does not hear of the error")
	}
}

// TestPatterns: programs of all shapes end, with all their messages.
func TestPatterns(t *testing.T) {
	const us = dataplane.Microsecond
	order := []int{3, 0, 2, 1, 5, 4}
	for _, c := range []struct {
		name  string
		steps [][]Step
		least Time // it cannot be faster
	}{
		{"ping-pong", PingPong(6, 0, 3, 8, 100), 50 * us},
		{"ring", Ring(order, 1<<16, 10), 10 * 16 * us},
		{"all-to-all", AllToAll(6, 1<<14, 5, 50*us), 250 * us},
		{"compute", Compute(6, 64, 500*us), 500 * us},
		{"requests", Requests(6, 100, 4096, 10, us), 50 * us},
	} {
		for _, hosts := range []int{6, 3} { // a rank each, or two a host
			b := newTestbed(t, hosts)
			var on []*adapter.Adapter
			for r := range 6 {
				on = append(on, b.hosts[r%hosts])
			}
			w, err := NewWorld(on, c.steps, b.links())
			must(t, err)
			w.Run()
			b.e.Run(20 * dataplane.Millisecond)
			ended, at := w.Ended()
			if !ended || hosts == 6 && at < c.least {
				t.Errorf("%s on %d hosts: ended %v at %v, step %d", c.name, hosts, ended, at, w.Step())
			}
			must(t, w.Check())
		}
	}
}

// TestConservation: streams over a tree whose cables are cut and mended at random,
// and whose connections change lanes by migration and by draining: nothing is lost,
// doubled or reordered, and the packets of the data plane add up.
func TestConservation(t *testing.T) {
	seeds := 60
	if testing.Short() {
		seeds = 10
	}
	if v, err := strconv.Atoi(os.Getenv("HEDDLE_SEEDS")); err == nil {
		seeds = v
	}
	first := 0
	if v, err := strconv.Atoi(os.Getenv("HEDDLE_SEED")); err == nil {
		first, seeds = v, 1
	}
	failed, moved := 0, 0
	for seed := first; seed < first+seeds; seed++ {
		r := rand.New(rand.NewPCG(uint64(seed), 3))
		b := newTestbed(t, 4)
		var ss []*Stream
		var ks []*Sink
		var cs []*adapter.Connection
		for i := range 8 {
			s, k, c := b.stream(t, i%4, (i+1+i/4)%4, 1+r.IntN(30000))
			ss, ks, cs = append(ss, s), append(ks, k), append(cs, c)
		}
		at := Time(0)
		down := make([]bool, len(b.cable))
		for range 40 {
			at += Time(r.Int64N(int64(400 * dataplane.Microsecond)))
			b.e.Run(at)
			c := cs[r.IntN(len(cs))]
			moved += change(r, b, c, &down)
		}
		for i := range down {
			if down[i] {
				b.e.RestoreLink(b.cable[i])
			}
		}
		for _, c := range cs {
			_ = c.Do(func(q *rc.QP, _ Time) error { return q.Resume() })
		}
		for _, s := range ss {
			s.Stop()
		}
		b.e.Run(at + 100*dataplane.Millisecond)
		for i, s := range ss {
			st, _ := s.Failed()
			if st != rc.Success {
				failed++
			} else if s.Acknowledged() != s.Posted() {
				t.Errorf("stream %d: %d of %d are acknowledged, %v", i, s.Acknowledged(), s.Posted(), cs[i].QP().State())
			}
			if err := ks[i].Check(s); err != nil {
				t.Error(err)
			}
		}
		must(t, b.e.Check())
		if t.Failed() {
			t.Fatalf("HEDDLE_SEED=%d", seed)
		}
	}
	t.Logf("%d runs: %d connections in error, %d changes of lane", seeds, failed, moved)
	if first == 0 && seeds >= 10 && moved == 0 {
		t.Error("no change of lane")
	}
}

// change does something to the tree or to a connection.
func change(r *rand.Rand, b *testbed, c *adapter.Connection, down *[]bool) (moved int) {
	other := rc.Path{DLID: c.QP().Path().DLID, SL: c.QP().Path().SL ^ 1}
	switch r.IntN(6) {
	case 0, 1:
		i := r.IntN(len(b.cable))
		if (*down)[i] = !(*down)[i]; (*down)[i] {
			b.e.CutLink(b.cable[i])
		} else {
			b.e.RestoreLink(b.cable[i])
		}
	case 2:
		for _, a := range b.hosts {
			for _, d := range a.Connections() {
				if d == c || d.QPN() == c.QP().RemoteQPN() && a.LID() == other.DLID {
					p := rc.Path{DLID: d.QP().Path().DLID, SL: d.QP().Path().SL ^ 1}
					_ = d.Do(func(q *rc.QP, _ Time) error { return q.Rearm(p) })
				}
			}
		}
	case 3:
		if c.Do(func(q *rc.QP, now Time) error { return q.Migrate(now) }) == nil {
			moved++
		}
	case 4:
		_ = c.Do(func(q *rc.QP, _ Time) error { return q.Drain() })
	case 5:
		if c.Do(func(q *rc.QP, _ Time) error { return q.SetPath(other) }) == nil {
			moved++
		}
		_ = c.Do(func(q *rc.QP, _ Time) error { return q.Resume() })
	}
	return moved
}

// TestPaced: a stream with a gap offers its mean rate, at times that its seed repeats.
func TestPaced(t *testing.T) {
	run := func(seed uint64) (uint64, uint64) {
		b := newTestbed(t, 3)
		l := b.links()
		s, k := &Stream{Bytes: 2048, Depth: 32, Gap: 2 * dataplane.Microsecond, Seed: seed}, &Sink{}
		c, _, err := Pair(b.hosts[0], b.hosts[1], l.Options, l.Sender, rc.Path{DLID: b.hosts[1].LID()}, rc.Path{DLID: b.hosts[0].LID()}, s, k)
		must(t, err)
		s.Run(c)
		b.e.Run(20 * dataplane.Millisecond)
		must(t, k.Check(s))
		n, _ := k.Got()
		return n, b.e.Stats().Hash
	}
	n, hash := run(1)
	if n < 9700 || n > 10300 {
		t.Errorf("%d messages in 20 ms, want 10,000", n)
	}
	if m, same := run(1); m != n || same != hash {
		t.Error("a seed does not repeat its run")
	}
	if _, other := run(2); other == hash {
		t.Error("another seed gives the same run")
	}
}
