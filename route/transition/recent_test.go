package transition

import (
	"testing"

	"heddle/ib"
	"heddle/route"
)

// TestUnicastRecent: states that differ in their multicast trees only are one as far as
// unicast packets are concerned, left when the last of them was; those that are what is
// installed are none.
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
