package sa

import (
	"heddle/ib"
	"heddle/ib/smp"
)

// Sizes of the records of this file in bytes, padded.
const (
	NodeRecordLen       = 112
	PortInfoRecordLen   = 72
	SwitchInfoRecordLen = 24
	SMInfoRecordLen     = 32
	LinkRecordLen       = 8
)

// Component bits of NodeRecord.
const (
	NodeCompLID             CompMask = 1 << 0
	NodeCompBaseVersion     CompMask = 1 << 2
	NodeCompClassVersion    CompMask = 1 << 3
	NodeCompNodeType        CompMask = 1 << 4
	NodeCompNumPorts        CompMask = 1 << 5
	NodeCompSystemImageGUID CompMask = 1 << 6
	NodeCompNodeGUID        CompMask = 1 << 7
	NodeCompPortGUID        CompMask = 1 << 8
	NodeCompPartitionCap    CompMask = 1 << 9
	NodeCompDeviceID        CompMask = 1 << 10
	NodeCompRevision        CompMask = 1 << 11
	NodeCompLocalPortNum    CompMask = 1 << 12
	NodeCompVendorID        CompMask = 1 << 13
	NodeCompNodeDescription CompMask = 1 << 14
)

// NodeRecord is the record of that name, 108 bytes, one for each end port
// (IBA §15.2.5).
type NodeRecord struct {
	LID             ib.LID
	NodeInfo        smp.NodeInfo
	NodeDescription smp.NodeDescription
}

// Decode reads the record.
func (r *NodeRecord) Decode(b []byte) error {
	b, err := rec("NodeRecord", b, 108, NodeRecordLen)
	if err != nil {
		return err
	}
	r.LID = ib.LID(be.Uint16(b))
	_ = r.NodeInfo.DecodeTemplate(b[4:44])
	r.NodeDescription = smp.NodeDescription(b[44:108])
	return nil
}

// Put writes 112 bytes.
func (r *NodeRecord) Put(b []byte) {
	b = b[:NodeRecordLen]
	be.PutUint32(b, uint32(r.LID)<<16)
	r.NodeInfo.Put(b[4:])
	copy(b[44:108], r.NodeDescription[:])
	clear(b[108:])
}

// Component bits of PortInfoRecord.
const (
	PortInfoCompLID                          CompMask = 1 << 0
	PortInfoCompPortNum                      CompMask = 1 << 1
	PortInfoCompOptions                      CompMask = 1 << 2
	PortInfoCompMKey                         CompMask = 1 << 3
	PortInfoCompGidPrefix                    CompMask = 1 << 4
	PortInfoCompBaseLID                      CompMask = 1 << 5
	PortInfoCompMasterSMLID                  CompMask = 1 << 6
	PortInfoCompCapabilityMask               CompMask = 1 << 7
	PortInfoCompDiagCode                     CompMask = 1 << 8
	PortInfoCompMKeyLeasePeriod              CompMask = 1 << 9
	PortInfoCompLocalPortNum                 CompMask = 1 << 10
	PortInfoCompLinkWidthEnabled             CompMask = 1 << 11
	PortInfoCompLinkWidthSupported           CompMask = 1 << 12
	PortInfoCompLinkWidthActive              CompMask = 1 << 13
	PortInfoCompLinkSpeedSupported           CompMask = 1 << 14
	PortInfoCompPortState                    CompMask = 1 << 15
	PortInfoCompPortPhysicalState            CompMask = 1 << 16
	PortInfoCompLinkDownDefaultState         CompMask = 1 << 17
	PortInfoCompMKeyProtectBits              CompMask = 1 << 18
	PortInfoCompLMC                          CompMask = 1 << 20
	PortInfoCompLinkSpeedActive              CompMask = 1 << 21
	PortInfoCompLinkSpeedEnabled             CompMask = 1 << 22
	PortInfoCompNeighborMTU                  CompMask = 1 << 23
	PortInfoCompMasterSMSL                   CompMask = 1 << 24
	PortInfoCompVLCap                        CompMask = 1 << 25
	PortInfoCompInitType                     CompMask = 1 << 26
	PortInfoCompVLHighLimit                  CompMask = 1 << 27
	PortInfoCompVLArbitrationHighCap         CompMask = 1 << 28
	PortInfoCompVLArbitrationLowCap          CompMask = 1 << 29
	PortInfoCompInitTypeReply                CompMask = 1 << 30
	PortInfoCompMTUCap                       CompMask = 1 << 31
	PortInfoCompVLStallCount                 CompMask = 1 << 32
	PortInfoCompHOQLife                      CompMask = 1 << 33
	PortInfoCompOperationalVLs               CompMask = 1 << 34
	PortInfoCompPartitionEnforcementInbound  CompMask = 1 << 35
	PortInfoCompPartitionEnforcementOutbound CompMask = 1 << 36
	PortInfoCompFilterRawInbound             CompMask = 1 << 37
	PortInfoCompFilterRawOutbound            CompMask = 1 << 38
	PortInfoCompMKeyViolations               CompMask = 1 << 39
	PortInfoCompPKeyViolations               CompMask = 1 << 40
	PortInfoCompQKeyViolations               CompMask = 1 << 41
	PortInfoCompGUIDCap                      CompMask = 1 << 42
	PortInfoCompClientReregister             CompMask = 1 << 43
	PortInfoCompMulticastPKeyTrapSuppression CompMask = 1 << 44
	PortInfoCompSubnetTimeOut                CompMask = 1 << 45
	PortInfoCompRespTimeValue                CompMask = 1 << 47
	PortInfoCompLocalPhyErrors               CompMask = 1 << 48
	PortInfoCompOverrunErrors                CompMask = 1 << 49
	PortInfoCompMaxCreditHint                CompMask = 1 << 50
	PortInfoCompLinkRoundTripLatency         CompMask = 1 << 52
	PortInfoCompCapabilityMask2              CompMask = 1 << 53
	PortInfoCompLinkSpeedExtActive           CompMask = 1 << 54
	PortInfoCompLinkSpeedExtSupported        CompMask = 1 << 55
	PortInfoCompLinkSpeedExtEnabled          CompMask = 1 << 57
)

// PortInfoRawOption in PortInfoRecord.Options asks for PortInfo as the port
// has it, without legacy speeds faked for old readers.
const PortInfoRawOption uint8 = 0x80

// PortInfoRecord is the record of that name, 68 bytes (IBA §15.2.5).
type PortInfoRecord struct {
	LID      ib.LID
	PortNum  uint8
	Options  uint8
	PortInfo smp.PortInfo
}

// Decode reads the record.
func (r *PortInfoRecord) Decode(b []byte) error {
	b, err := rec("PortInfoRecord", b, 68, PortInfoRecordLen)
	if err != nil {
		return err
	}
	r.LID, r.PortNum, r.Options = ib.LID(be.Uint16(b)), b[2], b[3]
	return r.PortInfo.Decode(b[4:68])
}

// Put writes 72 bytes.
func (r *PortInfoRecord) Put(b []byte) {
	b = b[:PortInfoRecordLen]
	be.PutUint16(b, uint16(r.LID))
	b[2], b[3] = r.PortNum, r.Options
	r.PortInfo.Put(b[4:])
	clear(b[68:])
}

// Component bits of SwitchInfoRecord.
const SwitchInfoCompLID CompMask = 1 << 0

// SwitchInfoRecord is the record of that name, 24 bytes (IBA §15.2.5).
type SwitchInfoRecord struct {
	LID        ib.LID
	SwitchInfo smp.SwitchInfo
}

// Decode reads the record.
func (r *SwitchInfoRecord) Decode(b []byte) error {
	b, err := rec("SwitchInfoRecord", b, SwitchInfoRecordLen, SwitchInfoRecordLen)
	if err != nil {
		return err
	}
	r.LID = ib.LID(be.Uint16(b))
	return r.SwitchInfo.Decode(b[4:24])
}

// Put writes 24 bytes.
func (r *SwitchInfoRecord) Put(b []byte) {
	b = b[:SwitchInfoRecordLen]
	be.PutUint32(b, uint32(r.LID)<<16)
	r.SwitchInfo.Put(b[4:])
}

// Component bits of SMInfoRecord.
const (
	SMInfoCompLID      CompMask = 1 << 0
	SMInfoCompGUID     CompMask = 1 << 2
	SMInfoCompSMKey    CompMask = 1 << 3
	SMInfoCompActCount CompMask = 1 << 4
	SMInfoCompPriority CompMask = 1 << 5
	SMInfoCompSMState  CompMask = 1 << 6
)

// SMInfoRecord is the record of that name, 25 bytes (IBA §15.2.5).
type SMInfoRecord struct {
	LID    ib.LID
	SMInfo smp.SMInfo
}

// Decode reads the record.
func (r *SMInfoRecord) Decode(b []byte) error {
	b, err := rec("SMInfoRecord", b, 25, SMInfoRecordLen)
	if err != nil {
		return err
	}
	r.LID = ib.LID(be.Uint16(b))
	return r.SMInfo.Decode(b[4:25])
}

// Put writes 32 bytes.
func (r *SMInfoRecord) Put(b []byte) {
	b = b[:SMInfoRecordLen]
	be.PutUint32(b, uint32(r.LID)<<16)
	r.SMInfo.Put(b[4:])
	clear(b[25:])
}

// Component bits of LinkRecord.
const (
	LinkCompFromLID  CompMask = 1 << 0
	LinkCompFromPort CompMask = 1 << 1
	LinkCompToPort   CompMask = 1 << 2
	LinkCompToLID    CompMask = 1 << 3
)

// LinkRecord is one direction of a cable, 6 bytes (IBA §15.2.5).
type LinkRecord struct {
	FromLID  ib.LID
	FromPort uint8
	ToPort   uint8
	ToLID    ib.LID
}

// Decode reads the record.
func (r *LinkRecord) Decode(b []byte) error {
	b, err := rec("LinkRecord", b, 6, LinkRecordLen)
	if err != nil {
		return err
	}
	*r = LinkRecord{FromLID: ib.LID(be.Uint16(b)), FromPort: b[2], ToPort: b[3], ToLID: ib.LID(be.Uint16(b[4:]))}
	return nil
}

// Put writes 8 bytes.
func (r *LinkRecord) Put(b []byte) {
	b = b[:LinkRecordLen]
	be.PutUint16(b, uint16(r.FromLID))
	b[2], b[3] = r.FromPort, r.ToPort
	be.PutUint32(b[4:], uint32(r.ToLID)<<16)
}
