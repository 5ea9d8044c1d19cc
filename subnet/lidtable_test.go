package subnet

import (
	"math/rand/v2"
	"testing"

	"heddle/ib"
)

// TestLIDTable changes tables step by step and compares each with a map, those that it was derived
// from too: they share pages.
func TestLIDTable(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	for range 40 {
		table, model := lidTable{}, map[ib.LID]int32{}
		type version struct {
			table lidTable
			model map[ib.LID]int32
		}
		var all []version
		for range 30 {
			var gone, added []lidRef
			next := map[ib.LID]int32{}
			for l, p := range model {
				if rnd.IntN(3) == 0 {
					gone = append(gone, lidRef{int32(l), 0, p})
					continue
				}
				next[l] = p
			}
			for range rnd.IntN(6) {
				r := lidRef{int32(1 + rnd.IntN(3000)), uint8(rnd.IntN(3)), int32(rnd.IntN(100))}
				added = append(added, r)
				for l := r.lid; l < r.lid+1<<r.lmc; l++ {
					next[ib.LID(l)] = r.port
				}
			}
			model, table = next, table.replaced(gone, added)
			all = append(all, version{table, model})
		}
		for k, v := range all {
			top := int32(0)
			for l := range ib.LID(4000) {
				want, ok := v.model[l]
				if !ok {
					want = -1
				}
				if got := v.table.at(l); got != want {
					t.Fatalf("version %d: LID %d leads to %d, want %d", k, l, got, want)
				}
				if ok {
					top = int32(l) + 1
				}
			}
			if v.table.n != top {
				t.Fatalf("version %d ends before LID %d, want %d", k, v.table.n, top)
			}
			if !v.table.equal(&v.table) || k > 0 && len(v.model) != len(all[k-1].model) && v.table.equal(&all[k-1].table) {
				t.Fatalf("version %d: equal is wrong", k)
			}
		}
	}
}
