package smp

import (
	"encoding/binary"
	"strconv"

	"heddle/ib"
)

// Sizes of Notice and its parts in bytes.
const (
	NoticeLen        = 64
	NoticeDetailsLen = 54
	noticeDetailsOff = 10
)

// NoticeType is Notice.Type.
type NoticeType uint8

// The notice types (IBA §13.4.8.2).
const (
	NoticeFatal            NoticeType = 0
	NoticeUrgent           NoticeType = 1
	NoticeSecurity         NoticeType = 2
	NoticeSubnetManagement NoticeType = 3
	NoticeInformational    NoticeType = 4
	NoticeEmpty            NoticeType = 0x7F
)

// String prints the type's name.
func (t NoticeType) String() string {
	switch t {
	case NoticeFatal:
		return "Fatal"
	case NoticeUrgent:
		return "Urgent"
	case NoticeSecurity:
		return "Security"
	case NoticeSubnetManagement:
		return "SubnetManagement"
	case NoticeInformational:
		return "Informational"
	case NoticeEmpty:
		return "Empty"
	}
	return "notice type " + strconv.Itoa(int(t))
}

// ProducerType values of generic notices.
const (
	ProducerCA           uint32 = 1
	ProducerSwitch       uint32 = 2
	ProducerRouter       uint32 = 3
	ProducerClassManager uint32 = 4
)

// Trap numbers of generic notices of the subnet management class (IBA
// §14.2.5.1), and of virtualization.
const (
	TrapGIDInService      uint16 = 64
	TrapGIDOutOfService   uint16 = 65
	TrapMCGroupCreated    uint16 = 66
	TrapMCGroupDeleted    uint16 = 67
	TrapUnPath            uint16 = 68
	TrapRePath            uint16 = 69
	TrapPortStateChange   uint16 = 128
	TrapLocalPhyErrors    uint16 = 129
	TrapBufferOverrun     uint16 = 130
	TrapFlowCtlWatchdog   uint16 = 131
	TrapLocalChange       uint16 = 144
	TrapSystemImageGUID   uint16 = 145
	TrapBadMKey           uint16 = 256
	TrapBadPKey           uint16 = 257
	TrapBadQKey           uint16 = 258
	TrapBadPKeySwitchPort uint16 = 259
	TrapVPortChange       uint16 = 1144
	TrapVPortState        uint16 = 1146
	TrapVPortBadPKey      uint16 = 1257
	TrapVPortBadQKey      uint16 = 1258
)

// Notice is the Notice attribute as SMPs carry it, 64 bytes
// (IBA §13.4.8.2). Reports of the SA add the issuer's GID: see sa.Notice.
type Notice struct {
	IsGeneric bool
	Type      NoticeType // 7 bits
	// Producer is the ProducerType of a generic notice, else the VendorID
	// (24 bits).
	Producer uint32
	// TrapNumber of a generic notice, else the DeviceID.
	TrapNumber   uint16
	IssuerLID    ib.LID
	NoticeToggle bool   // false in traps
	NoticeCount  uint16 // 15 bits, 0 in traps
	// DataDetails depends on the trap: see Detail.
	DataDetails [NoticeDetailsLen]byte
}

// Decode reads the attribute.
func (n *Notice) Decode(b []byte) error {
	if len(b) != NoticeLen {
		return check("Notice", b, NoticeLen)
	}
	b = b[:NoticeLen]
	be := binary.BigEndian
	*n = Notice{
		IsGeneric: bit(b[0], 0x80), Type: NoticeType(b[0] & 0x7F), Producer: be.Uint32(b[0:]) & 0xFFFFFF,
		TrapNumber: be.Uint16(b[4:]), IssuerLID: ib.LID(be.Uint16(b[6:])),
		NoticeToggle: bit(b[8], 0x80), NoticeCount: be.Uint16(b[8:]) & 0x7FFF,
		DataDetails: [NoticeDetailsLen]byte(b[noticeDetailsOff:]),
	}
	return nil
}

// Put writes the 64 bytes.
func (n *Notice) Put(b []byte) {
	b = b[:NoticeLen]
	be := binary.BigEndian
	be.PutUint32(b, n.Producer&0xFFFFFF)
	b[0] = flag(n.IsGeneric, 0x80) | byte(n.Type)&0x7F
	be.PutUint16(b[4:], n.TrapNumber)
	be.PutUint16(b[6:], uint16(n.IssuerLID))
	be.PutUint16(b[8:], n.NoticeCount&0x7FFF)
	b[8] |= flag(n.NoticeToggle, 0x80)
	copy(b[noticeDetailsOff:], n.DataDetails[:])
}
