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
	t := &placed{
		cap: p.Cap, left: slices.Clone(p.Want),
		table: make([]ib.PKey, len(old), max(len(old), min(len(p.Want), p.Cap))),
	}
	t.keep(old)
	t.first(p)
	// The default partition leads to the subnet administrator: it gets index 0 if
	// no other key has it, and always gets space.
	free := p.Cap - len(t.table) + count(t.table, 0)
	for _, k := range [2]ib.PKey{ib.PKeyDefaultFull, ib.PKeyDefaultLimited} {
		if len(t.table) == 0 || t.table[0] == 0 || len(t.left) > free {
			if _, ok := t.take(func(x ib.PKey) bool { return x == k }); ok && !t.place(k) {
				t.left = append(t.left, k)
			}
		}
	}
	slices.SortStableFunc(t.left, osmOrder)
	var none []ib.PKey
	for _, k := range t.left {
		if !t.place(k) {
			none = append(none, k)
		}
	}
	table := Trim(t.table)
	if len(none) > 0 {
		slices.SortFunc(none, func(a, b ib.PKey) int { return cmp.Compare(a.Base(), b.Base()) })
		return table, &OverflowError{Cap: p.Cap, Keys: len(p.Want), Left: none}
	}
	return table, nil
}

// placed is a table that Place fills.
type placed struct {
	cap   int
	table []ib.PKey
	left  []ib.PKey // keys without a place yet
}

// take removes the first key that matches from those without a place.
func (t *placed) take(match func(ib.PKey) bool) (ib.PKey, bool) {
	i := slices.IndexFunc(t.left, match)
	if i < 0 {
		return 0, false
	}
	k := t.left[i]
	t.left = slices.Delete(t.left, i, i+1)
	return k, true
}

// place puts a key at the lowest free index, if there is one.
func (t *placed) place(k ib.PKey) bool {
	for i := range t.cap {
		if i >= len(t.table) {
			t.table = append(t.table, 0)
		}
		if t.table[i] == 0 {
			t.table[i] = k
			return true
		}
	}
	return false
}

// keep leaves keys of the old table where they are: first equal ones, then those
// whose membership alone changes.
func (t *placed) keep(old []ib.PKey) {
	for i, k := range old {
		if !k.IsEmpty() {
			t.table[i], _ = t.take(func(w ib.PKey) bool { return w == k })
		}
	}
	for i, k := range old {
		if !k.IsEmpty() && t.table[i] == 0 && !slices.Contains(old[:i], k) {
			t.table[i], _ = t.take(func(w ib.PKey) bool { return w.Base() == k.Base() })
		}
	}
}

// first puts the key of p.Index0 at index 0, if it may go there.
func (t *placed) first(p Placing) {
	first := ib.PKey(0)
	if len(t.table) > 0 {
		first = t.table[0]
	}
	if p.Index0 == 0 || p.Cap == 0 || first != 0 && (!p.Fresh || first.Base() == p.Index0) {
		return
	}
	k, ok := t.take(func(k ib.PKey) bool { return k == p.Index0|0x8000 })
	if !ok {
		k, ok = t.take(func(k ib.PKey) bool { return k == p.Index0 })
	}
	if !ok {
		return
	}
	if first != 0 {
		t.left = append(t.left, first)
	}
	if len(t.table) == 0 {
		t.table = append(t.table, 0)
	}
	t.table[0] = k
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

// EdgeKeys are the entries of a switch port that faces ports with these keys, which ascend by base: one
// for each base, a full one if any of them is full. Through a limited entry a limited member can
// send, no packet of a full member comes in, and no packet of another limited member goes out (IBA
// §10.9.3, o18-14). OpenSM writes the same.
func EdgeKeys(want []ib.PKey) []ib.PKey {
	out := make([]ib.PKey, 0, len(want))
	for _, k := range want {
		switch n := len(out); {
		case n == 0 || out[n-1].Base() != k.Base():
			out = append(out, k)
		case k.IsFull():
			out[n-1] = k
		}
	}
	return out
}
