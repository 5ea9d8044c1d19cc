package routing

import (
	"cmp"
	"slices"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route/move"
	"heddle/sm/job"
	"heddle/sm/notice"
)

// BuildGraph builds the graph of the switches and end ports that are listed, with the LIDs of
// virtual functions.
func (r *Router) BuildGraph() {
	r.Fabric.Graph = r.grantLIDs(r.Fabric.BuildGraph(r.Config.MaxOpVLs))
	r.regrant = false
}

// grantLIDs is the graph with the LIDs of virtual functions at their owners: the ports where they
// are, or will be.
func (r *Router) grantLIDs(g *fabric.Graph) *fabric.Graph {
	if !r.needs.Placements.Any() && r.needs.LIDs.NumFunctions() == 0 {
		return g
	}
	var list []fabric.LIDGrant
	grant := func(l ib.LID, port ib.GUID) {
		if l == 0 || port == 0 || int(l) >= r.needs.LIDs.Limit() {
			return
		}
		if int(l) < len(g.LIDOwner) && g.LIDOwner[l] != fabric.NoLID {
			return
		}
		e, ok := slices.BinarySearchFunc(g.EndPorts, port, func(e fabric.EndPort, u ib.GUID) int {
			return cmp.Compare(e.GUID, u)
		})
		if ok && g.EndPorts[e].Type != ib.NodeSwitch && g.EndPorts[e].Switch >= 0 && g.EndPorts[e].LID != 0 {
			list = append(list, fabric.LIDGrant{LID: l, EndPort: int32(e)})
		}
	}
	for _, p := range r.needs.LIDs.Functions() {
		grant(r.needs.LIDs.OfFunction(p), p.Port)
	}
	r.needs.Placements.EachLID(grant)
	// The LID of a placement may also be that of its function. Both name the same port, except
	// while the LID moves; then that of the function counts.
	slices.SortStableFunc(list, func(a, b fabric.LIDGrant) int { return cmp.Compare(a.LID, b.LID) })
	list = slices.CompactFunc(list, func(a, b fabric.LIDGrant) bool { return a.LID == b.LID })
	h, err := g.WithLIDs(list)
	if err != nil { // cannot be, because grant leaves out what WithLIDs refuses
		r.Notify(notice.Notice{
			Kind: notice.KindLIDConflict, Level: notice.Error, Err: err, Text: "LIDs of virtual functions are not routed",
		})
		return g
	}
	return h
}

// Owner is the port that a LID leads to in the graph, 0 if none.
func (r *Router) Owner(l ib.LID) ib.GUID {
	g := r.Fabric.Graph
	if g == nil || int(l) >= len(g.LIDOwner) || g.LIDOwner[l] == fabric.NoLID {
		return 0
	}
	return g.EndPorts[g.LIDOwner[l]].GUID
}

// RoutedAt reports whether a LID leads to a port from every switch: the installed tables say so,
// and every switch is known to hold them.
func (r *Router) RoutedAt(l ib.LID, port ib.GUID) bool {
	f, served := r.Fabric, r.install.Served()
	if l == 0 || f == nil || f.Graph == nil || served == nil || served.Graph != f.Graph || r.Owner(l) != port {
		return false
	}
	if r.install.Sure() {
		return true
	}
	for s, ni := range f.SwitchNode {
		if x := f.Nodes[ni].LFT; x == nil || !x.Holds(l, served.Tables.Entry(int32(s), l)) {
			return false
		}
	}
	return true
}

// Aim has the next sweep move LIDs to tables that no engine computed, if it finds nothing else to
// do; nil: it routes the LIDs itself.
func (r *Router) Aim(s *job.Solution) { r.aim = s }

// maxLocal bounds the list of local moves. If there are more, the engine finds those LIDs at their
// new ports.
const maxLocal = 1 << 12

// MovedLocally takes moves of LIDs between ports of one switch, which were carried out, from the
// graph was to the graph now. The next job repeats them in the engine's solution.
func (r *Router) MovedLocally(list []move.Request, was, now *fabric.Graph) {
	if r.base == nil {
		return
	}
	if len(r.local)+2*len(list) > maxLocal {
		r.local = nil
		return
	}
	var done []ib.LID
	note := func(l ib.LID) {
		if slices.Contains(done, l) {
			return
		}
		done = append(done, l)
		if int(l) >= len(was.LIDOwner) || int(l) >= len(now.LIDOwner) {
			return
		}
		if a, b := was.LIDOwner[l], now.LIDOwner[l]; a >= 0 && b >= 0 && a != b {
			r.local = append(r.local, job.LocalMove{LID: l, From: was.EndPorts[a].GUID, To: now.EndPorts[b].GUID})
		}
	}
	for _, q := range list {
		note(q.LID)
		if q.Kind == move.Swap {
			note(q.With)
		}
	}
}
