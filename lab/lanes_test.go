package lab

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/route"
	"heddle/route/engine/lash"
	"heddle/route/engine/nue"
	"heddle/route/engine/sssp"
	"heddle/route/engine/torus"
	"heddle/route/engine/updn"
	"heddle/sim"
	"heddle/sm"
	"heddle/subnet"
)

// TestLaneTables: with engines that need lanes the switches hold SL-to-VL tables
// that make the tables free of deadlock, also after failures, and with and
// without the form of Set that programs a port at once.
func TestLaneTables(t *testing.T) {
	for _, e := range []route.Engine{torus.Engine{}, sssp.DFEngine{}, lash.Engine{}, nue.Engine{}} {
		for _, optimized := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/optimized=%v", e.Name(), optimized), func(t *testing.T) {
				f := gen(t, "torus", "4x4")
				cfg := TrialConfig()
				cfg.Engines = []route.Engine{e, updn.Engine{}}
				cfg.RepathTime = 100 * time.Millisecond
				c, m := bringUp(t, f, sim.Config{HopLatency: time.Microsecond, OptimizedSL2VL: optimized}, cfg)
				if m.Snap.Engine != e.Name() {
					t.Fatalf("the engine is %s: %v", m.Snap.Engine, m.Snap.PassedOver)
				}
				rng := rand.New(rand.NewPCG(4, 4))
				cab := cables(f)
				for range 6 {
					r := cab[rng.IntN(len(cab))]
					id := f.Nodes[r.Node].ID
					_ = c.Sim.LinkDown(id, int(r.Port))
					if err := settled(c, m, 30*time.Second); err != nil {
						t.Fatalf("%v\n%s", err, tail(m))
					}
					_ = c.Sim.LinkUp(id, int(r.Port))
					if err := settled(c, m, 30*time.Second); err != nil {
						t.Fatalf("%v\n%s", err, tail(m))
					}
				}
				if err := pathLevels(m.Snap); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// pathLevels checks that the path that the snapshot tells has the tables'
// service level, from hosts and from switches' port 0.
func pathLevels(s *subnet.Snapshot) error {
	for i := range s.Ports {
		if s.Ports[i].EndPort < 0 {
			continue
		}
		src := s.Graph.EndPorts[s.Ports[i].EndPort].Switch
		for l := range s.Graph.LIDOwner {
			e := s.Graph.LIDOwner[l]
			if e == fabric.NoLID || s.EndPortPort[e] == int32(i) {
				continue
			}
			a, ok := s.Path(int32(i), ib.LID(l))
			if !ok || a.SL != s.Tables.PathSL(src, ib.LID(l)) {
				return fmt.Errorf("path from port %v to LID %d: %v, SL %d, want %d", s.Ports[i].GUID, l, ok, a.SL, s.Tables.PathSL(src, ib.LID(l)))
			}
		}
	}
	return nil
}

// TestLaneTablesAfterSingle: a subnet that runs on one lane is changed to an engine
// that needs several while traffic flows: levels 0 stay on lane 0 until all
// tables are there.
func TestLaneTablesAfterSingle(t *testing.T) {
	f := gen(t, "torus", "4x4")
	n := 0
	cfg := TrialConfig()
	cfg.RepathTime = 100 * time.Millisecond
	cfg.ImproveDelay = time.Second
	// The first engine wants all links: one is missing at first.
	cfg.Engines = []route.Engine{wholeLanes{channels: 64, computed: &n}, updn.Engine{}}
	c, err := NewCluster(f, sim.Config{HopLatency: time.Microsecond, OptimizedSL2VL: true})
	if err != nil {
		t.Fatal(err)
	}
	r := cables(f)[3]
	id := f.Nodes[r.Node].ID
	_ = c.Sim.LinkDown(id, int(r.Port))
	m, err := c.Start(firstCA(f), cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	mustUp(t, c, m)
	lanes := 0
	m.OnSend = func(p *mad.Packet) {
		if k := (*ib.MAD)(p.Data); k.AttrID() == smp.AttrSLtoVL && k.Method() == ib.MethodSet {
			lanes++
		}
	}
	_ = c.Sim.LinkUp(id, int(r.Port))
	c.Run(3 * time.Second)
	if err := settled(c, m, 30*time.Second); err != nil {
		t.Fatalf("%v\n%s", err, tail(m))
	}
	if m.Snap.Engine != "wholelanes" || m.Snap.Tables.NumVLs < 2 {
		t.Fatalf("engine %s, %d lanes\n%s", m.Snap.Engine, m.Snap.Tables.NumVLs, strings.Join(m.Events(sm.Info), "\n"))
	}
	if lanes == 0 {
		t.Error("no SL-to-VL table was set")
	}
}

// wholeLanes is torus for a fabric with all its channels.
type wholeLanes struct {
	torus.Engine
	channels int
	computed *int
}

func (wholeLanes) Name() string { return "wholelanes" }

func (e wholeLanes) Compute(g *fabric.Graph, o route.Options) (*route.Tables, error) {
	*e.computed++
	if len(g.Channels) < e.channels {
		return nil, fmt.Errorf("a link is missing")
	}
	return e.Engine.Compute(g, o)
}
