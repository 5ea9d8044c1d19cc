package smp

import (
	"encoding/binary"

	"heddle/ib"
)

// Sizes of the attributes of this file in bytes.
const (
	GUIDInfoLen  = 64
	PKeyTableLen = 64
	SLtoVLLen    = 8
	VLArbLen     = 64
)

// GUIDInfo is a block of 8 entries of a port's GUID table (IBA §14.2.5.5).
// Entry 0 of block 0 is the port GUID and read only; 0 is an empty slot.
type GUIDInfo [GUIDBlockLen]ib.GUID

// Decode reads the attribute.
func (g *GUIDInfo) Decode(b []byte) error {
	if len(b) != GUIDInfoLen {
		return check("GUIDInfo", b, GUIDInfoLen)
	}
	for i := range g {
		g[i] = ib.GUID(binary.BigEndian.Uint64(b[8*i:]))
	}
	return nil
}

// Put writes the 64 bytes.
func (g *GUIDInfo) Put(b []byte) {
	b = b[:GUIDInfoLen]
	for i, v := range g {
		binary.BigEndian.PutUint64(b[8*i:], uint64(v))
	}
}

// PKeyTable is a block of 32 entries of a partition table (IBA §14.2.5.7).
type PKeyTable [PKeyBlockLen]ib.PKey

// Decode reads the attribute.
func (t *PKeyTable) Decode(b []byte) error {
	if len(b) != PKeyTableLen {
		return check("P_KeyTable", b, PKeyTableLen)
	}
	for i := range t {
		t[i] = ib.PKey(binary.BigEndian.Uint16(b[2*i:]))
	}
	return nil
}

// Put writes the 64 bytes.
func (t *PKeyTable) Put(b []byte) {
	b = b[:PKeyTableLen]
	for i, v := range t {
		binary.BigEndian.PutUint16(b[2*i:], uint16(v))
	}
}

// SLtoVL is the SLtoVLMappingTable attribute: the VL of each SL, 15 = drop
// (IBA §14.2.5.8).
type SLtoVL [16]ib.VL

// Decode reads the 8 bytes: SL 0 in the high nibble of the first.
func (t *SLtoVL) Decode(b []byte) error {
	if len(b) != SLtoVLLen && len(b) != DataLen {
		return check("SLtoVLMappingTable", b, SLtoVLLen)
	}
	for i := range 8 {
		t[2*i], t[2*i+1] = ib.VL(b[i]>>4), ib.VL(b[i]&0xF)
	}
	return nil
}

// Put writes the 8 bytes.
func (t *SLtoVL) Put(b []byte) {
	b = b[:SLtoVLLen]
	for i := range 8 {
		b[i] = byte(t[2*i])<<4 | byte(t[2*i+1])&0xF
	}
}

// VLArbEntry is one entry of an arbitration table. Weight counts 64 bytes; 0
// skips the entry.
type VLArbEntry struct {
	VL     ib.VL // 4 bits
	Weight uint8
}

// VLArb is a part, 32 entries, of a VLArbitrationTable (IBA §14.2.5.9).
type VLArb [32]VLArbEntry

// Decode reads the attribute.
func (t *VLArb) Decode(b []byte) error {
	if len(b) != VLArbLen {
		return check("VLArbitrationTable", b, VLArbLen)
	}
	for i := range t {
		t[i] = VLArbEntry{VL: ib.VL(b[2*i] & 0xF), Weight: b[2*i+1]}
	}
	return nil
}

// Put writes the 64 bytes.
func (t *VLArb) Put(b []byte) {
	b = b[:VLArbLen]
	for i, e := range t {
		b[2*i], b[2*i+1] = byte(e.VL)&0xF, e.Weight
	}
}
