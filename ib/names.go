package ib

import "strconv"

func itoa(i int) string { return strconv.Itoa(i) }

// hex prints 0x and at least n digits.
func hex(v uint64, n int) string {
	s := strconv.FormatUint(v, 16)
	for len(s) < n {
		s = "0" + s
	}
	return "0x" + s
}

// String prints the type as the diagnostics do.
func (t NodeType) String() string {
	switch t {
	case NodeCA:
		return "Channel Adapter"
	case NodeSwitch:
		return "Switch"
	case NodeRouter:
		return "Router"
	}
	return "node type " + itoa(int(t))
}

// String prints the state as the diagnostics do: "Down", "Initialize", …
func (s PortState) String() string {
	switch s {
	case StateNoChange:
		return "NoChange"
	case StateDown:
		return "Down"
	case StateInit:
		return "Initialize"
	case StateArmed:
		return "Armed"
	case StateActive:
		return "Active"
	case StateActiveDefer:
		return "ActiveDefer"
	}
	return "state " + itoa(int(s))
}

// String prints the state as the diagnostics do: "LinkUp", "Polling", …
func (s PhysState) String() string {
	switch s {
	case PhysNoChange:
		return "NoChange"
	case PhysSleep:
		return "Sleep"
	case PhysPolling:
		return "Polling"
	case PhysDisabled:
		return "Disabled"
	case PhysTraining:
		return "PortConfigurationTraining"
	case PhysLinkUp:
		return "LinkUp"
	case PhysErrorRecovery:
		return "LinkErrorRecovery"
	case PhysTest:
		return "PhyTest"
	}
	return "phys state " + itoa(int(s))
}

// String prints the size in bytes.
func (m MTU) String() string {
	if n := m.Bytes(); n != 0 {
		return itoa(n)
	}
	return "MTU code " + itoa(int(m))
}

// VLsOf is the number of data VLs of a VLCap or OperationalVLs code (1 = VL0,
// 2 = VL0–1, 3 = VL0–3, 4 = VL0–7, 5 = VL0–14), 0 for another code.
func VLsOf(code uint8) int {
	if code < 1 || code > 5 {
		return 0
	}
	return [...]int{1, 2, 4, 8, 15}[code-1]
}

// String prints the class's name.
func (c Class) String() string {
	switch c {
	case ClassSubnLID:
		return "Subn"
	case ClassSubnDR:
		return "SubnDR"
	case ClassSA:
		return "SA"
	case ClassPerf:
		return "Perf"
	case ClassBM:
		return "BM"
	case ClassDM:
		return "DevMgt"
	case ClassCM:
		return "CM"
	case ClassSNMP:
		return "SNMP"
	case ClassDevAdm:
		return "DevAdm"
	case ClassBoot:
		return "BootMgt"
	case ClassBIS:
		return "BIS"
	case ClassCC:
		return "CC"
	}
	if c >= 0x09 && c <= 0x0F || c >= 0x30 && c <= 0x4F {
		return "Vendor" + hex(uint64(c), 2)[2:]
	}
	return "class " + hex(uint64(c), 2)
}

// IsSMP reports whether c is one of the two subnet management classes.
func (c Class) IsSMP() bool { return c == ClassSubnLID || c == ClassSubnDR }

// String prints the method's name.
func (m Method) String() string {
	switch m {
	case MethodGet:
		return "Get"
	case MethodSet:
		return "Set"
	case MethodSend:
		return "Send"
	case MethodTrap:
		return "Trap"
	case MethodReport:
		return "Report"
	case MethodTrapRepress:
		return "TrapRepress"
	case MethodGetTable:
		return "GetTable"
	case MethodGetTraceTable:
		return "GetTraceTable"
	case MethodGetMulti:
		return "GetMulti"
	case MethodDelete:
		return "Delete"
	case MethodGetResp:
		return "GetResp"
	case MethodReportResp:
		return "ReportResp"
	case MethodGetTableResp:
		return "GetTableResp"
	case MethodGetTraceTblResp:
		return "GetTraceTableResp"
	case MethodGetMultiResp:
		return "GetMultiResp"
	case MethodDeleteResp:
		return "DeleteResp"
	}
	return "method " + hex(uint64(m), 2)
}

// String says what the common part means; a class-specific part is printed as
// a number. See Text for the meaning within a class.
func (s Status) String() string { return s.Text(0) }

// Text says what the status means in class c.
func (s Status) Text(c Class) string {
	if c == ClassSubnDR {
		s &= 0x7FFF
	}
	if s == 0 {
		return "ok"
	}
	t := ""
	add := func(w string) {
		if t != "" {
			t += ", "
		}
		t += w
	}
	if s&StatusBusy != 0 {
		add("busy")
	}
	if s&StatusRedirect != 0 {
		add("redirect required")
	}
	switch s & 0x1C {
	case 0:
	case StatusBadVersion:
		add("class or base version not supported")
	case StatusBadMethod:
		add("method not supported")
	case StatusBadMethodAttr:
		add("method and attribute combination not supported")
	case StatusInvalidField:
		add("invalid attribute or modifier value")
	default:
		add("reserved code " + itoa(int(s>>2&7)))
	}
	if s&0xE0 != 0 {
		add("reserved bits " + hex(uint64(s&0xE0), 2))
	}
	if spec := s >> 8; spec != 0 {
		w := "class-specific code " + itoa(int(spec))
		if c == ClassSA && int(spec) < len(saStatus) {
			w = saStatus[spec]
		}
		add(w)
	}
	return t + " (" + hex(uint64(s), 4) + ")"
}

var saStatus = [...]string{
	1: "no resources", "request invalid", "no records", "too many records",
	"invalid GID", "insufficient components", "request denied", "priority suggested",
}

// AttrName is the name of an attribute of class c, or its number. Attribute
// ids mean different things in different classes.
func AttrName(c Class, a AttrID) string {
	n := ""
	switch c {
	case ClassSubnLID, ClassSubnDR:
		n = smpAttrs[a]
	case ClassSA:
		n = saAttrs[a]
	case ClassPerf:
		n = pmAttrs[a]
	case ClassCC:
		n = ccAttrs[a]
	}
	if n == "" {
		switch {
		case a == 1 && !c.IsSMP():
			return "ClassPortInfo"
		case a == 2:
			return "Notice"
		}
		return "attribute " + hex(uint64(a), 4)
	}
	return n
}

// String prints the number; AttrName knows the names.
func (a AttrID) String() string { return hex(uint64(a), 4) }

var smpAttrs = map[AttrID]string{
	0x02: "Notice", 0x10: "NodeDescription", 0x11: "NodeInfo", 0x12: "SwitchInfo", 0x14: "GUIDInfo",
	0x15: "PortInfo", 0x16: "P_KeyTable", 0x17: "SLtoVLMappingTable", 0x18: "VLArbitrationTable",
	0x19: "LinearForwardingTable", 0x1A: "RandomForwardingTable", 0x1B: "MulticastForwardingTable",
	0x1C: "LinkSpeedWidthPairsTable", 0x1D: "VendorSpecificMadsTable", 0x1E: "HierarchyInfo",
	0x20: "SMInfo", 0x30: "VendorDiag", 0x31: "LedInfo", 0x32: "CableInfo", 0x33: "PortInfoExtended",
	0x34: "SwitchPortStateTable", 0x50: "EnhancedQoSArbiterInfo", 0x51: "EnhancedPortVLArbiter",
	0x52: "EnhancedSLArbiter", 0xFF17: "GeneralInfo", 0xFF18: "ChassisInfo", 0xFF90: "ExtendedPortInfo",
	0xFF91: "ExtendedNodeInfo", 0xFF92: "ExtendedSwitchInfo", 0xFFB0: "VirtualizationInfo", 0xFFB1: "VPortInfo",
	0xFFB2: "VNodeInfo", 0xFFB3: "VPortState", 0xFFB4: "VNodeDescription", 0xFFB5: "VPortGUIDInfo",
	0xFFB6: "VPortPartitionTable", 0xFFD0: "RouterInfo",
}

var saAttrs = map[AttrID]string{
	0x01: "ClassPortInfo", 0x02: "Notice", 0x03: "InformInfo", 0x11: "NodeRecord", 0x12: "PortInfoRecord",
	0x13: "SLtoVLMappingTableRecord", 0x14: "SwitchInfoRecord", 0x15: "LinearForwardingTableRecord",
	0x16: "RandomForwardingTableRecord", 0x17: "MulticastForwardingTableRecord", 0x18: "SMInfoRecord",
	0x19: "LinkSpeedWidthPairsTableRecord", 0x20: "LinkRecord", 0x30: "GUIDInfoRecord",
	0x31: "ServiceRecord", 0x33: "P_KeyTableRecord", 0x35: "PathRecord", 0x36: "VLArbitrationTableRecord",
	0x38: "MCMemberRecord", 0x39: "TraceRecord", 0x3A: "MultiPathRecord", 0x3B: "ServiceAssociationRecord",
	0x3C: "HierarchyInfoRecord", 0x3D: "CableInfoRecord", 0x3E: "PortInfoExtendedRecord",
	0xF3: "InformInfoRecord", 0xFFB0: "VirtualizationInfoRecord", 0xFFB1: "VPortInfoRecord", 0xFFB2: "VNodeRecord",
	0xFFB5: "VPortGUIDInfoRecord", 0xFFB6: "VPortPartitionTableRecord",
	0xFFC9: "PathChangeRecord",
}

var pmAttrs = map[AttrID]string{
	0x01: "ClassPortInfo", 0x10: "PortSamplesControl", 0x11: "PortSamplesResult", 0x12: "PortCounters",
	0x15: "PortRcvErrorDetails", 0x16: "PortXmitDiscardDetails", 0x17: "PortOpRcvCounters",
	0x18: "PortFlowCtlCounters", 0x19: "PortVLOpPackets", 0x1A: "PortVLOpData",
	0x1B: "PortVLXmitFlowCtlUpdateErrors", 0x1C: "PortVLXmitWaitCounters", 0x1D: "PortCountersExtended",
	0x1E: "PortSamplesResultExtended", 0x1F: "PortExtendedSpeedsCounters", 0x30: "SwPortVLCongestion",
	0x31: "PortRcvConCtrl", 0x32: "PortSLRcvFECN", 0x33: "PortSLRcvBECN", 0x34: "PortXmitConCtrl",
	0x35: "PortVLXmitTimeCong", 0x36: "PortXmitDataSL", 0x37: "PortRcvDataSL",
	0x38: "PortXmitDataSLExt", 0x39: "PortRcvDataSLExt", 0xFFB0: "VPortCountersExtended",
}

var ccAttrs = map[AttrID]string{
	0x01: "ClassPortInfo", 0x02: "Notice", 0x11: "CongestionInfo", 0x12: "CongestionKeyInfo",
	0x13: "CongestionLog", 0x14: "SwitchCongestionSetting", 0x15: "SwitchPortCongestionSetting",
	0x16: "CACongestionSetting", 0x17: "CongestionControlTable", 0x18: "TimeStamp",
}
