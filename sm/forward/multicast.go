package forward

import (
	"slices"

	"heddle/ib/smp"
	"heddle/subnet"
)

// Multicast is what a switch's multicast table holds as far as this mastership has
// read it back or had it acknowledged, by position and block.
type Multicast struct {
	Blocks map[uint32]*smp.MFT // what they point to is not written once it is set
	Shown  []subnet.MFTBlock   // published; nil: to be made
	Listed bool                // in tablesShown
}

// MulticastKey is the place of a block in Multicast.Blocks.
func MulticastKey(block uint16, pos uint8) uint32 { return uint32(pos)<<16 | uint32(block) }

// Set notes the content of a block.
func (m *Multicast) Set(block uint16, pos uint8, t *smp.MFT) {
	if m.Blocks == nil {
		m.Blocks = map[uint32]*smp.MFT{}
	}
	u := *t
	m.Blocks[MulticastKey(block, pos)] = &u
}

// Show is the published form of a multicast table.
func (m *Multicast) Show() []subnet.MFTBlock {
	if m == nil {
		return nil
	}
	m.Listed = false
	if len(m.Blocks) == 0 {
		return nil
	}
	if m.Shown == nil {
		m.Shown = make([]subnet.MFTBlock, 0, len(m.Blocks))
		for key, b := range m.Blocks {
			m.Shown = append(m.Shown, subnet.MFTBlock{Block: uint16(key), Position: uint8(key >> 16), Masks: b})
		}
		slices.SortFunc(m.Shown, subnet.CompareMFTBlocks)
	}
	return m.Shown
}
