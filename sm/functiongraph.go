package sm

import (
	"cmp"
	"slices"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
	"heddle/sm/forward"
	"heddle/sm/notice"
)

// buildGraph makes the graph of what is listed, with the LIDs of virtual functions.
func (c *Core) buildGraph() {
	c.Fabric.Graph = c.grantLIDs(c.Fabric.BuildGraph(c.Config.MaxOpVLs))
	c.routing.regrant = false
}

// grantLIDs is the graph with the LIDs of virtual functions at their owners: where
// they are, or are about to be.
func (c *Core) grantLIDs(g *fabric.Graph) *fabric.Graph {
	if !c.placements.Any() && c.lids.NumFunctions() == 0 {
		return g
	}
	var list []fabric.LIDGrant
	grant := func(l ib.LID, port ib.GUID) {
		if l == 0 || port == 0 || int(l) >= c.lids.Limit() || int(l) < len(g.LIDOwner) && g.LIDOwner[l] != fabric.NoLID {
			return
		}
		e, ok := slices.BinarySearchFunc(g.EndPorts, port, func(e fabric.EndPort, u ib.GUID) int { return cmp.Compare(e.GUID, u) })
		if ok && g.EndPorts[e].Type != ib.NodeSwitch && g.EndPorts[e].Switch >= 0 && g.EndPorts[e].LID != 0 {
			list = append(list, fabric.LIDGrant{LID: l, EndPort: int32(e)})
		}
	}
	for _, p := range c.lids.Functions() {
		grant(c.lids.OfFunction(p), p.Port)
	}
	c.placements.EachLID(grant)
	// The LID of a placement is also its function's. Both name the same port except during
	// a move, and then the function's counts.
	slices.SortStableFunc(list, func(a, b fabric.LIDGrant) int { return cmp.Compare(a.LID, b.LID) })
	list = slices.CompactFunc(list, func(a, b fabric.LIDGrant) bool { return a.LID == b.LID })
	h, err := g.WithLIDs(list)
	if err != nil { // cannot be: what it refuses was left out
		c.Notify(notice.Notice{Kind: notice.KindLIDConflict, Level: notice.Error, Err: err, Text: "LIDs of virtual functions are not routed"})
		return g
	}
	return h
}

// ownerOf is the port that a LID leads to in the graph in force, 0 if none.
func (c *Core) ownerOf(l ib.LID) ib.GUID {
	g := c.Fabric.Graph
	if g == nil || int(l) >= len(g.LIDOwner) || g.LIDOwner[l] == fabric.NoLID {
		return 0
	}
	return g.EndPorts[g.LIDOwner[l]].GUID
}

// routedAt reports whether a LID leads to a port from everywhere: the tables in force say
// so, and every switch is known to hold what they say.
func (c *Core) routedAt(l ib.LID, port ib.GUID) bool {
	f := c.Fabric
	if l == 0 || f == nil || f.Graph == nil || c.install.Served() == nil || c.install.Served().Graph != f.Graph || c.ownerOf(l) != port {
		return false
	}
	if c.install.Sure() {
		return true
	}
	t := c.install.Served().Tables
	for s, ni := range f.SwitchNode {
		x := f.Nodes[ni].LFT
		if x == nil || !forward.BitGet(x.Known, int(l)/route.BlockLen) || int(l) >= len(x.Row) || l > x.Top || x.Row[l] != t.Entry(int32(s), l) {
			return false
		}
	}
	return true
}
