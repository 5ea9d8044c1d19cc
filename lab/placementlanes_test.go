package lab

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"heddle/ib"
	"heddle/mad"
	"heddle/route"
	"heddle/route/engine/lash"
	"heddle/route/engine/sssp"
	"heddle/route/engine/torus"
	"heddle/route/engine/updn"
	"heddle/sim"
	"heddle/sm"
	"heddle/subnet"
)

// TestPlacementLanes: addresses come, move and go where tables need several lanes: the
// switches' tables deliver every LID without deadlock on the lanes that their SL-to-VL tables
// hold, VMs reach each other at the service levels of the SA's path records, and a level in use
// changes only for hosts that had RepathTime to learn of it.
func TestPlacementLanes(t *testing.T) {
	for _, x := range []struct {
		net string
		e   route.Engine
	}{
		{"torus 3x3", torus.Engine{}}, {"torus 5x5", sssp.DFEngine{}}, {"torus 5x5", lash.Engine{}},
	} {
		for _, mode := range []subnet.MoveMode{subnet.MoveAuto, subnet.MoveMinimal, subnet.MoveBalanced} {
			t.Run(fmt.Sprintf("%s/%v", x.e.Name(), mode), func(t *testing.T) {
				k := laneCloud(t, x.net, x.e)
				w := watchFlights(k.Cluster, k.m, &k.cfg)
				w.slack = time.Second // addresses that move are away for a while
				names := []string{"a", "b", "c", "d"}
				for i, n := range names {
					k.put(n, 1+2*i, 1, subnet.OwnLID)
				}
				k.set(subnet.PlacementPlaced, k.all()...)
				k.lanes()
				for i, n := range names {
					for step := range 3 {
						l := k.move(n, 1+(2*i+3*step+3)%8, 2+i)
						l.Mode = mode
						k.Run(100 * time.Millisecond)
						k.set(subnet.PlacementPlaced, l)
						k.lanes()
					}
				}
				gone := k.placement["b"]
				if err := k.Sim.RemoveVM("b"); err != nil {
					t.Fatal(err)
				}
				r, _ := k.last(gone.GUID)
				k.m.SetPlacements(sm.SetPlacements{Drop: []ib.GUID{gone.GUID}})
				k.vms = []string{"a", "c", "d"}
				k.Run(5 * time.Second)
				k.up()
				if x := k.m.Snap.PortByGUID(gone.GUID); x >= 0 {
					t.Errorf("the snapshot has the GUID of a placement that ended at port %d", x)
				}
				if x := k.m.Snap.PortByLID(r.LID); r.LID == 0 || x >= 0 {
					t.Errorf("LID %v of a placement that ended is at port %d", r.LID, x)
				}
				k.lanes()
				if w.err != nil || w.looks == 0 {
					t.Errorf("after %d looks: %v\n%s", w.looks, w.err, tail(k.m))
				}
			})
		}
	}
}

// laneCloud is a cloud on a network of that kind, with a VSwitch at every host.
func laneCloud(t *testing.T, net string, e route.Engine) *cloud {
	t.Helper()
	words := strings.Fields(net)
	f := gen(t, words[0], words[1:]...)
	c, err := NewCluster(f, sim.Config{Seed: 1, HopLatency: time.Microsecond, SMALatency: 5 * time.Microsecond, OptimizedSL2VL: true})
	if err != nil {
		t.Fatal(err)
	}
	k := &cloud{t: t, Cluster: c, cfg: TrialConfig(), placement: map[string]subnet.Placement{}, serves: true}
	k.cfg.Engines = []route.Engine{e, updn.Engine{}}
	k.cfg.RepathTime = 100 * time.Millisecond
	k.cfg.Transition = sm.TransitionStrict
	for i := range f.Nodes {
		if n := &f.Nodes[i]; !n.IsSwitch() && n.Ports[1].Cabled() {
			k.hosts = append(k.hosts, n.ID)
		}
	}
	for _, n := range k.hosts[1:] {
		if err := c.Sim.AddHypervisor(n, 1, sim.Hypervisor{Model: sim.VSwitch, VFs: 6}); err != nil {
			t.Fatal(err)
		}
	}
	k.start(nil)
	k.up()
	if s := k.m.Snap; s.Engine != e.Name() || s.Tables.NumVLs < 2 {
		t.Fatalf("engine %s with %d lanes, want %s with several: %v", s.Engine, s.Tables.NumVLs, e.Name(), s.PassedOver)
	}
	return k
}

// lanes judges tables, lanes and service levels as they are now.
func (k *cloud) lanes() {
	k.t.Helper()
	k.checkTables()
	if err := pathLevels(k.m.Snap); err != nil {
		k.t.Fatal(err)
	}
	for _, a := range k.vms {
		for _, b := range k.vms {
			if a == b {
				continue
			}
			from, _ := k.Sim.VM(a)
			to, _ := k.Sim.VM(b)
			r, err := k.m.Path(mad.Addr{LID: from.LID, QP: 1, HasGRH: true, GRH: mad.GRH{GID: from.GID}}, from.GID, to.GID, cloudKey)
			if err != nil {
				k.t.Fatal(err)
			}
			x := k.m.Snap.PortByGUID(from.GID.GUID())
			e := &k.m.Snap.Graph.EndPorts[k.m.Snap.Ports[x].EndPort]
			if want := k.m.Snap.Tables.PathSL(e.Switch, to.LID); r.DLID != to.LID || r.SLID != from.LID || r.SL != want {
				k.t.Fatalf("%s to %s: the SA says LID %v to %v at SL %d, want %v to %v at SL %d", a, b, r.SLID, r.DLID, r.SL, from.LID, to.LID, want)
			}
			p, err := k.Sim.Probe(from.At, mad.Addr{LID: r.DLID, SL: r.SL}, cloudKey)
			if err != nil {
				k.t.Fatal(err)
			}
			if err := k.RunUntil(time.Second, func() bool { return p.Done }); err != nil || !p.Answered || p.At != to.At {
				k.t.Fatalf("%s to %s: %v", a, b, p)
			}
		}
	}
}
