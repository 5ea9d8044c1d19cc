package lab

import (
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
	at := int32(f.Find(sw))
	var links []fabric.Ref
	var actions []subnet.PortAction
	for _, a := range trunks(f) {
		if a.Node != at || routesOver(c, a) == 0 {
			continue
		}
		links, actions = append(links, a), append(actions, action(f, subnet.Drain, a))
		m.SetPortActions(actions...)
		c.Run(20 * time.Millisecond)
		if m.Status().Phase == notice.PhaseDrain {
			return c, m, links
		}
	}
	t.Fatalf("%d links drained, nothing waits\n%s", len(links), strings.Join(m.Events(sm.Info), "\n"))
	return nil, nil, nil
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
			settle(t, c, m)
			if n := lastNotice(m, sm.KindTransientCycle); n != nil {
				t.Errorf("%v\n%s", n, said())
			}
		})
	}
}
