package lane

import (
	"slices"

	"heddle/ib"
	"heddle/sm/topo"
	"heddle/subnet"
)

// NewFabric is called when a full sweep begins: node indices are of another fabric from now on.
// The next snapshot shows the tables of all nodes.
func (t *Tables) NewFabric() { t.changed = t.changed[:0] }

// Show fills the tables of a snapshot that is built anew.
func (t *Tables) Show(s *subnet.Snapshot) {
	t.changed = t.changed[:0]
	if len(t.byNode) == 0 {
		return
	}
	s.Lanes = make([]*subnet.LaneTables, len(s.Nodes))
	for i := range s.Nodes {
		s.Lanes[i] = t.show(s.Nodes[i].Info.NodeGUID)
	}
}

// Update brings the tables of a copy of a snapshot up to date.
func (t *Tables) Update(s, old *subnet.Snapshot) {
	f := t.Fabric
	copied := false
	for _, ni := range t.changed {
		n := &f.Nodes[ni]
		if n.Flags&topo.NodeGone != 0 {
			continue
		}
		i := t.SnapshotIndex[ni]
		l := t.show(n.Info.NodeGUID)
		if l == nil && (int(i) >= len(old.Lanes) || old.Lanes[i] == nil) {
			continue
		}
		if !copied {
			copied = true
			s.Lanes = make([]*subnet.LaneTables, len(s.Nodes))
			copy(s.Lanes, old.Lanes)
		}
		s.Lanes[i] = l
	}
	t.changed = t.changed[:0]
}

// ToShow reports whether all tables of a node were read since the last snapshot.
func (t *Tables) ToShow() bool { return t.readDone }

// Shown is called when a snapshot has what ToShow is about.
func (t *Tables) Shown() { t.readDone = false }

// show is the published form of the tables of a node, nil if nothing is known. Nodes with equal
// tables share it.
func (t *Tables) show(g ib.GUID) *subnet.LaneTables {
	l := t.byNode[g]
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
	r := &t.rows
	// Nodes that share have the same rows, because rows are only appended.
	if s := r.same[h]; s != nil && slices.Equal(s.SL, l.sl) && slices.Equal(s.Arb, l.arb) && s.Complete == l.complete {
		l.sl, l.arb, l.shown = s.SL, s.Arb, s
		return s
	}
	l.shown = &subnet.LaneTables{SL: l.sl, Arb: l.arb, SLRows: r.sl, ArbRows: r.arb, Complete: l.complete}
	if t.reading[g] {
		return l.shown // more tables are being read
	}
	if len(r.same) >= 1<<12 { // mostly of the past
		clear(r.same)
	}
	r.same[h] = l.shown
	return l.shown
}
