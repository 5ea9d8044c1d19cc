package lab

import (
	"strings"
	"testing"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
	"heddle/route/engine/all"
	"heddle/route/engine/sssp"
	"heddle/sim"
	"heddle/sm"
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

// narrow sets the widths that both ends of a link may have, and waits until the manager has done what
// follows of it.
func narrow(t *testing.T, c *Cluster, m *Manager, at fabric.Ref, w ib.LinkWidth) {
	t.Helper()
	for _, r := range [2]fabric.Ref{at, c.Fabric.Port(at).Peer} {
		if err := c.Sim.SetLocalWidth(c.Fabric.Nodes[r.Node].ID, int(r.Port), w); err != nil {
			t.Fatal(err)
		}
	}
	settle(t, c, m)
}

// TestThrottledEngines: whichever engine routes, the paths over a link that becomes narrow move by
// themselves, in a sweep of the region, by tables that the manager has proved. They stay away over full
// sweeps and faults elsewhere, and come back when the link is wide again. next is the engine that follows
// where the first one would wait in a circle: minhop with two links lost, sssp with tables from scratch.
func TestThrottledEngines(t *testing.T) {
	for _, x := range []struct{ engine, kind, params, next string }{
		{"minhop", "xgft", "2 4,4 1,4", "ftree"},
		{"updn", "xgft", "2 4,4 1,4", ""},
		{"ftree", "xgft", "2 4,4 1,4", ""},
		{"sssp", "xgft", "2 4,4 1,4", "ftree"},
		{"dfsssp", "torus", "3x3", ""},
		{"lash", "torus", "3x3", ""},
		{"nue", "torus", "3x3", ""},
	} {
		t.Run(x.engine, func(t *testing.T) {
			f := gen(t, x.kind, strings.Fields(x.params)...)
			cfg := TrialConfig()
			cfg.AvoidThrottled = true
			for _, e := range all.Engines() {
				if e.Name() == x.engine {
					cfg.Engines = append([]route.Engine{e}, cfg.Engines...)
				}
			}
			c, m := bringUp(t, f, sim.Config{Seed: 3}, cfg)
			mustUp(t, c, m)
			if got := m.Snap.Tables.Engine; got != x.engine {
				t.Fatalf("tables of %q", got)
			}
			list := trunks(f)
			at, other := list[len(list)/2], list[0]
			if routesOver(c, at) == 0 {
				t.Fatal("the link has no routes")
			}
			check := func(what string) {
				t.Helper()
				settle(t, c, m)
				if got := m.Snap.Tables.Engine; got != x.engine && got != x.next {
					t.Fatalf("%s: tables of %q", what, got)
				}
				if n := routesOver(c, at); n != 0 {
					t.Fatalf("%s: %d entries lead over the narrow link\n%s", what, n, strings.Join(m.Events(sm.Info), "\n"))
				}
			}
			narrow(t, c, m, at, ib.Width1x)
			check("narrow")
			m.Sweep(false)
			check("full sweep")
			if err := c.Sim.LinkDown(f.Nodes[other.Node].ID, int(other.Port)); err != nil {
				t.Fatal(err)
			}
			check("another link down")
			if err := c.Sim.LinkUp(f.Nodes[other.Node].ID, int(other.Port)); err != nil {
				t.Fatal(err)
			}
			check("another link up")
			narrow(t, c, m, at, ib.Width1x|ib.Width4x)
			m.Reroute(true)
			settle(t, c, m)
			if routesOver(c, at) == 0 {
				t.Error("the link that is wide again has no routes")
			}
		})
	}
}

// TestThrottledLast: a narrow link has routes as long as it is the last one to a part of the subnet, and
// where most links of a switch are narrow.
func TestThrottledLast(t *testing.T) {
	b := fabric.Builder{}
	var s [2]int
	for i, name := range []string{"s0", "s1"} {
		s[i] = b.AddSwitch(name, 8)
		for k, host := range []string{"a", "b", "c"} {
			b.Connect(s[i], 6+k, b.AddCA(name+host, 1), 1)
		}
	}
	for port := 1; port <= 3; port++ {
		b.Connect(s[0], port, s[1], port)
	}
	f, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	cfg := TrialConfig()
	cfg.AvoidThrottled = true
	c, m := bringUp(t, f, sim.Config{Seed: 2}, cfg)
	mustUp(t, c, m)
	link := func(port uint8) fabric.Ref { return fabric.Ref{Node: int32(s[0]), Port: port} }
	over := func() (n [3]bool) {
		for i := range n {
			n[i] = routesOver(c, link(uint8(i+1))) > 0
		}
		return n
	}
	expect := func(what string, want [3]bool) {
		t.Helper()
		if got := over(); got != want {
			t.Fatalf("%s: links with routes: %v, want %v\n%s", what, got, want, strings.Join(m.Events(sm.Info), "\n"))
		}
	}
	expect("all wide", [3]bool{true, true, true})
	narrow(t, c, m, link(1), ib.Width1x)
	expect("one narrow", [3]bool{false, true, true})
	for _, port := range []int{2, 3} {
		if err := c.Sim.LinkDown("s0", port); err != nil {
			t.Fatal(err)
		}
		settle(t, c, m)
	}
	expect("the narrow one alone", [3]bool{true, false, false})
	for port := 2; port <= 3; port++ {
		if err := c.Sim.LinkUp("s0", port); err != nil {
			t.Fatal(err)
		}
		settle(t, c, m)
	}
	m.Reroute(true) // links that come back get paths by new tables
	settle(t, c, m)
	expect("the others back", [3]bool{false, true, true})
	narrow(t, c, m, link(2), ib.Width1x)
	narrow(t, c, m, link(3), ib.Width1x)
	m.Reroute(true)
	settle(t, c, m)
	expect("all narrow", [3]bool{true, true, true})
}
