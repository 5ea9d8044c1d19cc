package transition

import "heddle/ib"

// Levels are the service levels held for packets from switch s to l, a bit for
// each.
func (h *Held) Levels(s int32, l ib.LID) uint16 { return h.levels(s, l) }
