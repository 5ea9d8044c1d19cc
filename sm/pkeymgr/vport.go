package pkeymgr

import (
	"slices"

	"heddle/ib"
	"heddle/mad"
	"heddle/partition"
	"heddle/sm/pkey"
	"heddle/sm/topo"
	"heddle/sm/vport"
)

// Ready reports whether a virtual port may become Active: its P_Key table is as it should be, as far as
// that is possible, and the switch port before it lets its keys pass. If not, the tables are written,
// and the virtual port is looked at again after that. The table is read first, whatever is known of the
// time before the port came up. If a copy of an earlier Set may have undone what was written since,
// it is read again.
func (m *Manager) Ready(r vport.Ref) bool {
	p := m.EndPort(r.Adapter.PortGUID())
	if p == nil || r.VPort() == nil {
		return false
	}
	h := holder{p, r.Adapter, r.VPort()}
	if !h.v.TakesPart() {
		return false
	}
	t := m.met(h)
	t.OKGen = 0 // it may be made ready for another GUID than before
	switch {
	case !m.settled(h) || !m.edgeLets(h):
	case h.v.State() < ib.StateActive && !h.v.Confirming() && m.mayRevert(h):
		h.v.ConfirmKeys()
		t.Forget()
		if m.step(h, passGrant) {
			return false
		}
	default:
		t.OKGen = m.gen
		return true
	}
	m.Touch(p.GUID)
	return false
}

// mayRevert reports whether the network may still deliver a copy of an earlier Set to a table: of one of
// ours that another one followed soon, or of an earlier manager's.
func (m *Manager) mayRevert(h holder) bool {
	t := m.table(h)
	if t.Refused || m.capacity(h) == 0 {
		return false
	}
	return t.Ghost != nil && t.GhostAt > m.Now || m.reread != mad.Never && m.reread > m.Now
}

// met is the table of a virtual port. After the port came up nothing is known of it any more.
func (m *Manager) met(h holder) *pkey.Table {
	t := m.table(h)
	if h.v.MeetKeys() {
		t.Forget()
		t.Refused, t.Tries, t.RetryAt = false, 0, 0
	}
	return t
}

// edgeLets reports whether the switch port before a virtual port lets packets with all its keys pass.
func (m *Manager) edgeLets(h holder) bool {
	q := m.edgeOf(h.p)
	if q == nil || enforced(&q.Info) == (enforcement{}) {
		return true
	}
	have := m.ShownAt(q)
	stopped := func(k ib.PKey) bool { return !slices.Contains(have, k) && !slices.Contains(have, k|0x8000) }
	return !slices.ContainsFunc(partition.EdgeKeys(m.pkeysWanted(h)), stopped)
}

// sweepVPorts has the tables of virtual ports written whose port comes back, if they held keys that they
// must not hold any more. The state of a virtual port outlasts the link of its port: those that were
// Active are so again at once when the link is. A VM that came to one meanwhile is in Init, and its
// table is written before it becomes Active.
func (m *Manager) sweepVPorts(p *topo.Port) {
	a := m.needs.VPorts.Adapter(p.GUID)
	if a == nil {
		return
	}
	for _, v := range a.VPorts() {
		if v == nil || v.Keys == nil || v.Keys.Life != m.life {
			continue
		}
		h := holder{p, a, v}
		strange := m.strange(h)
		if !slices.ContainsFunc(v.Keys.Have, strange) && !slices.ContainsFunc(v.Keys.Ghost, strange) {
			continue
		}
		v.Keys.Forget()
		v.Keys.RetryAt = 0
		m.step(h, passGrant)
	}
}
