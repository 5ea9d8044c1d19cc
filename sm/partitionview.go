package sm

import (
	"slices"

	"heddle/ib"
	"heddle/mad"
	"heddle/sm/pkey"
	"heddle/sm/topo"
	"heddle/sm/vport"
	"heddle/subnet"
)

// openPKeys counts the end ports and virtual ports whose table, or that of the
// switch port that faces them, is not known to be as it should be. An adapter of
// which it is not known who is behind it counts as one.
func (c *Core) openPKeys(f *topo.Topology) (n int) {
	open := func(t *pkey.Table) bool { return t == nil || t.Life != c.pk.life || t.OKGen != c.pk.gen }
	for _, pi := range f.EndPort {
		p := &f.Ports[pi]
		if a := c.functionsOf(p); a != nil && !a.Refused() {
			n += c.openVPorts(a, open)
		}
		if open(p.PKeys) {
			n++
			continue
		}
		if !p.Has(topo.PortLinked) {
			continue
		}
		q := f.Port(p.Peer)
		guards := f.Nodes[q.Node].IsSwitch() && q.Num != 0 && q.PKeys != nil && (c.enforcing() || enforced(&q.Info) != enforcement{})
		if guards && open(q.PKeys) {
			n++
		}
	}
	return n
}

func (c *Core) openVPorts(a *vport.Adapter, open func(*pkey.Table) bool) (n int) {
	if !a.Known() {
		return 1
	}
	for _, v := range a.VPorts() {
		if v != nil && v.State() >= ib.StateInit && (!v.TakesPart() || open(v.Keys)) {
			n++
		}
	}
	return n
}

// partitionStatus tells how far the partitions in force are carried out.
func (c *Core) partitionStatus() PartitionStatus {
	k := &c.pk
	s := PartitionStatus{Count: len(k.grants.Policy().Partitions), Quarantined: sortedKeys(k.freed)}
	f := c.last // a sweep that goes on does not know everybody yet
	if f == nil {
		f = c.Fabric
	}
	if c.State != subnet.Master || !c.Up || f == nil {
		return s
	}
	// Status is asked for often; who is not settled is looked at again or retried.
	if k.applying || k.look || len(k.touched) > 0 || k.pass != passDone || k.retry != mad.Never {
		s.Pending = c.openPKeys(f)
	}
	s.Settled = s.Pending == 0 && !k.applying && len(k.queue) == 0
	return s
}

// showPKeys brings a copy of the last snapshot up to date with tables that
// changed.
func (c *Core) showPKeys(s, old *subnet.Snapshot) {
	for _, r := range c.pk.shown {
		i := s.Nodes[c.SnapshotIndex[r.Node]].First + int32(r.Port)
		if len(s.Ports) > 0 && &s.Ports[0] == &old.Ports[0] {
			s.Ports = slices.Clone(old.Ports)
		}
		s.Ports[i].PKeys = c.pKeysOf(c.Fabric.Port(r))
	}
	c.pk.shown, c.pk.news = c.pk.shown[:0], false
}
