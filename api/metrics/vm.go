package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"heddle/subnet"
	"heddle/vm"
)

// VM has the counters of the address manager.
type VM struct {
	Ops             []Count  // operation, result
	Took            []Counts // by operation: microseconds
	Placed, Refused uint64   // addresses
	Blocks          uint64   // LFT blocks for those that were placed
	NoticesCut      uint64
}

// vmCollector presents the counters of the address manager.
type vmCollector struct {
	interfaces, journal, guids, guidsUsed, lids, lidsUsed *prometheus.Desc
	members, ops, took, placed, refused, blocks, cut      *prometheus.Desc
	vports, hypervisors                                   *prometheus.Desc
}

func newVMCollector() *vmCollector {
	desc := describe
	return &vmCollector{
		interfaces:  desc("vm_interfaces", "Interfaces of virtual machines.", "state"),
		journal:     desc("vm_journal_operations", "Operations that are stored and not finished."),
		guids:       desc("vm_pool_guids", "GUIDs of the pool that dynamic interfaces get theirs from."),
		guidsUsed:   desc("vm_pool_guids_used", "GUIDs of the pool that are given."),
		lids:        desc("vm_pool_lids", "LIDs that the subnet can have."),
		lidsUsed:    desc("vm_pool_lids_used", "LIDs that are given, to ports, functions and interfaces."),
		members:     desc("vm_members", "Members of partitions that were added by themselves."),
		ops:         desc("vm_operations_total", "Operations answered.", "operation", "result"),
		took:        desc("vm_operation_seconds", "Seconds from the start of an operation to its successful answer.", "operation"),
		placed:      desc("vm_placed_total", "Addresses that the subnet manager put in their place, or took from it."),
		refused:     desc("vm_refused_total", "Addresses that could not be put in their place."),
		blocks:      desc("vm_lft_blocks_total", "LFT blocks written for placed addresses, counted for each address separately."),
		cut:         desc("vm_notices_cut_total", "Notices about interfaces that were suppressed because there were too many."),
		vports:      desc("vports", "Virtual ports that can be reached."),
		hypervisors: desc("hypervisors", "Ports that can hold virtual functions.", "model"),
	}
}

func (c *vmCollector) collect(to sink, x *Values) {
	s := &x.VM
	to.counts(c.ops, s.Ops)
	for i := range s.Took {
		to <- s.Took[i].seconds(c.took, s.Took[i].Label)
	}
	to.count(c.placed, s.Placed)
	to.count(c.refused, s.Refused)
	to.count(c.blocks, s.Blocks)
	to.count(c.cut, s.NoticesCut)
	v := x.VMs
	if v == nil {
		v = &vm.View{}
	}
	var states [4]int
	for i := range v.All() {
		states[i.State&3]++
	}
	for st, n := range states {
		to.gauge(c.interfaces, float64(n), vm.State(st).String())
	}
	members := 0
	for i := range v.Partitions {
		members += len(v.Partitions[i].Full) + len(v.Partitions[i].Limited)
	}
	to.gauge(c.members, float64(members))
	to.gauge(c.journal, float64(v.Journal))
	p := &v.Pools
	to.gauge(c.guids, float64(p.GUIDs))
	to.gauge(c.guidsUsed, float64(p.GUIDsUsed))
	to.gauge(c.lids, float64(p.LIDs))
	to.gauge(c.lidsUsed, float64(p.LIDsUsed))
	if snap := x.Snap; snap != nil {
		to.gauge(c.vports, float64(snap.Counts.VPorts))
		var models [subnet.VPorts + 1]int
		for i := range snap.Ports {
			if a := snap.Ports[i].Adapter; a != nil && int(a.Model) < len(models) {
				models[a.Model]++
			}
		}
		for m := subnet.SharedPort; m <= subnet.VPorts; m++ {
			to.gauge(c.hypervisors, float64(models[m]), m.String())
		}
	}
}
