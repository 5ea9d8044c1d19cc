package route_test

import (
	"errors"
	"strings"
	"testing"

	"heddle/fabric"
	"heddle/internal/fabrictest"
	"heddle/route"
	"heddle/route/engine/dor"
	"heddle/route/engine/file"
	"heddle/route/engine/ftree"
	"heddle/route/engine/lash"
	"heddle/route/engine/nue"
	"heddle/route/engine/sssp"
	"heddle/route/engine/torus"
	"heddle/route/engine/updn"
	"heddle/route/engine/vftree"
	"heddle/route/osmdump"
)

// TestEngineErrors: a caller can distinguish a fabric that the engine does not route,
// one that needs more lanes, and an invalid input.
func TestEngineErrors(t *testing.T) {
	graph := func(kind string, params ...string) *fabric.Graph {
		t.Helper()
		f, err := fabrictest.Generate(kind, params, 1)
		if err == nil {
			err = fabric.AssignLIDs(f, 1)
		}
		if err != nil {
			t.Fatal(err)
		}
		g, err := f.Graph(fabric.GraphOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	tree, ring, random := graph("xgft", "2", "2,3", "1,2"), graph("torus", "5x5"), graph("irregular", "16")
	other := route.New("other", 3, 9)
	seeds := &torus.Config{Size: [3]int{4, 4, 1}, Seeds: []torus.Seed{{From: 1}}}
	for _, c := range []struct {
		name   string
		engine route.Engine
		g      *fabric.Graph
		o      route.Options
		kind   error
	}{
		{"no tree", ftree.Engine{}, random, route.Options{}, route.ErrTopology},
		{"previous tables", ftree.Engine{}, tree, route.Options{Previous: other}, route.ErrInput},
		{"no tree, with lanes", vftree.Engine{}, random, route.Options{}, route.ErrTopology},
		{"lanes of a tree", vftree.Engine{Lanes: 3}, tree, route.Options{MaxVLs: 1}, route.ErrLanes},
		{"lanes that no link has", vftree.Engine{Lanes: 16}, tree, route.Options{}, route.ErrInput},
		{"no grid", dor.Engine{}, random, route.Options{}, route.ErrTopology},
		{"lanes of a ring", dor.Engine{}, ring, route.Options{MaxVLs: 1}, route.ErrLanes},
		{"no torus", torus.Engine{}, random, route.Options{}, route.ErrTopology},
		{"lanes of a torus", torus.Engine{}, ring, route.Options{MaxVLs: 1}, route.ErrLanes},
		{"another torus", torus.Engine{Config: seeds}, ring, route.Options{}, route.ErrInput},
		{"lanes of LASH", lash.Engine{}, ring, route.Options{MaxVLs: 1}, route.ErrLanes},
		{"previous tables of LASH", lash.Engine{}, ring, route.Options{Previous: other}, route.ErrInput},
		{"lanes of DFSSSP", sssp.DFEngine{}, ring, route.Options{MaxVLs: 1}, route.ErrLanes},
		{"previous tables of updn", updn.Engine{}, ring, route.Options{Previous: other}, route.ErrInput},
		{"previous tables of nue", nue.Engine{}, ring, route.Options{Previous: other}, route.ErrInput},
		{"no dump", file.Engine{}, ring, route.Options{}, route.ErrInput},
		{"an empty dump", file.Engine{Dump: &osmdump.Routes{}}, ring, route.Options{}, route.ErrInput},
	} {
		tb, err := c.engine.Compute(c.g, c.o)
		e, ok := errors.AsType[*route.EngineError](err)
		if tb != nil || !ok || !errors.Is(err, c.kind) || e.Engine != c.engine.Name() || e.Reason == "" {
			t.Errorf("%s: %#v, want %v", c.name, err, c.kind)
			continue
		}
		if text := err.Error(); !strings.HasPrefix(text, e.Engine+": ") || strings.Count(text, e.Engine+": ") != 1 {
			t.Errorf("%s: %s", c.name, text)
		}
		for _, k := range []error{route.ErrTopology, route.ErrLanes, route.ErrInput} {
			if k != c.kind && errors.Is(err, k) {
				t.Errorf("%s is also %v", c.name, k)
			}
		}
	}
}
