package sa

// The encoding.BinaryUnmarshaler and encoding.BinaryAppender forms of every
// attribute: UnmarshalBinary is Decode, AppendBinary appends what Put writes.

// UnmarshalBinary is Decode.
func (r *GUIDInfoRecord) UnmarshalBinary(b []byte) error { return r.Decode(b) }

// AppendBinary appends the GUIDInfoRecordLen bytes that Put writes.
func (r *GUIDInfoRecord) AppendBinary(b []byte) ([]byte, error) {
	b, tail := grow(b, GUIDInfoRecordLen)
	r.Put(tail)
	return b, nil
}

// UnmarshalBinary is Decode.
func (r *InformInfo) UnmarshalBinary(b []byte) error { return r.Decode(b) }

// AppendBinary appends the InformInfoLen bytes that Put writes.
func (r *InformInfo) AppendBinary(b []byte) ([]byte, error) {
	b, tail := grow(b, InformInfoLen)
	r.Put(tail)
	return b, nil
}

// UnmarshalBinary is Decode.
func (r *InformInfoRecord) UnmarshalBinary(b []byte) error { return r.Decode(b) }

// AppendBinary appends the InformInfoRecordLen bytes that Put writes.
func (r *InformInfoRecord) AppendBinary(b []byte) ([]byte, error) {
	b, tail := grow(b, InformInfoRecordLen)
	r.Put(tail)
	return b, nil
}

// UnmarshalBinary is Decode.
func (r *LFTRecord) UnmarshalBinary(b []byte) error { return r.Decode(b) }

// AppendBinary appends the LFTRecordLen bytes that Put writes.
func (r *LFTRecord) AppendBinary(b []byte) ([]byte, error) {
	b, tail := grow(b, LFTRecordLen)
	r.Put(tail)
	return b, nil
}

// UnmarshalBinary is Decode.
func (r *LinkRecord) UnmarshalBinary(b []byte) error { return r.Decode(b) }

// AppendBinary appends the LinkRecordLen bytes that Put writes.
func (r *LinkRecord) AppendBinary(b []byte) ([]byte, error) {
	b, tail := grow(b, LinkRecordLen)
	r.Put(tail)
	return b, nil
}

// UnmarshalBinary is Decode.
func (r *MCMemberRecord) UnmarshalBinary(b []byte) error { return r.Decode(b) }

// AppendBinary appends the MCMemberRecordLen bytes that Put writes.
func (r *MCMemberRecord) AppendBinary(b []byte) ([]byte, error) {
	b, tail := grow(b, MCMemberRecordLen)
	r.Put(tail)
	return b, nil
}

// UnmarshalBinary is Decode.
func (r *MFTRecord) UnmarshalBinary(b []byte) error { return r.Decode(b) }

// AppendBinary appends the MFTRecordLen bytes that Put writes.
func (r *MFTRecord) AppendBinary(b []byte) ([]byte, error) {
	b, tail := grow(b, MFTRecordLen)
	r.Put(tail)
	return b, nil
}

// UnmarshalBinary is Decode.
func (r *NodeRecord) UnmarshalBinary(b []byte) error { return r.Decode(b) }

// AppendBinary appends the NodeRecordLen bytes that Put writes.
func (r *NodeRecord) AppendBinary(b []byte) ([]byte, error) {
	b, tail := grow(b, NodeRecordLen)
	r.Put(tail)
	return b, nil
}

// UnmarshalBinary is Decode.
func (n *Notice) UnmarshalBinary(b []byte) error { return n.Decode(b) }

// AppendBinary appends the NoticeLen bytes that Put writes.
func (n *Notice) AppendBinary(b []byte) ([]byte, error) {
	b, tail := grow(b, NoticeLen)
	n.Put(tail)
	return b, nil
}

// UnmarshalBinary is Decode.
func (r *PKeyTableRecord) UnmarshalBinary(b []byte) error { return r.Decode(b) }

// AppendBinary appends the PKeyTableRecordLen bytes that Put writes.
func (r *PKeyTableRecord) AppendBinary(b []byte) ([]byte, error) {
	b, tail := grow(b, PKeyTableRecordLen)
	r.Put(tail)
	return b, nil
}

// UnmarshalBinary is Decode.
func (r *PathRecord) UnmarshalBinary(b []byte) error { return r.Decode(b) }

// AppendBinary appends the PathRecordLen bytes that Put writes.
func (r *PathRecord) AppendBinary(b []byte) ([]byte, error) {
	b, tail := grow(b, PathRecordLen)
	r.Put(tail)
	return b, nil
}

// UnmarshalBinary is Decode.
func (r *PortInfoExtendedRecord) UnmarshalBinary(b []byte) error { return r.Decode(b) }

// AppendBinary appends the PortInfoExtendedRecordLen bytes that Put writes.
func (r *PortInfoExtendedRecord) AppendBinary(b []byte) ([]byte, error) {
	b, tail := grow(b, PortInfoExtendedRecordLen)
	r.Put(tail)
	return b, nil
}

// UnmarshalBinary is Decode.
func (r *PortInfoRecord) UnmarshalBinary(b []byte) error { return r.Decode(b) }

// AppendBinary appends the PortInfoRecordLen bytes that Put writes.
func (r *PortInfoRecord) AppendBinary(b []byte) ([]byte, error) {
	b, tail := grow(b, PortInfoRecordLen)
	r.Put(tail)
	return b, nil
}

// UnmarshalBinary is Decode.
func (r *RFTRecord) UnmarshalBinary(b []byte) error { return r.Decode(b) }

// AppendBinary appends the RFTRecordLen bytes that Put writes.
func (r *RFTRecord) AppendBinary(b []byte) ([]byte, error) {
	b, tail := grow(b, RFTRecordLen)
	r.Put(tail)
	return b, nil
}

// UnmarshalBinary is Decode.
func (r *SLtoVLRecord) UnmarshalBinary(b []byte) error { return r.Decode(b) }

// AppendBinary appends the SLtoVLRecordLen bytes that Put writes.
func (r *SLtoVLRecord) AppendBinary(b []byte) ([]byte, error) {
	b, tail := grow(b, SLtoVLRecordLen)
	r.Put(tail)
	return b, nil
}

// UnmarshalBinary is Decode.
func (r *SMInfoRecord) UnmarshalBinary(b []byte) error { return r.Decode(b) }

// AppendBinary appends the SMInfoRecordLen bytes that Put writes.
func (r *SMInfoRecord) AppendBinary(b []byte) ([]byte, error) {
	b, tail := grow(b, SMInfoRecordLen)
	r.Put(tail)
	return b, nil
}

// UnmarshalBinary is Decode.
func (r *ServiceRecord) UnmarshalBinary(b []byte) error { return r.Decode(b) }

// AppendBinary appends the ServiceRecordLen bytes that Put writes.
func (r *ServiceRecord) AppendBinary(b []byte) ([]byte, error) {
	b, tail := grow(b, ServiceRecordLen)
	r.Put(tail)
	return b, nil
}

// UnmarshalBinary is Decode.
func (r *SwitchInfoRecord) UnmarshalBinary(b []byte) error { return r.Decode(b) }

// AppendBinary appends the SwitchInfoRecordLen bytes that Put writes.
func (r *SwitchInfoRecord) AppendBinary(b []byte) ([]byte, error) {
	b, tail := grow(b, SwitchInfoRecordLen)
	r.Put(tail)
	return b, nil
}

// UnmarshalBinary is Decode.
func (r *TraceRecord) UnmarshalBinary(b []byte) error { return r.Decode(b) }

// AppendBinary appends the TraceRecordLen bytes that Put writes.
func (r *TraceRecord) AppendBinary(b []byte) ([]byte, error) {
	b, tail := grow(b, TraceRecordLen)
	r.Put(tail)
	return b, nil
}

// UnmarshalBinary is Decode.
func (r *VLArbRecord) UnmarshalBinary(b []byte) error { return r.Decode(b) }

// AppendBinary appends the VLArbRecordLen bytes that Put writes.
func (r *VLArbRecord) AppendBinary(b []byte) ([]byte, error) {
	b, tail := grow(b, VLArbRecordLen)
	r.Put(tail)
	return b, nil
}

// UnmarshalBinary is Decode.
func (r *VNodeRecord) UnmarshalBinary(b []byte) error { return r.Decode(b) }

// AppendBinary appends the VNodeRecordLen bytes that Put writes.
func (r *VNodeRecord) AppendBinary(b []byte) ([]byte, error) {
	b, tail := grow(b, VNodeRecordLen)
	r.Put(tail)
	return b, nil
}

// UnmarshalBinary is Decode.
func (r *VPortGUIDInfoRecord) UnmarshalBinary(b []byte) error { return r.Decode(b) }

// AppendBinary appends the VPortGUIDInfoRecordLen bytes that Put writes.
func (r *VPortGUIDInfoRecord) AppendBinary(b []byte) ([]byte, error) {
	b, tail := grow(b, VPortGUIDInfoRecordLen)
	r.Put(tail)
	return b, nil
}

// UnmarshalBinary is Decode.
func (r *VPortInfoRecord) UnmarshalBinary(b []byte) error { return r.Decode(b) }

// AppendBinary appends the VPortInfoRecordLen bytes that Put writes.
func (r *VPortInfoRecord) AppendBinary(b []byte) ([]byte, error) {
	b, tail := grow(b, VPortInfoRecordLen)
	r.Put(tail)
	return b, nil
}

// UnmarshalBinary is Decode.
func (r *VPortPartitionTableRecord) UnmarshalBinary(b []byte) error { return r.Decode(b) }

// AppendBinary appends the VPortPartitionTableRecordLen bytes that Put writes.
func (r *VPortPartitionTableRecord) AppendBinary(b []byte) ([]byte, error) {
	b, tail := grow(b, VPortPartitionTableRecordLen)
	r.Put(tail)
	return b, nil
}

// UnmarshalBinary is Decode.
func (r *VirtualizationInfoRecord) UnmarshalBinary(b []byte) error { return r.Decode(b) }

// AppendBinary appends the VirtualizationInfoRecordLen bytes that Put writes.
func (r *VirtualizationInfoRecord) AppendBinary(b []byte) ([]byte, error) {
	b, tail := grow(b, VirtualizationInfoRecordLen)
	r.Put(tail)
	return b, nil
}
