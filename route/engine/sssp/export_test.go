package sssp

import "heddle/route"

// Audit holds the layers that the tables remember to their paths.
func Audit(t *route.Tables) error {
	if m := t.Memo.(*memo); m.layers != nil {
		return m.layers.Audit()
	}
	return nil
}

// Kept reports whether Update could keep the levels of what stayed.
func Kept(t *route.Tables) bool { return t.Memo.(*memo).kept }
