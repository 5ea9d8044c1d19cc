package experiment

import (
	"fmt"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/lab"
	"heddle/lab/manager2003"
	"heddle/mad"
	"heddle/sim"
	"heddle/sim/dataplane"
)

// The model of the 2003 report, §3.1: 1X links, 256-byte packets, two data lanes with
// 4,096 bytes of input buffer each, tables of 1,024 entries.
const (
	mtu2003     ib.MTU = 1 // 256 bytes
	lanes2003          = 2 // as a code: VL0-1
	lane2003           = 4096 / 64
	packet2003         = 256 + dataplane.OverheadRC
	entries2003        = 1024
)

// What a cable and an agent take for an SMP, in which the report's Figure 12 has a
// distribution of about 5 ms; it does not say what its model took.
const (
	hop2003 = 3 * time.Microsecond
	sma2003 = 10 * time.Microsecond
)

// slow2003 makes all cables 1X SDR: 2 Gb/s of data.
func slow2003(f *fabric.Fabric) {
	for i := range f.Nodes {
		for p := range f.Nodes[i].Ports {
			if f.Nodes[i].Ports[p].Cabled() {
				f.Nodes[i].Ports[p].Width, f.Nodes[i].Ports[p].Speed = ib.Width1x, ib.SpeedSDR
			}
		}
	}
}

// plane2003 is the data plane of the report's switches. Their output buffers are left
// out: the engine has none.
func plane2003(seed uint64) dataplane.Config {
	c := dataplane.Defaults()
	c.Seed, c.Lanes, c.LaneBuffer, c.HostBuffer, c.Reads = seed, 2, lane2003, 2*lane2003, 0
	c.DiscardInactive = true
	draw := splitMix(seed ^ 0x534C)
	c.SL = func(int, int) ib.SL { return ib.SL(draw() & 15) } // uniform, as in the report
	return c
}

// splitMix is a random stream (Steele, Lea and Flood, 2014).
func splitMix(x uint64) func() uint64 {
	return func() uint64 {
		x += 0x9E3779B97F4A7C15
		z := x
		z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
		z = (z ^ z>>27) * 0x94D049BB133111EB
		return z ^ z>>31
	}
}

// subject is a manager on a subnet of the report's model: theirs, or ours.
type subject struct {
	c    *lab.Cluster
	f    *fabric.Fabric
	old  *manager2003.Manager
	new  *lab.Manager
	own  int32 // switch of the manager's host
	smps int   // requests sent
	seed uint64
}

// newSubject brings a subnet up. The links of f become 1X.
func newSubject(f *fabric.Fabric, m method, p profile, seed uint64, clock func() time.Duration) (*subject, error) {
	slow2003(f)
	c, err := lab.NewCluster(f, sim.Config{
		Seed: seed, HopLatency: hop2003, SMALatency: sma2003, NoTraps: true, DirectStates: m.static,
		LinearFDBCap: entries2003, MTUCap: mtu2003, VLCap: lanes2003,
	})
	if err != nil {
		return nil, err
	}
	x := &subject{c: c, f: f, seed: seed, own: -1}
	at := ""
	for i := range f.Nodes {
		if !f.Nodes[i].IsSwitch() {
			at, x.own = f.Nodes[i].ID, f.Nodes[i].Ports[1].Peer.Node
			break
		}
	}
	if x.own < 0 {
		return nil, fmt.Errorf("no host for the manager")
	}
	sent := func(*mad.Packet) { x.smps++ }
	if m.static {
		cfg := manager2003.Defaults()
		cfg.Clock, cfg.Compute = clock, m.compute
		if x.old, err = manager2003.New(c.Sim, at, cfg); err != nil {
			return nil, err
		}
		x.old.OnSend = sent
		x.old.Start()
		return x, c.RunUntil(settle, func() bool { return len(x.old.Changes) > 0 })
	}
	if x.new, err = c.Start(at, managerConfig(p), nil); err != nil {
		return nil, err
	}
	x.new.OnSend, x.new.Clock = sent, clock
	if err := c.RunUntil(settle, x.idle); err != nil {
		return nil, err
	}
	c.Run(quiet)
	return x, c.RunUntil(settle, x.idle)
}

// untilSweep runs until the manager, which is idle, begins a sweep.
func (x *subject) untilSweep() error {
	was := x.smps
	return x.c.RunUntil(settle, func() bool { return x.smps > was })
}

func (x *subject) idle() bool {
	if x.old != nil {
		return !x.old.Busy()
	}
	return x.new.Up() && x.new.Idle()
}

// hosts that the manager knows, as a set of port GUIDs.
func (x *subject) knows() map[ib.GUID]bool {
	var g *fabric.Graph
	if x.old != nil {
		g = x.old.Changes[len(x.old.Changes)-1].Graph
	} else if x.new.Snap != nil {
		g = x.new.Snap.Graph
	}
	set := map[ib.GUID]bool{}
	if g != nil {
		for i := range g.EndPorts {
			set[g.EndPorts[i].GUID] = true
		}
	}
	return set
}
