package linkmgr

import (
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sm/topo"
	"heddle/sm/work"
)

// A manager that takes a subnet over tells ports that it is their manager now before it reads the
// subnet. The Set is the one that a sweep would send, so that the sweep does not send it again.

// Lacks reports whether a port that was just read lacks nothing but to know its manager.
func (m *Manager) Lacks(p *topo.Port) bool {
	w, ext, ok := m.wanted(p)
	if !ok || ext || w.MasterSMLID == p.Info.MasterSMLID {
		return false
	}
	same := w
	same.MasterSMLID, same.MasterSMSL, same.ClientReregister = p.Info.MasterSMLID, p.Info.MasterSMSL, false
	return !differs(&same, &p.Info, false)
}

// buildTell fills in the Set that tells a port.
func (m *Manager) buildTell(p *topo.Port, set func(ib.AttrID, uint32) []byte) bool {
	w, ext, ok := m.wanted(p)
	if ok {
		w.Put(set(smp.AttrPortInfo, smp.PortInfoMod(p.Num, ext)))
	}
	return ok
}

// AnsweredTell takes the answer to it, and reports whether the port knows. It need not be told again.
func (m *Manager) AnsweredTell(it work.Item, comp *mad.Completion) bool {
	p := m.Fabric.PortOf(it.Node(), it.Port())
	if m.decode(comp) != nil || m.info.MasterSMLID != m.SMLID() || m.info.LID != p.LID {
		return false
	}
	if m.told == nil {
		m.told = map[ib.GUID]bool{}
	}
	m.told[p.GUID] = true
	return true
}

// ForgetTold is called when the subnet is up in this mastership, or the mastership ends.
func (m *Manager) ForgetTold() { m.told = nil }
