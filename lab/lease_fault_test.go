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

// leaseModels are the ways in which functions have LIDs of their own.
var leaseModels = []struct {
	name string
	h    sim.Hypervisor
	cfg  func(*sm.Config)
}{
	{"dynamic", sim.Hypervisor{Model: sim.VSwitch, VFs: 4}, nil},
	{"prepopulated", sim.Hypervisor{Model: sim.VSwitch, VFs: 4}, func(c *sm.Config) { c.VSwitchPrepopulate = true }},
	{"vport", sim.Hypervisor{Model: sim.VPorts, VFs: 4, OwnLIDs: true}, nil},
}

// all are the leases of all VMs.
func (k *cloud) all() (list []subnet.Lease) {
	for _, n := range k.vms {
		list = append(list, k.lease[n])
	}
	return list
}

// TestLeaseKill kills the manager after every packet of a migration; another one with
// its store, or with an empty one, ends it, forwards or back.
func TestLeaseKill(t *testing.T) {
	for _, x := range leaseModels {
		for _, how := range []string{"forwards", "back", "without a store", "leases late"} {
			t.Run(x.name+" "+how, func(t *testing.T) {
				killed := 0
				for n := 1; ; n++ {
					k := newCloud(t, 3, 3, x.h, sim.Config{Seed: uint64(n), HopLatency: time.Microsecond, SMALatency: 5 * time.Microsecond}, x.cfg)
					k.up()
					a, b, c := k.put("a", 1, 1, subnet.OwnLID), k.put("b", 4, 2, subnet.OwnLID), k.put("c", 7, 1, subnet.OwnLID)
					k.set(subnet.LeasePlaced, a, b, c)
					k.check()
					was, _ := k.last(a.GUID)
					moved := k.move("a", 5, 3)
					k.Run(time.Second)
					k.m.KillAfter = n
					k.m.SetLeases(sm.SetLeases{Put: []subnet.Lease{moved}})
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
					if how == "leases late" {
						k.up()
						k.Run(time.Second)
					}
					k.m.SetLeases(sm.SetLeases{Put: k.all(), All: true})
					k.wait(subnet.LeasePlaced, k.all()...)
					k.check()
					if now, _ := k.last(a.GUID); now.LID != was.LID && how != "without a store" {
						t.Fatalf("killed after %d packets: LID %v became %v\n%s", n, was.LID, now.LID, tail(k.m))
					}
				}
			})
		}
	}
}

// TestLeaseLoss: with packets lost on the way, and links that fail meanwhile, VMs
// end where their leases say.
func TestLeaseLoss(t *testing.T) {
	for _, x := range leaseModels {
		for seed := range uint64(6) {
			t.Run(fmt.Sprint(x.name, seed), func(t *testing.T) {
				k := newCloud(t, 3, 3, x.h, sim.Config{Seed: seed, HopLatency: time.Microsecond, SMALatency: 5 * time.Microsecond}, x.cfg)
				k.up()
				k.put("a", 1, 1, subnet.OwnLID)
				k.put("b", 4, 2, subnet.OwnLID)
				k.put("c", 7, 1, subnet.OwnLID)
				k.set(subnet.LeasePlaced, k.all()...)
				k.Sim.SetDrop(0.05)
				for i, host := range []int{2, 5, 8, 1} {
					ls := []subnet.Lease{k.move("a", host, 3), k.move("b", (host+1)%8+1, 4)}
					k.m.SetLeases(sm.SetLeases{Put: ls})
					if i == 1 {
						k.Run(20 * time.Microsecond)
					}
				}
				k.wait(subnet.LeasePlaced, k.all()...)
				k.Sim.SetDrop(0)
				k.Run(time.Minute)
				k.up()
				k.check()
			})
		}
	}
}

// TestLeaseRefused: a function that does not take an address leaves it where it was.
func TestLeaseRefused(t *testing.T) {
	for _, x := range leaseModels {
		t.Run(x.name, func(t *testing.T) {
			k := newCloud(t, 3, 3, x.h, sim.Config{Seed: 1, HopLatency: time.Microsecond}, x.cfg)
			k.up()
			a := k.put("a", 1, 1, subnet.OwnLID)
			k.put("b", 4, 2, subnet.OwnLID)
			k.set(subnet.LeasePlaced, k.all()...)
			// The VM runs at both ends for a while; the destination is a device that takes
			// no state but its own.
			bad := k.place(5, 3)
			if x.h.Model == sim.VSwitch {
				enableVPort(t, k.Cluster, k.hosts[5], 3)
			} else {
				k.move("a", 5, 3)
				k.lease["a"] = a
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
			k.set(subnet.LeaseRefused, l)
			if r, _ := k.last(a.GUID); r.Cause != subnet.CauseNotTaken {
				t.Errorf("%+v", r)
			}
			k.m.OnSend = count
			if x.h.Model == sim.VPorts {
				k.move("a", 1, 1)
			}
			k.set(subnet.LeasePlaced, a)
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

// TestLeaseDestinationGone: a hypervisor that leaves while an address is on its way to it:
// the VM is where it was, and can be reached there.
func TestLeaseDestinationGone(t *testing.T) {
	for _, x := range leaseModels {
		for n := 1; n <= 8; n++ {
			t.Run(fmt.Sprint(x.name, n), func(t *testing.T) {
				k := newCloud(t, 3, 3, x.h, sim.Config{Seed: 1, HopLatency: time.Microsecond}, x.cfg)
				k.up()
				a := k.put("a", 1, 1, subnet.OwnLID)
				k.put("b", 4, 2, subnet.OwnLID)
				k.set(subnet.LeasePlaced, k.all()...)
				k.move("a", 5, 3)
				l := k.lease["a"]
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
				k.m.SetLeases(sm.SetLeases{Put: []subnet.Lease{l}})
				k.Run(30 * time.Second)
				k.up()
				r, _ := k.last(a.GUID)
				if r.State == subnet.LeaseMoving {
					t.Fatalf("%+v\n%s\n%s", r, k.reports(), tail(k.m))
				}
				// The VM manager puts it back, and the hypervisor too.
				k.move("a", 1, 1)
				k.set(subnet.LeasePlaced, a)
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

// TestLeaseStorm: VMs come, move and go while links fail and come back and the manager
// dies, with packets lost: in the end every address is where its lease says, and works.
func TestLeaseStorm(t *testing.T) {
	seeds := uint64(9)
	if os.Getenv("HEDDLE_LONG") != "" {
		seeds = 1000
	}
	for _, x := range leaseModels {
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
				k.set(subnet.LeasePlaced, k.all()...)
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
						delete(used, k.lease[n].Place)
						k.move(n, host, fn)
						used[k.place(host, fn)] = n
						k.m.SetLeases(sm.SetLeases{Put: []subnet.Lease{k.lease[n]}})
					}
					k.Run(time.Duration(rng.IntN(2000)) * time.Microsecond)
					if k.m.Dead {
						k.start(k.m.Store)
						k.m.SetLeases(sm.SetLeases{Put: k.all(), All: true})
					}
				}
				k.m.KillAfter = 0
				k.Sim.SetDrop(0)
				for _, d := range down {
					_ = k.Sim.LinkUp(d.node, d.port)
				}
				k.Run(time.Minute)
				k.wait(subnet.LeasePlaced, k.all()...)
				k.up()
				k.check()
			})
		}
	}
}

// TestLeaseTakeover: a manager that knows nothing but the leases finds the LIDs of VMs in
// their functions, and changes nothing.
func TestLeaseTakeover(t *testing.T) {
	for _, x := range leaseModels {
		for _, late := range []bool{false, true} {
			k := newCloud(t, 3, 3, x.h, sim.Config{Seed: 1}, x.cfg)
			k.up()
			for i := range 5 {
				k.put(fmt.Sprint("v", i), 1+i, 1+i%3, subnet.OwnLID)
			}
			k.set(subnet.LeasePlaced, k.all()...)
			k.set(subnet.LeasePlaced, k.move("v0", 7, 2), k.move("v3", 8, 1))
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
			k.m.SetLeases(sm.SetLeases{Put: k.all(), All: true})
			k.wait(subnet.LeasePlaced, k.all()...)
			k.check()
			for _, l := range k.all() {
				if now := k.lidOf(l.GUID); now != was[l.GUID] {
					t.Errorf("%s, late %v: LID %v of %v became %v", x.name, late, was[l.GUID], l.GUID, now)
				}
			}
		}
	}
}
