package smp

import "encoding/binary"

// Sizes of the attributes of this file in bytes.
const (
	LFTLen = 64
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
