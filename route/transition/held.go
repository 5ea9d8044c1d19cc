package transition

import (
	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
)

// Held are the service levels that hosts may still use from tables before the
// installed ones: a host that resolved a path two transitions ago, and was not
// notified since, still uses the level of that time. nil holds none.
//
// Levels are stored by (source switch, class of LIDs) as in route.Tables.
type Held struct {
	Class      []int32 // by LID; -1: nothing held
	NumClasses int
	Mask       []uint16 // by source switch · NumClasses + class: a bit for each level
}

func (h *Held) levels(s int32, l ib.LID) uint16 {
	if h == nil || int(l) >= len(h.Class) || h.Class[l] < 0 {
		return 0
	}
	return h.Mask[int(s)*h.NumClasses+int(h.Class[l])]
}

// Next returns the held levels after a transition away from tables that were for
// the old graph of d: the levels held before, and the tables' own. The result is
// for the new graph; pairs of a removed switch are dropped. A LID that moved
// keeps its levels: connections follow a virtual machine. d may be nil if the
// graph is the same; then n is its number of switches. Tables without service
// levels used level 0.
func (h *Held) Next(old *route.Tables, d *fabric.Delta, n int) *Held {
	// Tables without service levels have no classes either, and use level 0.
	class := old.Class
	if old.SL == nil {
		class = make([]int32, int(old.TopLID)+1)
	}
	top := len(class)
	if h != nil {
		top = max(top, len(h.Class))
	}
	r := &Held{Class: make([]int32, top)}
	type pair struct{ held, old int32 }
	classes := map[pair]int32{}
	var kinds []pair
	for l := range r.Class {
		p := pair{-1, -1}
		if h != nil && l < len(h.Class) {
			p.held = h.Class[l]
		}
		if l < len(class) {
			p.old = class[l]
		}
		if p == (pair{-1, -1}) {
			r.Class[l] = -1
			continue
		}
		c, ok := classes[p]
		if !ok {
			c = int32(len(kinds))
			classes[p] = c
			kinds = append(kinds, p)
		}
		r.Class[l] = c
	}
	r.NumClasses = len(kinds)
	if d != nil {
		n = len(d.Switch)
	}
	r.Mask = make([]uint16, n*len(kinds))
	for s := range n {
		was := s
		if d != nil {
			was = int(d.Switch[s])
		}
		if was < 0 {
			continue
		}
		for c, p := range kinds {
			m := &r.Mask[s*len(kinds)+c]
			if p.held >= 0 {
				*m |= h.Mask[was*h.NumClasses+int(p.held)]
			}
			switch {
			case p.old < 0:
			case old.SL == nil:
				*m |= 1
			default:
				*m |= 1 << (old.SL[was*old.NumClasses+int(p.old)] & 15)
			}
		}
	}
	return r
}
