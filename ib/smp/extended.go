package smp

import (
	"encoding/binary"

	"heddle/ib"
)

// Sizes of the attributes of this file in bytes.
const (
	PortInfoExtendedLen     = 64
	ExtendedPortInfoLen     = 64
	LinkSpeedWidthPairsLen  = 64
	SwitchPortStateTableLen = 64
	GeneralInfoLen          = 64
)

// FECMode is a forward error correction mode of PortInfoExtended; as a mask
// bit n stands for mode n.
type FECMode uint16

// The modes.
const (
	FECNone             FECMode = 0
	FECFirecode         FECMode = 1
	FECReedSolomon      FECMode = 2
	FECLowLatencyRS     FECMode = 3
	FECModeSelectionCap uint32  = 1 // bit 0 of PortInfoExtended.CapMask
)

// PortInfoExtended is the attribute of that name, 64 bytes. The Supported and
// Enabled fields are masks of modes.
type PortInfoExtended struct {
	CapMask             uint32
	FECModeActive       FECMode
	FDRFECModeSupported uint16
	FDRFECModeEnabled   uint16
	EDRFECModeSupported uint16
	EDRFECModeEnabled   uint16
	HDRFECModeSupported uint16
	HDRFECModeEnabled   uint16
	NDRFECModeSupported uint16
	NDRFECModeEnabled   uint16
}

// Decode reads the attribute.
func (p *PortInfoExtended) Decode(b []byte) error {
	if len(b) != PortInfoExtendedLen {
		return check("PortInfoExtended", b, PortInfoExtendedLen)
	}
	be := binary.BigEndian
	*p = PortInfoExtended{
		CapMask: be.Uint32(b), FECModeActive: FECMode(be.Uint16(b[4:])),
		FDRFECModeSupported: be.Uint16(b[6:]), FDRFECModeEnabled: be.Uint16(b[8:]),
		EDRFECModeSupported: be.Uint16(b[10:]), EDRFECModeEnabled: be.Uint16(b[12:]),
		HDRFECModeSupported: be.Uint16(b[14:]), HDRFECModeEnabled: be.Uint16(b[16:]),
		NDRFECModeSupported: be.Uint16(b[18:]), NDRFECModeEnabled: be.Uint16(b[20:]),
	}
	return nil
}

// Put writes the 64 bytes.
func (p *PortInfoExtended) Put(b []byte) {
	b = b[:PortInfoExtendedLen]
	be := binary.BigEndian
	be.PutUint32(b, p.CapMask)
	be.PutUint16(b[4:], uint16(p.FECModeActive))
	be.PutUint16(b[6:], p.FDRFECModeSupported)
	be.PutUint16(b[8:], p.FDRFECModeEnabled)
	be.PutUint16(b[10:], p.EDRFECModeSupported)
	be.PutUint16(b[12:], p.EDRFECModeEnabled)
	be.PutUint16(b[14:], p.HDRFECModeSupported)
	be.PutUint16(b[16:], p.HDRFECModeEnabled)
	be.PutUint16(b[18:], p.NDRFECModeSupported)
	be.PutUint16(b[20:], p.NDRFECModeEnabled)
	clear(b[22:])
}

// ExtSpeedFDR10 is the only bit of ExtendedPortInfo's speed masks.
const ExtSpeedFDR10 uint8 = 1

// ExtendedPortInfo is NVIDIA's attribute 0xFF90, 64 bytes: FDR10. Ask only
// devices of that vendor.
type ExtendedPortInfo struct {
	StateChangeEnable  uint8 // write 1 to make LinkSpeedEnabled take effect
	LinkSpeedSupported uint8
	LinkSpeedEnabled   uint8
	LinkSpeedActive    uint8
}

// Decode reads the attribute.
func (p *ExtendedPortInfo) Decode(b []byte) error {
	if len(b) != ExtendedPortInfoLen {
		return check("ExtendedPortInfo", b, ExtendedPortInfoLen)
	}
	*p = ExtendedPortInfo{StateChangeEnable: b[3], LinkSpeedSupported: b[7], LinkSpeedEnabled: b[11], LinkSpeedActive: b[15]}
	return nil
}

// Put writes the 64 bytes.
func (p *ExtendedPortInfo) Put(b []byte) {
	b = b[:ExtendedPortInfoLen]
	clear(b)
	b[3], b[7], b[11], b[15] = p.StateChangeEnable, p.LinkSpeedSupported, p.LinkSpeedEnabled, p.LinkSpeedActive
}

// LinkSpeedWidthPairs is the LinkSpeedWidthPairsTable attribute: the widths
// that a group of ports allows at each speed.
type LinkSpeedWidthPairs struct {
	NumTables uint8
	PortMask  [32]byte // 256 bits, bit n (LSB 0 of the whole) is port n
	// Widths by speed: 0 SDR, 1 DDR, 2 QDR; newer speeds follow in an order
	// that no public source confirms.
	Widths [31]ib.LinkWidth
}

// HasPort reports whether the table is about a port.
func (t *LinkSpeedWidthPairs) HasPort(port uint8) bool {
	return t.PortMask[31-port/8]>>(port%8)&1 != 0
}

// Decode reads the attribute.
func (t *LinkSpeedWidthPairs) Decode(b []byte) error {
	if len(b) != LinkSpeedWidthPairsLen {
		return check("LinkSpeedWidthPairsTable", b, LinkSpeedWidthPairsLen)
	}
	t.NumTables, t.PortMask = b[0], [32]byte(b[1:33])
	for i := range t.Widths {
		t.Widths[i] = ib.LinkWidth(b[33+i])
	}
	return nil
}

// Put writes the 64 bytes.
func (t *LinkSpeedWidthPairs) Put(b []byte) {
	b = b[:LinkSpeedWidthPairsLen]
	b[0] = t.NumTables
	copy(b[1:33], t.PortMask[:])
	for i, w := range t.Widths {
		b[33+i] = byte(w)
	}
}

// SwitchPortStateTable is the state of 128 ports of a switch, 64 bytes: port
// 128×block + index.
type SwitchPortStateTable [128]ib.PortState

// Decode reads the attribute: even ports in the high nibbles.
func (t *SwitchPortStateTable) Decode(b []byte) error {
	if len(b) != SwitchPortStateTableLen {
		return check("SwitchPortStateTable", b, SwitchPortStateTableLen)
	}
	for i, v := range b {
		t[2*i], t[2*i+1] = ib.PortState(v>>4), ib.PortState(v&0xF)
	}
	return nil
}

// Put writes the 64 bytes.
func (t *SwitchPortStateTable) Put(b []byte) {
	b = b[:SwitchPortStateTableLen]
	for i := range b {
		b[i] = byte(t[2*i])<<4 | byte(t[2*i+1])&0xF
	}
}

// Bits of GeneralInfo, counted from the least significant bit of word 0.
const (
	GeneralCapExtendedPortInfo = 9
	GeneralCapVirtualization   = 15
	GeneralCapVPortGUIDInfo    = 22
	GeneralCapVPortRateLimit   = 25
	GeneralCapEnhancedTrap128  = 28
)

// GeneralInfo is NVIDIA's attribute 0xFF17 with modifier 4: four words of
// capability bits.
type GeneralInfo [4]uint32

// Has reports whether bit n (0–127) is set; bits 0–31 are word 0.
func (g *GeneralInfo) Has(n int) bool { return n >= 0 && n < 128 && g[n/32]>>(n%32)&1 != 0 }

// Decode reads the attribute.
func (g *GeneralInfo) Decode(b []byte) error {
	if len(b) != GeneralInfoLen && len(b) != 16 {
		return check("GeneralInfo", b, GeneralInfoLen)
	}
	for i := range g {
		g[i] = binary.BigEndian.Uint32(b[4*i:])
	}
	return nil
}

// Put writes the 64 bytes.
func (g *GeneralInfo) Put(b []byte) {
	b = b[:GeneralInfoLen]
	for i, v := range g {
		binary.BigEndian.PutUint32(b[4*i:], v)
	}
	clear(b[16:])
}
