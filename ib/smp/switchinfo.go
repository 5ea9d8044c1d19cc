package smp

import (
	"encoding/binary"

	"heddle/ib"
)

// SwitchInfoLen is the size of SwitchInfo in bytes.
const SwitchInfoLen = 20

// SwitchInfo is the SwitchInfo attribute, 20 bytes (IBA §14.2.5.4). There is
// no partial Set: write back what was read with the intended changes, and
// PortStateChange 0 unless it is to be cleared.
type SwitchInfo struct {
	LinearFDBCap                   uint16 // linear unicast entries; 0 = no linear table
	RandomFDBCap                   uint16
	MulticastFDBCap                uint16 // multicast entries, from MLID 0xC000
	LinearFDBTop                   ib.LID // highest unicast LID that is forwarded
	DefaultPort                    uint8  // random table only
	DefaultMulticastPrimaryPort    uint8  // 255 = drop
	DefaultMulticastNotPrimaryPort uint8
	LifeTimeValue                  uint8 // 5 bits: 4.096 µs × 2^n, above 19 no limit
	// PortStateChange: some port changed state on its own. Writing true clears.
	PortStateChange bool
	// OptimizedSLtoVLMappingProgramming, 2 bits: bit 0 the wildcard modifiers
	// of SLtoVL are accepted.
	OptimizedSLtoVLMappingProgramming uint8
	LIDsPerPort                       uint16 // random table only
	PartitionEnforcementCap           uint16 // P_Keys per external port; 0 = no enforcement
	InboundEnforcementCap             bool
	OutboundEnforcementCap            bool
	FilterRawInboundCap               bool
	FilterRawOutboundCap              bool
	EnhancedPort0                     bool
	MulticastFDBTop                   ib.LID // with CapIsMulticastFDBTopSupported; 0 = not limited
}

// Decode reads the attribute.
func (s *SwitchInfo) Decode(b []byte) error {
	if len(b) != SwitchInfoLen && len(b) != DataLen {
		return check("SwitchInfo", b, SwitchInfoLen)
	}
	b = b[:SwitchInfoLen]
	be := binary.BigEndian
	*s = SwitchInfo{
		LinearFDBCap: be.Uint16(b[0:]), RandomFDBCap: be.Uint16(b[2:]), MulticastFDBCap: be.Uint16(b[4:]),
		LinearFDBTop: ib.LID(be.Uint16(b[6:])), DefaultPort: b[8], DefaultMulticastPrimaryPort: b[9],
		DefaultMulticastNotPrimaryPort: b[10], LifeTimeValue: b[11] >> 3, PortStateChange: bit(b[11], 0x04),
		OptimizedSLtoVLMappingProgramming: b[11] & 0x03,
		LIDsPerPort:                       be.Uint16(b[12:]), PartitionEnforcementCap: be.Uint16(b[14:]),
		InboundEnforcementCap: bit(b[16], 0x80), OutboundEnforcementCap: bit(b[16], 0x40),
		FilterRawInboundCap: bit(b[16], 0x20), FilterRawOutboundCap: bit(b[16], 0x10),
		EnhancedPort0: bit(b[16], 0x08), MulticastFDBTop: ib.LID(be.Uint16(b[18:])),
	}
	return nil
}

// Put writes the 20 bytes.
func (s *SwitchInfo) Put(b []byte) {
	b = b[:SwitchInfoLen]
	be := binary.BigEndian
	be.PutUint16(b[0:], s.LinearFDBCap)
	be.PutUint16(b[2:], s.RandomFDBCap)
	be.PutUint16(b[4:], s.MulticastFDBCap)
	be.PutUint16(b[6:], uint16(s.LinearFDBTop))
	b[8], b[9], b[10] = s.DefaultPort, s.DefaultMulticastPrimaryPort, s.DefaultMulticastNotPrimaryPort
	b[11] = s.LifeTimeValue<<3 | flag(s.PortStateChange, 0x04) | s.OptimizedSLtoVLMappingProgramming&0x03
	be.PutUint16(b[12:], s.LIDsPerPort)
	be.PutUint16(b[14:], s.PartitionEnforcementCap)
	b[16] = flag(s.InboundEnforcementCap, 0x80) | flag(s.OutboundEnforcementCap, 0x40) |
		flag(s.FilterRawInboundCap, 0x20) | flag(s.FilterRawOutboundCap, 0x10) | flag(s.EnhancedPort0, 0x08)
	b[17] = 0
	be.PutUint16(b[18:], uint16(s.MulticastFDBTop))
}
