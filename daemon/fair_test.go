package daemon

import (
	"math/rand/v2"
	"slices"
	"testing"

	"heddle/ib"
	"heddle/mad"
)

// naiveFair is a simple model of fair.
type naiveFair struct {
	perSource, total, n int
	lines               map[ib.LID][]mad.Time
	turns               []ib.LID // the next first
}

func (f *naiveFair) put(lid ib.LID, at mad.Time) refusal {
	free, mine := f.total-f.n, len(f.lines[lid])
	switch {
	case free == 0:
		return everythingFull
	case mine >= f.perSource || mine > 0 && mine >= free/2:
		return sourceFull
	}
	if mine == 0 {
		f.turns = append(f.turns, lid)
	}
	f.lines[lid] = append(f.lines[lid], at)
	f.n++
	return accepted
}

func (f *naiveFair) take() (mad.Time, bool) {
	if len(f.turns) == 0 {
		return 0, false
	}
	lid := f.turns[0]
	f.turns = f.turns[1:]
	at := f.lines[lid][0]
	if f.lines[lid] = f.lines[lid][1:]; len(f.lines[lid]) > 0 {
		f.turns = append(f.turns, lid)
	}
	f.n--
	return at, true
}

// TestFairModel: any sequence of puts and takes gives the same requests in the same order as
// the model.
func TestFairModel(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 7))
		per, total, lids := 1+rng.IntN(20), 1+rng.IntN(60), 1+rng.IntN(12)
		f := newFair(per, total)
		want := naiveFair{perSource: per, total: total, lines: map[ib.LID][]mad.Time{}}
		fill := rng.IntN(100)
		var b [24]query
		for step := range mad.Time(4000) {
			if step%500 == 0 {
				fill = rng.IntN(100)
			}
			if rng.IntN(100) < fill {
				lid := ib.LID(rng.IntN(lids) * 0xFFFF / max(1, lids-1)) // 0 and 0xFFFF too
				if got, w := f.put(lid, query{at: step}), want.put(lid, step); got != w {
					t.Fatalf("seed %d: put gives %d, want %d", seed, got, w)
				}
			} else {
				n := f.take(b[:rng.IntN(len(b)+1)])
				for i := range n {
					if at, ok := want.take(); !ok || at != b[i].at {
						t.Fatalf("seed %d: took the request of step %d, want that of %d", seed, b[i].at, at)
					}
				}
			}
			if f.len() != want.n || f.waiting != len(want.turns) {
				t.Fatalf("seed %d: %d requests of %d, want %d of %d", seed, f.len(), f.waiting, want.n, len(want.turns))
			}
		}
		for n := want.n; n > 0; n-- {
			at, _ := want.take()
			if f.take(b[:1]) != 1 || b[0].at != at {
				t.Fatalf("seed %d: the end is not as it should be", seed)
			}
		}
		if f.take(b[:]) != 0 || f.left != total {
			t.Fatalf("seed %d: something is left in an empty queue", seed)
		}
	}
}

// TestFairShare: a requester waits for at most one request of each other one per request of its
// own, however many those have queued.
func TestFairShare(t *testing.T) {
	const others = 50
	f := newFair(1000, 8000)
	for range 100 {
		for lid := range ib.LID(others) {
			f.put(lid, query{})
		}
	}
	const mine = 3
	for i := range mine {
		if f.put(999, query{at: mad.Time(i + 1)}) != accepted {
			t.Fatal("refused")
		}
	}
	var b [1]query
	var turns []int
	for n := 1; len(turns) < mine; n++ {
		if f.take(b[:]) != 1 {
			t.Fatal("empty")
		}
		if b[0].at != 0 {
			turns = append(turns, n)
		}
	}
	if !slices.Equal(turns, []int{others + 1, 2 * (others + 1), 3 * (others + 1)}) {
		t.Errorf("served at %v", turns)
	}
}

// TestFairRoom: however many requesters flood, a new one finds room, and a single one may fill
// its share.
func TestFairRoom(t *testing.T) {
	for _, flooders := range []int{1, 2, 10, 100, 500} {
		f := newFair(1024, 8192)
		for range 10000 {
			for lid := range ib.LID(flooders) {
				f.put(lid, query{})
			}
		}
		if flooders == 1 && f.len() != 1024 {
			t.Errorf("one flooder has %d places", f.len())
		}
		if n := f.put(40000, query{}); n != accepted {
			t.Errorf("%d flooders leave no room for another requester (%d wait)", flooders, f.len())
		}
	}
}

func BenchmarkFair(b *testing.B) {
	f := newFair(1024, 8192)
	var out [16]query
	b.ReportAllocs()
	for i := 0; b.Loop(); i += len(out) {
		for k := range out {
			f.put(ib.LID((i+k)*7%12000), query{})
		}
		f.take(out[:])
	}
}
