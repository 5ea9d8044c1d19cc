package lab

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"heddle/ib"
	"heddle/internal/need"
	"heddle/mad"
	"heddle/partition"
	"heddle/sim"
	"heddle/sm"
)

// The drill of partitions, with virtual machines that come, go and move: half the
// changes are of members that are added to the policy.

func randomVMs(rng *rand.Rand, vms int) (list []partition.Member) {
	for i := range vms {
		if rng.IntN(2) == 0 {
			list = append(list, partition.Member{GUID: vmGUID(i), As: partition.Limited + partition.Membership(rng.IntN(3))})
		}
	}
	return list
}

// setMembers changes the memberships of virtual machines.
func (d *partitionDrill) setMembers() {
	if d.m.Dead {
		return
	}
	var list []partition.Partition
	for key := ib.PKey(1); key <= 5; key++ {
		if d.rng.IntN(3) > 0 {
			list = append(list, partition.Partition{PKey: key, Name: string(rune('A' + d.rng.IntN(3))), Index0: d.rng.IntN(4) == 0, Members: randomVMs(d.rng, d.vms)})
		}
	}
	inForce, err := d.base.With(list)
	if err != nil {
		panic(err)
	}
	d.members = list
	d.j.propose(d.tag, inForce)
	var b strings.Builder
	_ = inForce.Format(&b)
	d.note("members %d: %s", d.tag, strings.Join(strings.Fields(b.String()), " "))
	d.m.SetMembers(list, d.tag)
	d.j.read(d.m)
}

const drillVFs = 3

// placeVMs makes hypervisors of half the hosts, and puts the VMs on them.
func (d *partitionDrill) placeVMs() error {
	names := hostNames(d.c)
	vendor, own := pick(d.seed, "vendor traps", true, false), pick(d.seed, "own LIDs", true, false, false, false, false)
	for _, n := range names[:(len(names)+1)/2] {
		if err := d.c.Sim.AddHypervisor(n, 1, sim.Hypervisor{Model: sim.VPorts, VFs: drillVFs, VendorTraps: vendor, OwnLIDs: own}); err != nil {
			return err
		}
		d.j.vfs[d.c.Fabric.Find(n)] = drillVFs
	}
	for i := range d.vms {
		d.vmGoes(i)
	}
	return nil
}

// vmGoes puts a VM anywhere: a free function, or one whose VM is taken off it at
// the same moment.
func (d *partitionDrill) vmGoes(i int) {
	var nodes []int
	for n := range d.j.vfs {
		nodes = append(nodes, n)
	}
	slices.Sort(nodes)
	at := sim.VF{Node: nodes[d.rng.IntN(len(nodes))], Port: 1, Index: uint16(1 + d.rng.IntN(drillVFs))}
	s, name := d.c.Sim, fmt.Sprintf("vm%d", i)
	st, err := s.VPort(at)
	if err != nil || st.VM == name {
		return
	}
	if st.VM != "" {
		_ = s.DetachVM(st.VM)
	}
	if vm, ok := s.VM(name); ok && vm.At.Node >= 0 {
		err = s.MoveVM(name, at)
	} else {
		err = s.PlaceVM(name, at, sim.VMOptions{GUID: vmGUID(i)})
	}
	d.moved++
	d.note("%s to %s VF %d, where %q was: %v", name, d.c.Fabric.Nodes[at.Node].ID, at.Index, st.VM, err)
}

// planVMs has VMs move, and packets sent between them.
func (d *partitionDrill) planVMs(at func() mad.Time) {
	if d.vms == 0 {
		return
	}
	s := d.c.Sim
	for range 5 + d.rng.IntN(30) {
		s.At(at(), func() { d.vmGoes(d.rng.IntN(d.vms)) })
	}
	for range 200 {
		s.At(at(), func() {
			a, b := d.rng.IntN(d.vms), d.rng.IntN(d.vms)
			x := d.j.probe(fmt.Sprintf("vm%d", a), fmt.Sprintf("vm%d", b), ib.PKey(1+d.rng.IntN(5)))
			if x == nil || a == b {
				return
			}
			s.At(s.Now().Add(time.Millisecond), func() {
				d.j.judge(x)
				if x.p.Arrived {
					d.probed++
				}
			})
		})
	}
}

// vmsMeet says who reaches whom when all is settled, and should not, or does not,
// and should.
func (d *partitionDrill) vmsMeet() string {
	e, s := d.j.now(), d.c.Sim
	for a := range d.vms {
		for b := range d.vms {
			from, ok := s.VM(fmt.Sprintf("vm%d", a))
			to, ok2 := s.VM(fmt.Sprintf("vm%d", b))
			if a == b || !ok || !ok2 || from.At.Node < 0 || to.At.Node < 0 {
				continue
			}
			for key := ib.PKey(1); key <= 5; key++ {
				x := d.j.probe(from.Name, to.Name, key)
				if x == nil {
					return fmt.Sprintf("%s cannot send", from.Name)
				}
				if err := d.c.RunUntil(time.Second, func() bool { return x.p.Done }); err != nil {
					return err.Error()
				}
				mine, theirs := e.grants.Of(partition.CA, x.guid, nil, false), e.grants.Of(partition.CA, x.peer, nil, false)
				has := func(l []ib.PKey, k ib.PKey) bool { return slices.Contains(l, k) }
				full := key | 0x8000
				share := has(mine, full) && (has(theirs, full) || has(theirs, key)) || has(mine, key) && has(theirs, full)
				if !share && x.p.Arrived || share && !x.p.Answered && !(has(mine, full) && has(mine, key)) {
					return fmt.Sprintf("%s with %v to %s with %v in %v: %v", from.Name, mine, to.Name, theirs, key, x.p)
				}
			}
		}
	}
	return ""
}

// TestVPortKeyDrill: the rules of TestPartitionDrill hold for virtual ports too, while virtual
// machines move: none is Active with a key that it must not have, and no packet gets from one
// tenant to another.
func TestVPortKeyDrill(t *testing.T) {
	writes, probed, moved, engines := 0, 0, 0, inForce{}
	list := need.Seeds(50, 10_000)
	for _, s := range list {
		d := &partitionDrill{seed: s, vms: 6}
		if err := d.run(); err != nil {
			t.Fatalf("replay with HEDDLE_SEED=%d: %v\n%s\nmanager:\n%s", s, err, strings.Join(d.log, "\n"), strings.Join(d.m.Events(sm.Info), "\n"))
		}
		writes, probed, moved = writes+d.j.writes, probed+d.probed, moved+d.moved
		engines.add(d.routing.inForce)
	}
	engines.check(t, uint64(len(list)))
	if len(list) > 1 && (writes == 0 || probed == 0 || moved == 0) {
		t.Errorf("%d tables written, %d VMs moved, %d packets arrived", writes, moved, probed)
	}
}

// TestVPortKeyDrillFound replays runs that failed once.
func TestVPortKeyDrillFound(t *testing.T) {
	for _, s := range []uint64{
		377, // one block of the table of a switch that was reset was never read again
	} {
		d := &partitionDrill{seed: s, vms: 6}
		if err := d.run(); err != nil {
			t.Errorf("replay with HEDDLE_SEED=%d: %v\n%s", s, err, strings.Join(d.log, "\n"))
		}
	}
}
