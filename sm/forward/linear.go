// Package forward knows what the forwarding tables of switches hold: what was read back or
// acknowledged in a mastership, and nothing else. The tables are stored in topo.Node, and package
// install alone writes them.
package forward

import (
	"bytes"
	"slices"

	"heddle/ib"
	"heddle/mad"
	"heddle/route"
)

// Linear is what a switch holds as far as this mastership has read it back or
// had it acknowledged. Blocks that are neither are not known. What they hold is
// in Row, unless a block is newer in banded tables or by itself: so a LID that moves
// costs a block, and no row.
type Linear struct {
	Row     []byte // whole blocks; shared rows are never written
	Shared  bool   // row belongs to published tables
	Full    bool   // every block of row is known, and row reaches over top
	Known   []uint64
	Suspect []uint64 // written while a late copy of an older write may be under way
	Top     ib.LID   // LinearFDBTop as read or acknowledged
	Raised  ib.LID   // what top may be instead, as a Set of it was not answered; 0: nothing
	Recent  []uint64 // written less than mad.LateCopy before wrote
	Wrote   mad.Time // when a block was last written; meaningful if recent is not empty

	tables *route.Tables // banded tables that have Row among their rows; nil: none
	at     int32         // the switch there
	// patch has blocks that are newer than both; only where Row is shared.
	patch []patch
}

// patch is a block of which data, which is not changed any more, is known.
type patch struct {
	block int32
	data  []byte
}

// maxPatch is how many blocks of a shared row may be newer than the row before it is copied.
const maxPatch = 16

// BitGet reports whether bit i of a set is on.
func BitGet(b []uint64, i int) bool { return i>>6 < len(b) && b[i>>6]&(1<<(i&63)) != 0 }

// BitSet puts bit i of a set on, which grows if it must.
func BitSet(b *[]uint64, i int) {
	for len(*b) <= i>>6 {
		*b = append(*b, 0)
	}
	(*b)[i>>6] |= 1 << (i & 63)
}

func bitClear(b []uint64, i int) {
	if i>>6 < len(b) {
		b[i>>6] &^= 1 << (i & 63)
	}
}

// Block is the content of block b, known or not; nil if Row does not reach it. It is not to be
// changed.
func (l *Linear) Block(b int) []byte {
	for i := range l.patch {
		if l.patch[i].block == int32(b) {
			return l.patch[i].data
		}
	}
	at, end := b*route.BlockLen, (b+1)*route.BlockLen
	if end > len(l.Row) {
		return nil
	}
	if l.tables != nil {
		return l.tables.Part(l.at, b)
	}
	return l.Row[at:end:end]
}

// Holds reports whether a LID is known to have an entry.
func (l *Linear) Holds(lid ib.LID, entry byte) bool {
	b := int(lid) / route.BlockLen
	if !BitGet(l.Known, b) || lid > l.Top {
		return false
	}
	data := l.Block(b)
	return data != nil && data[int(lid)%route.BlockLen] == entry
}

// Set notes the content of block b. Where same, which is not to be changed any more, has the same
// content, it is kept instead of a copy; it may be nil.
func (l *Linear) Set(b int, data *[route.BlockLen]byte, same []byte) {
	BitSet(&l.Known, b)
	have := l.Block(b)
	switch {
	case have != nil && [route.BlockLen]byte(have) == *data:
		return
	case l.Shared && have != nil && len(l.patch) < maxPatch:
		if !bytes.Equal(same, data[:]) {
			same = bytes.Clone(data[:])
		}
		l.patch = slices.DeleteFunc(l.patch, func(p patch) bool { return p.block == int32(b) })
		l.patch = append(l.patch, patch{int32(b), same})
		return
	case l.Shared:
		l.own()
	}
	end := (b + 1) * route.BlockLen
	for len(l.Row) < end {
		l.Row = append(l.Row, route.Drop)
	}
	copy(l.Row[end-route.BlockLen:end], data[:])
}

// own makes Row a copy that has everything.
func (l *Linear) own() {
	row := make([]byte, 0, len(l.Row))
	for b := range len(l.Row) / route.BlockLen {
		row = append(row, l.Block(b)...)
	}
	l.Row, l.Shared, l.tables, l.patch = row, false, nil, nil
}

// newer reports whether something is newer than Row.
func (l *Linear) newer() bool { return l.tables != nil || len(l.patch) > 0 }

// Follow makes now, banded tables, what the switch holds, if it held was, from which now derives, and
// every block of the list, which has all in which they differ, is known to be as in now. at is
// the index of the switch in both.
func (l *Linear) Follow(was, now *route.Tables, at int32, blocks []uint16) {
	if l.tables != was && (l.tables != nil || was.Banded()) || !l.Shared || !l.Full || !now.HasRow(at, l.Row) {
		return
	}
	found := 0
	for _, b := range blocks {
		if !BitGet(l.Known, int(b)) || !bytes.Equal(l.Block(int(b)), now.Part(at, int(b))) {
			return
		}
		if slices.ContainsFunc(l.patch, func(p patch) bool { return p.block == int32(b) }) {
			found++
		}
	}
	if found == len(l.patch) {
		clear(l.patch)
		l.tables, l.at, l.patch = now, at, l.patch[:0]
	}
}

// Flatten puts everything into Row. flat has rows with the entries of the banded tables of; Row is
// the one there if the switch holds it.
func (l *Linear) Flatten(of, flat *route.Tables) {
	switch {
	case !l.newer():
	case l.tables == of && len(l.patch) == 0 && l.at < int32(len(flat.LFT)) && len(flat.LFT[l.at]) == len(l.Row):
		l.Row, l.tables = flat.LFT[l.at], nil
	default:
		l.own()
	}
}

// Forget says that the content of block b is not known any more.
func (l *Linear) Forget(b int) {
	l.Full = false
	bitClear(l.Known, b)
}

// ForgetAll is for a switch that may have lost its tables.
func (l *Linear) ForgetAll() {
	*l = Linear{}
}

// ForgetAbove drops what is known of blocks that hold only LIDs above top.
func (l *Linear) ForgetAbove(top ib.LID) {
	if int(top) >= len(l.Known)*64*route.BlockLen {
		return
	}
	l.Full = l.Full && int(top)/route.BlockLen+1 >= len(l.Row)/route.BlockLen
	for b := int(top)/route.BlockLen + 1; b <= len(l.Known)*64; b++ {
		bitClear(l.Known, b)
	}
}

// Installed is the row as a planner may use it: nil if a block that is in
// force is not known; otherwise what is known from the start, which is all
// that the switch forwards by.
func (l *Linear) Installed() []byte {
	if l == nil {
		return nil
	}
	if l.newer() {
		l.own()
	}
	if l.Top == 0 {
		return []byte{}
	}
	if l.Full && int(l.Top) < len(l.Row) {
		return l.Row
	}
	n := 0
	for BitGet(l.Known, n) && (n+1)*route.BlockLen <= len(l.Row) {
		n++
	}
	if need := int(l.Top)/route.BlockLen + 1; n < need {
		return nil
	}
	return l.Row[: n*route.BlockLen : n*route.BlockLen]
}

// Adopt shares the rows of tables that are known to be installed in full.
func (l *Linear) Adopt(row []byte) {
	l.Row, l.Shared, l.Full = row, true, true
	l.tables, l.patch = nil, nil
}

// Has reports whether the switch holds a row, and shares its memory.
func (l *Linear) Has(row []byte) bool {
	return !l.newer() && l.Full && len(l.Row) == len(row) && &l.Row[0] == &row[0]
}
