package pkeymgr

import (
	"cmp"
	"fmt"
	"slices"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/partition"
	"heddle/sm/config"
	"heddle/sm/notice"
	"heddle/sm/pkey"
	"heddle/sm/topo"
	"heddle/sm/vport"
	"heddle/subnet"
)

// holder has a P_Key table: an end port, an external port of a switch that faces one (an edge port), or
// a virtual port or function.
type holder struct {
	p *topo.Port     // itself, or the physical port of v
	a *vport.Adapter // of v
	v *vport.Port    // nil: the port
}

// holderRef names a holder across steps: a port of Env.Fabric, and the index of a virtual port there or
// 0.
type holderRef struct {
	subnet.Ref
	index uint16
}

func (h holder) ref() holderRef {
	r := holderRef{Ref: subnet.Ref{Node: h.p.Node, Port: h.p.Num}}
	if h.v != nil {
		r.index = h.v.Index()
	}
	return r
}

// holder finds the holder that r names; false if it is gone.
func (m *Manager) holder(r holderRef) (holder, bool) {
	h := holder{p: m.Fabric.Port(r.Ref)}
	if r.index == 0 {
		return h, true
	}
	if h.a = m.functionsOf(h.p); h.a == nil {
		return h, false
	}
	h.v = h.a.VPort(r.index)
	return h, h.v != nil
}

// functionsOf is the adapter of a port whose functions have P_Key tables of their
// own, nil if it has none.
func (m *Manager) functionsOf(p *topo.Port) *vport.Adapter {
	if len(m.needs.VPorts.All()) == 0 || !p.Has(topo.PortEnd) {
		return nil
	}
	if a := m.needs.VPorts.Adapter(p.GUID); a != nil && !a.Shared() {
		return a
	}
	return nil
}

// eachVPort calls f for the virtual ports of an end port that count (vport.Port.TakesPart).
func (m *Manager) eachVPort(p *topo.Port, f func(h holder)) {
	a := m.functionsOf(p)
	if a == nil {
		return
	}
	for _, v := range a.VPorts() {
		if v != nil && v.TakesPart() {
			f(holder{p, a, v})
		}
	}
}

// known reports whether all virtual ports behind an end port are known that may send.
func (m *Manager) known(p *topo.Port) bool {
	if m.Fabric.Nodes[p.Node].Info.NodeType != ib.NodeCA || m.Config.Virtualization == config.VirtualIgnore {
		return true
	}
	return m.needs.VPorts.KnownBehind(p)
}

// table is the table of a holder, made or taken over from the sweep before.
func (m *Manager) table(h holder) *pkey.Table {
	if h.v == nil {
		return m.portTable(h.p)
	}
	if h.v.Keys == nil {
		h.v.Keys = &pkey.Table{}
	}
	if h.v.Keys.Life != m.life {
		*h.v.Keys = pkey.Table{Life: m.life}
	}
	return h.v.Keys
}

// portTable is the table of a port.
func (m *Manager) portTable(p *topo.Port) *pkey.Table {
	if last := m.needs.Discovery.Last(); p.PKeys == nil && last != nil && last != m.Fabric {
		n := &m.Fabric.Nodes[p.Node]
		if i, ok := last.Find(n.Info.NodeGUID); ok && last.Nodes[i].Info.NumPorts == n.Info.NumPorts {
			p.PKeys = last.PortOf(i, p.Num).PKeys
		}
	}
	if p.PKeys == nil {
		p.PKeys = &pkey.Table{}
	}
	if p.PKeys.Life != m.life {
		*p.PKeys = pkey.Table{Life: m.life}
	}
	return p.PKeys
}

// ShownAt is what a snapshot shows of a port: nil if the table was not read in
// this mastership.
func (m *Manager) ShownAt(p *topo.Port) []ib.PKey { return m.Shown(p.PKeys) }

func (m *Manager) Shown(t *pkey.Table) []ib.PKey {
	if t != nil && t.Life == m.life {
		return t.Have
	}
	return nil
}

// edge reports whether p is an external port of a switch that faces an end port.
func (m *Manager) edge(p *topo.Port) bool {
	if p.Num == 0 || !m.Fabric.Nodes[p.Node].IsSwitch() || !p.Has(topo.PortLinked) {
		return false
	}
	return m.Fabric.Port(p.Peer).Has(topo.PortEnd) && !m.Fabric.Nodes[p.Peer.Node].IsSwitch()
}

func (m *Manager) isEdge(h holder) bool { return h.v == nil && m.edge(h.p) }

// edgeOf is the edge port that faces an end port, nil if there is none.
func (m *Manager) edgeOf(p *topo.Port) *topo.Port {
	if !p.Has(topo.PortLinked) {
		return nil
	}
	if q := m.Fabric.Port(p.Peer); m.edge(q) {
		return q
	}
	return nil
}

// maxVPortBlocks bounds the table of a virtual port: items have 8 bits for a block.
const maxVPortBlocks = 256

// capacity is how many entries the table of a holder has.
func (m *Manager) capacity(h holder) int {
	n := &m.Fabric.Nodes[h.p.Node]
	switch {
	case h.v != nil:
		return min(h.v.PKeyCap(), maxVPortBlocks*smp.PKeyBlockLen)
	case n.IsSwitch() && h.p.Num != 0:
		return int(n.Switch.PartitionEnforcementCap)
	}
	return int(n.Info.PartitionCap)
}

// holds notes what a table holds.
func (m *Manager) holds(h holder, have []ib.PKey) {
	t := m.table(h)
	have = m.share(have)
	if slices.Equal(have, t.Have) && t.Have != nil {
		return
	}
	t.Have = have
	if h.v != nil {
		m.needs.VPorts.Show(h.a.Ref(h.v.Index()))
		return
	}
	m.shown = append(m.shown, subnet.Ref{Node: h.p.Node, Port: h.p.Num})
}

// granted lists the keys that an end port or virtual port is to have, quarantined
// and kept ones too. A list of several is shared: it is not to be changed.
func (m *Manager) granted(h holder) []ib.PKey {
	want := m.grants.Of(m.claims(h))
	if len(m.kept.by) == 0 && !m.needs.Keeper.Keeps() {
		return want
	}
	return m.withKept(h, want)
}

// claims are the kind and the GUIDs by which a holder that is no edge port is a member of partitions.
func (m *Manager) claims(h holder) (class partition.Class, guid ib.GUID, aliases []ib.GUID, self bool) {
	if h.v != nil {
		guid, aliases = m.vportGUIDs(h)
		return partition.CA, guid, aliases, false
	}
	p := h.p
	switch m.Fabric.Nodes[p.Node].Info.NodeType {
	case ib.NodeSwitch:
		class = partition.Switch
	case ib.NodeRouter:
		class = partition.Router
	}
	return class, p.GUID, m.needs.Aliases.Carried(p.GUID), p == m.Fabric.AgentPort(m.Fabric.Self.Node, m.Fabric.Self.Port)
}

// index0 is the base of the key that wants index 0 of the table of a holder, 0 if
// there is none. Nobody uses the indices of an edge port.
func (m *Manager) wantsIndex0(h holder) ib.PKey {
	if !m.anyIndex0 || m.isEdge(h) {
		return 0
	}
	return m.grants.Index0(m.claims(h))
}

// vportGUIDs are the GUIDs by which a virtual port is a member. One that is not up yet receives the keys
// of the GUID that it is to have. One that is up has those of the GUID that it shows.
func (m *Manager) vportGUIDs(h holder) (guid ib.GUID, aliases []ib.GUID) {
	v := h.v
	w := m.needs.Placements.Wanted(h.a.Ref(v.Index()))
	guid, aliases = v.Info().PortGUID, v.GUIDs()
	if w.GUID != 0 && v.State() <= ib.StateInit {
		guid = w.GUID
	}
	if len(w.Aliases) > 0 {
		aliases = slices.Concat(v.GUIDs(), w.Aliases)
	}
	return guid, aliases
}

// pkeysWanted lists the keys that a holder may have now. An edge port has those of the end port that it
// faces and of all virtual ports there. Keys in quarantine stay where they are, and no other holder
// receives them. The list is not to be changed.
func (m *Manager) pkeysWanted(h holder) []ib.PKey {
	if m.isEdge(h) {
		return m.edgeWanted(h.p)
	}
	want := m.granted(h)
	if len(m.freed) == 0 || !slices.ContainsFunc(want, func(k ib.PKey) bool { return m.freed[k.Base()] != nil }) {
		return want
	}
	var have []ib.PKey
	if h.v == nil || h.v.State() >= ib.StateArmed { // else another VM left it there
		have = m.table(h).Have
	}
	out := make([]ib.PKey, 0, len(want))
	for _, k := range want {
		switch {
		case m.freed[k.Base()] == nil, slices.Contains(have, k):
			out = append(out, k)
		case k.IsFull() && slices.Contains(have, k.Base()) && !slices.Contains(want, k.Base()):
			out = append(out, k.Base()) // not yet more than it was
		case !k.IsFull() && slices.Contains(have, k|0x8000) && !slices.Contains(want, k|0x8000):
			out = append(out, k)
		}
	}
	return out
}

func (m *Manager) edgeWanted(p *topo.Port) []ib.PKey {
	q := m.Fabric.Port(p.Peer)
	want := m.pkeysWanted(holder{p: q})
	several := m.blind(p)
	if several {
		want = slices.Concat(want, slices.DeleteFunc(slices.Clone(m.ShownAt(p)), ib.PKey.IsEmpty))
	}
	m.eachVPort(q, func(h holder) {
		if more := m.pkeysWanted(h); !slices.Equal(more, want) {
			if !several {
				want = slices.Clone(want)
			}
			want, several = append(want, more...), true
		}
	})
	if several {
		slices.SortFunc(want, func(a, b ib.PKey) int { return cmp.Compare(a.Base(), b.Base()) })
	}
	return partition.EdgeKeys(want)
}

// blind reports whether a switch port that passes data must keep its keys, and must not begin to enforce
// partitions, because it is not known yet what is behind it or which keys in quarantine that has. A
// manager that takes over must not cut off ports that it has not read.
func (m *Manager) blind(p *topo.Port) bool {
	if p.Info.PortState <= ib.StateInit {
		return false
	}
	q := m.Fabric.Port(p.Peer)
	if !m.known(q) || !m.tableKnown(holder{p: q}) {
		return true
	}
	blind := false
	m.eachVPort(q, func(h holder) { blind = blind || h.v.State() >= ib.StateArmed && !m.tableKnown(h) })
	return blind
}

// tableKnown reports whether a table was read whole, or cannot be.
func (m *Manager) tableKnown(h holder) bool {
	t := m.table(h)
	return t.Refused || t.Blocks >= pkey.Blocks(m.capacity(h))
}

// strange returns a function that reports whether a holder must not hold a key.
func (m *Manager) strange(h holder) func(ib.PKey) bool {
	want := m.granted(h)
	return func(k ib.PKey) bool {
		return !k.IsEmpty() && !slices.Contains(want, k) && !slices.Contains(want, k|0x8000)
	}
}

// tell emits a notice about a holder, once as long as it stays true. what is its subject.
func (m *Manager) tell(what string, h holder, n notice.Notice) {
	r := h.ref()
	if !m.NoteOnce(fmt.Sprintf("pkeys %s %v %d %d", what, h.p.GUID, r.Port, r.index)) {
		return
	}
	n.Where = m.Fabric.Where(h.p.Node, int(h.p.Num))
	if h.v != nil {
		n.Text = fmt.Sprintf("virtual port %d, GUID %v: %s", h.v.Index(), h.v.Info().PortGUID, n.Text)
	}
	m.Notify(n)
}
