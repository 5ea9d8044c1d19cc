package pm

// The encoding.BinaryUnmarshaler and encoding.BinaryAppender forms of every
// attribute: UnmarshalBinary is Decode, AppendBinary appends what Put writes.

// UnmarshalBinary is Decode.
func (p *PortCounters) UnmarshalBinary(b []byte) error { return p.Decode(b) }

// AppendBinary appends the PortCountersLen bytes that Put writes.
func (p *PortCounters) AppendBinary(b []byte) ([]byte, error) {
	b, tail := grow(b, PortCountersLen)
	p.Put(tail)
	return b, nil
}

// UnmarshalBinary is Decode.
func (p *PortCountersExtended) UnmarshalBinary(b []byte) error { return p.Decode(b) }

// AppendBinary appends the PortCountersExtendedLen bytes that Put writes.
func (p *PortCountersExtended) AppendBinary(b []byte) ([]byte, error) {
	b, tail := grow(b, PortCountersExtendedLen)
	p.Put(tail)
	return b, nil
}

// UnmarshalBinary is Decode.
func (p *PortExtendedSpeedsCounters) UnmarshalBinary(b []byte) error { return p.Decode(b) }

// AppendBinary appends the PortExtendedSpeedsCountersLen bytes that Put writes.
func (p *PortExtendedSpeedsCounters) AppendBinary(b []byte) ([]byte, error) {
	b, tail := grow(b, PortExtendedSpeedsCountersLen)
	p.Put(tail)
	return b, nil
}

// UnmarshalBinary is Decode.
func (p *PortFlowCtlCounters) UnmarshalBinary(b []byte) error { return p.Decode(b) }

// AppendBinary appends the PortFlowCtlCountersLen bytes that Put writes.
func (p *PortFlowCtlCounters) AppendBinary(b []byte) ([]byte, error) {
	b, tail := grow(b, PortFlowCtlCountersLen)
	p.Put(tail)
	return b, nil
}

// UnmarshalBinary is Decode.
func (p *PortOpRcvCounters) UnmarshalBinary(b []byte) error { return p.Decode(b) }

// AppendBinary appends the PortOpRcvCountersLen bytes that Put writes.
func (p *PortOpRcvCounters) AppendBinary(b []byte) ([]byte, error) {
	b, tail := grow(b, PortOpRcvCountersLen)
	p.Put(tail)
	return b, nil
}

// UnmarshalBinary is Decode.
func (p *PortRcvConCtrl) UnmarshalBinary(b []byte) error { return p.Decode(b) }

// AppendBinary appends the PortRcvConCtrlLen bytes that Put writes.
func (p *PortRcvConCtrl) AppendBinary(b []byte) ([]byte, error) {
	b, tail := grow(b, PortRcvConCtrlLen)
	p.Put(tail)
	return b, nil
}

// UnmarshalBinary is Decode.
func (p *PortRcvErrorDetails) UnmarshalBinary(b []byte) error { return p.Decode(b) }

// AppendBinary appends the PortRcvErrorDetailsLen bytes that Put writes.
func (p *PortRcvErrorDetails) AppendBinary(b []byte) ([]byte, error) {
	b, tail := grow(b, PortRcvErrorDetailsLen)
	p.Put(tail)
	return b, nil
}

// UnmarshalBinary is Decode.
func (p *PortSamplesControl) UnmarshalBinary(b []byte) error { return p.Decode(b) }

// AppendBinary appends the PortSamplesControlLen bytes that Put writes.
func (p *PortSamplesControl) AppendBinary(b []byte) ([]byte, error) {
	b, tail := grow(b, PortSamplesControlLen)
	p.Put(tail)
	return b, nil
}

// UnmarshalBinary is Decode.
func (p *PortSamplesResult) UnmarshalBinary(b []byte) error { return p.Decode(b) }

// AppendBinary appends the PortSamplesResultLen bytes that Put writes.
func (p *PortSamplesResult) AppendBinary(b []byte) ([]byte, error) {
	b, tail := grow(b, PortSamplesResultLen)
	p.Put(tail)
	return b, nil
}

// UnmarshalBinary is Decode.
func (p *PortSamplesResultExtended) UnmarshalBinary(b []byte) error { return p.Decode(b) }

// AppendBinary appends the PortSamplesResultExtendedLen bytes that Put writes.
func (p *PortSamplesResultExtended) AppendBinary(b []byte) ([]byte, error) {
	b, tail := grow(b, PortSamplesResultExtendedLen)
	p.Put(tail)
	return b, nil
}

// UnmarshalBinary is Decode.
func (p *PortVLCounters16) UnmarshalBinary(b []byte) error { return p.Decode(b) }

// AppendBinary appends the PortVLCounters16Len bytes that Put writes.
func (p *PortVLCounters16) AppendBinary(b []byte) ([]byte, error) {
	b, tail := grow(b, PortVLCounters16Len)
	p.Put(tail)
	return b, nil
}

// UnmarshalBinary is Decode.
func (p *PortVLCounters32) UnmarshalBinary(b []byte) error { return p.Decode(b) }

// AppendBinary appends the PortVLCounters32Len bytes that Put writes.
func (p *PortVLCounters32) AppendBinary(b []byte) ([]byte, error) {
	b, tail := grow(b, PortVLCounters32Len)
	p.Put(tail)
	return b, nil
}

// UnmarshalBinary is Decode.
func (p *PortVLXmitFlowCtlUpdateErrors) UnmarshalBinary(b []byte) error { return p.Decode(b) }

// AppendBinary appends the PortVLXmitFlowCtlUpdateErrorsLen bytes that Put writes.
func (p *PortVLXmitFlowCtlUpdateErrors) AppendBinary(b []byte) ([]byte, error) {
	b, tail := grow(b, PortVLXmitFlowCtlUpdateErrorsLen)
	p.Put(tail)
	return b, nil
}

// UnmarshalBinary is Decode.
func (p *PortVLXmitTimeCong) UnmarshalBinary(b []byte) error { return p.Decode(b) }

// AppendBinary appends the PortVLXmitTimeCongLen bytes that Put writes.
func (p *PortVLXmitTimeCong) AppendBinary(b []byte) ([]byte, error) {
	b, tail := grow(b, PortVLXmitTimeCongLen)
	p.Put(tail)
	return b, nil
}

// UnmarshalBinary is Decode.
func (p *PortXmitConCtrl) UnmarshalBinary(b []byte) error { return p.Decode(b) }

// AppendBinary appends the PortXmitConCtrlLen bytes that Put writes.
func (p *PortXmitConCtrl) AppendBinary(b []byte) ([]byte, error) {
	b, tail := grow(b, PortXmitConCtrlLen)
	p.Put(tail)
	return b, nil
}

// UnmarshalBinary is Decode.
func (p *PortXmitDiscardDetails) UnmarshalBinary(b []byte) error { return p.Decode(b) }

// AppendBinary appends the PortXmitDiscardDetailsLen bytes that Put writes.
func (p *PortXmitDiscardDetails) AppendBinary(b []byte) ([]byte, error) {
	b, tail := grow(b, PortXmitDiscardDetailsLen)
	p.Put(tail)
	return b, nil
}

// UnmarshalBinary is Decode.
func (p *VPortCountersExtended) UnmarshalBinary(b []byte) error { return p.Decode(b) }

// AppendBinary appends the VPortCountersExtendedLen bytes that Put writes.
func (p *VPortCountersExtended) AppendBinary(b []byte) ([]byte, error) {
	b, tail := grow(b, VPortCountersExtendedLen)
	p.Put(tail)
	return b, nil
}
