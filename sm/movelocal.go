package sm

import (
	"slices"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
	"heddle/route/check"
	"heddle/route/move"
)

// A move that changes no path between switches (move.Result.Local) is none to an engine that
// routes from switch to switch. Its last solution follows such moves before it is carried over
// to another graph: LIDs that moved inside a leaf would else be routed anew with the next
// change, wherever that is.

// localMove is a LID that went from one port of a switch to another, by port GUID.
type localMove struct {
	lid      ib.LID
	from, to ib.GUID
}

// maxLocalMoves bounds Core.localMoves. When there are more, the engine finds those LIDs at
// their new ports.
const maxLocalMoves = 1 << 12

// noteLocal notes the moves that were just carried out, if they are local.
func (c *Core) noteLocal() {
	r := c.mv.res
	if !r.Local || c.base == nil {
		return
	}
	if len(c.localMoves)+2*len(c.mv.list) > maxLocalMoves {
		c.localMoves = nil
		return
	}
	was, now := c.served.graph, r.Graph
	note := func(l ib.LID) {
		if int(l) >= len(was.LIDOwner) || int(l) >= len(now.LIDOwner) {
			return
		}
		if a, b := was.LIDOwner[l], now.LIDOwner[l]; a >= 0 && b >= 0 && a != b {
			c.localMoves = append(c.localMoves, localMove{l, was.EndPorts[a].GUID, now.EndPorts[b].GUID})
		}
	}
	var done []ib.LID
	for _, q := range c.mv.list {
		for _, l := range [2]ib.LID{q.LID, q.With} {
			if (l == q.LID || q.Kind == move.Swap) && !slices.Contains(done, l) {
				done = append(done, l)
				note(l)
			}
		}
	}
}

// follow is the solution after moves; nil if none of them concerns it, or it would not be
// proved. What the engine remembers of its tables holds for the result too.
func (s *solution) follow(list []localMove, o check.Options) *solution {
	g, t := *s.graph, *s.tables
	g.LIDOwner = slices.Clone(g.LIDOwner)
	t.LFT = slices.Clone(t.LFT)
	t.Multicast = nil // the job judges trees by the groups of now
	port := map[ib.GUID]int32{}
	for e := range g.EndPorts {
		port[g.EndPorts[e].GUID] = int32(e)
	}
	changed := false
	for _, m := range list {
		to, ok := port[m.to]
		if !ok || int(m.lid) >= len(g.LIDOwner) || g.LIDOwner[m.lid] < 0 {
			continue
		}
		a, b := &g.EndPorts[g.LIDOwner[m.lid]], &g.EndPorts[to]
		w := a.Switch
		if a.GUID != m.from || a.LID == m.lid || w < 0 || b.Switch != w || t.Entry(w, m.lid) != a.Port {
			continue
		}
		t.LFT[w] = slices.Clone(t.LFT[w])
		t.LFT[w][m.lid] = b.Port
		g.LIDOwner[m.lid] = to
		changed = true
	}
	if !changed || s.proof == nil {
		return nil
	}
	u := *s
	u.graph, u.tables = &g, &t
	if u.proof = s.proof.Update(u.graph, fabric.Diff(s.graph, u.graph), u.tables, o); !u.proof.OK() {
		return nil
	}
	u.report = u.proof.Report()
	return &u
}

// moves is the solution that LIDs are to move to, if nothing else changed: nil otherwise.
func (j *Job) moves(o route.Options) *solution {
	m := j.moved
	if m == nil || j.base == nil {
		return nil
	}
	d := fabric.Diff(m.graph, j.graph)
	if !d.SameSwitches || !d.SameChannels || len(d.LIDs) > 0 || lanesChanged(m.graph, j.graph, d) {
		return nil
	}
	t, pr, err := j.prove(m.tables, m, d, o)
	if err != nil {
		return nil
	}
	return &solution{graph: j.graph, engine: j.base.engine, tables: t, report: pr.Report(), proof: pr, passed: j.base.passed}
}
