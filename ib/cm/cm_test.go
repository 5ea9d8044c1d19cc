package cm

import (
	"bytes"
	"testing"

	"heddle/ib"
	"heddle/internal/wiretest"
)

// pathBits are those of a path.
const pathBits = 16 + 16 + 128 + 128 + 20 + 6 + 8 + 8 + 4 + 1 + 5

// TestLaws flips every bit of every message. The numbers of bits are the sums of the
// field widths in tables 106 to 116 of the IBA, as the Linux kernel has them too.
func TestLaws(t *testing.T) {
	wiretest.Laws[REQ](t, wiretest.Attr{
		Name: "REQ", Len: DataLen,
		Bits: 32 + 64 + 64 + 32 + 24 + 8 + 24 + 8 + 24 + 5 + 2 + 1 + 24 + 5 + 3 + 16 + 4 + 1 + 3 + 4 + 1 + 3 + 2*pathBits + 1 + 736,
	})
	wiretest.Laws[MRA](t, wiretest.Attr{Name: "MRA", Len: DataLen, Bits: 64 + 2 + 5 + 1776})
	wiretest.Laws[REJ](t, wiretest.Attr{Name: "REJ", Len: DataLen, Bits: 64 + 2 + 7 + 16 + 576 + 1184})
	wiretest.Laws[REP](t, wiretest.Attr{Name: "REP", Len: DataLen, Bits: 64 + 32 + 24 + 24 + 24 + 8 + 8 + 5 + 2 + 1 + 3 + 1 + 64 + 1568})
	wiretest.Laws[RTU](t, wiretest.Attr{Name: "RTU", Len: DataLen, Bits: 64 + 1792})
	wiretest.Laws[DREQ](t, wiretest.Attr{Name: "DREQ", Len: DataLen, Bits: 64 + 24 + 1760})
	wiretest.Laws[DREP](t, wiretest.Attr{Name: "DREP", Len: DataLen, Bits: 64 + 1792})
	wiretest.Laws[LAP](t, wiretest.Attr{Name: "LAP", Len: DataLen, Bits: 64 + 24 + 5 + pathBits + 1344})
	wiretest.Laws[APR](t, wiretest.Attr{Name: "APR", Len: DataLen, Bits: 64 + 8 + 8 + 576 + 1184})
}

func FuzzREQ(f *testing.F)  { wiretest.Fuzz[REQ](f, DataLen) }
func FuzzMRA(f *testing.F)  { wiretest.Fuzz[MRA](f, DataLen) }
func FuzzREJ(f *testing.F)  { wiretest.Fuzz[REJ](f, DataLen) }
func FuzzREP(f *testing.F)  { wiretest.Fuzz[REP](f, DataLen) }
func FuzzRTU(f *testing.F)  { wiretest.Fuzz[RTU](f, DataLen) }
func FuzzDREQ(f *testing.F) { wiretest.Fuzz[DREQ](f, DataLen) }
func FuzzDREP(f *testing.F) { wiretest.Fuzz[DREP](f, DataLen) }
func FuzzLAP(f *testing.F)  { wiretest.Fuzz[LAP](f, DataLen) }
func FuzzAPR(f *testing.F)  { wiretest.Fuzz[APR](f, DataLen) }

// TestPlaces holds fields at their bytes, so that two that are exchanged are noticed.
func TestPlaces(t *testing.T) {
	var m ib.MAD
	New(&m, AttrREQ, 0x1122)
	if m.Class() != ib.ClassCM || m.Method() != ib.MethodSend || m[2] != 2 || m.AttrID() != 0x10 || m.TID() != 0x1122 {
		t.Errorf("%x", m[:24])
	}
	r := REQ{
		LocalID: 0x01020304, ServiceID: 0x1111111111111111, LocalCA: 0x2222222222222222, QKey: 0x33333333, QPN: 0x444444,
		ResponderResources: 5, InitiatorDepth: 6, RemoteTimeout: 20, Service: ServiceUC, FlowControl: true, PSN: 0x777777,
		LocalTimeout: 18, Retries: 7, PKey: 0xFFFF, MTU: 4, RNRRetries: 6, MaxCMRetries: 15, SRQ: true,
		Primary: Path{LocalLID: 0x0101, RemoteLID: 0x0202, FlowLabel: 0xABCDE, Rate: 7, TrafficClass: 9, HopLimit: 10, SL: 3, SubnetLocal: true, AckTimeout: 19},
	}
	b := Data(&m)
	r.Put(b)
	for _, c := range []struct {
		at   int
		want []byte
	}{
		{0, []byte{1, 2, 3, 4, 0, 0, 0, 0, 0x11}},
		{28, []byte{0x33, 0x33, 0x33, 0x33, 0x44, 0x44, 0x44, 5, 0, 0, 0, 6}},
		{43, []byte{20<<3 | 1<<1 | 1, 0x77, 0x77, 0x77, 18<<3 | 7, 0xFF, 0xFF, 4<<4 | 6, 15<<4 | 8, 1, 1, 2, 2}},
		{88, []byte{0xAB, 0xCD, 0xE0, 7, 9, 10, 3<<4 | 8, 19 << 3}},
	} {
		if got := b[c.at : c.at+len(c.want)]; !bytes.Equal(got, c.want) {
			t.Errorf("REQ at %d: %x, want %x", c.at, got, c.want)
		}
	}
	l := LAP{RemoteQPN: 0x010203, RemoteTimeout: 4, Alternate: r.Primary}
	l.Put(b)
	if want := []byte{1, 2, 3, 4 << 3, 0, 0, 0, 0, 1, 1, 2, 2}; !bytes.Equal(b[12:24], want) {
		t.Errorf("LAP at 12: %x, want %x", b[12:24], want)
	}
	if want := []byte{0xAB, 0xCD, 0xE0, 9, 10, 7, 3<<4 | 8, 19 << 3}; !bytes.Equal(b[56:64], want) {
		t.Errorf("LAP at 56: %x, want %x", b[56:64], want)
	}
}
