package sim

import (
	"testing"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
)

// TestSMILatency: a directed-route SMP takes SMILatency more over each link, to a node and back.
func TestSMILatency(t *testing.T) {
	for _, path := range [][]byte{nil, toS1, toS2, toH2} {
		b := newTestbed(t, chain(), Config{HopLatency: 100, SMILatency: 30}, "H1")
		var at mad.Time
		b.e.OnPacket = func(*mad.Packet) { at = b.s.Now() }
		var m ib.MAD
		smp.NewDR(&m, ib.MethodGet, smp.AttrNodeInfo, 0, 0, path)
		b.e.Send(&mad.Packet{Addr: dr, Data: m[:]})
		b.s.RunUntil(1e6)
		if want := mad.Time(2 * len(path) * 130); at != want {
			t.Errorf("path %v: the answer came at %v, want %v", path, at, want)
		}
	}
}
