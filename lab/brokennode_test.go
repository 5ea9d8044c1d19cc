package lab

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"heddle/ib"
	"heddle/sim"
	"heddle/sm"
)

// upWithout waits until the manager calls the subnet up and is idle.
func upWithout(t testing.TB, c *Cluster, m *Manager, limit time.Duration) {
	t.Helper()
	if err := c.RunUntil(limit, func() bool { return m.Up() && m.Idle() }); err != nil {
		t.Fatalf("%v: %+v\n%s", err, m.Status(), tail(m))
	}
}

// healthyDelivered checks by tracing what the switches hold that all pairs of
// end ports reach each other, but for the nodes in without.
func healthyDelivered(c *Cluster, without ...string) error {
	out := map[int]bool{}
	for _, id := range without {
		i, err := c.Sim.Node(id)
		if err != nil {
			return err
		}
		out[i] = true
	}
	lids := c.Sim.LIDs()
	have := map[int]bool{}
	for _, a := range lids {
		have[a.Node] = true
		for _, b := range lids {
			if a == b || out[a.Node] || out[b.Node] {
				continue
			}
			for k := range 1 << b.LMC {
				if _, err := c.Sim.Trace(a.Node, int(a.Port), b.LID+ib.LID(k), 0); err != nil {
					return err
				}
			}
		}
	}
	for i := range c.Fabric.Nodes {
		if !have[i] && !out[i] && c.Sim.Up(i) {
			return fmt.Errorf("%s has no LID", c.Fabric.Nodes[i].ID)
		}
	}
	seen := map[ib.LID]ib.GUID{}
	for _, a := range lids {
		for k := range 1 << a.LMC {
			l := a.LID + ib.LID(k)
			if g, ok := seen[l]; ok && !out[a.Node] {
				return fmt.Errorf("LID %v is used by %v and %v", l, g, a.GUID)
			}
			seen[l] = a.GUID
		}
	}
	return nil
}

// TestBrokenNodes: one node that misbehaves is reported and left out;
// everything that can be reached without it comes up.
func TestBrokenNodes(t *testing.T) {
	f := gen(t, "torus", "3x3")
	hosts := cas(f)
	sws := switches(f)
	host, sw := hosts[4], f.Nodes[sws[4]].ID
	behind := ""
	for p := range f.Nodes[sws[4]].Ports {
		if q := f.Nodes[sws[4]].Ports[p].Peer; f.Nodes[sws[4]].Ports[p].Cabled() && !f.Nodes[q.Node].IsSwitch() {
			behind = f.Nodes[q.Node].ID
		}
	}
	for _, x := range []struct {
		name string
		q    sim.Quirks
		kind sm.Kind
	}{
		{"mute", sim.Quirks{Mute: true}, sm.KindNodeSilent},
		{"garbage", sim.Quirks{Garbage: true}, sm.KindNodeGarbage},
		{"wrong tid", sim.Quirks{WrongTID: true}, sm.KindNodeGarbage},
		{"wrong attr", sim.Quirks{WrongAttr: true}, sm.KindNodeGarbage},
		{"local port beyond", sim.Quirks{LocalPort: func(uint8) uint8 { return 200 }}, sm.KindNodeGarbage},
		{"local port zero", sim.Quirks{LocalPort: func(uint8) uint8 { return 0 }}, sm.KindNodeGarbage},
		{"tiny table", sim.Quirks{LinearFDBCap: 4}, sm.KindTableTooSmall},
	} {
		for _, node := range []string{host, sw} {
			if node == host && x.q.LinearFDBCap != 0 {
				continue
			}
			t.Run(x.name+" "+node, func(t *testing.T) {
				c, err := NewCluster(f, timed(3))
				if err != nil {
					t.Fatal(err)
				}
				if err := c.Sim.SetQuirks(node, &x.q); err != nil {
					t.Fatal(err)
				}
				m, err := c.Start(hosts[0], TrialConfig(), nil)
				if err != nil {
					t.Fatal(err)
				}
				upWithout(t, c, m, 30*time.Second)
				without := []string{node}
				if node == sw {
					without = append(without, behind)
				}
				if err := healthyDelivered(c, without...); err != nil {
					t.Errorf("%v\n%s", err, tail(m))
				}
				if k := told(m, x.kind); len(k) == 0 {
					t.Errorf("no %v among\n%s", x.kind, tail(m))
				} else if !strings.Contains(k[0], "path") {
					t.Errorf("no path: %s", k[0])
				}
				// Healed, it joins.
				if err := c.Sim.SetQuirks(node, nil); err != nil {
					t.Fatal(err)
				}
				mustSettle(t, c, m, 30*time.Second)
			})
		}
	}
}

// TestTurnsBad: a node that misbehaves only after the subnet is up.
func TestTurnsBad(t *testing.T) {
	f := gen(t, "torus", "3x3")
	hosts := cas(f)
	sw := f.Nodes[switches(f)[4]].ID
	for _, x := range []struct {
		name string
		q    sim.Quirks
	}{
		{"mute", sim.Quirks{Mute: true}},
		{"garbage", sim.Quirks{Garbage: true}},
		{"wrong tid", sim.Quirks{WrongTID: true}},
		{"wrong attr", sim.Quirks{WrongAttr: true}},
		{"tiny table", sim.Quirks{LinearFDBCap: 4}},
		{"local port", sim.Quirks{LocalPort: func(uint8) uint8 { return 1 }}},
	} {
		for _, node := range []string{hosts[5], sw} {
			t.Run(x.name+" "+node, func(t *testing.T) {
				c, m := bringUp(t, f, timed(5), TrialConfig())
				if err := c.Sim.SetQuirks(node, &x.q); err != nil {
					t.Fatal(err)
				}
				m.Sweep(false)
				c.Run(5 * time.Second)
				r := cables(f)[3]
				_ = c.Sim.LinkDown(f.Nodes[r.Node].ID, int(r.Port))
				c.Run(5 * time.Second)
				upWithout(t, c, m, 30*time.Second)
				if err := c.Sim.SetQuirks(node, nil); err != nil {
					t.Fatal(err)
				}
				mustSettle(t, c, m, 40*time.Second)
			})
		}
	}
}

// TestDuplicateGUID: two nodes of one GUID; the rest comes up and the
// notice names both places.
func TestDuplicateGUID(t *testing.T) {
	f := gen(t, "torus", "3x3")
	hosts := cas(f)
	sws := switches(f)
	for _, x := range [][2]string{
		{hosts[3], hosts[5]},
		{f.Nodes[sws[3]].ID, f.Nodes[sws[7]].ID},
		{hosts[3], f.Nodes[sws[5]].ID},
		{f.Nodes[sws[5]].ID, hosts[3]},
		{hosts[5], hosts[0]},
	} {
		t.Run(strings.Join(x[:], " "), func(t *testing.T) {
			c, err := NewCluster(f, timed(3))
			if err != nil {
				t.Fatal(err)
			}
			a, _ := c.Sim.Node(x[0])
			b, _ := c.Sim.Node(x[1])
			if err := c.Sim.SetQuirks(x[0], &sim.Quirks{NodeGUID: f.Nodes[b].GUID}); err != nil {
				t.Fatal(err)
			}
			m, err := c.Start(hosts[0], TrialConfig(), nil)
			if err != nil {
				t.Fatal(err)
			}
			upWithout(t, c, m, 30*time.Second)
			without := []string{x[0], x[1]}
			for _, n := range []int{a, b} {
				for p := 1; f.Nodes[n].IsSwitch() && p <= f.Nodes[n].NumPorts; p++ {
					if f.Nodes[n].Ports[p].Cabled() && !f.Nodes[f.Nodes[n].Ports[p].Peer.Node].IsSwitch() {
						without = append(without, f.Nodes[f.Nodes[n].Ports[p].Peer.Node].ID)
					}
				}
			}
			if err := healthyDelivered(c, without...); err != nil {
				t.Errorf("%v\n%s", err, tail(m))
			}
			k := told(m, sm.KindDuplicateGUID)
			if len(k) == 0 {
				t.Errorf("not told\n%s", tail(m))
			}
			if err := c.Sim.SetQuirks(x[0], nil); err != nil {
				t.Fatal(err)
			}
			upWithout(t, c, m, 30*time.Second)
			c.Run(30 * time.Second)
			if err := settled(c, m, 30*time.Second); err != nil && !strings.Contains(err.Error(), "changed") {
				t.Fatalf("%v\n%s", err, tail(m))
			}
		})
	}
}
