package smp

import (
	"encoding/binary"
	"strconv"

	"heddle/ib"
)

// Details is Notice.DataDetails: the details of a trap, in a layout that depends on the trap.
type Details = [NoticeDetailsLen]byte

// Detail is the typed form of DataDetails. Every type here is one; Get reads
// it and Put writes it, bytes that the form does not use being 0.
type Detail interface {
	Put(d *Details)
}

// DetailGID belongs to traps 64 to 67: the port GID that came or went, or the
// MGID that was created or deleted.
type DetailGID struct {
	GID ib.GID
}

// Get reads d.
func (t *DetailGID) Get(d *Details) { t.GID = ib.GID(d[6:22]) }

// Put writes d.
func (t DetailGID) Put(d *Details) {
	*d = Details{}
	copy(d[6:22], t.GID[:])
}

// DetailPath belongs to traps 68 (UnPath) and 69 (RePath). The PathRecord
// that it is about follows the Notice in the Report.
type DetailPath struct {
	ComponentMask uint64
	WaitForRepath bool // trap 68 only
}

// Get reads d.
func (t *DetailPath) Get(d *Details) {
	t.ComponentMask, t.WaitForRepath = binary.BigEndian.Uint64(d[0:]), bit(d[8], 0x80)
}

// Put writes d.
func (t DetailPath) Put(d *Details) {
	*d = Details{}
	binary.BigEndian.PutUint64(d[0:], t.ComponentMask)
	d[8] = flag(t.WaitForRepath, 0x80)
}

// DetailLID belongs to trap 128: the switch on which a port changed state.
type DetailLID struct {
	LID ib.LID
}

// Get reads d.
func (t *DetailLID) Get(d *Details) { t.LID = ib.LID(binary.BigEndian.Uint16(d[0:])) }

// Put writes d.
func (t DetailLID) Put(d *Details) {
	*d = Details{}
	binary.BigEndian.PutUint16(d[0:], uint16(t.LID))
}

// DetailPort belongs to traps 129 to 131: the port with the error.
type DetailPort struct {
	LID     ib.LID
	PortNum uint8
}

// Get reads d.
func (t *DetailPort) Get(d *Details) {
	t.LID, t.PortNum = ib.LID(binary.BigEndian.Uint16(d[2:])), d[4]
}

// Put writes d.
func (t DetailPort) Put(d *Details) {
	*d = Details{}
	binary.BigEndian.PutUint16(d[2:], uint16(t.LID))
	d[4] = t.PortNum
}

// ChangeFlags say what trap 144 is about.
type ChangeFlags uint16

// The flags. Implementations disagree about bit 5 (CapabilityMask2 or
// LinkSpeedExtEnabled): read PortInfo again.
const (
	ChangeNodeDescription  ChangeFlags = 1 << 0
	ChangeLinkWidthEnabled ChangeFlags = 1 << 1
	ChangeLinkSpeedEnabled ChangeFlags = 1 << 2
	ChangeSMPriority       ChangeFlags = 1 << 3
	ChangeHierarchyInfo    ChangeFlags = 1 << 4
	ChangePortInfo         ChangeFlags = 1 << 5
)

// DetailChange belongs to trap 144. With OtherLocalChanges the flags count,
// and CapabilityMask may be 0 though the mask has not changed.
type DetailChange struct {
	LID               ib.LID
	OtherLocalChanges bool
	CapabilityMask    ib.CapMask
	ChangeFlags       ChangeFlags
	CapabilityMask2   ib.CapMask2
}

// Get reads d.
func (t *DetailChange) Get(d *Details) {
	be := binary.BigEndian
	*t = DetailChange{
		LID: ib.LID(be.Uint16(d[2:])), OtherLocalChanges: bit(d[5], 0x01), CapabilityMask: ib.CapMask(be.Uint32(d[6:])),
		ChangeFlags: ChangeFlags(be.Uint16(d[10:])), CapabilityMask2: ib.CapMask2(be.Uint16(d[12:])),
	}
}

// Put writes d.
func (t DetailChange) Put(d *Details) {
	*d = Details{}
	be := binary.BigEndian
	be.PutUint16(d[2:], uint16(t.LID))
	d[5] = flag(t.OtherLocalChanges, 0x01)
	be.PutUint32(d[6:], uint32(t.CapabilityMask))
	be.PutUint16(d[10:], uint16(t.ChangeFlags))
	be.PutUint16(d[12:], uint16(t.CapabilityMask2))
}

// DetailImage belongs to trap 145: the new SystemImageGUID.
type DetailImage struct {
	LID             ib.LID
	SystemImageGUID ib.GUID
}

// Get reads d.
func (t *DetailImage) Get(d *Details) {
	t.LID, t.SystemImageGUID = ib.LID(binary.BigEndian.Uint16(d[2:])), ib.GUID(binary.BigEndian.Uint64(d[6:]))
}

// Put writes d.
func (t DetailImage) Put(d *Details) {
	*d = Details{}
	binary.BigEndian.PutUint16(d[2:], uint16(t.LID))
	binary.BigEndian.PutUint64(d[6:], uint64(t.SystemImageGUID))
}

// DetailMKey belongs to trap 256: an SMP with a wrong M_Key.
type DetailMKey struct {
	LID           ib.LID // the reporter, in some devices the requester
	DrSLID        ib.LID // of the bad SMP, directed route only
	Method        ib.Method
	AttrID        ib.AttrID
	AttrMod       uint32
	MKey          ib.MKey // what the sender used
	DRNotice      bool    // the bad SMP was directed route
	PathTruncated bool
	HopCount      uint8 // 6 bits: valid bytes of ReturnPath
	ReturnPath    [30]byte
}

// Get reads d.
func (t *DetailMKey) Get(d *Details) {
	be := binary.BigEndian
	*t = DetailMKey{
		LID: ib.LID(be.Uint16(d[2:])), DrSLID: ib.LID(be.Uint16(d[4:])), Method: ib.Method(d[6]),
		AttrID: ib.AttrID(be.Uint16(d[8:])), AttrMod: be.Uint32(d[10:]), MKey: ib.MKey(be.Uint64(d[14:])),
		DRNotice: bit(d[23], 0x80), PathTruncated: bit(d[23], 0x40), HopCount: d[23] & 0x3F,
		ReturnPath: [30]byte(d[24:]),
	}
}

// Put writes d.
func (t DetailMKey) Put(d *Details) {
	*d = Details{}
	be := binary.BigEndian
	be.PutUint16(d[2:], uint16(t.LID))
	be.PutUint16(d[4:], uint16(t.DrSLID))
	d[6] = byte(t.Method)
	be.PutUint16(d[8:], uint16(t.AttrID))
	be.PutUint32(d[10:], t.AttrMod)
	be.PutUint64(d[14:], uint64(t.MKey))
	d[23] = flag(t.DRNotice, 0x80) | flag(t.PathTruncated, 0x40) | t.HopCount&0x3F
	copy(d[24:], t.ReturnPath[:])
}

// DetailKey belongs to traps 257 (P_Key) and 258 (Q_Key): a packet with a
// wrong key.
type DetailKey struct {
	LID1, LID2 ib.LID // source, destination
	Key        uint32 // Q_Key, or P_Key in the low 16 bits
	SL         ib.SL
	QP1, QP2   uint32 // 24 bits: source, destination
	GID1, GID2 ib.GID // 0 without GRH
}

// Get reads d.
func (t *DetailKey) Get(d *Details) {
	be := binary.BigEndian
	*t = DetailKey{
		LID1: ib.LID(be.Uint16(d[2:])), LID2: ib.LID(be.Uint16(d[4:])), Key: be.Uint32(d[6:]), SL: ib.SL(d[10] >> 4),
		QP1: be.Uint32(d[10:]) & 0xFFFFFF, QP2: be.Uint32(d[14:]) & 0xFFFFFF,
		GID1: ib.GID(d[18:34]), GID2: ib.GID(d[34:50]),
	}
}

// Put writes d.
func (t DetailKey) Put(d *Details) {
	*d = Details{}
	be := binary.BigEndian
	be.PutUint16(d[2:], uint16(t.LID1))
	be.PutUint16(d[4:], uint16(t.LID2))
	be.PutUint32(d[6:], t.Key)
	be.PutUint32(d[10:], uint32(t.SL)<<28|t.QP1&0xFFFFFF)
	be.PutUint32(d[14:], t.QP2&0xFFFFFF)
	copy(d[18:], t.GID1[:])
	copy(d[34:], t.GID2[:])
}

// DetailSwitchPKey belongs to trap 259: a packet with a wrong P_Key at an
// external port of a switch.
type DetailSwitchPKey struct {
	// DataValid says which fields are valid: bit 0 LID1, 1 LID2, 2 PKey, 3 SL, 4 QP1, 5 QP2, 6
	// GID1, 7 GID2.
	DataValid  uint16
	LID1, LID2 ib.LID
	PKey       ib.PKey
	SL         ib.SL
	QP1, QP2   uint32 // 24 bits
	GID1, GID2 ib.GID
	SwitchLID  ib.LID
	PortNum    uint8
}

// Get reads d.
func (t *DetailSwitchPKey) Get(d *Details) {
	be := binary.BigEndian
	*t = DetailSwitchPKey{
		DataValid: be.Uint16(d[0:]), LID1: ib.LID(be.Uint16(d[2:])), LID2: ib.LID(be.Uint16(d[4:])),
		PKey: ib.PKey(be.Uint16(d[6:])), SL: ib.SL(d[8] >> 4), QP1: be.Uint32(d[8:]) & 0xFFFFFF,
		QP2: be.Uint32(d[12:]) & 0xFFFFFF, GID1: ib.GID(d[16:32]), GID2: ib.GID(d[32:48]),
		SwitchLID: ib.LID(be.Uint16(d[48:])), PortNum: d[50],
	}
}

// Put writes d.
func (t DetailSwitchPKey) Put(d *Details) {
	*d = Details{}
	be := binary.BigEndian
	be.PutUint16(d[0:], t.DataValid)
	be.PutUint16(d[2:], uint16(t.LID1))
	be.PutUint16(d[4:], uint16(t.LID2))
	be.PutUint16(d[6:], uint16(t.PKey))
	be.PutUint32(d[8:], uint32(t.SL)<<28|t.QP1&0xFFFFFF)
	be.PutUint32(d[12:], t.QP2&0xFFFFFF)
	copy(d[16:], t.GID1[:])
	copy(d[32:], t.GID2[:])
	be.PutUint16(d[48:], uint16(t.SwitchLID))
	d[50] = t.PortNum
}

// DetailVendor is the form of notices that are not generic, but for those of
// virtualization: NVIDIA's devices put the trap number last. All 54 bytes are
// kept.
type DetailVendor struct {
	Payload    [52]byte
	TrapNumber uint16
}

// Get reads d.
func (t *DetailVendor) Get(d *Details) {
	t.Payload, t.TrapNumber = [52]byte(d[:]), binary.BigEndian.Uint16(d[52:])
}

// Put writes d.
func (t DetailVendor) Put(d *Details) {
	copy(d[:52], t.Payload[:])
	binary.BigEndian.PutUint16(d[52:], t.TrapNumber)
}

// DetailRaw is the undecoded details of a trap that this package does not know.
type DetailRaw Details

// Get reads d.
func (t *DetailRaw) Get(d *Details) { *t = DetailRaw(*d) }

// Put writes d.
func (t DetailRaw) Put(d *Details) { *d = Details(t) }

// Detail is the typed form of DataDetails of a notice of the subnet
// management and administration classes: one of the Detail types, by value,
// DetailRaw for a trap number that is not known. Where it must not allocate,
// call Get of the type that the trap number asks for.
func (n *Notice) Detail() Detail {
	d := &n.DataDetails
	if trap, ok := n.Trap(); ok {
		if t := vportDetail(trap, d); t != nil {
			return t
		}
	}
	if !n.IsGeneric {
		var t DetailVendor
		t.Get(d)
		return t
	}
	switch n.TrapNumber {
	case TrapGIDInService, TrapGIDOutOfService, TrapMCGroupCreated, TrapMCGroupDeleted:
		var t DetailGID
		t.Get(d)
		return t
	case TrapUnPath, TrapRePath:
		var t DetailPath
		t.Get(d)
		return t
	case TrapPortStateChange:
		var t DetailLID
		t.Get(d)
		return t
	case TrapLocalPhyErrors, TrapBufferOverrun, TrapFlowCtlWatchdog:
		var t DetailPort
		t.Get(d)
		return t
	case TrapLocalChange:
		var t DetailChange
		t.Get(d)
		return t
	case TrapSystemImageGUID:
		var t DetailImage
		t.Get(d)
		return t
	case TrapBadMKey:
		var t DetailMKey
		t.Get(d)
		return t
	case TrapBadPKey, TrapBadQKey:
		var t DetailKey
		t.Get(d)
		return t
	case TrapBadPKeySwitchPort:
		var t DetailSwitchPKey
		t.Get(d)
		return t
	}
	return DetailRaw(*d)
}

// SetDetail writes DataDetails.
func (n *Notice) SetDetail(t Detail) { t.Put(&n.DataDetails) }

// NewTrap is the notice of a generic trap, with the type that the trap has.
func NewTrap(trap uint16, producer uint32, issuer ib.LID, t Detail) Notice {
	n := Notice{IsGeneric: true, Type: TrapType(trap), Producer: producer, TrapNumber: trap, IssuerLID: issuer}
	if t != nil {
		t.Put(&n.DataDetails)
	}
	return n
}

// TrapType is the notice type of a generic trap of subnet management
// (IBA §14.2.5.1); Informational for those it does not know.
func TrapType(trap uint16) NoticeType {
	switch {
	case trap >= 64 && trap <= 69:
		return NoticeSubnetManagement
	case trap >= 128 && trap <= 131, trap == TrapVPortState:
		return NoticeUrgent
	case trap >= 256 && trap <= 259, trap == TrapVPortBadPKey, trap == TrapVPortBadQKey:
		return NoticeSecurity
	}
	return NoticeInformational
}

// TrapName says in words what a generic trap of subnet management reports.
func TrapName(trap uint16) string {
	switch trap {
	case TrapGIDInService:
		return "GID in service"
	case TrapGIDOutOfService:
		return "GID out of service"
	case TrapMCGroupCreated:
		return "multicast group created"
	case TrapMCGroupDeleted:
		return "multicast group deleted"
	case TrapUnPath:
		return "unpath"
	case TrapRePath:
		return "repath"
	case TrapPortStateChange:
		return "port state change"
	case TrapLocalPhyErrors:
		return "local link integrity threshold"
	case TrapBufferOverrun:
		return "excessive buffer overrun threshold"
	case TrapFlowCtlWatchdog:
		return "flow control update watchdog"
	case TrapLocalChange:
		return "capability mask or local change"
	case TrapSystemImageGUID:
		return "system image GUID change"
	case TrapBadMKey:
		return "bad M_Key"
	case TrapBadPKey:
		return "bad P_Key"
	case TrapBadQKey:
		return "bad Q_Key"
	case TrapBadPKeySwitchPort:
		return "bad P_Key at a switch port"
	case TrapVPortChange:
		return "VPort local change"
	case TrapVPortState:
		return "VPort state change"
	case TrapVPortBadPKey:
		return "bad P_Key at a VPort"
	case TrapVPortBadQKey:
		return "bad Q_Key at a VPort"
	}
	return "trap " + strconv.Itoa(int(trap))
}
