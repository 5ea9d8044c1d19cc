package lab

import (
	"fmt"
	"testing"
	"time"

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
