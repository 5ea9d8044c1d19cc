package vport

import (
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sm/work"
)

// Changes of VPorts are noticed by trap 1146 or 1144. If a trap was lost, or is ignored because too
// many came, the next light sweep sees VPortStateChange. Neither leads to a sweep: upkeep looks at the
// adapter.

// LightSweep asks each adapter whether a VPort changed state.
func (m *Manager) LightSweep() {
	for _, a := range m.list {
		if a.step == adapterKnown && !a.kind.shared && m.ready(a) {
			m.Add(work.Make(work.OpLightVirt, a.at.Node, a.at.Port, 0))
		}
	}
}

// answeredLight takes the answer of an adapter to a light sweep. It looks at the adapter again if
// something changed, or if the adapter was reset without its link going down. Other parts of the light
// sweep deal with ports that do not answer.
func (m *Manager) answeredLight(a *Adapter, comp *mad.Completion) {
	var i smp.VirtualizationInfo
	if work.Answer(comp) != nil || i.Decode(smp.Data(comp.MAD)) != nil {
		return
	}
	switch {
	case !i.VirtualizationEnable:
		m.fresh(a)
		m.lookAdapter(a)
	case i.VPortStateChange, min(i.VPortIndexTop, i.VPortCap) != a.info.VPortIndexTop:
		m.lookAdapter(a)
	}
}

// byLID finds the adapter whose port, or one of whose VPorts, has a LID.
func (m *Manager) byLID(lid ib.LID) *Adapter {
	if m.Snapshot == nil {
		return nil
	}
	i := m.Snapshot.PortByLID(lid)
	if i < 0 {
		return nil
	}
	if v := m.Snapshot.Ports[i].Virtual; v != nil {
		i = v.Port
	}
	return m.byPort[m.Snapshot.Ports[i].GUID]
}

// Trapped takes trap 1144 or 1146 from a LID: the VPorts of a port changed. Both stand for all VPorts
// of the port; the index that 1144 has is a hint. If there is no such adapter, its port is read by
// the sweep that finds it, or its VPorts are not managed.
func (m *Manager) Trapped(trap uint16, issuer ib.LID) {
	a := m.byLID(issuer)
	if a == nil || a.at.Node < 0 || a.kind.shared {
		return
	}
	if trap == smp.TrapVPortChange {
		for _, v := range a.vports {
			if v != nil && v.state > ib.StateDown {
				v.known &^= knowInfo | knowDesc
				m.Look(Ref{a, v.index})
			}
		}
	}
	m.lookAdapter(a)
}
