package pm

// Sizes of the attributes of this file in bytes.
const (
	PortCountersLen         = 44
	PortCountersExtendedLen = 184
)

// Bits of PortCounters.CounterSelect: which counters a Set writes.
const (
	SelSymbolError          uint16 = 1 << 0
	SelLinkErrorRecovery    uint16 = 1 << 1
	SelLinkDowned           uint16 = 1 << 2
	SelRcvErrors            uint16 = 1 << 3
	SelRcvRemotePhysErrors  uint16 = 1 << 4
	SelRcvSwitchRelayErrors uint16 = 1 << 5
	SelXmitDiscards         uint16 = 1 << 6
	SelXmitConstraintErrors uint16 = 1 << 7
	SelRcvConstraintErrors  uint16 = 1 << 8
	SelLocalLinkIntegrity   uint16 = 1 << 9
	SelExcessiveBufOverrun  uint16 = 1 << 10
	SelVL15Dropped          uint16 = 1 << 11
	SelXmitData             uint16 = 1 << 12
	SelRcvData              uint16 = 1 << 13
	SelXmitPkts             uint16 = 1 << 14
	SelRcvPkts              uint16 = 1 << 15
	SelAll                  uint16 = 0xFFFF
	Sel2XmitWait            uint8  = 1 << 0
	SelExtAll               uint16 = 0x00FF // of PortCountersExtended
	Sel2ExtAll              uint32 = 0x3FFF // second group
)

// PortCounters is the attribute of that name, 44 bytes (IBA §16.1.3.5).
// Counters stop at all ones.
type PortCounters struct {
	PortSelect                   uint8
	CounterSelect                uint16
	SymbolErrorCounter           uint16
	LinkErrorRecoveryCounter     uint8
	LinkDownedCounter            uint8
	PortRcvErrors                uint16
	PortRcvRemotePhysicalErrors  uint16
	PortRcvSwitchRelayErrors     uint16
	PortXmitDiscards             uint16
	PortXmitConstraintErrors     uint8
	PortRcvConstraintErrors      uint8
	CounterSelect2               uint8
	LocalLinkIntegrityErrors     uint8  // 4 bits
	ExcessiveBufferOverrunErrors uint8  // 4 bits
	QP1Dropped                   uint16 // with CapQP1Dropped
	VL15Dropped                  uint16
	PortXmitData                 uint32 // 4-byte words
	PortRcvData                  uint32 // 4-byte words
	PortXmitPkts                 uint32
	PortRcvPkts                  uint32
	PortXmitWait                 uint32 // ticks; with CapXmitWait
}

// Decode reads the attribute.
func (p *PortCounters) Decode(b []byte) error {
	if bad(b, PortCountersLen) {
		return lenErr("PortCounters", b, PortCountersLen)
	}
	b = b[:PortCountersLen]
	*p = PortCounters{
		PortSelect: b[1], CounterSelect: be.Uint16(b[2:]), SymbolErrorCounter: be.Uint16(b[4:]),
		LinkErrorRecoveryCounter: b[6], LinkDownedCounter: b[7], PortRcvErrors: be.Uint16(b[8:]),
		PortRcvRemotePhysicalErrors: be.Uint16(b[10:]), PortRcvSwitchRelayErrors: be.Uint16(b[12:]),
		PortXmitDiscards: be.Uint16(b[14:]), PortXmitConstraintErrors: b[16], PortRcvConstraintErrors: b[17],
		CounterSelect2: b[18], LocalLinkIntegrityErrors: b[19] >> 4, ExcessiveBufferOverrunErrors: b[19] & 0xF,
		QP1Dropped: be.Uint16(b[20:]), VL15Dropped: be.Uint16(b[22:]), PortXmitData: be.Uint32(b[24:]),
		PortRcvData: be.Uint32(b[28:]), PortXmitPkts: be.Uint32(b[32:]), PortRcvPkts: be.Uint32(b[36:]),
		PortXmitWait: be.Uint32(b[40:]),
	}
	return nil
}

// Put writes the 44 bytes.
func (p *PortCounters) Put(b []byte) {
	b = b[:PortCountersLen]
	b[0], b[1] = 0, p.PortSelect
	be.PutUint16(b[2:], p.CounterSelect)
	be.PutUint16(b[4:], p.SymbolErrorCounter)
	b[6], b[7] = p.LinkErrorRecoveryCounter, p.LinkDownedCounter
	be.PutUint16(b[8:], p.PortRcvErrors)
	be.PutUint16(b[10:], p.PortRcvRemotePhysicalErrors)
	be.PutUint16(b[12:], p.PortRcvSwitchRelayErrors)
	be.PutUint16(b[14:], p.PortXmitDiscards)
	b[16], b[17], b[18] = p.PortXmitConstraintErrors, p.PortRcvConstraintErrors, p.CounterSelect2
	b[19] = p.LocalLinkIntegrityErrors<<4 | p.ExcessiveBufferOverrunErrors&0xF
	be.PutUint16(b[20:], p.QP1Dropped)
	be.PutUint16(b[22:], p.VL15Dropped)
	be.PutUint32(b[24:], p.PortXmitData)
	be.PutUint32(b[28:], p.PortRcvData)
	be.PutUint32(b[32:], p.PortXmitPkts)
	be.PutUint32(b[36:], p.PortRcvPkts)
	be.PutUint32(b[40:], p.PortXmitWait)
}

// PortCountersExtended is the attribute of that name, 184 bytes: 64-bit
// counters (IBA §16.1.4.11). The counters from SymbolErrorCounter on exist
// with Cap2ExtendedCounters.
type PortCountersExtended struct {
	PortSelect                   uint8
	CounterSelect                uint16
	CounterSelect2               uint32
	PortXmitData                 uint64 // 4-byte words
	PortRcvData                  uint64 // 4-byte words
	PortXmitPkts                 uint64
	PortRcvPkts                  uint64
	PortUnicastXmitPkts          uint64
	PortUnicastRcvPkts           uint64
	PortMulticastXmitPkts        uint64
	PortMulticastRcvPkts         uint64
	SymbolErrorCounter           uint64
	LinkErrorRecoveryCounter     uint64
	LinkDownedCounter            uint64
	PortRcvErrors                uint64
	PortRcvRemotePhysicalErrors  uint64
	PortRcvSwitchRelayErrors     uint64
	PortXmitDiscards             uint64
	PortXmitConstraintErrors     uint64
	PortRcvConstraintErrors      uint64
	LocalLinkIntegrityErrors     uint64
	ExcessiveBufferOverrunErrors uint64
	VL15Dropped                  uint64
	PortXmitWait                 uint64
	QP1Dropped                   uint64
}

// Decode reads the attribute.
func (p *PortCountersExtended) Decode(b []byte) error {
	if bad(b, PortCountersExtendedLen) {
		return lenErr("PortCountersExtended", b, PortCountersExtendedLen)
	}
	b = b[:PortCountersExtendedLen]
	*p = PortCountersExtended{
		PortSelect: b[1], CounterSelect: be.Uint16(b[2:]), CounterSelect2: be.Uint32(b[4:]),
		PortXmitData: be.Uint64(b[8:]), PortRcvData: be.Uint64(b[16:]), PortXmitPkts: be.Uint64(b[24:]),
		PortRcvPkts: be.Uint64(b[32:]), PortUnicastXmitPkts: be.Uint64(b[40:]), PortUnicastRcvPkts: be.Uint64(b[48:]),
		PortMulticastXmitPkts: be.Uint64(b[56:]), PortMulticastRcvPkts: be.Uint64(b[64:]),
		SymbolErrorCounter: be.Uint64(b[72:]), LinkErrorRecoveryCounter: be.Uint64(b[80:]),
		LinkDownedCounter: be.Uint64(b[88:]), PortRcvErrors: be.Uint64(b[96:]),
		PortRcvRemotePhysicalErrors: be.Uint64(b[104:]), PortRcvSwitchRelayErrors: be.Uint64(b[112:]),
		PortXmitDiscards: be.Uint64(b[120:]), PortXmitConstraintErrors: be.Uint64(b[128:]),
		PortRcvConstraintErrors: be.Uint64(b[136:]), LocalLinkIntegrityErrors: be.Uint64(b[144:]),
		ExcessiveBufferOverrunErrors: be.Uint64(b[152:]), VL15Dropped: be.Uint64(b[160:]),
		PortXmitWait: be.Uint64(b[168:]), QP1Dropped: be.Uint64(b[176:]),
	}
	return nil
}

// Put writes the 184 bytes.
func (p *PortCountersExtended) Put(b []byte) {
	b = b[:PortCountersExtendedLen]
	b[0], b[1] = 0, p.PortSelect
	be.PutUint16(b[2:], p.CounterSelect)
	be.PutUint32(b[4:], p.CounterSelect2)
	be.PutUint64(b[8:], p.PortXmitData)
	be.PutUint64(b[16:], p.PortRcvData)
	be.PutUint64(b[24:], p.PortXmitPkts)
	be.PutUint64(b[32:], p.PortRcvPkts)
	be.PutUint64(b[40:], p.PortUnicastXmitPkts)
	be.PutUint64(b[48:], p.PortUnicastRcvPkts)
	be.PutUint64(b[56:], p.PortMulticastXmitPkts)
	be.PutUint64(b[64:], p.PortMulticastRcvPkts)
	be.PutUint64(b[72:], p.SymbolErrorCounter)
	be.PutUint64(b[80:], p.LinkErrorRecoveryCounter)
	be.PutUint64(b[88:], p.LinkDownedCounter)
	be.PutUint64(b[96:], p.PortRcvErrors)
	be.PutUint64(b[104:], p.PortRcvRemotePhysicalErrors)
	be.PutUint64(b[112:], p.PortRcvSwitchRelayErrors)
	be.PutUint64(b[120:], p.PortXmitDiscards)
	be.PutUint64(b[128:], p.PortXmitConstraintErrors)
	be.PutUint64(b[136:], p.PortRcvConstraintErrors)
	be.PutUint64(b[144:], p.LocalLinkIntegrityErrors)
	be.PutUint64(b[152:], p.ExcessiveBufferOverrunErrors)
	be.PutUint64(b[160:], p.VL15Dropped)
	be.PutUint64(b[168:], p.PortXmitWait)
	be.PutUint64(b[176:], p.QP1Dropped)
}
