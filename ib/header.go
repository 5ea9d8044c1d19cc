package ib

import "encoding/binary"

// HeaderLen is the size of the common MAD header in bytes.
const HeaderLen = 24

// Header is the common MAD header as a value (IBA §13.4.2), for messages that
// are not one MAD, such as a reassembled RMPP message. Method has the R bit;
// Status of a directed-route SMP has the direction bit.
type Header struct {
	BaseVersion   uint8
	Class         Class
	ClassVersion  uint8
	Method        Method
	Status        Status
	ClassSpecific uint16
	TID           uint64
	AttrID        AttrID
	AttrMod       uint32
}

// Decode reads the first 24 bytes of b, which may be longer.
func (h *Header) Decode(b []byte) error {
	if len(b) < HeaderLen {
		return lenError("MAD header", len(b), HeaderLen)
	}
	b = b[:HeaderLen]
	be := binary.BigEndian
	*h = Header{
		BaseVersion: b[0], Class: Class(b[1]), ClassVersion: b[2], Method: Method(b[3]),
		Status: Status(be.Uint16(b[4:])), ClassSpecific: be.Uint16(b[6:]), TID: be.Uint64(b[8:]),
		AttrID: AttrID(be.Uint16(b[16:])), AttrMod: be.Uint32(b[20:]),
	}
	return nil
}

// Put writes the 24 bytes.
func (h *Header) Put(b []byte) {
	b = b[:HeaderLen]
	be := binary.BigEndian
	b[0], b[1], b[2], b[3] = h.BaseVersion, byte(h.Class), h.ClassVersion, byte(h.Method)
	be.PutUint16(b[4:], uint16(h.Status))
	be.PutUint16(b[6:], h.ClassSpecific)
	be.PutUint64(b[8:], h.TID)
	be.PutUint16(b[16:], uint16(h.AttrID))
	be.PutUint16(b[18:], 0)
	be.PutUint32(b[20:], h.AttrMod)
}
