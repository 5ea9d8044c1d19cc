package route_test

import (
	"fmt"
	"slices"
	"testing"

	"heddle/ib"
	"heddle/internal/need"
	"heddle/internal/routetest"
	"heddle/route"
)

// TestBands: tables in which columns were replaced, step by step, read like copies of their rows in
// which the same entries were written, whatever reads them; and tables that they derive from stay.
func TestBands(t *testing.T) {
	for _, seed := range need.Seeds(60, 600) {
		rnd := routetest.Draws(seed)
		n, top := 1+rnd(9), ib.LID(1+rnd(400))
		tb := route.New("some", n, top)
		for s := range tb.LFT {
			for l := 1; l <= int(top); l++ {
				tb.LFT[s][l] = byte(rnd(4))
			}
		}
		flat := tb.Clone()
		type step struct{ banded, flat *route.Tables }
		steps := []step{{tb, flat.Clone()}}
		for range 12 {
			var cols []route.Column
			for range rnd(4) {
				c := route.Column{LID: ib.LID(1 + rnd(int(top)))}
				for range n {
					c.Entries = append(c.Entries, byte(rnd(5)))
				}
				cols = append(cols, c)
			}
			next := top
			if rnd(4) == 0 {
				next += ib.LID(rnd(70))
			}
			now := tb.WithColumns(next, cols)
			for s := range flat.LFT {
				for len(flat.LFT[s]) < route.RowLen(next) {
					flat.LFT[s] = append(flat.LFT[s], route.Drop)
				}
			}
			flat.TopLID = next
			for _, c := range cols {
				for s, e := range c.Entries {
					flat.LFT[s][c.LID] = e
				}
			}
			if next == top && now.Banded() {
				shares(t, tb, now, cols)
			}
			tb, top = now, next
			steps = append(steps, step{now, flat.Clone()})
		}
		for i, x := range steps {
			if err := alike(x.banded, x.flat); err != nil {
				t.Fatalf("step %d: %v", i, err)
			}
			for j, y := range steps {
				if x.banded.Equal(y.banded) != x.flat.Equal(y.flat) {
					t.Fatalf("steps %d and %d: equal as rows: %v", i, j, x.flat.Equal(y.flat))
				}
			}
		}
	}
}

// shares: only the blocks of columns may be other memory.
func shares(t *testing.T, was, now *route.Tables, cols []route.Column) {
	t.Helper()
	if !was.SharedRows(now) {
		t.Fatal("the rows are copied")
	}
	was.OtherBands(now, func(b int) {
		if !slices.ContainsFunc(cols, func(c route.Column) bool { return int(c.LID)/route.BlockLen == b }) {
			t.Fatalf("block %d is copied, in which nothing changed", b)
		}
	})
}

// alike compares tables with some that have rows by all that reads them.
func alike(x, flat *route.Tables) error {
	if x.Switches() != len(flat.LFT) || x.TopLID != flat.TopLID {
		return fmt.Errorf("%d switches, top %d", x.Switches(), x.TopLID)
	}
	f := x.Flat()
	for s, row := range flat.LFT {
		if !slices.Equal(x.Row(int32(s)), row) || !slices.Equal(f.LFT[s], row) {
			return fmt.Errorf("switch %d: row %v, want %v", s, x.Row(int32(s)), row)
		}
		for l := range len(row) + 70 {
			if x.Entry(int32(s), ib.LID(l)) != flat.Entry(int32(s), ib.LID(l)) {
				return fmt.Errorf("switch %d LID %d: %d", s, l, x.Entry(int32(s), ib.LID(l)))
			}
		}
		for b := range len(row)/route.BlockLen + 2 {
			var have, want [route.BlockLen]byte
			x.Block(int32(s), uint16(b), &have)
			if flat.Block(int32(s), uint16(b), &want); have != want {
				return fmt.Errorf("switch %d block %d: %v, want %v", s, b, have, want)
			}
		}
	}
	if !x.Equal(flat) || !flat.Equal(x) || !x.SameEntries(flat, true) {
		return fmt.Errorf("not equal")
	}
	return nil
}
