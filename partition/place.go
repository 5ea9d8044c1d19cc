package partition

import (
	"fmt"
	"slices"

	"heddle/ib"
)

// OverflowError says that a port's table is too small for its keys.
type OverflowError struct {
	Cap  int       // entries of the table
	Keys int       // that it should hold
	Left []ib.PKey // those without a place, ascending by base
}

// Error implements error.
func (e *OverflowError) Error() string {
	return fmt.Sprintf("its P_Key table has %d entries and should hold %d: %d have no place, %v the first of them: take it out of partitions that it does not need",
		e.Cap, e.Keys, len(e.Left), e.Left[0])
}

// Placing is what Place needs to know of a port.
type Placing struct {
	Table []ib.PKey // what it holds, by index; empty entries at the end may be missing
	Cap   int       // entries that it has room for
	Want  []ib.PKey // the keys it is to have, ascending by base (see Grants.Of)
	// Index0, if set, says which keys want index 0.
	Index0 func(ib.PKey) bool
	// Fresh: nobody can be using an index of this table yet, so that keys may
	// still be moved for one that wants index 0.
	Fresh bool
}

// Place lays out the table of a port. An entry that stays keeps its index, and
// one that only changes between full and limited does too: connections hold
// indices, not keys. A key that is new gets the lowest index that is free, or
// index 0 if it wants and can have it. What does not fit is left out and told
// by an *OverflowError; the table returned is good in any case. It has no
// empty entries at its end.
func Place(p Placing) ([]ib.PKey, error) {
	old := p.Table[:min(len(p.Table), p.Cap)]
	table := make([]ib.PKey, len(old), max(len(old), min(len(p.Want), p.Cap)))
	left := slices.Clone(p.Want)
	take := func(match func(ib.PKey) bool) (ib.PKey, bool) {
		i := slices.IndexFunc(left, match)
		if i < 0 {
			return 0, false
		}
		k := left[i]
		left = slices.Delete(left, i, i+1)
		return k, true
	}
	for i, k := range old {
		if !k.IsEmpty() {
			table[i], _ = take(func(w ib.PKey) bool { return w == k })
		}
	}
	for i, k := range old {
		if !k.IsEmpty() && table[i] == 0 && !slices.Contains(old[:i], k) {
			table[i], _ = take(func(w ib.PKey) bool { return w.Base() == k.Base() })
		}
	}
	place := func(k ib.PKey, from int) bool {
		for i := from; i < p.Cap; i++ {
			switch {
			case i >= len(table):
				table = append(table, make([]ib.PKey, i+1-len(table))...)
				fallthrough
			case table[i] == 0:
				table[i] = k
				return true
			}
		}
		return false
	}
	if p.Index0 != nil && p.Cap > 0 {
		first := ib.PKey(0)
		if len(table) > 0 {
			first = table[0]
		}
		if first == 0 || p.Fresh && !p.Index0(first) {
			if k, ok := take(p.Index0); ok {
				if first != 0 && !place(first, 1) {
					left = append(left, first)
				}
				if len(table) == 0 {
					table = append(table, 0)
				}
				table[0] = k
			}
		}
	}
	// The default partition leads to the subnet administrator: it goes first.
	if k, ok := take(func(k ib.PKey) bool { return k.Base() == DefaultKey && k.IsFull() }); ok && !place(k, 0) {
		left = append(left, k)
	}
	if k, ok := take(func(k ib.PKey) bool { return k.Base() == DefaultKey }); ok && !place(k, 0) {
		left = append(left, k)
	}
	var none []ib.PKey
	for _, k := range left {
		if !place(k, 0) {
			none = append(none, k)
		}
	}
	table = Trim(table)
	if len(none) > 0 {
		return table, &OverflowError{Cap: p.Cap, Keys: len(p.Want), Left: none}
	}
	return table, nil
}

// Trim returns a table without the empty entries at its end.
func Trim(t []ib.PKey) []ib.PKey {
	for len(t) > 0 && t[len(t)-1].IsEmpty() {
		t = t[:len(t)-1]
	}
	return t
}

// Only is a table without what want, which ascends by base, does not have: the
// first half of a change, in which keys are taken away and full members become
// limited ones, but nobody is given anything. Place gives the same table from
// it as from the one before.
func Only(table, want []ib.PKey) []ib.PKey {
	out := slices.Clone(table)
	for i, k := range table {
		other := k ^ 0x8000
		switch {
		case slices.Contains(table[:i], k): // twice in the table
			out[i] = 0
		case k.IsEmpty(), slices.Contains(want, k):
		case slices.Contains(table, other) || !slices.Contains(want, other):
			out[i] = 0
		case k.IsFull():
			out[i] = other // becomes limited where it is
		}
	}
	return Trim(out)
}
