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
	// Maybe are the ports that blocks may send to which are not in Blocks, because a Set
	// was not acknowledged: those before it and those that it brings.
	Maybe  map[uint32]*smp.MFT
	Shown  []subnet.MFTBlock // published; nil: to be made
	Listed bool              // in tablesShown
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
	delete(m.Maybe, MulticastKey(block, pos))
}

// Doubt notes that a Set of a block may have been carried out.
func (m *Multicast) Doubt(block uint16, pos uint8, t *smp.MFT) {
	key := MulticastKey(block, pos)
	u := *t
	for _, old := range [2]*smp.MFT{m.Blocks[key], m.Maybe[key]} {
		if old != nil {
			for i := range u {
				u[i] |= old[i]
			}
		}
	}
	if m.Maybe == nil {
		m.Maybe = map[uint32]*smp.MFT{}
	}
	m.Maybe[key] = &u
	delete(m.Blocks, key)
}

// Ports are those that a block sends to or may send to, nil if nothing is known.
func (m *Multicast) Ports(block uint16, pos uint8) *smp.MFT {
	key := MulticastKey(block, pos)
	if b := m.Blocks[key]; b != nil {
		return b
	}
	return m.Maybe[key]
}

// Forget is for a switch whose table is to be read back; reset says that it lost what it held.
func (m *Multicast) Forget(reset bool) {
	if reset {
		m.Maybe = nil
	} else {
		for key, b := range m.Blocks {
			m.Doubt(uint16(key), uint8(key>>16), b)
		}
	}
	m.Blocks = nil
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
