package sssp

import (
	"heddle/fabric"
	"heddle/route"
)

// Audit holds the layers that the tables remember to their paths.
func Audit(t *route.Tables) error {
	if m := t.Memo.(*memo); m.layers != nil {
		return m.layers.Audit()
	}
	return nil
}

// Kept reports whether Update could keep the levels of what stayed.
func Kept(t *route.Tables) bool { return t.Memo.(*memo).kept }

// Senders counts, by switch, the ports that paths begin at.
func Senders(g *fabric.Graph) []uint32 { return sources(g, route.Options{}).net.Sources }
