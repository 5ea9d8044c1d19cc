package preview

import (
	"strings"
	"testing"

	"heddle/fabric"
	"heddle/internal/routetest"
	"heddle/route"
	"heddle/route/engine/auto"
	"heddle/route/engine/ftree"
	"heddle/route/engine/minhop"
)

// TestAnew: tables that are installed already change nothing; entries that are others are counted by blocks
// and switches; an engine without tables is passed over, or refuses if it is the only one that may.
func TestAnew(t *testing.T) {
	g := routetest.Tree(6, 6).Graph()
	r := Routing{Engines: []route.Engine{ftree.Engine{}}, Options: route.Options{Workers: 1, Rebalance: true}}
	now, err := ftree.Engine{}.Compute(g, r.Options)
	if err != nil {
		t.Fatal(err)
	}
	p, err := Anew(g, now, r)
	if err != nil || p.Change != (Change{}) || p.Engine != "ftree" || p.LoadBefore != p.LoadAfter || p.LoadAfter < 1 {
		t.Errorf("the same tables: %+v, %v", p, err)
	}
	other := now.Clone()
	other.LFT[0][1]++
	other.LFT[2][1]++
	other.LFT[2][2]++
	if p, err = Anew(g, other, r); err != nil || p.Change != (Change{Switches: 2, Blocks: 2, Entries: 3}) {
		t.Errorf("three entries of two switches: %+v, %v", p, err)
	}
	torus := routetest.Torus(4, 4, 1).Graph()
	was, err := minhop.Engine{}.Compute(torus, r.Options)
	if err != nil {
		t.Fatal(err)
	}
	r.Engines = auto.Engines()
	if p, err = Anew(torus, was, r); err != nil || len(p.Passed) == 0 || p.Engine == r.Engines[0].Name() {
		t.Errorf("a torus by the whole chain: %+v, %v", p, err)
	}
	r.Explicit = true
	if p, err = Anew(torus, was, r); err == nil || !strings.Contains(err.Error(), p.Passed[0]) {
		t.Errorf("a torus by the first engine alone: %+v, %v", p, err)
	}
}

// TestWithout: without a link its entries lead elsewhere, and the last link is refused.
func TestWithout(t *testing.T) {
	g := routetest.Tree(6, 6).Graph()
	r := Routing{Engines: []route.Engine{ftree.Engine{}}, Options: route.Options{Workers: 1}}
	now, err := ftree.Engine{}.Compute(g, r.Options)
	if err != nil {
		t.Fatal(err)
	}
	const channel = 0
	over := 0
	c := &g.Channels[channel]
	for l := range now.TopLID + 1 {
		if now.Entry(c.From, l) == c.OutPort {
			over++
		}
	}
	p, err := Without(g, []int32{channel}, now, r)
	if err != nil || p.Entries < over || p.Switches < 2 || p.Blocks < p.Switches || p.LoadAfter < p.LoadBefore {
		t.Errorf("%d entries lead over the link: %+v, %v", over, p, err)
	}
	for {
		var next int32 = -1
		for i := range g.Channels {
			if g.Channels[i].From == 0 {
				next = int32(i)
			}
		}
		if now, err = (ftree.Engine{}).Compute(g, r.Options); err != nil {
			t.Fatal(err)
		}
		if _, err = Without(g, []int32{next}, now, r); err != nil {
			break
		}
		g = g.Without(fabric.Loss{Channels: []int32{next}})
	}
	if !strings.Contains(err.Error(), "it is the last link to a part of the subnet") {
		t.Error(err)
	}
}
