package dataplane

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"heddle/fabric"
	"heddle/ib"
	"heddle/ib/cc"
	"heddle/internal/need"
)

// trial is a random fabric with random traffic, tables and faults, which it keeps
// undoing and repeating.
type trial struct {
	seed   uint64
	r      *rand.Rand
	n      *net
	hosts  int
	lanes  int
	p      *Plain
	e      *Engine
	moved  bool // tables or lanes have changed: packets may overtake, and take other paths
	heavy  bool // full load and small buffers, no faults
	lossy  bool // something was done that may lose packets
	last   map[[2]int]uint32
	broken string
	calls  uint64    // of hooks, summed up in their order
	routes [][]uint8 // at the start
}

// TestCampaign runs random fabrics, traffic and faults with all assertions on:
// conservation, credits, no sleeping port, order, a zero-load bound on each
// latency, no loss without a cause, and after the end nothing is left unless a
// deadlock was reported, whose circle must be one.
func TestCampaign(t *testing.T) {
	deadlocks, drained, windows := 0, 0, uint64(0)
	seeds := need.Seeds(150, 3000)
	for _, seed := range seeds {
		x := newTrial(t, seed, 1)
		hash := x.run(t)
		if n := []int{2, 3, 8}[seed%3]; x.broken == "" {
			y := newTrial(t, seed, n)
			if h := y.run(t); h != hash || y.story() != x.story() {
				t.Fatalf("seed %d: with %d workers %s\n%s\nwith one\n%s", seed, n, y.broken, y.story(), x.story())
			}
			windows += y.e.workers.windows
		}
		if x.broken != "" {
			t.Fatalf("seed %d: %s", seed, x.broken)
		}
		if x.e.Deadlock() != nil {
			deadlocks++
		} else {
			drained++
		}
		if seed%8 == 0 {
			y := newTrial(t, seed, 1)
			y.e.watch(0) // the detector changes nothing
			if h := y.run(t); h != hash {
				t.Fatalf("seed %d: hash %x, and %x without the detector", seed, hash, h)
			}
		}
	}
	t.Logf("%d trials: %d drained, %d deadlocks, %d windows", len(seeds), drained, deadlocks, windows)
	if len(seeds) >= 100 && (deadlocks == 0 || drained < deadlocks) {
		t.Errorf("the trials do not try much")
	}
}

func newTrial(t *testing.T, seed uint64, workers int) *trial {
	r := rand.New(rand.NewPCG(seed, 99))
	x := &trial{seed: seed, r: r, lanes: 1 + r.IntN(4), last: map[[2]int]uint32{}}
	x.n, x.hosts = randomNet(r)
	if x.heavy = r.IntN(3) == 0; x.heavy {
		x.lanes = 1
	}
	mixed := r.IntN(2) == 0
	speeds := []ib.LinkSpeed{ib.SpeedSDR, ib.SpeedDDR, ib.SpeedQDR, ib.SpeedFDR, ib.SpeedEDR, ib.SpeedNDR}
	for i := range x.n.Links {
		if mixed {
			x.n.Links[i].Rate = LinkRate([]ib.LinkWidth{ib.Width4x, ib.Width4x, ib.Width12x}[r.IntN(3)], speeds[r.IntN(len(speeds))])
			x.n.Links[i].Delay = Time(r.IntN(300_000))
		}
	}
	routes := randomRoutes(x.n, x.hosts, r)
	x.p = NewPlain(&x.n.Topology, x.lanes)
	x.p.LFT = nil
	for _, row := range routes.LFT {
		x.p.LFT, x.routes = append(x.p.LFT, slices.Clone(row)), append(x.routes, row)
	}
	if r.IntN(2) == 0 { // lanes that change at each hop
		x.p.SLtoVL = func(n int32, in, out uint8, sl ib.SL) ib.VL {
			return ib.VL((uint32(n)*7 + uint32(in)*3 + uint32(out) + uint32(sl)) % uint32(x.lanes))
		}
	}
	c := testConfig()
	c.Seed, c.Lanes, c.Input, c.Choice, c.Reads = seed, x.lanes, Queueing(r.IntN(2)), Choice(r.IntN(2)), r.IntN(3)
	c.LaneBuffer, c.HostBuffer = 33+r.IntN(2)*r.IntN(120), 33*x.lanes+r.IntN(500)
	c.SwitchDelay, c.CreditDelay = Time(r.IntN(200))*Nanosecond, Time(r.IntN(2)*r.IntN(100))*Nanosecond
	c.SourceQueue = 1 + r.IntN(40)
	if x.heavy { // some circles close
		c.LaneBuffer = 33 + r.IntN(8)
	}
	x.arbitrations()
	x.groups()
	c.Workers = workers
	if q := rand.New(rand.NewPCG(seed, 7)); q.IntN(3) == 0 {
		control(&x.n.Topology, x.p, Marking{Threshold: uint8(q.IntN(16)), MinBytes: q.IntN(100), Rate: uint16(q.IntN(3))},
			&Throttling{BySL: q.IntN(2) == 0, SL: slowing(nil, cc.SLSetting{Timer: uint16(q.IntN(9)), Increase: uint8(q.IntN(20)), Trigger: 5}).SL, Table: crowdTable(4)})
	}
	x.e = mustNew(t, &x.n.Topology, x.p, c)
	x.e.workers.always = seed%2 == 0
	for _, p := range x.e.parts {
		p.fetcher.on = seed%3 == 1 && workers > 1 // it changes nothing
	}
	x.e.SetHooks(Hooks{OnDeliver: x.delivered, OnDrop: x.dropped})
	for h := range x.hosts {
		if r.IntN(4) == 0 {
			x.e.SetCaps(h, Rate{uint32(80 + r.IntN(900)), 1}, Rate{uint32(80 + r.IntN(900)), 1})
		}
		for range 1 + r.IntN(3) {
			mustAdd(t, x.e, x.stream(h))
		}
	}
	return x
}

const trialTime = 150 * Microsecond

func (x *trial) stream(h int) Stream {
	r := x.r
	s := Stream{
		Src: h, SL: ib.SL(r.IntN(16)), Bytes: []int{30, 64, 290, 1050, rc2k}[r.IntN(5)], Start: Time(r.IntN(20)) * Microsecond,
		End: trialTime, Arrival: Arrival(r.IntN(5)), Gap: Time(200+r.IntN(2000)) * Nanosecond, On: 5 * Microsecond, Off: 3 * Microsecond,
		Window: 1 + r.IntN(9), AckDelay: Time(r.IntN(3)) * Microsecond,
	}
	if x.seed%4 < 2 && s.AckDelay == 0 {
		s.AckDelay = 700 * Nanosecond // what is known at once leaves no time for windows
	}
	if x.heavy {
		s.Bytes, s.Arrival, s.Gap, s.To = rc2k, Saturated, 0, ToAny()
		return s
	}
	switch r.IntN(5) {
	case 0:
		s.To = To((h + 1 + r.IntN(x.hosts-1)) % x.hosts)
	case 1:
		s.To = ToAny().Mixed(0.5, r.IntN(x.hosts))
	case 2:
		if s.Arrival != Closed { // which of its copies acknowledges is not defined
			s.To = ToGroup(ib.LID(0xC000 + r.IntN(3)))
			break
		}
		fallthrough
	default:
		s.To = ToAny()
	}
	if s.Arrival == Constant || s.Arrival == Poisson || s.Arrival == OnOff {
		if s.Queue = Sharing(r.IntN(4)); s.To.kind == toGroup && s.Queue == DestQueue {
			s.Queue = LaneQueue
		}
	} else if s.Arrival == Saturated && r.IntN(2) == 0 {
		s.Gap = 0
	}
	return s
}

// arbitrations writes VL arbitration tables at some ports: every lane has an entry
// with a weight somewhere.
func (x *trial) arbitrations() {
	for n := range x.p.Arb {
		for j := range x.p.Arb[n] {
			if x.r.IntN(3) > 0 {
				continue
			}
			a := Arbitration{HighLimit: []uint8{0, 1, 3, 255}[x.r.IntN(4)]}
			for v := range x.lanes {
				w := Weight{ib.VL(v), uint8(1 + x.r.IntN(255))}
				if x.r.IntN(2) == 0 {
					a.High = append(a.High, Weight{ib.VL(v), 0}, w)
				} else {
					a.Low = append(a.Low, w)
				}
			}
			x.p.Arb[n][j] = a
		}
	}
}

// groups makes three multicast groups on the tree of the first cables that
// randomNet puts in.
func (x *trial) groups() {
	for g := range 3 {
		for s := range x.hosts {
			if x.r.IntN(2) == 0 {
				var m PortMask
				m.Add(1)
				x.p.SetGroup(int32(x.hosts+s), ib.LID(0xC000+g), m)
			} else {
				x.p.SetGroup(int32(x.hosts+s), ib.LID(0xC000+g), PortMask{})
			}
		}
		for _, l := range x.n.Links[x.hosts : 2*x.hosts-1] {
			for _, a := range [2]fabric.Ref{l.A, l.B} {
				m := x.p.MFT[a.Node][ib.LID(0xC000+g)]
				m.Add(a.Port)
				x.p.SetGroup(a.Node, ib.LID(0xC000+g), m)
			}
		}
	}
}

func (x *trial) fail(format string, args ...any) {
	if x.broken == "" {
		x.broken = fmt.Sprintf(format, args...)
	}
}

func (x *trial) delivered(d *Delivery) {
	x.calls = x.calls*31 + uint64(d.At)*7 + uint64(d.Stream)*3 + uint64(d.Seq)
	k := [2]int{d.Stream, d.Host}
	if last, ok := x.last[k]; ok && d.Seq <= last && !x.moved {
		x.fail("%v: stream %d: packet %d comes after %d to host %d", d.At, d.Stream, d.Seq, last, d.Host)
	}
	x.last[k] = d.Seq
	s := &x.e.streams[d.Stream]
	if x.moved || s.To.kind == toGroup {
		return
	}
	if least := x.zeroLoad(s.Src, d.Host, d.Bytes); d.At-d.Injected < least {
		x.fail("%v: %d bytes from %d to %d take %v, less than %v", d.At, d.Bytes, s.Src, d.Host, d.At-d.Injected, least)
	}
}

func (x *trial) dropped(d *Drop) {
	x.calls = x.calls*31 + uint64(d.At)*7 + uint64(d.Stream)*3 + uint64(d.Seq)*5 + uint64(d.Cause)
	group := d.DLID.IsMulticast()
	if d.Cause != SourceFull && !x.lossy && !(group && d.Cause == NoRoute) {
		x.fail("%v: stream %d: packet %d lost at %v: %v", d.At, d.Stream, d.Seq, d.Port, d.Cause)
	}
}

// zeroLoad is what a packet takes on an empty path, by the rule for its start.
func (x *trial) zeroLoad(src, dst, bytes int) Time {
	at := func(r fabric.Ref) (l *Link, far fabric.Ref) {
		for i := range x.n.Links {
			if l = &x.n.Links[i]; l.A == r {
				return l, l.B
			} else if l.B == r {
				return l, l.A
			}
		}
		return nil, r
	}
	l, far := at(fabric.Ref{Node: int32(src), Port: 1})
	head := l.Delay
	tail := head + l.Rate.Time(bytes)
	for far.Node != int32(dst) {
		if l, far = at(fabric.Ref{Node: far.Node, Port: x.p.Route(far.Node, x.p.lidOf(dst))}); l == nil {
			return 0
		}
		dur := l.Rate.Time(bytes)
		start := max(head, tail-dur) + x.e.cfg.SwitchDelay
		head, tail = start+l.Delay, start+l.Delay+dur
	}
	return tail
}

// fault changes something.
func (x *trial) fault() {
	r, e := x.r, x.e
	l := x.n.Links[r.IntN(len(x.n.Links))]
	h := r.IntN(x.hosts)
	x.lossy = true
	switch r.IntN(9) {
	case 0:
		e.CutLink(l.A)
	case 1:
		for _, l := range x.n.Links {
			e.RestoreLink(l.A)
		}
	case 2:
		e.Stop(h)
	case 3:
		e.Resume(h)
	case 4:
		x.moved = true
		for d := range x.hosts {
			if r.IntN(3) == 0 {
				x.p.SetRoute(int32(x.hosts+h), x.p.lidOf(d), uint8(r.IntN(6)))
			}
		}
	case 5:
		x.p.Attr[l.A.Node][l.A.Port].State = []ib.PortState{ib.StateDown, ib.StateInit, ib.StateArmed, ib.StateActive, ib.StateActive}[r.IntN(5)]
		e.Refresh(l.A.Node)
	case 6:
		for _, a := range [2]fabric.Ref{l.A, l.B} {
			x.p.Attr[a.Node][a.Port].HOQLife = LifeOf(uint8(r.IntN(4)))
			x.p.Attr[a.Node][a.Port].StallCount = uint8(r.IntN(4))
			e.Refresh(a.Node)
		}
		x.p.Lives[x.hosts+h] = []Time{Never, 9 * Microsecond}[r.IntN(2)]
		e.Refresh(int32(x.hosts + h))
	case 7:
		for _, a := range [2]fabric.Ref{l.A, l.B} {
			x.p.Attr[a.Node][a.Port].MTU = []uint16{256, 1024, 4096}[r.IntN(3)]
			x.p.Attr[a.Node][a.Port].VLs = uint8(1 + r.IntN(x.lanes))
			e.Refresh(a.Node)
		}
		x.moved = true
	case 8:
		e.FailNode(int32(x.hosts + h))
	}
}

// heal undoes all faults, so that what is left can drain: packets would go round
// forever in a loop of the tables.
func (x *trial) heal() {
	for i, row := range x.routes {
		copy(x.p.LFT[i], row)
	}
	for n := range x.p.Attr {
		for j := range x.p.Attr[n] {
			a := &x.p.Attr[n][j]
			a.State, a.VLs, a.MTU = ib.StateActive, uint8(x.lanes), 4096
		}
		x.e.Refresh(int32(n))
	}
	for _, l := range x.n.Links {
		x.e.RestoreLink(l.A)
	}
	for h := range x.hosts {
		x.e.Resume(h)
	}
}

// story is all that must not depend on the number of workers.
func (x *trial) story() string {
	return fmt.Sprintf("%s hooks %x %s", story(x.e), x.calls, x.broken)
}

func (x *trial) check() {
	if err := x.e.Check(); err != nil {
		x.fail("%v: %v", x.e.Now(), err)
	}
}

// split goes on with a copy, while the original goes on by itself; both must do
// the same.
func (x *trial) split() {
	was := x.e
	x.e = was.Clone(nil)
	x.e.SetHooks(was.hooks)
	was.SetHooks(Hooks{})
	at := was.Now() + Time(x.r.IntN(40))*Microsecond
	was.Run(at)
	x.e.Run(at)
	if a, b := was.Stats(), x.e.Stats(); *a != *b || was.Events() != x.e.Events() {
		x.fail("%v: the copy has delivered %d packets with hash %x, the original %d with %x", at, b.Delivered, b.Hash, a.Delivered, a.Hash)
	}
}

func (x *trial) run(t *testing.T) uint64 {
	faults := !x.heavy && x.r.IntN(3) > 0
	for x.e.Now() < trialTime && x.broken == "" {
		x.e.Run(x.e.Now() + Time(x.r.IntN(12_000_000)))
		x.check()
		if faults {
			x.fault()
			x.check()
		} else if x.r.IntN(6) == 0 {
			x.split()
		}
	}
	x.e.Run(max(x.e.Now(), trialTime))
	if faults {
		x.heal()
		x.check()
	}
	x.e.Run(x.e.Now() + 100*Millisecond)
	x.check()
	// A fault may have broken the first circle found.
	x.e.det.found = x.e.FindDeadlock()
	if d := x.e.Deadlock(); d != nil {
		for i, w := range d.Cycle {
			if next := d.Cycle[(i+1)%len(d.Cycle)]; x.e.in[x.e.port(next.In)].up != x.e.port(w.Out) || w.Lane != next.VL {
				x.fail("no circle: %v", d)
			}
		}
	} else if next := x.e.Next(); x.e.Live() > 0 || next != Never {
		x.fail("%d packets left, next event at %v, no deadlock", x.e.Live(), next)
	}
	return x.e.Stats().Hash
}

// TestScale: with all rates doubled and all delays halved all happens in half the
// time, to the picosecond.
func TestScale(t *testing.T) {
	for seed := range uint64(20) {
		var got [2][]Delivery
		for k, f := range []Time{1, 2} {
			r := rand.New(rand.NewPCG(seed, 3))
			n, hosts := randomNet(r)
			for i := range n.Links {
				n.Links[i].Rate.Num *= uint32(f)
				n.Links[i].Delay *= f
			}
			p := randomRoutes(n, hosts, r)
			c := testConfig()
			c.LaneBuffer, c.SwitchDelay, c.CreditDelay = 80, 100*Nanosecond*f, 20*Nanosecond*f
			e := mustNew(t, &n.Topology, p, c)
			// A flow control packet takes 8 bytes of the link: scaled with its rate.
			e.SetHooks(Hooks{OnDeliver: func(d *Delivery) { got[k] = append(got[k], *d) }})
			for h := range hosts {
				mustAdd(t, e, Stream{Src: h, To: ToAny(), Bytes: rc2k, End: 100 * Microsecond * f})
			}
			e.Run(500 * Microsecond * f)
			mustCheck(t, e)
		}
		if len(got[0]) == 0 || len(got[0]) != len(got[1]) {
			t.Fatalf("seed %d: %d and %d deliveries", seed, len(got[0]), len(got[1]))
		}
		for i, a := range got[0] {
			if b := got[1][i]; 2*a.At != b.At || a.Stream != b.Stream || a.Seq != b.Seq {
				t.Fatalf("seed %d: %+v became %+v", seed, a, b)
			}
		}
	}
}
