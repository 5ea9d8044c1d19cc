package pathlog

import (
	"math/rand/v2"
	"slices"
	"testing"

	"heddle/ib"
)

// TestSince: what changed since a generation is the union of what changed with each that followed,
// in a log of any length; of forgotten generations any path may have changed.
func TestSince(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var l Log
	l.Begin(7<<32 + 1)
	src := Source{Port: 100, Physical: 100, Switch: 1}
	var each []map[ib.LID]bool
	forgotten := 0
	for step := range 3 * maxChanges {
		c := &Change{switches: []ib.GUID{1, 2}}
		met := map[ib.LID]bool{}
		for range rng.IntN(4) {
			met[ib.LID(1+rng.IntN(50))] = true
		}
		for x := range met {
			c.lids = append(c.lids, x)
		}
		slices.Sort(c.lids)
		c.from = []part{{n: int32(len(c.lids))}, {many: true}}
		l.Add(c)
		each = append(each, met)
		back := rng.IntN(len(each) + 1)
		f := l.Since(l.Gen()-uint64(back), src)
		if back > maxChanges {
			if forgotten++; !f.All {
				t.Fatalf("step %d: a generation %d before the newest is remembered", step, back)
			}
			continue
		}
		want := map[ib.LID]bool{}
		for _, m := range each[len(each)-back:] {
			for x := range m {
				want[x] = true
			}
		}
		if f.All || len(f.LIDs) != len(want) || slices.ContainsFunc(f.LIDs, func(x ib.LID) bool { return !want[x] }) {
			t.Fatalf("step %d: since %d generations %+v, want %v", step, back, f, want)
		}
		if f := l.Since(l.Gen()-uint64(back), Source{Port: 5, Switch: 2}); f.All != (back > 0) {
			t.Fatalf("step %d: the other switch: %+v", step, f)
		}
		if f := l.Since(l.Gen()-uint64(back), Source{Port: 5, Switch: 3}); !f.Empty() {
			t.Fatalf("step %d: a switch without changes: %+v", step, f)
		}
	}
	if forgotten == 0 {
		t.Error("nothing was forgotten")
	}
	for _, g := range []uint64{0, 1, 6<<32 + 5, 8 << 32, l.Gen() + 1} {
		if !l.Since(g, src).All {
			t.Errorf("generation %#x of another history is known", g)
		}
	}
	if f := l.View().Since(l.Gen(), src); !f.Empty() {
		t.Errorf("since the newest: %+v", f)
	}
}

// TestLogSize: a log of large changes stays within its bytes, and keeps the last one.
func TestLogSize(t *testing.T) {
	var l Log
	l.Begin(1 << 32)
	for range 20 {
		l.Add(&Change{lids: make([]ib.LID, maxSize/4/2+1)})
		if l.size > maxSize {
			t.Fatalf("%d bytes", l.size)
		}
	}
	l.Add(&Change{lids: make([]ib.LID, 2*maxSize)})
	if len(l.View().changes) != 1 || l.Since(l.Gen()-1, Source{}).All {
		t.Errorf("%d changes", len(l.View().changes))
	}
}
