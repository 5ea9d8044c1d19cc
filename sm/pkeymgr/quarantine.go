package pkeymgr

import (
	"slices"

	"heddle/ib"
	"heddle/mad"
	"heddle/sm/topo"
)

// releaseKeys takes keys out of quarantine that only ports hold that may. It reports whether a partition
// in force has one of them.
func (m *Manager) releaseKeys() bool {
	if len(m.freed) == 0 || m.reread != mad.Never {
		return false
	}
	held, ok := m.heldKeys()
	if !ok {
		return false
	}
	out := false
	freed := map[ib.PKey][]string{}
	for key, names := range m.freed {
		if held[key] {
			freed[key] = names
			continue
		}
		out = out || m.grants.Policy().Find(key) != nil
	}
	if len(freed) == len(m.freed) {
		return false
	}
	m.freed = freed
	if !m.saving { // a change that is being stored has them all, which is safe
		m.Save(freedOps(freed, addedNames(m.base, m.grants.Policy())))
	}
	return out
}

// heldKeys are the keys in quarantine that a port holds that must not, or may hold when a copy of an
// earlier Set arrives. It is not ok if it is not known what some port holds.
func (m *Manager) heldKeys() (held map[ib.PKey]bool, ok bool) {
	f := m.Fabric
	held = map[ib.PKey]bool{}
	look := func(h holder, list []ib.PKey) {
		var strange func(ib.PKey) bool
		for _, x := range list {
			if m.freed[x.Base()] == nil || held[x.Base()] {
				continue
			}
			if strange == nil {
				strange = m.strange(h)
			}
			held[x.Base()] = strange(x)
		}
	}
	for _, pi := range f.EndPort {
		p := &f.Ports[pi]
		if !m.vportsHold(p, look) {
			return nil, false
		}
		h := holder{p: p}
		t := m.table(h)
		if t.Refused || m.capacity(h) == 0 {
			continue
		}
		if t.Asked || !m.tableKnown(h) {
			return nil, false
		}
		look(h, t.Have)
		look(h, t.Ghost)
	}
	// A port whose link is up and that does not answer may hold what it had.
	silent := func(p topo.Port) bool { return p.Has(topo.PortSilent) && p.Info.PortState >= ib.StateArmed }
	return held, !slices.ContainsFunc(f.Ports, silent)
}

// vportsHold looks at what the virtual ports of an end port hold. One that is not up can use no key, and
// is cleaned before it can. But a late copy of a Set may arrive after that. It is false if it is not
// known what one of them holds.
func (m *Manager) vportsHold(p *topo.Port, look func(h holder, list []ib.PKey)) bool {
	if !m.known(p) {
		return false
	}
	a := m.functionsOf(p)
	if a == nil || a.Refused() {
		return true
	}
	for _, v := range a.VPorts() {
		if v == nil {
			continue
		}
		h := holder{p, a, v}
		t := m.table(h)
		if v.State() >= ib.StateArmed {
			if !t.Refused && m.capacity(h) > 0 {
				if t.Asked || !m.tableKnown(h) {
					return false
				}
				look(h, t.Have)
			}
		}
		if t.GhostAt > m.Now && len(t.Ghost) > 0 {
			look(h, t.Ghost)
			m.retry = min(m.retry, t.GhostAt)
		}
	}
	return true
}

func sortedKeys[V any](m map[ib.PKey]V) []ib.PKey {
	out := make([]ib.PKey, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
