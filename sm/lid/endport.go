package lid

import (
	"cmp"
	"slices"
	"strconv"

	"heddle/ib"
	"heddle/sm/notice"
	"heddle/sm/topo"
)

// endPort is a port that needs LIDs.
type endPort struct {
	idx int32 // in Topology.Ports
	lmc uint8
}

// lmc is how many LIDs a port of a node gets, as a power of two.
func (r *Rules) lmc(n *topo.Node) uint8 {
	switch {
	case !n.IsSwitch():
		return r.LMC
	case n.Switch.EnhancedPort0:
		return r.LMCPort0
	}
	return 0
}

// findEndPorts lists the ports that need LIDs, in the order of port GUIDs. Of two ports with one
// port GUID the second is left out: both cannot have its LID.
func (a *assignment) findEndPorts() {
	f := a.f
	var eps []endPort
	for i := range f.Ports {
		p := &f.Ports[i]
		n := &f.Nodes[p.Node]
		if !p.Has(topo.PortEnd) || !n.OK() {
			continue
		}
		if !n.IsSwitch() && p.Node != f.Self.Node && !p.Has(topo.PortLinked) {
			continue // no link of this subnet leads to it
		}
		eps = append(eps, endPort{int32(i), a.rules.lmc(n)})
	}
	slices.SortFunc(eps, func(x, y endPort) int {
		return cmp.Or(cmp.Compare(a.port(x).GUID, a.port(y).GUID), cmp.Compare(x.idx, y.idx))
	})
	out := eps[:0]
	for _, e := range eps {
		if len(out) > 0 && a.port(out[len(out)-1]).GUID == a.port(e).GUID {
			first, p := a.port(out[len(out)-1]), a.port(e)
			p.Flags |= topo.PortLeftOut
			a.problem(notice.Notice{
				Kind: notice.KindDuplicateGUID, Level: notice.Error, Where: f.Where(p.Node, int(p.Num)), Peer: f.Where(first.Node, int(first.Num)),
				Text: "port GUID " + p.GUID.String() + " is already in use by the second port named; this one is excluded: give it another GUID",
			})
			continue
		}
		out = append(out, e)
	}
	a.eps = out
}

// findLimit returns the first LID that some switch's table does not hold. Switches whose tables
// are too small for the subnet are excluded if that costs fewer end ports than running out of LIDs.
func (a *assignment) findLimit() int {
	f := a.f
	need, limit := a.needed(), a.smallestTable()
	if limit >= need {
		return limit
	}
	// Try the table sizes in ascending order. Without the switches below a size, the LIDs that
	// are of use are those of ports that are still joined, or as many as fit.
	sizes := []int{limit, need}
	for i := range f.Nodes {
		if n := &f.Nodes[i]; n.IsSwitch() && n.OK() && int(n.Switch.LinearFDBCap) < need {
			sizes = append(sizes, int(n.Switch.LinearFDBCap))
		}
	}
	slices.Sort(sizes)
	best, most := limit, 0
	for _, size := range slices.Compact(sizes) {
		if use := min(a.joined(size), size-1); use > most {
			best, most = size, use
		}
	}
	for i := range f.Nodes {
		n := &f.Nodes[i]
		if size := int(n.Switch.LinearFDBCap); n.IsSwitch() && n.OK() && size < best {
			text := "its linear forwarding table holds " + strconv.Itoa(size) + " LIDs but the subnet needs " + strconv.Itoa(need) + "; the switch is excluded: remove it from the fabric or use a smaller LMC"
			if size == 0 {
				text = "it has no linear forwarding table, only a random one, which is not supported; the switch is excluded"
			}
			a.problem(notice.Notice{Kind: notice.KindTableTooSmall, Level: notice.Error, Where: f.Where(int32(i), -1), Text: text})
			f.Exclude(int32(i), text)
		}
	}
	return a.smallestTable()
}

// smallestTable is the first LID that some switch of the subnet does not hold.
func (a *assignment) smallestTable() int {
	limit := int(ib.LIDMaxUnicast) + 1
	for i := range a.f.Nodes {
		if n := &a.f.Nodes[i]; n.IsSwitch() && n.OK() {
			limit = min(limit, int(n.Switch.LinearFDBCap))
		}
	}
	return limit
}

// needed is the size of the smallest table that holds LIDs for all end ports.
func (a *assignment) needed() int {
	need := 1
	for _, e := range a.eps {
		need += 1 << e.lmc
	}
	return need
}

// joined is how many LIDs those end ports need that links join with our own port when switches
// whose tables hold fewer than size LIDs are excluded.
func (a *assignment) joined(size int) int {
	f := a.f
	in := make([]bool, len(f.Nodes))
	out := func(n int32) bool {
		nd := &f.Nodes[n]
		return !nd.OK() || nd.IsSwitch() && int(nd.Switch.LinearFDBCap) < size
	}
	queue := []int32{f.Self.Node}
	in[f.Self.Node] = true
	for len(queue) > 0 {
		n := queue[0]
		queue = queue[1:]
		if out(n) || !f.Nodes[n].IsSwitch() && n != f.Self.Node {
			continue
		}
		for i := range f.NodePorts(n) {
			if p := f.PortOf(n, uint8(i)); p.Has(topo.PortLinked) && !in[p.Peer.Node] && !out(p.Peer.Node) {
				in[p.Peer.Node] = true
				queue = append(queue, p.Peer.Node)
			}
		}
	}
	lids := 0
	for _, e := range a.eps {
		if n := a.port(e).Node; in[n] && !out(n) {
			lids += 1 << e.lmc
		}
	}
	return lids
}

// sortByNeed sorts the end ports for an assignment in which LIDs may run out: our own port comes
// first, as without it there is no manager, then switches, as without them others are cut off.
func (a *assignment) sortByNeed() {
	own := a.f.AgentPort(a.f.Self.Node, a.f.Self.Port)
	rank := func(e endPort) int {
		switch p := a.port(e); {
		case p == own:
			return 0
		case a.f.Nodes[p.Node].IsSwitch():
			return 1
		}
		return 2
	}
	slices.SortStableFunc(a.eps, func(x, y endPort) int { return rank(x) - rank(y) })
}
