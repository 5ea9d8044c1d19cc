package smp

import (
	"testing"

	"heddle/internal/wiretest"
)

// TestLibibmad compares every field with what another decoder read from the
// same bytes.
func TestLibibmad(t *testing.T) {
	portInfo := map[string]string{
		"Mkey": "MKey", "Lid": "LID", "SMLid": "MasterSMLID", "CapMask": "CapabilityMask",
		"MkeyLeasePeriod": "MKeyLeasePeriod", "LocalPort": "LocalPortNum", "LinkState": "PortState",
		"PhysLinkState": "PortPhysicalState", "LinkDownDefState": "LinkDownDefaultState",
		"ProtectBits": "MKeyProtectBits", "SMSL": "MasterSMSL", "VLArbHighCap": "VLArbitrationHighCap",
		"VLArbLowCap": "VLArbitrationLowCap", "InitReply": "InitTypeReply", "MtuCap": "MTUCap", "HoqLife": "HOQLife",
		"OperVLs": "OperationalVLs", "PartEnforceInb": "PartitionEnforcementInbound",
		"PartEnforceOutb": "PartitionEnforcementOutbound", "FilterRawInb": "FilterRawInbound",
		"FilterRawOutb": "FilterRawOutbound", "MkeyViolations": "MKeyViolations", "PkeyViolations": "PKeyViolations",
		"QkeyViolations": "QKeyViolations", "GuidCap": "GUIDCap",
		"McastPkeyTrapSuppressionEnabled": "MulticastPKeyTrapSuppressionEnabled", "SubnetTimeout": "SubnetTimeOut",
		"RespTimeVal": "RespTimeValue", "LocalPhysErr": "LocalPhyErrors", "OverrunErr": "OverrunErrors",
		"RoundTrip": "LinkRoundTripLatency",
	}
	nodeInfo := map[string]string{
		"BaseVers": "BaseVersion", "ClassVers": "ClassVersion", "SystemGuid": "SystemImageGUID", "Guid": "NodeGUID",
		"PortGuid": "PortGUID", "PartCap": "PartitionCap", "DevId": "DeviceID", "LocalPort": "LocalPortNum",
		"VendorId": "VendorID",
	}
	switchInfo := map[string]string{
		"LinearFdbCap": "LinearFDBCap", "RandomFdbCap": "RandomFDBCap", "McastFdbCap": "MulticastFDBCap",
		"LinearFdbTop": "LinearFDBTop", "DefPort": "DefaultPort", "DefMcastPrimPort": "DefaultMulticastPrimaryPort",
		"DefMcastNotPrimPort": "DefaultMulticastNotPrimaryPort", "LifeTime": "LifeTimeValue",
		"StateChange": "PortStateChange", "OptSLtoVLMapping": "OptimizedSLtoVLMappingProgramming",
		"LidsPerPort": "LIDsPerPort", "PartEnforceCap": "PartitionEnforcementCap",
		"InboundPartEnf": "InboundEnforcementCap", "OutboundPartEnf": "OutboundEnforcementCap",
		"FilterRawInbound": "FilterRawInboundCap", "FilterRawOutbound": "FilterRawOutboundCap",
	}
	notice := map[string]string{
		"NoticeIsGeneric": "IsGeneric", "NoticeType": "Type", "NoticeProducerType": "Producer",
		"NoticeTrapNumber": "TrapNumber", "NoticeIssuerLID": "IssuerLID", "NoticeToggle": "NoticeToggle",
		"NoticeCount": "NoticeCount", "NoticeDataLID": "",
	}
	smInfo := map[string]string{
		"SmInfoGuid": "GUID", "SmInfoKey": "SMKey", "SmActivity": "ActCount", "SmPriority": "Priority", "SmState": "SMState",
	}
	guids := map[string]string{
		"GUID0": "[0]", "GUID1": "[1]", "GUID2": "[2]", "GUID3": "[3]", "GUID4": "[4]",
		"GUID5": "[5]", "GUID6": "[6]", "GUID7": "[7]",
	}
	entries := wiretest.Read(t, "testdata/libibmad.txt")
	if len(entries) == 0 {
		t.Fatal("nothing to compare")
	}
	for i := range entries {
		e := &entries[i]
		var v wiretest.Codec
		var names map[string]string
		switch e.Name {
		case "PortInfo":
			v, names = new(PortInfo), portInfo
		case "NodeInfo":
			v, names = new(NodeInfo), nodeInfo
		case "SwitchInfo":
			v, names = new(SwitchInfo), switchInfo
		case "Notice", "Trap144":
			v, names = new(Notice), notice
		case "SMInfo":
			v, names = new(SMInfo), smInfo
		case "GUIDInfo":
			v, names = new(GUIDInfo), guids
		default:
			t.Fatalf("line %d: what is %q?", e.Line, e.Name)
		}
		if err := v.Decode(e.Bytes); err != nil {
			t.Fatalf("line %d: %v", e.Line, err)
		}
		if e.Name == "Trap144" {
			var d DetailChange
			d.Get(&v.(*Notice).DataDetails)
			wiretest.Foreign(t, e, &d, map[string]string{
				"NoticeDataTrap144LID": "LID", "NoticeDataTrap144CapMask": "CapabilityMask",
			})
			continue
		}
		if e.Name == "Notice" { // the LID of trap 128
			var d DetailLID
			d.Get(&v.(*Notice).DataDetails)
			wiretest.Foreign(t, &wiretest.Entry{Name: e.Name, Line: e.Line, Fields: e.Fields[len(e.Fields)-1:]},
				&d, map[string]string{"NoticeDataLID": "LID"})
		}
		wiretest.Foreign(t, e, v, names)
	}
}
