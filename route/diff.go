package route

import (
	"bytes"
)

// BlockDiff names one LFT block of one switch: what one Set(LinearForwardingTable)
// writes.
type BlockDiff struct {
	Switch int32  // index in the Graph
	Block  uint16 // LIDs 64·Block … 64·Block+63
}

// Diff lists exactly the blocks of wanted that installed does not already hold,
// by ascending switch, then block. A row of installed that is nil, or the part
// of a row beyond its length, is not known and therefore differs; so does
// everything if installed is nil. Both tables must be for the same Graph.
func Diff(installed, wanted *Tables) []BlockDiff {
	var out []BlockDiff
	for s, row := range wanted.LFT {
		var have []byte
		if installed != nil && s < len(installed.LFT) {
			have = installed.LFT[s]
		}
		for at := 0; at < len(row); at += BlockLen {
			end := min(at+BlockLen, len(row))
			if len(have) >= end && bytes.Equal(have[at:end], row[at:end]) {
				continue
			}
			out = append(out, BlockDiff{int32(s), uint16(at / BlockLen)})
		}
	}
	return out
}

// EntriesChanged counts the LFT entries in which wanted differs from
// installed; entries that are not known count as changed.
func EntriesChanged(installed, wanted *Tables) int {
	n := 0
	for s, row := range wanted.LFT {
		var have []byte
		if installed != nil && s < len(installed.LFT) {
			have = installed.LFT[s]
		}
		end := min(int(wanted.TopLID)+1, len(row))
		both := min(end, len(have))
		for at := 0; at < both; at += BlockLen {
			a, b := have[at:min(at+BlockLen, both)], row[at:min(at+BlockLen, both)]
			if bytes.Equal(a, b) {
				continue
			}
			for i := range a {
				if a[i] != b[i] && at+i > 0 {
					n++
				}
			}
		}
		n += end - max(both, 1)
	}
	return n
}
