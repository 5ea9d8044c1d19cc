package check

import (
	"math/bits"

	"heddle/route/cdg"
)

// counts are numbers of destinations by pair of lanes and dependency, as
// planes are bits.
type counts [][]uint32

func (p counts) join(q counts) {
	for i, b := range q {
		if b == nil {
			continue
		}
		if p[i] == nil {
			p[i] = b
			continue
		}
		for k, x := range b {
			p[i][k] += x
		}
	}
}

// dependency counts of the packets to one LID that leave a switch: their share
// of the counts of traffic with a CA at one end, and of other traffic.
//
// With single-lane tables, a dependency to a switch's LID counts in the first
// as often as there are switches with CAs whose packets cause it, so that
// walking paths suffices to update the count.
func (j *verifier) eachDep(w *scratch, u int32, isCA bool, fn func(l1, l2 int, ca, sw uint32)) {
	c1 := w.ch[u]
	v := j.to[c1]
	c2 := w.ch[v]
	switch j.mode {
	case single:
		if isCA {
			fn(0, 0, 1, 0)
		} else {
			fn(0, 0, uint32(w.above[u]), 1)
		}
	case uniform:
		for x := w.mask[u] | w.smask[u]; x != 0; x &= x - 1 {
			l := bits.TrailingZeros16(x)
			if w.mask[u]>>l&1 != 0 {
				fn(l, l, 1, 0)
			} else {
				fn(l, l, 0, 1)
			}
		}
	case general:
		s := &w.state[u]
		row := j.lanesOf(v, j.g.Channels[c1].InPort, c2)
		var ca, sw [16]uint16 // lanes of c1 by lane of c2
		var next uint16
		for x := s.sls; x != 0; x &= x - 1 {
			sl := bits.TrailingZeros16(x)
			if l2 := uint8(row[sl]); l2 < j.vls[c2] {
				ca[l2] |= s.ca[sl]
				sw[l2] |= s.sw[sl]
				next |= 1 << l2
			}
		}
		for ; next != 0; next &= next - 1 {
			l2 := bits.TrailingZeros16(next)
			for x := ca[l2] | sw[l2]; x != 0; x &= x - 1 {
				l1 := bits.TrailingZeros16(x)
				if ca[l2]>>l1&1 != 0 {
					fn(l1, l2, 1, 0)
				} else {
					fn(l1, l2, 0, 1)
				}
			}
		}
	}
}

// count adds the dependencies of the LID at hand to the worker's counts.
func (j *verifier) count(w *scratch, isCA bool) {
	if j.mode == single && isCA {
		set := j.countPlane(w.caCount, 0, 0)
		for _, u := range w.order {
			if c1 := w.ch[u]; c1 >= 0 {
				if c2 := w.ch[j.to[c1]]; c2 >= 0 {
					set[j.row[c1]+j.col[c2]]++
				}
			}
		}
		return
	}
	for _, u := range w.order {
		c1 := w.ch[u]
		if c1 < 0 || w.ch[j.to[c1]] < 0 {
			continue
		}
		at := j.row[c1] + j.col[w.ch[j.to[c1]]]
		j.eachDep(w, u, isCA, func(l1, l2 int, ca, sw uint32) {
			if ca > 0 {
				j.countPlane(w.caCount, l1, l2)[at] += ca
			}
			if sw > 0 {
				j.countPlane(w.swCount, l1, l2)[at] += sw
			}
		})
	}
}

func (j *verifier) countPlane(p counts, l1, l2 int) []uint32 {
	at := &p[l1*j.lanes+l2]
	if *at == nil {
		*at = make([]uint32, j.nbits)
	}
	return *at
}

// graph makes counts into a graph.
func (j *verifier) graph(shape *cdg.Shape, p counts) *cdg.Graph {
	d := cdg.New(shape, j.lanes)
	for at, plane := range p {
		if plane == nil {
			continue
		}
		for c1 := range j.to {
			k := &j.g.Channels[c1]
			first := j.g.Off[k.To]
			for i, n := range plane[j.row[c1] : j.row[c1]+j.g.Off[k.To+1]-first] {
				if n > 0 {
					d.Add(cdg.Dep{
						Switch: k.To, In: k.InPort, InLane: uint8(at / j.lanes),
						Out: j.g.Channels[first+int32(i)].OutPort, OutLane: uint8(at % j.lanes),
					}, int(n))
				}
			}
		}
	}
	return d
}

// dep is the dependency of channel c2 on c1.
func (j *verifier) dep(c1, c2 int32, l1, l2 int) cdg.Dep {
	k := &j.g.Channels[c1]
	return cdg.Dep{Switch: k.To, In: k.InPort, InLane: uint8(l1), Out: j.g.Channels[c2].OutPort, OutLane: uint8(l2)}
}
