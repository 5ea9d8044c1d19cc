// Package cc is the wire format of the congestion control class (IBA annex A10,
// class 0x21 on QP1): which packets switches mark, and how senders slow down.
//
// The attributes are structs with Decode and Put as in package smp. Decode takes the
// attribute exactly or its whole data area, never anything else; nothing allocates.
// Every request carries the CC_Key of the port, which is checked like an M_Key.
package cc

import (
	"encoding/binary"

	"heddle/ib"
)

// Attribute ids of the congestion control class.
const (
	AttrClassPortInfo               ib.AttrID = 0x0001
	AttrNotice                      ib.AttrID = 0x0002
	AttrCongestionInfo              ib.AttrID = 0x0011
	AttrCongestionKeyInfo           ib.AttrID = 0x0012
	AttrCongestionLog               ib.AttrID = 0x0013 // at LogOffset
	AttrSwitchCongestionSetting     ib.AttrID = 0x0014
	AttrSwitchPortCongestionSetting ib.AttrID = 0x0015 // AttrMod: block of 32 ports
	AttrCACongestionSetting         ib.AttrID = 0x0016
	AttrCongestionControlTable      ib.AttrID = 0x0017 // AttrMod: block of 64 entries
	AttrTimeStamp                   ib.AttrID = 0x0018
)

// ClassVersion of congestion control.
const ClassVersion = 2

// Places in the MAD: the key, the attribute, and the log, which begins earlier and
// reaches over the place of the attribute.
const (
	KeyOffset  = 24
	LogOffset  = 32
	LogLen     = ib.MADLen - LogOffset
	DataOffset = 64
	DataLen    = ib.MADLen - DataOffset
)

// CapEnhancedPort0 in ClassPortInfo.CapabilityMask of a switch: its port 0 sends
// packets and has the settings of a channel adapter.
const CapEnhancedPort0 uint16 = 1 << 8

// TimeUnit of CCTITimer, CSReturnDelay and time stamps in nanoseconds.
const TimeUnit = 1024

// ClassPortInfo is the attribute of that name, the same in every class.
type ClassPortInfo = ib.ClassPortInfo

// New makes m a request of this class; everything not named here is 0.
func New(m *ib.MAD, method ib.Method, attr ib.AttrID, attrMod uint32, key uint64) {
	clear(m[24:])
	m.SetHeader(ib.ClassCC, ClassVersion, method, attr, attrMod)
	SetKey(m, key)
}

// Key is the CC_Key of a MAD.
func Key(m *ib.MAD) uint64 { return be.Uint64(m[KeyOffset:]) }

// SetKey writes the CC_Key of a MAD.
func SetKey(m *ib.MAD, key uint64) { be.PutUint64(m[KeyOffset:], key) }

// Data is the 192-byte data area of m.
func Data(m *ib.MAD) []byte { return m[DataOffset : DataOffset+DataLen : DataOffset+DataLen] }

// Log is the 224-byte area of m that a CongestionLog takes.
func Log(m *ib.MAD) []byte { return m[LogOffset:ib.MADLen:ib.MADLen] }

func lenErr(typ string, b []byte, want int) error { return ib.CheckLen(typ, b, want, DataLen) }

func bad(b []byte, want int) bool { return len(b) != want && len(b) != DataLen }

var be = binary.BigEndian
