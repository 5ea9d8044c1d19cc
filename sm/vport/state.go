package vport

import (
	"cmp"
	"slices"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sm/config"
	"heddle/sm/notice"
	"heddle/sm/topo"
	"heddle/subnet"
)

// Which adapters there are, and the states of their VPorts. What is asked next is in step.go, the
// requests and their answers in smp.go.
//
// Nothing is assumed to be known of an adapter whose port is new or was found in Init, or after a
// change of master. In other cases only VPorts whose state differs are read again. VPortStateChange is
// cleared before the states are read, so that a change meanwhile sets it again.

// Discovered joins the ports of a new discovery with the adapters that are known. whole: the
// discovery read the whole subnet.
func (m *Manager) Discovered(whole bool) {
	if m.Config.PlanOnly {
		return
	}
	known := len(m.list)
	m.Sweeper.Scope(func(p *topo.Port) {
		if n := &m.Fabric.Nodes[p.Node]; n.Info.NodeType == ib.NodeCA && p.Num != 0 {
			m.discoveredPort(n, p, whole)
		}
	})
	if whole {
		for _, a := range m.list {
			if a.at.Node >= 0 && m.EndPort(a.port) == nil {
				m.drop(a)
			}
		}
	}
	if len(m.list) > known {
		slices.SortFunc(m.list, func(a, b *Adapter) int { return cmp.Compare(a.port, b.port) })
	}
}

// discoveredPort joins a discovered CA port with its adapter, if it can be one.
func (m *Manager) discoveredPort(n *topo.Node, p *topo.Port, whole bool) {
	a := m.byPort[p.GUID]
	vports := m.Config.Virtualization != config.VirtualIgnore && p.Info.IsVirtualizationSupported()
	switch {
	case p.LID == 0 || !n.OK() || !vports && p.Info.GUIDCap <= 1:
		if a != nil && (p.LID != 0 || m.EndPort(p.GUID) == nil) {
			m.drop(a)
		}
		return
	case a == nil:
		a = &Adapter{port: p.GUID, at: subnet.NoRef(), kind: noKind}
		m.byPort[p.GUID] = a
		m.list = append(m.list, a)
	}
	back := a.at.Node < 0
	a.at = subnet.Ref{Node: p.Node, Port: p.Num}
	if !vports {
		if !a.kind.shared {
			m.downAll(a)
		}
		m.is(a, sharedKind)
		a.step, a.functions = adapterKnown, int(p.Info.GUIDCap)-1
		m.showAdapter(a)
		if back {
			m.needs.Placements.AdapterChanged(a) // placements wait for it
		}
		return
	}
	reset := p.Info.PortState <= ib.StateInit || p.Info.LID != p.LID
	if back || a.kind.shared || n.Flags&topo.NodeNew != 0 || reset {
		m.fresh(a)
	}
	if a.step < adapterKnown || len(a.look) > 0 || m.Config.SweepInterval <= 0 && whole {
		m.lookAdapter(a)
	}
	if len(a.vports) > 0 {
		m.relist = true // entries of VPorts have a copy of the port's
	}
}

// DropAsked forgets what is known of VPorts whose requests were canceled.
func (m *Manager) DropAsked() {
	for _, a := range m.list {
		if a.asked == 0 {
			continue
		}
		a.asked = 0
		for _, v := range a.vports {
			if v != nil && v.asked > 0 {
				v.asked, v.blocks, v.sending, v.unsure, v.confirm = 0, 0, nil, true, confirmNothing
				v.known &^= knowInfo | knowGUIDs
				m.Look(Ref{a, v.index})
			}
		}
		if a.step != adapterRefused {
			m.lookAdapter(a)
		}
	}
}

// fresh: nothing is known of an adapter, and what was found before does not count. VPorts keep the
// state that they were last seen in until they are read.
func (m *Manager) fresh(a *Adapter) {
	a.step, a.first, a.met, a.wasOn, a.running, a.tries, a.retryAt = adapterInfo, true, false, false, false, 0, 0
	if a.kind.shared {
		a.kind, a.functions = noKind, 0
		m.showAdapter(a)
	}
	for _, v := range a.vports {
		if v != nil {
			v.forget()
			v.seen = false
		}
	}
}

// drop: its port has left the subnet, and its VPorts with it.
func (m *Manager) drop(a *Adapter) {
	if a.at.Node < 0 {
		return
	}
	for _, v := range a.vports {
		if v != nil && v.state > ib.StateDown && v.known&knowInfo != 0 {
			for _, g := range append([]ib.GUID{v.info.PortGUID}, v.Aliases()...) {
				if g != 0 && !slices.Contains(a.held, g) {
					a.held = append(a.held, g)
				}
			}
		}
	}
	m.downAll(a)
	a.at, a.look, a.shows, a.functions = subnet.NoRef(), a.look[:0], nil, 0
	for _, v := range a.vports {
		if v != nil {
			v.queued, v.entered = false, false
		}
	}
	m.relist = true
	m.needs.Placements.Changed(Ref{a, 0})
}

// downAll: all VPorts of an adapter are down.
func (m *Manager) downAll(a *Adapter) {
	for _, v := range a.vports {
		if v != nil {
			m.setState(Ref{a, v.index}, ib.StateDown)
			v.forget()
		}
	}
}

// Due reports whether Upkeep has something to do.
func (m *Manager) Due() bool {
	return len(m.todo) > 0 || m.retry <= m.Now
}

// Waiting reports whether Upkeep has something to do that is not tried again.
func (m *Manager) Waiting() bool { return len(m.todo) > 0 }

// Look has a VPort looked at by Upkeep: what it is to hold may have changed. Index 0 is the adapter as
// a whole.
func (m *Manager) Look(r Ref) {
	if r.Index == 0 {
		m.lookAdapter(r.Adapter)
		return
	}
	if r.Adapter.at.Node < 0 {
		return
	}
	if v := r.Adapter.ensure(r.Index); !v.queued {
		v.queued = true
		r.Adapter.look = append(r.Adapter.look, r.Index)
	}
	m.queue(r.Adapter)
}

// lookAdapter has the states of all VPorts of an adapter read again.
func (m *Manager) lookAdapter(a *Adapter) {
	if a.at.Node < 0 || a.kind.shared {
		return
	}
	a.step = adapterInfo // what is under way may be of before
	a.clears = 0
	m.queue(a)
}

func (m *Manager) queue(a *Adapter) {
	if !a.queued {
		a.queued = true
		m.todo = append(m.todo, a)
	}
}

// wait has r looked at again at a time, which the adapter or VPort has too.
func (m *Manager) wait(r Ref, at mad.Time) {
	waiting := &r.Adapter.waiting
	if r.Index != 0 {
		waiting = &r.Adapter.vports[r.Index].waiting
	}
	if !*waiting {
		*waiting = true
		m.later = append(m.later, r)
	}
	m.retry = min(m.retry, at)
}

// wake queues what waited until now.
func (m *Manager) wake() {
	if m.retry > m.Now {
		return
	}
	m.retry = mad.Never
	list := m.later
	m.later = nil
	due := func(t *mad.Time) bool {
		if *t == 0 || *t > m.Now {
			return false
		}
		*t = 0
		return true
	}
	again := func(r Ref, times ...mad.Time) {
		for _, t := range times {
			if t != 0 {
				m.wait(r, t)
			}
		}
	}
	for _, r := range list {
		if r.Index == 0 {
			r.Adapter.waiting = false
			if due(&r.Adapter.retryAt) {
				m.queue(r.Adapter)
			}
			again(r, r.Adapter.retryAt)
			continue
		}
		v := r.VPort()
		v.waiting = false
		if due(&v.checkAt) {
			v.unsure = true
			v.known &^= knowInfo | knowGUIDs
			v.blocks = 0
			m.Look(r)
		}
		if retry, look := due(&v.retryAt), due(&v.lookAt); retry || look {
			m.Look(r)
		}
		again(r, v.checkAt, v.retryAt, v.lookAt)
	}
}

// forget: what was read of a VPort may not be true any more.
func (v *Port) forget() {
	v.known, v.blocks, v.noGUIDs = 0, 0, false
	v.refused, v.refusals, v.tries, v.retryAt = nil, 0, 0, 0
	v.confirm = confirmNothing
	if v.Keys != nil {
		v.Keys.Forget()
	}
}

// touchKeys tells that a VPort came, went, changed its state, or has other GUIDs than before. Its
// P_Keys, and those of the switch port before it, may have to change. Index 0 is the adapter as a
// whole.
func (m *Manager) touchKeys(r Ref) { m.needs.PKeys.Touch(r.Adapter.port) }

// setState notes the state of a VPort of which nothing else was read.
func (m *Manager) setState(r Ref, st ib.PortState) { m.becomes(r, st, &r.VPort().info) }

// becomes notes the state of a VPort. info is what it showed with it.
func (m *Manager) becomes(r Ref, st ib.PortState, info *smp.VPortInfo) {
	if st < ib.StateDown || st > ib.StateActive {
		st = ib.StateDown // of one that does not exist, or nonsense
	}
	v := r.VPort()
	old := v.state
	if old == st {
		return
	}
	v.state, v.info.VPortState = st, st
	m.states[old]--
	m.states[st]++
	if st < ib.StateArmed || old == ib.StateDown {
		v.met, v.anew = 0, false
	}
	switch {
	case st == ib.StateDown:
		m.release(r, v.info.PortGUID)
		keep := v.known & knowInfo
		v.forget()
		if r.Adapter.kind.assigned {
			v.known = keep // its LID and GUID stay until they are taken away
		}
		v.guids, v.found, v.told = nil, false, false
	case st == ib.StateInit: // it came up again, perhaps for another VM
		v.forget()
		v.found = false
	case old == ib.StateDown:
		v.forget()
		v.found = true
	}
	if old >= ib.StateArmed || st >= ib.StateArmed {
		m.Show(r)
	}
	switch {
	case st == ib.StateActive:
		m.tell(notice.KindVPortUp, r, info, "is Active", nil) // by the GUID that it has now
	case old == ib.StateActive:
		m.tell(notice.KindVPortDown, r, &v.info, "went down", nil) // by the GUID that it had
	}
	m.needs.Placements.Changed(r)
	m.touchKeys(r)
	m.Look(r)
}

// claim: r is known and not Down, and shows a GUID. If several VPorts show it, the first that was
// Active keeps it. If none was, one that may not come up gives way.
func (m *Manager) claim(r Ref) {
	v := r.VPort()
	g := v.info.PortGUID
	h, ok := m.byGUID[g]
	switch {
	case g == 0 || ok && h == r:
		return
	case !ok:
	case h.VPort().state < ib.StateArmed && (v.state >= ib.StateArmed || !m.mayComeUp(h) && m.mayComeUp(r)):
		m.rival(h, g)
	default:
		m.rival(r, g)
		return
	}
	m.byGUID[g] = r
	m.needs.Groups.MemberMoved(g)
	m.Show(r)
}

// mayComeUp reports whether a VPort may be brought to Active.
func (m *Manager) mayComeUp(r Ref) bool { return m.needs.Placements.Wanted(r).Up }

// rival has r wait for the VPort that has its GUID.
func (m *Manager) rival(r Ref, g ib.GUID) {
	if l := m.rivals[g]; !slices.Contains(l, r) {
		m.rivals[g] = append(l, r)
	}
	m.Show(r)
}

// release: r does not show a GUID any more.
func (m *Manager) release(r Ref, g ib.GUID) {
	l := slices.DeleteFunc(m.rivals[g], func(o Ref) bool { return o == r })
	if len(l) == 0 {
		delete(m.rivals, g)
	} else {
		m.rivals[g] = l
	}
	if m.byGUID[g] != r {
		return
	}
	delete(m.byGUID, g)
	delete(m.rivals, g)
	m.needs.Groups.MemberMoved(g)
	for _, o := range l {
		if ov := o.VPort(); ov.state > ib.StateDown && ov.known&knowInfo != 0 && ov.info.PortGUID == g {
			m.claim(o)
			m.needs.Placements.Changed(o)
			m.Look(o)
		}
	}
}

// lidOf is the LID that leads to a VPort: its own, that of the VPort whose LID it uses, or that of the
// port; 0 if it has none yet. wait: the LID of the other VPort is not known, or will change.
func (m *Manager) lidOf(r Ref) (lid ib.LID, wait bool) {
	a, v := r.Adapter, r.VPort()
	if v.info.LIDRequired {
		return v.info.VPortLID, false
	}
	port := m.Fabric.Port(a.at).LID
	i := v.info.LIDByVPortIndex
	if i == 0 || i == r.Index || i > a.info.VPortIndexTop {
		return port, false
	}
	o := a.ensure(i)
	if o.known&knowInfo == 0 {
		return 0, true
	}
	if !o.info.LIDRequired {
		return port, false
	}
	return o.info.VPortLID, o.info.VPortLID == 0 || o.info.VPortLID != m.needs.Placements.Wanted(Ref{a, i}).LID
}

// infoRead takes a VPortInfo that a VPort showed.
func (m *Manager) infoRead(r Ref, info *smp.VPortInfo) {
	v := r.VPort()
	v.readAt = m.Now
	m.becomes(r, info.VPortState, info)
	if r.Adapter.kind.hosted && v.state > ib.StateDown {
		switch {
		case v.met == 0 || v.state < ib.StateArmed:
			v.met = info.PortGUID
		case v.met != info.PortGUID:
			// Its host gave it to somebody else while a Set was on its way that was
			// meant for the one before, and so were its P_Keys.
			v.anew = true
		}
	}
	if v.known&knowInfo != 0 && v.info == *info {
		return
	}
	old := v.info
	v.info = *info
	v.info.ClientReregister = false
	v.known |= knowInfo
	v.seen, v.unsure = true, false
	if old.PortGUID != info.PortGUID {
		m.release(r, old.PortGUID)
	}
	if v.state > ib.StateDown {
		m.claim(r)
	}
	m.Show(r)
	m.needs.Placements.Changed(r)
	if old.PortGUID != info.PortGUID {
		m.touchKeys(r)
	}
	if old.VPortLID == info.VPortLID && old.LIDRequired == info.LIDRequired && !v.needed {
		return
	}
	for _, o := range r.Adapter.vports { // those that use its LID
		if o != nil && o.state > ib.StateDown && !o.info.LIDRequired && o.info.LIDByVPortIndex == r.Index {
			m.Show(Ref{r.Adapter, o.index})
			m.Look(Ref{r.Adapter, o.index})
		}
	}
}
