package sa

import (
	"heddle/ib"
	"heddle/ib/smp"
)

// WellKnownGUID with the subnet prefix is the GID under which virtual ports,
// which must use a GRH, reach the SA wherever it is.
const WellKnownGUID ib.GUID = 0x0200000000000002

// Sizes of the records of this file in bytes.
const (
	VirtualizationInfoRecordLen  = 72
	VPortInfoRecordLen           = 72
	VNodeRecordLen               = 136
	VPortGUIDInfoRecordLen       = 72
	VPortPartitionTableRecordLen = 72
)

// Component bits of the records of virtualization. A query with any other bit
// is invalid. (Proposed, as is all of the layout of these records: the IBTA's
// public text names them and no more.)
const (
	VPortCompLID        CompMask = 1 << 0
	VPortCompVPortIndex CompMask = 1 << 1
	VPortCompBlockNum   CompMask = 1 << 2
	VPortInfoCompGUID   CompMask = 1 << 3 // VPortInfoRecord: PortGUID
	VNodeCompGUID       CompMask = 1 << 3 // VNodeRecord: VNodeGUID
)

// VPortRID is the key of a record of virtualization, its first 8 bytes.
type VPortRID struct {
	LID        ib.LID // base LID of the physical port
	VPortIndex uint16
	BlockNum   uint16 // 0 where the attribute has no blocks
}

const vportRIDLen = 8

func (r *VPortRID) get(b []byte) {
	*r = VPortRID{LID: ib.LID(be.Uint16(b)), VPortIndex: be.Uint16(b[2:]), BlockNum: be.Uint16(b[4:])}
}

func (r *VPortRID) put(b []byte) {
	be.PutUint64(b, uint64(r.LID)<<48|uint64(r.VPortIndex)<<32|uint64(r.BlockNum)<<16)
}

// VirtualizationInfoRecord is the record of a physical port with
// virtualization, 72 bytes; VPortIndex is 0.
type VirtualizationInfoRecord struct {
	VPortRID
	VirtualizationInfo smp.VirtualizationInfo
}

// Decode reads the record.
func (r *VirtualizationInfoRecord) Decode(b []byte) error {
	b, err := rec("VirtualizationInfoRecord", b, VirtualizationInfoRecordLen, VirtualizationInfoRecordLen)
	if err != nil {
		return err
	}
	r.VPortRID.get(b)
	return r.VirtualizationInfo.Decode(b[vportRIDLen:])
}

// Put writes the 72 bytes.
func (r *VirtualizationInfoRecord) Put(b []byte) {
	b = b[:VirtualizationInfoRecordLen]
	r.VPortRID.put(b)
	r.VirtualizationInfo.Put(b[vportRIDLen:])
}

// VPortInfoRecord is the record of that name, 72 bytes, one for each VPort.
type VPortInfoRecord struct {
	VPortRID
	VPortInfo smp.VPortInfo
}

// Decode reads the record.
func (r *VPortInfoRecord) Decode(b []byte) error {
	b, err := rec("VPortInfoRecord", b, VPortInfoRecordLen, VPortInfoRecordLen)
	if err != nil {
		return err
	}
	r.VPortRID.get(b)
	return r.VPortInfo.Decode(b[vportRIDLen:])
}

// Put writes the 72 bytes.
func (r *VPortInfoRecord) Put(b []byte) {
	b = b[:VPortInfoRecordLen]
	r.VPortRID.put(b)
	r.VPortInfo.Put(b[vportRIDLen:])
}

// VNodeRecord is the record of that name, 136 bytes, one for each VPort.
type VNodeRecord struct {
	VPortRID
	VNodeInfo        smp.VNodeInfo
	VNodeDescription smp.VNodeDescription
}

// Decode reads the record.
func (r *VNodeRecord) Decode(b []byte) error {
	b, err := rec("VNodeRecord", b, VNodeRecordLen, VNodeRecordLen)
	if err != nil {
		return err
	}
	r.VPortRID.get(b)
	r.VNodeDescription = smp.VNodeDescription(b[72:136])
	return r.VNodeInfo.Decode(b[vportRIDLen:72])
}

// Put writes the 136 bytes.
func (r *VNodeRecord) Put(b []byte) {
	b = b[:VNodeRecordLen]
	r.VPortRID.put(b)
	r.VNodeInfo.Put(b[vportRIDLen:])
	r.VNodeDescription.Put(b[72:])
}

// VPortGUIDInfoRecord is the record of that name, 72 bytes.
type VPortGUIDInfoRecord struct {
	VPortRID
	VPortGUIDInfo smp.VPortGUIDInfo
}

// Decode reads the record.
func (r *VPortGUIDInfoRecord) Decode(b []byte) error {
	b, err := rec("VPortGUIDInfoRecord", b, VPortGUIDInfoRecordLen, VPortGUIDInfoRecordLen)
	if err != nil {
		return err
	}
	r.VPortRID.get(b)
	return r.VPortGUIDInfo.Decode(b[vportRIDLen:])
}

// Put writes the 72 bytes.
func (r *VPortGUIDInfoRecord) Put(b []byte) {
	b = b[:VPortGUIDInfoRecordLen]
	r.VPortRID.put(b)
	r.VPortGUIDInfo.Put(b[vportRIDLen:])
}

// VPortPartitionTableRecord is the record of that name, 72 bytes.
type VPortPartitionTableRecord struct {
	VPortRID
	VPortPartitionTable smp.VPortPartitionTable
}

// Decode reads the record.
func (r *VPortPartitionTableRecord) Decode(b []byte) error {
	b, err := rec("VPortPartitionTableRecord", b, VPortPartitionTableRecordLen, VPortPartitionTableRecordLen)
	if err != nil {
		return err
	}
	r.VPortRID.get(b)
	return r.VPortPartitionTable.Decode(b[vportRIDLen:])
}

// Put writes the 72 bytes.
func (r *VPortPartitionTableRecord) Put(b []byte) {
	b = b[:VPortPartitionTableRecordLen]
	r.VPortRID.put(b)
	r.VPortPartitionTable.Put(b[vportRIDLen:])
}
