package lash

import (
	"heddle/fabric"
	"heddle/route"
)

// Audit holds the layers that the tables remember to their paths.
func Audit(t *route.Tables) error { return t.Memo.(*memo).layers.Audit() }

// Kept reports whether Update could keep the levels of what stayed.
func Kept(t *route.Tables) bool { return t.Memo.(*memo).kept }

// Senders counts, by switch, the ports that paths begin at.
func Senders(g *fabric.Graph) []uint32 { return newNet(g).from }
