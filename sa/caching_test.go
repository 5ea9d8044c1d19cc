package sa_test

import (
	"testing"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/mad"
	"heddle/sa"
)

// TestPathCachingFlag: the permission to cache is in the three bits at bit offset 353
// of a PathRecord, after RawTraffic (Tasoulas et al., §IV-B), and nowhere else; without
// the option no bit changes.
func TestPathCachingFlag(t *testing.T) {
	s := snapshot(3, 0)
	q := ask(ib.MethodGet, wire.AttrPathRecord, wire.PathCompSLID|wire.PathCompDLID, &wire.PathRecord{SLID: 2, DLID: 3})
	record := func(flag uint8) []byte {
		b, v := sa.Answer(&sa.Source{Snap: s, Opt: &sa.Options{PathCaching: flag}}, &sa.Request{From: mad.Addr{LID: 2}, Data: q}, nil)
		if v != sa.Answered || status(b) != 0 {
			t.Fatalf("verdict %d, status %v", v, status(b))
		}
		return b[wire.DataOffset : wire.DataOffset+wire.PathRecordLen]
	}
	plain := record(0)
	if plain[44]&0x70 != 0 {
		t.Errorf("byte 44 is %#x without the option", plain[44])
	}
	for flag, want := range map[uint8]byte{1: 0x10, 4: 0x40} {
		got := record(flag)
		if got[44] != plain[44]|want {
			t.Errorf("flag %d: byte 44 is %#x, want %#x", flag, got[44], plain[44]|want)
		}
		got[44] = plain[44]
		if string(got) != string(plain) {
			t.Errorf("flag %d: other bytes differ:\n%x\n%x", flag, got, plain)
		}
	}
}
