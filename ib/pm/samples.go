package pm

// Sizes of the attributes of this file in bytes.
const (
	PortSamplesControlLen        = 80
	PortSamplesResultLen         = 64
	PortSamplesResultExtendedLen = 128
)

// SampleStatus is the state of a sampler.
type SampleStatus uint8

// The states.
const (
	SampleDone    SampleStatus = 0
	SampleWaiting SampleStatus = 1 // until SampleStart has passed
	SampleRunning SampleStatus = 2
)

// What a sampler can count (CounterSelect of PortSamplesControl, IBA §16.1.3.3).
const (
	SamplePortXmitData uint16 = 1
	SamplePortRcvData  uint16 = 2
	SamplePortXmitPkts uint16 = 3
	SamplePortRcvPkts  uint16 = 4
	SamplePortXmitWait uint16 = 5
)

// PortSamplesControl is the attribute of that name, 80 bytes (IBA §16.1.3.2).
// A Set is honoured only while SampleStatus is SampleDone.
type PortSamplesControl struct {
	OpCode                uint8 // 0 for normal sampling
	PortSelect            uint8
	Tick                  uint8     // length of a tick, a code of the device
	CounterWidth          uint8     // 3 bits: 0–4 = 16, 20, 24, 28, 32 bits
	CounterMask           [15]uint8 // 3 bits: 0 mandatory, 1 optional, 2 vendor events
	SampleMechanisms      uint8
	SampleStatus          SampleStatus // 2 bits
	OptionMask            uint64
	VendorMask            uint64
	SampleStart           uint32 // ticks to wait
	SampleInterval        uint32 // ticks to sample
	Tag                   uint16
	CounterSelect         [15]uint16
	SamplesOnlyOptionMask uint64 // with CapSamplesOnlyOptionMask
}

// Decode reads the attribute.
func (p *PortSamplesControl) Decode(b []byte) error {
	if bad(b, PortSamplesControlLen) {
		return lenErr("PortSamplesControl", b, PortSamplesControlLen)
	}
	b = b[:PortSamplesControlLen]
	*p = PortSamplesControl{
		OpCode: b[0], PortSelect: b[1], Tick: b[2], CounterWidth: b[3] & 7, SampleMechanisms: b[10],
		SampleStatus: SampleStatus(b[11] & 3), OptionMask: be.Uint64(b[12:]), VendorMask: be.Uint64(b[20:]),
		SampleStart: be.Uint32(b[28:]), SampleInterval: be.Uint32(b[32:]), Tag: be.Uint16(b[36:]),
		SamplesOnlyOptionMask: be.Uint64(b[72:]),
	}
	w, h := be.Uint32(b[4:]), be.Uint16(b[8:])
	for i := range 10 {
		p.CounterMask[i] = uint8(w>>(27-3*i)) & 7
	}
	for i := range 5 {
		p.CounterMask[10+i] = uint8(h>>(12-3*i)) & 7
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
	var w uint32
	var h uint16
	for i := range 10 {
		w |= uint32(p.CounterMask[i]&7) << (27 - 3*i)
	}
	for i := range 5 {
		h |= uint16(p.CounterMask[10+i]&7) << (12 - 3*i)
	}
	be.PutUint32(b[4:], w)
	be.PutUint16(b[8:], h)
	b[10], b[11] = p.SampleMechanisms, byte(p.SampleStatus)&3
	be.PutUint64(b[12:], p.OptionMask)
	be.PutUint64(b[20:], p.VendorMask)
	be.PutUint32(b[28:], p.SampleStart)
	be.PutUint32(b[32:], p.SampleInterval)
	be.PutUint16(b[36:], p.Tag)
	for i, v := range p.CounterSelect {
		be.PutUint16(b[38+2*i:], v)
	}
	be.PutUint32(b[68:], 0)
	be.PutUint64(b[72:], p.SamplesOnlyOptionMask)
}

// PortSamplesResult is the attribute of that name, 64 bytes
// (IBA §16.1.3.4): valid when SampleStatus is SampleDone and the tag is ours.
type PortSamplesResult struct {
	Tag          uint16
	SampleStatus SampleStatus // 2 bits
	Counter      [15]uint32
}

// Decode reads the attribute.
func (p *PortSamplesResult) Decode(b []byte) error {
	if bad(b, PortSamplesResultLen) {
		return lenErr("PortSamplesResult", b, PortSamplesResultLen)
	}
	p.Tag, p.SampleStatus = be.Uint16(b), SampleStatus(b[3]&3)
	for i := range p.Counter {
		p.Counter[i] = be.Uint32(b[4+4*i:])
	}
	return nil
}

// Put writes the 64 bytes.
func (p *PortSamplesResult) Put(b []byte) {
	b = b[:PortSamplesResultLen]
	be.PutUint16(b, p.Tag)
	b[2], b[3] = 0, byte(p.SampleStatus)&3
	for i, v := range p.Counter {
		be.PutUint32(b[4+4*i:], v)
	}
}

// PortSamplesResultExtended is the attribute of that name, 128 bytes: 64-bit
// counters.
type PortSamplesResultExtended struct {
	Tag           uint16
	SampleStatus  SampleStatus // 2 bits
	ExtendedWidth uint8        // 2 bits
	Counter       [15]uint64
}

// Decode reads the attribute.
func (p *PortSamplesResultExtended) Decode(b []byte) error {
	if bad(b, PortSamplesResultExtendedLen) {
		return lenErr("PortSamplesResultExtended", b, PortSamplesResultExtendedLen)
	}
	p.Tag, p.SampleStatus, p.ExtendedWidth = be.Uint16(b), SampleStatus(b[3]&3), b[4]>>6
	for i := range p.Counter {
		p.Counter[i] = be.Uint64(b[8+8*i:])
	}
	return nil
}

// Put writes the 128 bytes.
func (p *PortSamplesResultExtended) Put(b []byte) {
	b = b[:PortSamplesResultExtendedLen]
	be.PutUint16(b, p.Tag)
	b[2], b[3] = 0, byte(p.SampleStatus)&3
	be.PutUint32(b[4:], uint32(p.ExtendedWidth&3)<<30)
	for i, v := range p.Counter {
		be.PutUint64(b[8+8*i:], v)
	}
}
