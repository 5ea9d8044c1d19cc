package smp

import (
	"encoding/binary"

	"heddle/ib"
)

// PortInfoLen is the size of PortInfo in bytes.
const PortInfoLen = 64

// PortInfo is the PortInfo attribute, 64 bytes (IBA §14.2.5.6). For fields
// where 0 in a Set means "no change" it says so; everywhere else 0 is a value.
// Before a Set of something that was read, call ClearForSet.
type PortInfo struct {
	MKey                 ib.MKey // 0 = no protection
	GidPrefix            ib.SubnetPrefix
	LID                  ib.LID
	MasterSMLID          ib.LID
	CapabilityMask       ib.CapMask
	DiagCode             uint16       // low 4 bits: 0 ready, 1 self test, 2 initialising, 3 soft, 4 hard error
	MKeyLeasePeriod      uint16       // seconds; 0 = never expires
	LocalPortNum         uint8        // port that received the SMP, not the one described
	LinkWidthEnabled     ib.LinkWidth // 0 no change, 255 all supported
	LinkWidthSupported   ib.LinkWidth
	LinkWidthActive      ib.LinkWidth
	LinkSpeedSupported   ib.SpeedBits
	PortState            ib.PortState // 0 no change
	PortPhysicalState    ib.PhysState // 0 no change; Set takes 0–3
	LinkDownDefaultState ib.PhysState // 0 no change, 1 Sleep, 2 Polling
	MKeyProtectBits      uint8        // 2 bits
	LMC                  uint8        // 3 bits
	LinkSpeedActive      ib.SpeedBits
	LinkSpeedEnabled     ib.SpeedBits // 0 no change, 15 all supported
	NeighborMTU          ib.MTU
	MasterSMSL           ib.SL
	VLCap                uint8 // code, see ib.VLsOf
	InitType             uint8 // bits: 0 NoLoad, 1 PreserveContent, 2 PreservePresence, 3 DoNotResuscitate
	VLHighLimit          uint8 // units of 4 KiB; 0 = one packet, 255 = unlimited
	VLArbitrationHighCap uint8
	VLArbitrationLowCap  uint8
	InitTypeReply        uint8
	MTUCap               ib.MTU
	VLStallCount         uint8 // 3 bits
	HOQLife              uint8 // 5 bits: 4.096 µs × 2^n, above 19 no limit
	OperationalVLs       uint8 // code; 0 no change

	PartitionEnforcementInbound  bool // switch external ports
	PartitionEnforcementOutbound bool
	FilterRawInbound             bool
	FilterRawOutbound            bool

	MKeyViolations uint16 // writing 0 clears, anything else is ignored
	PKeyViolations uint16
	QKeyViolations uint16
	GUIDCap        uint8 // GUID entries

	ClientReregister                    bool
	MulticastPKeyTrapSuppressionEnabled uint8 // 2 bits
	SubnetTimeOut                       uint8 // 5 bits: 4.096 µs × 2^n
	RespTimeValue                       uint8 // 5 bits: 4.096 µs × 2^n
	LocalPhyErrors                      uint8 // 4 bits: threshold of trap 129
	OverrunErrors                       uint8 // 4 bits: threshold of trap 130
	MaxCreditHint                       uint16

	LinkSpeedExtActive2    ib.SpeedExt2Bits // 2 bits
	LinkSpeedExtSupported2 ib.SpeedExt2Bits // 2 bits
	LinkSpeedExtEnabled2   ib.SpeedExt2Bits // 3 bits; 0 no change, 7 all supported
	LinkRoundTripLatency   uint32           // 24 bits
	CapabilityMask2        ib.CapMask2      // with CapIsCapabilityMask2Supported
	LinkSpeedExtActive     ib.SpeedExtBits  // 4 bits; with CapIsExtendedSpeedsSupported
	LinkSpeedExtSupported  ib.SpeedExtBits  // 4 bits
	LinkSpeedExtEnabled    ib.SpeedExtBits  // 5 bits; 0 no change, 30 none, 31 all supported
}

// Decode reads the attribute.
func (p *PortInfo) Decode(b []byte) error {
	if len(b) != PortInfoLen {
		return check("PortInfo", b, PortInfoLen)
	}
	b = b[:PortInfoLen]
	be := binary.BigEndian
	*p = PortInfo{
		MKey: ib.MKey(be.Uint64(b[0:])), GidPrefix: ib.SubnetPrefix(be.Uint64(b[8:])),
		LID: ib.LID(be.Uint16(b[16:])), MasterSMLID: ib.LID(be.Uint16(b[18:])),
		CapabilityMask: ib.CapMask(be.Uint32(b[20:])), DiagCode: be.Uint16(b[24:]), MKeyLeasePeriod: be.Uint16(b[26:]),
		LocalPortNum: b[28], LinkWidthEnabled: ib.LinkWidth(b[29]), LinkWidthSupported: ib.LinkWidth(b[30]),
		LinkWidthActive: ib.LinkWidth(b[31]), LinkSpeedSupported: ib.SpeedBits(b[32] >> 4), PortState: ib.PortState(b[32] & 0xF),
		PortPhysicalState: ib.PhysState(b[33] >> 4), LinkDownDefaultState: ib.PhysState(b[33] & 0xF),
		MKeyProtectBits: b[34] >> 6, LMC: b[34] & 7,
		LinkSpeedActive: ib.SpeedBits(b[35] >> 4), LinkSpeedEnabled: ib.SpeedBits(b[35] & 0xF),
		NeighborMTU: ib.MTU(b[36] >> 4), MasterSMSL: ib.SL(b[36] & 0xF), VLCap: b[37] >> 4, InitType: b[37] & 0xF,
		VLHighLimit: b[38], VLArbitrationHighCap: b[39], VLArbitrationLowCap: b[40],
		InitTypeReply: b[41] >> 4, MTUCap: ib.MTU(b[41] & 0xF), VLStallCount: b[42] >> 5, HOQLife: b[42] & 0x1F,
		OperationalVLs:              b[43] >> 4,
		PartitionEnforcementInbound: bit(b[43], 8), PartitionEnforcementOutbound: bit(b[43], 4),
		FilterRawInbound: bit(b[43], 2), FilterRawOutbound: bit(b[43], 1),
		MKeyViolations: be.Uint16(b[44:]), PKeyViolations: be.Uint16(b[46:]), QKeyViolations: be.Uint16(b[48:]),
		GUIDCap: b[50], ClientReregister: bit(b[51], 0x80), MulticastPKeyTrapSuppressionEnabled: b[51] >> 5 & 3,
		SubnetTimeOut: b[51] & 0x1F, RespTimeValue: b[52] & 0x1F, LocalPhyErrors: b[53] >> 4, OverrunErrors: b[53] & 0xF,
		MaxCreditHint:       be.Uint16(b[54:]),
		LinkSpeedExtActive2: ib.SpeedExt2Bits(b[56] >> 5 & 3), LinkSpeedExtSupported2: ib.SpeedExt2Bits(b[56] >> 3 & 3),
		LinkSpeedExtEnabled2: ib.SpeedExt2Bits(b[56] & 7), LinkRoundTripLatency: be.Uint32(b[56:]) & 0xFFFFFF,
		CapabilityMask2: ib.CapMask2(be.Uint16(b[60:])), LinkSpeedExtActive: ib.SpeedExtBits(b[62] >> 4),
		LinkSpeedExtSupported: ib.SpeedExtBits(b[62] & 0xF), LinkSpeedExtEnabled: ib.SpeedExtBits(b[63] & 0x1F),
	}
	return nil
}

// Put writes the 64 bytes. Fields are cut to their width.
func (p *PortInfo) Put(b []byte) {
	b = b[:PortInfoLen]
	be := binary.BigEndian
	be.PutUint64(b[0:], uint64(p.MKey))
	be.PutUint64(b[8:], uint64(p.GidPrefix))
	be.PutUint16(b[16:], uint16(p.LID))
	be.PutUint16(b[18:], uint16(p.MasterSMLID))
	be.PutUint32(b[20:], uint32(p.CapabilityMask))
	be.PutUint16(b[24:], p.DiagCode)
	be.PutUint16(b[26:], p.MKeyLeasePeriod)
	b[28] = p.LocalPortNum
	b[29], b[30], b[31] = byte(p.LinkWidthEnabled), byte(p.LinkWidthSupported), byte(p.LinkWidthActive)
	b[32] = byte(p.LinkSpeedSupported)<<4 | byte(p.PortState)&0xF
	b[33] = byte(p.PortPhysicalState)<<4 | byte(p.LinkDownDefaultState)&0xF
	b[34] = p.MKeyProtectBits<<6 | p.LMC&7
	b[35] = byte(p.LinkSpeedActive)<<4 | byte(p.LinkSpeedEnabled)&0xF
	b[36] = byte(p.NeighborMTU)<<4 | byte(p.MasterSMSL)&0xF
	b[37] = p.VLCap<<4 | p.InitType&0xF
	b[38], b[39], b[40] = p.VLHighLimit, p.VLArbitrationHighCap, p.VLArbitrationLowCap
	b[41] = p.InitTypeReply<<4 | byte(p.MTUCap)&0xF
	b[42] = p.VLStallCount<<5 | p.HOQLife&0x1F
	b[43] = p.OperationalVLs<<4 | flag(p.PartitionEnforcementInbound, 8) | flag(p.PartitionEnforcementOutbound, 4) |
		flag(p.FilterRawInbound, 2) | flag(p.FilterRawOutbound, 1)
	be.PutUint16(b[44:], p.MKeyViolations)
	be.PutUint16(b[46:], p.PKeyViolations)
	be.PutUint16(b[48:], p.QKeyViolations)
	b[50] = p.GUIDCap
	b[51] = flag(p.ClientReregister, 0x80) | p.MulticastPKeyTrapSuppressionEnabled&3<<5 | p.SubnetTimeOut&0x1F
	b[52] = p.RespTimeValue & 0x1F
	b[53] = p.LocalPhyErrors<<4 | p.OverrunErrors&0xF
	be.PutUint16(b[54:], p.MaxCreditHint)
	be.PutUint32(b[56:], p.LinkRoundTripLatency)
	b[56] = byte(p.LinkSpeedExtActive2&3)<<5 | byte(p.LinkSpeedExtSupported2&3)<<3 | byte(p.LinkSpeedExtEnabled2&7)
	be.PutUint16(b[60:], uint16(p.CapabilityMask2))
	b[62] = byte(p.LinkSpeedExtActive)<<4 | byte(p.LinkSpeedExtSupported)&0xF
	b[63] = byte(p.LinkSpeedExtEnabled) & 0x1F
}

// ActiveSpeed is the speed of the link according to this PortInfo alone, which was read with
// PortInfoExtSpeeds in the modifier. On a switch the capability bits live in port 0's PortInfo,
// and FDR10 in a vendor attribute: see ActiveSpeedOf.
func (p *PortInfo) ActiveSpeed() ib.LinkSpeed { return p.ActiveSpeedOf(p.CapabilityMask, false) }

// FastestSpeed is the highest speed that the port supports, given the capability mask that counts (of port
// 0 on a switch).
func (p *PortInfo) FastestSpeed(mask ib.CapMask) ib.LinkSpeed {
	best := p.LinkSpeedSupported.Fastest()
	if mask.Has(ib.CapIsExtendedSpeedsSupported) {
		best = max(best, p.LinkSpeedExtSupported.Fastest(), p.LinkSpeedExtSupported2.Fastest())
	}
	return best
}

// Throttled reports whether the link between two ports is narrower or slower than both of them can be. The
// masks are the capabilities that count for each.
func Throttled(p, q *PortInfo, maskP, maskQ ib.CapMask) bool {
	width := (p.LinkWidthSupported & q.LinkWidthSupported).Widest()
	return width != 0 && p.LinkWidthActive != width ||
		p.ActiveSpeedOf(maskP, false) < min(p.FastestSpeed(maskP), q.FastestSpeed(maskQ))
}

// ActiveSpeedOf is the speed of the link, given the capability mask that
// counts (of port 0 on a switch) and whether ExtendedPortInfo says FDR10.
func (p *PortInfo) ActiveSpeedOf(mask ib.CapMask, fdr10 bool) ib.LinkSpeed {
	if mask.Has(ib.CapIsExtendedSpeedsSupported) {
		if s := p.LinkSpeedExtActive2.Fastest(); s != ib.SpeedNone {
			return s
		}
		if s := p.LinkSpeedExtActive.Fastest(); s != ib.SpeedNone {
			return s
		}
	}
	if fdr10 {
		return ib.SpeedFDR10
	}
	return p.LinkSpeedActive.Fastest()
}

// ClearForSet makes a PortInfo that was read fit to be the base of a Set:
// everything for which 0 means "no change" is 0 and the one-shot
// ClientReregister is off.
func (p *PortInfo) ClearForSet() {
	p.PortState, p.PortPhysicalState, p.LinkDownDefaultState = 0, 0, 0
	p.LinkWidthEnabled, p.LinkSpeedEnabled, p.LinkSpeedExtEnabled, p.LinkSpeedExtEnabled2 = 0, 0, 0, 0
	p.OperationalVLs = 0
	p.ClientReregister = false
}
