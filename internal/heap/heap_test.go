package heap_test

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"heddle/internal/heap"
)

type entry struct {
	key   int64
	tie   uint64
	place int
}

func compare(a, b *entry) int { return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.tie, b.tie)) }

// TestHeap compares a heap under random pushes, pops and removals with a sorted list;
// each item knows its place.
func TestHeap(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 1))
		h := heap.Heap[int64, *entry]{Moved: func(e *entry, place int) { e.place = place }}
		var twin []*entry // sorted
		for i := range uint64(300) {
			switch k := r.IntN(5); {
			case k < 3 || len(twin) == 0:
				e := &entry{key: r.Int64N(50) - 25, tie: i, place: -1}
				h.Push(e.key, e.tie, e)
				at, _ := slices.BinarySearchFunc(twin, e, compare)
				twin = slices.Insert(twin, at, e)
			case k == 3:
				if e := h.Pop(); e.Value != twin[0] || e.Key != twin[0].key || e.Tie != twin[0].tie || twin[0].place != -1 {
					t.Fatalf("seed %d: popped %+v, the smallest is %+v", seed, e, twin[0])
				}
				twin = twin[1:]
			default:
				at := r.IntN(len(twin))
				h.Remove(twin[at].place)
				if twin[at].place != -1 {
					t.Fatalf("seed %d: a removed item has place %d", seed, twin[at].place)
				}
				twin = slices.Delete(twin, at, at+1)
			}
			if h.Len() != len(twin) {
				t.Fatalf("seed %d: %d items, want %d", seed, h.Len(), len(twin))
			}
			places := map[int]bool{}
			for _, e := range twin {
				places[e.place] = true
			}
			if len(places) != len(twin) || places[-1] || len(twin) > 0 && h.Min().Value != twin[0] {
				t.Fatalf("seed %d: places are wrong or Min is not the smallest", seed)
			}
		}
		h.Reset()
		if h.Len() != 0 {
			t.Fatalf("%d items after Reset", h.Len())
		}
	}
}

func BenchmarkHeap(b *testing.B) {
	var h heap.Heap[int64, int32]
	r := rand.New(rand.NewPCG(1, 1))
	for i := range uint64(1000) {
		h.Push(r.Int64N(1000), i, int32(i))
	}
	tie := uint64(1000)
	for b.Loop() {
		e := h.Pop()
		tie++
		h.Push(e.Key+r.Int64N(1000), tie, e.Value)
	}
}
