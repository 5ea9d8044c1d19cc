package daemon

import "testing"

// TestAgentWindows: the performance manager and the congestion control manager together have at most
// half of what the port takes in flight, and each has something.
func TestAgentWindows(t *testing.T) {
	for _, x := range []struct{ most, perf, congestion, p, c int }{
		{0, 64, 64, 64, 64},
		{2048, 64, 64, 64, 64},
		{128, 64, 64, 32, 32}, // a real port
		{128, 16, 64, 16, 48},
		{128, 64, 8, 56, 8},
		{128, 0, 64, 0, 64},
		{128, 0, 4096, 0, 64},
		{10, 64, 64, 3, 2},
		{1, 64, 64, 1, 1},
	} {
		if p, c := agentWindows(x.most, x.perf, x.congestion); p != x.p || c != x.c {
			t.Errorf("a port that takes %d, windows %d and %d: %d and %d; want %d and %d", x.most, x.perf, x.congestion, p, c, x.p, x.c)
		}
	}
	for most := 4; most < 300; most++ {
		for want := 1; want < 200; want += 7 {
			if p, c := agentWindows(most, want, 64); p < 1 || c < 1 || p > want || c > 64 || p+c > most/2 {
				t.Errorf("a port that takes %d, windows %d and 64: %d and %d", most, want, p, c)
			}
		}
	}
}
