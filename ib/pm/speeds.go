package pm

// PortExtendedSpeedsCountersLen is the size of the attribute in bytes.
const PortExtendedSpeedsCountersLen = 152

// PortExtendedSpeedsCounters is the attribute of that name, 152 bytes: errors
// of links with forward error correction. On a link with RS-FEC (CapRSFEC)
// FECCorrectedLane counts symbols and the Port fields are used; otherwise both
// Lane arrays count blocks.
type PortExtendedSpeedsCounters struct {
	PortSelect                uint8
	CounterSelect             uint64
	SyncHeaderErrorCounter    uint16
	UnknownBlockCounter       uint16
	ErrorDetectionCounterLane [12]uint16
	FECCorrectedLane          [12]uint32 // blocks, or symbols with RS-FEC
	FECUncorrectableLane      [12]uint32 // without RS-FEC; bytes 92–139
	PortFECCorrectedBlocks    uint32     // RS-FEC
	PortFECUncorrectable      uint32     // RS-FEC
	PortFECCorrectedSymbols   uint32     // RS-FEC
}

// Decode reads the attribute.
func (p *PortExtendedSpeedsCounters) Decode(b []byte) error {
	if bad(b, PortExtendedSpeedsCountersLen) {
		return lenErr("PortExtendedSpeedsCounters", b, PortExtendedSpeedsCountersLen)
	}
	b = b[:PortExtendedSpeedsCountersLen]
	*p = PortExtendedSpeedsCounters{
		PortSelect: b[1], CounterSelect: be.Uint64(b[8:]), SyncHeaderErrorCounter: be.Uint16(b[16:]),
		UnknownBlockCounter:    be.Uint16(b[18:]),
		PortFECCorrectedBlocks: be.Uint32(b[140:]), PortFECUncorrectable: be.Uint32(b[144:]),
		PortFECCorrectedSymbols: be.Uint32(b[148:]),
	}
	for i := range 12 {
		p.ErrorDetectionCounterLane[i] = be.Uint16(b[20+2*i:])
		p.FECCorrectedLane[i] = be.Uint32(b[44+4*i:])
		p.FECUncorrectableLane[i] = be.Uint32(b[92+4*i:])
	}
	return nil
}

// Put writes the 152 bytes.
func (p *PortExtendedSpeedsCounters) Put(b []byte) {
	b = b[:PortExtendedSpeedsCountersLen]
	clear(b)
	b[1] = p.PortSelect
	be.PutUint64(b[8:], p.CounterSelect)
	be.PutUint16(b[16:], p.SyncHeaderErrorCounter)
	be.PutUint16(b[18:], p.UnknownBlockCounter)
	for i := range 12 {
		be.PutUint16(b[20+2*i:], p.ErrorDetectionCounterLane[i])
		be.PutUint32(b[44+4*i:], p.FECCorrectedLane[i])
		be.PutUint32(b[92+4*i:], p.FECUncorrectableLane[i])
	}
	be.PutUint32(b[140:], p.PortFECCorrectedBlocks)
	be.PutUint32(b[144:], p.PortFECUncorrectable)
	be.PutUint32(b[148:], p.PortFECCorrectedSymbols)
}
