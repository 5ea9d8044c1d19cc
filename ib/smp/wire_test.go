package smp

import (
	"bytes"
	"testing"

	"heddle/ib"
	"heddle/internal/wiretest"
)

// TestWire decodes what real tools and their peers sent; the wanted values
// are what the tools printed. Every attribute is written back as it came.
func TestWire(t *testing.T) {
	es := wiretest.Read(t, "testdata/wire.txt")
	const permissive = ib.LIDPermissive
	get := func(name string, attr ib.AttrID, am uint32, v wiretest.Codec) *ib.MAD {
		t.Helper()
		m := wiretest.Find(t, es, name).MAD()
		if m.AttrID() != attr || m.AttrMod() != am || m.BaseVersion() != 1 || m.ClassVersion() != ClassVersion || StatusOf(m) != 0 {
			t.Errorf("%s: header %x", name, m[:24])
		}
		if m.Class() == ib.ClassSubnDR && (DrSLID(m) != permissive || DrDLID(m) != permissive || Direction(m) != m.Method().IsResponse()) {
			t.Errorf("%s: directed-route header %x", name, m[:40])
		}
		if err := v.Decode(Data(m)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		w := wiretest.Bytes(v, DataLen)
		if !bytes.Equal(w, Data(m)[:len(w)]) {
			t.Errorf("%s: we write\n%x\nthey wrote\n%x", name, w, Data(m)[:len(w)])
		}
		return m
	}
	check := func(name string, got, want any) {
		t.Helper()
		if got != want {
			t.Errorf("%s:\n%+v, want\n%+v", name, got, want)
		}
	}

	var ni NodeInfo
	get("nodeinfo-ca", AttrNodeInfo, 0, &ni)
	check("nodeinfo-ca", ni, NodeInfo{
		BaseVersion: 1, ClassVersion: 1, NodeType: ib.NodeCA, NumPorts: 1, SystemImageGUID: 0x100000,
		NodeGUID: 0x100000, PortGUID: 0x100001, PartitionCap: 64, Revision: 0xA1, LocalPortNum: 1,
	})
	m := get("nodeinfo-switch", AttrNodeInfo, 0, &ni)
	check("nodeinfo-switch", ni, NodeInfo{
		BaseVersion: 1, ClassVersion: 1, NodeType: ib.NodeSwitch, NumPorts: 4, SystemImageGUID: 0x200000,
		NodeGUID: 0x200000, PortGUID: 0x200000, PartitionCap: 8, Revision: 0xA1, LocalPortNum: 1,
	})
	check("path", string(Path(m)), "\x01")
	m = get("nodeinfo-resp", AttrNodeInfo, 0, &ni)
	check("hop count", HopCount(m), uint8(2))
	check("path", string(Path(m)), "\x01\x02")
	check("return path", string(ReturnPath(m)[1:4]), "\x01\x01\x00") // ibsim also fills entry 0, which is unused

	var nd NodeDescription
	get("nodedesc", AttrNodeDescription, 0, &nd)
	check("nodedesc", nd.String(), "S1")

	var si SwitchInfo
	want := SwitchInfo{
		LinearFDBCap: 30720, MulticastFDBCap: 1024, LinearFDBTop: 5, LifeTimeValue: 18, PartitionEnforcementCap: 64,
		FilterRawInboundCap: true, FilterRawOutboundCap: true,
	}
	get("switchinfo", AttrSwitchInfo, 0, &si)
	check("switchinfo", si, want)
	get("switchinfo-top", AttrSwitchInfo, 0, &si)
	check("switchinfo-top", si, want)
	want.LinearFDBTop, want.LifeTimeValue, want.PortStateChange = 0, 0, true // opensm writes 1 to clear
	get("switchinfo-clear", AttrSwitchInfo, 0, &si)
	check("switchinfo-clear", si, want)

	var pi PortInfo
	ca := PortInfo{
		GidPrefix: ib.DefaultSubnetPrefix, LID: 1, MasterSMLID: 1,
		CapabilityMask: ib.CapIsSM | ib.CapIsTrapSupported | ib.CapIsSLMappingSupported | ib.CapIsExtendedSpeedsSupported |
			ib.CapIsCapabilityMask2Supported | ib.CapIsVendorClassSupported | ib.CapIsCapabilityMaskNoticeSupported,
		MKeyLeasePeriod: 4089, LocalPortNum: 1, LinkWidthEnabled: ib.Width4x, LinkWidthSupported: 31, LinkWidthActive: ib.Width4x,
		LinkSpeedSupported: 7, PortState: ib.StateActive, PortPhysicalState: ib.PhysLinkUp, LinkDownDefaultState: ib.PhysPolling,
		LinkSpeedActive: ib.SpeedBitSDR, LinkSpeedEnabled: ib.SpeedBitSDR, NeighborMTU: ib.MTU2048, VLCap: 4,
		VLArbitrationHighCap: 8, VLArbitrationLowCap: 8, MTUCap: ib.MTU2048, VLStallCount: 7, OperationalVLs: 4, GUIDCap: 32,
		SubnetTimeOut: 31, CapabilityMask2: ib.Cap2IsLinkWidth2xSupported | ib.Cap2IsLinkSpeedHDRSupported,
	}
	get("portinfo-ca", AttrPortInfo, 1, &pi)
	check("portinfo-ca", pi, ca)
	check("rate", ib.RateOf(pi.LinkWidthActive, pi.ActiveSpeed()), ib.Rate10)
	get("portinfo-qdr", AttrPortInfo, 3, &pi)
	check("portinfo-qdr", pi, PortInfo{
		LocalPortNum: 1, LinkWidthEnabled: ib.Width4x, LinkWidthSupported: 31, LinkWidthActive: ib.Width4x,
		LinkSpeedSupported: 7, PortState: ib.StateActive, PortPhysicalState: ib.PhysLinkUp, LinkDownDefaultState: ib.PhysPolling,
		LinkSpeedActive: ib.SpeedBitQDR, LinkSpeedEnabled: ib.SpeedBitQDR, NeighborMTU: ib.MTU2048, VLCap: 4,
		VLArbitrationHighCap: 8, VLArbitrationLowCap: 8, MTUCap: ib.MTU2048, VLStallCount: 7, HOQLife: 18, OperationalVLs: 4,
	})
	check("rate", ib.RateOf(pi.LinkWidthActive, pi.ActiveSpeed()), ib.Rate40)
	get("portinfo-set-lid", AttrPortInfo, 1, &pi)
	set := ca
	set.MKeyLeasePeriod, set.LocalPortNum = 0, 0
	set.PortState, set.PortPhysicalState, set.LinkDownDefaultState = 0, 0, 0
	set.LinkDownDefaultState = ib.PhysPolling
	set.SubnetTimeOut, set.LocalPhyErrors, set.OverrunErrors = 18, 8, 8
	set.LinkSpeedEnabled, set.LocalPortNum = ib.SpeedBitSDR, 1
	check("portinfo-set-lid", pi, set)
	get("portinfo-set-armed", AttrPortInfo, 1, &pi)
	check("armed", pi.PortState, ib.StateArmed)
	check("armed", pi.PortPhysicalState, ib.PhysNoChange)

	var pk PKeyTable
	get("pkeytable", AttrPKeyTable, PKeyMod(1, 0), &pk)
	check("pkeytable", pk, PKeyTable{ib.PKeyDefaultFull})

	var sl SLtoVL
	get("sl2vl", AttrSLtoVL, SLtoVLMod(4, 0), &sl)
	check("sl2vl", sl, SLtoVL{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 7})

	var va VLArb
	get("vlarb-low", AttrVLArb, VLArbMod(VLArbLow0, 1), &va)
	check("vlarb-low", va, VLArb{{0, 0}, {1, 4}, {2, 4}, {3, 4}, {4, 4}, {5, 4}, {6, 4}, {7, 4}})
	get("vlarb-high", AttrVLArb, VLArbMod(VLArbHigh0, 1), &va)
	check("vlarb-high", va, VLArb{{0, 4}, {1, 0}, {2, 0}, {3, 0}, {4, 0}, {5, 0}, {6, 0}, {7, 0}})

	var lft, wantLFT LFT
	get("lft", AttrLFT, 0, &lft)
	for i := range wantLFT {
		wantLFT[i] = PortDrop
	}
	copy(wantLFT[1:], []byte{1, 0, 4, 2, 3})
	check("lft", lft, wantLFT)

	var sm SMInfo
	get("sminfo", AttrSMInfo, 0, &sm)
	check("sminfo", sm, SMInfo{GUID: 0x100001, SMKey: 1, ActCount: 0x51, SMState: SMMaster, Priority: 0})

	var nt Notice
	trap := get("trap128", AttrNotice, 0, &nt)
	check("trap128", nt, NewTrap(TrapPortStateChange, ProducerSwitch, 2, DetailLID{LID: 2}))
	repress := get("trap128-repress", AttrNotice, 0, &nt)
	check("method", trap.Method(), ib.MethodTrap)
	check("method", repress.Method(), ib.MethodTrapRepress)
	check("notice", string(Data(trap)), string(Data(repress)))
}
