package pages

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

// check compares a list with the values that it should have.
func check(t *testing.T, l List[int], want []int) {
	t.Helper()
	if got := l.Values(); !slices.Equal(got, want) || l.Len() != len(want) {
		t.Fatalf("%d values %v, want %v", l.Len(), got, want)
	}
	for _, p := range l.pages {
		if len(p) == 0 || len(p) > 2*pageLen {
			t.Fatalf("a page of %d", len(p))
		}
	}
}

func find(l List[int], v int) (int, bool) { return l.Find(func(w int) bool { return w < v }) }

// TestReplaced compares lists that are changed again and again, values several times among them, with
// slices; earlier lists stay as they were.
func TestReplaced(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var l List[int]
	var want []int
	for round := range 400 {
		var gone, added []int
		for range r.IntN(8) {
			if len(want) > len(gone) {
				gone = append(gone, want[r.IntN(len(want))])
			}
		}
		slices.Sort(gone)
		rest := slices.Clone(want)
		gone = slices.DeleteFunc(gone, func(v int) bool { // as often as it is there
			i, ok := slices.BinarySearch(rest, v)
			if ok {
				rest = slices.Delete(rest, i, i+1)
			}
			return !ok
		})
		n := r.IntN(12)
		if round%50 == 0 {
			n = 3 * pageLen
		}
		if round%100 == 99 {
			gone, rest = want, nil // all of them
		}
		for range n {
			added = append(added, r.IntN(500))
		}
		slices.Sort(added)
		now := slices.Sorted(slices.Values(append(rest, added...)))
		m := l.Replaced(gone, added, cmp.Compare)
		check(t, m, now)
		check(t, l, want)
		if same := len(gone)+len(added) == 0 || len(want)+len(now) == 0; m.Same(l) != same || !m.Same(m) {
			t.Fatalf("the same list: %v, want %v", m.Same(l), same)
		}
		for range 20 {
			v := r.IntN(500)
			i, _ := slices.BinarySearch(now, v)
			got, ok := find(m, v)
			if ok != (i < len(now)) || ok && got != now[i] {
				t.Fatalf("%d finds %d, %v", v, got, ok)
			}
		}
		l, want = m, now
	}
}

// TestPagesAreShared: a change of two of very many values copies their pages only.
func TestPagesAreShared(t *testing.T) {
	var all []int
	for i := range 100 * pageLen {
		all = append(all, 2*i)
	}
	l := Of(all)
	m := l.Replaced([]int{10}, []int{11, 150 * pageLen}, cmp.Compare)
	other := 0
	for k := range l.pages {
		if &l.pages[k][0] != &m.pages[k][0] {
			other++
		}
	}
	if other != 2 {
		t.Errorf("%d pages were copied", other)
	}
	if n := testing.AllocsPerRun(10, func() { find(l, 77) }); n != 0 {
		t.Errorf("%v allocations to find a value", n)
	}
	if n := testing.AllocsPerRun(10, func() { m = l.Replaced([]int{10}, []int{11}, cmp.Compare) }); n != 2 {
		t.Errorf("%v allocations", n)
	}
}
