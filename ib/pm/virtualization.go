package pm

// VPortCountersExtendedLen is the size of the attribute in bytes.
const VPortCountersExtendedLen = 80

// SelVPortAll is VPortCountersExtended.CounterSelect of all counters: bit n is
// the nth.
const SelVPortAll uint16 = 0x01FF

// VPortCountersExtended is the attribute of that name, 80 bytes: the part of a virtual port in
// the traffic of its physical port. The PMA of the physical port answers it, with
// Cap2Virtualization. (Proposed: the IBTA's public text names the counters and no more.)
type VPortCountersExtended struct {
	PortSelect            uint8  // physical port of the adapter
	CounterSelect         uint16 // which counters a Set writes
	VPortIndex            uint16 // 0 is the share of VPort 0, not the whole
	PortXmitData          uint64 // 4-byte words
	PortRcvData           uint64 // 4-byte words
	PortXmitPkts          uint64
	PortRcvPkts           uint64
	PortUnicastXmitPkts   uint64
	PortUnicastRcvPkts    uint64
	PortMulticastXmitPkts uint64
	PortMulticastRcvPkts  uint64 // a packet counts at every VPort that got a copy
	PortRelayErrors       uint64 // dropped for an SL outside SLMask, or a missing or wrong GRH
}

// Decode reads the attribute.
func (p *VPortCountersExtended) Decode(b []byte) error {
	if bad(b, VPortCountersExtendedLen) {
		return lenErr("VPortCountersExtended", b, VPortCountersExtendedLen)
	}
	b = b[:VPortCountersExtendedLen]
	*p = VPortCountersExtended{
		PortSelect: b[1], CounterSelect: be.Uint16(b[2:]), VPortIndex: be.Uint16(b[4:]),
		PortXmitData: be.Uint64(b[8:]), PortRcvData: be.Uint64(b[16:]),
		PortXmitPkts: be.Uint64(b[24:]), PortRcvPkts: be.Uint64(b[32:]),
		PortUnicastXmitPkts: be.Uint64(b[40:]), PortUnicastRcvPkts: be.Uint64(b[48:]),
		PortMulticastXmitPkts: be.Uint64(b[56:]), PortMulticastRcvPkts: be.Uint64(b[64:]),
		PortRelayErrors: be.Uint64(b[72:]),
	}
	return nil
}

// Put writes the 80 bytes.
func (p *VPortCountersExtended) Put(b []byte) {
	b = b[:VPortCountersExtendedLen]
	b[0], b[1] = 0, p.PortSelect
	be.PutUint16(b[2:], p.CounterSelect)
	be.PutUint32(b[4:], uint32(p.VPortIndex)<<16)
	be.PutUint64(b[8:], p.PortXmitData)
	be.PutUint64(b[16:], p.PortRcvData)
	be.PutUint64(b[24:], p.PortXmitPkts)
	be.PutUint64(b[32:], p.PortRcvPkts)
	be.PutUint64(b[40:], p.PortUnicastXmitPkts)
	be.PutUint64(b[48:], p.PortUnicastRcvPkts)
	be.PutUint64(b[56:], p.PortMulticastXmitPkts)
	be.PutUint64(b[64:], p.PortMulticastRcvPkts)
	be.PutUint64(b[72:], p.PortRelayErrors)
}
