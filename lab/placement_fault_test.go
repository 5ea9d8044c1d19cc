package lab

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sim"
	"heddle/sm"
	"heddle/subnet"
)

// placementModels are the kinds of adapters whose functions have LIDs of their own.
var placementModels = []struct {
	name string
	h    sim.Hypervisor
	cfg  func(*sm.Config)
}{
	{"dynamic", sim.Hypervisor{Model: sim.VSwitch, VFs: 4}, nil},
	{"prepopulated", sim.Hypervisor{Model: sim.VSwitch, VFs: 4}, func(c *sm.Config) { c.VSwitchPrepopulate = true }},
	{"vport", sim.Hypervisor{Model: sim.VPorts, VFs: 4, OwnLIDs: true}, nil},
}

// all are the placements of all VMs.
func (k *cloud) all() (list []subnet.Placement) {
	for _, n := range k.vms {
		list = append(list, k.placement[n])
	}
	return list
}

// TestPlacementKill kills the manager after every packet of a migration; another one, with its
// store or with an empty one, completes it or rolls it back.
func TestPlacementKill(t *testing.T) {
	for _, x := range placementModels {
		for _, how := range []string{"forwards", "back", "without a store", "placements late"} {
			t.Run(x.name+" "+how, func(t *testing.T) {
				killed := 0
				for n := 1; ; n++ {
					k := newCloud(t, 3, 3, x.h, sim.Config{Seed: uint64(n), HopLatency: time.Microsecond, SMALatency: 5 * time.Microsecond}, x.cfg)
					k.up()
					a, b, c := k.put("a", 1, 1, subnet.OwnLID), k.put("b", 4, 2, subnet.OwnLID), k.put("c", 7, 1, subnet.OwnLID)
					k.set(subnet.PlacementPlaced, a, b, c)
					k.check()
					was, _ := k.last(a.GUID)
					moved := k.move("a", 5, 3)
					k.Run(time.Second)
					k.m.KillAfter = n
					k.m.SetPlacements(sm.SetPlacements{Put: []subnet.Placement{moved}})
					k.Run(time.Second)
					if !k.m.Dead {
						if killed < 5 {
							t.Fatalf("the migration took %d packets", killed)
						}
						return
					}
					killed++
					st := k.m.Store
					if how == "without a store" {
						st = nil
					}
					if how == "back" {
						k.move("a", 1, 1)
					}
					k.start(st)
					if how == "placements late" {
						k.up()
						k.Run(time.Second)
					}
					k.m.SetPlacements(sm.SetPlacements{Put: k.all(), All: true})
					k.wait(subnet.PlacementPlaced, k.all()...)
					k.check()
					if now, _ := k.last(a.GUID); now.LID != was.LID && how != "without a store" {
						t.Fatalf("killed after %d packets: LID %v became %v\n%s", n, was.LID, now.LID, tail(k.m))
					}
				}
			})
		}
	}
}

// TestPlacementLoss: with packets lost on the way, and links that fail meanwhile, VMs end at
// the places of their placements.
func TestPlacementLoss(t *testing.T) {
	for _, x := range placementModels {
		for seed := range uint64(6) {
			t.Run(fmt.Sprint(x.name, seed), func(t *testing.T) {
				k := newCloud(t, 3, 3, x.h, sim.Config{Seed: seed, HopLatency: time.Microsecond, SMALatency: 5 * time.Microsecond}, x.cfg)
				k.up()
				k.put("a", 1, 1, subnet.OwnLID)
				k.put("b", 4, 2, subnet.OwnLID)
				k.put("c", 7, 1, subnet.OwnLID)
				k.set(subnet.PlacementPlaced, k.all()...)
				k.Sim.SetDrop(0.05)
				for i, host := range []int{2, 5, 8, 1} {
					ls := []subnet.Placement{k.move("a", host, 3), k.move("b", (host+1)%8+1, 4)}
					k.m.SetPlacements(sm.SetPlacements{Put: ls})
					if i == 1 {
						k.Run(20 * time.Microsecond)
					}
				}
				k.wait(subnet.PlacementPlaced, k.all()...)
				k.Sim.SetDrop(0)
				k.Run(time.Minute)
				k.up()
				k.check()
			})
		}
	}
}

// TestPlacementRefused: an address that the new function refuses stays at the old one.
func TestPlacementRefused(t *testing.T) {
	for _, x := range placementModels {
		t.Run(x.name, func(t *testing.T) {
			k := newCloud(t, 3, 3, x.h, sim.Config{Seed: 1, HopLatency: time.Microsecond}, x.cfg)
			k.up()
			a := k.put("a", 1, 1, subnet.OwnLID)
			k.put("b", 4, 2, subnet.OwnLID)
			k.set(subnet.PlacementPlaced, k.all()...)
			// The VM runs at both ends for a while; the destination is a device that takes
			// no state but its own.
			bad := k.place(5, 3)
			if x.h.Model == sim.VSwitch {
				enableVPort(t, k.Cluster, k.hosts[5], 3)
			} else {
				k.move("a", 5, 3)
				k.placement["a"] = a
			}
			k.Run(time.Second)
			dest := k.Fabric.Find(k.hosts[5])
			count := k.m.OnSend
			k.m.OnSend = func(p *mad.Packet) {
				count(p)
				if m := (*ib.MAD)(p.Data); m.Class().IsSMP() && m.Method() == ib.MethodSet && m.AttrID() == smp.AttrVPortInfo && k.goesTo(p, dest) {
					smp.Data(m)[0] = smp.Data(m)[0]&0x0F | byte(ib.StateInit)<<4
				}
			}
			l := a
			l.Place = bad
			k.set(subnet.PlacementRefused, l)
			if r, _ := k.last(a.GUID); r.Cause != subnet.CauseNotTaken {
				t.Errorf("%+v", r)
			}
			k.m.OnSend = count
			if x.h.Model == sim.VPorts {
				k.move("a", 1, 1)
			}
			k.set(subnet.PlacementPlaced, a)
			k.check()
		})
	}
}

// goesTo reports whether a directed-route packet from the first host ends at a node.
func (k *cloud) goesTo(p *mad.Packet, node int) bool {
	m := (*ib.MAD)(p.Data)
	at := k.Fabric.Find(k.hosts[0])
	for _, out := range smp.InitialPath(m)[1 : 1+int(smp.HopCount(m))] {
		r, ok := k.Sim.Peer(at, int(out))
		if !ok {
			return false
		}
		at = int(r.Node)
	}
	return at == node
}

// TestPlacementDestinationGone: the destination leaves during a move: the VM stays at the old
// place, and can be reached there.
func TestPlacementDestinationGone(t *testing.T) {
	for _, x := range placementModels {
		for n := 1; n <= 8; n++ {
			t.Run(fmt.Sprint(x.name, n), func(t *testing.T) {
				k := newCloud(t, 3, 3, x.h, sim.Config{Seed: 1, HopLatency: time.Microsecond}, x.cfg)
				k.up()
				a := k.put("a", 1, 1, subnet.OwnLID)
				k.put("b", 4, 2, subnet.OwnLID)
				k.set(subnet.PlacementPlaced, k.all()...)
				k.move("a", 5, 3)
				l := k.placement["a"]
				k.Run(time.Second)
				sent, count := 0, k.m.OnSend
				k.m.OnSend = func(p *mad.Packet) {
					count(p)
					if sent++; sent == n {
						k.Sim.After(0, func() {
							if err := k.Sim.LinkDown(k.hosts[5], 1); err != nil {
								t.Error(err)
							}
						})
					}
				}
				k.m.SetPlacements(sm.SetPlacements{Put: []subnet.Placement{l}})
				k.Run(30 * time.Second)
				k.up()
				r, _ := k.last(a.GUID)
				if r.State == subnet.PlacementMoving {
					t.Fatalf("%+v\n%s\n%s", r, k.reports(), tail(k.m))
				}
				// The VM manager puts it back, and the hypervisor too.
				k.move("a", 1, 1)
				k.set(subnet.PlacementPlaced, a)
				k.check()
				if err := k.Sim.LinkUp(k.hosts[5], 1); err != nil {
					t.Fatal(err)
				}
				k.Run(30 * time.Second)
				k.up()
				k.check()
			})
		}
	}
}

// TestPlacementStorm: VMs come, move and go while links fail and come back and the manager
// dies, with packets lost: in the end every address is at the place of its placement, and
// reachable.
func TestPlacementStorm(t *testing.T) {
	seeds := uint64(9)
	if os.Getenv("HEDDLE_LONG") != "" {
		seeds = 1000
	}
	for _, x := range placementModels {
		for seed := range seeds {
			t.Run(fmt.Sprint(x.name, seed), func(t *testing.T) {
				k := newCloud(t, 3, 3, x.h, sim.Config{Seed: seed, HopLatency: time.Microsecond, SMALatency: 5 * time.Microsecond}, x.cfg)
				k.up()
				rng := rand.New(rand.NewPCG(seed, 1))
				used := map[subnet.Place]string{}
				free := func() (host, fn int) {
					for {
						host, fn = 1+rng.IntN(8), 1+rng.IntN(4)
						if used[k.place(host, fn)] == "" {
							return host, fn
						}
					}
				}
				for i := range 8 {
					host, fn := free()
					n := fmt.Sprint("v", i)
					k.put(n, host, fn, subnet.OwnLID)
					used[k.place(host, fn)] = n
				}
				k.set(subnet.PlacementPlaced, k.all()...)
				if seed%3 == 2 {
					k.Sim.SetDrop(0.03)
				}
				type cable struct {
					node string
					port int
				}
				var down []cable
				for range 60 {
					switch rng.IntN(8) {
					case 0:
						n := &k.Fabric.Nodes[rng.IntN(len(k.Fabric.Nodes))]
						if p := 1 + rng.IntN(n.NumPorts); n.IsSwitch() && len(down) < 2 && k.Fabric.Nodes[n.Ports[p].Peer.Node].IsSwitch() {
							if k.Sim.LinkDown(n.ID, p) == nil {
								down = append(down, cable{n.ID, p})
							}
						}
					case 1:
						if len(down) > 0 {
							_ = k.Sim.LinkUp(down[0].node, down[0].port)
							down = down[1:]
						}
					case 2:
						k.m.KillAfter = 1 + rng.IntN(40)
					default:
						n := k.vms[rng.IntN(len(k.vms))]
						host, fn := free()
						delete(used, k.placement[n].Place)
						k.move(n, host, fn)
						used[k.place(host, fn)] = n
						k.m.SetPlacements(sm.SetPlacements{Put: []subnet.Placement{k.placement[n]}})
					}
					k.Run(time.Duration(rng.IntN(2000)) * time.Microsecond)
					if k.m.Dead {
						k.start(k.m.Store)
						k.m.SetPlacements(sm.SetPlacements{Put: k.all(), All: true})
					}
				}
				k.m.KillAfter = 0
				k.Sim.SetDrop(0)
				for _, d := range down {
					_ = k.Sim.LinkUp(d.node, d.port)
				}
				k.Run(time.Minute)
				k.wait(subnet.PlacementPlaced, k.all()...)
				k.up()
				k.check()
			})
		}
	}
}

// TestPlacementTakeover: a manager that knows nothing but the placements finds the LIDs of VMs in
// their functions, and changes nothing.
func TestPlacementTakeover(t *testing.T) {
	for _, x := range placementModels {
		for _, late := range []bool{false, true} {
			k := newCloud(t, 3, 3, x.h, sim.Config{Seed: 1}, x.cfg)
			k.up()
			for i := range 5 {
				k.put(fmt.Sprint("v", i), 1+i, 1+i%3, subnet.OwnLID)
			}
			k.set(subnet.PlacementPlaced, k.all()...)
			k.set(subnet.PlacementPlaced, k.move("v0", 7, 2), k.move("v3", 8, 1))
			k.check()
			was := map[ib.GUID]ib.LID{}
			for _, l := range k.all() {
				was[l.GUID] = k.lidOf(l.GUID)
			}
			k.m.Kill()
			k.start(nil)
			if late {
				k.up()
				k.Run(time.Second)
			}
			k.m.SetPlacements(sm.SetPlacements{Put: k.all(), All: true})
			k.wait(subnet.PlacementPlaced, k.all()...)
			k.check()
			for _, l := range k.all() {
				if now := k.lidOf(l.GUID); now != was[l.GUID] {
					t.Errorf("%s, late %v: LID %v of %v became %v", x.name, late, was[l.GUID], l.GUID, now)
				}
			}
		}
	}
}
