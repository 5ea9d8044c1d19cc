package lab

import (
	"testing"
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sim"
	"heddle/store"
)

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
