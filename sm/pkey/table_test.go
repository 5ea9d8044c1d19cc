package pkey

import (
	"testing"

	"heddle/ib"
	"heddle/mad"
)

// TestGhostOfEmptyTable: a Set that emptied a table can come late too, and what it
// undoes has to be seen.
func TestGhostOfEmptyTable(t *testing.T) {
	var x Table
	x.GhostOf(7, nil)
	if x.Ghost == nil || x.GhostAt != mad.Time(7).Add(mad.LateCopy) {
		t.Errorf("ghost %v until %v: it will not be read again", x.Ghost, x.GhostAt)
	}
	x.GhostOf(8, []ib.PKey{0, 0xFFFF, 0xFFFF})
	if len(x.Ghost) != 1 {
		t.Errorf("ghosts %v", x.Ghost)
	}
}
