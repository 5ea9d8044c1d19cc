package lid

import (
	"heddle/fabric"
	"heddle/sm/topo"
	"heddle/store"
)

// Outcome is what became of an assignment to the ports of a region.
type Outcome uint8

const (
	Assigned     Outcome = iota // each port has a range that it had before
	NeedAll                     // the LIDs of the whole subnet are to be assigned
	SmallerTable                // a switch came whose table is smaller than those of the others
)

// AssignRegion gives LIDs to the end ports of nodes that a sweep of a region found, if each of
// them had a range before and no other port has it. Else it changes nothing. added lists the ports
// that have LIDs now, as indices in Topology.Ports.
func (t *Table) AssignRegion(f *topo.Topology, nodes []int32, rules Rules) (added []int32, ops []store.Op, outcome Outcome) {
	var list []given
	for _, n := range nodes {
		nd := &f.Nodes[n]
		if !nd.OK() {
			continue
		}
		if nd.IsSwitch() && int(nd.Switch.LinearFDBCap) < t.limit {
			return nil, nil, SmallerTable
		}
		lmc := rules.lmc(nd)
		for i := range f.NodePorts(n) {
			p := f.PortOf(n, uint8(i))
			if !p.Has(topo.PortEnd) || p.LID != 0 || !nd.IsSwitch() && n != f.Self.Node && !p.Has(topo.PortLinked) {
				continue
			}
			r, ok := t.before(p, lmc)
			if !ok || taken(f, r) || overlaps(list, p, r) {
				return nil, nil, NeedAll
			}
			list = append(list, given{p, r})
		}
	}
	for _, x := range list {
		x.p.LID, x.p.LMC = x.r.Base, x.r.LMC
		added = append(added, f.Nodes[x.p.Node].First+int32(x.p.Num))
		ops = append(ops, t.Assign(x.p.GUID, x.r)...)
	}
	return added, ops, Assigned
}

// given is a port of a region and the range that it is to get.
type given struct {
	p *topo.Port
	r Range
}

// before is the range that a port had in this mastership or has in the store, if it fits.
func (t *Table) before(p *topo.Port, lmc uint8) (Range, bool) {
	r, had := t.Assigned(p.GUID)
	if !had {
		r, had = t.Stored(p.GUID)
	}
	r.LMC = lmc
	return r, had && r.Base != 0 && int(r.Base)&(1<<lmc-1) == 0 && int(r.Base)+1<<lmc <= t.limit
}

// taken reports whether an end port of the graph has a LID of a range.
func taken(f *topo.Topology, r Range) bool {
	g := f.Graph
	for l := int(r.Base); l < int(r.Base)+1<<r.LMC; l++ {
		if l < len(g.LIDOwner) && g.LIDOwner[l] != fabric.NoLID && f.Ports[f.EndPort[g.LIDOwner[l]]].LID != 0 {
			return true
		}
	}
	return false
}

// overlaps reports whether a port of the list has the GUID of p, or a LID of its range.
func overlaps(list []given, p *topo.Port, r Range) bool {
	for _, x := range list {
		if x.p.GUID == p.GUID || int(x.r.Base) < int(r.Base)+1<<r.LMC && int(r.Base) < int(x.r.Base)+1<<x.r.LMC {
			return true
		}
	}
	return false
}
