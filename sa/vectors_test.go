package sa_test

import (
	"encoding/binary"
	"encoding/hex"
	"strings"
	"testing"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/ib/smp"
	"heddle/route"
	"heddle/subnet"
)

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.TrimSuffix(s, ".."))
	if err != nil {
		t.Fatal(err)
	}
	return append(b, make([]byte, wire.DataLen-len(b))...)
}

// net1 is the fabric that the vectors were recorded on: ibsim's example net.1,
// a switch (LID 1) with Hca1 (LID 2) on port 1 and Hca2 (LID 3) on port 4. What
// the vectors do not show is left 0.
func net1(t *testing.T) *subnet.Snapshot {
	t.Helper()
	info := func(s string) (p smp.PortInfo) {
		if err := p.Decode(unhex(t, s)[:smp.PortInfoLen]); err != nil {
			t.Fatal(err)
		}
		return p
	}
	full := []ib.PKey{ib.PKeyDefaultFull}
	s := &subnet.Snapshot{
		State: subnet.Master, Up: true, Prefix: ib.DefaultSubnetPrefix, PortGUID: 0x200000, Self: subnet.Ref{}, LID: 1,
		ActCount: 0x2F, PacketLife: 18, SMKey: 1,
	}
	// Of PortInfo the vectors show 64 bytes behind LID, port and options.
	sw := info(swPort[8:])
	hca := info(hcaPort[8:])
	s.Nodes = append(s.Nodes,
		subnet.Node{Desc: "Hca1", SwitchIndex: -1, OK: true, Info: hcaInfo(0x100000)},
		subnet.Node{Desc: "Hca2", SwitchIndex: -1, OK: true, Info: hcaInfo(0x100003), First: 3},
		subnet.Node{Desc: "Switch1", SwitchIndex: 0, OK: true, First: 6, Info: smp.NodeInfo{
			NodeType: ib.NodeSwitch, NumPorts: 8, NodeGUID: 0x200000, PortGUID: 0x200000,
		}},
	)
	if err := s.Nodes[2].Switch.Decode(unhex(t, "7800000004000003000000900000004030..")[:20]); err != nil {
		t.Fatal(err)
	}
	for n, nd := range s.Nodes {
		for p := 0; p <= int(nd.Info.NumPorts); p++ {
			q := subnet.Port{Node: int32(n), Num: uint8(p), EndPort: -1, Peer: subnet.NoRef(), MTU: ib.MTU2048, Rate: ib.Rate10}
			switch {
			case n == 2:
				q.GUID, q.LID, q.Known, q.Info, q.PKeys = nd.Info.PortGUID, 1, true, sw, full
				if p == 0 {
					q.EndPort, q.Info.GUIDCap = 2, 1
				}
			case p == 1:
				q.GUID, q.LID, q.Known, q.Info, q.PKeys, q.EndPort = nd.Info.NodeGUID+1, ib.LID(2+n), true, hca, full, int32(n)
			}
			s.Ports = append(s.Ports, &q)
		}
	}
	join := func(a, b subnet.Ref) { s.Port(a).Peer, s.Port(b).Peer = b, a }
	join(subnet.Ref{Node: 0, Port: 1}, subnet.Ref{Node: 2, Port: 1})
	join(subnet.Ref{Node: 1, Port: 1}, subnet.Ref{Node: 2, Port: 4})
	s.Tables = route.New("minhop", 1, 3)
	copy(s.Tables.LFT[0][1:], []byte{0, 1, 4})
	s.EndPortPort = []int32{1, 4, 6}
	s.Finish()
	return s
}

func hcaInfo(guid ib.GUID) smp.NodeInfo {
	return smp.NodeInfo{
		BaseVersion: 1, ClassVersion: 1, NodeType: ib.NodeCA, NumPorts: 2, SystemImageGUID: guid, NodeGUID: guid, PortGUID: guid + 1,
		PartitionCap: 64, Revision: 0xA1, LocalPortNum: 1,
	}
}

const (
	hcaPort = "000201000000000000000000fe80000000000000000200010050c04800000ff901021f0274520011404000080804e040000000000000201f00000000000000000030.."
	swPort  = "000104000000000000000000000000000000000000000000000000000000000000021f0274520011404000080804f040.."
)

// TestVectors: answers equal OpenSM's on net.1, byte for byte (recorded from the wire,
// OpenSM 3.3.23).
func TestVectors(t *testing.T) {
	s := net1(t)
	for _, c := range []struct {
		name   string
		attr   ib.AttrID
		mask   wire.CompMask
		key    byte
		req    string
		status ib.Status
		offset uint16
		want   string // "": a copy of the request
	}{
		{
			"NodeRecord", wire.AttrNodeRecord, 1, 0, "0002..", 0, 14,
			"000200000101010200000000001000000000000000100000000000000010000100400000000000a10100000048636131..",
		},
		{"PortInfoRecord of a CA", wire.AttrPortInfoRecord, 3, 0, "000201..", 0, 9, hcaPort},
		{"PortInfoRecord of a switch port", wire.AttrPortInfoRecord, 3, 0, "000104..", 0, 9, swPort},
		{"SwitchInfoRecord", wire.AttrSwitchInfoRecord, 1, 0, "0001..", 0, 3, "000100007800000004000003000000900000004030.."},
		{"LFTRecord", wire.AttrLFTRecord, 3, 0, "0001..", 0, 9, "0001000000000000ff000104" + strings.Repeat("ff", 60) + ".."},
		{"MFTRecord", wire.AttrMFTRecord, 1, 0, "0001..", ib.StatusSANoRecords, 0, ""},
		{"SMInfoRecord", wire.AttrSMInfoRecord, 1, 0, "0001..", 0, 4, "00010000000000000020000000000000000000000000002f03.."},
		{"LinkRecord", wire.AttrLinkRecord, 1, 0, "0002..", 0, 1, "000201010001.."},
		{"GUIDInfoRecord", wire.AttrGUIDInfoRecord, 3, 0, "0002..", 0, 9, "00020000000000000000000000100001.."},
		{"P_KeyTableRecord", wire.AttrPKeyTableRecord, 7, 1, "0002000001..", 0, 9, "0002000001000000ffff.."},
		{"P_KeyTableRecord, untrusted", wire.AttrPKeyTableRecord, 7, 0, "0002000001..", ib.StatusSAReqInvalid, 0, ""},
		{
			"PathRecord", wire.AttrPathRecord, 0x180C, 0,
			"0000000000000000fe800000000000000000000000100004fe80000000000000000000000010000100000000000000000081..", 0, 8,
			"0000000000000000fe800000000000000000000000100004fe80000000000000000000000010000100030002000000000080ffff0000848392..",
		},
		{
			"PathRecord, unknown DGID", wire.AttrPathRecord, 0x180C, 0,
			"0000000000000000fe800000000000000101010101010101fe80000000000000000000000010000100000000000000000081..", ib.StatusSANoRecords, 0, "",
		},
	} {
		q := ask(ib.MethodGet, c.attr, c.mask, nil)
		copy(q[wire.HeaderLen:], unhex(t, c.req))
		q[43] = c.key
		b := answer(t, s, 2, q, false)
		want := c.want
		if want == "" {
			want = c.req
		}
		if status(b) != c.status || binary.BigEndian.Uint16(b[44:]) != c.offset {
			t.Errorf("%s: status %v, AttributeOffset %d; want %v, %d", c.name, status(b), binary.BigEndian.Uint16(b[44:]), c.status, c.offset)
		}
		if got, want := hex.EncodeToString(b[wire.HeaderLen:]), hex.EncodeToString(unhex(t, want)); got != want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, want)
		}
		if key := binary.BigEndian.Uint64(b[36:]); key != 0 {
			t.Errorf("%s: the answer tells SM_Key %d", c.name, key)
		}
	}
	// ClassPortInfo says what this SA does, which is more and less than OpenSM.
	b := answer(t, s, 2, ask(ib.MethodGet, wire.AttrClassPortInfo, 0, nil), false)
	theirs := unhex(t, "010226020016bd100000000000000000000000000000000000000000000000000000000180010000000000000000000000000000000000000000000000000000000000008001..")
	got := b[wire.HeaderLen:]
	for i := range theirs {
		if (i < 2 || i > 6) && got[i] != theirs[i] {
			t.Errorf("ClassPortInfo: byte %d is %#x, want %#x", i, got[i], theirs[i])
		}
	}
}
