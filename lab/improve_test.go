package lab

import (
	"errors"
	"strings"
	"testing"
	"time"

	"heddle/fabric"
	"heddle/route"
	"heddle/route/engine/minhop"
	"heddle/route/engine/updn"
	"heddle/sim"
	"heddle/sm"
)

// whole routes only a fabric with all its channels.
type whole struct {
	updn.Engine
	channels int
	computed *int
}

func (whole) Name() string { return "whole" }

func (e whole) Compute(g *fabric.Graph, o route.Options) (*route.Tables, error) {
	*e.computed++
	if len(g.Channels) < e.channels {
		return nil, errors.New("whole: a link is missing")
	}
	return e.Engine.Compute(g, o)
}

func (e whole) Update(from route.Solution, g *fabric.Graph, d *fabric.Delta, o route.Options) (*route.Tables, error) {
	if len(g.Channels) < e.channels {
		return nil, errors.New("whole: a link is missing")
	}
	return e.Engine.Update(from, g, d, o)
}

// TestImprove: when the first engine of the chain refuses the fabric, the next one routes it.
// After a repair and a quiet time the first engine routes it again.
func TestImprove(t *testing.T) {
	f := gen(t, "torus", "4x4")
	n := 0
	cfg := TrialConfig()
	cfg.ImproveDelay = 3 * time.Second
	cfg.Engines = []route.Engine{whole{channels: 64, computed: &n}, updn.Engine{}}
	c, m := bringUp(t, f, sim.Config{}, cfg)
	c.Run(5 * time.Second)
	id, port := f.Nodes[0].ID, 1
	for i := range f.Nodes {
		for p := 1; f.Nodes[i].IsSwitch() && p <= f.Nodes[i].NumPorts; p++ {
			if q := f.Nodes[i].Ports[p].Peer; q.Valid() && f.Nodes[q.Node].IsSwitch() {
				id, port = f.Nodes[i].ID, p
			}
		}
	}
	is := func(name, passed string) {
		t.Helper()
		if s := m.Snap; s.Engine != name || strings.Join(s.PassedOver, ";") != passed {
			t.Fatalf("engine %s, passed over %q; want %s, %q\n%s", s.Engine, s.PassedOver, name, passed, strings.Join(m.Events(sm.Info), "\n"))
		}
		if err := c.Check(m); err != nil {
			t.Fatal(err)
		}
	}
	is("whole", "")
	if err := c.Sim.LinkDown(id, port); err != nil {
		t.Fatal(err)
	}
	c.Run(time.Second)
	is("updn", "whole: a link is missing")
	if !strings.Contains(strings.Join(m.Events(sm.Info), "\n"), "could not be updated incrementally") {
		t.Error("that the update failed is not told")
	}
	c.Run(10 * time.Second)
	n = 0
	if err := c.Sim.LinkUp(id, port); err != nil {
		t.Fatal(err)
	}
	c.Run(2 * time.Second)
	is("updn", "whole: a link is missing") // quick first
	if n != 0 {
		t.Errorf("the first engine computed %d times before the fabric was quiet", n)
	}
	c.Run(5 * time.Second)
	is("whole", "")
	if n != 2 { // near what is installed, and afresh to compare the load with
		t.Errorf("the first engine computed %d times, want 2", n)
	}
}

// TestReroute: tables are computed from scratch without reading the fabric.
func TestReroute(t *testing.T) {
	f := gen(t, "fattree", "324")
	cfg := TrialConfig()
	cfg.Engines = []route.Engine{minhop.Engine{}}
	c, m := bringUp(t, f, sim.Config{}, cfg)
	c.Run(1200 * time.Millisecond)
	for _, rebalance := range []bool{false, true} {
		sent, jobs := m.Sent, 0
		m.OnJob = func(r *sm.JobResult) {
			jobs++
			if r.Updated {
				t.Error("the tables were carried over, not computed")
			}
		}
		m.Reroute(rebalance)
		c.Run(100 * time.Millisecond)
		if jobs != 1 || m.Sent != sent {
			t.Errorf("rebalance %v: %d jobs, %d SMPs; want 1 and 0: the tables are as good as can be", rebalance, jobs, m.Sent-sent)
		}
	}
}
