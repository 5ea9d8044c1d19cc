// Package sa is the wire format of subnet administration: the SA MAD header
// with its RMPP fields, the records that this module's SA serves, and the
// component-mask bits of each (IBA §15, class 0x03 version 2 on QP1).
//
// A record is a struct with Decode and Put as in package smp. XxxLen is the size
// in a table, padded to 8 bytes; Put writes that much. Decode takes the padded or
// the bare record, or a whole 200-byte data area, and never anything else;
// nothing allocates. A decoded record may come from a query, in which only the
// components of its mask mean anything, so no field is checked for sense.
package sa

import (
	"encoding/binary"

	"heddle/ib"
)

// Attribute ids of subnet administration (IBA §15.2.5).
const (
	AttrClassPortInfo          ib.AttrID = 0x0001
	AttrNotice                 ib.AttrID = 0x0002
	AttrInformInfo             ib.AttrID = 0x0003
	AttrNodeRecord             ib.AttrID = 0x0011
	AttrPortInfoRecord         ib.AttrID = 0x0012
	AttrSLtoVLRecord           ib.AttrID = 0x0013
	AttrSwitchInfoRecord       ib.AttrID = 0x0014
	AttrLFTRecord              ib.AttrID = 0x0015
	AttrRFTRecord              ib.AttrID = 0x0016
	AttrMFTRecord              ib.AttrID = 0x0017
	AttrSMInfoRecord           ib.AttrID = 0x0018
	AttrLinkSpeedWidthRecord   ib.AttrID = 0x0019
	AttrLinkRecord             ib.AttrID = 0x0020
	AttrGUIDInfoRecord         ib.AttrID = 0x0030
	AttrServiceRecord          ib.AttrID = 0x0031
	AttrPKeyTableRecord        ib.AttrID = 0x0033
	AttrPathRecord             ib.AttrID = 0x0035
	AttrVLArbRecord            ib.AttrID = 0x0036
	AttrMCMemberRecord         ib.AttrID = 0x0038
	AttrTraceRecord            ib.AttrID = 0x0039
	AttrMultiPathRecord        ib.AttrID = 0x003A
	AttrServiceAssocRecord     ib.AttrID = 0x003B
	AttrHierarchyInfoRecord    ib.AttrID = 0x003C
	AttrCableInfoRecord        ib.AttrID = 0x003D
	AttrPortInfoExtendedRecord ib.AttrID = 0x003E
	AttrInformInfoRecord       ib.AttrID = 0x00F3

	// The records of virtualization (proposed: as the attributes' own ids).
	AttrVirtualizationInfoRecord  ib.AttrID = 0xFFB0
	AttrVPortInfoRecord           ib.AttrID = 0xFFB1
	AttrVNodeRecord               ib.AttrID = 0xFFB2
	AttrVPortGUIDInfoRecord       ib.AttrID = 0xFFB5
	AttrVPortPartitionTableRecord ib.AttrID = 0xFFB6

	// AttrPathChangeRecord is this module's own (docs/signalling.md).
	AttrPathChangeRecord ib.AttrID = 0xFFC9
)

// ClassVersion of subnet administration.
const ClassVersion = 2

// Layout of the SA MAD in bytes.
const (
	HeaderLen     = 56  // common header, RMPP header and SA header
	DataLen       = 200 // data area, and user data of an RMPP segment
	DataOffset    = HeaderLen
	SegmentHeader = 20 // SA header that each segment repeats and PayloadLength counts
)

// RMPP types (IBA §13.6.2). The status codes are in package mad.
const (
	RMPPNone  uint8 = 0
	RMPPData  uint8 = 1
	RMPPAck   uint8 = 2
	RMPPStop  uint8 = 3
	RMPPAbort uint8 = 4
)

// RMPP flags.
const (
	RMPPActive uint8 = 1
	RMPPFirst  uint8 = 2
	RMPPLast   uint8 = 4
)

// RMPPVersion is the only version there is; NoRRespTime means "none given".
const (
	RMPPVersion = 1
	NoRRespTime = 0x1F
)

// Bits of ClassPortInfo.CapabilityMask of this class.
const (
	CapOptionalRecords   uint16 = 1 << 8
	CapUDMulticast       uint16 = 1 << 9
	CapMultiPath         uint16 = 1 << 10
	CapReinit            uint16 = 1 << 11
	CapGIDScopedPath     uint16 = 1 << 12
	CapPortInfoCapMatch  uint16 = 1 << 13
	CapLinkSpeedWidth    uint16 = 1 << 14
	CapPathAdministrator uint16 = 1 << 15
)

// Bits of ClassPortInfo.CapabilityMask2 of this class.
const (
	Cap2UnPath            uint32 = 1 << 0
	Cap2QoS               uint32 = 1 << 1
	Cap2ReversePathPKey   uint32 = 1 << 2
	Cap2MulticastTop      uint32 = 1 << 3
	Cap2Hierarchy         uint32 = 1 << 4
	Cap2AliasGUIDs        uint32 = 1 << 5
	Cap2FullPortInfo      uint32 = 1 << 6
	Cap2ExtSpeeds         uint32 = 1 << 7
	Cap2MulticastService  uint32 = 1 << 8
	Cap2CableInfo         uint32 = 1 << 9
	Cap2PortInfoCap2Match uint32 = 1 << 10
	Cap2PortInfoExt       uint32 = 1 << 11
	Cap2SendOnlyFull      uint32 = 1 << 12
	Cap2Width2x           uint32 = 1 << 13
	Cap2HDR               uint32 = 1 << 15
	Cap2NDR               uint32 = 1 << 17
)

// PortInfoCapMatch in the attribute modifier of a PortInfoRecord query
// compares capability masks as subsets.
const PortInfoCapMatch uint32 = 1 << 31

// Selectors of MTU, rate and packet life time components (IBA §15.2.5.16).
const (
	SelGreater uint8 = 0
	SelLess    uint8 = 1
	SelExactly uint8 = 2
	SelLargest uint8 = 3 // smallest for the packet life time
)

// JoinState bits of MCMemberRecord.
const (
	JoinFull         uint8 = 1
	JoinNon          uint8 = 2
	JoinSendOnly     uint8 = 4
	JoinSendOnlyFull uint8 = 8
)

// CompMask is a component mask. Each record has its own bits.
type CompMask uint64

// Has reports whether all bits of w are set.
func (m CompMask) Has(w CompMask) bool { return m&w == w }

// Any reports whether one of the bits of w is set.
func (m CompMask) Any(w CompMask) bool { return m&w != 0 }

// ClassPortInfo is the attribute of that name, the same in every class.
type ClassPortInfo = ib.ClassPortInfo

// ClassPortInfoLen is its size in bytes.
const ClassPortInfoLen = ib.ClassPortInfoLen

// Header is what an SA MAD has between the common header and the data: bytes
// 24–55, the RMPP header and the SA header (IBA §15.2.1).
type Header struct {
	RMPPVersion   uint8
	RMPPType      uint8
	RRespTime     uint8 // 5 bits: 4.096 µs × 2^n, 31 none
	RMPPFlags     uint8 // 3 bits
	RMPPStatus    uint8
	SegmentNumber uint32 // Data1; of an ACK the last segment received in order
	PayloadLength uint32 // Data2; of an ACK NewWindowLast
	SMKey         uint64
	AttrOffset    uint16 // distance of records in 8-byte words
	ComponentMask CompMask
}

// Decode reads bytes 24–55 of the message b, which has at least 56.
func (h *Header) Decode(b []byte) error {
	if len(b) < HeaderLen {
		return &ib.DecodeError{Type: "SA header", Want: HeaderLen, Got: len(b), Err: ib.ErrShort}
	}
	b = b[:HeaderLen]
	*h = Header{
		RMPPVersion: b[24], RMPPType: b[25], RRespTime: b[26] >> 3, RMPPFlags: b[26] & 7, RMPPStatus: b[27],
		SegmentNumber: be.Uint32(b[28:]), PayloadLength: be.Uint32(b[32:]), SMKey: be.Uint64(b[36:]),
		AttrOffset: be.Uint16(b[44:]), ComponentMask: CompMask(be.Uint64(b[48:])),
	}
	return nil
}

// Put writes bytes 24–55 of the message b.
func (h *Header) Put(b []byte) {
	b = b[:HeaderLen]
	b[24], b[25], b[26], b[27] = h.RMPPVersion, h.RMPPType, h.RRespTime<<3|h.RMPPFlags&7, h.RMPPStatus
	be.PutUint32(b[28:], h.SegmentNumber)
	be.PutUint32(b[32:], h.PayloadLength)
	be.PutUint64(b[36:], h.SMKey)
	be.PutUint16(b[44:], h.AttrOffset)
	be.PutUint16(b[46:], 0)
	be.PutUint64(b[48:], uint64(h.ComponentMask))
}

// New makes m a request with a component mask and no RMPP; the data area is 0.
func New(m *ib.MAD, method ib.Method, attr ib.AttrID, attrMod uint32, mask CompMask) {
	clear(m[24:])
	m.SetHeader(ib.ClassSA, ClassVersion, method, attr, attrMod)
	be.PutUint64(m[48:], uint64(mask))
}

// Data is the 200-byte data area of m.
func Data(m *ib.MAD) []byte { return m[DataOffset : DataOffset+DataLen : DataOffset+DataLen] }

// RMPPTypeOf is the RMPP type of a message of at least 56 bytes. An ACK has
// the method of a request, so look here before at the method.
func RMPPTypeOf(b []byte) uint8 { return b[25] }

// OffsetWords is the AttributeOffset for records of n bytes.
func OffsetWords(n int) uint16 { return uint16(n / 8) }

var be = binary.BigEndian

// rec cuts b, which is the bare record, the padded one, or a data area, to
// the bare record.
func rec(typ string, b []byte, bare, padded int) ([]byte, error) {
	if len(b) != padded && len(b) != bare && len(b) != DataLen {
		return nil, ib.CheckLen(typ, b, padded, DataLen)
	}
	return b[:bare], nil
}

func bit(b byte, mask byte) bool { return b&mask != 0 }

func flag(v bool, mask byte) byte {
	if v {
		return mask
	}
	return 0
}
