package sa

import (
	"heddle/ib"
	"heddle/ib/smp"
)

// Sizes of the records of this file in bytes.
const (
	SLtoVLRecordLen    = 16
	VLArbRecordLen     = 72
	PKeyTableRecordLen = 72
	LFTRecordLen       = 72
	MFTRecordLen       = 72
	GUIDInfoRecordLen  = 72
	TraceRecordLen     = 48
)

// Component bits of SLtoVLMappingTableRecord.
const (
	SLtoVLCompLID        CompMask = 1 << 0
	SLtoVLCompInputPort  CompMask = 1 << 1
	SLtoVLCompOutputPort CompMask = 1 << 2
)

// SLtoVLRecord is SLtoVLMappingTableRecord, 16 bytes (IBA §15.2.5).
type SLtoVLRecord struct {
	LID                   ib.LID
	InputPort, OutputPort uint8
	SLtoVL                smp.SLtoVL
}

// Decode reads the record.
func (r *SLtoVLRecord) Decode(b []byte) error {
	b, err := rec("SLtoVLMappingTableRecord", b, SLtoVLRecordLen, SLtoVLRecordLen)
	if err != nil {
		return err
	}
	r.LID, r.InputPort, r.OutputPort = ib.LID(be.Uint16(b)), b[2], b[3]
	return r.SLtoVL.Decode(b[8:16])
}

// Put writes the 16 bytes.
func (r *SLtoVLRecord) Put(b []byte) {
	b = b[:SLtoVLRecordLen]
	be.PutUint64(b, uint64(r.LID)<<48|uint64(r.InputPort)<<40|uint64(r.OutputPort)<<32)
	r.SLtoVL.Put(b[8:])
}

// Component bits of VLArbitrationTableRecord.
const (
	VLArbCompLID        CompMask = 1 << 0
	VLArbCompOutputPort CompMask = 1 << 1
	VLArbCompBlock      CompMask = 1 << 2
)

// VLArbRecord is VLArbitrationTableRecord, 72 bytes (IBA §15.2.5). Block is
// the part: 1 and 2 low priority, 3 and 4 high.
type VLArbRecord struct {
	LID        ib.LID
	OutputPort uint8
	Block      uint8
	VLArb      smp.VLArb
}

// Decode reads the record.
func (r *VLArbRecord) Decode(b []byte) error {
	b, err := rec("VLArbitrationTableRecord", b, VLArbRecordLen, VLArbRecordLen)
	if err != nil {
		return err
	}
	r.LID, r.OutputPort, r.Block = ib.LID(be.Uint16(b)), b[2], b[3]
	return r.VLArb.Decode(b[8:72])
}

// Put writes the 72 bytes.
func (r *VLArbRecord) Put(b []byte) {
	b = b[:VLArbRecordLen]
	be.PutUint64(b, uint64(r.LID)<<48|uint64(r.OutputPort)<<40|uint64(r.Block)<<32)
	r.VLArb.Put(b[8:])
}

// Component bits of P_KeyTableRecord.
const (
	PKeyCompLID     CompMask = 1 << 0
	PKeyCompBlock   CompMask = 1 << 1
	PKeyCompPortNum CompMask = 1 << 2
)

// PKeyTableRecord is P_KeyTableRecord, 72 bytes (IBA §15.2.5).
type PKeyTableRecord struct {
	LID       ib.LID
	Block     uint16
	PortNum   uint8
	PKeyTable smp.PKeyTable
}

// Decode reads the record.
func (r *PKeyTableRecord) Decode(b []byte) error {
	b, err := rec("P_KeyTableRecord", b, PKeyTableRecordLen, PKeyTableRecordLen)
	if err != nil {
		return err
	}
	r.LID, r.Block, r.PortNum = ib.LID(be.Uint16(b)), be.Uint16(b[2:]), b[4]
	return r.PKeyTable.Decode(b[8:72])
}

// Put writes the 72 bytes.
func (r *PKeyTableRecord) Put(b []byte) {
	b = b[:PKeyTableRecordLen]
	be.PutUint64(b, uint64(r.LID)<<48|uint64(r.Block)<<32|uint64(r.PortNum)<<24)
	r.PKeyTable.Put(b[8:])
}

// Component bits of LinearForwardingTableRecord and of
// RandomForwardingTableRecord.
const (
	LFTCompLID   CompMask = 1 << 0
	LFTCompBlock CompMask = 1 << 1
)

// LFTRecord is LinearForwardingTableRecord, 72 bytes (IBA §15.2.5).
type LFTRecord struct {
	LID   ib.LID
	Block uint16
	LFT   smp.LFT
}

// Decode reads the record.
func (r *LFTRecord) Decode(b []byte) error {
	b, err := rec("LinearForwardingTableRecord", b, LFTRecordLen, LFTRecordLen)
	if err != nil {
		return err
	}
	r.LID, r.Block = ib.LID(be.Uint16(b)), be.Uint16(b[2:])
	return r.LFT.Decode(b[8:72])
}

// Put writes the 72 bytes.
func (r *LFTRecord) Put(b []byte) {
	b = b[:LFTRecordLen]
	be.PutUint64(b, uint64(r.LID)<<48|uint64(r.Block)<<32)
	r.LFT.Put(b[8:])
}

// Component bits of MulticastForwardingTableRecord.
const (
	MFTCompLID      CompMask = 1 << 0
	MFTCompPosition CompMask = 1 << 1
	MFTCompBlock    CompMask = 1 << 3
)

// MFTRecord is MulticastForwardingTableRecord, 72 bytes (IBA §15.2.5).
type MFTRecord struct {
	LID      ib.LID
	Position uint8  // 4 bits
	Block    uint16 // 9 bits
	MFT      smp.MFT
}

// Decode reads the record.
func (r *MFTRecord) Decode(b []byte) error {
	b, err := rec("MulticastForwardingTableRecord", b, MFTRecordLen, MFTRecordLen)
	if err != nil {
		return err
	}
	r.LID, r.Position, r.Block = ib.LID(be.Uint16(b)), b[2]>>4, be.Uint16(b[2:])&0x1FF
	return r.MFT.Decode(b[8:72])
}

// Put writes the 72 bytes.
func (r *MFTRecord) Put(b []byte) {
	b = b[:MFTRecordLen]
	be.PutUint64(b, uint64(r.LID)<<48|uint64(r.Position&0xF)<<44|uint64(r.Block&0x1FF)<<32)
	r.MFT.Put(b[8:])
}

// Component bits of GUIDInfoRecord; GUID i of the block has bit 4 + i.
const (
	GUIDInfoCompLID   CompMask = 1 << 0
	GUIDInfoCompBlock CompMask = 1 << 1
	GUIDInfoCompGUID0 CompMask = 1 << 4
)

// GUIDInfoRecord is the record of that name, 72 bytes (IBA §15.2.5).
type GUIDInfoRecord struct {
	LID      ib.LID
	Block    uint8
	GUIDInfo smp.GUIDInfo
}

// Decode reads the record.
func (r *GUIDInfoRecord) Decode(b []byte) error {
	b, err := rec("GUIDInfoRecord", b, GUIDInfoRecordLen, GUIDInfoRecordLen)
	if err != nil {
		return err
	}
	r.LID, r.Block = ib.LID(be.Uint16(b)), b[2]
	return r.GUIDInfo.Decode(b[8:72])
}

// Put writes the 72 bytes.
func (r *GUIDInfoRecord) Put(b []byte) {
	b = b[:GUIDInfoRecordLen]
	be.PutUint64(b, uint64(r.LID)<<48|uint64(r.Block)<<40)
	r.GUIDInfo.Put(b[8:])
}

// TraceRecord is one node of a traced path, 46 bytes (IBA §15.2.5; the
// layout is that of a public implementation).
type TraceRecord struct {
	GIDPrefix    ib.SubnetPrefix
	IDGeneration uint16
	NodeType     ib.NodeType
	NodeID       uint64
	ChassisID    uint64
	EntryPortID  uint64
	ExitPortID   uint64
	EntryPort    uint8
	ExitPort     uint8
}

// Decode reads the record.
func (r *TraceRecord) Decode(b []byte) error {
	b, err := rec("TraceRecord", b, 46, TraceRecordLen)
	if err != nil {
		return err
	}
	*r = TraceRecord{
		GIDPrefix: ib.SubnetPrefix(be.Uint64(b)), IDGeneration: be.Uint16(b[8:]), NodeType: ib.NodeType(b[11]),
		NodeID: be.Uint64(b[12:]), ChassisID: be.Uint64(b[20:]), EntryPortID: be.Uint64(b[28:]),
		ExitPortID: be.Uint64(b[36:]), EntryPort: b[44], ExitPort: b[45],
	}
	return nil
}

// Put writes 48 bytes.
func (r *TraceRecord) Put(b []byte) {
	b = b[:TraceRecordLen]
	be.PutUint64(b, uint64(r.GIDPrefix))
	be.PutUint16(b[8:], r.IDGeneration)
	b[10], b[11] = 0, byte(r.NodeType)
	be.PutUint64(b[12:], r.NodeID)
	be.PutUint64(b[20:], r.ChassisID)
	be.PutUint64(b[28:], r.EntryPortID)
	be.PutUint64(b[36:], r.ExitPortID)
	be.PutUint32(b[44:], uint32(r.EntryPort)<<24|uint32(r.ExitPort)<<16)
}
