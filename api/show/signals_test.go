package show

import (
	"testing"
	"time"

	"heddle/ib"
	"heddle/sa"
)

// TestSignals: the state of each subscriber, in one word.
func TestSignals(t *testing.T) {
	const late = 1500 * time.Millisecond
	peers := []sa.SignalPeer{
		{GID: ib.MakeGID(1, 1), Gen: 7<<32 + 4, Absent: true, Late: late},
		{Sent: true, Level: true, Late: late},
		{Failed: 2, Late: late},
		{Late: late},
		{Gen: 7<<32 + 5, Latest: true},
	}
	x := Signals(&sa.SignalStats{Mode: sa.SignalHybrid, Gen: 7<<32 + 5, Due: 4}, peers, nil)
	if x.Mode != "hybrid" || x.Generation != "00000007-5" || len(x.Hosts) != len(peers) || x.Hosts[0].Generation != "00000007-4" {
		t.Errorf("%+v", x)
	}
	for i, want := range []string{"absent", "sent", "silent", "due", "notified"} {
		h := x.Hosts[i]
		if h.State != want || h.Level != (i == 1) || (h.Late == 1.5) != (i < 4) {
			t.Errorf("%d: %+v, want %s", i, h, want)
		}
	}
}
