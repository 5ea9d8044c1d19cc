package job

import (
	"slices"

	"heddle/fabric"
	"heddle/route"
	"heddle/route/check"
	"heddle/route/mcast"
)

// prove verifies tables, with the help of the proof of the last solution if
// they come from it, and adds the trees of the multicast groups, which it
// verifies too. The tables it returns are those to install; it returns an error
// if they may not be.
func (j *Job) prove(t *route.Tables, b *Solution, d *fabric.Delta, o route.Options) (*route.Tables, *check.Proof, error) {
	co := check.Options{Workers: o.Workers}
	if t.Multicast != nil { // kept from the last solution; it may have other members
		u := *t
		u.Multicast = nil
		t = &u
	}
	if u, q := j.groupsOnly(t, b, d, o); q != nil {
		return u, q, nil
	}
	var p *check.Proof
	if b != nil {
		p = b.Proof.Update(j.Graph, d, t, co)
	} else {
		p = check.Prove(j.Graph, t, co)
	}
	if err := p.Err(); err != nil || len(j.Groups) == 0 {
		return t, p, err
	}
	mo := mcast.Options{Workers: o.Workers}
	mo.Previous, mo.PreviousGraph = j.trees()
	mo.Unicast, _ = p.Dependencies()
	u := mcast.Join(j.Graph, t, mcast.Build(j.Graph, t, j.Groups, mo))
	co.Groups = Accepted(j.Groups, u.Multicast)
	q := p.Update(j.Graph, fabric.Diff(j.Graph, j.Graph), u, co)
	if err := q.Err(); err != nil {
		// Unicast must not suffer for it.
		without := *t
		u = &without
		u.Multicast = &route.Multicast{}
		for _, g := range j.Groups {
			u.Multicast.Refused = append(u.Multicast.Refused, route.RefusedGroup{
				MLID: g.MLID, Reason: "the trees do not verify: " + err.Error(),
			})
		}
		return u, p, nil
	}
	return u, q, nil
}

// current is the last solution with the trees of the groups of now: since it was found, groups alone may
// have changed, in other solutions.
func (j *Job) current(o route.Options) *Solution {
	s := *j.Base
	t, p, err := j.prove(s.Tables, j.Base, fabric.Diff(j.Graph, j.Graph), o)
	if err == nil { // as it was before
		s.Tables, s.Proof, s.Report = t, p, p.Report()
	}
	return &s
}

// trees are the trees that groups have, and their graph: those of the solution in force, else those that
// were read from the switches. So a new master keeps the trees of the one before, which it would not find
// again: they depend on the order in which hosts joined.
func (j *Job) trees() (*route.Multicast, *fabric.Graph) {
	for _, s := range []*Solution{j.Served, j.Base} {
		if s != nil && s.Tables.Multicast != nil {
			return s.Tables.Multicast, s.Graph
		}
	}
	if j.Installed != nil {
		return j.Installed.Multicast, j.Graph
	}
	return nil, nil
}

// groupsOnly is prove where nothing but groups changed since the last solution:
// trees that stay are neither built nor verified again. The proof is nil where that
// does not hold, or the new trees do not verify.
func (j *Job) groupsOnly(t *route.Tables, b *Solution, d *fabric.Delta, o route.Options) (*route.Tables, *check.Proof) {
	if b == nil || b != j.Base || b.Graph != j.Graph || len(j.Groups) == 0 || b.Tables.Multicast == nil {
		return nil, nil
	}
	if m, _ := j.trees(); m != b.Tables.Multicast {
		return nil, nil // groups changed since that solution, and their trees stay
	}
	mo := mcast.Options{Workers: o.Workers, Previous: b.Tables.Multicast, PreviousGraph: b.Graph}
	if !mcast.Resumes(j.Graph, t, mo) {
		return nil, nil
	}
	u := mcast.Join(j.Graph, t, mcast.Build(j.Graph, t, j.Groups, mo))
	q := b.Proof.Update(j.Graph, d, u, check.Options{Workers: o.Workers, Groups: Accepted(j.Groups, u.Multicast)})
	if q.Err() != nil {
		return nil, nil
	}
	return u, q
}

// Accepted returns the groups that have trees.
func Accepted(groups []route.Group, m *route.Multicast) []route.Group {
	out := make([]route.Group, 0, len(groups))
	for _, g := range groups {
		if !slices.ContainsFunc(m.Refused, func(r route.RefusedGroup) bool { return r.MLID == g.MLID }) {
			out = append(out, g)
		}
	}
	return out
}

// inUse completes the entries that are installed with the service levels and
// lanes that are in use, which belong to the tables last distributed, in the
// order of the new graph. Where there are none hosts use level 0 and links the
// lanes that levels are modulo theirs.
func (j *Job) inUse() *route.Tables {
	t := *j.Installed
	s := j.Served
	if s == nil {
		return &t
	}
	old := s.Tables
	t.NumVLs = max(old.NumVLs, 1)
	if s.Graph == j.Graph {
		t.SL, t.Class, t.NumClasses, t.Lanes = old.SL, old.Class, old.NumClasses, old.Lanes
		return &t
	}
	u := old.Follow(s.Graph, j.Graph)
	t.SL, t.Class, t.NumClasses, t.Lanes = u.SL, u.Class, u.NumClasses, u.Lanes
	return &t
}
