package lab

import (
	"testing"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
	"heddle/route/engine/sssp"
	"heddle/sim"
)

// TestAvoidThrottled: no path leads over a link that comes up narrower than it could be, if there is a way
// around it, and paths come back when it is as wide as it can be.
func TestAvoidThrottled(t *testing.T) {
	for _, avoid := range []bool{false, true} {
		f := gen(t, "torus", "3x3")
		cfg := TrialConfig()
		cfg.Engines = []route.Engine{sssp.DFEngine{}}
		cfg.AvoidThrottled = avoid
		c, m := bringUp(t, f, sim.Config{Seed: 3}, cfg)
		mustUp(t, c, m)
		list := trunks(f)
		at := list[len(list)/2]
		over := func() int { return routesOver(c, at) } // both ways
		if over() == 0 {
			t.Fatal("the link has no routes")
		}
		width := func(w ib.LinkWidth) {
			t.Helper()
			for _, r := range [2]fabric.Ref{at, f.Port(at).Peer} {
				if err := c.Sim.SetLocalWidth(f.Nodes[r.Node].ID, int(r.Port), w); err != nil {
					t.Fatal(err)
				}
			}
			settle(t, c, m)
			m.Reroute(true)
			settle(t, c, m)
		}
		width(ib.Width1x)
		node, _ := c.Sim.Node(f.Nodes[at.Node].ID)
		if got := c.Sim.PortInfo(node, int(at.Port)).LinkWidthActive; got != ib.Width1x {
			t.Fatalf("the link has width %v", got)
		}
		if n := over(); (n == 0) != avoid {
			t.Errorf("avoid %v: %d entries lead over the narrow link", avoid, n)
		}
		width(ib.Width1x | ib.Width4x)
		if over() == 0 {
			t.Errorf("avoid %v: no entries lead over the link that is wide again", avoid)
		}
	}
}
