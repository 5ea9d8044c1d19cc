package rdmanl

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"testing"
	"time"

	"heddle/ib"
	wire "heddle/ib/sa"
)

// question builds a question as the kernel does: the bit "mandatory" is set in attribute types.
func question(op Op, seq uint32, family []byte, attrs ...[]byte) []byte {
	n := len(family)
	for _, a := range attrs {
		n += len(a)
	}
	b := header(nil, op, flagRequest, seq, n)
	b = append(b, family...)
	for _, a := range attrs {
		b = append(b, a...)
	}
	return b
}

func mandatory(typ uint16, v ...byte) []byte { return attribute(nil, typ|1<<13, v) }

func family(device string, port uint8, use Use) []byte {
	b := make([]byte, resolveLen)
	copy(b, device)
	b[64], b[65] = port, byte(use)
	return b
}

func host16(v uint16) []byte { return binary.NativeEndian.AppendUint16(nil, v) }

// TestResolve: the questions of IPoIB and of rdma_cm.
func TestResolve(t *testing.T) {
	s, d := ib.MakeGID(ib.DefaultSubnetPrefix, 1), ib.MakeGID(ib.DefaultSubnetPrefix, 2)
	ipoib := question(Resolve, 17, family("mlx5_0", 1, UseUnidirectional),
		mandatory(attrDGID, d[:]...), mandatory(attrSGID, s[:]...), mandatory(attrTClass, 0), mandatory(attrPKey, host16(0xFFFF)...))
	cm := question(Resolve, 18, family("mlx5_1", 2, UseAll),
		mandatory(attrServiceID, binary.NativeEndian.AppendUint64(nil, 0x0102030405060708)...), mandatory(attrDGID, d[:]...),
		mandatory(attrSGID, s[:]...), mandatory(attrPKey, host16(0x8001)...), mandatory(attrQoSClass, host16(3)...))
	m, rest, err := Decode(append(append([]byte{}, ipoib...), cm...))
	base := wire.PathCompDGID | wire.PathCompSGID | wire.PathCompPKey
	if err != nil || m.Op != Resolve || m.Seq != 17 || m.Device != "mlx5_0" || m.Port != 1 || m.Use != UseUnidirectional ||
		m.Mask != base|wire.PathCompTClass || m.Record != (wire.PathRecord{SGID: s, DGID: d, PKey: 0xFFFF}) {
		t.Fatalf("%v, %+v", err, m)
	}
	m, rest, err = Decode(rest)
	if err != nil || len(rest) != 0 || m.Seq != 18 || m.Device != "mlx5_1" || m.Port != 2 ||
		m.Mask != base|wire.PathCompReversible|wire.PathCompServiceID8|wire.PathCompServiceID56|wire.PathCompQoSClass ||
		m.Record != (wire.PathRecord{SGID: s, DGID: d, PKey: 0x8001, ServiceID: 0x0102030405060708, QoSClass: 3, Reversible: true}) {
		t.Fatalf("%v, %+v", err, m)
	}
}

// TestIPResolve: an IPv4 and an IPv6 address behind a router.
func TestIPResolve(t *testing.T) {
	for _, want := range []string{"10.1.2.3", "fd00::7"} {
		a := netip.MustParseAddr(want)
		typ := uint16(attrIPv4)
		if a.Is6() {
			typ = attrIPv6
		}
		m, _, err := Decode(question(IPResolve, 5, []byte{9, 0, 0, 0}, mandatory(typ, a.AsSlice()...)))
		if err != nil || m.Op != IPResolve || m.IP != a || m.IfIndex != 9 && m.IfIndex != 9<<24 {
			t.Errorf("%s: %v, %+v", want, err, m)
		}
	}
}

// TestAnswers: the bytes that the kernel takes (little-endian hosts).
func TestAnswers(t *testing.T) {
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		t.Skip("needs a little-endian host: the expected bytes are written so")
	}
	for what, c := range map[string]struct {
		got  []byte
		want string
	}{
		// Type 0x1000, no NLM_F_REQUEST, the flag of an error, no attributes.
		"miss": {AppendMiss(nil, Resolve, 0x11223344), "10000000001000014433221100000000"},
		// NLM_F_REQUEST and NLM_F_ACK, attribute 2 with milliseconds.
		"timeout": {AppendTimeout(nil, 1, 200*time.Millisecond), "180000000110050001000000000000000800" + "0200c8000000"},
		"gid":     {AppendGID(nil, 2, ib.MakeGID(1, 2)), "240000000210000002000000000000001400040000000000000000010000000000000002"},
	} {
		if got := hex.EncodeToString(c.got); got != c.want {
			t.Errorf("%s:\n%s, want\n%s", what, got, c.want)
		}
	}
	r := wire.PathRecord{DGID: ib.MakeGID(1, 2), SGID: ib.MakeGID(1, 3), DLID: 7, SLID: 8, PKey: 0xFFFF, Reversible: true}
	b := AppendPath(nil, 9, r)
	if len(b) != 16+4+72 || hex.EncodeToString(b[:28]) != "5c000000001000000900000000000000"+"4c000100"+"2b00000000000000" {
		t.Fatalf("% x", b)
	}
	var got wire.PathRecord
	if err := got.Decode(b[28:]); err != nil || got.NumbPath != 1 || got.DLID != 7 || !got.Reversible {
		t.Fatalf("%v, %+v", err, got)
	}
}

// TestAck: the kernel's acknowledgments, with and without an error.
func TestAck(t *testing.T) {
	ack := func(errno int32) []byte {
		b := header(nil, 0, 0, 44, 20)
		binary.NativeEndian.PutUint16(b[4:], typeError)
		b = binary.NativeEndian.AppendUint32(b, uint32(-errno))
		return append(b, make([]byte, 16)...)
	}
	for _, errno := range []int32{0, 1} {
		m, _, err := Decode(ack(errno))
		if err != nil || !m.Ack || m.Errno != int(errno) || m.Seq != 44 {
			t.Errorf("%v, %+v", err, m)
		}
	}
}

// FuzzDecode: hostile bytes are refused; every message shortens what is left.
func FuzzDecode(f *testing.F) {
	g := ib.MakeGID(1, 2)
	f.Add(question(Resolve, 1, family("mlx5_0", 1, UseAll), mandatory(attrDGID, g[:]...), mandatory(attrPKey, 1, 2)))
	f.Add(question(IPResolve, 1, []byte{1, 0, 0, 0}, mandatory(attrIPv4, 10, 0, 0, 1)))
	f.Add(AppendTimeout(nil, 1, time.Second))
	f.Fuzz(func(t *testing.T, b []byte) {
		for len(b) > 0 {
			m, rest, err := Decode(b)
			if len(rest) >= len(b) {
				t.Fatal("nothing was read")
			}
			if err == nil && !m.Ack && m.Op == Resolve && len(m.Device) > deviceLen {
				t.Fatalf("%+v", m)
			}
			b = bytes.Clone(rest)
		}
	})
}
