package dataplane

import "slices"

// arbTable is a VL arbitration without its entries of weight 0.
type arbTable struct {
	high, low []Weight
	limit     uint8
}

// arbState is where an output stands in its table.
type arbState struct {
	left    int32 // blocks that the high table may send before a packet of the low one
	hi, lo  uint8 // current entries
	hiLeft  int16 // what is left of their weights
	loLeft  int16
	started bool
}

// unlimited is a HighLimit without limit.
const unlimited = 255

// budget is what the high table may send in blocks of 64 bytes: with a limit of 0
// any packet uses it up.
func (a *arbTable) budget() int32 { return max(int32(a.limit)*(4096/blockBytes), 1) }

// pick chooses among the lanes of ready, of which blocks[lane] wait at the head,
// and charges the packet (IBA §7.6.9.2). -1: no entry is for a lane of ready.
func (a *arbTable) pick(s *arbState, ready uint16, blocks *[16]uint16) int {
	if !s.started {
		s.started, s.left = true, a.budget()
		s.hiLeft, s.loLeft = weightAt(a.high, 0), weightAt(a.low, 0)
	}
	// A table that was written anew may be shorter.
	if int(s.hi) >= len(a.high) {
		s.hi, s.hiLeft = 0, weightAt(a.high, 0)
	}
	if int(s.lo) >= len(a.low) {
		s.lo, s.loLeft = 0, weightAt(a.low, 0)
	}
	high, low := serves(a.high, ready), serves(a.low, ready)
	if high && (a.limit == unlimited || s.left > 0 || !low) {
		lane := turn(a.high, &s.hi, &s.hiLeft, ready, blocks)
		s.left = max(s.left-int32(blocks[lane]), 0)
		return lane
	}
	if !low {
		return -1
	}
	s.left = a.budget()
	return turn(a.low, &s.lo, &s.loLeft, ready, blocks)
}

func weightAt(t []Weight, i uint8) int16 {
	if int(i) >= len(t) {
		return 0
	}
	return int16(t[i].Weight)
}

// serves reports whether a table has an entry for a lane of ready.
func serves(t []Weight, ready uint16) bool {
	return slices.ContainsFunc(t, func(w Weight) bool { return ready>>w.VL&1 != 0 })
}

// turn goes on in a table that serves a lane of ready: an entry stays current
// until its weight is used up or its lane has nothing to send.
func turn(t []Weight, at *uint8, left *int16, ready uint16, blocks *[16]uint16) int {
	for {
		if w := t[*at]; ready>>w.VL&1 != 0 && *left > 0 {
			if *left -= int16(blocks[w.VL]); *left <= 0 {
				next(t, at, left)
			}
			return int(w.VL)
		}
		next(t, at, left)
	}
}

func next(t []Weight, at *uint8, left *int16) {
	if *at++; int(*at) >= len(t) {
		*at = 0
	}
	*left = int16(t[*at].Weight)
}

// tableOf returns the index of an arbitration in Engine.tables, -1 for one
// without entries.
func (e *Engine) arbTableOf(a Arbitration) int32 {
	zero := func(w Weight) bool { return w.Weight == 0 || w.VL > 14 }
	t := arbTable{
		high: slices.DeleteFunc(slices.Clone(a.High), zero), low: slices.DeleteFunc(slices.Clone(a.Low), zero), limit: a.HighLimit,
	}
	if len(a.High) == 0 && len(a.Low) == 0 {
		return -1
	}
	for i := range e.arbs {
		if x := &e.arbs[i]; x.limit == t.limit && slices.Equal(x.high, t.high) && slices.Equal(x.low, t.low) {
			return int32(i)
		}
	}
	e.arbs = append(e.arbs, t)
	return int32(len(e.arbs) - 1)
}
