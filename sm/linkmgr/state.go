package linkmgr

import (
	"slices"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sm/topo"
	"heddle/sm/work"
)

// Moves reports whether the manager moves the state of a port: an enhanced port 0, or a port of
// a link whose two ends were configured.
func (m *Manager) Moves(p *topo.Port) bool {
	f := m.Fabric
	n := &f.Nodes[p.Node]
	if !p.Has(topo.PortKnown) || !n.OK() || p.Has(topo.PortFailed) {
		return false
	}
	if p.Num == 0 {
		return n.IsSwitch() && n.Switch.EnhancedPort0 && p.LID != 0
	}
	if !p.Has(topo.PortLinked) || p.Has(topo.PortEnd) && p.LID == 0 {
		return false
	}
	q := f.Port(p.Peer)
	return !q.Has(topo.PortFailed) && !(q.Has(topo.PortEnd) && q.LID == 0)
}

// SetLevels lists the Sets of end ports that have another service level for datagrams to the
// manager than was chosen, but for those that Arm sets.
func (m *Manager) SetLevels() {
	sl, _ := m.ManagerLevel()
	m.Sweeper.Scope(func(p *topo.Port) {
		if p.Has(topo.PortEnd) && p.Info.MasterSMSL != sl && !(m.Moves(p) && p.Info.PortState == ib.StateInit) {
			m.setPort(p)
		}
	})
}

// Arm lists the Sets that move ports from Init to Armed. running says that links between switches
// carry data.
func (m *Manager) Arm(running bool) {
	f := m.Fabric
	last := int32(-1) // the last switch whose port 0 is read
	m.Sweeper.Scope(func(p *topo.Port) {
		if !m.Moves(p) || p.Info.PortState != ib.StateInit {
			return
		}
		m.Report.Armed++
		m.Add(work.Make(work.OpArm, p.Node, p.Num, 0))
		if p.Num == 0 {
			return
		}
		if running && p.Node != last && f.Nodes[p.Node].IsSwitch() {
			// The switch may have been reset after its LID was read or set, and a late copy
			// of a Set may have cleared its PortStateChange.
			last = p.Node
			m.Add(work.Make(work.OpPortAgain, p.Node, 0, 0))
		}
		// Both ends of a link that comes up begin in Init. If the far end shows another
		// state, it was read before the link failed.
		if q := f.Port(p.Peer); q.Info.PortState >= ib.StateArmed {
			m.Add(work.Make(work.OpPortAgain, q.Node, q.Num, 0))
		}
	})
}

// Activate lists the Sets that move ports from Armed to Active. A link is activated when both of
// its ends are Armed.
func (m *Manager) Activate() {
	m.Sweeper.Scope(func(p *topo.Port) {
		if !m.Moves(p) || p.Info.PortState != ib.StateArmed {
			return
		}
		if p.Num != 0 && m.Fabric.Port(p.Peer).Info.PortState < ib.StateArmed {
			return
		}
		m.Report.Activated++
		m.Add(work.Make(work.OpActive, p.Node, p.Num, 0))
	})
}

// buildState fills in a Set that changes the state of a port. The other fields have what is
// wanted, not what was read: nonsense in an answer must not become the port's key or LID.
func (m *Manager) buildState(p *topo.Port, to ib.PortState, set func(ib.AttrID, uint32) []byte) {
	w, _, _ := m.wanted(p)
	w.LinkWidthEnabled, w.LinkSpeedEnabled, w.LinkSpeedExtEnabled = 0, 0, 0
	w.OperationalVLs, w.ClientReregister = 0, false
	w.PortState = to
	w.Put(set(smp.AttrPortInfo, smp.PortInfoMod(p.Num, false)))
}

// answeredState takes the answer to a change of state. The state in the answer decides, not the
// status: agents answer 0x001C if the port has reached the state by itself, and success if it did
// not move.
func (m *Manager) answeredState(it work.Item, comp *mad.Completion, want ib.PortState) {
	n, num := it.Node(), it.Port()
	p := m.Fabric.PortOf(n, num)
	failed := func(err error) { m.Sweeper.SetFailed(n, int(num), "moving the port to "+want.String(), err) }
	err := m.decode(comp)
	pi := &m.info
	if err == nil {
		err = m.needs.Identity.Plausible(p, pi)
	}
	if err != nil {
		failed(err)
		return
	}
	pi.ClientReregister = false
	p.Info = *pi
	// Port 0 of a switch may have no states, whatever SwitchInfo says.
	if pi.PortState < want && p.Num != 0 {
		failed(work.Unchanged(comp))
	}
}

// TakeDown lists the Sets that take all links down, the farthest first, so that the path to each
// is still there. The last link of our own node stays up.
func (m *Manager) TakeDown() {
	f := m.Fabric
	type far struct {
		hops int
		p    *topo.Port
	}
	var list []far
	for i := range f.Ports {
		p := &f.Ports[i]
		if !p.Has(topo.PortLinked) || p.Num == 0 || p.Info.PortState < ib.StateArmed || !f.Nodes[p.Node].IsSwitch() {
			continue
		}
		// Each link once, from the end that is nearer to us.
		q := f.Port(p.Peer)
		hp, hq := len(f.AgentPath(p.Node, p.Num)), len(f.AgentPath(q.Node, q.Num))
		if f.Nodes[q.Node].IsSwitch() && (hq < hp || hq == hp && q.Node < p.Node) {
			continue
		}
		if q.Node == f.Self.Node {
			continue // the port could not be reached afterwards
		}
		list = append(list, far{hp, p})
	}
	slices.SortStableFunc(list, func(a, b far) int { return b.hops - a.hops })
	for _, x := range list {
		m.Report.Downed++
		m.Add(work.Make(work.OpDown, x.p.Node, x.p.Num, 0))
	}
}

// answeredDown takes the answer to a Set that took a link down. Both ends come back in Init,
// whatever the answer shows.
func (m *Manager) answeredDown(it work.Item, comp *mad.Completion) {
	p := m.Fabric.PortOf(it.Node(), it.Port())
	if comp.Err != nil {
		m.Sweeper.SetFailed(it.Node(), int(it.Port()), "taking the link down", comp.Err)
		return
	}
	p.Info.PortState = ib.StateInit
	m.Fabric.Port(p.Peer).Info.PortState = ib.StateInit
}
