package transition

import (
	"testing"

	"heddle/ib"
	"heddle/route"
)

// TestUnicastRecent: states that differ only in their multicast trees count as one for
// unicast packets, ending with the last of them; states equal to the installed tables
// are dropped.
func TestUnicastRecent(t *testing.T) {
	rows := func(port byte) [][]byte { return [][]byte{{255, port, 1}, {255, 2, port}} }
	table := func(port byte) *route.Tables {
		return &route.Tables{LFT: rows(port), TopLID: 2, NumVLs: 1, Multicast: &route.Multicast{Trees: []route.Tree{{MLID: 0xC000}}}}
	}
	levels := table(1)
	levels.SL = []ib.SL{1}
	x := &mixer{old: table(3)}
	var list []Recent
	for _, tb := range []*route.Tables{table(1), table(1), levels, table(1), table(2), table(2), table(2), table(3), table(3)} {
		list = append(list, Recent{Tables: tb})
	}
	got := x.unicast(list)
	want := []int{1, 2, 3, 6}
	if len(got) != len(want) {
		t.Fatalf("%d states, want %d", len(got), len(want))
	}
	for i, k := range want {
		if got[i].Tables != list[k].Tables {
			t.Errorf("state %d is not the latest of its kind", i)
		}
	}
}

// TestRecentLanes: input ports are not equivalent if SL-to-VL tables of a recent state
// differ for them.
func TestRecentLanes(t *testing.T) {
	lanes := func(first ib.VL) *route.Lanes {
		index := make([]uint8, 9)
		index[1*3+2] = 1 // from port 1 to port 2
		return &route.Lanes{Rows: [][16]ib.VL{{}, {first}}, Index: [][]uint8{index}, Stride: []uint16{3}}
	}
	x := &mixer{old: &route.Tables{}, new: &route.Tables{}}
	if got := x.alike(0, []uint8{0, 1}); len(got) != 1 {
		t.Errorf("ports %v are kept of two that are alike", got)
	}
	x.recent = []*route.Lanes{lanes(1)}
	if got := x.alike(0, []uint8{0, 1}); len(got) != 2 {
		t.Errorf("ports %v are kept of two that a recent state told apart", got)
	}
}
