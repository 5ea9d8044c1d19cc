package sa_test

import (
	"testing"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/mad"
	"heddle/sa"
	"heddle/subnet"
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

// TestPathCachingPermission: hosts may remember the LID of a GID that keeps it, and of no
// other.
func TestPathCachingPermission(t *testing.T) {
	s := vms()
	byGUID := func(g ib.GUID) *subnet.Port { return s.Ports[s.PortByGUID(g)] }
	byGUID(0xA2).Placed = 0xA2
	addVM(s, 3, 2, 0xB2, 21, ib.PKeyDefaultFull) // its LID belongs to the function
	s.Tables.LFT[0][21], s.Tables.TopLID = s.Tables.LFT[0][3], 21
	port(s, 4).Aliases, port(s, 4).Placed = []ib.GUID{0, 0xD1, 0xD2}, 0xD1 // D1's LID floats there
	s.Finish()
	for _, c := range []struct {
		what string
		guid ib.GUID
		may  bool
	}{
		{"a port", port(s, 3).GUID, true},
		{"a port with functions", port(s, 5).GUID, true},
		{"an alias", 0xC1, false},
		{"a function that shares the LID", 0xA1, false},
		{"a placement with its own LID", 0xA2, true},
		{"its alias", 0xA2A, false},
		{"a function that shares a placement's LID", 0xA3, false},
		{"a function with its own LID", 0xB2, false},
		{"an interface whose LID floats", 0xD1, true},
		{"another interface at its port", 0xD2, false},
		{"the port where a LID floats", port(s, 4).GUID, false},
	} {
		q := ask(ib.MethodGet, wire.AttrPathRecord, wire.PathCompSGID|wire.PathCompDGID, &wire.PathRecord{SGID: ib.MakeGID(s.Prefix, port(s, 2).GUID), DGID: ib.MakeGID(s.Prefix, c.guid)})
		b, v := sa.Answer(&sa.Source{Snap: s, Opt: &sa.Options{PathCaching: 1}}, &sa.Request{From: mad.Addr{LID: 2}, Data: q}, nil)
		if v != sa.Answered || status(b) != 0 {
			t.Errorf("%s: verdict %d, status %v", c.what, v, status(b))
			continue
		}
		if may := b[wire.DataOffset+44]&0x70 != 0; may != c.may {
			t.Errorf("%s: permission %v, want %v", c.what, may, c.may)
		}
	}
}
