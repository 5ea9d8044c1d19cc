package ib

import "encoding/binary"

// ClassPortInfoLen is the size of ClassPortInfo.
const ClassPortInfoLen = 72

// AttrClassPortInfo is its attribute id in every class but subnet management.
const AttrClassPortInfo AttrID = 0x0001

// AttrNotice is the Notice attribute in every class.
const AttrNotice AttrID = 0x0002

// Bits of ClassPortInfo.CapabilityMask that all classes share.
const (
	ClassCapTrap     uint16 = 1 << 0 // can send traps
	ClassCapNotice   uint16 = 1 << 1 // answers Get and Set of Notice
	ClassCapCapMask2 uint16 = 1 << 2 // CapabilityMask2 is valid
)

// ClassPortInfo is the attribute of that name, 72 bytes, the same in every
// class other than subnet management (IBA §13.4.8.1).
type ClassPortInfo struct {
	BaseVersion     uint8
	ClassVersion    uint8
	CapabilityMask  uint16
	CapabilityMask2 uint32 // 27 bits
	RespTimeValue   uint8  // 5 bits: 4.096 µs × 2^n
	RedirectGID     GID
	RedirectTC      uint8
	RedirectSL      SL
	RedirectFL      uint32 // 20 bits
	RedirectLID     LID    // 0: use RedirectGID
	RedirectPKey    PKey
	RedirectQP      uint32 // 24 bits
	RedirectQKey    QKey
	TrapGID         GID
	TrapTC          uint8
	TrapSL          SL
	TrapFL          uint32 // 20 bits
	TrapLID         LID
	TrapPKey        PKey
	TrapHL          uint8
	TrapQP          uint32 // 24 bits
	TrapQKey        QKey
}

// Decode reads the attribute: 72 bytes, or a whole data area of 192
// (performance, congestion) or 200 bytes (subnet administration).
func (c *ClassPortInfo) Decode(b []byte) error {
	if len(b) != ClassPortInfoLen && len(b) != 192 && len(b) != 200 {
		return lenError("ClassPortInfo", len(b), ClassPortInfoLen)
	}
	b = b[:ClassPortInfoLen]
	be := binary.BigEndian
	w4, w24, w56 := be.Uint32(b[4:]), be.Uint32(b[24:]), be.Uint32(b[56:])
	*c = ClassPortInfo{
		BaseVersion: b[0], ClassVersion: b[1], CapabilityMask: be.Uint16(b[2:]),
		CapabilityMask2: w4 >> 5, RespTimeValue: uint8(w4 & 0x1F),
		RedirectGID: GID(b[8:24]), RedirectTC: b[24], RedirectSL: SL(w24 >> 20 & 0xF), RedirectFL: w24 & 0xFFFFF,
		RedirectLID: LID(be.Uint16(b[28:])), RedirectPKey: PKey(be.Uint16(b[30:])),
		RedirectQP: be.Uint32(b[32:]) & 0xFFFFFF, RedirectQKey: QKey(be.Uint32(b[36:])),
		TrapGID: GID(b[40:56]), TrapTC: b[56], TrapSL: SL(w56 >> 20 & 0xF), TrapFL: w56 & 0xFFFFF,
		TrapLID: LID(be.Uint16(b[60:])), TrapPKey: PKey(be.Uint16(b[62:])),
		TrapHL: b[64], TrapQP: be.Uint32(b[64:]) & 0xFFFFFF, TrapQKey: QKey(be.Uint32(b[68:])),
	}
	return nil
}

// Put writes the 72 bytes to b.
func (c *ClassPortInfo) Put(b []byte) {
	b = b[:ClassPortInfoLen]
	be := binary.BigEndian
	b[0], b[1] = c.BaseVersion, c.ClassVersion
	be.PutUint16(b[2:], c.CapabilityMask)
	be.PutUint32(b[4:], c.CapabilityMask2<<5|uint32(c.RespTimeValue&0x1F))
	copy(b[8:24], c.RedirectGID[:])
	be.PutUint32(b[24:], uint32(c.RedirectTC)<<24|uint32(c.RedirectSL&0xF)<<20|c.RedirectFL&0xFFFFF)
	be.PutUint16(b[28:], uint16(c.RedirectLID))
	be.PutUint16(b[30:], uint16(c.RedirectPKey))
	be.PutUint32(b[32:], c.RedirectQP&0xFFFFFF)
	be.PutUint32(b[36:], uint32(c.RedirectQKey))
	copy(b[40:56], c.TrapGID[:])
	be.PutUint32(b[56:], uint32(c.TrapTC)<<24|uint32(c.TrapSL&0xF)<<20|c.TrapFL&0xFFFFF)
	be.PutUint16(b[60:], uint16(c.TrapLID))
	be.PutUint16(b[62:], uint16(c.TrapPKey))
	be.PutUint32(b[64:], uint32(c.TrapHL)<<24|c.TrapQP&0xFFFFFF)
	be.PutUint32(b[68:], uint32(c.TrapQKey))
}
