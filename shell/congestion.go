package shell

import (
	"heddle/congestion"
	"heddle/mad"
	"heddle/subnet"
)

// CongestionCore is congestion.Core, or a test's substitute.
type CongestionCore interface {
	Step(now mad.Time, ev congestion.Event, out *congestion.Output)
}

// CongestionEdge carries out the effects of a congestion.Core.
type CongestionEdge interface {
	Clock
	Timer
	// Send sends requests; the core repeats those that are not answered.
	Send(list []mad.Packet)
	// Published is called with a view after Shared.Congestion has it.
	Published(v *congestion.View)
	Tell(list []congestion.Notice)
}

// Congestion drives the core of a congestion control manager.
type Congestion struct {
	queue[congestion.Event]
	core   CongestionCore
	edge   CongestionEdge
	shared *Shared
	seen   *subnet.Snapshot // the snapshot that the core has
	out    congestion.Output
}

// NewCongestion returns a driver that waits for the first snapshot.
func NewCongestion(core CongestionCore, edge CongestionEdge, shared *Shared) *Congestion {
	c := &Congestion{core: core, edge: edge, shared: shared}
	c.handle = c.handleEvent
	return c
}

// Step passes an event to the core, or queues it while another one is carried out.
func (c *Congestion) Step(ev congestion.Event) { c.run(ev) }

// Mail passes the newest snapshot to the core, and a mode that was asked for.
func (c *Congestion) Mail() { c.run(nil) }

func (c *Congestion) handleEvent(ev congestion.Event) {
	if ev != nil {
		c.carryOut(ev)
		return
	}
	if snap := c.shared.Snap.Load(); snap != c.seen && snap != nil {
		c.seen = snap
		c.carryOut(congestion.Published{Snap: snap})
	}
	if m, ok := c.shared.congestionMode.take(); ok {
		c.carryOut(congestion.SetMode{Mode: m})
	}
}

// carryOut passes one event to the core and carries out its output, in the order of
// congestion.Output.
func (c *Congestion) carryOut(ev congestion.Event) {
	if c.halted {
		return
	}
	c.out.Reset()
	c.core.Step(c.edge.Now(), ev, &c.out)
	out := &c.out
	if len(out.Sends) > 0 {
		c.edge.Send(out.Sends)
	}
	if c.halted {
		return
	}
	if out.Publish != nil {
		c.shared.Congestion.Store(out.Publish)
		c.edge.Published(out.Publish)
	}
	c.edge.Tell(out.Notices)
	c.edge.Wake(out.Timer)
}
