package lab

import (
	"fmt"
	"testing"
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sim"
	"heddle/store"
)

// guardsLeft says which switch discards service level 0 between links though the tables of the
// manager do not say so; "": none.
func guardsLeft(c *Cluster, m *Manager) string {
	g := m.Snap.Graph
	for s := range g.Switches {
		sw := c.Fabric.FindGUID(g.Switches[s].GUID)
		for in, a := range g.PortChannel[s] {
			for out, b := range g.PortChannel[s] {
				if in == out || a < 0 || b < 0 {
					continue
				}
				var row *[16]ib.VL
				if l := m.Snap.Tables.Lanes; l != nil {
					row = l.Row(int32(s), uint8(in), uint8(out))
				}
				if c.Sim.SLtoVL(sw, uint8(in), uint8(out))[0] == 15 && (row == nil || row[0] != 15) {
					return fmt.Sprintf("%s discards packets from port %d to %d", c.Fabric.Nodes[sw].ID, in, out)
				}
			}
		}
	}
	return ""
}

// TestGuardsOfLostTurn: a link is lost while a switch guards a turn from it. The guard goes when
// the link is back, though tables were replaced without it meanwhile.
func TestGuardsOfLostTurn(t *testing.T) {
	lost := 0
	for k := range meshCables {
		b := newHostbed(t, meshOfSix(t), 1, HostDefaults(), quickStrict)
		b.Run(2 * time.Millisecond)
		if err := b.Sim.LinkDown("S2", 2); err != nil {
			t.Fatal(err)
		}
		b.Run(30 * time.Millisecond)
		guards := b.Manager.Snap.Tables.Lanes != nil
		if err := b.Sim.LinkUp("S2", 2); err != nil {
			t.Fatal(err)
		}
		b.Run(30 * time.Millisecond)
		_ = b.Sim.LinkDown(meshCables[k].node, meshCables[k].port)
		b.Run(30 * time.Millisecond)
		b.Manager.Reroute(true)
		b.Run(400 * time.Millisecond)
		if err := b.Sim.LinkUp(meshCables[k].node, meshCables[k].port); err != nil {
			t.Fatal(err)
		}
		b.Run(600 * time.Millisecond)
		if guards && b.Manager.Snap.Tables.Lanes == nil {
			lost++
		}
		if w := guardsLeft(b.Cluster, b.Manager); w != "" {
			t.Errorf("cable %v: %s", meshCables[k], w)
		}
	}
	if lost == 0 {
		t.Error("no guards come and go")
	}
}

// TestGuardsOfEarlierManager: a manager died while SL-to-VL tables discarded packets. Its
// successor, whose tables use one lane, finds and mends them, with the store of the dead one
// or with its own, also if the subnet changes meanwhile; and it looks once.
func TestGuardsOfEarlierManager(t *testing.T) {
	for _, own := range []bool{false, true} {
		for _, faulty := range []bool{false, true} {
			f := gen(t, "torus", "3x3")
			c, m := bringUp(t, f, sim.Config{HopLatency: time.Microsecond}, DefaultConfig())
			_, at := hosts(f)
			ep, err := c.Sim.Attach(f.Nodes[at[4]].ID)
			if err != nil {
				t.Fatal(err)
			}
			sw := int(f.Nodes[at[7]].Ports[1].Peer.Node)
			n := m.Snap.NodeByGUID(f.Nodes[sw].GUID)
			var links []uint8
			for i, p := range f.Nodes[sw].Ports {
				if p.Peer.Node >= 0 && i > 0 && f.Nodes[p.Peer.Node].IsSwitch() {
					links = append(links, uint8(i))
				}
			}
			in, out := links[0], links[1]
			guard := smp.SLtoVL{15, 1, 2, 3, 4, 5, 6, 7, 15, 1, 2, 3, 4, 5, 6, 7}
			var k ib.MAD
			smp.NewLID(&k, ib.MethodSet, smp.AttrSLtoVL, smp.SLtoVLMod(in, out), 0)
			guard.Put(smp.Data(&k))
			ep.Send(&mad.Packet{Addr: mad.Addr{LID: m.Snap.NodePorts(n)[0].LID}, Data: k[:]})
			c.Run(time.Second)
			if held := c.Sim.SLtoVL(sw, in, out); held != guard {
				t.Fatalf("the table is %v", held)
			}
			m.Kill()
			var st *store.Memory
			if !own {
				st = m.Store
			}
			next, err := c.Attach(f.Nodes[at[2]].ID, DefaultConfig(), st)
			if err != nil {
				t.Fatal(err)
			}
			got := laneGets(next, func() {
				if err := next.Start(); err != nil {
					t.Fatal(err)
				}
				if faulty {
					c.Run(3 * time.Millisecond)
					r := cables(f)[11]
					_ = c.Sim.LinkDown(f.Nodes[r.Node].ID, int(r.Port))
				}
				mustSettle(t, c, next, time.Minute)
				c.Run(time.Second)
			})
			if held := c.Sim.SLtoVL(sw, in, out); held[0] == 15 || held == guard {
				t.Errorf("own store %v, fault %v: the table stays %v after %d requests", own, faulty, held, got)
			}
			if got := laneGets(next, func() { next.Sweep(true); c.Run(time.Minute) }); got != 0 {
				t.Errorf("%d requests later", got)
			}
			if _, _, err := tablesTrue(c, next); err != nil {
				t.Error(err)
			}
		}
	}
}
