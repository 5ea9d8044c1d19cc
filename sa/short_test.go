package sa_test

import (
	"bytes"
	"testing"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/mad"
	"heddle/sa"
)

// TestShortMessage: an RMPP request may be shorter than a MAD, and is answered as if
// padded with zeros. Single MADs are never short.
func TestShortMessage(t *testing.T) {
	s := snapshot(4, 0)
	r := wire.MultiPathRecord{SGIDCount: 1, DGIDCount: 2}
	for i, p := range s.EndPortPort[1:4] {
		r.GIDs[i] = s.GID(p)
	}
	q := ask(ib.MethodGetMulti, wire.AttrMultiPathRecord, wire.MultiPathCompSGIDCount|wire.MultiPathCompDGIDCount, &r)
	q[26] = wire.RMPPActive
	want := answer(t, s, 2, q, false)
	if n := len(records(t, want)); n != 2 {
		t.Fatalf("%d paths", n)
	}
	short := bytes.Clone(q[:wire.HeaderLen+r.Len()])
	if got := answer(t, s, 2, short, false); !bytes.Equal(got, want) {
		t.Errorf("%x\nwant %x", got, want)
	}
	if b, ok := sa.Busy(&sa.Request{Data: short}, nil); !ok || len(b) != ib.MADLen {
		t.Errorf("busy: %v, %d bytes", ok, len(b))
	}
	plain := bytes.Clone(short)
	plain[26] = 0
	for _, d := range [][]byte{nil, short[:wire.HeaderLen-1], plain} {
		if _, v := sa.Answer(source(s), &sa.Request{From: mad.Addr{LID: 2, QP: 1}, Data: d}, nil); v != sa.Drop {
			t.Errorf("%d bytes: verdict %d", len(d), v)
		}
	}
}
