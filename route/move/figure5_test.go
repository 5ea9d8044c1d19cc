package move_test

import (
	"slices"
	"testing"

	"heddle/ib"
	"heddle/internal/routetest"
	"heddle/route"
	"heddle/route/check"
	"heddle/route/engine/minhop"
	"heddle/route/move"
)

// TestFigure5 is Figure 5 of the vSwitch paper: hypervisors at ports 2, 3 and 4 of a switch. A VM with
// LID 2 goes from the first to the third, whose function has LID 12: the entries 2 and 4 of one
// block change places, by one SMP. If the function has a LID of another block, it takes two.
func TestFigure5(t *testing.T) {
	for _, c := range []struct {
		last, with, smps int // LIDs of the third hypervisor; the function's; SMPs
	}{{4, 12, 1}, {64, 63, 1}, {64, 64, 2}, {64, 70, 2}} {
		net := &routetest.Net{}
		net.Switches(1)
		for _, lids := range []int{1, 4, 4, c.last} {
			net.Host(0, lids)
		}
		g := net.Graph()
		tb, err := minhop.Engine{}.Compute(g, route.Options{})
		if err != nil {
			t.Fatal(err)
		}
		with := ib.LID(c.with)
		if tb.Entry(0, 2) != 2 || tb.Entry(0, with) != 4 {
			t.Fatalf("LID 2 is at port %d, LID %d at port %d: not as drawn", tb.Entry(0, 2), with, tb.Entry(0, with))
		}
		for _, mode := range []move.Mode{move.Balanced, move.Minimal} {
			r, err := move.New(check.Prove(g, tb, check.Options{}), []move.Request{{Kind: move.Swap, Mode: mode, LID: 2, With: with}}, options)
			if err != nil {
				t.Fatal(err)
			}
			if r.Tables.Entry(0, 2) != 4 || r.Tables.Entry(0, with) != 2 || r.Graph.LIDOwner[2] != 3 || r.Graph.LIDOwner[with] != 1 {
				t.Errorf("LID %d, %v: entries %d and %d", with, mode, r.Tables.Entry(0, 2), r.Tables.Entry(0, with))
			}
			if len(r.Blocks) != c.smps || r.Writes != c.smps || r.Moved[0].SMPs != c.smps {
				t.Errorf("LID %d, %v: %d blocks, %d written, %+v", with, mode, len(r.Blocks), r.Writes, r.Moved[0])
			}
			for l := ib.LID(1); l <= g.TopLID; l++ {
				if !slices.Contains([]ib.LID{2, with}, l) && r.Tables.Entry(0, l) != tb.Entry(0, l) {
					t.Errorf("the entry of LID %d changed", l)
				}
			}
		}
	}
}
