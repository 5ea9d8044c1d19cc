package linkmgr

import (
	"slices"
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sm/notice"
	"heddle/sm/topo"
	"heddle/sm/work"
	"heddle/store"
	"heddle/subnet"
)

// actions are the links that are to be without routes.
type actions struct {
	list []subnet.PortAction
	// kept are those whose link is the last one between parts of the subnet, so that it keeps its
	// routes.
	kept map[topo.PortID]bool
	// due is when a drained link that is to be disabled is looked at again, by the key of its action.
	due map[topo.PortID]due
	// slow are links without routes because they are slower than they could be, by their first ends.
	slow  map[topo.PortID]bool
	later putOff
}

// due is when a link is looked at again. Free: no entry leads over it, and it is disabled then.
type due struct {
	at   mad.Time
	free bool
}

// LinkWait is a link with which something is done at a time, when packets of earlier tables have left.
type LinkWait struct {
	Node ib.GUID
	Port uint8
	At   mad.Time
}

// Disabling lists the links that are to be disabled when packets have left them, in the order of the actions.
func (m *Manager) Disabling() (list []LinkWait) {
	for i := range m.actions.list {
		a := &m.actions.list[i]
		if d, ok := m.actions.due[actionID(a)]; ok && d.free {
			list = append(list, LinkWait{a.Node, a.Port, d.at})
		}
	}
	return list
}

func actionID(a *subnet.PortAction) topo.PortID { return topo.PortID{Node: a.Node, Port: a.Port} }

// LoadActions takes the actions of the store. Records that cannot be read are left out.
func (m *Manager) LoadActions(records []store.Record) {
	var list []subnet.PortAction
	for i := range records {
		if r := &records[i]; r.Table == store.TablePortActions {
			if a, err := subnet.DecodePortAction(r.Key, r.Value); err == nil {
				list = append(list, a)
			}
		}
	}
	m.SetActions(list)
}

// hasAction reports whether a list has an action of a link.
func hasAction(list []subnet.PortAction, a *subnet.PortAction) bool {
	return slices.ContainsFunc(list, func(b subnet.PortAction) bool {
		return a.Kind == b.Kind && a.Node == b.Node && a.Port == b.Port && a.Peer == b.Peer && a.PeerPort == b.PeerPort
	})
}

// SetActions replaces the actions. It returns the ports that the next sweep is to look at.
func (m *Manager) SetActions(list []subnet.PortAction) (look []topo.PortID) {
	was := m.actions.list
	m.actions.list = slices.Clone(list)
	for _, x := range [2][2][]subnet.PortAction{{list, was}, {was, list}} {
		for i := range x[0] {
			if a := &x[0][i]; !hasAction(x[1], a) {
				look = append(look, topo.PortID{Node: a.Node, Port: a.Port}, topo.PortID{Node: a.Peer, Port: a.PeerPort})
				delete(m.actions.due, actionID(a))
			}
		}
	}
	return slices.DeleteFunc(look, func(id topo.PortID) bool {
		if m.Fabric == nil {
			return true
		}
		i, ok := m.Fabric.Find(id.Node)
		return !ok || !m.Fabric.Nodes[i].IsSwitch() || id.Port > m.Fabric.Nodes[i].Info.NumPorts
	})
}

// ends are the ports of an action that the subnet has; Node is -1 of one that it has not.
func (m *Manager) ends(a *subnet.PortAction) (out [2]ref) {
	for k, id := range [2]topo.PortID{{Node: a.Node, Port: a.Port}, {Node: a.Peer, Port: a.PeerPort}} {
		out[k] = subnet.NoRef()
		if i, ok := m.Fabric.Find(id.Node); ok && id.Port <= m.Fabric.Nodes[i].Info.NumPorts {
			out[k] = ref{Node: i, Port: id.Port}
		}
	}
	return out
}

// linked are the ends of an action's link if the subnet has that link, as it was planned.
func (m *Manager) linked(a *subnet.PortAction) (ends [2]ref, ok bool) {
	ends = m.ends(a)
	if ends[0].Node < 0 || ends[1].Node < 0 {
		return ends, false
	}
	p := m.Fabric.Port(ends[0])
	return ends, p.Has(topo.PortLinked) && p.Peer == ends[1]
}

// MarkDrained marks the ports of links that are to have no routes, before the graph is built: those of
// actions, and with AvoidThrottled those that are slower than they could be. It calls touch with the
// nodes of actions and of other marks than before. A link without which a part of the subnet could not
// be reached keeps its routes.
func (m *Manager) MarkDrained(touch func(n int32)) {
	f := m.Fabric
	var links [][2]ref
	var of []*subnet.PortAction
	out := map[ref]bool{} // ends of links that are to have no routes
	m.forgetPutOff()
	for i := range m.actions.list {
		a := &m.actions.list[i]
		ends, ok := m.linked(a)
		if !ok || a.Kind == subnet.Restore || ends[0] == f.Self || ends[1] == f.Self || !f.Nodes[ends[0].Node].IsSwitch() || !f.Nodes[ends[1].Node].IsSwitch() {
			continue // the only port of a LID has its routes as long as it is up
		}
		if touch(ends[0].Node); m.actions.later.has(m, ends) {
			continue
		}
		links, of = append(links, ends), append(of, a)
		out[ends[0]], out[ends[1]] = true, true
		touch(ends[1].Node)
	}
	slow := slices.DeleteFunc(m.throttled(out), func(ends [2]ref) bool { return m.actions.later.has(m, ends) })
	for _, ends := range slow {
		out[ends[0]], out[ends[1]] = true, true
	}
	if len(out) > 0 {
		part := m.parts(out)
		keep := func(ends [2]ref) bool {
			a, b := part.find(ends[0].Node), part.find(ends[1].Node)
			if a == b {
				return false
			}
			part[a] = b
			delete(out, ends[0])
			delete(out, ends[1])
			return true
		}
		for _, ends := range slow { // before links that somebody wants to be without routes
			keep(ends)
		}
		m.keepActions(links, of, keep)
	} else {
		m.actions.kept = nil
	}
	for _, r := range f.Drained {
		if p := f.Port(r); p.Has(topo.PortDrained) && !out[r] {
			p.Flags &^= topo.PortDrained
			touch(r.Node)
		}
	}
	f.Drained = f.Drained[:0]
	for _, ends := range append(links, slow...) {
		for _, r := range ends {
			f.Drained = append(f.Drained, r)
			if p := f.Port(r); out[r] && !p.Has(topo.PortDrained) {
				p.Flags |= topo.PortDrained
				touch(r.Node)
			}
		}
	}
	m.sayThrottled(slow, out)
}

// keepActions notes for which actions keep says that the link keeps its routes.
func (m *Manager) keepActions(links [][2]ref, of []*subnet.PortAction, keep func(ends [2]ref) bool) {
	f, kept := m.Fabric, map[topo.PortID]bool{}
	for i, ends := range links {
		if !keep(ends) {
			continue
		}
		id := actionID(of[i])
		kept[id] = true
		if !m.actions.kept[id] {
			m.Notify(notice.Notice{
				Kind: notice.KindDrainKept, Level: notice.Warn, Where: f.Where(ends[0].Node, int(ends[0].Port)), Peer: f.Where(ends[1].Node, int(ends[1].Port)),
				Text: "the link keeps its routes although it is to be drained: it is the last one to a part of the subnet",
			})
		}
	}
	m.actions.kept = kept
}

// parts says which nodes are joined by links that are to have routes.
type parts []int32

func (p parts) find(n int32) int32 {
	for p[n] != n {
		p[n] = p[p[n]]
		n = p[n]
	}
	return n
}

// parts joins nodes by all links but those with an end in out.
func (m *Manager) parts(out map[ref]bool) parts {
	f := m.Fabric
	p := make(parts, len(f.Nodes))
	for i := range p {
		p[i] = int32(i)
	}
	for i := range f.Ports {
		q := &f.Ports[i]
		// A port of a CA or router has one link, which alone leads to its LID.
		if q.Has(topo.PortLinked) && q.Num != 0 && f.Nodes[q.Node].IsSwitch() && !out[ref{Node: q.Node, Port: q.Num}] {
			p[p.find(q.Node)] = p.find(q.Peer.Node)
		}
	}
	return p
}

// isolated reports whether a link is to be disabled.
func (m *Manager) isolated(a, b ref) bool {
	for i := range m.actions.list {
		if x := &m.actions.list[i]; x.Kind == subnet.Isolate {
			if ends := m.ends(x); ends == [2]ref{a, b} || ends == [2]ref{b, a} {
				return true
			}
		}
	}
	return false
}

// again is after how long a drained link is looked at again that still has entries.
const again = time.Second

// CarryOut lists the Sets that disable drained links and enable restored ones. It is called when the
// tables of the sweep are written. flight is how long a packet may be on its way to a link; 0: nobody
// knows.
func (m *Manager) CarryOut(flight time.Duration) {
	for i := range m.actions.list {
		a := &m.actions.list[i]
		switch a.Kind {
		case subnet.Isolate:
			m.disable(a, flight)
		default:
			m.enable(a)
		}
	}
}

// disable disables an isolated link when no entry leads over it, and packets have had time to leave it.
// The only link of a host is disabled without delay: its LID keeps its routes, so waiting would not empty
// the link, and packets to the host are lost in any case.
func (m *Manager) disable(a *subnet.PortAction, flight time.Duration) {
	ends, ok := m.linked(a)
	if !ok || !m.Fabric.Port(ends[0]).Has(topo.PortDrained) && m.Fabric.Nodes[ends[1].Node].IsSwitch() {
		// A time that stays here would remain due, and each sweep would ask for the next one at once.
		delete(m.actions.due, actionID(a))
		return
	}
	if m.actions.due == nil {
		m.actions.due = map[topo.PortID]due{}
	}
	id := actionID(a)
	switch d := m.actions.due[id]; {
	case !m.Fabric.Nodes[ends[1].Node].IsSwitch():
	case m.used(ends[0]) || m.used(ends[1]):
		m.actions.due[id] = due{m.Now.Add(again), false}
		return
	case !d.free:
		m.actions.due[id] = due{m.Now.Add(max(flight, time.Millisecond)), true}
		return
	case d.at > m.Now:
		return
	}
	delete(m.actions.due, id)
	// The Set must not go over the link itself: its answer would be lost.
	at := ends[0]
	if m.Fabric.Nodes[at.Node].Via == ends[1] && m.Fabric.Nodes[ends[1].Node].IsSwitch() {
		at = ends[1]
	}
	m.Report.Downed++
	m.Add(work.Make(work.OpDisable, at.Node, at.Port, 0))
}

// used reports whether a switch has entries for a port, as far as is known.
func (m *Manager) used(at ref) bool {
	n := &m.Fabric.Nodes[at.Node]
	if !n.IsSwitch() || n.LFT == nil || !m.Fabric.Nodes[m.Fabric.Port(at).Peer.Node].IsSwitch() {
		return false
	}
	return slices.Contains(n.LFT.Installed(), at.Port)
}

// enable enables the ends of a link that are disabled.
func (m *Manager) enable(a *subnet.PortAction) {
	for _, at := range m.ends(a) {
		if at.Node < 0 || !m.Fabric.Nodes[at.Node].IsSwitch() {
			continue
		}
		if p := m.Fabric.Port(at); p.Has(topo.PortKnown) && p.Info.PortPhysicalState == ib.PhysDisabled {
			m.Add(work.Make(work.OpEnable, at.Node, at.Port, 0))
		}
	}
}

// buildPhysical fills in a Set that changes the physical state of a port.
func (m *Manager) buildPhysical(p *topo.Port, to ib.PhysState, set func(ib.AttrID, uint32) []byte) {
	w := p.Info
	keep(&w)
	w.LinkDownDefaultState = ib.PhysPolling
	w.PortPhysicalState = to
	w.Put(set(smp.AttrPortInfo, smp.PortInfoMod(p.Num, false)))
}

// answeredPhysical takes the answer to it. What follows of it is found by reading the port again.
func (m *Manager) answeredPhysical(it work.Item, comp *mad.Completion, what string) {
	n, num := it.Node(), it.Port()
	if err := m.decode(comp); err != nil {
		m.Sweeper.SetFailed(n, int(num), what, err)
		return
	}
	where := m.Fabric.Where(n, int(num))
	m.Notify(notice.Notice{Kind: notice.KindPortAction, Level: notice.Info, Where: where, Text: what + ": " + where.String()})
	m.needs.Discovery.AskRegion(n, what+": "+where.String())
}

// nextAction is when MarkDrained or CarryOut has to be called again; mad.Never if nothing waits. The first sweep of a
// mastership calls them in any case.
func (m *Manager) nextAction() (t mad.Time) {
	if m.State != subnet.Master {
		return mad.Never
	}
	t = m.actions.later.next()
	for _, d := range m.actions.due {
		t = min(t, d.at)
	}
	return t
}

// DueActions are the switches of links that are to be disabled now, or to have no routes from now on, which the
// next sweep is to read.
func (m *Manager) DueActions() (switches []ib.GUID) {
	if x := &m.actions.later; x.next() <= m.Now {
		for id := range x.links {
			switches = append(switches, id.Node)
		}
		slices.Sort(switches)
	}
	for i := range m.actions.list {
		if d, ok := m.actions.due[actionID(&m.actions.list[i])]; ok && d.at <= m.Now {
			switches = append(switches, m.actions.list[i].Node)
		}
	}
	return switches
}
