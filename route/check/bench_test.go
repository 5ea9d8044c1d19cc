package check_test

import (
	"testing"

	"heddle/fabric"
	"heddle/ib"
	"heddle/internal/routetest"
	"heddle/route"
	"heddle/route/check"
	"heddle/route/engine/minhop"
)

// leveled are min-hop tables with service levels drawn by switch and LID, on
// eight lanes.
func leveled(tb testing.TB, g *fabric.Graph) *route.Tables {
	t, err := minhop.Engine{}.Compute(g, route.Options{Workers: 2})
	if err != nil {
		tb.Fatal(err)
	}
	t.NumVLs = 8
	t.NumClasses = int(t.TopLID) + 1
	t.Class = make([]int32, t.NumClasses)
	for l := range t.Class {
		t.Class[l] = int32(l)
	}
	t.SL = make([]ib.SL, len(g.Switches)*t.NumClasses)
	draw := routetest.Draws(1)
	for i := range t.SL {
		t.SL[i] = ib.SL(draw(8))
	}
	return t
}

// BenchmarkLanes proves tables of eight lanes at 5,832 hosts: lanes by SL, and
// by explicit SL-to-VL tables.
func BenchmarkLanes(b *testing.B) {
	g := routetest.Tree(36, 18).Graph()
	t := leveled(b, g)
	run := func(name string) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if r := check.Verify(g, t, check.Options{Workers: 2}); r.UnreachablePairs != 0 || r.VLsUsed != 8 {
					b.Fatal(r.Err())
				}
			}
		})
	}
	run("sl")
	t.Lanes = &route.Lanes{Rows: make([][16]ib.VL, 8)}
	for i := range t.Lanes.Rows {
		for sl := range 16 {
			t.Lanes.Rows[i][sl] = ib.VL((i + sl) % 8)
		}
	}
	for s := range g.Switches {
		k := int(g.Switches[s].NumPorts) + 1
		t.Lanes.Stride = append(t.Lanes.Stride, uint16(k))
		row := make([]uint8, k*k)
		for i := range row {
			row[i] = uint8(i * 7 % 8)
		}
		t.Lanes.Index = append(t.Lanes.Index, row)
	}
	run("lanes")
	t.NumVLs = 8
}
