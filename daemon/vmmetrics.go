package daemon

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"heddle/subnet"
	"heddle/vm"
)

// Operations and how they end, as they are counted.
const (
	vmOps     = 10
	vmResults = 8
)

var (
	vmOpNames     = [vmOps]string{"create", "attach", "migrate", "finish", "rollback", "detach", "delete", "keys", "add_members", "remove_members"}
	vmResultNames = [vmResults]string{"done", "waiting", "not_found", "conflict", "invalid", "no_room", "store", "refused"}
)

func vmOpSlot(op vm.Op) int {
	switch op.(type) {
	case vm.Create:
		return 0
	case vm.Attach:
		return 1
	case vm.Migrate:
		return 2
	case vm.Finish:
		return 3
	case vm.RollBack:
		return 4
	case vm.Detach:
		return 5
	case vm.Delete:
		return 6
	case vm.SetKeys:
		return 7
	case vm.AddMembers:
		return 8
	}
	return 9
}

func vmResultSlot(r *vm.Reply) int {
	for i, err := range [...]error{vm.ErrNotFound, vm.ErrConflict, vm.ErrInvalid, vm.ErrNoRoom, vm.ErrStore} {
		if errors.Is(r.Err, err) {
			return 2 + i
		}
	}
	switch {
	case r.Err != nil:
		return vmResults - 1
	case r.Waiting:
		return 1
	}
	return 0
}

// vmStats counts what the address manager does. Its loop alone writes.
type vmStats struct {
	ops        [vmOps][vmResults]atomic.Uint64
	took       [vmOps]histogram // from the core's step to the reply, waiting ones not counted
	placed     atomic.Uint64    // leases
	refused    atomic.Uint64    // leases
	blocks     atomic.Uint64    // LFT blocks for leases that were placed
	noticesCut atomic.Uint64
}

func (s *vmStats) add(op vm.Op, r *vm.Reply, took time.Duration) {
	o := vmOpSlot(op)
	bump(&s.ops[o][vmResultSlot(r)])
	if r.Err == nil && !r.Waiting {
		s.took[o].addTime(took)
	}
}

// vmCollector shows what the address manager counts; the names are in
// docs/metrics.md.
type vmCollector struct {
	d *Daemon

	interfaces, journal, guids, guidsUsed, lids, lidsUsed *prometheus.Desc
	members, ops, took, placed, refused, blocks, cut      *prometheus.Desc
	vports, hypervisors                                   *prometheus.Desc
}

func newVMCollector(d *Daemon, desc func(name, help string, labels ...string) *prometheus.Desc) *vmCollector {
	return &vmCollector{
		d:           d,
		interfaces:  desc("vm_interfaces", "Interfaces of virtual machines.", "state"),
		journal:     desc("vm_journal_operations", "Operations that are stored and not finished."),
		guids:       desc("vm_pool_guids", "GUIDs of the pool that dynamic interfaces get theirs from."),
		guidsUsed:   desc("vm_pool_guids_used", "GUIDs of the pool that are given."),
		lids:        desc("vm_pool_lids", "LIDs that the subnet can have."),
		lidsUsed:    desc("vm_pool_lids_used", "LIDs that are given, to ports, functions and interfaces."),
		members:     desc("vm_members", "Members of partitions that were added by themselves."),
		ops:         desc("vm_operations_total", "Operations answered.", "operation", "result"),
		took:        desc("vm_operation_seconds", "Seconds from an operation's turn to its answer, where that says it is done.", "operation"),
		placed:      desc("vm_placed_total", "Addresses that the subnet manager put in their place, or took from it."),
		refused:     desc("vm_refused_total", "Addresses that could not be put in their place."),
		blocks:      desc("vm_lft_blocks_total", "LFT blocks written for addresses that were put in their place, each address by itself."),
		cut:         desc("vm_notices_cut_total", "Notices about interfaces that were not told because there were too many."),
		vports:      desc("vports", "Virtual ports that can be reached."),
		hypervisors: desc("hypervisors", "Ports that can hold virtual functions.", "model"),
	}
}

func (c *vmCollector) collect(ch chan<- prometheus.Metric,
	gauge func(*prometheus.Desc, float64, ...string), count func(*prometheus.Desc, uint64, ...string),
) {
	s := &c.d.vm.stats
	for o := range s.ops {
		for r := range s.ops[o] {
			if n := s.ops[o][r].Load(); n > 0 || r == 0 {
				count(c.ops, n, vmOpNames[o], vmResultNames[r])
			}
		}
		var took buckets
		if took.add(&s.took[o]); took.count > 0 {
			ch <- took.seconds(c.took, vmOpNames[o])
		}
	}
	count(c.placed, s.placed.Load())
	count(c.refused, s.refused.Load())
	count(c.blocks, s.blocks.Load())
	count(c.cut, s.noticesCut.Load())
	v := c.d.Interfaces()
	if v == nil {
		v = &vm.View{}
	}
	var states [4]int
	for x := range v.All() {
		states[x.State&3]++
	}
	for st, n := range states {
		gauge(c.interfaces, float64(n), vm.State(st).String())
	}
	members := 0
	for i := range v.Partitions {
		members += len(v.Partitions[i].Full) + len(v.Partitions[i].Limited)
	}
	gauge(c.members, float64(members))
	gauge(c.journal, float64(v.Journal))
	p := &v.Pools
	gauge(c.guids, float64(p.GUIDs))
	gauge(c.guidsUsed, float64(p.GUIDsUsed))
	gauge(c.lids, float64(p.LIDs))
	gauge(c.lidsUsed, float64(p.LIDsUsed))
	if snap := c.d.Snapshot(); snap != nil {
		gauge(c.vports, float64(snap.Counts.VPorts))
		var models [subnet.VPorts + 1]int
		for i := range snap.Ports {
			if a := snap.Ports[i].Adapter; a != nil && int(a.Model) < len(models) {
				models[a.Model]++
			}
		}
		for m := subnet.SharedPort; m <= subnet.VPorts; m++ {
			gauge(c.hypervisors, float64(models[m]), m.String())
		}
	}
}
