package hypervisor

import (
	"errors"
	"testing"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/internal/heap"
	"heddle/sim/dataplane"
	"heddle/sim/host/adapter"
	"heddle/sim/host/program"
	"heddle/sim/host/rc"
	"heddle/sim/hypervisor/precopy"
	"heddle/sim/hypervisor/suspend"
)

// star is some hosts at one switch, whose tables the test writes: what a manager and
// hypervisors do, in no time.
type star struct {
	*dataplane.Plain
	t     testing.TB
	e     *dataplane.Engine
	hosts []*adapter.Adapter
	cable []fabric.Ref
	owns  map[ib.LID]int // host of a function's LID

	now   time.Duration
	calls heap.Heap[time.Duration, func()]
	seq   uint64
}

func newStar(t testing.TB, n int) *star {
	top := &dataplane.Topology{}
	for range n {
		top.Nodes = append(top.Nodes, dataplane.Node{Name: "host", Ports: 1})
	}
	top.Nodes = append(top.Nodes, dataplane.Node{Name: "switch", Switch: true, Ports: n})
	s := &star{t: t, owns: map[ib.LID]int{}}
	for i := range n {
		a, b := fabric.Ref{Node: int32(i), Port: 1}, fabric.Ref{Node: int32(n), Port: uint8(i + 1)}
		top.Links = append(top.Links, dataplane.Link{A: a, B: b, Rate: dataplane.LinkRate(ib.Width4x, ib.SpeedQDR), Delay: dataplane.DefaultCable})
		s.cable = append(s.cable, b)
	}
	s.Plain = dataplane.NewPlain(top, 1)
	for i := range n {
		s.lead(s.Attr[i][1].LID, i)
	}
	var err error
	if s.e, err = dataplane.New(top, s, dataplane.Defaults()); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		a, err := adapter.New(s.e, i)
		if err != nil {
			t.Fatal(err)
		}
		s.hosts = append(s.hosts, a)
	}
	return s
}

// lead leads a LID to a host.
func (s *star) lead(l ib.LID, host int) { s.SetRoute(int32(len(s.Attr)-1), l, uint8(host+1)) }

// Owns implements dataplane.Functions.
func (s *star) Owns(node int32, _ uint8, lid ib.LID) bool {
	h, ok := s.owns[lid]
	return ok && h == int(node)
}

func (s *star) after(d time.Duration, f func()) {
	s.seq++
	s.calls.Push(s.now+d, s.seq, f)
}

// run runs for d.
func (s *star) run(d time.Duration) {
	until := s.now + d
	for s.calls.Len() > 0 && s.calls.Min().Key <= until {
		c := s.calls.Pop()
		s.now = c.Key
		s.e.Run(dataplane.FromDuration(s.now))
		c.Value()
	}
	s.now = until
	s.e.Run(dataplane.FromDuration(until))
}

// machine is a virtual machine on a star, and a Site of its migrations.
type machine struct {
	*star
	way     Way
	lid     ib.LID // its own, or that which floats; 0: it has none
	at, to  int
	from    int
	plugged bool
	port    ib.LID // of the port that has the floating LID,
	has     int    // its host

	*Carrier
	streams []*program.Stream
	session *suspend.Session
	conns   []*adapter.Connection
	ends    []*stream
	next    uint32
	faults  *faults
}

// faults say what goes wrong.
type faults struct{ refuse, settle bool }

// stream is a stream from or to the machine.
type stream struct {
	*program.Stream
	sink         program.Sink
	mine, theirs *adapter.Connection
}

func (s *star) machine(way Way, at int) *machine {
	m := &machine{star: s, way: way, at: at, to: at, next: adapter.FirstGuest, faults: &faults{}}
	m.session = suspend.New(s.after, 50*time.Microsecond)
	if way != ThreeStages {
		m.lid = ib.LID(0x100 + len(s.owns) + at)
	}
	m.plug(at)
	return m
}

// plug has the addresses of the machine at a host.
func (m *machine) plug(host int) {
	m.at, m.plugged = host, true
	switch m.way {
	case ThreeStages:
	case FloatingLID:
		if m.port != 0 {
			m.setPort(m.has, m.port)
		}
		m.has, m.port = host, m.Attr[host][1].LID
		m.setPort(host, m.lid)
		m.lead(m.lid, host)
	default:
		m.owns[m.lid] = host
		m.lead(m.lid, host)
	}
}

func (m *machine) setPort(host int, l ib.LID) {
	m.Attr[host][1].LID = l
	m.e.Refresh(int32(host))
}

func (m *machine) unplug() {
	m.plugged = false
	switch m.way {
	case ThreeStages, FloatingLID: // the port keeps its LID until another has it
	default:
		delete(m.owns, m.lid)
	}
}

// connect starts a stream between the machine and a program on a host.
func (m *machine) connect(peer int, out bool, o adapter.Options, r rc.Sender, p program.Stream) {
	m.t.Helper()
	x := &stream{Stream: &p}
	a, b := m.hosts[m.at], m.hosts[peer]
	var pa, pb adapter.Program = x.Stream, &x.sink
	if !out {
		pa, pb = pb, pa
	}
	g := o
	if m.lid != 0 {
		g.QPN = m.next
		m.next++
		if m.way != FloatingLID {
			g.LID = m.lid
		}
	}
	var err error
	if x.mine, err = a.Connect(g, pa); err != nil {
		m.t.Fatal(err)
	}
	if x.theirs, err = b.Connect(o, pb); err != nil {
		m.t.Fatal(err)
	}
	x.mine.PostReceives(1 << 20)
	x.theirs.PostReceives(1 << 20)
	must(m.t, x.theirs.Start(rc.Connect{RemoteQPN: x.mine.QPN(), Path: rc.Path{DLID: x.mine.LID()}}, r))
	must(m.t, x.mine.Start(rc.Connect{RemoteQPN: x.theirs.QPN(), Path: rc.Path{DLID: b.LID()}}, r))
	m.ends, m.conns = append(m.ends, x), append(m.conns, x.mine)
	if out {
		m.streams = append(m.streams, x.Stream)
		x.Run(x.mine)
	} else {
		x.Run(x.theirs)
	}
	if m.way == ThreeStages {
		m.session.Add(1, x.mine, x.theirs)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var errTest = errors.New("the test says no")

// The Site.

func (m *machine) Now() time.Duration               { return m.now }
func (m *machine) After(d time.Duration, fn func()) { m.after(d, fn) }
func (m *machine) Ready() bool                      { return m.plugged }
func (m *machine) At() (*adapter.Adapter, ib.LID) {
	if m.way == FloatingLID || m.way == ThreeStages {
		return m.hosts[m.at], 0
	}
	return m.hosts[m.at], m.lid
}

func (m *machine) Reserve(done func(error)) {
	m.after(time.Millisecond, func() {
		if m.faults.refuse {
			done(errTest)
			return
		}
		done(nil)
	})
}

func (m *machine) Settle(done func(error)) {
	refuse := m.faults.settle && m.at == m.to
	m.after(time.Millisecond, func() {
		if refuse {
			done(errTest)
			return
		}
		done(nil)
	})
}

func (m *machine) Stop() {
	for _, s := range m.streams {
		s.Pause()
	}
}

func (m *machine) Run() {
	for _, s := range m.streams {
		s.Continue()
	}
}

func (m *machine) Unplug() error {
	m.unplug()
	return nil
}

func (m *machine) Plug(back bool) error {
	to := m.to
	if back {
		to = m.from
	}
	m.plug(to)
	return nil
}

// quick is a migration that takes some 20 ms.
func quick(way Way, late bool, seed uint64) Config {
	c := Config{Way: way, Late: late, Copy: precopy.Defaults(), Cost: Published().Scale(200), Seed: seed}
	c.Copy = ScaleCopy(c.Copy, 200)
	c.Cost.Rate = 0
	return c
}

// migrate begins the migration of the machine.
func (m *machine) migrate(to int, c Config, o adapter.Options, r rc.Sender) *Migration {
	m.t.Helper()
	m.from, m.to = m.at, to
	var err error
	a, b := m.hosts[m.from], m.hosts[to]
	m.Carrier, err = OpenCarrier(a, b, o, r, rc.Path{DLID: b.LID()}, rc.Path{DLID: a.LID()})
	must(m.t, err)
	g, err := New(c, m)
	must(m.t, err)
	g.Session, g.Connections = m.session, m.conns
	g.Start()
	return g
}

// check sees that all streams have come whole.
func (m *machine) check() {
	m.t.Helper()
	for i, x := range m.ends {
		if st, at := x.Failed(); st != rc.Success {
			m.t.Fatalf("stream %d: %v at %v", i, st, at)
		}
		if err := x.sink.Check(x.Stream); err != nil {
			m.t.Fatalf("stream %d: %v", i, err)
		}
		if got, _ := x.sink.Got(); got != x.Posted() {
			m.t.Fatalf("stream %d: %d messages of %d have come", i, got, x.Posted())
		}
	}
	must(m.t, m.e.Check())
}
