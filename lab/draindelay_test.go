package lab

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/sim"
	"heddle/sm"
	"heddle/sm/notice"
	"heddle/subnet"
)

// waitingDrain brings a subnet up and drains links of the switch sw until the manager waits for packets to leave.
func waitingDrain(t *testing.T, sw string, kind string, params ...string) (*Cluster, *Manager, []fabric.Ref) {
	t.Helper()
	f := gen(t, kind, params...)
	c, m := bringUp(t, f, sim.Config{HopLatency: time.Microsecond}, DefaultConfig())
	mustUp(t, c, m)
	return c, m, drainUntilWait(t, c, m, sw)
}

func drainUntilWait(t *testing.T, c *Cluster, m *Manager, sw string) (links []fabric.Ref) {
	t.Helper()
	f := c.Fabric
	at := int32(f.Find(sw))
	var actions []subnet.PortAction
	for _, a := range trunks(f) {
		if a.Node != at || routesOver(c, a) == 0 {
			continue
		}
		links, actions = append(links, a), append(actions, action(f, subnet.Drain, a))
		m.SetPortActions(actions...)
		c.Run(20 * time.Millisecond)
		if m.Status().Phase == notice.PhaseDrain {
			return links
		}
	}
	t.Fatalf("%d links drained, nothing waits\n%s", len(links), strings.Join(m.Events(sm.Info), "\n"))
	return nil
}

// TestDrainGivesWay: while packets leave links that are drained, a host that restarts is brought up as if nothing
// waited, and P_Keys change. No state on the way has a cycle, and the drain goes on afterwards.
func TestDrainGivesWay(t *testing.T) {
	for _, x := range []struct {
		name, sw, kind string
		params         []string
	}{{"fattree", "sw-1-1", "fattree", []string{"324"}}, {"torus", "sw-0-0", "torus", []string{"6x6"}}} {
		t.Run(x.name, func(t *testing.T) {
			c, m, links := waitingDrain(t, x.sw, x.kind, x.params...)
			f := c.Fabric
			said := func() string { return strings.Join(m.Events(sm.Info), "\n") }
			wait := m.Status().WaitsUntil.Sub(c.Sim.Now())
			if wait < 5*time.Second {
				t.Fatalf("waits %v only", wait)
			}
			var host string
			for i := range f.Nodes {
				if !f.Nodes[i].IsSwitch() && f.Nodes[i].ID != m.Node {
					host = f.Nodes[i].ID
				}
			}
			if err := powerCycle(c, host); err != nil {
				t.Fatal(err)
			}
			node, _ := c.Sim.Node(host)
			began := c.Sim.Now()
			if err := c.RunUntil(wait, func() bool { p := c.Sim.PortInfo(node, 1); return p.PortState == ib.StateActive && p.LID != 0 }); err != nil {
				t.Fatalf("%v\n%s", err, said())
			}
			up := c.Sim.Now().Sub(began)
			t.Logf("%s is up after %v of a wait of %v", host, up, wait)
			if up > time.Second {
				t.Errorf("the host waited\n%s", said())
			}
			if n := len(m.Status().PutOff); n == 0 {
				t.Errorf("no link is put off\n%s", said())
			}
			emptied := func() bool {
				for _, l := range links {
					if routesOver(c, l) > 0 {
						return false
					}
				}
				return true
			}
			if err := c.RunUntil(5*time.Minute, func() bool { return m.Status().Phase == notice.PhaseDrain || emptied() }); err != nil {
				t.Fatal(err)
			}
			began = c.Sim.Now()
			m.SetPartitions(policyOf(t, c, "Default:ALL=full; b=5:H3,H4=full;"), 7)
			applied := func() bool { n := lastNotice(m, sm.KindPartitionsApplied); return n != nil && n.Tag == 7 }
			if err := c.RunUntil(wait, applied); err != nil {
				t.Fatalf("%v\n%s", err, said())
			}
			t.Logf("partitions applied after %v", c.Sim.Now().Sub(began))
			if err := c.RunUntil(10*time.Minute, emptied); err != nil {
				t.Fatalf("%v\n%s", err, said())
			}
			if !strings.Contains(said(), "sweep_start: a change of routes that gave way goes on") {
				t.Errorf("no event says why the drain goes on\n%s", said())
			}
			settle(t, c, m)
			if n := lastNotice(m, sm.KindTransientCycle); n != nil {
				t.Errorf("%v\n%s", n, said())
			}
		})
	}
}

// TestMoveDuringDrain: a VM that moves while packets leave a drained link is reached at its new place at once.
func TestMoveDuringDrain(t *testing.T) {
	for _, chain := range RepairChains() {
		if chain.Name != "updn" {
			continue
		}
		k := moveCloud(t, "torus", []string{"6x6", "hosts=2"}, chain)
		k.start(nil)
		k.up()
		k.put("v", k.social(5), 1, subnet.OwnLID)
		k.set(subnet.PlacementPlaced, k.all()...)
		k.Run(5 * time.Minute) // nothing is in flight
		drainUntilWait(t, k.Cluster, k.m, "sw-0-0")
		wait := k.m.Status().WaitsUntil.Sub(k.Sim.Now())
		if wait < 5*time.Second {
			t.Fatalf("waits %v only", wait)
		}
		l := k.move("v", k.social(30), 2)
		r, _ := k.last(l.GUID)
		began := k.Sim.Now()
		k.m.SetPlacements(sm.SetPlacements{Put: []subnet.Placement{l}})
		if err := k.RunUntil(wait, func() bool {
			s, _ := k.Sim.VM("v")
			return s.State == ib.StateActive && s.LID == r.LID && k.delivers(r.LID, l.Place.Port)
		}); err != nil {
			t.Fatalf("%v\n%s", err, k.reports())
		}
		took := k.Sim.Now().Sub(began)
		t.Logf("moved after %v of a wait of %v", took, wait)
		if took > 100*time.Millisecond {
			t.Errorf("the VM waited\n%s", k.reports())
		}
		if n := lastNotice(k.m, sm.KindTransientCycle); n != nil {
			t.Error(n)
		}
		k.wait(subnet.PlacementPlaced, l)
		return
	}
	t.Fatal("no such engine")
}

// TestDrainFaults: links are drained and restored while hosts restart, and now and then links and switches fail and the
// manager dies, with the intervals and lifetimes of `heddle sm`: changes wait for packets, give way and go on. At the end
// the switches hold tables that deliver everything and have no cycle, and no entry leads over a drained link that is
// not the last to a part of the subnet.
func TestDrainFaults(t *testing.T) {
	first, n := seeds(40, 10_000)
	gaveWay, empty := 0, 0
	for s := first; s < first+n; s++ {
		tr := trial(s)
		rng := rand.New(rand.NewPCG(s, 0x6472))
		tr.Production, tr.Span, tr.Settle = true, time.Duration(1+rng.IntN(4))*time.Minute, 40*time.Minute
		tr.Drains, tr.Restarts, tr.Faults, tr.Kills = 1+rng.IntN(6), 1+rng.IntN(8), rng.IntN(3), rng.IntN(2)
		if err := tr.Run(); err != nil {
			t.Errorf("replay with HEDDLE_SEED=%d\n%s", s, tr.Report(err))
			return
		}
		if err := tr.c.RunUntil(time.Hour, func() bool { return len(tr.m.Status().PutOff) == 0 && tr.m.Idle() }); err != nil && tr.m.linked() {
			t.Errorf("links are put off without end\n%s", tr.Report(err))
			return
		}
		gaveWay += len(told(tr.m, sm.KindGaveWay))
		if len(told(tr.m, sm.KindDrainKept)) > 0 || !tr.m.linked() {
			continue
		}
		for i := range tr.drained {
			a := &tr.drained[i]
			at := fabric.Ref{Node: int32(tr.Fabric.FindGUID(a.Node)), Port: a.Port}
			if node, _ := tr.c.Sim.Node(tr.Fabric.Nodes[at.Node].ID); tr.c.Sim.PortInfo(node, int(at.Port)).PortState < ib.StateActive {
				continue // nothing leads anywhere
			}
			if k := routesOver(tr.c, at); k > 0 {
				t.Errorf("seed %d: %d entries lead over a drained link\n%s", s, k, tr.Report(nil))
			}
			empty++
		}
	}
	t.Logf("%d changes gave way, %d drained links are empty", gaveWay, empty)
	if n > 20 && (gaveWay == 0 || empty == 0) {
		t.Error("this proves nothing")
	}
}

// TestPutOffWithoutLink: a manager whose own port has no link when a drain is to go on waits for the link, and then drains.
func TestPutOffWithoutLink(t *testing.T) {
	c, m, links := waitingDrain(t, "sw-1-1", "fattree", "324")
	if err := powerCycle(c, "host-324"); err != nil {
		t.Fatal(err)
	}
	c.Run(time.Second)
	if len(m.Status().PutOff) == 0 {
		t.Fatal("no link is put off")
	}
	if err := c.Sim.LinkDown(m.Node, 1); err != nil {
		t.Fatal(err)
	}
	end := c.Sim.Now().Add(5 * time.Minute)
	for n := 0; c.Sim.NextEvent() < end; n++ {
		if n == 1_000_000 {
			t.Fatalf("the manager does not stop trying at %v", c.Sim.Now())
		}
		c.Sim.Step()
	}
	if err := c.Sim.LinkUp(m.Node, 1); err != nil {
		t.Fatal(err)
	}
	if err := c.RunUntil(5*time.Minute, func() bool { return m.Up() && m.Idle() && len(m.Status().PutOff) == 0 }); err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		if n := routesOver(c, l); n > 0 {
			t.Errorf("%d entries lead over %v", n, l)
		}
	}
}
