package dftree

import (
	"fmt"
	"math"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/lab"
	"heddle/lab/experiment/bed"
	"heddle/route"
	"heddle/route/engine/ftree"
	"heddle/sa"
	"heddle/sim/dataplane"
	"heddle/sim/host/adapter"
	"heddle/sim/host/program"
	"heddle/sim/host/repath"
)

// Times on the test beds: a millisecond stands for a second of the paper. Control times
// are divided by 1,000; cables and packets have their own.
const (
	second = time.Millisecond
	// hostTimeout is the code of the transport timer: 2.1 ms.
	hostTimeout = 9
	step        = second / 2 // of time lines
	// interval is that of the performance manager. The paper does not say its own;
	// recovery took 2 s there.
	interval = 2 * second
)

// TestBed is a tree of Paper IV under a real manager, with simulated hosts.
type TestBed struct {
	*lab.Loaded
	Hosts []*lab.Host // from number 1 on
	Flows []*Flow
}

// Flow is a connection that sends all that it can once it has begun.
type Flow struct {
	bed.Flow
	Conn *adapter.Connection
	Sink *program.Sink

	stream program.Stream
}

// config is the manager's: control times are divided by 1,000.
func config() (c managerConfig) {
	c.SM = lab.ProductionConfig(lab.RepairChain{})
	c.SM.Engines, c.SM.Explicit = []route.Engine{ftree.Engine{}}, true
	c.SM.TrapSettle /= 1000
	c.SM.TrapMinGap /= 1000
	c.SM.RepathTime /= 1000
	c.SA = sa.Defaults()
	c.SA.SignalRate *= 1000
	c.Hosts = lab.HostDefaults()
	c.Hosts.Sender.Timeout = hostTimeout
	c.Hosts.Repath.Method = repath.ByDraining
	c.Hosts.Repath.Costs = repath.Costs{}
	return c
}

type managerConfig = bed.HostOptions

// newTestBed brings a tree up with flows that have not begun. The flows have their
// connections; those before are without traffic.
func newTestBed(f *fabric.Fabric, loop Loop, buf bed.Buffers, flows []bed.Flow, seed uint64) (*TestBed, error) {
	o := config()
	loop.Configure(&o.SM)
	o.Attached = loop.Attach
	o.Data = buf.Config(seed, lanesInUse)
	l, hosts, err := bed.StartHosts(f, o)
	if err != nil {
		return nil, err
	}
	b := &TestBed{Loaded: l, Hosts: hosts}
	// A manager that starts notifies all hosts that any path may have changed. A host with
	// connections would ask for all of its paths then, and the SA would take it to hold them.
	if err := l.RunUntil(time.Minute, func() bool { return b.notified() }); err != nil {
		return nil, fmt.Errorf("the first notices: %w", err)
	}
	for _, x := range flows {
		f := &Flow{Flow: x, Sink: &program.Sink{}, stream: program.Stream{Bytes: 4 * bed.Payload, Depth: 16}}
		f.stream.Pause()
		if f.Conn, _, err = hosts[x[0]-1].Connect(hosts[x[1]-1], &f.stream, f.Sink); err != nil {
			return nil, fmt.Errorf("%v: %w", x, err)
		}
		f.stream.Run(f.Conn)
		b.Flows = append(b.Flows, f)
	}
	return b, nil
}

// lanesInUse is among how many lanes buffers are split, whether a slow lane is in use or
// not.
const lanesInUse = 2

// notified reports whether each host has had a notice and is done with it.
func (b *TestBed) notified() bool {
	for _, h := range b.Hosts {
		if h.Handler.Count.RePaths == 0 || !h.Handler.Idle() {
			return false
		}
	}
	return true
}

// begin lets a flow send.
func (b *TestBed) begin(loop Loop, f *Flow, hot bool) error {
	b.Sim.Data()
	if err := loop.Begins(b, f, hot); err != nil {
		return err
	}
	f.stream.Continue()
	return nil
}

// level is the service level of a flow's queue pair.
func (b *TestBed) level(i int) ib.SL { return b.Flows[i].Conn.QP().Path().SL }

// rates runs for d and returns what each flow got, in Gb/s of payload.
func (b *TestBed) rates(d time.Duration) []float64 {
	was := make([]uint64, len(b.Flows))
	for i, f := range b.Flows {
		_, was[i] = f.Sink.Got()
	}
	b.Run(d)
	b.Sim.Data()
	x := make([]float64, len(b.Flows))
	for i, f := range b.Flows {
		_, now := f.Sink.Got()
		x[i] = float64(now-was[i]) * 8 / float64(d.Nanoseconds())
	}
	return x
}

// check reports a message that was lost, doubled or out of order, and a connection that
// broke.
func (b *TestBed) check() error {
	for _, f := range b.Flows {
		if err := f.Sink.Check(&f.stream); err != nil {
			return fmt.Errorf("%v: %w", f.Flow, err)
		}
		if st, _ := f.stream.Failed(); st != 0 {
			return fmt.Errorf("%v: %v", f.Flow, st)
		}
	}
	return b.Engine.Check()
}

// waitShare is the part of d for which the port of a host, and the switch port before it,
// had packets and sent none, since the figures of was, which it replaces.
func (b *TestBed) waitShare(h int, d time.Duration, was *[2]dataplane.Time) (x [2]float64) {
	at := b.Engine.HostPort(h - 1)
	before, _ := b.Sim.Peer(int(at.Node), int(at.Port))
	for i, r := range []fabric.Ref{at, before} {
		now := b.Engine.Port(r).XmitWait
		x[i] = math.Max(0, float64(now-was[i])/float64(dataplane.FromDuration(d)))
		was[i] = now
	}
	return x
}
