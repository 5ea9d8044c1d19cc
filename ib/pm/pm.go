// Package pm is the wire format of the performance management class: counters
// of ports (IBA §16.1, class 0x04 on QP1).
//
// The functions of this file make and read MADs in place; the attributes are
// structs with Decode and Put as in package smp. Decode takes the attribute exactly or the whole 192-byte data area,
// never anything else; nothing allocates.
package pm

import (
	"encoding/binary"

	"heddle/ib"
)

// Attribute ids of the performance management class.
const (
	AttrClassPortInfo                 ib.AttrID = 0x0001
	AttrPortSamplesControl            ib.AttrID = 0x0010
	AttrPortSamplesResult             ib.AttrID = 0x0011
	AttrPortCounters                  ib.AttrID = 0x0012
	AttrPortRcvErrorDetails           ib.AttrID = 0x0015
	AttrPortXmitDiscardDetails        ib.AttrID = 0x0016
	AttrPortOpRcvCounters             ib.AttrID = 0x0017
	AttrPortFlowCtlCounters           ib.AttrID = 0x0018
	AttrPortVLOpPackets               ib.AttrID = 0x0019
	AttrPortVLOpData                  ib.AttrID = 0x001A
	AttrPortVLXmitFlowCtlUpdateErrors ib.AttrID = 0x001B
	AttrPortVLXmitWait                ib.AttrID = 0x001C
	AttrPortCountersExtended          ib.AttrID = 0x001D
	AttrPortSamplesResultExtended     ib.AttrID = 0x001E
	AttrPortExtendedSpeedsCounters    ib.AttrID = 0x001F
	AttrSwPortVLCongestion            ib.AttrID = 0x0030
	AttrPortRcvConCtrl                ib.AttrID = 0x0031
	AttrPortSLRcvFECN                 ib.AttrID = 0x0032
	AttrPortSLRcvBECN                 ib.AttrID = 0x0033
	AttrPortXmitConCtrl               ib.AttrID = 0x0034
	AttrPortVLXmitTimeCong            ib.AttrID = 0x0035
	AttrPortXmitDataSL                ib.AttrID = 0x0036
	AttrPortRcvDataSL                 ib.AttrID = 0x0037
	AttrVPortCountersExtended         ib.AttrID = 0xFFB0 // proposed
)

// ClassVersion of performance management.
const ClassVersion = 1

// DataLen is the size of the data area in bytes, DataOffset its place in the
// MAD.
const (
	DataLen    = 192
	DataOffset = 64
)

// AllPorts as PortSelect means the sum over the ports of a node, if
// CapAllPortSelect says that it can.
const AllPorts = 0xFF

// Bits of ClassPortInfo.CapabilityMask of this class.
const (
	CapAllPortSelect         uint16 = 1 << 8
	CapExtendedWidth         uint16 = 1 << 9  // PortCountersExtended
	CapExtendedWidthNoIETF   uint16 = 1 << 10 // the same without unicast and multicast counters
	CapSamplesOnlyOptionMask uint16 = 1 << 11
	CapXmitWait              uint16 = 1 << 12 // PortXmitWait in PortCounters
	CapLimitedPKeyNotCounted uint16 = 1 << 13
	CapRSFEC                 uint16 = 1 << 14
	CapQP1Dropped            uint16 = 1 << 15
)

// Bits of ClassPortInfo.CapabilityMask2 of this class.
const (
	Cap2PMKey            uint32 = 1 << 0
	Cap2ExtendedCounters uint32 = 1 << 1 // second group of PortCountersExtended
	Cap2Virtualization   uint32 = 1 << 2 // VPortCountersExtended; proposed bit
)

// ClassPortInfo is the attribute of that name, the same in every class.
type ClassPortInfo = ib.ClassPortInfo

// New makes m a request of this class; everything not named here is 0.
func New(m *ib.MAD, method ib.Method, attr ib.AttrID, attrMod uint32) {
	clear(m[24:])
	m.SetHeader(ib.ClassPerf, ClassVersion, method, attr, attrMod)
}

// Data is the 192-byte data area of m.
func Data(m *ib.MAD) []byte { return m[DataOffset : DataOffset+DataLen : DataOffset+DataLen] }

// PortSelect is the port that a counter request in m is about.
func PortSelect(m *ib.MAD) uint8 { return m[DataOffset+1] }

// SetPortSelect writes the port that a counter request in m is about.
func SetPortSelect(m *ib.MAD, port uint8) { m[DataOffset+1] = port }

func lenErr(typ string, b []byte, want int) error { return ib.CheckLen(typ, b, want, DataLen) }

func bad(b []byte, want int) bool { return len(b) != want && len(b) != DataLen }

var be = binary.BigEndian
