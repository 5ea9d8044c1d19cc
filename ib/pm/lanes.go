package pm

// Counters by lane or service level: 16 of them after the same 4 bytes (IBA
// §16.1.4).

// Sizes of the attributes in bytes.
const (
	Counters32Len = 68
	Counters16Len = 36
	Counters2Len  = 8
)

// Counters32 is PortVLOpData, PortXmitDataSL or PortRcvDataSL, 68 bytes: 4-byte
// words by lane or by service level.
type Counters32 struct {
	OpCode        uint8 // of PortVLOpData: the packets that it counts
	PortSelect    uint8
	CounterSelect uint16 // bit n: counter n
	Counter       [16]uint32
}

// Decode reads the attribute.
func (p *Counters32) Decode(b []byte) error {
	if bad(b, Counters32Len) {
		return lenErr("Counters32", b, Counters32Len)
	}
	p.OpCode, p.PortSelect, p.CounterSelect = b[0], b[1], be.Uint16(b[2:])
	for i := range p.Counter {
		p.Counter[i] = be.Uint32(b[4+4*i:])
	}
	return nil
}

// Put writes the 68 bytes.
func (p *Counters32) Put(b []byte) {
	b = b[:Counters32Len]
	b[0], b[1] = p.OpCode, p.PortSelect
	be.PutUint16(b[2:], p.CounterSelect)
	for i, v := range p.Counter {
		be.PutUint32(b[4+4*i:], v)
	}
}

// Counters16 is PortVLOpPackets, PortVLXmitWaitCounters or SwPortVLCongestion, 36
// bytes: packets or ticks by lane.
type Counters16 struct {
	OpCode        uint8 // of PortVLOpPackets: the packets that it counts
	PortSelect    uint8
	CounterSelect uint16 // bit n: counter n
	Counter       [16]uint16
}

// Decode reads the attribute.
func (p *Counters16) Decode(b []byte) error {
	if bad(b, Counters16Len) {
		return lenErr("Counters16", b, Counters16Len)
	}
	p.OpCode, p.PortSelect, p.CounterSelect = b[0], b[1], be.Uint16(b[2:])
	for i := range p.Counter {
		p.Counter[i] = be.Uint16(b[4+2*i:])
	}
	return nil
}

// Put writes the 36 bytes.
func (p *Counters16) Put(b []byte) {
	b = b[:Counters16Len]
	b[0], b[1] = p.OpCode, p.PortSelect
	be.PutUint16(b[2:], p.CounterSelect)
	for i, v := range p.Counter {
		be.PutUint16(b[4+2*i:], v)
	}
}

// Counters2 is PortVLXmitFlowCtlUpdateErrors, 8 bytes: errors by lane, 0 to 3.
type Counters2 struct {
	PortSelect    uint8
	CounterSelect uint16 // bit n: counter n
	Counter       [16]uint8
}

// Decode reads the attribute.
func (p *Counters2) Decode(b []byte) error {
	if bad(b, Counters2Len) {
		return lenErr("Counters2", b, Counters2Len)
	}
	p.PortSelect, p.CounterSelect = b[1], be.Uint16(b[2:])
	v := be.Uint32(b[4:])
	for i := range p.Counter {
		p.Counter[i] = uint8(v>>(30-2*i)) & 3
	}
	return nil
}

// Put writes the 8 bytes.
func (p *Counters2) Put(b []byte) {
	b = b[:Counters2Len]
	b[0], b[1] = 0, p.PortSelect
	be.PutUint16(b[2:], p.CounterSelect)
	v := uint32(0)
	for i, c := range p.Counter {
		v |= uint32(c&3) << (30 - 2*i)
	}
	be.PutUint32(b[4:], v)
}
