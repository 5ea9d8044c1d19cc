package smp

import (
	"encoding/binary"

	"heddle/ib"
)

// nvidia are the OUIs of NVIDIA, formerly Mellanox, as VendorID has them.
var nvidia = [...]uint32{
	0x0002C9, 0x00258B, 0x00C903, 0x043F72, 0x0C42A1, 0x1C34DA, 0x248A07, 0x48B02D, 0x506B4B, 0x7CFE90,
	0x98039B, 0xB8599F, 0xB8CEF6, 0xE41D2D, 0xEC0D9A, 0xF45214,
}

// IsNVIDIA reports whether a VendorID, of NodeInfo or of a notice that is not
// generic, is one of NVIDIA's, whose attributes 0xFF17 and 0xFF90 and whose
// form of notices this package knows.
func IsNVIDIA(vendor uint32) bool {
	for _, v := range nvidia {
		if v == vendor&0xFFFFFF {
			return true
		}
	}
	return false
}

// Trap is the number of the trap that a notice of subnet management is about,
// whichever of two forms it has: a generic one has it in TrapNumber, NVIDIA's
// devices send their own with the number in the last two bytes. ok is false
// for the notices of other vendors, whose numbers mean nothing here.
func (n *Notice) Trap() (trap uint16, ok bool) {
	switch {
	case n.IsGeneric:
		return n.TrapNumber, true
	case IsNVIDIA(n.Producer):
		return binary.BigEndian.Uint16(n.DataDetails[vendorTrapOff:]), true
	}
	return 0, false
}

// vendorTrapOff is where NVIDIA's devices put the trap number in DataDetails.
const vendorTrapOff = 52

// DetailVPortChange belongs to trap 1144: some VPort of a physical port
// changed its capabilities or description. Devices send one for several VPorts:
// VPortIndex is a hint.
type DetailVPortChange struct {
	LID               ib.LID // of the physical port
	OtherLocalChanges bool   // ChangeFlags count
	CapabilityMask    ib.VPortCapMask
	ChangeFlags       ChangeFlags // node description, SM priority, hierarchy
	VPortIndex        uint16
	VendorTrap        uint16 // the trap number in a vendor's notice, else 0
}

// Get reads d.
func (t *DetailVPortChange) Get(d *Details) {
	be := binary.BigEndian
	*t = DetailVPortChange{
		LID: ib.LID(be.Uint16(d[2:])), OtherLocalChanges: bit(d[5], 0x01), CapabilityMask: ib.VPortCapMask(be.Uint16(d[6:])),
		ChangeFlags: ChangeFlags(be.Uint16(d[8:])), VPortIndex: be.Uint16(d[12:]), VendorTrap: be.Uint16(d[vendorTrapOff:]),
	}
}

// Put writes d.
func (t DetailVPortChange) Put(d *Details) {
	*d = Details{}
	be := binary.BigEndian
	be.PutUint16(d[2:], uint16(t.LID))
	d[5] = flag(t.OtherLocalChanges, 0x01)
	be.PutUint16(d[6:], uint16(t.CapabilityMask))
	be.PutUint16(d[8:], uint16(t.ChangeFlags))
	be.PutUint16(d[12:], t.VPortIndex)
	be.PutUint16(d[vendorTrapOff:], t.VendorTrap)
}

// DetailVPortState belongs to trap 1146: some VPort of a physical port changed
// state, or VPortIndexTop did. Which one is in VPortState.
type DetailVPortState struct {
	LID        ib.LID // of the physical port
	VendorTrap uint16 // the trap number in a vendor's notice, else 0
}

// Get reads d.
func (t *DetailVPortState) Get(d *Details) {
	t.LID, t.VendorTrap = ib.LID(binary.BigEndian.Uint16(d[2:])), binary.BigEndian.Uint16(d[vendorTrapOff:])
}

// Put writes d.
func (t DetailVPortState) Put(d *Details) {
	*d = Details{}
	binary.BigEndian.PutUint16(d[2:], uint16(t.LID))
	binary.BigEndian.PutUint16(d[vendorTrapOff:], t.VendorTrap)
}

// DetailVPortKey belongs to traps 1257 (P_Key) and 1258 (Q_Key): a packet with
// a wrong key at a VPort.
type DetailVPortKey struct {
	DetailKey
	VPortIndex uint16 // the VPort that saw it
	VendorTrap uint16 // the trap number in a vendor's notice, else 0
}

// Get reads d.
func (t *DetailVPortKey) Get(d *Details) {
	t.DetailKey.Get(d)
	t.VPortIndex, t.VendorTrap = binary.BigEndian.Uint16(d[50:]), binary.BigEndian.Uint16(d[vendorTrapOff:])
}

// Put writes d.
func (t DetailVPortKey) Put(d *Details) {
	t.DetailKey.Put(d)
	binary.BigEndian.PutUint16(d[50:], t.VPortIndex)
	binary.BigEndian.PutUint16(d[vendorTrapOff:], t.VendorTrap)
}

// vportDetail is the typed form of the traps of virtualization, which come in
// both forms with one layout; nil for other traps.
func vportDetail(trap uint16, d *Details) Detail {
	switch trap {
	case TrapVPortChange:
		var t DetailVPortChange
		t.Get(d)
		return t
	case TrapVPortState:
		var t DetailVPortState
		t.Get(d)
		return t
	case TrapVPortBadPKey, TrapVPortBadQKey:
		var t DetailVPortKey
		t.Get(d)
		return t
	}
	return nil
}
