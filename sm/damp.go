package sm

import (
	"strconv"
	"time"

	"heddle/ib"
	"heddle/sm/damp"
	"heddle/sm/notice"
	"heddle/sm/topo"
	"heddle/subnet"
)

// dampPort names a port of the fabric for damping; the zero Port if it is no switch's.
func (c *Core) dampPort(at ref) damp.Port {
	n := &c.Fabric.Nodes[at.Node]
	if !n.IsSwitch() {
		return damp.Port{}
	}
	return damp.Port{Node: n.Info.NodeGUID, Num: at.Port}
}

// noteFlap notes that an active link between a and b failed.
func (c *Core) noteFlap(a, b ref) {
	f := c.Fabric
	if a == f.Self || b == f.Self || !c.Up {
		return
	}
	if !f.Nodes[a.Node].IsSwitch() {
		a, b = b, a
	}
	l, held := c.damped.Failed(c.Now, c.dampPort(a), c.dampPort(b))
	if held {
		c.Notify(notice.Notice{
			Kind: notice.KindLinkHeld, Level: notice.Warn, Where: f.Where(a.Node, int(a.Port)), Peer: f.Where(b.Node, int(b.Port)),
			Text: "the link failed " + strconv.Itoa(l.Failures) + " times in a row and is held down until it has been quiet for " + l.Until.Sub(l.Last).String() + ": look at the cable",
		})
	}
}

// noteHeld reports whether a port is kept out for flapping, and marks it.
// changed says that its state changed again, so the quiet time begins anew.
func (c *Core) noteHeld(at ref, changed bool) bool {
	p := c.Fabric.Port(at)
	p.Flags &^= topo.PortHeld
	if !c.damped.KeptOut(c.Now, c.dampPort(at), changed) {
		return false
	}
	p.Flags |= topo.PortHeld
	return true
}

// releaseDamped lets links back in whose time is over.
func (c *Core) releaseDamped() {
	for _, l := range c.damped.Release(c.Now) {
		if l.Held {
			c.Notify(notice.Notice{Kind: notice.KindLinkReleased, Level: notice.Info, Where: c.dampedWhere(&l), Text: "the link was quiet and is no longer held down"})
		}
		for _, e := range [2]damp.Port{l.A, l.B} {
			if e.Node != 0 && c.Fabric != nil {
				if _, ok := c.Fabric.Find(e.Node); ok {
					c.suspect(e.Node, wholeSwitch)
				}
			}
		}
	}
	if len(c.next.suspects) > 0 && c.State == subnet.Master {
		c.AskSweep("a link that failed repeatedly was quiet for long enough")
	}
}

// dampedWhere names one end of a link, nowhere if its switch is gone.
func (c *Core) dampedWhere(l *damp.Link) notice.Where {
	if c.Fabric != nil {
		if i, ok := c.Fabric.Find(l.A.Node); ok {
			return c.Fabric.Where(i, int(l.A.Num))
		}
	}
	return notice.Where{}
}

// markFlaps finds the links that failed since the last sweep, in a full one.
func (c *Core) markFlaps() {
	f, g := c.Fabric, c.Last
	if g == nil || g == f || !c.Up {
		return
	}
	for i := range f.Nodes {
		n := &f.Nodes[i]
		j, ok := g.Find(n.Info.NodeGUID)
		if !ok || !n.IsSwitch() || g.Nodes[j].Info.NumPorts != n.Info.NumPorts {
			continue
		}
		for k := 1; k <= int(n.Info.NumPorts); k++ {
			p, q := f.PortOf(int32(i), uint8(k)), g.PortOf(j, uint8(k))
			if !q.Has(topo.PortLinked) || q.Info.PortState < ib.StateArmed || !p.Has(topo.PortKnown) || p.Info.PortState >= ib.StateArmed {
				continue
			}
			// Seen from both ends of a link between switches: count it once.
			b, ok := f.Find(g.Nodes[q.Peer.Node].Info.NodeGUID)
			if !ok || f.Nodes[b].Info.NumPorts < q.Peer.Port || f.Nodes[b].IsSwitch() && b < int32(i) {
				continue
			}
			c.noteFlap(ref{Node: int32(i), Port: uint8(k)}, ref{Node: b, Port: q.Peer.Port})
			if c.noteHeld(ref{Node: int32(i), Port: uint8(k)}, false) {
				if f.Nodes[b].IsSwitch() {
					c.noteHeld(ref{Node: b, Port: q.Peer.Port}, false)
				}
				c.forgetFarEnd(p)
			}
		}
	}
}

// forgetFarEnd forgets what a port that was just held leads to: whoever is there when it is
// let back in is asked anew, as after a sweep of a region.
func (c *Core) forgetFarEnd(p *topo.Port) {
	if p.Peer == subnet.NoRef() {
		return
	}
	q := c.Fabric.Port(p.Peer)
	for _, x := range [2]*topo.Port{p, q} {
		x.Peer = subnet.NoRef()
		x.Flags &^= topo.PortLinked | topo.PortMeasured | topo.PortProved
	}
}

// dampedLinks lists the links that are kept out.
func (c *Core) dampedLinks() (out []DampedLink) {
	if c.Fabric == nil {
		return nil
	}
	for _, l := range c.damped.All(c.Now) {
		w := c.dampedWhere(&l)
		if !w.IsSet() {
			w = notice.Where{Node: l.A.Node, Port: int(l.A.Num), Known: true}
		}
		out = append(out, DampedLink{Where: w, Failures: l.Failures, Held: l.Held, Quiet: l.Until.Sub(l.Last), Left: l.Until.Sub(c.Now)})
	}
	return out
}

// heldProblems are the links kept out, as a snapshot shows them.
func (c *Core) heldProblems() (out []subnet.Problem) {
	if c.Fabric == nil {
		return nil
	}
	for _, l := range c.damped.All(c.Now) {
		w := c.dampedWhere(&l)
		if !w.IsSet() {
			continue
		}
		text := "the link failed " + strconv.Itoa(l.Failures) + " times in a row; it is let back in when it has been quiet for " +
			l.Until.Sub(l.Last).Round(time.Millisecond).String()
		out = append(out, subnet.Problem{Node: w.String(), GUID: l.A.Node, Port: l.A.Num, Kind: notice.KindLinkHeld.String(), Text: text})
	}
	return out
}
