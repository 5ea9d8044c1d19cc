package pm

// Sizes of the attributes of this file in bytes.
const (
	PortRcvErrorDetailsLen           = 16
	PortXmitDiscardDetailsLen        = 12
	PortOpRcvCountersLen             = 12
	PortFlowCtlCountersLen           = 12
	PortRcvConCtrlLen                = 12
	PortXmitConCtrlLen               = 8
	PortVLCounters16Len              = 36
	PortVLCounters32Len              = 68
	PortVLXmitTimeCongLen            = 64
	PortVLXmitFlowCtlUpdateErrorsLen = 8
)

// PortRcvErrorDetails is the attribute of that name, 16 bytes: why packets were received in error (IBA §16.1.4.1).
type PortRcvErrorDetails struct {
	PortSelect          uint8
	CounterSelect       uint16
	LocalPhysicalErrors uint16
	MalformedPktErrors  uint16
	BufferOverrunErrors uint16
	DLIDMappingErrors   uint16
	VLMappingErrors     uint16
	LoopingErrors       uint16
}

// Decode reads the attribute.
func (p *PortRcvErrorDetails) Decode(b []byte) error {
	if bad(b, PortRcvErrorDetailsLen) {
		return lenErr("PortRcvErrorDetails", b, PortRcvErrorDetailsLen)
	}
	b = b[:PortRcvErrorDetailsLen]
	*p = PortRcvErrorDetails{
		PortSelect: b[1], CounterSelect: be.Uint16(b[2:]),
		LocalPhysicalErrors: be.Uint16(b[4:]),
		MalformedPktErrors:  be.Uint16(b[6:]),
		BufferOverrunErrors: be.Uint16(b[8:]),
		DLIDMappingErrors:   be.Uint16(b[10:]),
		VLMappingErrors:     be.Uint16(b[12:]),
		LoopingErrors:       be.Uint16(b[14:]),
	}
	return nil
}

// Put writes the 16 bytes.
func (p *PortRcvErrorDetails) Put(b []byte) {
	b = b[:PortRcvErrorDetailsLen]
	b[0], b[1] = 0, p.PortSelect
	be.PutUint16(b[2:], p.CounterSelect)
	be.PutUint16(b[4:], p.LocalPhysicalErrors)
	be.PutUint16(b[6:], p.MalformedPktErrors)
	be.PutUint16(b[8:], p.BufferOverrunErrors)
	be.PutUint16(b[10:], p.DLIDMappingErrors)
	be.PutUint16(b[12:], p.VLMappingErrors)
	be.PutUint16(b[14:], p.LoopingErrors)
}

// PortXmitDiscardDetails is the attribute of that name, 12 bytes: why packets were discarded (IBA §16.1.4.2).
type PortXmitDiscardDetails struct {
	PortSelect                 uint8
	CounterSelect              uint16
	InactiveDiscards           uint16
	NeighborMTUDiscards        uint16
	SwLifetimeLimitDiscards    uint16
	SwHOQLifetimeLimitDiscards uint16
}

// Decode reads the attribute.
func (p *PortXmitDiscardDetails) Decode(b []byte) error {
	if bad(b, PortXmitDiscardDetailsLen) {
		return lenErr("PortXmitDiscardDetails", b, PortXmitDiscardDetailsLen)
	}
	b = b[:PortXmitDiscardDetailsLen]
	*p = PortXmitDiscardDetails{
		PortSelect: b[1], CounterSelect: be.Uint16(b[2:]),
		InactiveDiscards:           be.Uint16(b[4:]),
		NeighborMTUDiscards:        be.Uint16(b[6:]),
		SwLifetimeLimitDiscards:    be.Uint16(b[8:]),
		SwHOQLifetimeLimitDiscards: be.Uint16(b[10:]),
	}
	return nil
}

// Put writes the 12 bytes.
func (p *PortXmitDiscardDetails) Put(b []byte) {
	b = b[:PortXmitDiscardDetailsLen]
	b[0], b[1] = 0, p.PortSelect
	be.PutUint16(b[2:], p.CounterSelect)
	be.PutUint16(b[4:], p.InactiveDiscards)
	be.PutUint16(b[6:], p.NeighborMTUDiscards)
	be.PutUint16(b[8:], p.SwLifetimeLimitDiscards)
	be.PutUint16(b[10:], p.SwHOQLifetimeLimitDiscards)
}

// PortOpRcvCounters is the attribute of that name, 12 bytes: packets and data received with a chosen opcode (IBA §16.1.4.3).
type PortOpRcvCounters struct {
	PortSelect    uint8
	CounterSelect uint16
	Pkts          uint32
	Data          uint32
}

// Decode reads the attribute.
func (p *PortOpRcvCounters) Decode(b []byte) error {
	if bad(b, PortOpRcvCountersLen) {
		return lenErr("PortOpRcvCounters", b, PortOpRcvCountersLen)
	}
	b = b[:PortOpRcvCountersLen]
	*p = PortOpRcvCounters{
		PortSelect: b[1], CounterSelect: be.Uint16(b[2:]),
		Pkts: be.Uint32(b[4:]),
		Data: be.Uint32(b[8:]),
	}
	return nil
}

// Put writes the 12 bytes.
func (p *PortOpRcvCounters) Put(b []byte) {
	b = b[:PortOpRcvCountersLen]
	b[0], b[1] = 0, p.PortSelect
	be.PutUint16(b[2:], p.CounterSelect)
	be.PutUint32(b[4:], p.Pkts)
	be.PutUint32(b[8:], p.Data)
}

// PortFlowCtlCounters is the attribute of that name, 12 bytes: flow control packets (IBA §16.1.4.4).
type PortFlowCtlCounters struct {
	PortSelect    uint8
	CounterSelect uint16
	XmitFlowPkts  uint32
	RcvFlowPkts   uint32
}

// Decode reads the attribute.
func (p *PortFlowCtlCounters) Decode(b []byte) error {
	if bad(b, PortFlowCtlCountersLen) {
		return lenErr("PortFlowCtlCounters", b, PortFlowCtlCountersLen)
	}
	b = b[:PortFlowCtlCountersLen]
	*p = PortFlowCtlCounters{
		PortSelect: b[1], CounterSelect: be.Uint16(b[2:]),
		XmitFlowPkts: be.Uint32(b[4:]),
		RcvFlowPkts:  be.Uint32(b[8:]),
	}
	return nil
}

// Put writes the 12 bytes.
func (p *PortFlowCtlCounters) Put(b []byte) {
	b = b[:PortFlowCtlCountersLen]
	b[0], b[1] = 0, p.PortSelect
	be.PutUint16(b[2:], p.CounterSelect)
	be.PutUint32(b[4:], p.XmitFlowPkts)
	be.PutUint32(b[8:], p.RcvFlowPkts)
}

// PortRcvConCtrl is the attribute of that name, 12 bytes: congestion notifications received (annex A10).
type PortRcvConCtrl struct {
	PortSelect    uint8
	CounterSelect uint16
	PktRcvFECN    uint32
	PktRcvBECN    uint32
}

// Decode reads the attribute.
func (p *PortRcvConCtrl) Decode(b []byte) error {
	if bad(b, PortRcvConCtrlLen) {
		return lenErr("PortRcvConCtrl", b, PortRcvConCtrlLen)
	}
	b = b[:PortRcvConCtrlLen]
	*p = PortRcvConCtrl{
		PortSelect: b[1], CounterSelect: be.Uint16(b[2:]),
		PktRcvFECN: be.Uint32(b[4:]),
		PktRcvBECN: be.Uint32(b[8:]),
	}
	return nil
}

// Put writes the 12 bytes.
func (p *PortRcvConCtrl) Put(b []byte) {
	b = b[:PortRcvConCtrlLen]
	b[0], b[1] = 0, p.PortSelect
	be.PutUint16(b[2:], p.CounterSelect)
	be.PutUint32(b[4:], p.PktRcvFECN)
	be.PutUint32(b[8:], p.PktRcvBECN)
}

// PortXmitConCtrl is the attribute of that name, 8 bytes: time spent in congestion (annex A10).
type PortXmitConCtrl struct {
	PortSelect    uint8
	CounterSelect uint16
	XmitTimeCong  uint32
}

// Decode reads the attribute.
func (p *PortXmitConCtrl) Decode(b []byte) error {
	if bad(b, PortXmitConCtrlLen) {
		return lenErr("PortXmitConCtrl", b, PortXmitConCtrlLen)
	}
	b = b[:PortXmitConCtrlLen]
	*p = PortXmitConCtrl{
		PortSelect: b[1], CounterSelect: be.Uint16(b[2:]),
		XmitTimeCong: be.Uint32(b[4:]),
	}
	return nil
}

// Put writes the 8 bytes.
func (p *PortXmitConCtrl) Put(b []byte) {
	b = b[:PortXmitConCtrlLen]
	b[0], b[1] = 0, p.PortSelect
	be.PutUint16(b[2:], p.CounterSelect)
	be.PutUint32(b[4:], p.XmitTimeCong)
}

// PortVLCounters16 is the form of PortVLOpPackets, PortVLXmitWait and SwPortVLCongestion: a 16-bit counter for each VL.
type PortVLCounters16 struct {
	PortSelect    uint8
	CounterSelect uint16
	Counters      [16]uint16
}

// Decode reads the attribute.
func (p *PortVLCounters16) Decode(b []byte) error {
	if bad(b, PortVLCounters16Len) {
		return lenErr("PortVLCounters16", b, PortVLCounters16Len)
	}
	p.PortSelect, p.CounterSelect = b[1], be.Uint16(b[2:])
	for i := range p.Counters {
		p.Counters[i] = be.Uint16(b[4+2*i:])
	}
	return nil
}

// Put writes the 36 bytes.
func (p *PortVLCounters16) Put(b []byte) {
	b = b[:PortVLCounters16Len]
	b[0], b[1] = 0, p.PortSelect
	be.PutUint16(b[2:], p.CounterSelect)
	for i, v := range p.Counters {
		be.PutUint16(b[4+2*i:], v)
	}
}

// PortVLCounters32 is the form of PortVLOpData, by VL, and of PortSLRcvFECN, PortSLRcvBECN, PortXmitDataSL and PortRcvDataSL, by SL: 32-bit counters.
type PortVLCounters32 struct {
	PortSelect    uint8
	CounterSelect uint16
	Counters      [16]uint32
}

// Decode reads the attribute.
func (p *PortVLCounters32) Decode(b []byte) error {
	if bad(b, PortVLCounters32Len) {
		return lenErr("PortVLCounters32", b, PortVLCounters32Len)
	}
	p.PortSelect, p.CounterSelect = b[1], be.Uint16(b[2:])
	for i := range p.Counters {
		p.Counters[i] = be.Uint32(b[4+4*i:])
	}
	return nil
}

// Put writes the 68 bytes.
func (p *PortVLCounters32) Put(b []byte) {
	b = b[:PortVLCounters32Len]
	b[0], b[1] = 0, p.PortSelect
	be.PutUint16(b[2:], p.CounterSelect)
	for i, v := range p.Counters {
		be.PutUint32(b[4+4*i:], v)
	}
}

// PortVLXmitTimeCong is the attribute of that name: for each data VL the time spent in congestion (annex A10).
type PortVLXmitTimeCong struct {
	PortSelect    uint8
	CounterSelect uint16
	Counters      [15]uint32
}

// Decode reads the attribute.
func (p *PortVLXmitTimeCong) Decode(b []byte) error {
	if bad(b, PortVLXmitTimeCongLen) {
		return lenErr("PortVLXmitTimeCong", b, PortVLXmitTimeCongLen)
	}
	p.PortSelect, p.CounterSelect = b[1], be.Uint16(b[2:])
	for i := range p.Counters {
		p.Counters[i] = be.Uint32(b[4+4*i:])
	}
	return nil
}

// Put writes the 64 bytes.
func (p *PortVLXmitTimeCong) Put(b []byte) {
	b = b[:PortVLXmitTimeCongLen]
	b[0], b[1] = 0, p.PortSelect
	be.PutUint16(b[2:], p.CounterSelect)
	for i, v := range p.Counters {
		be.PutUint32(b[4+4*i:], v)
	}
}

// PortVLXmitFlowCtlUpdateErrors is the attribute of that name, 8 bytes: a
// 2-bit counter for each VL, VL 0 in the top bits.
type PortVLXmitFlowCtlUpdateErrors struct {
	PortSelect    uint8
	CounterSelect uint16
	Counters      [16]uint8 // 2 bits each
}

// Decode reads the attribute.
func (p *PortVLXmitFlowCtlUpdateErrors) Decode(b []byte) error {
	if bad(b, PortVLXmitFlowCtlUpdateErrorsLen) {
		return lenErr("PortVLXmitFlowCtlUpdateErrors", b, PortVLXmitFlowCtlUpdateErrorsLen)
	}
	p.PortSelect, p.CounterSelect = b[1], be.Uint16(b[2:])
	w := be.Uint32(b[4:])
	for i := range p.Counters {
		p.Counters[i] = uint8(w>>(30-2*i)) & 3
	}
	return nil
}

// Put writes the 8 bytes.
func (p *PortVLXmitFlowCtlUpdateErrors) Put(b []byte) {
	b = b[:PortVLXmitFlowCtlUpdateErrorsLen]
	b[0], b[1] = 0, p.PortSelect
	be.PutUint16(b[2:], p.CounterSelect)
	var w uint32
	for i, v := range p.Counters {
		w |= uint32(v&3) << (30 - 2*i)
	}
	be.PutUint32(b[4:], w)
}
