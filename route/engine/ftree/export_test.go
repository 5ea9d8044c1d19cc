package ftree

import (
	"bytes"
	"fmt"

	"heddle/route"
)

// Refill says which row of tables is not what their tree gives from scratch.
func Refill(tb *route.Tables) error {
	t := tb.Memo.(*tree)
	w := t.newScratch()
	for s := range tb.LFT {
		for i := range w.row {
			w.row[i] = route.Drop
		}
		t.fill(int32(s), w.row, w)
		if !bytes.Equal(w.row, tb.LFT[s]) {
			for l := range w.row {
				if w.row[l] != tb.LFT[s][l] {
					return fmt.Errorf("switch %d, LID %d: port %d, from scratch %d", s, l, tb.LFT[s][l], w.row[l])
				}
			}
		}
	}
	return nil
}
