package smp

// The encoding.BinaryUnmarshaler and encoding.BinaryAppender forms of every
// attribute: UnmarshalBinary is Decode, AppendBinary appends what Put writes.

// UnmarshalBinary is Decode.
func (c *CableInfo) UnmarshalBinary(b []byte) error { return c.Decode(b) }

// AppendBinary appends the CableInfoLen bytes that Put writes.
func (c *CableInfo) AppendBinary(b []byte) ([]byte, error) {
	b, tail := grow(b, CableInfoLen)
	c.Put(tail)
	return b, nil
}

// UnmarshalBinary is Decode.
func (p *ExtendedPortInfo) UnmarshalBinary(b []byte) error { return p.Decode(b) }

// AppendBinary appends the ExtendedPortInfoLen bytes that Put writes.
func (p *ExtendedPortInfo) AppendBinary(b []byte) ([]byte, error) {
	b, tail := grow(b, ExtendedPortInfoLen)
	p.Put(tail)
	return b, nil
}

// UnmarshalBinary is Decode.
func (g *GUIDInfo) UnmarshalBinary(b []byte) error { return g.Decode(b) }

// AppendBinary appends the GUIDInfoLen bytes that Put writes.
func (g *GUIDInfo) AppendBinary(b []byte) ([]byte, error) {
	b, tail := grow(b, GUIDInfoLen)
	g.Put(tail)
	return b, nil
}

// UnmarshalBinary is Decode.
func (g *GeneralInfo) UnmarshalBinary(b []byte) error { return g.Decode(b) }

// AppendBinary appends the GeneralInfoLen bytes that Put writes.
func (g *GeneralInfo) AppendBinary(b []byte) ([]byte, error) {
	b, tail := grow(b, GeneralInfoLen)
	g.Put(tail)
	return b, nil
}

// UnmarshalBinary is Decode.
func (h *HierarchyInfo) UnmarshalBinary(b []byte) error { return h.Decode(b) }

// AppendBinary appends the HierarchyInfoLen bytes that Put writes.
func (h *HierarchyInfo) AppendBinary(b []byte) ([]byte, error) {
	b, tail := grow(b, HierarchyInfoLen)
	h.Put(tail)
	return b, nil
}

// UnmarshalBinary is Decode.
func (t *LFT) UnmarshalBinary(b []byte) error { return t.Decode(b) }

// AppendBinary appends the LFTLen bytes that Put writes.
func (t *LFT) AppendBinary(b []byte) ([]byte, error) {
	b, tail := grow(b, LFTLen)
	t.Put(tail)
	return b, nil
}

// UnmarshalBinary is Decode.
func (l *LedInfo) UnmarshalBinary(b []byte) error { return l.Decode(b) }

// AppendBinary appends the LedInfoLen bytes that Put writes.
func (l *LedInfo) AppendBinary(b []byte) ([]byte, error) {
	b, tail := grow(b, LedInfoLen)
	l.Put(tail)
	return b, nil
}

// UnmarshalBinary is Decode.
func (t *LinkSpeedWidthPairs) UnmarshalBinary(b []byte) error { return t.Decode(b) }

// AppendBinary appends the LinkSpeedWidthPairsLen bytes that Put writes.
func (t *LinkSpeedWidthPairs) AppendBinary(b []byte) ([]byte, error) {
	b, tail := grow(b, LinkSpeedWidthPairsLen)
	t.Put(tail)
	return b, nil
}

// UnmarshalBinary is Decode.
func (t *MFT) UnmarshalBinary(b []byte) error { return t.Decode(b) }

// AppendBinary appends the MFTLen bytes that Put writes.
func (t *MFT) AppendBinary(b []byte) ([]byte, error) {
	b, tail := grow(b, MFTLen)
	t.Put(tail)
	return b, nil
}

// UnmarshalBinary is Decode.
func (d *NodeDescription) UnmarshalBinary(b []byte) error { return d.Decode(b) }

// AppendBinary appends the NodeDescriptionLen bytes that Put writes.
func (d *NodeDescription) AppendBinary(b []byte) ([]byte, error) {
	b, tail := grow(b, NodeDescriptionLen)
	d.Put(tail)
	return b, nil
}

// UnmarshalBinary is Decode.
func (n *NodeInfo) UnmarshalBinary(b []byte) error { return n.Decode(b) }

// AppendBinary appends the NodeInfoLen bytes that Put writes.
func (n *NodeInfo) AppendBinary(b []byte) ([]byte, error) {
	b, tail := grow(b, NodeInfoLen)
	n.Put(tail)
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
func (t *PKeyTable) UnmarshalBinary(b []byte) error { return t.Decode(b) }

// AppendBinary appends the PKeyTableLen bytes that Put writes.
func (t *PKeyTable) AppendBinary(b []byte) ([]byte, error) {
	b, tail := grow(b, PKeyTableLen)
	t.Put(tail)
	return b, nil
}

// UnmarshalBinary is Decode.
func (p *PortInfo) UnmarshalBinary(b []byte) error { return p.Decode(b) }

// AppendBinary appends the PortInfoLen bytes that Put writes.
func (p *PortInfo) AppendBinary(b []byte) ([]byte, error) {
	b, tail := grow(b, PortInfoLen)
	p.Put(tail)
	return b, nil
}

// UnmarshalBinary is Decode.
func (p *PortInfoExtended) UnmarshalBinary(b []byte) error { return p.Decode(b) }

// AppendBinary appends the PortInfoExtendedLen bytes that Put writes.
func (p *PortInfoExtended) AppendBinary(b []byte) ([]byte, error) {
	b, tail := grow(b, PortInfoExtendedLen)
	p.Put(tail)
	return b, nil
}

// UnmarshalBinary is Decode.
func (t *RFT) UnmarshalBinary(b []byte) error { return t.Decode(b) }

// AppendBinary appends the RFTLen bytes that Put writes.
func (t *RFT) AppendBinary(b []byte) ([]byte, error) {
	b, tail := grow(b, RFTLen)
	t.Put(tail)
	return b, nil
}

// UnmarshalBinary is Decode.
func (t *SLtoVL) UnmarshalBinary(b []byte) error { return t.Decode(b) }

// AppendBinary appends the SLtoVLLen bytes that Put writes.
func (t *SLtoVL) AppendBinary(b []byte) ([]byte, error) {
	b, tail := grow(b, SLtoVLLen)
	t.Put(tail)
	return b, nil
}

// UnmarshalBinary is Decode.
func (s *SMInfo) UnmarshalBinary(b []byte) error { return s.Decode(b) }

// AppendBinary appends the SMInfoLen bytes that Put writes.
func (s *SMInfo) AppendBinary(b []byte) ([]byte, error) {
	b, tail := grow(b, SMInfoLen)
	s.Put(tail)
	return b, nil
}

// UnmarshalBinary is Decode.
func (s *SwitchInfo) UnmarshalBinary(b []byte) error { return s.Decode(b) }

// AppendBinary appends the SwitchInfoLen bytes that Put writes.
func (s *SwitchInfo) AppendBinary(b []byte) ([]byte, error) {
	b, tail := grow(b, SwitchInfoLen)
	s.Put(tail)
	return b, nil
}

// UnmarshalBinary is Decode.
func (t *SwitchPortStateTable) UnmarshalBinary(b []byte) error { return t.Decode(b) }

// AppendBinary appends the SwitchPortStateTableLen bytes that Put writes.
func (t *SwitchPortStateTable) AppendBinary(b []byte) ([]byte, error) {
	b, tail := grow(b, SwitchPortStateTableLen)
	t.Put(tail)
	return b, nil
}

// UnmarshalBinary is Decode.
func (t *VLArb) UnmarshalBinary(b []byte) error { return t.Decode(b) }

// AppendBinary appends the VLArbLen bytes that Put writes.
func (t *VLArb) AppendBinary(b []byte) ([]byte, error) {
	b, tail := grow(b, VLArbLen)
	t.Put(tail)
	return b, nil
}

// UnmarshalBinary is Decode.
func (v *VendorDiag) UnmarshalBinary(b []byte) error { return v.Decode(b) }

// AppendBinary appends the VendorDiagLen bytes that Put writes.
func (v *VendorDiag) AppendBinary(b []byte) ([]byte, error) {
	b, tail := grow(b, VendorDiagLen)
	v.Put(tail)
	return b, nil
}

// UnmarshalBinary is Decode.
func (v *VirtualizationInfo) UnmarshalBinary(b []byte) error { return v.Decode(b) }

// AppendBinary appends the VirtualizationInfoLen bytes that Put writes.
func (v *VirtualizationInfo) AppendBinary(b []byte) ([]byte, error) {
	b, tail := grow(b, VirtualizationInfoLen)
	v.Put(tail)
	return b, nil
}

// UnmarshalBinary is Decode.
func (p *VPortInfo) UnmarshalBinary(b []byte) error { return p.Decode(b) }

// AppendBinary appends the VPortInfoLen bytes that Put writes.
func (p *VPortInfo) AppendBinary(b []byte) ([]byte, error) {
	b, tail := grow(b, VPortInfoLen)
	p.Put(tail)
	return b, nil
}

// UnmarshalBinary is Decode.
func (n *VNodeInfo) UnmarshalBinary(b []byte) error { return n.Decode(b) }

// AppendBinary appends the VNodeInfoLen bytes that Put writes.
func (n *VNodeInfo) AppendBinary(b []byte) ([]byte, error) {
	b, tail := grow(b, VNodeInfoLen)
	n.Put(tail)
	return b, nil
}

// UnmarshalBinary is Decode.
func (t *VPortState) UnmarshalBinary(b []byte) error { return t.Decode(b) }

// AppendBinary appends the VPortStateLen bytes that Put writes.
func (t *VPortState) AppendBinary(b []byte) ([]byte, error) {
	b, tail := grow(b, VPortStateLen)
	t.Put(tail)
	return b, nil
}
