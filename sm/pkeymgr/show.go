package pkeymgr

import (
	"heddle/ib"
	"heddle/mad"
	"heddle/partition"
	"heddle/sm/pkey"
	"heddle/sm/topo"
	"heddle/sm/vport"
	"heddle/subnet"
)

// countOpen counts the end ports and virtual ports whose table, or that of the switch port that faces
// them, is not known to be as it should be. An adapter whose virtual ports are not known counts as one.
func (m *Manager) countOpen(f *topo.Topology) (n int) {
	open := func(t *pkey.Table) bool { return t == nil || t.Life != m.life || t.OKGen != m.gen }
	for _, pi := range f.EndPort {
		p := &f.Ports[pi]
		if a := m.functionsOf(p); a != nil && !a.Refused() {
			n += m.countOpenVPorts(a, open)
		}
		if open(p.PKeys) {
			n++
			continue
		}
		if !p.Has(topo.PortLinked) {
			continue
		}
		q := f.Port(p.Peer)
		guards := f.Nodes[q.Node].IsSwitch() && q.Num != 0 && q.PKeys != nil &&
			(m.enforcing() || enforced(&q.Info) != enforcement{})
		if guards && open(q.PKeys) {
			n++
		}
	}
	return n
}

func (m *Manager) countOpenVPorts(a *vport.Adapter, open func(*pkey.Table) bool) (n int) {
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

// Status tells how far the partitions in force are carried out.
type Status struct {
	Count int // partitions in force
	// Settled: every port of the subnet, virtual ones too, is known to hold the P_Keys that it is
	// given, and no other.
	Settled bool
	// Pending are end ports and virtual ports of which that is not known, or not of the switch port
	// that faces them.
	Pending int
	// Quarantined are the P_Keys that were freed, and that some port may still hold; ascending, without
	// the membership bit.
	Quarantined []ib.PKey
	// Freed are the names of the partitions that had these P_Keys. It is immutable.
	Freed map[ib.PKey][]string
	// InForce is the policy in force, and Base that of administrators, without the members that are
	// added to it. Both are immutable.
	InForce, Base *partition.Policy
}

// Status tells how far the partitions in force are carried out.
func (m *Manager) Status() Status {
	s := Status{
		Count: len(m.grants.Policy().Partitions), Quarantined: sortedKeys(m.freed), Freed: m.freed, InForce: m.grants.Policy(), Base: m.base,
	}
	f := m.needs.Discovery.Last() // a sweep that goes on does not know everybody yet
	if f == nil {
		f = m.Fabric
	}
	if m.State != subnet.Master || !m.Up || f == nil {
		return s
	}
	// Status is asked for often; who is not settled is looked at again or retried.
	if m.applying || m.look || len(m.touched) > 0 || m.pass != passDone || m.retry != mad.Never {
		s.Pending = m.countOpen(f)
	}
	s.Settled = s.Pending == 0 && !m.applying && len(m.queue) == 0
	return s
}

// Update updates the P_Keys of ports in s, and what they enforce. s is a copy of the last snapshot, old.
func (m *Manager) Update(s, old *subnet.Snapshot) {
	for _, r := range m.shown {
		i := s.Nodes[m.SnapshotIndex[r.Node]].First + int32(r.Port)
		p, now := s.Edit(old, i), m.Fabric.Port(r)
		p.PKeys = m.ShownAt(now)
		e := enforced(&now.Info)
		p.Info.PartitionEnforcementInbound, p.Info.PartitionEnforcementOutbound = e.in, e.out
	}
	m.AllShown()
}

// ToShow reports whether there are changes that no snapshot has.
func (m *Manager) ToShow() bool { return len(m.shown) > 0 || m.news }

// AllShown notes that a snapshot shows all tables as they are.
func (m *Manager) AllShown() { m.shown, m.news = m.shown[:0], false }
