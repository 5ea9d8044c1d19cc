// Package umadabi holds the numbers and layouts of Linux' user MAD device
// (include/uapi/rdma/ib_user_mad.h, ABI version 5): ioctl codes, the
// registration structures and the header that precedes every MAD in read and
// write. transport/umad uses them as a client of the device, and sim/umadfs
// emulates the device; each implements their meaning separately.
//
// All fields are in little-endian host order unless marked as wire order. Plain
// values, safe for concurrent use.
package umadabi

import (
	"encoding/binary"

	"heddle/ib"
)

// The ioctl request codes ("magic" 0x1b).
const (
	RegisterAgent   = 0xC01C1B01 // 28-byte structure, in and out
	UnregisterAgent = 0x40041B02 // u32 agent id
	EnablePKey      = 0x00001B03 // no argument
	RegisterAgent2  = 0xC0281B04 // 40-byte structure, in and out
)

// Sizes and limits of the device.
const (
	Version        = 5   // class/infiniband_mad/abi_version
	HeaderLen      = 64  // header with the P_Key index
	OldHeaderLen   = 56  // header before EnablePKey
	AgentLen       = 28  // RegisterAgent
	Agent2Len      = 40  // RegisterAgent2
	MaxAgents      = 32  // per open file
	MADHeaderLen   = 24  // common MAD header; what a time-out completion carries
	RMPPHeaderLen  = 36  // MAD and RMPP header; the least that can be written
	FlagUserRMPP   = 1   // RegisterAgent2: the process does RMPP itself
	StatusTimedOut = 110 // ETIMEDOUT in Header.Status
)

// Header is the header of one read or write. LID, QPN, QKey and FlowLabel are
// in wire order on the device, the rest in the host's.
type Header struct {
	ID           uint32 // agent
	Status       uint32 // 0, or StatusTimedOut in a completion
	TimeoutMS    uint32 // for each try; 0 = no response expected
	Retries      uint32 // tries after the first
	Length       uint32 // read: header and MAD together
	QPN          uint32
	QKey         uint32
	LID          uint16
	SL           uint8
	PathBits     uint8
	GRHPresent   bool
	GIDIndex     uint8
	HopLimit     uint8
	TrafficClass uint8
	GID          ib.GID
	FlowLabel    uint32
	PKeyIndex    uint16 // absent from the old header
}

// Decode reads the header at the front of b, of which at least size bytes
// must be there; size is HeaderLen or OldHeaderLen.
func (h *Header) Decode(b []byte, size int) {
	_ = b[:size]
	le, be := binary.LittleEndian, binary.BigEndian
	*h = Header{
		ID: le.Uint32(b[0:]), Status: le.Uint32(b[4:]), TimeoutMS: le.Uint32(b[8:]),
		Retries: le.Uint32(b[12:]), Length: le.Uint32(b[16:]),
		QPN: be.Uint32(b[20:]), QKey: be.Uint32(b[24:]), LID: be.Uint16(b[28:]),
		SL: b[30], PathBits: b[31], GRHPresent: b[32] != 0, GIDIndex: b[33],
		HopLimit: b[34], TrafficClass: b[35], GID: ib.GID(b[36:52]),
		FlowLabel: be.Uint32(b[52:]),
	}
	if size >= HeaderLen {
		h.PKeyIndex = le.Uint16(b[56:])
	}
}

// Put writes the header to the first size bytes of b.
func (h *Header) Put(b []byte, size int) {
	clear(b[:size])
	le, be := binary.LittleEndian, binary.BigEndian
	le.PutUint32(b[0:], h.ID)
	le.PutUint32(b[4:], h.Status)
	le.PutUint32(b[8:], h.TimeoutMS)
	le.PutUint32(b[12:], h.Retries)
	le.PutUint32(b[16:], h.Length)
	be.PutUint32(b[20:], h.QPN)
	be.PutUint32(b[24:], h.QKey)
	be.PutUint16(b[28:], h.LID)
	b[30], b[31] = h.SL, h.PathBits
	if h.GRHPresent {
		b[32] = 1
		b[33], b[34], b[35] = h.GIDIndex, h.HopLimit, h.TrafficClass
		copy(b[36:52], h.GID[:])
		be.PutUint32(b[52:], h.FlowLabel)
	}
	if size >= HeaderLen {
		le.PutUint16(b[56:], h.PKeyIndex)
	}
}

// Mask is the set of methods an agent takes unsolicited: method m is bit m%64
// of word m/64.
type Mask [2]uint64

// MaskOf is the set of the methods given; the R bit is not part of it.
func MaskOf(methods ...ib.Method) (m Mask) {
	for _, x := range methods {
		x &^= ib.MethodResponseBit
		m[x/64] |= 1 << (x % 64)
	}
	return m
}

// Has reports whether the method, without its R bit, is in the set.
func (m Mask) Has(x ib.Method) bool {
	x &^= ib.MethodResponseBit
	return m[x/64]>>(x%64)&1 != 0
}

// Agent is a registration in either of its forms.
type Agent struct {
	ID      uint32
	QPN     uint32
	Class   uint8 // 0 = only sends and gets the responses
	Version uint8
	Flags   uint32 // RegisterAgent2 only
	Methods Mask
	OUI     uint32 // 24 bits; classes 0x30..0x4f
	RMPP    uint8  // 1 = the kernel does RMPP
}

// Decode reads the RegisterAgent structure.
func (a *Agent) Decode(b []byte) {
	_ = b[AgentLen-1]
	le := binary.LittleEndian
	*a = Agent{
		ID: le.Uint32(b), Methods: Mask{le.Uint64(b[4:]), le.Uint64(b[12:])}, QPN: uint32(b[20]),
		Class: b[21], Version: b[22], OUI: uint32(b[23])<<16 | uint32(b[24])<<8 | uint32(b[25]), RMPP: b[26],
	}
}

// Put writes the RegisterAgent structure.
func (a *Agent) Put(b []byte) {
	clear(b[:AgentLen])
	le := binary.LittleEndian
	le.PutUint32(b, a.ID)
	le.PutUint64(b[4:], a.Methods[0])
	le.PutUint64(b[12:], a.Methods[1])
	b[20], b[21], b[22] = uint8(a.QPN), a.Class, a.Version
	b[23], b[24], b[25], b[26] = uint8(a.OUI>>16), uint8(a.OUI>>8), uint8(a.OUI), a.RMPP
}

// Decode2 reads the RegisterAgent2 structure.
func (a *Agent) Decode2(b []byte) {
	_ = b[Agent2Len-1]
	le := binary.LittleEndian
	*a = Agent{
		ID: le.Uint32(b), QPN: le.Uint32(b[4:]), Class: b[8], Version: b[9], Flags: le.Uint32(b[12:]),
		Methods: Mask{le.Uint64(b[16:]), le.Uint64(b[24:])}, OUI: le.Uint32(b[32:]), RMPP: b[36],
	}
}

// Put2 writes the RegisterAgent2 structure.
func (a *Agent) Put2(b []byte) {
	clear(b[:Agent2Len])
	le := binary.LittleEndian
	le.PutUint32(b, a.ID)
	le.PutUint32(b[4:], a.QPN)
	b[8], b[9] = a.Class, a.Version
	le.PutUint32(b[12:], a.Flags)
	le.PutUint64(b[16:], a.Methods[0])
	le.PutUint64(b[24:], a.Methods[1])
	le.PutUint32(b[32:], a.OUI)
	b[36] = a.RMPP
}
