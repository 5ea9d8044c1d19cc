package pm

// ExtendedSpeedsLen is the size of the attribute in bytes.
const ExtendedSpeedsLen = 152

// ExtendedSpeeds is PortExtendedSpeedsCounters, 152 bytes: errors of the line code of links above
// QDR (IBA §16.1.4.12). Lanes that a link has not are 0. With CapRSFEC and RS-FEC in use, the
// fields by lane are other ones: FECCorrected counts symbols, the other two are 0.
type ExtendedSpeeds struct {
	PortSelect             uint8
	CounterSelect          uint64
	SyncHeaderErrorCounter uint16
	UnknownBlockCounter    uint16
	ErrorDetection         [12]uint16 // by lane
	FECCorrected           [12]uint32 // blocks, or symbols, by lane
	FECUncorrected         [12]uint32 // blocks by lane
	PortFECCorrectable     uint32     // blocks
	PortFECUncorrectable   uint32     // blocks
	PortFECCorrected       uint32     // symbols
}

// Decode reads the attribute.
func (p *ExtendedSpeeds) Decode(b []byte) error {
	if bad(b, ExtendedSpeedsLen) {
		return lenErr("PortExtendedSpeedsCounters", b, ExtendedSpeedsLen)
	}
	x := ExtendedSpeeds{
		PortSelect: b[1], CounterSelect: be.Uint64(b[8:]),
		SyncHeaderErrorCounter: be.Uint16(b[16:]), UnknownBlockCounter: be.Uint16(b[18:]),
		PortFECCorrectable: be.Uint32(b[140:]), PortFECUncorrectable: be.Uint32(b[144:]), PortFECCorrected: be.Uint32(b[148:]),
	}
	for i := range 12 {
		x.ErrorDetection[i] = be.Uint16(b[20+2*i:])
		x.FECCorrected[i] = be.Uint32(b[44+4*i:])
		x.FECUncorrected[i] = be.Uint32(b[92+4*i:])
	}
	*p = x
	return nil
}

// Put writes the 152 bytes.
func (p *ExtendedSpeeds) Put(b []byte) {
	b = b[:ExtendedSpeedsLen]
	clear(b)
	b[1] = p.PortSelect
	be.PutUint64(b[8:], p.CounterSelect)
	be.PutUint16(b[16:], p.SyncHeaderErrorCounter)
	be.PutUint16(b[18:], p.UnknownBlockCounter)
	for i := range 12 {
		be.PutUint16(b[20+2*i:], p.ErrorDetection[i])
		be.PutUint32(b[44+4*i:], p.FECCorrected[i])
		be.PutUint32(b[92+4*i:], p.FECUncorrected[i])
	}
	be.PutUint32(b[140:], p.PortFECCorrectable)
	be.PutUint32(b[144:], p.PortFECUncorrectable)
	be.PutUint32(b[148:], p.PortFECCorrected)
}
