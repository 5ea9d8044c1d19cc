package preview

import (
	"bytes"
	"slices"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/partition"
	"heddle/sa"
)

// groups compares the permanent groups, and finds memberships that end.
func (w *work) groups() {
	was, is := permanent(w.InForce), permanent(w.next)
	here := map[ib.GID]*sa.Group{}
	if w.Groups != nil {
		for _, g := range w.Groups.Groups {
			here[g.MGID] = g
		}
	}
	for mgid, g := range is {
		o, old := was[mgid], here[mgid]
		x := Group{MGID: mgid, PKey: g.key}
		switch {
		case o != nil && *o.Group == *g.Group && o.key == g.key:
			continue
		case o != nil:
			x.What = GroupValues
		case old != nil:
			x.What = GroupFixed
		default:
			x.What = GroupNew
		}
		if old != nil {
			x.MLID, x.Ends = old.MLID, w.leaving(old, nil)
		}
		w.plan.Groups = append(w.plan.Groups, x)
	}
	for mgid, g := range here {
		left := 0
		x := Group{MGID: mgid, MLID: g.MLID, PKey: g.PKey.Base(), Ends: w.leaving(g, &left)}
		fixed, ended := is[mgid] != nil, was[mgid] != nil && is[mgid] == nil
		switch {
		case fixed && (was[mgid] == nil || *was[mgid].Group != *is[mgid].Group):
			continue // above
		case !fixed && left == 0 && (ended || x.Ends > 0):
			x.What = GroupGone
			x.Ends = len(g.Members)
		case ended:
			x.What = GroupKept
		case x.Ends == 0:
			continue
		}
		w.plan.Groups = append(w.plan.Groups, x)
	}
	slices.SortFunc(w.plan.Groups, func(a, b Group) int { return bytes.Compare(a.MGID[:], b.MGID[:]) })
}

// fixedGroup is a permanent group and the P_Key of its partition.
type fixedGroup struct {
	*partition.Group
	key ib.PKey
}

// permanent are the permanent groups of a policy; each has one partition.
func permanent(p *partition.Policy) map[ib.GID]*fixedGroup {
	out := map[ib.GID]*fixedGroup{}
	for i := range p.Partitions {
		q := &p.Partitions[i]
		for j := range q.Groups {
			out[q.Groups[j].MGID] = &fixedGroup{&q.Groups[j], q.PKey}
		}
	}
	return out
}

// leaving counts the members of a group whose port loses its P_Key, and adds to left those that stay and
// keep the group.
func (w *work) leaving(g *sa.Group, left *int) (n int) {
	any := w.lostKeys[g.PKey.Base()]
	for i := range g.Members {
		m := &g.Members[i]
		if any {
			p := w.Snap.PortByGUID(m.PortGID.GUID())
			if p < 0 {
				p = w.Snap.PortByGUID(m.PortGUID)
			}
			if p >= 0 && slices.Contains(w.lost[p], g.PKey.Base()) {
				n++
				continue
			}
		}
		if left != nil && m.JoinState&(wire.JoinFull|wire.JoinSendOnlyFull) != 0 {
			*left++
		}
	}
	return n
}
