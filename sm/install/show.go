package install

import (
	"slices"

	"heddle/sm/topo"
	"heddle/subnet"
)

// multicastChanged is called when a block of a switch's multicast table was read, written or
// forgotten.
func (x *Installer) multicastChanged(ni int32, block uint16) {
	x.sweep.GroupsChanged(block)
	m := x.Fabric.Nodes[ni].MFT
	m.Shown = nil
	if !m.Listed {
		m.Listed = true
		x.changed = append(x.changed, ni)
	}
}

// NewFabric is called when a full sweep begins: node indices are of another fabric from now on.
// The next snapshot shows all multicast tables.
func (x *Installer) NewFabric() { x.changed = x.changed[:0] }

// ShowMulticast fills the multicast tables of a snapshot that is built anew.
func (x *Installer) ShowMulticast(s *subnet.Snapshot) {
	x.changed = x.changed[:0]
	s.MFTs = make([][]subnet.MFTBlock, len(x.Fabric.SwitchNode))
	for i, ni := range x.Fabric.SwitchNode {
		s.MFTs[i] = x.Fabric.Nodes[ni].MFT.Show()
	}
}

// UpdateMulticast brings the multicast tables of a copy of a snapshot up to date.
func (x *Installer) UpdateMulticast(s, old *subnet.Snapshot) {
	copied := false
	for _, ni := range x.changed {
		n := &x.Fabric.Nodes[ni]
		if n.Flags&topo.NodeGone != 0 || n.GraphSwitch < 0 || int(n.GraphSwitch) >= len(old.MFTs) {
			continue
		}
		if !copied {
			copied = true
			s.MFTs = slices.Clone(old.MFTs)
		}
		s.MFTs[n.GraphSwitch] = n.MFT.Show()
	}
	x.changed = x.changed[:0]
}
