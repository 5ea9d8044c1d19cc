package holder

import (
	"math/rand/v2"
	"sync"
	"testing"

	"heddle/ib"
)

// TestNeverDenied: whatever is noted, learned and forgotten, a path that was handed out since the
// source was last notified is never denied, nor one to a source of which nothing is known.
func TestNeverDenied(t *testing.T) {
	denied := 0
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 1))
		tab := new(Table)
		const lids = 60
		type fact struct{ src, dst ib.LID }
		may, since := map[fact]bool{}, map[fact]bool{}
		known, learning := map[ib.LID]bool{}, map[ib.LID]bool{}
		for range 2000 {
			src, dst := ib.LID(1+rng.IntN(lids)), ib.LID(1+rng.IntN(lids))
			switch rng.IntN(20) {
			case 0:
				tab.Clear(src)
				known[src], learning[src] = true, false
				for d := range ib.LID(lids + 1) {
					delete(may, fact{src, d})
					delete(since, fact{src, d})
				}
			case 1:
				tab.Forget(src)
				known[src], learning[src] = false, false
			case 2:
				tab.Learn(src)
				learning[src] = true
				for d := range ib.LID(lids + 1) {
					delete(since, fact{src, d})
				}
			case 3:
				tab.Learned(src)
				if learning[src] {
					known[src], learning[src] = true, false
					for d := range ib.LID(lids + 1) {
						delete(may, fact{src, d})
						if since[fact{src, d}] {
							may[fact{src, d}] = true
						}
					}
				}
			default:
				tab.Note(src, dst)
				for _, f := range []fact{{src, dst}, {dst, src}} {
					may[f], since[f] = true, true
				}
			}
			a, b := ib.LID(1+rng.IntN(lids)), ib.LID(1+rng.IntN(lids))
			if tab.Known(a) != known[a] {
				t.Fatalf("seed %d: LID %d known: %v, want %v", seed, a, tab.Known(a), known[a])
			}
			got := tab.May(a, b)
			if !got && (!known[a] || may[fact{a, b}]) {
				t.Fatalf("seed %d: the path from %d to %d is denied", seed, a, b)
			}
			if got && !tab.Any(a) {
				t.Fatalf("seed %d: LID %d holds no path, and one to %d", seed, a, b)
			}
			if !got {
				denied++
			}
		}
	}
	if denied < 1000 {
		t.Errorf("denied %d times: the table tells little", denied)
	}
}

// TestDense: a source that asked for very many paths may hold any.
func TestDense(t *testing.T) {
	tab := new(Table)
	tab.Clear(1)
	for d := ib.LID(2); d < 3000; d++ {
		tab.Note(1, d)
	}
	for d := ib.LID(3000); d < 4000; d++ {
		if !tab.May(1, d) {
			t.Fatalf("the path to %d is denied", d)
		}
	}
}

// TestConcurrentNotes is for the race detector; no note may be lost.
func TestConcurrentNotes(t *testing.T) {
	tab := new(Table)
	tab.Clear(1)
	tab.Learn(1)
	var g sync.WaitGroup
	for w := range 4 {
		g.Go(func() {
			for i := range 200 {
				tab.Note(1, ib.LID(2+4*i+w))
			}
		})
	}
	g.Wait()
	tab.Learned(1)
	for i := range 800 {
		if d := ib.LID(2 + i); !tab.May(1, d) {
			t.Fatalf("the path to %d is denied", d)
		}
	}
}

func BenchmarkNote(b *testing.B) {
	tab := new(Table)
	tab.Clear(1)
	for b.Loop() {
		tab.Note(1, 77)
	}
}

// TestKeep: a source that asks for what changed holds what it held before it last learned, whether
// it asks before or after the acknowledgment; then it learns no more.
func TestKeep(t *testing.T) {
	for _, early := range []bool{false, true} {
		tab := new(Table)
		tab.Clear(1)
		tab.Note(1, 7)
		tab.Learn(1)
		if early {
			tab.Keep(1)
		}
		tab.Learned(1)
		tab.Keep(1)
		if !tab.May(1, 7) {
			t.Errorf("early %v: the path is denied", early)
		}
		tab.Learn(1)
		if tab.Learned(1); !tab.May(1, 7) {
			t.Errorf("early %v: the path is denied after it learned again", early)
		}
	}
	tab := new(Table)
	tab.Learn(1)
	tab.Learned(1)
	if tab.Known(1) != true || tab.May(1, 7) {
		t.Error("it has not learned")
	}
	if tab.Keep(1); tab.Known(1) {
		t.Error("it keeps what nobody knows, and is known")
	}
}
