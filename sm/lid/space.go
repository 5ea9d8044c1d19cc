package lid

import "heddle/ib"

// Range is the LIDs of a port: 2^LMC from Base on. LMC is 0 to 7, and Base a multiple of 2^LMC.
type Range struct {
	Base ib.LID
	LMC  uint8
}

// One is the range of a single LID.
func One(l ib.LID) Range { return Range{Base: l} }

// overlaps reports whether two ranges have a LID in common.
func (r Range) overlaps(o Range) bool {
	return int(r.Base) < int(o.Base)+1<<o.LMC && int(o.Base) < int(r.Base)+1<<r.LMC
}

// Space says which LIDs are taken.
type Space struct {
	Limit int // first LID that cannot be assigned

	used [1 << 16 / 64]uint64 // by LID
	next int                  // all LIDs below are taken or were passed over
}

// Free reports whether a range is aligned, below the limit, and free.
func (s *Space) Free(r Range) bool {
	n := 1 << r.LMC
	if r.Base == 0 || int(r.Base)&(n-1) != 0 || int(r.Base)+n > s.Limit {
		return false
	}
	for l := int(r.Base); l < int(r.Base)+n; l++ {
		if s.used[l>>6]&(1<<(l&63)) != 0 {
			return false
		}
	}
	return true
}

// Take takes a range, whether it is free or not.
func (s *Space) Take(r Range) {
	for l := int(r.Base); l < int(r.Base)+1<<r.LMC; l++ {
		s.used[l>>6] |= 1 << (l & 63)
	}
}

// Release makes a range free.
func (s *Space) Release(r Range) {
	for l := int(r.Base); l < int(r.Base)+1<<r.LMC; l++ {
		s.used[l>>6] &^= 1 << (l & 63)
	}
	s.next = 0
}

// Lowest returns the lowest free range of 2^lmc LIDs, with Base 0 if there is none.
func (s *Space) Lowest(lmc uint8) Range {
	n := 1 << lmc
	start := max(s.next, n)
	if lmc == 0 {
		start = max(s.next, 1)
	}
	start = (start + n - 1) &^ (n - 1)
	for l := start; l+n <= s.Limit; l += n {
		if r := (Range{ib.LID(l), lmc}); s.Free(r) {
			if lmc == 0 {
				s.next = l
			}
			return r
		}
	}
	return Range{}
}

// Highest returns the highest free LID, 0 if there is none.
func (s *Space) Highest() ib.LID {
	for l := min(s.Limit-1, int(ib.LIDMaxUnicast)); l > 0; l-- {
		if s.Free(One(ib.LID(l))) {
			return ib.LID(l)
		}
	}
	return 0
}
