package subnet

import (
	"slices"

	"heddle/ib"
	"heddle/ib/smp"
)

// LaneTables are the SL-to-VL mapping and the VL arbitration tables of a node,
// as read or acknowledged. They are immutable, and nodes with equal tables may
// share them. An entry of SL and Arb is 1 plus an index in SLRows or ArbRows; 0
// or out of range: unknown.
type LaneTables struct {
	SL      []uint16 // switches: by input port × (ports + 1) + output port; others: by port
	Arb     []uint16 // by port × 4 + block - 1
	SLRows  []smp.SLtoVL
	ArbRows []smp.VLArb
	// Complete: every table of the node is known.
	Complete bool
}

// LanesComplete reports whether all SL-to-VL and VL arbitration tables of a
// node are known.
func (s *Snapshot) LanesComplete(node int32) bool {
	return int(node) < len(s.Lanes) && s.Lanes[node] != nil && s.Lanes[node].Complete
}

// MFTBlock is a block of the multicast table of a switch: the masks of 16 ports
// from 16 × Position on for 32 MLIDs from 0xC000 + 32 × Block on.
type MFTBlock struct {
	Block    uint16
	Position uint8
	Masks    *smp.MFT // not to be changed
}

// SLtoVL is the SL-to-VL mapping table of a switch for packets from port in to
// port out; in and out may be 0, or equal. A port of a CA or router has one
// table: out is the port and in is ignored. ok is false if the manager neither
// read nor wrote it; ports without such a table map every SL to VL 0.
func (s *Snapshot) SLtoVL(node int32, in, out uint8) (t smp.SLtoVL, ok bool) {
	n := &s.Nodes[node]
	at := int(out)
	agent := int(out)
	if n.Info.NodeType == ib.NodeSwitch {
		at += int(in) * (int(n.Info.NumPorts) + 1)
		agent = 0
	}
	if in > n.Info.NumPorts || out > n.Info.NumPorts {
		return t, false
	}
	if int(node) < len(s.Lanes) && s.Lanes[node] != nil {
		if l := s.Lanes[node]; at < len(l.SL) {
			if k := int(l.SL[at]); k > 0 && k <= len(l.SLRows) {
				return l.SLRows[k-1], true
			}
		}
	}
	p := s.Ports[int(n.First)+agent]
	return t, p.Known && !p.Info.CapabilityMask.Has(ib.CapIsSLMappingSupported)
}

// VLArb is a block of the VL arbitration tables of a port: 1 and 2 are those of
// low priority, 3 and 4 of high priority. ok is false where the manager neither
// read nor wrote it; a block that the port does not have is empty.
func (s *Snapshot) VLArb(node int32, port, block uint8) (t smp.VLArb, ok bool) {
	n := &s.Nodes[node]
	if port > n.Info.NumPorts || block < 1 || block > 4 {
		return t, false
	}
	if int(node) < len(s.Lanes) && s.Lanes[node] != nil {
		if l := s.Lanes[node]; int(port)*4+int(block)-1 < len(l.Arb) {
			if k := int(l.Arb[int(port)*4+int(block)-1]); k > 0 && k <= len(l.ArbRows) {
				return l.ArbRows[k-1], true
			}
		}
	}
	p := s.Ports[int(n.First)+int(port)]
	return t, p.Known && !HasVLArb(&p.Info, block)
}

// HasVLArb reports whether a port has a block, 1–4, of VL arbitration tables
// (IBA §14.2.5.6, VLArbitrationLowCap and HighCap); a port with one data VL has
// nothing to arbitrate.
func HasVLArb(p *smp.PortInfo, block uint8) bool {
	most := p.VLArbitrationLowCap
	if block > 2 {
		most = p.VLArbitrationHighCap
	}
	return p.VLCap > 1 && int(most) > int(block-1)%2*32
}

// MFTBlocks are the known blocks of a switch's multicast table that hold a
// group, in ascending order of block and position. MLIDs of other blocks are
// unused. The list must not be changed.
func (s *Snapshot) MFTBlocks(node int32) []MFTBlock {
	if i := s.Nodes[node].SwitchIndex; i >= 0 && int(i) < len(s.MFTs) {
		return s.MFTs[i]
	}
	return nil
}

// MFT is one of MFTBlocks; ok is false if it is unknown.
func (s *Snapshot) MFT(node int32, block uint16, position uint8) (t smp.MFT, ok bool) {
	l := s.MFTBlocks(node)
	i, ok := slices.BinarySearchFunc(l, MFTBlock{Block: block, Position: position}, CompareMFTBlocks)
	if !ok {
		return t, false
	}
	return *l[i].Masks, true
}

// CompareMFTBlocks orders blocks as MFTBlocks has them.
func CompareMFTBlocks(a, b MFTBlock) int {
	if a.Block != b.Block {
		return int(a.Block) - int(b.Block)
	}
	return int(a.Position) - int(b.Position)
}
