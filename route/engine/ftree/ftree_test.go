package ftree_test

import (
	"fmt"
	"strings"
	"testing"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
	"heddle/route/check"
	"heddle/route/engine/ftree"
	"heddle/route/routetest"
)

func generate(t testing.TB, kind string, lids int) *fabric.Graph {
	t.Helper()
	words := strings.Fields(kind)
	f, err := fabric.Generate(words[0], words[1:], 3)
	if err != nil {
		t.Fatal(err)
	}
	if err := fabric.AssignLIDs(f, lids); err != nil {
		t.Fatal(err)
	}
	g, err := f.Graph(fabric.GraphOptions{VLs: 8})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func compute(t testing.TB, g *fabric.Graph, o route.Options) *route.Tables {
	t.Helper()
	tb, err := ftree.Engine{}.Compute(g, o)
	if err != nil {
		t.Fatal(err)
	}
	return tb
}

// verify proves tables and returns the report.
func verify(t testing.TB, g *fabric.Graph, tb *route.Tables) *check.Report {
	t.Helper()
	r := check.Verify(g, tb, check.Options{Workers: 2})
	if !r.OK() {
		why := ""
		for _, f := range r.Failures {
			why += fmt.Sprintf("\n%v: LID %d at switch %d, entry %d", f.Kind, f.LID, f.Switch, f.Entry)
		}
		for _, c := range r.Cycles {
			why += "\n" + c.String(g)
		}
		t.Fatalf("%v%s", r.Err(), why)
	}
	return r
}

// hosts are the first LIDs of the CA ports, ascending.
func hosts(g *fabric.Graph) []ib.LID {
	var all []ib.LID
	was := int32(-1)
	for l, e := range g.LIDOwner {
		if e != was && e != fabric.NoLID && g.EndPorts[e].Type != ib.NodeSwitch {
			all = append(all, ib.LID(l))
		}
		was = e
	}
	return all
}

// shifts returns the most paths over one channel, over all shift permutations,
// when port i sends to the LID plane of port i+s.
func shifts(g *fabric.Graph, tb *route.Tables, plane int) int {
	all := hosts(g)
	load := make([]int, len(g.Channels))
	most := 0
	for s := 1; s < len(all); s++ {
		clear(load)
		for i, from := range all {
			to := all[(i+s)%len(all)]
			l := to + ib.LID(plane)
			for u, d := g.EndPorts[g.LIDOwner[from]].Switch, g.EndPorts[g.LIDOwner[to]].Switch; u != d; {
				c := g.PortChannel[u][tb.Entry(u, l)]
				load[c]++
				most = max(most, load[c])
				u = g.Channels[c].To
			}
		}
	}
	return most
}

func TestShiftsFreeOfContention(t *testing.T) {
	for _, c := range []string{
		"fattree 324", "fattree 648", "xgft 3 4,4,8 1,4,4", "xgft 2 6,4 1,6", "kary 4 3", "kary 2 5", "mport 8 3", "xgft 4 3,3,3,6 1,3,3,3", "xgft 3 6,6,3 1,6,6",
		"xgft 3 4,4,8 1,4,4 total=119",
	} {
		t.Run(c, func(t *testing.T) {
			g := generate(t, c, 1)
			tb := compute(t, g, route.Options{Workers: 2})
			r := verify(t, g, tb)
			if most := shifts(g, tb, 0); most != 1 && !strings.Contains(c, "total") {
				t.Errorf("%d paths of one shift meet on a channel", most)
			}
			t.Logf("max load %d, mean %.1f", r.MaxChannelLoad, r.AvgChannelLoad)
		})
	}
	_ = routetest.Draws
}
