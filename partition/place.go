package partition

import (
	"cmp"
	"fmt"
	"math/bits"
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

// Placing is the input of Place for one port.
type Placing struct {
	Table []ib.PKey // its current table, by index; trailing empty entries may be missing
	Cap   int       // its capacity in entries
	Want  []ib.PKey // the keys it is to have, ascending by base (see Grants.Of)
	// Index0, if not 0, is the base of the key that must be at index 0; of a full
	// and a limited one the full one.
	Index0 ib.PKey
	// Fresh: no host can be using an index of this table yet, so a key may still
	// be moved to free index 0.
	Fresh bool
}

// Place lays out the table of a port. A remaining entry keeps its index, even if
// its membership changes, because connections hold indices, not keys. A new key
// gets the lowest free index, or index 0 if it should and can have it. Keys added
// together are in OpenSM's order, so that a reset port has each where its host
// had it. Keys that do not fit are omitted and reported by an *OverflowError; the
// returned table is valid in any case. It has no trailing empty entries.
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
	first := ib.PKey(0)
	if len(table) > 0 {
		first = table[0]
	}
	if p.Index0 != 0 && p.Cap > 0 && (first == 0 || p.Fresh && first.Base() != p.Index0) {
		k, ok := take(func(k ib.PKey) bool { return k == p.Index0|0x8000 })
		if !ok {
			k, ok = take(func(k ib.PKey) bool { return k == p.Index0 })
		}
		if ok {
			if first != 0 {
				left = append(left, first)
			}
			if len(table) == 0 {
				table = append(table, 0)
			}
			table[0] = k
		}
	}
	// The default partition leads to the subnet administrator: it gets index 0 if
	// no other key has it, and always gets space.
	free := p.Cap - len(table) + count(table, 0)
	for _, k := range [2]ib.PKey{ib.PKeyDefaultFull, ib.PKeyDefaultLimited} {
		if len(table) == 0 || table[0] == 0 || len(left) > free {
			if _, ok := take(func(x ib.PKey) bool { return x == k }); ok && !place(k, 0) {
				left = append(left, k)
			}
		}
	}
	slices.SortStableFunc(left, osmOrder)
	var none []ib.PKey
	for _, k := range left {
		if !place(k, 0) {
			none = append(none, k)
		}
	}
	table = Trim(table)
	if len(none) > 0 {
		slices.SortFunc(none, func(a, b ib.PKey) int { return cmp.Compare(a.Base(), b.Base()) })
		return table, &OverflowError{Cap: p.Cap, Keys: len(p.Want), Left: none}
	}
	return table, nil
}

// osmOrder compares two keys by their position in OpenSM's tables, which are
// sorted by the byte-swapped P_Key: 0x0300 precedes 0x0005, and the default
// partition is last.
func osmOrder(a, b ib.PKey) int {
	swapped := func(k ib.PKey) uint16 { return bits.ReverseBytes16(uint16(k.Base())) }
	return cmp.Or(cmp.Compare(swapped(a), swapped(b)), cmp.Compare(a, b))
}

func count(list []ib.PKey, k ib.PKey) (n int) {
	for _, x := range list {
		if x == k {
			n++
		}
	}
	return n
}

// Trim returns a table without the empty entries at its end.
func Trim(t []ib.PKey) []ib.PKey {
	for len(t) > 0 && t[len(t)-1].IsEmpty() {
		t = t[:len(t)-1]
	}
	return t
}

// Only returns a table reduced to the keys in want, which ascends by base: the
// first half of a change. It removes keys and turns full members into limited
// ones, but grants nothing. Place returns the same table from it as from the
// original.
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
