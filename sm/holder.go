package sm

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

// holder is who has a P_Key table: an end port, an external port of a switch that
// faces one (an edge port), or a virtual port or function.
type holder struct {
	p *topo.Port     // itself, or the physical port of v
	a *vport.Adapter // of v
	v *vport.Port    // nil: the port
}

// holderRef names a holder across steps: a port of Core.f, and the index of a
// virtual port there or 0.
type holderRef struct {
	ref
	index uint16
}

func (h holder) ref() holderRef {
	r := holderRef{ref: ref{Node: h.p.Node, Port: h.p.Num}}
	if h.v != nil {
		r.index = h.v.Index()
	}
	return r
}

// holder finds who is named; false if it is gone.
func (c *Core) holder(r holderRef) (holder, bool) {
	h := holder{p: c.Fabric.Port(r.ref)}
	if r.index == 0 {
		return h, true
	}
	if h.a = c.functionsOf(h.p); h.a == nil {
		return h, false
	}
	h.v = h.a.VPort(r.index)
	return h, h.v != nil
}

// functionsOf is the adapter of a port whose functions have P_Key tables of their
// own, nil if it has none.
func (c *Core) functionsOf(p *topo.Port) *vport.Adapter {
	if len(c.vports.All()) == 0 || !p.Has(topo.PortEnd) {
		return nil
	}
	if a := c.vports.Adapter(p.GUID); a != nil && a.Model() != subnet.SharedPort {
		return a
	}
	return nil
}

// eachVPort calls f for the virtual ports of an end port that take part: they are
// up, or about to be, and it is known who they are.
func (c *Core) eachVPort(p *topo.Port, f func(h holder)) {
	a := c.functionsOf(p)
	if a == nil {
		return
	}
	for _, v := range a.VPorts() {
		if v != nil && v.TakesPart() {
			f(holder{p, a, v})
		}
	}
}

// known reports whether it is known who is behind an end port: all virtual ports
// that may send.
func (c *Core) known(p *topo.Port) bool {
	if c.Fabric.Nodes[p.Node].Info.NodeType != ib.NodeCA || c.Config.Virtualization == config.VirtualIgnore {
		return true
	}
	return c.vports.KnownBehind(p)
}

// table is the table of a holder, made or taken over from the sweep before.
func (c *Core) table(h holder) *pkey.Table {
	if h.v == nil {
		return c.pTable(h.p)
	}
	if h.v.Keys == nil {
		h.v.Keys = &pkey.Table{}
	}
	if h.v.Keys.Life != c.pk.life {
		*h.v.Keys = pkey.Table{Life: c.pk.life}
	}
	return h.v.Keys
}

// pTable is the table of a port.
func (c *Core) pTable(p *topo.Port) *pkey.Table {
	if p.PKeys == nil && c.last != nil && c.last != c.Fabric {
		f := c.Fabric
		n := &f.Nodes[p.Node]
		if i, ok := c.last.Find(n.Info.NodeGUID); ok && c.last.Nodes[i].Info.NumPorts == n.Info.NumPorts {
			p.PKeys = c.last.PortOf(i, p.Num).PKeys
		}
	}
	if p.PKeys == nil {
		p.PKeys = &pkey.Table{}
	}
	if p.PKeys.Life != c.pk.life {
		*p.PKeys = pkey.Table{Life: c.pk.life}
	}
	return p.PKeys
}

// pKeysOf is what a snapshot shows of a port: nil if the table was not read in
// this mastership.
func (c *Core) pKeysOf(p *topo.Port) []ib.PKey { return c.shownKeys(p.PKeys) }

func (c *Core) shownKeys(t *pkey.Table) []ib.PKey {
	if t != nil && t.Life == c.pk.life {
		return t.Have
	}
	return nil
}

// edge reports whether p is an external port of a switch that faces an end port.
func (c *Core) edge(p *topo.Port) bool {
	return p.Num != 0 && c.Fabric.Nodes[p.Node].IsSwitch() && p.Has(topo.PortLinked) && c.Fabric.Port(p.Peer).Has(topo.PortEnd) && !c.Fabric.Nodes[p.Peer.Node].IsSwitch()
}

func (c *Core) isEdge(h holder) bool { return h.v == nil && c.edge(h.p) }

// edgeOf is the edge port that faces an end port, nil if there is none.
func (c *Core) edgeOf(p *topo.Port) *topo.Port {
	if !p.Has(topo.PortLinked) {
		return nil
	}
	if q := c.Fabric.Port(p.Peer); c.edge(q) {
		return q
	}
	return nil
}

// maxVPKeyBlocks bounds the table of a virtual port: items have 8 bits for a block.
const maxVPKeyBlocks = 256

// pkeyCap is how many entries the table of a holder has.
func (c *Core) pkeyCap(h holder) int {
	n := &c.Fabric.Nodes[h.p.Node]
	switch {
	case h.v != nil:
		return min(h.v.PKeyCap(), maxVPKeyBlocks*smp.PKeyBlockLen)
	case n.IsSwitch() && h.p.Num != 0:
		return int(n.Switch.PartitionEnforcementCap)
	}
	return int(n.Info.PartitionCap)
}

// holds notes what a holder holds.
func (c *Core) holds(h holder, have []ib.PKey) {
	t := c.table(h)
	have = c.pk.share(have)
	if slices.Equal(have, t.Have) && t.Have != nil {
		return
	}
	t.Have = have
	if h.v != nil {
		c.vports.Show(h.a.Ref(h.v.Index()))
		return
	}
	c.pk.shown = append(c.pk.shown, ref{Node: h.p.Node, Port: h.p.Num})
}

// granted lists the keys that an end port or virtual port is to have, quarantined
// ones too. A list of several is shared: it is not to be changed.
func (c *Core) granted(h holder) []ib.PKey {
	return c.pk.grants.Of(c.claims(h))
}

// claims is by what a holder that is no edge port is given keys.
func (c *Core) claims(h holder) (class partition.Class, guid ib.GUID, aliases []ib.GUID, self bool) {
	if h.v != nil {
		guid, aliases = c.vportGUIDs(h)
		return partition.CA, guid, aliases, false
	}
	p := h.p
	switch c.Fabric.Nodes[p.Node].Info.NodeType {
	case ib.NodeSwitch:
		class = partition.Switch
	case ib.NodeRouter:
		class = partition.Router
	}
	return class, p.GUID, c.guids.Carried(p.GUID), p == c.Fabric.AgentPort(c.Fabric.Self.Node, c.Fabric.Self.Port)
}

// index0 is the base of the key that wants index 0 of the table of a holder, 0 if
// there is none. Nobody uses the indices of an edge port.
func (c *Core) index0(h holder) ib.PKey {
	if !c.pk.index0 || c.isEdge(h) {
		return 0
	}
	return c.pk.grants.Index0(c.claims(h))
}

// vportGUIDs are the GUIDs by which a virtual port is a member. One that is not up
// yet is given the keys of whom it is made ready for; one that is up has those of
// whom it is.
func (c *Core) vportGUIDs(h holder) (guid ib.GUID, aliases []ib.GUID) {
	v := h.v
	w := c.functionWanted(h.a.Ref(v.Index()))
	guid, aliases = v.Info().PortGUID, v.GUIDs()
	if w.GUID != 0 && v.State() <= ib.StateInit {
		guid = w.GUID
	}
	if len(w.Aliases) > 0 {
		aliases = slices.Concat(v.GUIDs(), w.Aliases)
	}
	return guid, aliases
}

// pkeysWanted lists the keys that a holder may have now: an edge port those of the
// end port that it faces and of all virtual ports there. Keys in quarantine stay
// where they are and are given to nobody else. The list is not to be changed.
func (c *Core) pkeysWanted(h holder) []ib.PKey {
	if c.isEdge(h) {
		return c.edgeWanted(h.p)
	}
	want := c.granted(h)
	if len(c.pk.freed) == 0 || !slices.ContainsFunc(want, func(k ib.PKey) bool { return c.pk.freed[k.Base()] != nil }) {
		return want
	}
	var have []ib.PKey
	if h.v == nil || h.v.State() >= ib.StateArmed { // else it is what somebody else left there
		have = c.table(h).Have
	}
	out := make([]ib.PKey, 0, len(want))
	for _, k := range want {
		switch {
		case c.pk.freed[k.Base()] == nil, slices.Contains(have, k):
			out = append(out, k)
		case k.IsFull() && slices.Contains(have, k.Base()) && !slices.Contains(want, k.Base()):
			out = append(out, k.Base()) // not yet more than it was
		case !k.IsFull() && slices.Contains(have, k|0x8000) && !slices.Contains(want, k|0x8000):
			out = append(out, k)
		}
	}
	return out
}

func (c *Core) edgeWanted(p *topo.Port) []ib.PKey {
	q := c.Fabric.Port(p.Peer)
	want := c.pkeysWanted(holder{p: q})
	several := c.blind(p)
	if several {
		want = slices.Concat(want, slices.DeleteFunc(slices.Clone(c.pKeysOf(p)), ib.PKey.IsEmpty))
	}
	c.eachVPort(q, func(h holder) {
		if more := c.pkeysWanted(h); !slices.Equal(more, want) {
			if !several {
				want = slices.Clone(want)
			}
			want, several = append(want, more...), true
		}
	})
	if several {
		slices.SortFunc(want, func(a, b ib.PKey) int { return cmp.Compare(a.Base(), b.Base()) })
	}
	return edgeKeys(want)
}

// blind reports whether a switch port that passes data must not take keys away, or
// begin to enforce, because it is not known yet who is behind it, or which of the
// keys in quarantine those have: a manager that takes over must not cut off whom it
// has not met.
func (c *Core) blind(p *topo.Port) bool {
	if p.Info.PortState <= ib.StateInit {
		return false
	}
	q := c.Fabric.Port(p.Peer)
	if !c.known(q) || !c.tableKnown(holder{p: q}) {
		return true
	}
	blind := false
	c.eachVPort(q, func(h holder) { blind = blind || h.v.State() >= ib.StateArmed && !c.tableKnown(h) })
	return blind
}

// tableKnown reports whether a table was read whole, or cannot be.
func (c *Core) tableKnown(h holder) bool {
	t := c.table(h)
	return t.Refused || t.Blocks >= pkey.Blocks(c.pkeyCap(h))
}

// edgeKeys are the entries of the edge port of holders with these keys, which
// ascend by base: one for each base, a full one where anybody is a full member.
// Through a limited one a limited member sends, nobody claims to be a full one, and
// what another limited member sent does not come out (IBA §10.9.3, o18-14). OpenSM
// writes the same.
func edgeKeys(want []ib.PKey) []ib.PKey {
	out := make([]ib.PKey, 0, len(want))
	for _, k := range want {
		switch n := len(out); {
		case n == 0 || out[n-1].Base() != k.Base():
			out = append(out, k)
		case k.IsFull():
			out[n-1] = k
		}
	}
	return out
}

// strange returns a function that reports whether a holder is not to hold a key.
func (c *Core) strange(h holder) func(ib.PKey) bool {
	want := c.granted(h)
	return func(k ib.PKey) bool {
		return !k.IsEmpty() && !slices.Contains(want, k) && !slices.Contains(want, k|0x8000)
	}
}

// tell makes a notice about a holder, once while it stays so; what is its subject.
func (c *Core) tellHolder(what string, h holder, n notice.Notice) {
	r := h.ref()
	if !c.NoteOnce(fmt.Sprintf("pkeys %s %v %d %d", what, h.p.GUID, r.Port, r.index)) {
		return
	}
	n.Where = c.Fabric.Where(h.p.Node, int(h.p.Num))
	if h.v != nil {
		n.Text = fmt.Sprintf("virtual port %d, GUID %v: %s", h.v.Index(), h.v.Info().PortGUID, n.Text)
	}
	c.Notify(n)
}
