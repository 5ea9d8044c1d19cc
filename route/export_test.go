package route

import (
	"slices"

	"heddle/fabric"
	"heddle/ib"
)

// Other views of a PathDiff, which tests compare with a slow one.

// Bytes is the memory that the lists take.
func (p *PathDiff) Bytes() int {
	return len(p.data) + len(p.lids)*2 + len(p.at)*4 + len(p.size)*4 + len(p.form) + len(p.Sources)*4
}

// Kind is what differs of the path from switch src to l; 0 is nothing. It takes
// time proportional to the runs of the LID.
func (p *PathDiff) Kind(src int32, l ib.LID) (k PathKind) {
	i, ok := slices.BinarySearch(p.lids, l)
	if !ok {
		return 0
	}
	return p.kind(int32(i), src)
}

func (p *PathDiff) kind(i, src int32) (k PathKind) {
	if !p.form[i] {
		return PathKind(p.sources(i)[src])
	}
	p.runs(i, func(from, to int32, kind PathKind) bool {
		if src < to {
			if src >= from {
				k = kind
			}
			return false
		}
		return true
	})
	return k
}

// From calls fn for the LIDs to which the path from switch src differs,
// ascending.
func (p *PathDiff) From(src int32, fn func(l ib.LID, k PathKind)) {
	for i, l := range p.lids {
		if k := p.kind(int32(i), src); k != 0 {
			fn(l, k)
		}
	}
}

// Pairs counts the paths that differ: pairs of a source end port with a LID and
// a destination LID of another port, in the new graph. Those of Sources are not counted for that.
func (p *PathDiff) Pairs(g *fabric.Graph) (n int64) {
	sum := make([]int64, len(g.Switches)+1) // end ports on switches before
	for i := range g.EndPorts {
		if e := &g.EndPorts[i]; e.Switch >= 0 && e.LID != 0 {
			sum[e.Switch+1]++
		}
	}
	for s := range g.Switches {
		sum[s+1] += sum[s]
	}
	for i, l := range p.lids {
		at := int32(-1)
		if int(l) < len(g.LIDOwner) && g.LIDOwner[l] != fabric.NoLID {
			at = g.EndPorts[g.LIDOwner[l]].Switch
		}
		p.runs(int32(i), func(from, to int32, _ PathKind) bool {
			n += sum[to] - sum[from]
			if from <= at && at < to {
				n-- // the port itself
			}
			return true
		})
	}
	return n
}
