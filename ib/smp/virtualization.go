package smp

import (
	"encoding/binary"

	"heddle/ib"
)

// The attributes of InfiniBand virtualization: virtual ports (VPorts) that share one physical
// port of a channel adapter. They are asked of the physical port, with its M_Key. The text of
// the IBTA's annex is not public; ids and layouts are those of shipping devices, and layouts
// without a public source are marked "proposed": they are defined here and in attrmod.go only.

// Sizes of the attributes of this file in bytes.
const (
	VirtualizationInfoLen = 64
	VPortInfoLen          = 64
	VNodeInfoLen          = 64
	VPortStateLen         = 64
)

// VirtualizationRevision is the only revision of VirtualizationInfo that is known: do not
// manage ports with another revision.
const VirtualizationRevision = 0

// IsVirtualizationSupported reports whether the port, which must be one of a
// channel adapter, has the attributes of this file.
func (p *PortInfo) IsVirtualizationSupported() bool {
	return p.CapabilityMask.Has(ib.CapIsCapabilityMask2Supported) && p.CapabilityMask2.Has(ib.Cap2IsVirtualizationSupported)
}

// VirtCapIsVSwitch is a bit of VirtualizationInfo.CapabilityMask: the adapter contains a
// switch. Every VPort has a LID of its own, and a Set of VPortInfo writes PortGUID too (0: the
// one the adapter was made with), so that one SMP sets or unsets the addresses of a virtual
// function. Proposed: it stands for the SMP to the hypervisor of Tasoulas et al. (2015), who
// give no format.
const VirtCapIsVSwitch uint8 = 1 << 0

// VirtualizationInfo is the attribute of that name, 64 bytes: what a physical
// port can do, and the switch that turns its VPorts on. Before a Set of
// something that was read, call ClearForSet.
type VirtualizationInfo struct {
	VPortCap               uint16 // highest VPort index the port can ever have; read only
	VPortIndexTop          uint16 // highest VPort index in use now; read only
	VirtualizationEnable   bool   // without it every VPort but 0 is down
	VClientReregister      bool   // one-shot: all VPorts are to register again
	VPortStateChange       bool   // some VPort changed state; a Set of true clears it (proposed)
	VirtualizationRevision uint8  // read only
	CapabilityMask         uint8  // read only; no bits are known but VirtCapIsVSwitch
}

// Decode reads the attribute.
func (v *VirtualizationInfo) Decode(b []byte) error {
	if len(b) != VirtualizationInfoLen {
		return check("VirtualizationInfo", b, VirtualizationInfoLen)
	}
	be := binary.BigEndian
	*v = VirtualizationInfo{
		VPortCap: be.Uint16(b[0:]), VPortIndexTop: be.Uint16(b[2:]), VirtualizationEnable: bit(b[4], 0x80),
		VClientReregister: bit(b[4], 0x40), VPortStateChange: bit(b[4], 0x20),
		VirtualizationRevision: b[6], CapabilityMask: b[7],
	}
	return nil
}

// Put writes the 64 bytes.
func (v *VirtualizationInfo) Put(b []byte) {
	b = b[:VirtualizationInfoLen]
	be := binary.BigEndian
	be.PutUint16(b[0:], v.VPortCap)
	be.PutUint16(b[2:], v.VPortIndexTop)
	b[4] = flag(v.VirtualizationEnable, 0x80) | flag(v.VClientReregister, 0x40) | flag(v.VPortStateChange, 0x20)
	b[5], b[6], b[7] = 0, v.VirtualizationRevision, v.CapabilityMask
	clear(b[8:])
}

// ClearForSet makes a VirtualizationInfo that was read fit to be the base of a
// Set: it neither clears VPortStateChange nor asks for registration.
func (v *VirtualizationInfo) ClearForSet() { v.VPortStateChange, v.VClientReregister = false, false }

// VPortInfo is the attribute of that name, 64 bytes: a VPort. A Set takes
// VPortState, ClientReregister, VPortLID, the violation counters and SLMask,
// and ignores the rest (but see VirtCapIsVSwitch). Before a Set of something that was read, call
// ClearForSet.
type VPortInfo struct {
	VPortState       ib.PortState // 0 no change
	ClientReregister bool         // one-shot: this VPort is to register again
	LIDRequired      bool         // the VPort wants a LID of its own; read only
	GUIDCap          uint8        // GUID entries; read only
	CapabilityMask   ib.VPortCapMask
	PKeyViolations   uint16 // writing 0 clears
	QKeyViolations   uint16 // writing 0 clears
	VPortLID         ib.LID // with LIDRequired: the VPort's own, without LMC
	LIDByVPortIndex  uint16 // without LIDRequired: the VPort whose LID it uses; 0 = the physical port's base LID
	PortGUID         ib.GUID
	PortProfile      uint64 // opaque; read only
	SLMask           uint16 // bit n: may use SL n, 0 for all (proposed place)
	LocalPortNum     uint8  // in its VNode, from 1; 0: not given (proposed place)
}

// Decode reads the attribute.
func (p *VPortInfo) Decode(b []byte) error {
	if len(b) != VPortInfoLen {
		return check("VPortInfo", b, VPortInfoLen)
	}
	b = b[:VPortInfoLen]
	be := binary.BigEndian
	*p = VPortInfo{
		VPortState: ib.PortState(b[0] >> 4), ClientReregister: bit(b[0], 0x08), LIDRequired: bit(b[0], 0x04), GUIDCap: b[1],
		CapabilityMask: ib.VPortCapMask(be.Uint16(b[2:])), PKeyViolations: be.Uint16(b[4:]), QKeyViolations: be.Uint16(b[6:]),
		VPortLID: ib.LID(be.Uint16(b[8:])), LIDByVPortIndex: be.Uint16(b[10:]), PortGUID: ib.GUID(be.Uint64(b[12:])),
		PortProfile: be.Uint64(b[20:]), SLMask: be.Uint16(b[28:]), LocalPortNum: b[30],
	}
	return nil
}

// Put writes the 64 bytes. Fields are cut to their width.
func (p *VPortInfo) Put(b []byte) {
	b = b[:VPortInfoLen]
	be := binary.BigEndian
	b[0] = byte(p.VPortState)<<4 | flag(p.ClientReregister, 0x08) | flag(p.LIDRequired, 0x04)
	b[1] = p.GUIDCap
	be.PutUint16(b[2:], uint16(p.CapabilityMask))
	be.PutUint16(b[4:], p.PKeyViolations)
	be.PutUint16(b[6:], p.QKeyViolations)
	be.PutUint16(b[8:], uint16(p.VPortLID))
	be.PutUint16(b[10:], p.LIDByVPortIndex)
	be.PutUint64(b[12:], uint64(p.PortGUID))
	be.PutUint64(b[20:], p.PortProfile)
	be.PutUint16(b[28:], p.SLMask)
	b[30] = p.LocalPortNum
	clear(b[31:])
}

// ClearForSet makes a VPortInfo that was read fit to be the base of a Set: the state does not
// change and the one-shot ClientReregister is off. The counters stay: writing back the values
// that were read clears no counter.
func (p *VPortInfo) ClearForSet() { p.VPortState, p.ClientReregister = ib.StateNoChange, false }

// VNodeInfo is the attribute of that name, 64 bytes, read only: the virtual
// channel adapter that a VPort belongs to. An adapter with several VPorts shows
// the same VNodeGUID at each, even behind different physical ports.
type VNodeInfo struct {
	PartitionCap    uint16 // P_Keys of the VPort
	LocalPortNum    uint8  // of this VPort in its VNode, from 1
	NumPorts        uint8  // VPorts of the VNode
	VNodeGUID       ib.GUID
	SystemImageGUID ib.GUID // proposed place
	PortGUID        ib.GUID // as in VPortInfo; proposed place
}

// Decode reads the attribute.
func (n *VNodeInfo) Decode(b []byte) error {
	if len(b) != VNodeInfoLen {
		return check("VNodeInfo", b, VNodeInfoLen)
	}
	be := binary.BigEndian
	*n = VNodeInfo{
		PartitionCap: be.Uint16(b[0:]), LocalPortNum: b[2], NumPorts: b[3], VNodeGUID: ib.GUID(be.Uint64(b[4:])),
		SystemImageGUID: ib.GUID(be.Uint64(b[12:])), PortGUID: ib.GUID(be.Uint64(b[20:])),
	}
	return nil
}

// Put writes the 64 bytes.
func (n *VNodeInfo) Put(b []byte) {
	b = b[:VNodeInfoLen]
	be := binary.BigEndian
	be.PutUint16(b[0:], n.PartitionCap)
	b[2], b[3] = n.LocalPortNum, n.NumPorts
	be.PutUint64(b[4:], uint64(n.VNodeGUID))
	be.PutUint64(b[12:], uint64(n.SystemImageGUID))
	be.PutUint64(b[20:], uint64(n.PortGUID))
	clear(b[28:])
}

// VPortState is the attribute of that name, 64 bytes, read only: the states of
// the VPorts 128×block to 128×block+127, 0 for those that do not exist.
type VPortState [VPortsPerBlock]ib.PortState

// Decode reads the attribute: even VPorts in the high nibbles.
func (t *VPortState) Decode(b []byte) error {
	if len(b) != VPortStateLen {
		return check("VPortState", b, VPortStateLen)
	}
	for i, v := range b {
		t[2*i], t[2*i+1] = ib.PortState(v>>4), ib.PortState(v&0xF)
	}
	return nil
}

// Put writes the 64 bytes.
func (t *VPortState) Put(b []byte) {
	b = b[:VPortStateLen]
	for i := range b {
		b[i] = byte(t[2*i])<<4 | byte(t[2*i+1])&0xF
	}
}

// The other attributes of a VPort have the layout of those of a port.
type (
	// VNodeDescription is the NodeDescription of a virtual channel adapter.
	VNodeDescription = NodeDescription
	// VPortGUIDInfo is a block of the GUID table of a VPort, which has
	// VPortInfo.GUIDCap entries. Entry 0 of block 0 is its port GUID and read
	// only.
	VPortGUIDInfo = GUIDInfo
	// VPortPartitionTable is a block of the P_Key table of a VPort, which has
	// VNodeInfo.PartitionCap entries.
	VPortPartitionTable = PKeyTable
)
