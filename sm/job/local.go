package job

import (
	"slices"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
	"heddle/route/check"
)

// A move that changes no path between switches (move.Result.Local) is none to an engine that
// routes from switch to switch. Its last solution follows such moves before it is updated to
// another graph. Otherwise the next change, wherever it is, would route the LIDs anew that moved
// inside a leaf.

// LocalMove is a LID that moved from one port of a switch to another; ports by their GUID.
type LocalMove struct {
	LID      ib.LID
	From, To ib.GUID
}

// follow returns the solution after moves; nil if none of them concerns it, or if it does not
// verify. The engine's memory of its tables holds for the result too.
func (s *Solution) follow(list []LocalMove, o check.Options) *Solution {
	g, t := *s.Graph, *s.Tables
	g.LIDOwner = slices.Clone(g.LIDOwner)
	t.LFT = slices.Clone(t.LFT)
	t.Multicast = nil // the job judges trees by the groups of now
	port := map[ib.GUID]int32{}
	for e := range g.EndPorts {
		port[g.EndPorts[e].GUID] = int32(e)
	}
	changed := false
	for _, m := range list {
		to, ok := port[m.To]
		if !ok || int(m.LID) >= len(g.LIDOwner) || g.LIDOwner[m.LID] < 0 {
			continue
		}
		a, b := &g.EndPorts[g.LIDOwner[m.LID]], &g.EndPorts[to]
		w := a.Switch
		if a.GUID != m.From || a.LID == m.LID || w < 0 || b.Switch != w || t.Entry(w, m.LID) != a.Port {
			continue
		}
		t.LFT[w] = slices.Clone(t.LFT[w])
		t.LFT[w][m.LID] = b.Port
		g.LIDOwner[m.LID] = to
		changed = true
	}
	if !changed || s.Proof == nil {
		return nil
	}
	u := *s
	u.Graph, u.Tables = &g, &t
	if u.Proof = s.Proof.Update(u.Graph, fabric.Diff(s.Graph, u.Graph), u.Tables, o); !u.Proof.OK() {
		return nil
	}
	u.Report = u.Proof.Report()
	return &u
}

// moves returns the solution that LIDs are to move to, if nothing else changed; otherwise nil.
func (j *Job) moves(o route.Options) *Solution {
	m := j.MoveTo
	if m == nil || j.Base == nil {
		return nil
	}
	d := fabric.Diff(m.Graph, j.Graph)
	if !d.SameSwitches || !d.SameChannels || len(d.LIDs) > 0 || lanesChanged(m.Graph, j.Graph, d) {
		return nil
	}
	t, pr, err := j.prove(m.Tables, m, d, o)
	if err != nil {
		return nil
	}
	return &Solution{Graph: j.Graph, Engine: j.Base.Engine, Tables: t, Report: pr.Report(), Proof: pr, Passed: j.Base.Passed}
}
