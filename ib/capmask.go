package ib

import "strings"

// CapMask is PortInfo.CapabilityMask; bit 0 is the least significant
// (IBA §14.2.5.6).
type CapMask uint32

// The bits of CapMask.
const (
	CapIsSM                               CapMask = 1 << 1
	CapIsNoticeSupported                  CapMask = 1 << 2
	CapIsTrapSupported                    CapMask = 1 << 3
	CapIsOptionalIPDSupported             CapMask = 1 << 4
	CapIsAutomaticMigrationSupported      CapMask = 1 << 5
	CapIsSLMappingSupported               CapMask = 1 << 6
	CapIsMKeyNVRAM                        CapMask = 1 << 7
	CapIsPKeyNVRAM                        CapMask = 1 << 8
	CapIsLEDInfoSupported                 CapMask = 1 << 9
	CapIsSMDisabled                       CapMask = 1 << 10
	CapIsSystemImageGUIDSupported         CapMask = 1 << 11
	CapIsPKeySwitchExternalPortTrap       CapMask = 1 << 12
	CapIsCableInfoSupported               CapMask = 1 << 13
	CapIsExtendedSpeedsSupported          CapMask = 1 << 14
	CapIsCapabilityMask2Supported         CapMask = 1 << 15
	CapIsCommunicationManagementSupported CapMask = 1 << 16
	CapIsSNMPTunnelingSupported           CapMask = 1 << 17
	CapIsReinitSupported                  CapMask = 1 << 18
	CapIsDeviceManagementSupported        CapMask = 1 << 19
	CapIsVendorClassSupported             CapMask = 1 << 20
	CapIsDRNoticeSupported                CapMask = 1 << 21
	CapIsCapabilityMaskNoticeSupported    CapMask = 1 << 22
	CapIsBootManagementSupported          CapMask = 1 << 23
	CapIsLinkRoundTripLatencySupported    CapMask = 1 << 24
	CapIsClientReregistrationSupported    CapMask = 1 << 25
	CapIsOtherLocalChangesNotice          CapMask = 1 << 26
	CapIsLinkSpeedWidthPairsTable         CapMask = 1 << 27
	CapIsVendorSpecificMadsTable          CapMask = 1 << 28
	CapIsMulticastPKeyTrapSuppression     CapMask = 1 << 29
	CapIsMulticastFDBTopSupported         CapMask = 1 << 30
	CapIsHierarchyInfoSupported           CapMask = 1 << 31
)

var capNames = [32]string{
	"", "IsSM", "IsNoticeSupported", "IsTrapSupported", "IsOptionalIPDSupported",
	"IsAutomaticMigrationSupported", "IsSLMappingSupported", "IsM_KeyNVRAM", "IsP_KeyNVRAM",
	"IsLEDInfoSupported", "IsSMdisabled", "IsSystemImageGUIDSupported",
	"IsP_KeySwitchExternalPortTrapSupported", "IsCableInfoSupported", "IsExtendedSpeedsSupported",
	"IsCapabilityMask2Supported", "IsCommunicationManagementSupported", "IsSNMPTunnelingSupported",
	"IsReinitSupported", "IsDeviceManagementSupported", "IsVendorClassSupported", "IsDRNoticeSupported",
	"IsCapabilityMaskNoticeSupported", "IsBootManagementSupported", "IsLinkRoundTripLatencySupported",
	"IsClientReregistrationSupported", "IsOtherLocalChangesNoticeSupported",
	"IsLinkSpeedWidthPairsTableSupported", "IsVendorSpecificMadsTableSupported",
	"IsMulticastP_KeyTrapSuppressionSupported", "IsMulticastFDBTopSupported", "IsHierarchyInfoSupported",
}

// Has reports whether all bits of w are set.
func (m CapMask) Has(w CapMask) bool { return m&w == w }

// String names the bits that are set, "IsSM|IsTrapSupported".
func (m CapMask) String() string { return bitNames(uint64(m), capNames[:]) }

// CapMask2 is PortInfo.CapabilityMask2; bit 0 is the least significant. Valid
// only with CapIsCapabilityMask2Supported.
type CapMask2 uint16

// The bits of CapMask2.
const (
	Cap2IsSetNodeDescriptionSupported   CapMask2 = 1 << 0
	Cap2IsPortInfoExtendedSupported     CapMask2 = 1 << 1
	Cap2IsVirtualizationSupported       CapMask2 = 1 << 2
	Cap2IsSwitchPortStateTableSupported CapMask2 = 1 << 3
	Cap2IsLinkWidth2xSupported          CapMask2 = 1 << 4
	Cap2IsLinkSpeedHDRSupported         CapMask2 = 1 << 5
	Cap2IsMKeyProtectBitsExtSupported   CapMask2 = 1 << 6
	Cap2IsEnhancedTrap128Supported      CapMask2 = 1 << 7
	Cap2IsPartitionTopSupported         CapMask2 = 1 << 8
	Cap2IsEnhancedQoSArbiterSupported   CapMask2 = 1 << 9
	Cap2IsLinkSpeedNDRSupported         CapMask2 = 1 << 10
	Cap2IsExtendedSpeeds2Supported      CapMask2 = 1 << 11
	Cap2IsLinkSpeedXDRSupported         CapMask2 = 1 << 12
)

var cap2Names = [16]string{
	"IsSetNodeDescriptionSupported", "IsPortInfoExtendedSupported", "IsVirtualizationSupported",
	"IsSwitchPortStateTableSupported", "IsLinkWidth2xSupported", "IsLinkSpeedHDRSupported",
	"IsM_KeyProtectBitsExtSupported", "IsEnhancedTrap128Supported", "IsPartitionTopSupported",
	"IsEnhancedQoSArbiterSupported", "IsLinkSpeedNDRSupported", "IsExtendedSpeeds2Supported",
	"IsLinkSpeedXDRSupported",
}

// Has reports whether all bits of w are set.
func (m CapMask2) Has(w CapMask2) bool { return m&w == w }

// String names the bits that are set.
func (m CapMask2) String() string { return bitNames(uint64(m), cap2Names[:]) }

// VPortCapMask is VPortInfo.CapabilityMask, the part of CapMask that a virtual
// port has of its own; bit 0 is the least significant.
type VPortCapMask uint16

// The bits of VPortCapMask.
const (
	VPortCapIsCommunicationManagementSupported VPortCapMask = 1 << 0
	VPortCapIsSNMPTunnelingSupported           VPortCapMask = 1 << 1
	VPortCapIsDeviceManagementSupported        VPortCapMask = 1 << 2
	VPortCapIsVendorClassSupported             VPortCapMask = 1 << 3
	VPortCapIsBootManagementSupported          VPortCapMask = 1 << 4
	VPortCapIsSM                               VPortCapMask = 1 << 5
	VPortCapIsSMDisabled                       VPortCapMask = 1 << 6
)

var vportCapNames = [16]string{
	"IsCommunicationManagementSupported", "IsSNMPTunnelingSupported", "IsDeviceManagementSupported",
	"IsVendorClassSupported", "IsBootManagementSupported", "IsSM", "IsSMdisabled",
}

// Has reports whether all bits of w are set.
func (m VPortCapMask) Has(w VPortCapMask) bool { return m&w == w }

// String names the bits that are set.
func (m VPortCapMask) String() string { return bitNames(uint64(m), vportCapNames[:]) }

func bitNames(v uint64, names []string) string {
	if v == 0 {
		return "none"
	}
	var b strings.Builder
	for i := 0; v != 0; i, v = i+1, v>>1 {
		if v&1 == 0 {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('|')
		}
		if i < len(names) && names[i] != "" {
			b.WriteString(names[i])
		} else {
			b.WriteString("bit")
			b.WriteString(itoa(i))
		}
	}
	return b.String()
}
