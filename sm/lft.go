package sm

import (
	"bytes"

	"heddle/ib"
	"heddle/mad"
	"heddle/route"
)

// lft is what a switch holds as far as this mastership has read it back or
// had it acknowledged. Blocks that are neither are not known.
type lft struct {
	row     []byte // whole blocks; shared rows are never written
	shared  bool   // row belongs to published tables
	full    bool   // every block of row is known, and row reaches over top
	known   []uint64
	suspect []uint64 // written while a late copy of an older write may be under way
	top     ib.LID   // LinearFDBTop as read or acknowledged
	raised  ib.LID   // what top may be instead, as a Set of it was not answered; 0: nothing
	recent  []uint64 // written less than suspectTime before wrote
	wrote   mad.Time // when a block was last written; meaningful if recent is not empty
}

func bitGet(b []uint64, i int) bool { return i>>6 < len(b) && b[i>>6]&(1<<(i&63)) != 0 }

func bitSet(b *[]uint64, i int) {
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

// set notes the content of block b. toward, if not nil, is a shared row that this write
// may make the switch's: then it need not have one of its own for a while.
func (l *lft) set(b int, data *[route.BlockLen]byte, toward []byte) {
	at, end := b*route.BlockLen, (b+1)*route.BlockLen
	if l.shared && end <= len(l.row) && len(toward) == len(l.row) && [route.BlockLen]byte(toward[at:end]) == *data &&
		bytes.Equal(toward[:at], l.row[:at]) && bytes.Equal(toward[end:], l.row[end:]) {
		l.row = toward
	}
	if l.shared && (end > len(l.row) || [route.BlockLen]byte(l.row[end-route.BlockLen:end]) != *data) {
		l.row = append([]byte(nil), l.row...)
		l.shared, l.full = false, false
	}
	if !l.shared {
		for len(l.row) < end {
			l.row = append(l.row, route.Drop)
		}
		copy(l.row[end-route.BlockLen:end], data[:])
	}
	bitSet(&l.known, b)
}

func (l *lft) forget(b int) {
	l.full = false
	bitClear(l.known, b)
}

// forgetAll is for a switch that may have lost its tables.
func (l *lft) forgetAll() {
	*l = lft{}
}

// forgetAbove drops what is known of blocks that hold only LIDs above top.
func (l *lft) forgetAbove(top ib.LID) {
	if int(top) >= len(l.known)*64*route.BlockLen {
		return
	}
	l.full = l.full && int(top)/route.BlockLen+1 >= len(l.row)/route.BlockLen
	for b := int(top)/route.BlockLen + 1; b <= len(l.known)*64; b++ {
		bitClear(l.known, b)
	}
}

// installed is the row as a planner may use it: nil if a block that is in
// force is not known; otherwise what is known from the start, which is all
// that the switch forwards by.
func (l *lft) installed() []byte {
	if l == nil {
		return nil
	}
	if l.top == 0 {
		return []byte{}
	}
	if l.full && int(l.top) < len(l.row) {
		return l.row
	}
	n := 0
	for bitGet(l.known, n) && (n+1)*route.BlockLen <= len(l.row) {
		n++
	}
	if need := int(l.top)/route.BlockLen + 1; n < need {
		return nil
	}
	return l.row[: n*route.BlockLen : n*route.BlockLen]
}

// adopt shares the rows of tables that are known to be installed in full.
func (l *lft) adopt(row []byte) {
	l.row, l.shared, l.full = row, true, true
}
