package dataplane

import (
	"testing"

	"heddle/ib"
)

// echo is a program that sends back what comes, and counts.
type echo struct {
	door  *Door
	queue int
	got   []Arrived
	left  int
	timer []Time
	every Time
	back  bool
	keep  bool
}

func (p *echo) Receive(a *Arrived) {
	if p.keep {
		p.got = append(p.got, *a)
	}
	if p.back {
		p.door.Send(p.queue, &Message{DLID: a.SLID, SL: a.SL, Bytes: a.Bytes, Payload: Payload{a.Payload[0] + 1}})
	}
}

func (p *echo) Left(int) { p.left++ }

func (p *echo) Timer() {
	if p.keep {
		p.timer = append(p.timer, p.door.Now())
	}
	if p.every > 0 {
		p.door.Wake(p.door.Now() + p.every)
	}
}

func attach(t testing.TB, e *Engine, host int, p *echo) {
	t.Helper()
	d, err := e.Attach(host, p)
	if err != nil {
		t.Fatal(err)
	}
	p.door, p.queue = d, d.OpenQueue(ib.PKeyDefaultFull)
}

// TestProgram: what one program sends arrives at another with its payload, after
// the time that the wires take, and comes back.
func TestProgram(t *testing.T) {
	e, _ := twoHosts(t, Defaults())
	a, b := &echo{keep: true}, &echo{back: true, keep: true}
	attach(t, e, 0, a)
	attach(t, e, 1, b)
	if _, err := e.Attach(1, b); err == nil {
		t.Error("a host takes a second program")
	}
	for i := range 3 {
		if !a.door.Send(a.queue, &Message{DLID: b.door.LID(), Bytes: 2074, Payload: Payload{uint64(10 * i), 7}}) {
			t.Fatal("discarded")
		}
	}
	e.Run(100 * Microsecond)
	if len(b.got) != 3 || len(a.got) != 3 || a.left != 3 || b.left != 3 {
		t.Fatalf("%d there, %d back, %d and %d left", len(b.got), len(a.got), a.left, b.left)
	}
	wire := e.out[e.hosts[0].port].rate.Time(2074)
	for i, g := range b.got {
		want := wire*Time(i+1) + 2*DefaultCable + Defaults().SwitchDelay
		if g.At != want || g.Payload != (Payload{uint64(10 * i), 7}) || g.Host != 0 || g.SLID != a.door.LID() {
			t.Errorf("packet %d: %+v, want at %v", i, g, want)
		}
		if a.got[i].Payload != (Payload{uint64(10*i) + 1}) {
			t.Errorf("answer %d: %+v", i, a.got[i])
		}
	}
	if err := e.Check(); err != nil {
		t.Error(err)
	}
}

// TestProgramTimer: Timer comes at the earliest time asked for, once.
func TestProgramTimer(t *testing.T) {
	e, _ := twoHosts(t, Defaults())
	a := &echo{keep: true}
	attach(t, e, 0, a)
	a.door.Wake(50 * Microsecond)
	a.door.Wake(20 * Microsecond)
	a.door.Wake(30 * Microsecond)
	e.Run(100 * Microsecond)
	if len(a.timer) != 1 || a.timer[0] != 20*Microsecond {
		t.Errorf("timer at %v", a.timer)
	}
	a.door.Wake(120 * Microsecond)
	e.Run(200 * Microsecond)
	if len(a.timer) != 2 || a.timer[1] != 120*Microsecond {
		t.Errorf("timer at %v", a.timer)
	}
}

// TestProgramPortDown: what waits when the port goes down is discarded and the
// program hears of it; a port that is down takes nothing; then it works again.
func TestProgramPortDown(t *testing.T) {
	e, _ := twoHosts(t, Defaults())
	a, b := &echo{}, &echo{keep: true}
	attach(t, e, 0, a)
	attach(t, e, 1, b)
	other := a.door.OpenQueue(ib.PKeyDefaultFull)
	for range 4 {
		a.door.Send(a.queue, &Message{DLID: b.door.LID(), Bytes: 2074})
		a.door.Send(other, &Message{DLID: b.door.LID(), Bytes: 2074})
	}
	e.Run(100 * Nanosecond)
	left := a.left
	port := e.HostPort(0)
	e.CutLink(port)
	if a.left != left+2 || a.door.Queued(a.queue) != 0 || a.door.Queued(other) != 0 {
		t.Errorf("%d calls of Left, %d and %d packets queued", a.left-left, a.door.Queued(a.queue), a.door.Queued(other))
	}
	if a.door.Active() || a.door.Send(a.queue, &Message{DLID: b.door.LID(), Bytes: 2074}) {
		t.Error("a port that is down takes a packet")
	}
	e.Run(10 * Microsecond)
	e.RestoreLink(port)
	b.got = nil
	if !a.door.Send(a.queue, &Message{DLID: b.door.LID(), Bytes: 2074}) {
		t.Error("the port takes nothing after it is up again")
	}
	e.Run(20 * Microsecond)
	if len(b.got) != 1 {
		t.Errorf("%d packets arrive", len(b.got))
	}
	if err := e.Check(); err != nil {
		t.Error(err)
	}
}

// TestProgramAllocations: a steady state of programs allocates nothing.
func TestProgramAllocations(t *testing.T) {
	e, _ := twoHosts(t, Defaults())
	a, b := &echo{back: true, every: Microsecond}, &echo{back: true}
	attach(t, e, 0, a)
	attach(t, e, 1, b)
	for range 8 {
		a.door.Send(a.queue, &Message{DLID: b.door.LID(), Bytes: 2074})
	}
	a.door.Wake(0)
	at := Millisecond
	e.Run(at)
	if n := testing.AllocsPerRun(20, func() { at += 100 * Microsecond; e.Run(at) }); n > 0 {
		t.Errorf("%v allocations in 100 µs", n)
	}
}

// twoHosts is a switch with two hosts, QDR.
func twoHosts(t testing.TB, c Config) (*Engine, *Plain) {
	t.Helper()
	n := newNet(2, 1, 4)
	n.link(0, 2, qdr)
	n.link(1, 2, qdr)
	p := n.tables(1)
	return mustNew(t, &n.Topology, p, c), p
}
