package smp

import (
	"encoding/binary"

	"heddle/ib"
)

// Sizes of the attributes of this file in bytes.
const (
	LFTLen = 64
	RFTLen = 64
	MFTLen = 64
)

// PortDrop in a forwarding table discards the packet.
const PortDrop = 255

// LFT is a block of a LinearForwardingTable: the output port of 64
// consecutive LIDs; PortDrop = no route, 0 = the switch itself
// (IBA §14.2.5.10).
type LFT [LFTBlockLIDs]uint8

// Decode reads the attribute.
func (t *LFT) Decode(b []byte) error {
	if len(b) != LFTLen {
		return check("LinearForwardingTable", b, LFTLen)
	}
	*t = LFT(b)
	return nil
}

// Put writes the 64 bytes.
func (t *LFT) Put(b []byte) { copy(b[:LFTLen], t[:]) }

// RFTEntry is one entry of a RandomForwardingTable.
type RFTEntry struct {
	LID   ib.LID
	Valid bool
	LMC   uint8 // 3 bits
	Port  uint8
}

// RFT is a block of 16 entries of a RandomForwardingTable (IBA §14.2.5.11).
type RFT [RFTBlockLen]RFTEntry

// Decode reads the attribute.
func (t *RFT) Decode(b []byte) error {
	if len(b) != RFTLen {
		return check("RandomForwardingTable", b, RFTLen)
	}
	for i := range t {
		e := b[4*i : 4*i+4]
		t[i] = RFTEntry{LID: ib.LID(binary.BigEndian.Uint16(e)), Valid: bit(e[2], 0x80), LMC: e[2] >> 4 & 7, Port: e[3]}
	}
	return nil
}

// Put writes the 64 bytes.
func (t *RFT) Put(b []byte) {
	b = b[:RFTLen]
	for i, v := range t {
		e := b[4*i : 4*i+4]
		binary.BigEndian.PutUint16(e, uint16(v.LID))
		e[2], e[3] = flag(v.Valid, 0x80)|v.LMC&7<<4, v.Port
	}
}

// MFT is a block of a MulticastForwardingTable: the port masks of 32
// consecutive multicast LIDs. Bit n of a mask at position p is port 16p + n
// (IBA §14.2.5.12).
type MFT [MFTBlockMLIDs]uint16

// Decode reads the attribute.
func (t *MFT) Decode(b []byte) error {
	if len(b) != MFTLen {
		return check("MulticastForwardingTable", b, MFTLen)
	}
	for i := range t {
		t[i] = binary.BigEndian.Uint16(b[2*i:])
	}
	return nil
}

// Put writes the 64 bytes.
func (t *MFT) Put(b []byte) {
	b = b[:MFTLen]
	for i, v := range t {
		binary.BigEndian.PutUint16(b[2*i:], v)
	}
}
