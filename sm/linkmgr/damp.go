package linkmgr

import (
	"strconv"
	"time"

	"heddle/ib"
	"heddle/mad"
	"heddle/sm/damp"
	"heddle/sm/notice"
	"heddle/sm/topo"
	"heddle/subnet"
)

type ref = subnet.Ref

// DampedLink is a link that is kept out of the subnet because it failed repeatedly.
type DampedLink struct {
	Where    topo.Where    // one end, a switch port
	Failures int           // in a row
	Held     bool          // held down; else only let back in later
	Quiet    time.Duration // how long it must be quiet
	Left     time.Duration // how much of that is left
}

// NextRelease is when Release is due, mad.Never if no link is kept out or is to be disabled.
func (m *Manager) NextRelease() mad.Time { return min(m.damped.Next(), m.nextAction()) }

// dampPort names a port of the fabric for package damp: the zero Port if it is not on a switch.
func (m *Manager) dampPort(at ref) damp.Port {
	n := &m.Fabric.Nodes[at.Node]
	if !n.IsSwitch() {
		return damp.Port{}
	}
	return damp.Port{Node: n.Info.NodeGUID, Num: at.Port}
}

// LinkFailed counts a failure of the active link between a and b.
func (m *Manager) LinkFailed(a, b ref) {
	f := m.Fabric
	if a == f.Self || b == f.Self || !m.Up || m.isolated(a, b) {
		return
	}
	if !f.Nodes[a.Node].IsSwitch() {
		a, b = b, a
	}
	l, held := m.damped.Failed(m.Now, m.dampPort(a), m.dampPort(b))
	if held {
		m.Notify(notice.Notice{
			Kind: notice.KindLinkHeld, Level: notice.Warn,
			Where: f.Where(a.Node, int(a.Port)), Peer: f.Where(b.Node, int(b.Port)),
			Text: "the link failed " + strconv.Itoa(l.Failures) + " times in a row and is held down until it has been quiet for " +
				l.Until.Sub(l.Last).String() + ": check the cable",
		})
	}
}

// KeptOut reports whether the link at a port is kept out, and marks the port. changed says that
// its state changed again, so the quiet time starts again.
func (m *Manager) KeptOut(at ref, changed bool) bool {
	p := m.Fabric.Port(at)
	p.Flags &^= topo.PortHeld
	if !m.damped.KeptOut(m.Now, m.dampPort(at), changed) {
		return false
	}
	p.Flags |= topo.PortHeld
	return true
}

// Release lets links back in whose time is over. It returns the node GUIDs of their switches, which the
// next sweep is to read.
func (m *Manager) Release() (switches []ib.GUID) {
	for _, l := range m.damped.Release(m.Now) {
		if l.Held {
			m.Notify(notice.Notice{
				Kind: notice.KindLinkReleased, Level: notice.Info, Where: m.dampedWhere(&l),
				Text: "the link was quiet and is no longer held down",
			})
		}
		for _, e := range [2]damp.Port{l.A, l.B} {
			if e.Node != 0 && m.Fabric != nil {
				if _, ok := m.Fabric.Find(e.Node); ok {
					switches = append(switches, e.Node)
				}
			}
		}
	}
	return switches
}

// dampedWhere is one end of a link, the zero Where if its switch is gone.
func (m *Manager) dampedWhere(l *damp.Link) notice.Where {
	if m.Fabric != nil {
		if i, ok := m.Fabric.Find(l.A.Node); ok {
			return m.Fabric.Where(i, int(l.A.Num))
		}
	}
	return notice.Where{}
}

// Compare finds the links that failed since the last sweep, after a full one.
func (m *Manager) Compare() {
	f, g := m.Fabric, m.Last
	if g == nil || g == f || !m.Up {
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
			if !q.Has(topo.PortLinked) || q.Info.PortState < ib.StateArmed ||
				!p.Has(topo.PortKnown) || p.Info.PortState >= ib.StateArmed {
				continue
			}
			// A link between switches is seen from both ends, and counted once.
			b, ok := f.Find(g.Nodes[q.Peer.Node].Info.NodeGUID)
			if !ok || f.Nodes[b].Info.NumPorts < q.Peer.Port || f.Nodes[b].IsSwitch() && b < int32(i) {
				continue
			}
			m.LinkFailed(ref{Node: int32(i), Port: uint8(k)}, ref{Node: b, Port: q.Peer.Port})
			if m.KeptOut(ref{Node: int32(i), Port: uint8(k)}, false) {
				if f.Nodes[b].IsSwitch() {
					m.KeptOut(ref{Node: b, Port: q.Peer.Port}, false)
				}
				m.forgetFarEnd(p)
			}
		}
	}
}

// forgetFarEnd forgets the far end of a link that has just been taken out. When the link is let
// back in, its far end is read again, as after a region sweep.
func (m *Manager) forgetFarEnd(p *topo.Port) {
	if p.Peer == subnet.NoRef() {
		return
	}
	q := m.Fabric.Port(p.Peer)
	for _, x := range [2]*topo.Port{p, q} {
		x.Peer = subnet.NoRef()
		x.Flags &^= topo.PortLinked | topo.PortMeasured | topo.PortProved
	}
}

// Damped lists the links that are kept out.
func (m *Manager) Damped() (out []DampedLink) {
	if m.Fabric == nil {
		return nil
	}
	for _, l := range m.damped.All(m.Now) {
		w := m.dampedWhere(&l)
		if !w.IsSet() {
			w = notice.Where{Node: l.A.Node, Port: int(l.A.Num), Known: true}
		}
		out = append(out, DampedLink{
			Where: w, Failures: l.Failures, Held: l.Held, Quiet: l.Until.Sub(l.Last), Left: l.Until.Sub(m.Now),
		})
	}
	return out
}

// Problems are the links that are kept out, as a snapshot shows them.
func (m *Manager) Problems() (out []subnet.Problem) {
	if m.Fabric == nil {
		return nil
	}
	for _, l := range m.damped.All(m.Now) {
		w := m.dampedWhere(&l)
		if !w.IsSet() {
			continue
		}
		out = append(out, subnet.Problem{
			Node: w.String(), GUID: l.A.Node, Port: l.A.Num, Kind: notice.KindLinkHeld.String(),
			Text: "the link failed " + strconv.Itoa(l.Failures) + " times in a row; it is let back in when it has been quiet for " +
				l.Until.Sub(l.Last).Round(time.Millisecond).String(),
		})
	}
	return out
}
