// Package forward knows what the forwarding tables of switches hold: what was read back or
// acknowledged in a mastership, and nothing else. The tables are stored in topo.Node, and package
// install alone writes them.
package forward

import (
	"bytes"

	"heddle/ib"
	"heddle/mad"
	"heddle/route"
)

// Linear is what a switch holds as far as this mastership has read it back or
// had it acknowledged. Blocks that are neither are not known.
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
}

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

// Set notes the content of block b. toward, if not nil, is a shared row that this write
// may make the switch's: then it need not have one of its own for a while.
func (l *Linear) Set(b int, data *[route.BlockLen]byte, toward []byte) {
	at, end := b*route.BlockLen, (b+1)*route.BlockLen
	if l.Shared && end <= len(l.Row) && len(toward) == len(l.Row) && [route.BlockLen]byte(toward[at:end]) == *data &&
		bytes.Equal(toward[:at], l.Row[:at]) && bytes.Equal(toward[end:], l.Row[end:]) {
		l.Row = toward
	}
	if l.Shared && (end > len(l.Row) || [route.BlockLen]byte(l.Row[end-route.BlockLen:end]) != *data) {
		l.Row = append([]byte(nil), l.Row...)
		l.Shared, l.Full = false, false
	}
	if !l.Shared {
		for len(l.Row) < end {
			l.Row = append(l.Row, route.Drop)
		}
		copy(l.Row[end-route.BlockLen:end], data[:])
	}
	BitSet(&l.Known, b)
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
}
