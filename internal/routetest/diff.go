package routetest

import (
	"bytes"

	"heddle/route"
)

// Diff lists the blocks of wanted that installed lacks, by ascending switch,
// then block. A nil row of installed, or the part of a row beyond its length,
// is unknown and therefore differs; everything does if installed is nil. Both
// tables must be for the same Graph.
func Diff(installed, wanted *route.Tables) []route.BlockDiff {
	var out []route.BlockDiff
	installed, wanted = flat(installed), flat(wanted)
	for s, row := range wanted.LFT {
		var have []byte
		if installed != nil && s < len(installed.LFT) {
			have = installed.LFT[s]
		}
		for at := 0; at < len(row); at += route.BlockLen {
			end := min(at+route.BlockLen, len(row))
			if len(have) >= end && bytes.Equal(have[at:end], row[at:end]) {
				continue
			}
			out = append(out, route.BlockDiff{Switch: int32(s), Block: uint16(at / route.BlockLen)})
		}
	}
	return out
}

// EntriesChanged counts the LFT entries in which wanted differs from installed;
// unknown entries count as changed.
func EntriesChanged(installed, wanted *route.Tables) int {
	n := 0
	installed, wanted = flat(installed), flat(wanted)
	for s, row := range wanted.LFT {
		var have []byte
		if installed != nil && s < len(installed.LFT) {
			have = installed.LFT[s]
		}
		end := min(int(wanted.TopLID)+1, len(row))
		both := min(end, len(have))
		for at := 0; at < both; at += route.BlockLen {
			a, b := have[at:min(at+route.BlockLen, both)], row[at:min(at+route.BlockLen, both)]
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

// flat is t with rows, nil if t is.
func flat(t *route.Tables) *route.Tables {
	if t == nil {
		return nil
	}
	return t.Flat()
}
