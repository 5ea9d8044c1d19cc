package pm

// Sizes of the attributes in bytes.
const (
	PortSamplesControlLen = 80
	PortSamplesResultLen  = 64
)

// NumSamples is how many counters a sampler has.
const NumSamples = 15

// States of a sampler.
const (
	SampleDone    uint8 = 0
	SampleWaiting uint8 = 1 // SampleStart is not over
	SampleRunning uint8 = 2
)

// What a counter of a sampler counts: PortSamplesControl.CounterSelect. The rest
// is optional.
const (
	SampleXmitData uint16 = 1
	SampleRcvData  uint16 = 2
	SampleXmitPkts uint16 = 3
	SampleRcvPkts  uint16 = 4
	SampleXmitWait uint16 = 5
)

// PortSamplesControl is the attribute of that name, 80 bytes: the sampler of a port
// (IBA §16.1.3.2). A Set of a sampler that is done starts it.
type PortSamplesControl struct {
	OpCode     uint8
	PortSelect uint8
	// Tick is the unit of SampleStart, SampleInterval and PortXmitWait: Tick+1 times
	// the time of 10 bits at the signaling rate of a lane, 4 ns at SDR.
	Tick              uint8
	CounterWidth      uint8  // 3 bits; 4: 32 bits
	CounterMask0      uint8  // 3 bits: what counter 0 can count
	CounterMask1to9   uint32 // 3 bits each
	CounterMask10to14 uint16 // 10 to 14: 3 bits each
	SampleMechanisms  uint8  // samplers besides the first
	SampleStatus      uint8  // 2 bits
	OptionMask        uint64
	VendorMask        uint64
	SampleStart       uint32 // ticks from the Set to the interval
	SampleInterval    uint32 // ticks
	Tag               uint16 // of the sample, repeated in the result
	CounterSelect     [NumSamples]uint16
	// SamplesOnlyOptionMask is OptionMask for what only samplers count.
	SamplesOnlyOptionMask uint64
}

// Decode reads the attribute.
func (p *PortSamplesControl) Decode(b []byte) error {
	if bad(b, PortSamplesControlLen) {
		return lenErr("PortSamplesControl", b, PortSamplesControlLen)
	}
	masks := be.Uint32(b[4:])
	*p = PortSamplesControl{
		OpCode: b[0], PortSelect: b[1], Tick: b[2], CounterWidth: b[3] & 7,
		CounterMask0: uint8(masks>>27) & 7, CounterMask1to9: masks & (1<<27 - 1), CounterMask10to14: be.Uint16(b[8:]) & 0x7FFF,
		SampleMechanisms: b[10], SampleStatus: b[11] & 3, OptionMask: be.Uint64(b[12:]), VendorMask: be.Uint64(b[20:]),
		SampleStart: be.Uint32(b[28:]), SampleInterval: be.Uint32(b[32:]), Tag: be.Uint16(b[36:]), SamplesOnlyOptionMask: be.Uint64(b[72:]),
	}
	for i := range p.CounterSelect {
		p.CounterSelect[i] = be.Uint16(b[38+2*i:])
	}
	return nil
}

// Put writes the 80 bytes.
func (p *PortSamplesControl) Put(b []byte) {
	b = b[:PortSamplesControlLen]
	b[0], b[1], b[2], b[3] = p.OpCode, p.PortSelect, p.Tick, p.CounterWidth&7
	be.PutUint32(b[4:], uint32(p.CounterMask0&7)<<27|p.CounterMask1to9&(1<<27-1))
	be.PutUint16(b[8:], p.CounterMask10to14&0x7FFF)
	b[10], b[11] = p.SampleMechanisms, p.SampleStatus&3
	be.PutUint64(b[12:], p.OptionMask)
	be.PutUint64(b[20:], p.VendorMask)
	be.PutUint32(b[28:], p.SampleStart)
	be.PutUint32(b[32:], p.SampleInterval)
	be.PutUint16(b[36:], p.Tag)
	for i, v := range p.CounterSelect {
		be.PutUint16(b[38+2*i:], v)
	}
	clear(b[68:72])
	be.PutUint64(b[72:], p.SamplesOnlyOptionMask)
}

// PortSamplesResult is the attribute of that name, 64 bytes (IBA §16.1.3.4).
type PortSamplesResult struct {
	Tag          uint16
	SampleStatus uint8 // 2 bits
	Counter      [NumSamples]uint32
}

// Decode reads the attribute.
func (p *PortSamplesResult) Decode(b []byte) error {
	if bad(b, PortSamplesResultLen) {
		return lenErr("PortSamplesResult", b, PortSamplesResultLen)
	}
	p.Tag, p.SampleStatus = be.Uint16(b), b[3]&3
	for i := range p.Counter {
		p.Counter[i] = be.Uint32(b[4+4*i:])
	}
	return nil
}

// Put writes the 64 bytes.
func (p *PortSamplesResult) Put(b []byte) {
	b = b[:PortSamplesResultLen]
	be.PutUint16(b, p.Tag)
	b[2], b[3] = 0, p.SampleStatus&3
	for i, v := range p.Counter {
		be.PutUint32(b[4+4*i:], v)
	}
}
