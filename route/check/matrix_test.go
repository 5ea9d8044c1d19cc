package check_test

import (
	"strings"
	"testing"

	"heddle/fabric"
	"heddle/internal/fabrictest"
	"heddle/internal/need"
	"heddle/internal/routetest"
	"heddle/route"
	"heddle/route/check"
	"heddle/route/engine/minhop"
	"heddle/route/engine/updn"
)

// TestEveryKind: up*/down* verifies on every kind of fabric, min-hop delivers, and both
// deliver the same pairs.
func TestEveryKind(t *testing.T) {
	for _, c := range []string{
		"fattree 324", "fattree 648", "xgft 3 4,4,4 1,2,2", "kary 4 3", "mport 8 3", "torus 8x8", "torus 4x4x4", "mesh 6x6",
		"hypercube 5", "hyperx 4x4", "dragonfly 4 2 2", "dragonfly+ 4 4 4 4", "irregular 8", "irregular 32",
	} {
		t.Run(c, func(t *testing.T) {
			words := strings.Fields(c)
			f, err := fabrictest.Generate(words[0], words[1:], 3)
			if err != nil {
				t.Fatal(err)
			}
			if err := fabric.AssignLIDs(f, 2); err != nil {
				t.Fatal(err)
			}
			g, err := f.Graph(fabric.GraphOptions{})
			if err != nil {
				t.Fatal(err)
			}
			short := check.Verify(g, tables(t, minhop.Engine{}, g), check.Options{Workers: 2})
			if short.UnreachablePairs != 0 || short.Loops != 0 {
				t.Errorf("minhop: %v", short.Err())
			}
			legal := check.Verify(g, tables(t, updn.Engine{}, g), check.Options{Workers: 2})
			if !legal.OK() {
				t.Errorf("updn: %v", legal.Err())
			}
			if legal.Paths != short.Paths || legal.AvgHops < short.AvgHops {
				t.Errorf("updn %d paths of %.3f hops, minhop %d of %.3f", legal.Paths, legal.AvgHops, short.Paths, short.AvgHops)
			}
			if tree := strings.Contains("fattree xgft kary mport", words[0]); tree && (!short.OK() || legal.AvgHops != short.AvgHops) {
				t.Errorf("on a tree: minhop %v, updn %.3f hops, minhop %.3f", short.Err(), legal.AvgHops, short.AvgHops)
			}
		})
	}
}

// TestFullSize proves the sizes that the numbers of the design name.
func TestFullSize(t *testing.T) {
	need.Long(t)
	for name, net := range map[string]*routetest.Net{"11,664 hosts": routetest.Tree(36, 36), "49,149 LIDs": routetest.FullSubnet()} {
		g := net.Graph()
		for _, e := range []route.Engine{minhop.Engine{}, updn.Engine{}} {
			r := check.Verify(g, tables(t, e, g), check.Options{Workers: 2})
			if !r.OK() || r.DisconnectedPairs != 0 {
				t.Errorf("%s, %s: %v", name, e.Name(), r.Err())
			}
			if float64(r.MaxChannelLoad) > 1.1*r.AvgChannelLoad {
				t.Errorf("%s, %s: fullest channel %d, mean %.0f", name, e.Name(), r.MaxChannelLoad, r.AvgChannelLoad)
			}
		}
	}
}
