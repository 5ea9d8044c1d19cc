package route

import (
	"bytes"
	"slices"

	"heddle/ib"
)

// Band holds the entries of all switches for the LIDs of one block, 64·b to 64·b+63: those of
// switch s are at s·BlockLen. A LID that moves changes entries of most switches, but of one band.
type Band []byte

// Of returns the entries of a switch.
func (d Band) Of(s int32) []byte {
	at := int(s) * BlockLen
	return d[at : at+BlockLen : at+BlockLen]
}

// banded are tables that were derived from others by other entries of single LIDs: rows, as they
// were, but for the blocks that have a band. It is immutable, and shares all that did not change.
type banded struct {
	rows  [][]byte
	bands []Band // by block; nil: as in rows
}

// Column is the entries of all switches for one LID.
type Column struct {
	LID     ib.LID
	Entries []byte // by switch
}

// Switches is the number of switches that have a row, known or not.
func (t *Tables) Switches() int { return len(t.rows()) }

// rows are the rows, outdated where a block has a band.
func (t *Tables) rows() [][]byte {
	if t.banded != nil {
		return t.banded.rows
	}
	return t.LFT
}

// Banded reports whether the tables have bands, and so no LFT.
func (t *Tables) Banded() bool { return t.banded != nil }

// At returns where the entries of block b are: in a band, or, if that is nil, in rows.
func (t *Tables) At(b int) (rows [][]byte, d Band) {
	if t.banded == nil {
		return t.LFT, nil
	}
	if b < len(t.banded.bands) {
		d = t.banded.bands[b]
	}
	return t.banded.rows, d
}

// Part returns the entries of switch s for block b, fewer where its row ends. They are not to be
// changed.
func (t *Tables) Part(s int32, b int) []byte {
	rows, d := t.At(b)
	if d != nil {
		return d.Of(s)
	}
	row := rows[s]
	lo := min(b*BlockLen, len(row))
	hi := min(lo+BlockLen, len(row))
	return row[lo:hi:hi]
}

// Known reports whether the row of a switch is known.
func (t *Tables) Known(s int32) bool { return t.rows()[s] != nil }

// HasRow reports whether a row is, in the same memory, that of switch s where no band is.
func (t *Tables) HasRow(s int32, row []byte) bool {
	rows := t.rows()
	return int(s) < len(rows) && len(row) > 0 && sameSlice(rows[s], row)
}

// Row returns the row of switch s, nil if it is unknown. It is not to be changed. It is a copy if
// the tables have bands.
func (t *Tables) Row(s int32) []byte {
	if t.banded == nil {
		return t.LFT[s]
	}
	row := slices.Clone(t.banded.rows[s])
	t.banded.overlay(s, row)
	return row
}

// overlay writes what bands have for switch s into a row.
func (x *banded) overlay(s int32, row []byte) {
	for b, d := range x.bands {
		if d != nil {
			copy(row[b*BlockLen:], d.Of(s))
		}
	}
}

// Flat returns tables with the same entries in LFT: t itself if it has them there. It copies all
// rows otherwise.
func (t *Tables) Flat() *Tables {
	if t.banded == nil {
		return t
	}
	f := *t
	f.banded = nil
	f.LFT = make([][]byte, len(t.banded.rows))
	for s := range f.LFT {
		f.LFT[s] = t.Row(int32(s))
	}
	return &f
}

// WithColumns returns tables for LIDs up to top, not below TopLID, that have other entries for some
// LIDs. They share all blocks without such a LID, unless rows become longer or some are unknown:
// then rows are copied. Memo is dropped.
func (t *Tables) WithColumns(top ib.LID, cols []Column) *Tables {
	u := *t
	u.Memo, u.TopLID = nil, max(t.TopLID, top)
	w := RowLen(u.TopLID)
	rows := t.rows()
	if slices.ContainsFunc(rows, func(row []byte) bool { return len(row) < w }) {
		return inRows(u, t, w, cols)
	}
	x := &banded{rows: rows}
	if t.banded != nil {
		x.bands = slices.Clone(t.banded.bands)
	}
	if n := w / BlockLen; len(x.bands) < n {
		x.bands = append(x.bands, make([]Band, n-len(x.bands))...)
	}
	own := make([]bool, len(x.bands))
	for _, c := range cols {
		b := int(c.LID) / BlockLen
		if !own[b] {
			x.bands[b], own[b] = t.band(b), true
		}
		at := int(c.LID) % BlockLen
		for s, e := range c.Entries {
			x.bands[b][s*BlockLen+at] = e
		}
	}
	if !slices.Contains(own, true) {
		return &u
	}
	u.LFT, u.banded = nil, x
	return &u
}

// band returns a copy of the entries of block b, which all rows reach.
func (t *Tables) band(b int) Band {
	rows, d := t.At(b)
	if d != nil {
		return slices.Clone(d)
	}
	d = make(Band, len(rows)*BlockLen)
	for s, row := range rows {
		copy(d[s*BlockLen:(s+1)*BlockLen], row[b*BlockLen:])
	}
	return d
}

// inRows completes u, which is made of t, with rows of length w of its own.
func inRows(u Tables, t *Tables, w int, cols []Column) *Tables {
	u.banded = nil
	u.LFT = make([][]byte, t.Switches())
	for s := range u.LFT {
		row, was := make([]byte, w), t.Row(int32(s))
		for k := copy(row, was); k < w; k++ {
			row[k] = Drop
		}
		for _, c := range cols {
			row[c.LID] = c.Entries[s]
		}
		u.LFT[s] = row
	}
	return &u
}

// SharedRows reports whether t and u have the same memory where neither has a band, so that only
// bands can differ (OtherBands).
func (t *Tables) SharedRows(u *Tables) bool { return sameSlice(t.rows(), u.rows()) }

// OtherBands calls fn with each block in which t and u, which share their rows, may differ.
func (t *Tables) OtherBands(u *Tables, fn func(b int)) {
	var x, y []Band
	if t.banded != nil {
		x = t.banded.bands
	}
	if u.banded != nil {
		y = u.banded.bands
	}
	for b := range max(len(x), len(y)) {
		var d, e Band
		if b < len(x) {
			d = x[b]
		}
		if b < len(y) {
			e = y[b]
		}
		if !sameSlice(d, e) {
			fn(b)
		}
	}
}

// SameEntries reports whether t and u are known to have the same entries of all switches; without
// deep it may miss that where they were made apart.
func (t *Tables) SameEntries(u *Tables, deep bool) bool {
	if t.SharedRows(u) {
		same := true
		t.OtherBands(u, func(int) { same = false })
		if same || !deep {
			return same
		}
	}
	if t.Switches() != u.Switches() {
		return false
	}
	for s := range int32(t.Switches()) {
		a, b := t.rows()[s], u.rows()[s]
		if t.banded == nil && u.banded == nil && sameSlice(a, b) {
			continue
		}
		if !deep || !bytes.Equal(t.Row(s), u.Row(s)) {
			return false
		}
	}
	return true
}
