package pkeymgr

import (
	"slices"

	"heddle/ib"
	"heddle/mad"
	"heddle/sm/pkey"
	"heddle/sm/topo"
	"heddle/sm/vport"
)

// Ready reports whether the P_Key table of a virtual port is as it should
// be, or can be no better, and the switch port before it lets its keys pass, so
// that it may become Active. If not, that is seen to, and the virtual port is
// looked at again when it is done. What was in the table when it came up counts
// for nothing: it is read first, and where a copy of an older Set may have undone
// what was written since, again.
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
	t.OKGen = 0 // it may be made ready for somebody else than before
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

// mayRevert reports whether the network may still deliver a copy of an older Set to
// the table of a holder: of one of ours that another one followed soon, or of what a
// predecessor sent.
func (m *Manager) mayRevert(h holder) bool {
	t := m.table(h)
	if t.Refused || m.capacity(h) == 0 {
		return false
	}
	return t.Ghost != nil && t.GhostAt > m.Now || m.reread != mad.Never && m.reread > m.Now
}

// met is the table of a virtual port; of one that came up nothing is known of
// it any more.
func (m *Manager) met(h holder) *pkey.Table {
	t := m.table(h)
	if h.v.MeetKeys() {
		t.Forget()
		t.Refused, t.Tries, t.RetryAt = false, 0, 0
	}
	return t
}

// edgeLets reports whether the switch port before a virtual port lets packets with
// all its keys pass.
func (m *Manager) edgeLets(h holder) bool {
	q := m.edgeOf(h.p)
	if q == nil || enforced(&q.Info) == (enforcement{}) {
		return true
	}
	have := m.ShownAt(q)
	return !slices.ContainsFunc(edgeKeys(m.pkeysWanted(h)), func(k ib.PKey) bool { return !slices.Contains(have, k) && !slices.Contains(have, k|0x8000) })
}

// sweepVPorts has the tables of virtual ports put right whose port comes back, if
// they held what they must not hold any more. The state of a virtual port outlasts
// its port's link: those that were Active are so at once when the link is. Whoever
// came to one meanwhile is in Init, and seen to before that is Active.
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
		if strange := m.strange(h); !slices.ContainsFunc(v.Keys.Have, strange) && !slices.ContainsFunc(v.Keys.Ghost, strange) {
			continue
		}
		v.Keys.Forget()
		v.Keys.RetryAt = 0
		m.step(h, passGrant)
	}
}
