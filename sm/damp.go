package sm

import (
	"slices"
	"strconv"
	"time"

	"heddle/ib"
	"heddle/mad"
	"heddle/subnet"
)

// A link that keeps failing and coming back is damped. The first DampFree
// failures in a row cost nothing. After that it is let back in only when it has
// stayed up for a while, twice as long after each failure; from DampHold
// failures on it is held down until nothing has been heard of it for
// DampQuiet, doubled with each hold that follows closely, 16 × at most.
//
// Holding down means that nothing behind the port is asked and no route leads
// over it. The port itself is left alone, in Init, where it carries no data: a
// port set to Disabled or Down would stay so if this manager died, or if the
// only way to it led over that very link; one in Init is simply taken up by
// whoever manages the subnet next.

// dampMost bounds the links that are remembered.
const dampMost = 1024

// damping is what is known of a link that failed. Ends are those that are
// switch ports: a CA may be plugged in elsewhere and is not to blame.
type damping struct {
	a, b  nodePort // b.node is 0 if the far end is no switch
	count int      // failures in a row
	holds int      // holds in a row
	held  bool     // held down, and told so
	last  mad.Time // last failure, sign of life while it was kept out, or release
	until mad.Time // kept out until then
}

func (d *damping) at(np nodePort) bool { return d.a == np || d.b.node != 0 && d.b == np }

// dampingAt finds what is known of the link at a port, nil if nothing.
func (c *Core) dampingAt(at ref) *damping {
	if len(c.damped) == 0 {
		return nil
	}
	np := nodePort{c.f.nodes[at.Node].info.NodeGUID, at.Port}
	for _, d := range c.damped {
		if d.at(np) {
			return d
		}
	}
	return nil
}

// noteFlap notes that an active link between a and b failed.
func (c *Core) noteFlap(a, b ref) {
	f := c.f
	if c.cfg.DampHold < 0 || a == f.self || b == f.self || !c.up {
		return
	}
	if !f.nodes[a.Node].isSwitch() {
		a, b = b, a
	}
	d := c.dampingAt(a)
	if d == nil && f.nodes[b.Node].isSwitch() {
		d = c.dampingAt(b)
	}
	if d == nil {
		if len(c.damped) >= dampMost {
			c.forgetQuiet()
			if len(c.damped) >= dampMost {
				return
			}
		}
		d = &damping{a: nodePort{f.nodes[a.Node].info.NodeGUID, a.Port}}
		if f.nodes[b.Node].isSwitch() {
			d.b = nodePort{f.nodes[b.Node].info.NodeGUID, b.Port}
		}
		c.damped = append(c.damped, d)
	}
	if c.now.Sub(d.last) > c.cfg.DampQuiet && d.until <= c.now {
		if d.count = 0; c.now.Sub(d.last) > 16*c.cfg.DampQuiet {
			d.holds = 0
		}
	}
	d.count++
	d.last = c.now
	switch over := d.count - c.cfg.DampFree; {
	case d.count >= c.cfg.DampHold:
		quiet := c.cfg.DampQuiet << min(d.holds, 4)
		d.until = c.now.Add(quiet)
		d.holds++
		d.held = true
		c.out.notify(Notice{
			Kind: KindLinkHeld, Level: Warn, Where: f.where(a.Node, int(a.Port)), Peer: f.where(b.Node, int(b.Port)),
			Text: "the link failed " + strconv.Itoa(d.count) + " times in a row and is held down until it has been quiet for " + quiet.String() + ": look at the cable",
		})
	case over > 0:
		d.until = c.now.Add(min(c.cfg.DampDelay<<min(over-1, 10), c.cfg.DampQuiet))
	default:
		return
	}
	c.dampAt = min(c.dampAt, d.until)
}

// noteHeld reports whether a port is kept out for flapping, and marks it.
// changed says that its state changed again, so the quiet time begins anew.
func (c *Core) noteHeld(at ref, changed bool) bool {
	d := c.dampingAt(at)
	p := c.f.port(at)
	p.flags &^= pHeld
	if d == nil || d.until <= c.now {
		return false
	}
	p.flags |= pHeld
	if changed && d.last < c.now {
		wait := c.cfg.DampQuiet << min(max(d.holds-1, 0), 4)
		if !d.held {
			wait = min(c.cfg.DampDelay<<min(d.count-c.cfg.DampFree-1, 10), c.cfg.DampQuiet)
		}
		d.last = c.now
		d.until = c.now.Add(wait)
	}
	return true
}

// releaseDamped lets links back in whose time is over.
func (c *Core) releaseDamped() {
	c.dampAt = mad.Never
	for _, d := range c.damped {
		switch {
		case d.until == 0:
		case d.until > c.now:
			c.dampAt = min(c.dampAt, d.until)
		default:
			d.until = 0
			if d.held {
				d.held = false
				d.last = c.now
				d.count = c.cfg.DampHold - 1 // a failure soon after holds it again
				c.tellReleased(d)
			}
			for _, e := range [2]nodePort{d.a, d.b} {
				if e.node != 0 && c.f != nil {
					if _, ok := c.f.find(e.node); ok {
						c.suspect(e.node, wholeSwitch)
					}
				}
			}
		}
	}
	c.forgetQuiet()
	if len(c.suspects) > 0 && c.state == subnet.Master {
		c.ask("a link that failed repeatedly was quiet for long enough")
	}
}

func (c *Core) tellReleased(d *damping) {
	n := Notice{Kind: KindLinkReleased, Level: Info, Text: "the link was quiet and is no longer held down"}
	if c.f != nil {
		if i, ok := c.f.find(d.a.node); ok {
			n.Where = c.f.where(i, int(d.a.port))
		}
	}
	c.out.notify(n)
}

// forgetQuiet drops links that have been good for long.
func (c *Core) forgetQuiet() {
	c.damped = slices.DeleteFunc(c.damped, func(d *damping) bool {
		return d.until == 0 && c.now.Sub(d.last) > 16*c.cfg.DampQuiet
	})
}

// markFlaps finds the links that failed since the last sweep, in a full one.
func (c *Core) markFlaps() {
	f, g := c.f, c.last
	if g == nil || g == f || !c.up {
		return
	}
	for i := range f.nodes {
		n := &f.nodes[i]
		j, ok := g.find(n.info.NodeGUID)
		if !ok || !n.isSwitch() || g.nodes[j].info.NumPorts != n.info.NumPorts {
			continue
		}
		for k := 1; k <= int(n.info.NumPorts); k++ {
			p, q := f.portOf(int32(i), uint8(k)), g.portOf(j, uint8(k))
			if !q.has(pLinked) || q.info.PortState < ib.StateArmed || !p.has(pKnown) || p.info.PortState >= ib.StateArmed {
				continue
			}
			// Seen from both ends of a link between switches: count it once.
			b, ok := f.find(g.nodes[q.peer.Node].info.NodeGUID)
			if !ok || f.nodes[b].info.NumPorts < q.peer.Port || f.nodes[b].isSwitch() && b < int32(i) {
				continue
			}
			c.noteFlap(ref{Node: int32(i), Port: uint8(k)}, ref{Node: b, Port: q.peer.Port})
			if c.noteHeld(ref{Node: int32(i), Port: uint8(k)}, false) && f.nodes[b].isSwitch() {
				c.noteHeld(ref{Node: b, Port: q.peer.Port}, false)
			}
		}
	}
}

// dampedLinks lists the links that are kept out.
func (c *Core) dampedLinks() (out []DampedLink) {
	for _, d := range c.damped {
		if d.until <= c.now || c.f == nil {
			continue
		}
		w := Where{Node: d.a.node, Port: int(d.a.port), set: true}
		if i, ok := c.f.find(d.a.node); ok {
			w = c.f.where(i, int(d.a.port))
		}
		out = append(out, DampedLink{Where: w, Failures: d.count, Held: d.held, Quiet: d.until.Sub(d.last), Left: d.until.Sub(c.now)})
	}
	return out
}

// heldProblems are the links kept out, as a snapshot shows them.
func (c *Core) heldProblems() (out []subnet.Problem) {
	for _, d := range c.damped {
		if d.until <= c.now || c.f == nil {
			continue
		}
		i, ok := c.f.find(d.a.node)
		if !ok {
			continue
		}
		text := "the link failed " + strconv.Itoa(d.count) + " times in a row; it is let back in when it has been quiet for " +
			d.until.Sub(d.last).Round(time.Millisecond).String()
		out = append(out, subnet.Problem{
			Node: c.f.where(i, int(d.a.port)).String(), GUID: d.a.node, Port: d.a.port, Kind: KindLinkHeld.String(), Text: text,
		})
	}
	return out
}
