package route_test

import (
	"slices"
	"testing"

	"heddle/ib"
	"heddle/internal/routetest"
	"heddle/route"

	"pgregory.net/rapid"
)

func TestNew(t *testing.T) {
	for _, c := range []struct {
		top  ib.LID
		want int
	}{{0, 64}, {63, 64}, {64, 128}, {49151, 49152}} {
		tb := route.New("x", 3, c.top)
		for s := range int32(3) {
			row := tb.LFT[s]
			if len(row) != c.want || cap(row) != c.want || slices.ContainsFunc(row, func(b byte) bool { return b != route.Drop }) {
				t.Errorf("top %d: row of %d, want %d times Drop", c.top, len(row), c.want)
			}
		}
	}
}

func TestEntryAndBlock(t *testing.T) {
	tb := route.New("x", 1, 70)
	tb.LFT[0][70], tb.LFT[0][71], tb.LFT[0][64] = 5, 6, 7
	if tb.Entry(0, 70) != 5 || tb.Entry(0, 71) != route.Drop || tb.Entry(0, 500) != route.Drop {
		t.Error("entries above the top must be dropped")
	}
	var b [route.BlockLen]byte
	tb.Block(0, 1, &b)
	if b[0] != 7 || b[6] != 5 || b[8] != route.Drop {
		t.Errorf("block 1: %v", b)
	}
	tb.Block(0, 9, &b)
	if slices.ContainsFunc(b[:], func(b byte) bool { return b != route.Drop }) {
		t.Errorf("block beyond the row: %v", b)
	}
}

func TestCloneAndEqual(t *testing.T) {
	a := route.New("x", 2, 10)
	b := a.Clone()
	if !a.Equal(b) {
		t.Error("a clone differs")
	}
	b.LFT[1][3] = 9
	if a.Equal(b) || a.LFT[1][3] == 9 {
		t.Error("the clone shares rows")
	}
	b = a.Clone()
	b.LFT[0] = nil
	if a.Equal(b) || b.Clone().LFT[0] != nil {
		t.Error("a row that is not known")
	}
	b = a.Clone()
	b.LFT[0][40] = 1 // above the top
	if !a.Equal(b) {
		t.Error("entries above the top count")
	}
}

func TestRemap(t *testing.T) {
	b := routetest.Tree2(3, 1, 1)
	g := b.Graph()
	h := *g
	h.Switches = slices.Delete(slices.Clone(g.Switches), 1, 2)
	tb := route.New("x", len(g.Switches), g.TopLID)
	for s := range tb.LFT {
		tb.LFT[s][1] = byte(s)
	}
	down := tb.Remap(g, &h)
	if len(down.LFT) != 3 || down.LFT[0][1] != 0 || down.LFT[1][1] != 2 || down.LFT[2][1] != 3 {
		t.Errorf("%v", down.LFT)
	}
	up := down.Remap(&h, g)
	if up.LFT[1] != nil || up.LFT[3][1] != 3 {
		t.Errorf("%v", up.LFT)
	}
}

// TestDiff: exactly the blocks that differ, in order.
func TestDiff(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := route.New("x", 3, 300)
		w := a.Clone()
		want := map[route.BlockDiff]bool{}
		for range rapid.IntRange(0, 9).Draw(t, "changes") {
			s, l := rapid.IntRange(0, 2).Draw(t, "s"), rapid.IntRange(0, 319).Draw(t, "l")
			w.LFT[s][l] = 3
			want[route.BlockDiff{Switch: int32(s), Block: uint16(l / 64)}] = true
		}
		got := routetest.Diff(a, w)
		if len(got) != len(want) {
			t.Fatalf("%v, want %v", got, want)
		}
		for i, b := range got {
			if !want[b] || i > 0 && (got[i-1].Switch > b.Switch || got[i-1].Switch == b.Switch && got[i-1].Block >= b.Block) {
				t.Fatalf("%v, want %v", got, want)
			}
		}
	})
}

func TestDiffUnknown(t *testing.T) {
	w := route.New("x", 2, 100)
	if got := routetest.Diff(nil, w); len(got) != 4 {
		t.Errorf("nothing known: %v", got)
	}
	a := w.Clone()
	a.LFT[0] = nil
	a.LFT[1] = a.LFT[1][:64]
	want := []route.BlockDiff{{0, 0}, {0, 1}, {1, 1}}
	if got := routetest.Diff(a, w); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if n := routetest.EntriesChanged(a, w); n != 100+37 {
		t.Errorf("%d entries", n)
	}
}
