package congestion

import (
	"testing"

	"heddle/ib"
	"heddle/ib/cc"
)

// TestAutoTable: pauses begin at 0, never fall, and end at half of the fair share, for every number
// of senders and every size.
func TestAutoTable(t *testing.T) {
	for n := 2; n <= 1<<15; n *= 2 {
		for _, entries := range []int{64, 128} {
			table := autoTable(n, entries)
			last, pauses := cc.Delay(0), -1.0
			for i, d := range table {
				x := float64(d.Multiplier()) / float64(uint(1)<<d.Shift())
				if x < pauses {
					t.Fatalf("%d senders: entry %d pauses for %v packets, the one before for %v", n, i, x, pauses)
				}
				last, pauses = d, x
			}
			if want := min(float64(2*n), 16383); pauses != want || last == 0 || table[0].Multiplier() != 0 {
				t.Errorf("%d senders, %d entries: %v packets at the end, want %v", n, entries, pauses, want)
			}
		}
	}
	// Near the fair share of 648 hosts, a step is at most 8 %.
	table := autoTable(1024, 128)
	for i := 1; i < len(table); i++ {
		a, b := float64(table[i-1].Multiplier()), float64(table[i].Multiplier())
		if share := b / float64(uint(1)<<table[i].Shift()); share > 324 && (b-a)/a > 0.08 {
			t.Errorf("entry %d: %v after %v", i, b, a)
		}
	}
}

// TestAutoTimer: two packets of each of n senders. Gran et al. have 150 (154 µs).
func TestAutoTimer(t *testing.T) {
	for _, x := range []struct {
		p    port
		want uint16
	}{
		{port{senders: 64, rate: ib.Rate(7), mtu: ib.MTU2048}, 51},         // 40 Gb/s
		{port{senders: 64, mtu: ib.MTU2048}, 20},                           // unknown: 100 Gb/s
		{port{senders: 1 << 15, rate: ib.Rate(2), mtu: ib.MTU4096}, 65535}, // 2.5 Gb/s
	} {
		if got := autoTimer(x.p); got != x.want {
			t.Errorf("%+v: %d, want %d", x.p, got, x.want)
		}
	}
}

// TestAtMost: a number of senders that a few hosts more or less do not change.
func TestAtMost(t *testing.T) {
	for _, x := range [][3]int{{1, 0, 2}, {648, 0, 1024}, {1024, 1024, 1024}, {1025, 1024, 2048}, {1023, 2048, 2048}, {512, 2048, 512}, {513, 2048, 2048}} {
		if got := atMost(x[0], x[1]); got != x[2] {
			t.Errorf("%d hosts, now %d: %d, want %d", x[0], x[1], got, x[2])
		}
	}
}

// TestHalfRate is the index at which a flow is named in the log of its adapter.
func TestHalfRate(t *testing.T) {
	table := []cc.Delay{0, cc.NewDelay(3, 7), cc.NewDelay(3, 8), cc.NewDelay(0, 5)}
	if got := halfRate(table); got != 2 {
		t.Errorf("%d", got)
	}
	if got := halfRate(table[:2]); got != 0 {
		t.Errorf("%d", got)
	}
}
