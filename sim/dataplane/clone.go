package dataplane

import (
	"maps"
	"slices"
)

// Clone returns an Engine in the same state that goes on by itself: to ask what
// each of several changes would do after one warm-up. tables are those of the
// copy; nil: the same. The topology is shared, hooks and programs are not copied.
func (e *Engine) Clone(tables Tables) *Engine {
	c := &Engine{part: part{world: e.world}, det: e.det, workers: e.workers}
	if tables != nil {
		c.setTables(tables)
	}
	c.nodes = slices.Clone(e.nodes)
	c.out, c.in = slices.Clone(e.out), slices.Clone(e.in)
	c.outLanes, c.inLanes = slices.Clone(e.outLanes), slices.Clone(e.inLanes)
	c.voqOuts, c.requests, c.busyIn = slices.Clone(e.voqOuts), slices.Clone(e.requests), slices.Clone(e.busyIn)
	c.arbs = slices.Clone(e.arbs) // the tables of weights themselves never change
	c.hosts, c.hostLanes = slices.Clone(e.hosts), slices.Clone(e.hostLanes)
	c.streams, c.faults = slices.Clone(e.streams), slices.Clone(e.faults)
	c.limits = limits{slices.Clone(e.limits.armed), slices.Clone(e.limits.stallEnd)}
	c.residents = nil
	c.details = slices.Clone(e.details)
	c.cong = e.cong.clone()
	c.carriers = carriers{list: slices.Clone(e.carriers.list), known: maps.Clone(e.carriers.known), queues: maps.Clone(e.carriers.queues)}
	c.det.stuck, c.det.order, c.workers.slots = nil, nil, [2][]slot{}
	for k, p := range e.parts {
		x := &c.part
		if k > 0 {
			x = &part{}
		}
		p.copyTo(x)
		c.parts = append(c.parts, x)
	}
	c.share()
	return c
}

// copyTo makes x, whose world stays, a copy of a part between two runs.
func (e *part) copyTo(x *part) {
	w := x.world
	*x = *e
	x.world, x.hooks = w, Hooks{}
	x.q = e.q.Clone()
	x.packets, x.reads = slices.Clone(e.packets), slices.Clone(e.reads)
	x.touched = portSet{words: slices.Clone(e.touched.words), sums: slices.Clone(e.touched.sums), low: e.touched.low}
	x.cargo, x.purged = slices.Clone(e.cargo), nil
	x.pacers = slices.Clone(e.pacers)
	x.sendq, x.shared, x.flows = slices.Clone(e.sendq), maps.Clone(e.shared), slices.Clone(e.flows)
	stat := *e.stat
	x.stat = &stat
	x.groups.copies = slices.Clone(e.groups.copies)
	x.fetcher = fetcher{on: e.fetcher.on}
	x.mail = mail{} // nothing is in it
	x.mail.init(len(e.mail.boxes[0]))
}
