// Package smp is the wire format of subnet management packets (SMPs): the
// directed-route and LID-routed MAD layouts, and the attributes that a manager or
// an agent of this module reads or writes.
//
// The functions of this file read and write fields of an ib.MAD in place. An
// attribute is a struct (or an array, for tables) with
//
//	Decode(b []byte) error // b: the attribute exactly, or the 64-byte data area, see Data
//	Put(b []byte)          // writes the attribute, reserved bits 0; b must be long enough
//
// Decode is total: it returns an error and leaves the value alone, or sets
// every field. Neither allocates. Values are plain; anything may be called
// concurrently on different values.
//
//	var m ib.MAD
//	smp.NewDR(&m, ib.MethodGet, smp.AttrNodeInfo, 0, 0, []byte{1, 7})
//	… send, receive …
//	var ni smp.NodeInfo
//	err := ni.Decode(smp.Data(&m))
//
// Sections are those of the InfiniBand Architecture Specification, volume 1.
package smp

import (
	"encoding/binary"

	"heddle/ib"
)

// Attribute ids of the subnet management class (IBA §14.2.5).
const (
	AttrNotice               ib.AttrID = 0x0002
	AttrNodeDescription      ib.AttrID = 0x0010
	AttrNodeInfo             ib.AttrID = 0x0011
	AttrSwitchInfo           ib.AttrID = 0x0012
	AttrGUIDInfo             ib.AttrID = 0x0014
	AttrPortInfo             ib.AttrID = 0x0015
	AttrPKeyTable            ib.AttrID = 0x0016
	AttrSLtoVL               ib.AttrID = 0x0017
	AttrVLArb                ib.AttrID = 0x0018
	AttrLFT                  ib.AttrID = 0x0019
	AttrRFT                  ib.AttrID = 0x001A
	AttrMFT                  ib.AttrID = 0x001B
	AttrLinkSpeedWidthPairs  ib.AttrID = 0x001C
	AttrVendorSpecificMads   ib.AttrID = 0x001D
	AttrHierarchyInfo        ib.AttrID = 0x001E
	AttrSMInfo               ib.AttrID = 0x0020
	AttrVendorDiag           ib.AttrID = 0x0030
	AttrLedInfo              ib.AttrID = 0x0031
	AttrCableInfo            ib.AttrID = 0x0032
	AttrPortInfoExtended     ib.AttrID = 0x0033
	AttrSwitchPortStateTable ib.AttrID = 0x0034
	AttrGeneralInfo          ib.AttrID = 0xFF17 // NVIDIA
	AttrExtendedPortInfo     ib.AttrID = 0xFF90 // NVIDIA
	AttrVirtualizationInfo   ib.AttrID = 0xFFB0 // to AttrVPortPartitionTable: virtualization
	AttrVPortInfo            ib.AttrID = 0xFFB1
	AttrVNodeInfo            ib.AttrID = 0xFFB2
	AttrVPortState           ib.AttrID = 0xFFB3
	AttrVNodeDescription     ib.AttrID = 0xFFB4
	AttrVPortGUIDInfo        ib.AttrID = 0xFFB5
	AttrVPortPartitionTable  ib.AttrID = 0xFFB6
)

// ClassVersion of both subnet management classes.
const ClassVersion = 1

// DataLen is the size of the data area of an SMP in bytes, DataOffset its
// place in the MAD.
const (
	DataLen    = 64
	DataOffset = 64
)

// MaxHops is the length of the longest directed route. (IBA §14.2.2)
const MaxHops = 63

const (
	offMKey    = 24
	offDrSLID  = 32
	offDrDLID  = 34
	offInitial = 128
	offReturn  = 192
	dirBit     = 0x8000
)

// NewDR makes m a purely directed-route request: both permissive LIDs, hop pointer 0,
// everything not named here 0 (IBA §14.2.2). path lists the output ports: path[0] is the
// requester's own port, path[1] the port of the first switch, and so on; empty for the local
// node. NewDR panics if path is longer than MaxHops, which callers must exclude.
func NewDR(m *ib.MAD, method ib.Method, attr ib.AttrID, attrMod uint32, mkey ib.MKey, path []byte) {
	if len(path) > MaxHops {
		panic("smp: directed route of more than 63 hops")
	}
	clear(m[24:])
	m.SetHeader(ib.ClassSubnDR, ClassVersion, method, attr, attrMod)
	m[7] = byte(len(path))
	binary.BigEndian.PutUint64(m[offMKey:], uint64(mkey))
	binary.BigEndian.PutUint32(m[offDrSLID:], 0xFFFFFFFF)
	copy(m[offInitial+1:], path)
}

// NewLID makes m a LID-routed request (IBA §14.2.1.1); everything not named
// here is 0.
func NewLID(m *ib.MAD, method ib.Method, attr ib.AttrID, attrMod uint32, mkey ib.MKey) {
	clear(m[24:])
	m.SetHeader(ib.ClassSubnLID, ClassVersion, method, attr, attrMod)
	binary.BigEndian.PutUint64(m[offMKey:], uint64(mkey))
}

// Respond turns the request m into its response: method GetResp, direction
// bit in the directed-route class, status st. TID, attribute, modifier, paths
// and hop pointer stay, and so does the data.
func Respond(m *ib.MAD, st ib.Status) {
	m.SetMethod(ib.MethodGetResp)
	if m.Class() == ib.ClassSubnDR {
		st = st&^dirBit | dirBit
	}
	m.SetStatus(st)
}

// Data is the 64-byte data area of m.
func Data(m *ib.MAD) []byte { return m[DataOffset : DataOffset+DataLen : DataOffset+DataLen] }

// MKey is the M_Key in the header.
func MKey(m *ib.MAD) ib.MKey { return ib.MKey(binary.BigEndian.Uint64(m[offMKey:])) }

// SetMKey writes the M_Key of the header.
func SetMKey(m *ib.MAD, k ib.MKey) { binary.BigEndian.PutUint64(m[offMKey:], uint64(k)) }

// HopPointer is the index of the current hop of a directed route.
func HopPointer(m *ib.MAD) uint8 { return m[6] }

// SetHopPointer writes the hop pointer.
func SetHopPointer(m *ib.MAD, v uint8) { m[6] = v }

// HopCount is the number of directed hops, 0–63; larger is illegal.
func HopCount(m *ib.MAD) uint8 { return m[7] }

// SetHopCount writes the number of hops.
func SetHopCount(m *ib.MAD, v uint8) { m[7] = v }

// Direction is the D bit: false outbound, true returning.
func Direction(m *ib.MAD) bool { return m[4]&0x80 != 0 }

// SetDirection writes the D bit.
func SetDirection(m *ib.MAD, returning bool) {
	m[4] &= 0x7F
	if returning {
		m[4] |= 0x80
	}
}

// DrSLID is the LID that ends the return trip; permissive when the directed
// part starts at the requester.
func DrSLID(m *ib.MAD) ib.LID { return ib.LID(binary.BigEndian.Uint16(m[offDrSLID:])) }

// SetDrSLID writes DrSLID.
func SetDrSLID(m *ib.MAD, l ib.LID) { binary.BigEndian.PutUint16(m[offDrSLID:], uint16(l)) }

// DrDLID is the LID that ends the outbound trip; permissive when the directed
// part ends at the target.
func DrDLID(m *ib.MAD) ib.LID { return ib.LID(binary.BigEndian.Uint16(m[offDrDLID:])) }

// SetDrDLID writes DrDLID.
func SetDrDLID(m *ib.MAD, l ib.LID) { binary.BigEndian.PutUint16(m[offDrDLID:], uint16(l)) }

// InitialPath is the 64-byte list of output ports; entry 0 is unused.
func InitialPath(m *ib.MAD) []byte { return m[offInitial : offInitial+64 : offInitial+64] }

// ReturnPath is the 64-byte list of input ports, filled in on the way; entry
// 0 is unused.
func ReturnPath(m *ib.MAD) []byte { return m[offReturn : offReturn+64 : offReturn+64] }

// Path is the used part of InitialPath: one output port for each hop. It is
// empty if the hop count is illegal.
func Path(m *ib.MAD) []byte {
	n := int(m[7])
	if n > MaxHops {
		n = 0
	}
	return m[offInitial+1 : offInitial+1+n : offInitial+1+n]
}

// StatusOf is the status without the direction bit.
func StatusOf(m *ib.MAD) ib.Status {
	st := m.Status()
	if m.Class() == ib.ClassSubnDR {
		st &^= dirBit
	}
	return st
}

// check is the length rule of every attribute here: exactly its size, or the
// whole data area.
func check(typ string, b []byte, want int) error {
	if len(b) == want || len(b) == DataLen {
		return nil
	}
	return ib.CheckLen(typ, b, want, DataLen)
}

func bit(b byte, mask byte) bool { return b&mask != 0 }

func flag(v bool, mask byte) byte {
	if v {
		return mask
	}
	return 0
}
