package route

import (
	"heddle/fabric"
	"heddle/ib"
)

// PathAttributes are the differences that the PathRecord of a path shows. A path that takes other
// ports, with the same values, is no other path for a host.
const PathAttributes = PathSL | PathMTU | PathRate | PathOwner | PathGained | PathLost

// PathDiffer is DiffPaths one LID at a time, for a caller that has other work to do in between.
type PathDiffer struct {
	c    *pathComparer
	w    *pathWorker
	lids []ib.LID // to be compared
}

// NewPathDiffer finds the LIDs whose paths may differ; d is as in DiffPaths.
func NewPathDiffer(old, now Solution, d *fabric.Delta) *PathDiffer {
	if d == nil {
		d = fabric.Diff(old.Graph, now.Graph)
	}
	c := &pathComparer{old: old, now: now, d: d}
	return &PathDiffer{c: c, w: c.newWorker(), lids: c.touch()}
}

// Left is how many LIDs are to be compared. Each costs time proportional to the switches.
func (p *PathDiffer) Left() int { return len(p.lids) }

// Next compares the paths to the next LID, in ascending order. kinds is indexed by source switch
// of the new graph, and valid until the next call; nil if no path differs.
func (p *PathDiffer) Next() (l ib.LID, kinds []PathKind) {
	l, p.lids = p.lids[0], p.lids[1:]
	if p.w.compare(l) {
		kinds = p.w.kinds
	}
	return l, kinds
}

// Sources are those of a PathDiff.
func (p *PathDiffer) Sources() []int32 { return p.c.sources() }

// PathCount counts the paths of hosts whose PathRecord changes. Port 0 of a switch is no host.
type PathCount struct {
	Hosts int   // host ports with a changed path
	Paths int64 // (host port, destination LID)
	// Of them, those with another service level; with another MTU or rate; those that lead to
	// another port; those that begin or end to exist.
	SL, Capacity, Owner, Gained, Lost int64
}

// Count counts the differences that hosts see, without enumerating pairs: sources are counted by
// switch. g is the new graph. Paths of a source to its own LIDs do not count, nor do those whose
// only difference is the source's own link.
func (p *PathDiff) Count(g *fabric.Graph) (n PathCount) {
	hosts := make([]int64, len(g.Switches)) // host ports by switch
	for i := range g.EndPorts {
		if s := g.EndPorts[i].Switch; s >= 0 && g.EndPorts[i].PortNum != 0 {
			hosts[s]++
		}
	}
	const none, several = -1, -2
	sole := make([]int32, len(g.Switches)) // the only host with a changed path to it from its own switch
	for s := range sole {
		sole[s] = none
	}
	for i, l := range p.lids {
		own, dst := int32(-1), int32(several)
		if e := ownerOf(g, l); e != nil && e.PortNum != 0 {
			own, dst = e.Switch, g.LIDOwner[l]
		}
		p.runs(int32(i), func(from, to int32, k PathKind) bool {
			if k&PathAttributes == 0 {
				return true
			}
			var paths int64
			for s := from; s < to; s++ {
				switch m := hosts[s]; {
				case s != own:
					sole[s] = several
					paths += m
				default:
					if paths += m - 1; sole[s] == none {
						sole[s] = dst
					} else if sole[s] != dst {
						sole[s] = several
					}
				}
			}
			n.add(k, paths)
			return true
		})
	}
	for s := range sole {
		switch sole[s] {
		case none:
		case several:
			n.Hosts += int(hosts[s])
		default:
			n.Hosts += int(hosts[s]) - 1
		}
	}
	return n
}

func (n *PathCount) add(k PathKind, paths int64) {
	n.Paths += paths
	for _, x := range [...]struct {
		kind PathKind
		at   *int64
	}{{PathSL, &n.SL}, {PathMTU | PathRate, &n.Capacity}, {PathOwner, &n.Owner}, {PathGained, &n.Gained}, {PathLost, &n.Lost}} {
		if k&x.kind != 0 {
			*x.at += paths
		}
	}
}
