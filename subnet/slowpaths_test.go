package subnet

import (
	"math/rand/v2"
	"slices"
	"testing"

	"heddle/ib"
)

// TestSlowPaths: sets of pairs, and what differs between two, as maps have it.
func TestSlowPaths(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	var none *SlowPaths
	if none.Has(1, 2) || none.Len() != 0 || none.Hash() != 0 || !none.Equal(NewSlowPaths(3, nil)) {
		t.Error("there are slow paths in nothing")
	}
	type model map[PortPair]ib.SL
	draw := func() (*SlowPaths, model) {
		m, sl := model{}, ib.SL(6+r.IntN(2))
		var pairs []PortPair
		for range r.IntN(12) {
			x := PortPair{ib.GUID(1 + r.IntN(4)), ib.GUID(1 + r.IntN(4))}
			pairs, m[x] = append(pairs, x), sl
		}
		return NewSlowPaths(sl, pairs), m
	}
	for range 2000 {
		a, x := draw()
		b, y := draw()
		same := true
		var want []PortPair
		for from := range ib.GUID(5) {
			for to := range ib.GUID(5) {
				p := PortPair{from, to}
				u, was := x[p]
				v, is := y[p]
				if a.Has(from, to) != was || b.Has(from, to) != is {
					t.Fatal("Has")
				}
				if was != is || u != v {
					same = false
					want = append(want, p)
				}
			}
		}
		slices.SortFunc(want, comparePairs)
		if got := ChangedSlowPaths(a, b); !slices.Equal(got, want) {
			t.Fatalf("%v and %v differ in %v, not %v", a, b, got, want)
		}
		if a.Equal(b) != same || same != (a.Hash() == b.Hash()) || a.Len() != len(x) {
			t.Fatalf("%v and %v: equal %v", a, b, a.Equal(b))
		}
	}
}
