package ib

import "encoding/binary"

// MADLen is the size of every MAD on the wire, in bytes (IBA §13.4.2).
const MADLen = 256

// Class is a management class (IBA §13.4.4).
type Class uint8

// The management classes. Vendors have 0x09–0x0F (no OUI) and 0x30–0x4F (RMPP
// header and OUI).
const (
	ClassSubnLID Class = 0x01 // subnet management, LID routed
	ClassSubnDR  Class = 0x81 // subnet management, directed route
	ClassSA      Class = 0x03
	ClassPerf    Class = 0x04
	ClassBM      Class = 0x05
	ClassDM      Class = 0x06
	ClassCM      Class = 0x07
	ClassSNMP    Class = 0x08
	ClassDevAdm  Class = 0x10
	ClassBoot    Class = 0x11
	ClassBIS     Class = 0x12
	ClassCC      Class = 0x21
)

// Method is a MAD method, R bit included (IBA §13.4.5).
type Method uint8

// The methods of all classes.
const (
	MethodGet             Method = 0x01
	MethodSet             Method = 0x02
	MethodSend            Method = 0x03
	MethodTrap            Method = 0x05
	MethodReport          Method = 0x06
	MethodTrapRepress     Method = 0x07
	MethodGetTable        Method = 0x12
	MethodGetTraceTable   Method = 0x13
	MethodGetMulti        Method = 0x14
	MethodDelete          Method = 0x15
	MethodGetResp         Method = 0x81
	MethodReportResp      Method = 0x86
	MethodGetTableResp    Method = 0x92
	MethodGetTraceTblResp Method = 0x93
	MethodGetMultiResp    Method = 0x94
	MethodDeleteResp      Method = 0x95
	MethodResponseBit     Method = 0x80
)

// IsResponse reports whether the R bit is set. TrapRepress has R = 0 although
// it is logically an answer.
func (m Method) IsResponse() bool { return m&MethodResponseBit != 0 }

// AttrID is an AttributeID; its meaning depends on the class.
type AttrID uint16

// Status is the MAD status word. In a directed-route SMP bit 15 is the
// direction bit and must be masked off.
type Status uint16

// The status values of all classes (IBA §13.4.7).
const (
	StatusOK            Status = 0x0000
	StatusBusy          Status = 0x0001
	StatusRedirect      Status = 0x0002
	StatusBadVersion    Status = 0x0004
	StatusBadMethod     Status = 0x0008
	StatusBadMethodAttr Status = 0x000C
	StatusInvalidField  Status = 0x001C
)

// The class-specific status values of subnet administration (IBA §15.2.3).
const (
	StatusSANoResources       Status = 0x0100
	StatusSAReqInvalid        Status = 0x0200
	StatusSANoRecords         Status = 0x0300
	StatusSATooManyRecords    Status = 0x0400
	StatusSAInvalidGID        Status = 0x0500
	StatusSAInsufficientComps Status = 0x0600
	StatusSAReqDenied         Status = 0x0700
	StatusSAPrioritySuggested Status = 0x0800
)

// MAD is one 256-byte management datagram as it is on the wire, big-endian.
// The methods read and write the 24-byte common header in place (IBA §13.4.2),
// so nothing is copied and nothing can be out of range.
type MAD [MADLen]byte

func (m *MAD) BaseVersion() uint8    { return m[0] }
func (m *MAD) Class() Class          { return Class(m[1]) }
func (m *MAD) ClassVersion() uint8   { return m[2] }
func (m *MAD) Method() Method        { return Method(m[3]) }
func (m *MAD) Status() Status        { return Status(binary.BigEndian.Uint16(m[4:6])) }
func (m *MAD) ClassSpecific() uint16 { return binary.BigEndian.Uint16(m[6:8]) }
func (m *MAD) TID() uint64           { return binary.BigEndian.Uint64(m[8:16]) }
func (m *MAD) AttrID() AttrID        { return AttrID(binary.BigEndian.Uint16(m[16:18])) }
func (m *MAD) AttrMod() uint32       { return binary.BigEndian.Uint32(m[20:24]) }
func (m *MAD) SetMethod(v Method)    { m[3] = byte(v) }
func (m *MAD) SetStatus(v Status)    { binary.BigEndian.PutUint16(m[4:6], uint16(v)) }
func (m *MAD) SetTID(v uint64)       { binary.BigEndian.PutUint64(m[8:16], v) }
func (m *MAD) SetAttrID(v AttrID)    { binary.BigEndian.PutUint16(m[16:18], uint16(v)) }
func (m *MAD) SetAttrMod(v uint32)   { binary.BigEndian.PutUint32(m[20:24], v) }

// SetHeader writes BaseVersion 1 and the fields given; status, class-specific
// and TID become 0.
func (m *MAD) SetHeader(c Class, classVersion uint8, method Method, attr AttrID, attrMod uint32) {
	clear(m[:24])
	m[0], m[1], m[2], m[3] = 1, byte(c), classVersion, byte(method)
	m.SetAttrID(attr)
	m.SetAttrMod(attrMod)
}

// SetClassSpecific writes bytes 6–7: hop pointer and hop count of a
// directed-route SMP, 0 elsewhere.
func (m *MAD) SetClassSpecific(v uint16) { binary.BigEndian.PutUint16(m[6:8], v) }
