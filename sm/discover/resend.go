package discover

import (
	"heddle/sm/topo"
	"heddle/sm/work"
)

// CutFound reports whether a link was found to be down since the last Resend.
func (d *Discovery) CutFound() bool { return d.cut }

// Resend is called at the end of a step. If a region discovery found a link to be down, it sends
// the unanswered requests whose route led over that link again, by another route, instead of
// waiting for their time-outs.
func (d *Discovery) Resend() {
	if !d.cut {
		return
	}
	d.cut = false
	if !d.exploring() || d.Pending == 0 {
		return
	}
	f := d.Fabric
	type sent struct {
		it   work.Item
		path topo.PathRef
	}
	var list []sent
	path := func(it work.Item) topo.PathRef {
		nd := &f.Nodes[it.Node()]
		if q := f.PortOf(it.Node(), it.Port()); !nd.IsSwitch() && q.Path.Set {
			return q.Path
		}
		return nd.Path
	}
	d.Engine.Pending(func(token uint64, _ bool) {
		if it := work.Item(token); !it.OutOfPhase() && it.Node() >= 0 {
			list = append(list, sent{it, path(it)})
		}
	})
	d.r.moved = d.Fabric.Repath(d.r.cut, d.r.nodes) || d.r.moved
	for _, s := range list {
		now := path(s.it)
		if now == s.path {
			continue
		}
		for range d.Engine.Cancel(uint64(s.it), uint64(s.it)) {
			d.Finish()
			if now.Set {
				d.Add(s.it)
			} else {
				d.Fabric.Nodes[s.it.Node()].Flags &^= topo.NodeRead
			}
		}
	}
}
