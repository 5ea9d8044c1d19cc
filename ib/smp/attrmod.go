package smp

import "heddle/ib"

// Bits of the attribute modifier of PortInfo (IBA §14.2.5.6).
const (
	// PortInfoExtSpeeds says that the sender understands extended speeds.
	// Without it a device may hide them.
	PortInfoExtSpeeds uint32 = 1 << 31
	// PortInfoActiveDefer says that the sender understands ActiveDefer.
	PortInfoActiveDefer uint32 = 1 << 15
)

// PortInfoMod is the modifier of PortInfo for a port.
func PortInfoMod(port uint8, extSpeeds bool) uint32 {
	am := uint32(port)
	if extSpeeds {
		am |= PortInfoExtSpeeds
	}
	return am
}

// PortInfoPort is the port of a PortInfo modifier, flags removed.
func PortInfoPort(am uint32) uint8 { return uint8(am) }

// PKeyMod is the modifier of P_KeyTable. port is 0 but for external ports of
// a switch; block counts 32 entries each.
func PKeyMod(port uint8, block uint16) uint32 { return uint32(port)<<16 | uint32(block) }

// SplitPKeyMod is the inverse of PKeyMod.
func SplitPKeyMod(am uint32) (port uint16, block uint16) { return uint16(am >> 16), uint16(am) }

// Wildcards of the SLtoVL modifier, for switches whose
// SwitchInfo.OptimizedSLtoVLMappingProgramming has bit 0; Set only.
const (
	SLtoVLAllOut uint32 = 1 << 16
	SLtoVLAllIn  uint32 = 1 << 17
)

// SLtoVLMod is the modifier of SLtoVLMappingTable: 0, 0 for a CA.
func SLtoVLMod(in, out uint8) uint32 { return uint32(in)<<8 | uint32(out) }

// SplitSLtoVLMod is the inverse of SLtoVLMod.
func SplitSLtoVLMod(am uint32) (in, out uint8, allIn, allOut bool) {
	return uint8(am >> 8), uint8(am), am&SLtoVLAllIn != 0, am&SLtoVLAllOut != 0
}

// Parts of the VL arbitration tables.
const (
	VLArbLow0  uint16 = 1 // low priority entries 0–31
	VLArbLow1  uint16 = 2 // low priority entries 32–63
	VLArbHigh0 uint16 = 3 // high priority entries 0–31
	VLArbHigh1 uint16 = 4 // high priority entries 32–63
)

// VLArbMod is the modifier of VLArbitrationTable; port is 0 for a CA.
func VLArbMod(part uint16, port uint8) uint32 { return uint32(part)<<16 | uint32(port) }

// SplitVLArbMod is the inverse of VLArbMod.
func SplitVLArbMod(am uint32) (part uint16, port uint8) { return uint16(am >> 16), uint8(am) }

// MFTMod is the modifier of MulticastForwardingTable: block counts 32 MLIDs
// (0–511), position 16 ports (0–15).
func MFTMod(block uint16, position uint8) uint32 {
	return uint32(position&0xF)<<28 | uint32(block&0x1FF)
}

// SplitMFTMod is the inverse of MFTMod.
func SplitMFTMod(am uint32) (block uint16, position uint8) {
	return uint16(am & 0x1FF), uint8(am >> 28)
}

// Sizes of table blocks and how many there can be.
const (
	LFTBlockLIDs   = 64 // entries of an LFT block
	LFTBlocks      = 768
	MFTBlockMLIDs  = 32 // entries of an MFT block
	MFTBlocks      = 512
	MFTPositions   = 16
	MFTPortsPerPos = 16
	PKeyBlockLen   = 32
	GUIDBlockLen   = 8
	VPortsPerBlock = 128 // states of a VPortState block
	VPortBlocks    = 512
)

// LFTBlockOf is the LFT block, and so the modifier, that holds a LID, and the
// index in it.
func LFTBlockOf(l ib.LID) (block uint16, index uint8) { return uint16(l) / 64, uint8(l) & 63 }

// MFTBlockOf is the MFT block that holds a multicast LID, and the index in it.
func MFTBlockOf(l ib.LID) (block uint16, index uint8) {
	o := uint16(l - ib.LIDMinMulticast)
	return o / 32, uint8(o & 31)
}

// SMInfo Set modifiers: what the sender asks of the other SM (IBA §14.4.1).
const (
	SMModHandover    uint32 = 1
	SMModAcknowledge uint32 = 2
	SMModDisable     uint32 = 3
	SMModStandby     uint32 = 4
	SMModDiscover    uint32 = 5
)

// VPortMod is the modifier of VPortInfo, VNodeInfo and VNodeDescription.
func VPortMod(index uint16) uint32 { return uint32(index) }

// SplitVPortMod is the inverse of VPortMod; ok is false if am names no VPort.
func SplitVPortMod(am uint32) (index uint16, ok bool) { return uint16(am), am>>16 == 0 }

// VPortStateBlockOf is the VPortState block, and so the modifier, that holds a
// VPort, and the index in it.
func VPortStateBlockOf(index uint16) (block uint16, i uint8) {
	return index / VPortsPerBlock, uint8(index % VPortsPerBlock)
}

// VPortTableMod is the modifier of VPortGUIDInfo, whose blocks count 8
// entries each, and of VPortPartitionTable, with 32. Proposed: no public source
// says how the two numbers share the modifier; this is as in P_KeyTable.
func VPortTableMod(index, block uint16) uint32 { return uint32(index)<<16 | uint32(block) }

// SplitVPortTableMod is the inverse of VPortTableMod.
func SplitVPortTableMod(am uint32) (index, block uint16) { return uint16(am >> 16), uint16(am) }
