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
