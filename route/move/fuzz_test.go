package move_test

import (
	"strings"
	"testing"

	"heddle/ib"
	"heddle/internal/routetest"
	"heddle/route"
	"heddle/route/check"
	"heddle/route/engine/minhop"
	"heddle/route/engine/updn"
	"heddle/route/move"
)

// FuzzNew: any request leaves the tables right or changes nothing, and the order is
// safe.
func FuzzNew(f *testing.F) {
	f.Add(uint64(1), []byte{0, 0, 1, 0, 2, 1, 1, 1, 0, 3, 2, 0, 5, 0, 0})
	f.Add(uint64(7), []byte{1, 1, 1, 0, 2, 1, 1, 2, 0, 1})
	f.Add(uint64(3), []byte{0, 1, 60, 0, 1, 0, 1, 60, 0, 4, 2, 0, 60, 0, 0})
	f.Add(uint64(9), []byte{9, 9, 255, 255, 255})
	f.Fuzz(func(t *testing.T, seed uint64, data []byte) {
		rnd := routetest.Draws(seed, 77)
		g := routetest.Random(1+rnd(12), rnd(16), 3, 3, rnd).Graph()
		var p *check.Proof
		for _, e := range []route.Engine{minhop.Engine{}, updn.Engine{}}[rnd(2):] {
			tb, err := e.Compute(g, route.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if p = check.Prove(g, tb, check.Options{}); p.OK() {
				break // min-hop's may have a cycle, updn's never do
			}
		}
		if !p.OK() {
			t.Fatal(p.Err())
		}
		for len(data) >= 5 {
			var list []move.Request
			for range 1 + rnd(4) {
				if len(data) < 5 {
					break
				}
				list = append(list, move.Request{
					Kind: move.Kind(data[0]), Mode: move.Mode(data[1]), LID: ib.LID(data[2]) | ib.LID(data[3]&0xC0)<<8, With: ib.LID(data[4]),
				})
				data = data[5:]
			}
			from := route.Solution{Graph: p.Graph(), Tables: p.Tables()}
			r, err := move.New(p, list, options)
			if err != nil {
				if !strings.HasPrefix(err.Error(), "move: ") || strings.Contains(err.Error(), "would not be sound") {
					t.Fatal(err)
				}
				continue
			}
			verify(t, "fuzz", from, r, true)
			p = r.Proof
		}
	})
}
