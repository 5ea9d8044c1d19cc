package smp

import "encoding/binary"

// Sizes of the attributes of this file in bytes.
const (
	HierarchyInfoLen = 64
	VendorDiagLen    = 64
	LedInfoLen       = 4
	CableInfoLen     = 64
)

// HierarchyInfo is the attribute of that name, 64 bytes: the place of a port
// in named levels (chassis, leaf, …) by a template that a GUID names.
type HierarchyInfo struct {
	TemplateGUID   uint64
	MaxIndex       uint8 // highest supported index
	MaxActiveIndex uint8 // highest active index
	ActiveLevels   uint8 // 4 bits
	Levels         [13]uint32
}

// Decode reads the attribute.
func (h *HierarchyInfo) Decode(b []byte) error {
	if len(b) != HierarchyInfoLen {
		return check("HierarchyInfo", b, HierarchyInfoLen)
	}
	be := binary.BigEndian
	h.TemplateGUID, h.MaxIndex, h.MaxActiveIndex, h.ActiveLevels = be.Uint64(b), b[8], b[9], b[10]>>4
	for i := range h.Levels {
		h.Levels[i] = be.Uint32(b[12+4*i:])
	}
	return nil
}

// Put writes the 64 bytes.
func (h *HierarchyInfo) Put(b []byte) {
	b = b[:HierarchyInfoLen]
	be := binary.BigEndian
	be.PutUint64(b, h.TemplateGUID)
	b[8], b[9], b[10], b[11] = h.MaxIndex, h.MaxActiveIndex, h.ActiveLevels<<4, 0
	for i, v := range h.Levels {
		be.PutUint32(b[12+4*i:], v)
	}
}

// VendorDiag is the attribute of that name, 64 bytes (IBA §14.2.5.14).
type VendorDiag struct {
	NextIndex uint16 // 0 = this is the last
	Data      [62]byte
}

// Decode reads the attribute.
func (v *VendorDiag) Decode(b []byte) error {
	if len(b) != VendorDiagLen {
		return check("VendorDiag", b, VendorDiagLen)
	}
	*v = VendorDiag{NextIndex: binary.BigEndian.Uint16(b), Data: [62]byte(b[2:])}
	return nil
}

// Put writes the 64 bytes.
func (v *VendorDiag) Put(b []byte) {
	b = b[:VendorDiagLen]
	binary.BigEndian.PutUint16(b, v.NextIndex)
	copy(b[2:], v.Data[:])
}

// LedInfo is the attribute of that name, 4 bytes (IBA §14.2.5.15).
type LedInfo struct {
	LedMask bool // LED on
}

// Decode reads the attribute.
func (l *LedInfo) Decode(b []byte) error {
	if len(b) != LedInfoLen && len(b) != DataLen {
		return check("LedInfo", b, LedInfoLen)
	}
	l.LedMask = bit(b[0], 0x80)
	return nil
}

// Put writes the 4 bytes.
func (l *LedInfo) Put(b []byte) {
	b = b[:LedInfoLen]
	b[0], b[1], b[2], b[3] = flag(l.LedMask, 0x80), 0, 0, 0
}

// CableInfo is the attribute of that name, 64 bytes as they come: a window of
// the cable's memory. No public source gives its layout.
type CableInfo [CableInfoLen]byte

// Decode reads the attribute.
func (c *CableInfo) Decode(b []byte) error {
	if len(b) != CableInfoLen {
		return check("CableInfo", b, CableInfoLen)
	}
	*c = CableInfo(b)
	return nil
}

// Put writes the 64 bytes.
func (c *CableInfo) Put(b []byte) { copy(b[:CableInfoLen], c[:]) }
