package sa_test

import (
	"container/heap"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"heddle/fabric"
	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/route"
	"heddle/route/engine/ftree"
	"heddle/sa"
	"heddle/subnet"
)

// crowd is 11,664 hosts that use paths to some others each, and have subscribed.
type crowd struct {
	r     *fixture
	f     *pathFabric
	peers [][]int32 // by index in f.hosts
	of    map[ib.LID]int
}

const crowdPeers = 32

func newCrowd(tb testing.TB, f *pathFabric, cfg sa.Config) *crowd {
	c := &crowd{r: newFixture(tb, f.s, cfg), f: f, of: map[ib.LID]int{}}
	rng := rand.New(rand.NewPCG(1, 1))
	var subs []sa.Request
	for i, h := range f.hosts {
		lid := f.s.Ports[h].LID
		c.of[lid] = i
		subs = append(subs, sa.Request{From: mad.Addr{LID: lid, QP: 1}, Data: inform(trapNumber(smp.TrapRePath))})
		list := make([]int32, 0, crowdPeers)
		for range crowdPeers {
			list = append(list, f.hosts[rng.IntN(len(f.hosts))])
		}
		c.peers = append(c.peers, list)
	}
	c.r.step(sa.Requests{List: subs})
	c.r.replies = nil
	c.settle(func(i int) { c.askAll(i) })
	return c
}

// askAll has a host ask for its paths; it returns the bytes of requests and answers.
func (c *crowd) askAll(i int) (bytes int) {
	src := &sa.Source{Snap: c.r.snap, View: c.r.view, Opt: &sa.Options{}, Held: c.r.core.Held()}
	var buf [ib.MADLen]byte
	for _, d := range c.peers[i] {
		q := ask(ib.MethodGet, wire.AttrPathRecord, wire.PathCompSGID|wire.PathCompDGID, &wire.PathRecord{SGID: c.r.snap.GID(c.f.hosts[i]), DGID: c.r.snap.GID(d)})
		if _, v := sa.Answer(src, &sa.Request{From: mad.Addr{LID: c.r.snap.Ports[c.f.hosts[i]].LID, QP: 1}, Data: q}, buf[:0]); v != sa.Answered {
			c.r.t.Fatal(v)
		}
		bytes += 2 * ib.MADLen
	}
	return bytes
}

// settle delivers and acknowledges Reports until no more come. For one that names any path, asks
// is called. It returns the bytes of Reports and responses, and when each Report was sent.
func (c *crowd) settle(asks func(i int)) (bytes int, at []mad.Time) {
	for end := c.r.now.Add(10 * time.Minute); c.r.now < end; {
		for len(c.r.sends) > 0 {
			p := c.r.sends[0]
			c.r.sends = c.r.sends[1:]
			bytes += 2 * ib.MADLen
			at = append(at, c.r.now)
			if x := decodeReport(c.r.t, p); x.path.DLID == 0 && x.path.DGID.IsZero() {
				asks(c.of[p.Addr.LID])
			}
			c.r.answer(p)
		}
		if c.r.timer > end {
			break
		}
		c.r.until(c.r.timer)
	}
	return bytes, at
}

// cable is the first channel from the leaf of the first host to another switch.
func (f *pathFabric) cable() (leaf int32, k fabric.Channel) {
	g := f.s.Graph
	leaf = g.EndPorts[f.s.Ports[f.hosts[0]].EndPort].Switch
	return leaf, g.Channels[g.Off[leaf]]
}

// ends calls fn with the two ports of the cable in a snapshot that may be changed.
func (f *pathFabric) ends(now *subnet.Snapshot, fn func(p *subnet.Port)) {
	leaf, k := f.cable()
	for i := range now.Nodes {
		if now.Nodes[i].SwitchIndex == leaf {
			p := now.NodePorts(int32(i))[k.OutPort]
			far := now.Ports[now.PortIndex(p.Peer)]
			fn(p)
			fn(far)
		}
	}
	now.Finish()
}

// cut is the subnet after the loss of the cable.
func (f *pathFabric) cut(tb testing.TB) *subnet.Snapshot {
	g := f.s.Graph
	leaf, k := f.cable()
	h := g.Without(fabric.Loss{Channels: []int32{g.Off[leaf], g.PortChannel[k.To][k.InPort]}})
	t, err := ftree.Engine{}.Update(route.Solution{Graph: g, Tables: f.s.Tables}, h, fabric.Diff(g, h), route.Options{Workers: 2})
	if err != nil {
		tb.Fatal(err)
	}
	now := clone(f.s)
	now.Graph, now.Tables = h, t
	f.ends(now, func(p *subnet.Port) { p.Peer = subnet.NoRef() })
	return now
}

// slow is the subnet after the cable came up with less width, and was routed again.
func (f *pathFabric) slow() *subnet.Snapshot {
	g := *f.s.Graph
	leaf, k := f.cable()
	g.Channels = slices.Clone(g.Channels)
	g.Channels[g.Off[leaf]].Gbps, g.Channels[g.PortChannel[k.To][k.InPort]].Gbps = 20, 20
	now := clone(f.s)
	now.Graph, now.Tables = &g, now.Tables.Clone()
	f.ends(now, func(p *subnet.Port) { p.Rate = ib.Rate20 })
	return now
}

// TestSignalBytes: at 11,664 hosts, a cable that fails costs "targeted" at most a tenth of the bytes
// of "wildcard", queries of the hosts included; so does a cable that gets slow.
func TestSignalBytes(t *testing.T) {
	if testing.Short() {
		t.Skip("a fabric of 11,664 hosts")
	}
	f := newPathFabric(t, ftree.Engine{}, "fattree", "11664")
	for what, now := range map[string]*subnet.Snapshot{"lost": f.cut(t), "slow": f.slow()} {
		var bytes [2]int
		for i, m := range []sa.Signal{sa.SignalTargeted, sa.SignalWildcard} {
			c := newCrowd(t, f, sa.Config{Signal: m, SignalRate: 2000})
			c.r.publish(now)
			asked := 0
			n, at := c.settle(func(i int) { asked += c.askAll(i) })
			bytes[i] = n + asked
			s := c.r.core.Signals()
			t.Logf("%s, %v: %d Reports, %d bytes; %d hosts spared", what, m, len(at), bytes[i], s.Spared)
			if !s.Settled || s.Due != 0 || s.Changes == 0 && (m == sa.SignalWildcard || what == "slow") {
				t.Errorf("%s, %v: %+v", what, m, s)
			}
			if m == sa.SignalTargeted && what == "slow" && len(at) == 0 {
				t.Errorf("no host was notified of a path that got slow")
			}
		}
		if bytes[0]*10 > bytes[1] || bytes[1] == 0 {
			t.Errorf("%s: targeted sends %d bytes, wildcard %d", what, bytes[0], bytes[1])
		}
	}
}

// TestSignalPace: after a pause 64 Reports go at once, then one in each 1/rate. A timer that is late
// does not make up for it by more than a few at once.
func TestSignalPace(t *testing.T) {
	f := newPathFabric(t, ftree.Engine{}, "fattree", "324")
	now := f.cut(t)
	const rate = 1000
	for _, late := range []time.Duration{0, 20 * time.Millisecond} {
		c := newCrowd(t, f, sa.Config{Signal: sa.SignalWildcard, SignalRate: rate})
		c.r.until(c.r.now.Add(time.Second))
		c.r.publish(now)
		var at []mad.Time
		for len(at) < len(f.hosts) {
			for _, p := range c.r.sends {
				at = append(at, c.r.now)
				c.r.answer(p)
			}
			c.r.sends = nil
			if c.r.timer == mad.Never && len(at) < len(f.hosts) {
				t.Fatalf("late by %v: %d Reports, want %d", late, len(at), len(f.hosts))
			}
			if c.r.timer != mad.Never {
				c.r.now = max(c.r.now, c.r.timer).Add(late)
				c.r.step(sa.Timer{})
			}
		}
		times := map[mad.Time]int{}
		for _, x := range at {
			times[x]++
		}
		first := times[at[0]]
		delete(times, at[0])
		most := 0
		for _, n := range times {
			most = max(most, n)
		}
		want := 1
		if late > 0 {
			want = 3
		}
		if first != 64 || most > want {
			t.Errorf("late by %v: %d Reports at the beginning, want 64; then at most %d at once, want %d", late, first, most, want)
		}
		if took, least := at[len(at)-1].Sub(at[0]), time.Second*time.Duration(len(at)-first)/rate; late == 0 && took != least {
			t.Errorf("%d Reports in %v, want %v", len(at), took, least)
		}
	}
}

// TestStampede: while 11,664 hosts are notified that any path may have changed, and each asks for
// all its paths at once, the 99th percentile for other hosts stays within twice that of an idle SA.
// Without a rate for Reports it does not. Time is virtual: one worker answers the hosts' lines in
// turn, as the daemon does, in 5 µs each; 20 µs are for the network and the ports.
func TestStampede(t *testing.T) {
	if testing.Short() {
		t.Skip("a fabric of 11,664 hosts")
	}
	f := newPathFabric(t, ftree.Engine{}, "fattree", "11664")
	now := f.cut(t)
	for _, rate := range []int{sa.Defaults().SignalRate, 0} {
		c := newCrowd(t, f, sa.Config{Signal: sa.SignalWildcard, SignalRate: rate})
		idle := latency(nil)
		c.r.publish(now)
		begin := c.r.now
		_, at := c.settle(func(int) {})
		if len(at) != len(c.f.hosts) {
			t.Fatalf("%d Reports", len(at))
		}
		for i := range at {
			at[i] -= begin
		}
		busy := latency(at)
		t.Logf("rate %d: p99 %v idle, %v while all ask, %v until the last Report", rate, idle, busy, time.Duration(at[len(at)-1]))
		if within := busy <= 2*idle; within != (rate > 0) {
			t.Errorf("rate %d: p99 %v idle, %v while all ask", rate, idle, busy)
		}
	}
}

// latency is the 99th percentile of the time to an answer, for 5,000 queries a second of hosts that
// were not notified, while hosts ask for crowdPeers paths each at the given times.
func latency(at []mad.Time) time.Duration {
	const serve, wires = 5 * time.Microsecond, 20 * time.Microsecond
	rng := rand.New(rand.NewPCG(2, 2))
	last := mad.Time(10 * time.Second)
	if len(at) > 0 {
		last = at[len(at)-1].Add(10 * time.Millisecond)
	}
	var q arrivals
	for i, t := range at {
		q = append(q, arrival{t, i, crowdPeers})
	}
	for t := mad.Time(0); t < last; {
		t = t.Add(time.Duration(rng.ExpFloat64() * float64(time.Second) / 5000))
		q = append(q, arrival{t, -1, 1})
	}
	heap.Init(&q)
	var lines []arrival // the lines of the hosts that wait, in turn
	var took []time.Duration
	for now := mad.Time(0); len(q) > 0 || len(lines) > 0; {
		if len(lines) == 0 {
			now = max(now, q[0].at)
		}
		for len(q) > 0 && q[0].at <= now {
			lines = append(lines, heap.Pop(&q).(arrival))
		}
		x := lines[0]
		lines = lines[1:]
		now = now.Add(serve)
		if x.n--; x.n > 0 {
			for len(q) > 0 && q[0].at <= now {
				lines = append(lines, heap.Pop(&q).(arrival))
			}
			lines = append(lines, x)
		} else if x.host < 0 {
			took = append(took, now.Sub(x.at)+wires)
		}
	}
	slices.Sort(took)
	return took[len(took)*99/100]
}

// arrival is n queries of a host; host -1: of one that was not notified.
type arrival struct {
	at   mad.Time
	host int
	n    int
}

type arrivals []arrival

func (a arrivals) Len() int           { return len(a) }
func (a arrivals) Less(i, j int) bool { return a[i].at < a[j].at }
func (a arrivals) Swap(i, j int)      { a[i], a[j] = a[j], a[i] }
func (a *arrivals) Push(x any)        { *a = append(*a, x.(arrival)) }
func (a *arrivals) Pop() any {
	x := (*a)[len(*a)-1]
	*a = (*a)[:len(*a)-1]
	return x
}
