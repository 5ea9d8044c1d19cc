package umadabi

import (
	"encoding/hex"
	"testing"

	"heddle/ib"
)

// The vector is a directed-route request as libibumad writes it: agent 2, 1 s,
// three retries, permissive LID.
func TestHeader(t *testing.T) {
	const text = "02000000" + "00000000" + "e8030000" + "03000000" + "00000000" +
		"00000000" + "80010000" + "ffff" + "00" + "00" +
		"00000000" + "00000000000000000000000000000000" + "00000000" + "0000" + "000000000000"
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != HeaderLen {
		t.Fatal(len(b), err)
	}
	var h Header
	h.Decode(b, HeaderLen)
	want := Header{ID: 2, TimeoutMS: 1000, Retries: 3, QKey: 0x80010000, LID: 0xffff}
	if h != want {
		t.Errorf("got %+v, want %+v", h, want)
	}
	out := make([]byte, HeaderLen)
	h.Put(out, HeaderLen)
	if hex.EncodeToString(out) != text {
		t.Errorf("got %x", out)
	}
	full := Header{
		ID: 1, Status: 110, TimeoutMS: 7, Retries: 2, Length: 320, QPN: 1, QKey: 5, LID: 9, SL: 3, PathBits: 1,
		GRHPresent: true, GIDIndex: 4, HopLimit: 64, TrafficClass: 8, GID: ib.GID{0xfe, 0x80, 15: 1}, FlowLabel: 0xabcde, PKeyIndex: 6,
	}
	full.Put(out, HeaderLen)
	h.Decode(out, HeaderLen)
	if h != full {
		t.Errorf("got %+v, want %+v", h, full)
	}
	full.Put(out, OldHeaderLen)
	h.Decode(out, OldHeaderLen)
	full.PKeyIndex = 0
	if h != full {
		t.Errorf("old header: got %+v, want %+v", h, full)
	}
}

func TestAgent(t *testing.T) {
	m := MaskOf(ib.MethodGet, ib.MethodGetTableResp)
	if !m.Has(ib.MethodGet) || !m.Has(ib.MethodGetTable) || m.Has(ib.MethodSet) {
		t.Errorf("mask %x", m)
	}
	want := Agent{ID: 3, QPN: 1, Class: 0x33, Version: 1, Methods: Mask{6, 1 << 63}, OUI: 0x000AB2, RMPP: 1}
	b := make([]byte, Agent2Len)
	var a Agent
	want.Put(b)
	if a.Decode(b); a != want {
		t.Errorf("got %+v, want %+v", a, want)
	}
	want.Flags = FlagUserRMPP
	want.Put2(b)
	if a.Decode2(b); a != want {
		t.Errorf("got %+v, want %+v", a, want)
	}
	// As on the device: byte 4 + m/8, bit m%8.
	x := Agent{Methods: MaskOf(ib.MethodGetTable)}
	x.Put(b)
	if b[4+0x12/8] != 1<<(0x12%8) {
		t.Errorf("mask bytes % x", b[4:20])
	}
}
