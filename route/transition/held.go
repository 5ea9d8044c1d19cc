package transition

import (
	"cmp"
	"slices"

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

// HeldLevel is a service level that hosts at a switch may use to a LID.
type HeldLevel struct {
	LID    ib.LID
	Switch int32 // index in the graph
	SL     ib.SL
}

// With returns the held levels of a graph with n switches together with those of a list. LIDs with
// the same levels share a class. h may be nil; neither it nor the list is changed.
func (h *Held) With(n int, list []HeldLevel) *Held {
	if len(list) == 0 {
		return h
	}
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b HeldLevel) int {
		return cmp.Or(cmp.Compare(a.LID, b.LID), cmp.Compare(a.Switch, b.Switch), cmp.Compare(a.SL, b.SL))
	})
	list = slices.Compact(list)
	r, was := &Held{}, 0
	if h != nil {
		r.Class, was = slices.Clone(h.Class), h.NumClasses
	}
	for len(r.Class) <= int(list[len(list)-1].LID) {
		r.Class = append(r.Class, -1)
	}
	type kind struct {
		class int32
		more  string // the levels of the list, of all LIDs of the kind
	}
	known := map[kind]int32{}
	var kinds []kind
	var of [][]HeldLevel // by new class: those of one of its LIDs
	var key []byte
	for len(list) > 0 {
		k := 1
		for k < len(list) && list[k].LID == list[0].LID {
			k++
		}
		key = key[:0]
		for _, x := range list[:k] {
			key = append(key, byte(x.Switch), byte(x.Switch>>8), byte(x.Switch>>16), byte(x.Switch>>24), byte(x.SL))
		}
		x := kind{r.Class[list[0].LID], string(key)}
		c, ok := known[x]
		if !ok {
			c = int32(was + len(kinds))
			known[x], kinds, of = c, append(kinds, x), append(of, list[:k])
		}
		r.Class[list[0].LID] = c
		list = list[k:]
	}
	r.NumClasses = was + len(kinds)
	r.Mask = make([]uint16, n*r.NumClasses)
	for s := range n {
		row := r.Mask[s*r.NumClasses : (s+1)*r.NumClasses]
		if h != nil {
			copy(row, h.Mask[s*was:(s+1)*was])
		}
		for i, x := range kinds {
			if x.class >= 0 {
				row[was+i] = row[x.class]
			}
		}
	}
	for i, levels := range of {
		for _, x := range levels {
			r.Mask[int(x.Switch)*r.NumClasses+was+i] |= 1 << (x.SL & 15)
		}
	}
	return r
}
