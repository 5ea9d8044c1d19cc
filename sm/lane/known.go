package lane

import (
	"slices"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sm/topo"
	"heddle/sm/work"
	"heddle/subnet"
)

// unreadable in place of a row stands for a table that an agent refuses to show, 0 for one that
// is not known.
const unreadable = 0xFFFF

// nodeTables are the tables of a node. Both lists are as in subnet.LaneTables.
type nodeTables struct {
	sl, arb  []uint16
	shown    *subnet.LaneTables // as snapshots have it; may share the lists; nil: to be made
	complete bool               // all were read
	listed   bool               // in Tables.changed
	tries    uint8              // failed attempts to read them
}

// rows has each different table once. Rows are only appended, so snapshots share them.
type rows struct {
	sl    []smp.SLtoVL
	arb   []smp.VLArb
	slAt  map[smp.SLtoVL]uint16
	arbAt map[smp.VLArb]uint16
	same  map[uint64]*subnet.LaneTables // tables of nodes, by hash
}

func newRows() rows {
	return rows{slAt: map[smp.SLtoVL]uint16{}, arbAt: map[smp.VLArb]uint16{}, same: map[uint64]*subnet.LaneTables{}}
}

// intern returns the number of a row, from 1; 0 if there are too many.
func intern[T comparable](list *[]T, at map[T]uint16, row *T) uint16 {
	k, ok := at[*row]
	if !ok && len(*list) < unreadable-1 {
		*list = append(*list, *row)
		k = uint16(len(*list))
		at[*row] = k
	}
	return k
}

// of returns the tables of a node, and makes them if there are none.
func (t *Tables) of(ni int32) *nodeTables {
	n := &t.Fabric.Nodes[ni]
	l := t.byNode[n.Info.NodeGUID]
	if l == nil || !l.fits(n) {
		ports := int(n.Info.NumPorts) + 1
		l = &nodeTables{sl: make([]uint16, ports), arb: make([]uint16, 4*ports)}
		if n.IsSwitch() {
			l.sl = make([]uint16, ports*ports)
		}
		t.byNode[n.Info.NodeGUID] = l
	}
	return l
}

// fits reports whether the tables are those of a node with as many ports: a node may come back with
// others, and what an agent says of itself may be wrong.
func (l *nodeTables) fits(n *topo.Node) bool { return len(l.arb) == 4*(int(n.Info.NumPorts)+1) }

// putSL keeps the row of an SL-to-VL table.
func (t *Tables) putSL(ni int32, in, out uint8, row uint16) {
	l := t.of(ni)
	at := int(out)
	if n := &t.Fabric.Nodes[ni]; n.IsSwitch() {
		at += int(in) * (int(n.Info.NumPorts) + 1)
	}
	if l.sl[at] != row {
		t.change(ni, l)
		l.sl[at] = row
	}
}

// putArb keeps the row of a block of an arbitration table.
func (t *Tables) putArb(ni int32, port uint8, block uint32, row uint16) {
	l := t.of(ni)
	at := int(port)*4 + int(block) - 1
	if l.arb[at] != row {
		t.change(ni, l)
		l.arb[at] = row
	}
}

// change is called before tables of a node change.
func (t *Tables) change(ni int32, l *nodeTables) {
	if l.shown != nil {
		l.sl, l.arb = slices.Clone(l.sl), slices.Clone(l.arb)
		l.shown = nil
	}
	t.list(ni, l)
}

// list has the next snapshot show the tables of a node anew.
func (t *Tables) list(ni int32, l *nodeTables) {
	if !l.listed {
		l.listed = true
		t.changed = append(t.changed, ni)
	}
}

// know keeps what the answer to an item says of a table.
func (t *Tables) know(it work.Item, comp *mad.Completion) {
	ni, p, x := it.Node(), it.Port(), it.Extra()
	isSet := it.Op() == work.OpSetSL || it.Op() == work.OpSetArb
	err := work.Answer(comp)
	row := uint16(0)
	if err != nil && !mad.Unanswered(err) && !isSet {
		row = unreadable
	}
	switch it.Op() {
	case work.OpGetArb, work.OpSetArb, work.OpReadArb:
		var have smp.VLArb
		if err == nil && have.Decode(smp.Data(comp.MAD)) == nil {
			row = intern(&t.rows.arb, t.rows.arbAt, &have)
		}
		t.putArb(ni, p, x, row)
		return
	}
	from := comp.MAD
	if isSet {
		from = comp.Request // the answer to a Set for many input ports is that of one
	}
	var have smp.SLtoVL
	if err == nil && have.Decode(smp.Data(from)) == nil {
		row = intern(&t.rows.sl, t.rows.slAt, &have)
	}
	if isSet && x&work.AllInputs != 0 {
		for in := range t.Fabric.Nodes[ni].Info.NumPorts + 1 {
			t.putSL(ni, in, p, row)
		}
		return
	}
	t.putSL(ni, uint8(x), p, row)
	if it.Op() == work.OpReadSL && row != 0 && row != unreadable && t.Fabric.Nodes[ni].IsSwitch() {
		t.judge(it, &have)
	}
}

// Doubt is called for a Set that was sent and is not answered when its phase is cut short: it may
// have been carried out.
func (t *Tables) Doubt(it work.Item) {
	if it.Op() == work.OpSetArb {
		t.putArb(it.Node(), it.Port(), it.Extra(), 0)
		return
	}
	if t.install.InStage() {
		t.install.LaneDoubted(it)
	}
	n := &t.Fabric.Nodes[it.Node()]
	if !n.IsSwitch() {
		t.putSL(it.Node(), 0, it.Port(), 0)
		return
	}
	it.EachInput(n.Info.NumPorts, func(in uint8) { t.putSL(it.Node(), in, it.Port(), 0) })
}

// Discovered forgets the tables of nodes that may have lost them: those that are new or were
// reset. full says that the sweep read all nodes; else tables of nodes that are gone stay, because
// the nodes may return.
func (t *Tables) Discovered(full bool) {
	if len(t.byNode) == 0 {
		return
	}
	f := t.Fabric
	t.sweep.ScopeNodes(func(ni int32, n *topo.Node) {
		if l := t.byNode[n.Info.NodeGUID]; l == nil || l.fits(n) && !t.lost(ni) {
			return
		}
		delete(t.byNode, n.Info.NodeGUID)
		t.changed = append(t.changed, ni)
		for i := range t.reads {
			if t.reads[i].guid == n.Info.NodeGUID {
				t.reads[i].at = 0
			}
		}
	})
	if full {
		for g := range t.byNode {
			if _, ok := f.Find(g); !ok {
				delete(t.byNode, g)
			}
		}
	}
}

// lost reports whether a node may have lost its tables.
func (t *Tables) lost(ni int32) bool {
	f := t.Fabric
	n := &f.Nodes[ni]
	if n.Flags&(topo.NodeNew|topo.NodeReset) != 0 || !n.OK() {
		return true
	}
	if n.IsSwitch() {
		p0 := f.PortOf(ni, 0)
		return p0.Info.LID != p0.LID || f.AllInit(ni)
	}
	for i := range f.NodePorts(ni) {
		p := f.PortOf(ni, uint8(i))
		if p.LID != 0 && (p.Info.LID != p.LID || p.Info.PortState <= ib.StateInit) {
			return true
		}
	}
	return false
}
