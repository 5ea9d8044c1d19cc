package sm

import (
	"cmp"
	"slices"
	"strconv"

	"heddle/ib"
	"heddle/sm/lid"
	"heddle/sm/notice"
	"heddle/sm/topo"
	"heddle/store"
)

// endPort is a port that needs a LID, in the order of port GUIDs.
type endPort struct {
	idx int32 // in fab.ports
	lmc uint8
}

// endPorts lists the ports that need LIDs, ascending port GUID.
func (c *Core) endPorts() []endPort {
	f := c.Fabric
	var eps []endPort
	for i := range f.Ports {
		p := &f.Ports[i]
		n := &f.Nodes[p.Node]
		if !p.Has(topo.PortEnd) || !n.OK() {
			continue
		}
		lmc := c.Config.LMC
		if n.IsSwitch() {
			if lmc = 0; n.Switch.EnhancedPort0 {
				lmc = c.Config.LMCPort0
			}
		} else if p.Node != f.Self.Node && !p.Has(topo.PortLinked) {
			continue // no link of this subnet leads to it
		}
		eps = append(eps, endPort{int32(i), lmc})
	}
	slices.SortFunc(eps, func(a, b endPort) int {
		return cmp.Or(cmp.Compare(f.Ports[a.idx].GUID, f.Ports[b.idx].GUID), cmp.Compare(a.idx, b.idx))
	})
	// Two ports with one port GUID cannot both have its LID.
	out := eps[:0]
	for _, e := range eps {
		if len(out) > 0 && f.Ports[out[len(out)-1].idx].GUID == f.Ports[e.idx].GUID {
			first, p := &f.Ports[out[len(out)-1].idx], &f.Ports[e.idx]
			p.Flags |= topo.PortLeftOut
			c.Problem(notice.Where{}, notice.Notice{
				Kind: notice.KindDuplicateGUID, Level: notice.Error, Where: f.Where(p.Node, int(p.Num)), Peer: f.Where(first.Node, int(first.Num)),
				Text: "port GUID " + p.GUID.String() + " is already in use by the second port named; this one is left out: give it a GUID of its own",
			})
			continue
		}
		out = append(out, e)
	}
	return out
}

// lidLimit is the first LID that some switch's table cannot hold. Switches
// whose tables are too small for the subnet are left out if that costs fewer
// end ports than running out of LIDs would.
func (c *Core) lidLimit(eps []endPort) int {
	f := c.Fabric
	need := needed(eps)
	limit := int(ib.LIDMaxUnicast) + 1
	for i := range f.Nodes {
		if n := &f.Nodes[i]; n.IsSwitch() && n.OK() {
			limit = min(limit, int(n.Switch.LinearFDBCap))
		}
	}
	if limit >= need {
		return limit
	}
	// Try the table sizes from the smallest up: with switches below a size left
	// out, as many LIDs are of use as ports are still joined, or as fit.
	sizes := []int{limit, need}
	for i := range f.Nodes {
		if n := &f.Nodes[i]; n.IsSwitch() && n.OK() && int(n.Switch.LinearFDBCap) < need {
			sizes = append(sizes, int(n.Switch.LinearFDBCap))
		}
	}
	slices.Sort(sizes)
	best, most := limit, 0
	for _, size := range slices.Compact(sizes) {
		if use := min(c.joined(eps, size), size-1); use > most {
			best, most = size, use
		}
	}
	limit = int(ib.LIDMaxUnicast) + 1
	for i := range f.Nodes {
		n := &f.Nodes[i]
		if !n.IsSwitch() || !n.OK() {
			continue
		}
		if size := int(n.Switch.LinearFDBCap); size < best {
			text := "its linear forwarding table holds " + strconv.Itoa(size) + " LIDs but the subnet needs " + strconv.Itoa(need) + "; the switch is left out: take it out of the fabric or use a smaller LMC"
			if size == 0 {
				text = "it has no linear forwarding table, only a random one, which is not supported; the switch is left out"
			}
			c.Problem(notice.Where{}, notice.Notice{Kind: notice.KindTableTooSmall, Level: notice.Error, Where: f.Where(int32(i), -1), Text: text})
			c.Fabric.Exclude(int32(i), text)
			continue
		}
		limit = min(limit, int(n.Switch.LinearFDBCap))
	}
	return limit
}

// needed is the size of the smallest table that holds LIDs for all of eps.
func needed(eps []endPort) int {
	need := 1
	for _, e := range eps {
		need += 1 << e.lmc
	}
	return need
}

// joined is how many LIDs the end ports need that links join with our own port
// when switches whose tables hold fewer than size LIDs are left out.
func (c *Core) joined(eps []endPort, size int) int {
	f := c.Fabric
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
	for _, e := range eps {
		if n := f.Ports[e.idx].Node; in[n] && !out(n) {
			lids += 1 << e.lmc
		}
	}
	return lids
}

// assignLIDs gives every end port its LID. In this order a range is kept, if
// it is aligned, within every switch's table and free:
//
//  1. what this mastership gave the port before;
//  2. on the first sweep of a mastership, what an Active port has;
//  3. what the store says;
//  4. what a port that is not Active has, if the store reserves it for nobody;
//  5. the lowest range that neither the fabric nor the store uses; when there
//     is none left, ranges of ports that are not here are given up.
//
// A port that cannot keep its range gets another one, and the move is
// reported.
func (c *Core) assignLIDs() []store.Op {
	f := c.Fabric
	eps := c.endPorts()
	outBefore := c.Fabric.Excluded()
	limit := c.lidLimit(eps)
	c.lids.SetLimit(limit)
	if c.Fabric.Excluded() != outBefore { // links of the switches left out are gone
		for i := range f.Ports {
			f.Ports[i].Flags &^= topo.PortLinked
		}
		c.Fabric.MarkLinks()
		eps = c.endPorts()
	}
	sp := &lid.Space{Limit: limit}
	ops := c.placements.Reserve(sp)
	give := func(e endPort, r lid.Range) bool {
		p := &f.Ports[e.idx]
		r.LMC = e.lmc
		if p.LID != 0 || !sp.Free(r) {
			return false
		}
		sp.Take(r)
		p.LID, p.LMC = r.Base, r.LMC
		return true
	}
	for _, e := range eps {
		if base := c.placements.FloatBase(f.Ports[e.idx].GUID); base != 0 {
			give(e, lid.One(base))
		}
	}
	for _, e := range eps {
		if r, ok := c.lids.Assigned(f.Ports[e.idx].GUID); ok {
			give(e, r)
		}
	}
	if c.FirstSweep {
		// Where two Active ports claim one range the one that the store names
		// keeps it, else the lower GUID.
		for pass := range 2 {
			for _, e := range eps {
				p := &f.Ports[e.idx]
				if !c.inUse(p) {
					continue
				}
				if pass == 0 && c.storedLID(p.GUID) != p.Info.LID {
					continue
				}
				give(e, lid.One(p.Info.LID))
			}
		}
	}
	for _, e := range eps {
		if r, ok := c.lids.Stored(f.Ports[e.idx].GUID); ok {
			give(e, r)
		}
	}
	reserved := c.reserve(sp, eps)
	for _, e := range eps {
		if p := &f.Ports[e.idx]; p.Info.LID.IsUnicast() {
			give(e, lid.One(p.Info.LID))
		}
	}
	if needed(eps) > limit {
		eps = c.byNeed(eps)
	}
	for _, e := range eps {
		p := &f.Ports[e.idx]
		if p.LID == 0 {
			r := sp.Lowest(e.lmc)
			for r.Base == 0 && len(reserved) > 0 {
				old, op := c.lids.Revoke(reserved[len(reserved)-1])
				reserved = reserved[:len(reserved)-1]
				sp.Release(old)
				ops = append(ops, op)
				r = sp.Lowest(e.lmc)
			}
			if r.Base == 0 {
				p.Flags |= topo.PortLeftOut
				c.Problem(notice.Where{}, notice.Notice{
					Kind: notice.KindNoLID, Level: notice.Error, Where: f.Where(p.Node, int(p.Num)),
					Text: "no LID left: all " + strconv.Itoa(limit-1) + " that the smallest forwarding table holds are in use; the port is left out: use a smaller LMC or larger switches",
				})
				continue
			}
			sp.Take(r)
			p.LID, p.LMC = r.Base, r.LMC
		}
		c.noteMove(p)
		ops = append(ops, c.lids.Assign(p.GUID, lid.Range{Base: p.LID, LMC: p.LMC})...)
	}
	return ops
}

// byNeed is eps in the order in which LIDs that may run out are given: our own
// port, without which there is no manager, then switches, without which others
// are cut off.
func (c *Core) byNeed(eps []endPort) []endPort {
	f := c.Fabric
	own := f.AgentPort(f.Self.Node, f.Self.Port)
	rank := func(e endPort) int {
		switch p := &f.Ports[e.idx]; {
		case p == own:
			return 0
		case f.Nodes[p.Node].IsSwitch():
			return 1
		}
		return 2
	}
	out := slices.Clone(eps)
	slices.SortStableFunc(out, func(a, b endPort) int { return rank(a) - rank(b) })
	return out
}

// inUse reports whether connections may depend on the LID that a port shows.
func (c *Core) inUse(p *topo.Port) bool {
	if !p.Info.LID.IsUnicast() {
		return false
	}
	if p.Num == 0 && c.Fabric.Nodes[p.Node].IsSwitch() {
		// A base port 0 has no states; its LID is in use if some master set it up.
		return p.Info.MasterSMLID != 0
	}
	return p.Info.PortState >= ib.StateArmed
}

// reserve takes the ranges of ports that are known but not here, so that they
// find them free when they return. It returns their GUIDs, descending.
func (c *Core) reserve(sp *lid.Space, eps []endPort) []ib.GUID {
	absent := make([]ib.GUID, 0, 16)
	f := c.Fabric
	i := 0
	for _, g := range c.lids.StoredGUIDs() {
		for i < len(eps) && f.Ports[eps[i].idx].GUID < g {
			i++
		}
		if i < len(eps) && f.Ports[eps[i].idx].GUID == g {
			continue
		}
		if r, _ := c.lids.Stored(g); sp.Free(r) {
			sp.Take(r)
			absent = append(absent, g)
		}
	}
	slices.Reverse(absent)
	return absent
}

// storedLID is the LID that the store has for a port, 0 if none.
func (c *Core) storedLID(port ib.GUID) ib.LID {
	r, _ := c.lids.Stored(port)
	return r.Base
}

// noteMove reports a port whose LID changes although somebody may be using it.
func (c *Core) noteMove(p *topo.Port) {
	old, had := c.lids.Assigned(p.GUID)
	stored := c.storedLID(p.GUID)
	var text string
	switch {
	case p.LID == c.placements.FloatBase(p.GUID):
		return // what it shows is a VM's
	case had && old.Base != p.LID:
		text = "its LID " + old.Base.String() + " cannot be kept (alignment, LMC or the smallest forwarding table)"
	case !had && c.FirstSweep && c.inUse(p) && p.Info.LID != p.LID:
		text = "it shows LID " + p.Info.LID.String() + ", which another port has or which does not fit"
	case !had && stored != 0 && stored != p.LID && p.Info.LID != p.LID:
		text = "its stored LID " + stored.String() + " is in use by another port or does not fit"
	case !had && !c.FirstSweep && p.Info.LID.IsUnicast() && p.Info.LID != p.LID && c.inUse(p):
		text = "it joined with LID " + p.Info.LID.String() + ", which another port has"
	default:
		return
	}
	c.Notify(notice.Notice{Kind: notice.KindLIDConflict, Level: notice.Warn, Where: c.Fabric.Where(p.Node, int(p.Num)), Text: text + "; it gets LID " + p.LID.String()})
}
