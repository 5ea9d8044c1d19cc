package sm

import (
	"testing"

	"heddle/ib"
	"heddle/mad"
)

// TestGhostOfEmptyTable: a Set that emptied a table can come late too, and what it
// undoes has to be seen.
func TestGhostOfEmptyTable(t *testing.T) {
	var x pkeyTable
	x.ghostOf(7, nil)
	if x.ghost == nil || x.ghostAt != mad.Time(7).Add(suspectTime) {
		t.Errorf("ghost %v until %v: it will not be read again", x.ghost, x.ghostAt)
	}
	x.ghostOf(8, []ib.PKey{0, 0xFFFF, 0xFFFF})
	if len(x.ghost) != 1 {
		t.Errorf("ghosts %v", x.ghost)
	}
}
