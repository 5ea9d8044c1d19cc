package lab

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/route"
	"heddle/route/check"
	"heddle/route/engine/minhop"
	"heddle/sim"
	"heddle/sm"
)

// watch judges what all switches hold after every change of a table while
// links between switches are Active: no loop and no credit cycle.
type watch struct {
	c    *Cluster
	err  error
	seen int
}

func watchTables(c *Cluster) *watch {
	w := &watch{c: c}
	c.Sim.OnChange = func(ch sim.Change) {
		if w.err == nil && ch.Kind == sim.ChangeSet && ch.Attr == smp.AttrLFT {
			w.look(ch)
		}
	}
	return w
}

func (w *watch) look(ch sim.Change) {
	if !w.busy() {
		return
	}
	w.seen++
	g, rows := w.c.Sim.Graph()
	for s := range rows {
		for l, p := range rows[s] {
			if p != 0 && p != route.Drop && !w.carries(g.Switches[s].GUID, int(p)) {
				rows[s][l] = route.Drop
			}
		}
	}
	sub, lft, err := part(g, rows, func(ib.GUID) bool { return true })
	if err != nil {
		return // in the middle of a fault
	}
	t := &route.Tables{Engine: "held", LFT: lft, TopLID: sub.TopLID, NumVLs: 1}
	rep := check.Verify(sub, t, check.Options{})
	if rep.Loops > 0 || rep.CreditCycles > 0 {
		w.err = fmt.Errorf("at %v, after block %d of %s: %d loops, %d credit cycles", w.c.Sim.Now(), ch.AttrMod,
			w.c.Fabric.Nodes[ch.Node].ID, rep.Loops, rep.CreditCycles)
	}
}

// carries reports whether data can leave by a port of the switch with GUID g.
func (w *watch) carries(g ib.GUID, port int) bool {
	for i := range w.c.Fabric.Nodes {
		if n := &w.c.Fabric.Nodes[i]; n.GUID == g {
			return port <= n.NumPorts && w.c.Sim.PortInfo(i, port).PortState == ib.StateActive
		}
	}
	return false
}

// busy reports whether data may flow between switches.
func (w *watch) busy() bool {
	for _, r := range cables(w.c.Fabric) {
		if w.c.Sim.PortInfo(int(r.Node), int(r.Port)).PortState == ib.StateActive {
			return true
		}
	}
	return false
}

// TestInPlace: while links fail and return the switches never hold
// tables that loop or can deadlock.
func TestInPlace(t *testing.T) {
	first, n := seeds(12, 400)
	seen := 0
	for seed := first; seed < first+n; seed++ {
		var f *fabric.Fabric
		net := pick(seed, "net", "torus 4x4", "torus 3x3", "irregular 16", "xgft 2 3,4 1,3", "ring")
		if net != "ring" {
			f = makeNet(net, stream(seed, "fabric").Uint64())
		} else {
			var b fabric.Builder
			for i := range 8 {
				b.AddSwitch(fmt.Sprintf("S%d", i), 4)
			}
			for i := range 8 {
				b.Connect(i, 1, b.AddCA(fmt.Sprintf("H%d", i), 1), 1)
				b.Connect(i, 2, (i+1)%8, 3)
			}
			f, _ = b.Build()
		}
		chain := pick(seed, "chain", RepairChains()[:4]...) // whose tables need one lane
		cfg := TrialConfig()
		cfg.Engines, cfg.Explicit = chain.Engines, len(chain.Engines) == 1
		cfg.Transition = sm.TransitionStrict
		c, m := bringUp(t, f, timed(seed), cfg)
		if pick(seed, "loss", true, false, false) {
			c.Sim.SetDrop(0.02)
		}
		w := watchTables(c)
		rng := rand.New(rand.NewPCG(seed, 5))
		cab := cables(f)
		for range 10 {
			r := cab[rng.IntN(len(cab))]
			if rng.IntN(2) == 0 {
				_ = c.Sim.LinkDown(f.Nodes[r.Node].ID, int(r.Port))
			} else {
				for _, r := range cab {
					_ = c.Sim.LinkUp(f.Nodes[r.Node].ID, int(r.Port))
				}
			}
			c.Run(time.Duration(rng.IntN(1500)) * time.Millisecond)
		}
		c.Sim.SetDrop(0)
		if err := settled(c, m, 30*time.Second); err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, tail(m))
		}
		if w.err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, w.err, tail(m))
		}
		seen += w.seen
	}
	if seen == 0 {
		t.Error("nothing was changed under traffic")
	}
}

// TestForced: every forced mode of changing tables succeeds. The mode of 2003 takes links down,
// the others never do.
func TestForced(t *testing.T) {
	for _, way := range []sm.Transition{sm.TransitionAvailability, sm.TransitionStrict, sm.TransitionDiscard, sm.TransitionStatic, sm.TransitionStatic2003} {
		for _, train := range []time.Duration{0, 300 * time.Millisecond} {
			t.Run(fmt.Sprint(way, train), func(t *testing.T) {
				f := gen(t, "torus", "4x4")
				cfg := TrialConfig()
				cfg.Transition = way
				sc := timed(1)
				sc.TrainDelay = train
				c, m := bringUp(t, f, sc, cfg)
				w := watchTables(c)
				lost := 0
				r := cables(f)[7]
				_ = c.Sim.LinkDown(f.Nodes[r.Node].ID, int(r.Port))
				see := c.Sim.OnChange
				c.Sim.OnChange = func(ch sim.Change) {
					see(ch)
					if ch.Kind == sim.ChangeState && ch.Old == ib.StateActive {
						lost++
					}
				}
				c.Run(4 * time.Second)
				mustSettle(t, c, m, 30*time.Second)
				if w.err != nil {
					t.Errorf("%v\n%s", w.err, tail(m))
				}
				if lost > 0 != (way == sm.TransitionStatic2003) {
					t.Errorf("%d ports left Active", lost)
				}
				sweeps := m.Status().Sweeps
				c.Run(time.Minute)
				if n := m.Status().Sweeps - sweeps; n > 1 {
					t.Errorf("%d more sweeps\n%s", n, tail(m))
				}
			})
		}
	}
}

// TestExplicit: tables of an explicitly named engine that fail verification are refused, unless
// unverified tables are allowed.
func TestExplicit(t *testing.T) {
	f := gen(t, "torus", "4x4")
	for _, unsafe := range []bool{false, true} {
		c, err := NewCluster(f, timed(1))
		if err != nil {
			t.Fatal(err)
		}
		cfg := TrialConfig()
		cfg.Engines, cfg.Explicit, cfg.AllowUnsafe = []route.Engine{minhop.Engine{}}, true, unsafe
		m, err := c.Start(firstCA(f), cfg, nil)
		if err != nil {
			t.Fatal(err)
		}
		c.Run(20 * time.Second)
		if m.Up() != unsafe || (c.Sim.Stats().LFTSets > 0) != unsafe {
			t.Errorf("unsafe %v: up %v, %d blocks written\n%s", unsafe, m.Up(), c.Sim.Stats().LFTSets, tail(m))
		}
		if unsafe && len(told(m, sm.KindUnsafe)) == 0 || !unsafe && len(told(m, sm.KindRouteRefused)) == 0 {
			t.Errorf("unsafe %v: not told", unsafe)
		}
		if unsafe {
			continue
		}
		if n := m.Status().Sweeps; n > 12 {
			t.Errorf("%d sweeps in vain", n)
		}
		// A subnet that runs keeps what it has.
		c, m = bringUp(t, f, timed(1), TrialConfig())
		m.Kill()
		before := c.Sim.Stats()
		n, err := c.Start(m.Node, cfg, m.Store.Reopen())
		if err != nil {
			t.Fatal(err)
		}
		c.Run(20 * time.Second)
		after := c.Sim.Stats()
		if after.LFTSets != before.LFTSets || after.PortTransitions != before.PortTransitions {
			t.Errorf("a running subnet: up %v, %d blocks", n.Up(), after.LFTSets-before.LFTSets)
		}
	}
}

// TestStorm: an agent that repeats traps and a link that flaps cost a
// bounded number of sweeps and do not hide a real change.
func TestStorm(t *testing.T) {
	f := gen(t, "torus", "3x3")
	for _, trap := range []uint16{smp.TrapPortStateChange, smp.TrapLocalChange, smp.TrapLocalPhyErrors, smp.TrapBadMKey, smp.TrapSystemImageGUID} {
		c, m := bringUp(t, f, timed(1), TrialConfig())
		sw := f.Nodes[switches(f)[4]].ID
		before := m.Status()
		for i := range 200 {
			c.Sim.After(time.Duration(i)*100*time.Millisecond, func() { _ = c.Sim.InjectTrap(sw, 0, trap) })
		}
		said := len(m.Notices)
		c.Run(20 * time.Second)
		after := m.Status()
		if n := after.Sweeps - before.Sweeps; n > 60 {
			t.Errorf("trap %d: %d sweeps", trap, n)
		}
		if n := len(m.Notices) - said; n > 150 {
			t.Errorf("trap %d: %d notices", trap, n)
		}
		if trap != smp.TrapPortStateChange && len(told(m, sm.KindTrapStorm)) == 0 && after.Traps-before.Traps > 12 {
			t.Errorf("trap %d: storm of %d not told\n%s", trap, after.Traps-before.Traps, tail(m))
		}
		r := cables(f)[5]
		_ = c.Sim.LinkDown(f.Nodes[r.Node].ID, int(r.Port))
		c.Run(7 * time.Second)
		mustSettle(t, c, m, 10*time.Second)
	}
}

// TestFlaps: a thousand flaps of a link do not make the manager grow.
func TestFlaps(t *testing.T) {
	f := gen(t, "torus", "3x3")
	c, m := bringUp(t, f, timed(1), TrialConfig())
	r := cables(f)[5]
	flaps := func(n int) uint64 {
		for range n {
			_ = c.Sim.LinkDown(f.Nodes[r.Node].ID, int(r.Port))
			c.Run(300 * time.Millisecond)
			_ = c.Sim.LinkUp(f.Nodes[r.Node].ID, int(r.Port))
			c.Run(300 * time.Millisecond)
			m.Notices = m.Notices[:0]
		}
		mustSettle(t, c, m, 30*time.Second)
		runtime.GC()
		var ms runtime.MemStats
		runtime.ReadMemStats(&ms)
		return ms.HeapAlloc
	}
	a := flaps(200)
	b := flaps(1000)
	if b > a+a/4+200<<10 {
		t.Errorf("%d kB after 200 flaps, %d kB after 1,200", a>>10, b>>10)
	}
	if s := m.Status(); s.Sweeps > 3000 {
		t.Errorf("%d sweeps for 1,200 flaps", s.Sweeps)
	}
}
