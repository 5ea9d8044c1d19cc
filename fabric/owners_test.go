package fabric_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"heddle/fabric"
	"heddle/ib"
)

// TestOtherOwners changes owners of LIDs, and the highest LID, and compares the list with that of each
// LID by itself. Graphs that do not share their end ports have no list.
func TestOtherOwners(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	ends := make([]fabric.EndPort, 5)
	for range 300 {
		old := &fabric.Graph{EndPorts: ends, LIDOwner: make([]int32, 1+rnd.IntN(1200))}
		for l := range old.LIDOwner {
			old.LIDOwner[l] = int32(rnd.IntN(6)) - 1
		}
		now := *old
		now.LIDOwner = slices.Clone(old.LIDOwner)[:rnd.IntN(len(old.LIDOwner)+1)]
		if rnd.IntN(2) == 0 {
			now.LIDOwner = slices.Clone(old.LIDOwner)
			for range rnd.IntN(300) {
				now.LIDOwner = append(now.LIDOwner, int32(rnd.IntN(6))-1)
			}
		}
		for range rnd.IntN(4) {
			if n := len(now.LIDOwner); n > 0 {
				now.LIDOwner[rnd.IntN(n)] = int32(rnd.IntN(6)) - 1
			}
		}
		owner := func(g *fabric.Graph, l int) int32 {
			if l < len(g.LIDOwner) {
				return g.LIDOwner[l]
			}
			return fabric.NoLID
		}
		var want []ib.LID
		for l := range max(len(old.LIDOwner), len(now.LIDOwner)) {
			if owner(old, l) != owner(&now, l) {
				want = append(want, ib.LID(l))
			}
		}
		got, ok := fabric.OtherOwners(old, &now)
		if !ok || !slices.Equal(got, want) {
			t.Fatalf("%d and %d LIDs: %v %v, want %v", len(old.LIDOwner), len(now.LIDOwner), got, ok, want)
		}
		now.EndPorts = slices.Clone(ends)
		if _, ok := fabric.OtherOwners(old, &now); ok {
			t.Fatal("a list for graphs with other end ports")
		}
	}
}
