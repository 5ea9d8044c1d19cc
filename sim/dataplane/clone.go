package dataplane

import (
	"maps"
	"slices"
)

// Clone returns an Engine in the same state that goes on by itself: to ask what
// each of several changes would do after one warm-up. tables are those of the
// copy; nil: the same. The topology is shared, hooks and programs are not copied.
func (e *Engine) Clone(tables Tables) *Engine {
	c := *e
	if tables != nil {
		c.tables = tables
	}
	c.q = e.q.Clone()
	c.nodes = slices.Clone(e.nodes)
	c.out, c.in = slices.Clone(e.out), slices.Clone(e.in)
	c.outLanes, c.inLanes = slices.Clone(e.outLanes), slices.Clone(e.inLanes)
	c.voqOuts, c.requests, c.busyIn = slices.Clone(e.voqOuts), slices.Clone(e.requests), slices.Clone(e.busyIn)
	c.arbs = slices.Clone(e.arbs) // the tables of weights themselves never change
	c.packets, c.reads = slices.Clone(e.packets), slices.Clone(e.reads)
	c.touched = portSet{words: slices.Clone(e.touched.words), sums: slices.Clone(e.touched.sums), low: e.touched.low}
	c.hosts, c.hostLanes = slices.Clone(e.hosts), slices.Clone(e.hostLanes)
	c.sendq, c.shared = slices.Clone(e.sendq), maps.Clone(e.shared)
	c.streams, c.flows, c.faults = slices.Clone(e.streams), slices.Clone(e.flows), slices.Clone(e.faults)
	stat := *e.stat
	c.stat = &stat
	c.programs = programs{cargo: slices.Clone(e.programs.cargo)}
	c.groups.copies = slices.Clone(e.groups.copies)
	c.limits = limits{slices.Clone(e.limits.armed), slices.Clone(e.limits.stallEnd)}
	c.hooks, c.det.stuck, c.det.order = Hooks{}, nil, nil
	return &c
}
