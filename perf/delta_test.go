package perf

import (
	"testing"
	"time"
)

// sampleOf is a sample with the given counters; those that are not given are 0.
func sampleOf(wide bool, v map[Counter]uint64) *values {
	x := &values{have: basic | errorSet | waiting}
	if wide {
		x.have |= traffic
		x.wide = x.have
	}
	for c, n := range v {
		x.v[c] = n
	}
	return x
}

// TestCompare: what a counter that goes back means, on a link of 32 Gb/s after one second.
func TestCompare(t *testing.T) {
	type counts = map[Counter]uint64
	const top = 1<<32 - 1
	for _, c := range []struct {
		what             string
		wide             bool
		last, now        counts
		cleared, wrapped set
	}{
		{
			"nothing happened", false,
			counts{XmitData: 5, XmitPkts: 1, SymbolErrors: 3},
			counts{XmitData: 9, XmitPkts: 2, SymbolErrors: 3},
			0, 0,
		},
		{
			"words overflowed", false,
			counts{XmitData: top - 999, XmitPkts: 50},
			counts{XmitData: 1000, XmitPkts: 60},
			0, 1 << XmitData,
		},
		{
			"packets overflowed", false,
			counts{XmitData: 1000, XmitPkts: top, RcvData: 1},
			counts{XmitData: 9000, XmitPkts: 99, RcvData: 1},
			basic, 0,
		},
		{
			"packets overflowed before their end", false,
			counts{XmitData: 1000, XmitPkts: top - 1, RcvData: 1},
			counts{XmitData: 9000, XmitPkts: 99, RcvData: 1},
			0, 1 << XmitPkts,
		},
		{
			"all traffic was cleared", false,
			counts{XmitData: top - 999, XmitPkts: 50, RcvData: 60, RcvPkts: 3},
			counts{XmitData: 1000, XmitPkts: 10, RcvData: 9, RcvPkts: 1},
			basic, 0,
		},
		{
			"all was cleared, and one counter is above what it was", false,
			counts{XmitData: 1e9, XmitPkts: 50_000, RcvData: 60, RcvPkts: 3},
			counts{XmitData: 1000, XmitPkts: 10, RcvData: 700, RcvPkts: 10},
			basic, 0,
		},
		{
			"more words than the packets can have", false,
			counts{XmitData: 1 << 31, XmitPkts: 50},
			counts{XmitData: 1000, XmitPkts: 60},
			basic, 0,
		},
		{
			"more words than the link carries", false,
			counts{XmitData: 1 << 30, XmitPkts: 50},
			counts{XmitData: 1000, XmitPkts: 1 << 22},
			basic, 0,
		},
		{
			"64 bits overflowed", true,
			counts{XmitData: 1<<64 - 1000, XmitPkts: 50},
			counts{XmitData: 1000, XmitPkts: 60},
			0, 1 << XmitData,
		},
		{
			"64 bits were cleared", true,
			counts{XmitData: 1 << 40, XmitPkts: 1 << 33},
			counts{XmitData: 1000, XmitPkts: 60},
			traffic, 0,
		},
		{
			"errors were cleared, traffic not", false,
			counts{XmitData: 5, SymbolErrors: 3, LinkDowned: 1},
			counts{XmitData: 6, SymbolErrors: 0, LinkDowned: 1},
			errorSet, 0,
		},
		{
			"waiting was cleared", false,
			counts{XmitWait: 1 << 20},
			counts{XmitWait: 5},
			waiting, 0,
		},
		{
			"waiting overflowed", false,
			counts{XmitWait: top - 5},
			counts{XmitWait: 5},
			0, waiting,
		},
	} {
		last, now := sampleOf(c.wide, c.last), sampleOf(c.wide, c.now)
		ch := compare(last, now, wordsIn(32, time.Second))
		if ch.cleared != c.cleared || ch.wrapped != c.wrapped {
			t.Errorf("%s: cleared %b, overflowed %b; want %b and %b", c.what, ch.cleared, ch.wrapped, c.cleared, c.wrapped)
		}
		for k := range NumCounters {
			was, is := last.v[k], now.v[k]+ch.add[k]
			want := now.v[k] - last.v[k]
			switch {
			case ch.cleared.has(k):
				want = now.v[k]
			case ch.wrapped.has(k) && !c.wide:
				want &= top
			}
			if is-was != want {
				t.Errorf("%s: %v grew by %d, want %d", c.what, k, is-was, want)
			}
		}
	}
}

// TestPack: no share but 0 becomes 0, and steps are small against the value.
func TestPack(t *testing.T) {
	for _, x := range []float64{0, 1e-9, 1e-4, 0.01, 0.25, 0.5, 0.999, 1, 7} {
		got := unpack(pack(x))
		if x = min(x, 1); got < x-1e-12 || got > x+0.008 || (x == 0) != (got == 0) {
			t.Errorf("%g became %g", x, got)
		}
	}
}
