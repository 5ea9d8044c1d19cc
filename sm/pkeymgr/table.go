package pkeymgr

import (
	"slices"
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/partition"
	"heddle/sm/notice"
	"heddle/sm/pkey"
	"heddle/sm/topo"
	"heddle/sm/work"
	"heddle/subnet"
)

// P_Key tables. What a table holds is known only as it was read or acknowledged in this mastership. What
// it is to hold follows from the partitions in force (partition.Grants). Tables are written
//
//   - in a sweep, for a port that comes or comes back, and for the virtual ports behind it: no data
//     passes before the table is right, because the link is not moved to Armed before;
//   - between sweeps, as upkeep, for all others (see pass.go).
//
// Each full discovery reads block 0 of every end port. The blocks above it are read once in a
// mastership, in the background if the port is Active. They are not read if the agent was reset and its
// port keeps no keys over a reset (LID 0, the default key alone, no P_Key memory): every port of a
// fresh subnet looks so. Tables of virtual ports are read whole each time that the port comes up.

// virgin reports whether no index of a table can be in use: its agent was found reset by the sweep under
// way, or it is a virtual port that is not up yet.
func (m *Manager) virgin(h holder) bool {
	if h.v != nil {
		return h.v.State() == ib.StateInit
	}
	return m.reset(h.p.PKeys)
}

// reset reports whether the agent of a port was found reset by the sweep under
// way.
func (m *Manager) reset(t *pkey.Table) bool { return t.Virgin && t.Sweep == m.Sweeps+1 }

// target is what a table is to hold at the end of a pass. A virtual port that is not up cannot send, so
// it receives all its keys at once: if a table is written once, no copy of an earlier Set can undo it.
func (m *Manager) target(h holder, pass pass) []ib.PKey {
	t := m.table(h)
	want := m.pkeysWanted(h)
	if pass == passRevoke && (h.v == nil || !m.virgin(h)) {
		return partition.Only(t.Have, want)
	}
	table, err := partition.Place(partition.Placing{
		Table: t.Have, Cap: m.capacity(h), Want: want, Index0: m.wantsIndex0(h), Fresh: m.virgin(h),
	})
	if err != nil && !m.isEdge(h) { // there it is told what is not enforced
		m.tell("overflow", h, notice.Notice{
			Kind: notice.KindPKeyRefused, Level: notice.Warn, Err: err, Text: "not all of its P_Keys fit into its table",
		})
	}
	return table
}

// pass is the pass that a Set is made for.
func (m *Manager) currentPass() pass {
	if m.Phase == notice.PhaseUpkeep {
		return m.pass
	}
	return passGrant
}

// step asks for the next thing about the table of a holder: a block that is
// not known, or one that is to be written. It reports whether there is one.
func (m *Manager) step(h holder, pass pass) bool {
	t := m.table(h)
	capacity := m.capacity(h)
	switch {
	case t.Asked, t.Refused, t.RetryAt > m.Now:
		return false
	case capacity == 0:
		if !m.isEdge(h) {
			m.noTable(h, nil)
		}
		return false
	case t.Blocks < pkey.Blocks(capacity):
		m.ask(work.OpPKeys, h, uint32(t.Blocks))
		return true
	}
	if m.holdBack(h) {
		return false
	}
	target := m.target(h, pass)
	for b := range uint32(pkey.Blocks(capacity)) {
		if pkey.Block(t.Have, b) != pkey.Block(target, b) {
			m.ask(work.OpSetPKeys, h, b)
			return true
		}
	}
	return false
}

// expectTime is after how long a table is looked at again that was held back.
const expectTime = 20 * time.Millisecond

// holdBack reports whether a table is not written yet: that of a virtual port that is not up, and for which a VM may
// be placed in a moment. It is to be written once (target).
func (m *Manager) holdBack(h holder) bool {
	if h.v == nil || !m.virgin(h) || !m.needs.Placements.Expects(h.a.Ref(h.v.Index()).Place()) {
		return false
	}
	m.retry = min(m.retry, m.Now.Add(expectTime))
	return true
}

// Discovered has block 0 of the table of an end port read that was just discovered.
func (m *Manager) Discovered(p *topo.Port) { m.ask(work.OpPKeys, holder{p: p}, 0) }

// ask asks for a block of a table, or writes one: o is work.OpPKeys or work.OpSetPKeys.
func (m *Manager) ask(o work.Op, h holder, block uint32) {
	t := m.table(h)
	t.Asked = true
	m.asked = append(m.asked, t)
	extra := block
	if h.v != nil {
		extra = block<<16 | uint32(h.v.Index())
		if o == work.OpPKeys {
			o = work.OpGetVPKeys
		} else {
			o = work.OpSetVPKeys
		}
	}
	m.Add(work.Make(o, h.p.Node, h.p.Num, extra))
}

// Build makes the request of an item about a table. It reports false if its
// holder is gone.
func (m *Manager) Build(it work.Item, get func(ib.AttrID, uint32), set func(ib.AttrID, uint32) []byte) bool {
	h, block, ok := m.item(it)
	if !ok {
		return false
	}
	attr, mod := smp.AttrPKeyTable, block
	switch {
	case h.v != nil:
		attr, mod = smp.AttrVPortPartitionTable, smp.VPortTableMod(h.v.Index(), uint16(block))
	case m.Fabric.Nodes[h.p.Node].IsSwitch():
		mod = smp.PKeyMod(h.p.Num, uint16(block))
	}
	if it.Op() == work.OpPKeys || it.Op() == work.OpGetVPKeys {
		get(attr, mod)
		return true
	}
	list := pkey.Block(m.target(h, m.currentPass()), block)
	m.table(h).Sending = slices.Clone(list[:])
	list.Put(set(attr, mod))
	return true
}

// item is the holder and the block that an item is about; false if the holder
// is gone.
func (m *Manager) item(it work.Item) (h holder, block uint32, ok bool) {
	r := holderRef{Ref: subnet.Ref{Node: it.Node(), Port: it.Port()}}
	block = it.Extra()
	if o := it.Op(); o == work.OpGetVPKeys || o == work.OpSetVPKeys {
		r.index, block = uint16(block), block>>16
	}
	h, ok = m.holder(r)
	return h, block, ok
}

// settled reports whether the table of a holder is as it should be, as far as that is possible.
func (m *Manager) settled(h holder) bool {
	t := m.table(h)
	if t.OKGen == m.gen {
		return true
	}
	if !m.tableKnown(h) || m.isEdge(h) && m.blind(h.p) {
		return false
	}
	return t.Refused || m.capacity(h) == 0 || slices.Equal(t.Have, m.target(h, passGrant))
}

// settle notes that there is nothing left to do about a table. A virtual port that waited for it
// continues.
func (m *Manager) settle(h holder) {
	switch {
	case m.isEdge(h) && m.enforceNow(h.p) != enforced(&h.p.Info):
		return
	case h.v != nil && h.v.State() < ib.StateActive:
		if !m.edgeLets(h) {
			return
		}
		m.table(h).OKGen = m.gen
		m.needs.VPorts.Look(h.a.Ref(h.v.Index()))
		m.needs.VPorts.KeysConfirmed(h.a.Ref(h.v.Index()))
		return
	}
	m.table(h).OKGen = m.gen
}

// Sweep has the table of a port written that comes, before its link is moved to Armed.
func (m *Manager) Sweep(p *topo.Port) {
	n := &m.Fabric.Nodes[p.Node]
	if !n.OK() || !p.Has(topo.PortKnown) || m.Config.PlanOnly {
		return
	}
	up := p.Info.PortState > ib.StateInit
	switch {
	case p.Has(topo.PortEnd) && p.LID != 0:
		t := m.portTable(p)
		switch reset := p.Info.LID != p.LID; {
		case m.reset(t):
		case t.Sweep == m.Sweeps+1 && reset:
			t.Blocks, t.OKGen = min(t.Blocks, 1), 0 // of which block 0 was read just now
		case t.Sweep != m.Sweeps+1 && (reset || !up):
			t.Forget()
		}
		// A port that joins while it is Active comes from another part of the fabric, where this
		// manager could not reach it. Port 0 of a switch that was reset is new too, whatever state it
		// shows.
		if up && !m.reset(t) && (n.Flags&topo.NodeNew == 0 || m.Snapshot == nil || !m.Snapshot.Up) {
			return
		}
		m.sweepVPorts(p)
	case m.edge(p) && m.enforcing():
		if up {
			return
		}
		m.portTable(p).Forget() // the switch may have been reset
	default:
		return
	}
	m.portTable(p).RetryAt = 0
	m.step(holder{p: p}, passGrant)
}

// share returns a table equal to list that all ports with such a table share.
func (m *Manager) share(list []ib.PKey) []ib.PKey {
	list = partition.Trim(list)
	b := make([]byte, 0, 128)
	for _, x := range list {
		b = append(b, byte(x>>8), byte(x))
	}
	if t, ok := m.tables[string(b)]; ok {
		return t
	}
	t := append([]ib.PKey{}, list...)
	m.tables[string(b)] = t
	return t
}
