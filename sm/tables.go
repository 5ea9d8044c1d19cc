package sm

import (
	"slices"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sm/install"
	"heddle/sm/topo"
	"heddle/sm/work"
	"heddle/subnet"
)

// What this mastership has read of SL-to-VL, VL arbitration and multicast
// tables, or had acknowledged, is kept for the snapshot. A subnet that does not
// need lanes reads none of the first two, so ReadTables has them read in the
// background where somebody wants to know, and Config.ReadLanes in small subnets
// once they are up: a switch of 36 ports has 1369 SL-to-VL tables.

// unreadable stands for a table that an agent refuses to show.
const unreadable = 0xFFFF

// laneState is what is known of lane tables, and how far setting them up and reading them is.
type laneState struct {
	laneTabs    map[ib.GUID]*laneTables // by node GUID
	laneRows    laneRows
	tablesShown []int32 // nodes whose lane or multicast tables changed since the last snapshot

	reads    []tableRead
	reading  map[ib.GUID]bool // nodes of reads
	readDone bool             // all tables of a node were asked for since the last snapshot

	lanesSetUp bool // SL2VL and VL arbitration were set up in this mastership
	lanesPre   bool // they are being set up before the first tables that need them
	lanesOf    map[ib.GUID]laneUse
}

// laneTables are those of a node. Both lists are as in subnet.LaneTables.
type laneTables struct {
	sl, arb  []uint16
	shown    *subnet.LaneTables // which may share the lists; nil: to be made
	complete bool               // all were read
	listed   bool               // in tablesShown
	tries    uint8              // to read them that failed
}

// laneRows holds each different table once. Rows are only appended, so
// snapshots share them.
type laneRows struct {
	sl    []smp.SLtoVL
	arb   []smp.VLArb
	slAt  map[smp.SLtoVL]uint16
	arbAt map[smp.VLArb]uint16
	same  map[uint64]*subnet.LaneTables // tables of nodes, by hash
}

func newLaneRows() laneRows {
	return laneRows{slAt: map[smp.SLtoVL]uint16{}, arbAt: map[smp.VLArb]uint16{}, same: map[uint64]*subnet.LaneTables{}}
}

func intern[T comparable](rows *[]T, at map[T]uint16, t *T) uint16 {
	k, ok := at[*t]
	if !ok && len(*rows) < unreadable-1 {
		*rows = append(*rows, *t)
		k = uint16(len(*rows))
		at[*t] = k
	}
	return k
}

// forgetLanes is for a new mastership.
func (c *Core) forgetLanes() {
	clear(c.laneState.laneTabs)
	clear(c.laneState.reading)
	c.laneState.laneRows, c.laneState.reads, c.laneState.readDone = newLaneRows(), nil, false
}

// lanesOfNode are the tables of a node, which are made if there are none.
func (c *Core) lanesOfNode(ni int32) *laneTables {
	n := &c.Fabric.Nodes[ni]
	l := c.laneState.laneTabs[n.Info.NodeGUID]
	if l == nil {
		ports := int(n.Info.NumPorts) + 1
		l = &laneTables{sl: make([]uint16, ports), arb: make([]uint16, 4*ports)}
		if n.IsSwitch() {
			l.sl = make([]uint16, ports*ports)
		}
		c.laneState.laneTabs[n.Info.NodeGUID] = l
	}
	return l
}

// holdSL notes an SL-to-VL table; 0 for one that is not known, unreadable for
// one that is not shown.
func (c *Core) holdSL(ni int32, in, out uint8, k uint16) {
	l := c.lanesOfNode(ni)
	at := int(out)
	if n := &c.Fabric.Nodes[ni]; n.IsSwitch() {
		at += int(in) * (int(n.Info.NumPorts) + 1)
	}
	if l.sl[at] == k {
		return
	}
	c.changeLanes(ni, l)
	l.sl[at] = k
}

func (c *Core) holdArb(ni int32, port uint8, block uint32, k uint16) {
	l := c.lanesOfNode(ni)
	at := int(port)*4 + int(block) - 1
	if l.arb[at] == k {
		return
	}
	c.changeLanes(ni, l)
	l.arb[at] = k
}

// changeLanes is called before tables are noted.
func (c *Core) changeLanes(ni int32, l *laneTables) {
	if l.shown != nil {
		l.sl, l.arb = slices.Clone(l.sl), slices.Clone(l.arb)
		l.shown = nil
	}
	if !l.listed {
		l.listed = true
		c.laneState.tablesShown = append(c.laneState.tablesShown, ni)
	}
}

// holdLane notes the answer to an item that reads or writes a lane table.
func (c *Core) holdLane(it work.Item, comp *mad.Completion) {
	ni, p, x := it.Node(), it.Port(), it.Extra()
	err := work.Answer(comp)
	if it.Op() == work.OpGetArb || it.Op() == work.OpSetArb || it.Op() == work.OpReadArb {
		var t smp.VLArb
		k := uint16(0)
		switch {
		case err == nil && t.Decode(smp.Data(comp.MAD)) == nil:
			k = intern(&c.laneState.laneRows.arb, c.laneState.laneRows.arbAt, &t)
		case err != nil && !mad.Unanswered(err) && it.Op() != work.OpSetArb:
			k = unreadable
		}
		c.holdArb(ni, p, x, k)
		return
	}
	var t smp.SLtoVL
	k := uint16(0)
	from := comp.MAD
	if it.Op() == work.OpSetSL {
		from = comp.Request // the answer to a Set for many ports is that of one
	}
	switch {
	case err == nil && t.Decode(smp.Data(from)) == nil:
		k = intern(&c.laneState.laneRows.sl, c.laneState.laneRows.slAt, &t)
	case err != nil && !mad.Unanswered(err) && it.Op() != work.OpSetSL:
		k = unreadable
	}
	if it.Op() == work.OpSetSL && x&install.AllInputs != 0 {
		for in := range c.Fabric.Nodes[ni].Info.NumPorts + 1 {
			c.holdSL(ni, in, p, k)
		}
		return
	}
	c.holdSL(ni, uint8(x), p, k)
}

// takeLanes forgets the tables of nodes that may have lost them: those that are
// new or were reset.
func (c *Core) takeLanes() {
	c.install.ForgetLanes()
	if len(c.laneState.laneTabs) == 0 {
		return
	}
	f := c.Fabric
	c.ScopeNodes(func(ni int32, n *topo.Node) {
		l := c.laneState.laneTabs[n.Info.NodeGUID]
		if l == nil {
			return
		}
		lost := n.Flags&(topo.NodeNew|topo.NodeReset) != 0 || !n.OK()
		if n.IsSwitch() {
			p0 := f.PortOf(ni, 0)
			lost = lost || p0.Info.LID != p0.LID || c.Fabric.AllInit(ni)
		} else {
			for i := range f.NodePorts(ni) {
				p := f.PortOf(ni, uint8(i))
				lost = lost || p.LID != 0 && (p.Info.LID != p.LID || p.Info.PortState <= ib.StateInit)
			}
		}
		if lost {
			delete(c.laneState.laneTabs, n.Info.NodeGUID)
			c.laneState.tablesShown = append(c.laneState.tablesShown, ni)
			for i := range c.laneState.reads {
				if c.laneState.reads[i].guid == n.Info.NodeGUID {
					c.laneState.reads[i].at = 0
				}
			}
		}
	})
	if !c.Region {
		for g := range c.laneState.laneTabs {
			if _, ok := f.Find(g); !ok {
				delete(c.laneState.laneTabs, g)
			}
		}
	}
}

// showLanes is the published form of the tables of a node, nil if nothing is
// known. Nodes with equal tables share it.
func (c *Core) showLanes(g ib.GUID) *subnet.LaneTables {
	l := c.laneState.laneTabs[g]
	if l == nil {
		return nil
	}
	l.listed = false
	if l.shown != nil && l.shown.Complete == l.complete {
		return l.shown
	}
	h := uint64(14695981039346656037) // FNV-1a
	for _, list := range [2][]uint16{l.sl, l.arb} {
		for _, v := range list {
			h = (h ^ uint64(v)) * 1099511628211
		}
	}
	r := &c.laneState.laneRows
	// Nodes that share have the same rows: these are only appended.
	if s := r.same[h]; s != nil && slices.Equal(s.SL, l.sl) && slices.Equal(s.Arb, l.arb) && s.Complete == l.complete {
		l.sl, l.arb, l.shown = s.SL, s.Arb, s
		return s
	}
	l.shown = &subnet.LaneTables{SL: l.sl, Arb: l.arb, SLRows: r.sl, ArbRows: r.arb, Complete: l.complete}
	if c.laneState.reading[g] {
		return l.shown // there is more to come
	}
	if len(r.same) >= 1<<12 { // mostly of the past
		clear(r.same)
	}
	r.same[h] = l.shown
	return l.shown
}

// mftChanged is called when a block of a switch's multicast table is read or
// written.
func (c *Core) mftChanged(ni int32, block uint16) {
	c.groups.BlockChanged(block)
	m := c.Fabric.Nodes[ni].MFT
	m.Shown = nil
	if !m.Listed {
		m.Listed = true
		c.laneState.tablesShown = append(c.laneState.tablesShown, ni)
	}
}

// showTables fills the tables of a snapshot that is built anew.
func (c *Core) showTables(s *subnet.Snapshot) {
	f := c.Fabric
	c.laneState.tablesShown = c.laneState.tablesShown[:0]
	if len(c.laneState.laneTabs) > 0 {
		s.Lanes = make([]*subnet.LaneTables, len(s.Nodes))
		for i := range s.Nodes {
			s.Lanes[i] = c.showLanes(s.Nodes[i].Info.NodeGUID)
		}
	}
	s.MFTs = make([][]subnet.MFTBlock, len(f.SwitchNode))
	for i, ni := range f.SwitchNode {
		s.MFTs[i] = f.Nodes[ni].MFT.Show()
	}
}

// carryTables brings the tables of a copy of a snapshot up to date.
func (c *Core) carryTables(s, old *subnet.Snapshot) {
	f := c.Fabric
	lanes, mfts := false, false
	for _, ni := range c.laneState.tablesShown {
		n := &f.Nodes[ni]
		if n.Flags&topo.NodeGone != 0 {
			continue
		}
		i := c.SnapshotIndex[ni]
		l := c.showLanes(n.Info.NodeGUID)
		if l != nil || int(i) < len(old.Lanes) && old.Lanes[i] != nil {
			if !lanes {
				lanes = true
				s.Lanes = make([]*subnet.LaneTables, len(s.Nodes))
				copy(s.Lanes, old.Lanes)
			}
			s.Lanes[i] = l
		}
		if n.GraphSwitch >= 0 && int(n.GraphSwitch) < len(old.MFTs) {
			if !mfts {
				mfts = true
				s.MFTs = slices.Clone(old.MFTs)
			}
			s.MFTs[n.GraphSwitch] = n.MFT.Show()
		}
	}
	c.laneState.tablesShown = c.laneState.tablesShown[:0]
}
