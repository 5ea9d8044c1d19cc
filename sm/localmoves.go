package sm

import (
	"slices"

	"heddle/ib"
	"heddle/route/move"
	"heddle/sm/job"
)

// maxLocalMoves bounds Core.localMoves. When there are more, the engine finds those LIDs at
// their new ports.
const maxLocalMoves = 1 << 12

// noteLocal notes the moves that were just carried out, if they are local.
func (c *Core) noteLocal() {
	r := c.moveState.now.res
	if !r.Local || c.routing.base == nil {
		return
	}
	if len(c.routing.localMoves)+2*len(c.moveState.now.list) > maxLocalMoves {
		c.routing.localMoves = nil
		return
	}
	was, now := c.install.Served().Graph, r.Graph
	note := func(l ib.LID) {
		if int(l) >= len(was.LIDOwner) || int(l) >= len(now.LIDOwner) {
			return
		}
		if a, b := was.LIDOwner[l], now.LIDOwner[l]; a >= 0 && b >= 0 && a != b {
			c.routing.localMoves = append(c.routing.localMoves, job.LocalMove{LID: l, From: was.EndPorts[a].GUID, To: now.EndPorts[b].GUID})
		}
	}
	var done []ib.LID
	for _, q := range c.moveState.now.list {
		for _, l := range [2]ib.LID{q.LID, q.With} {
			if (l == q.LID || q.Kind == move.Swap) && !slices.Contains(done, l) {
				done = append(done, l)
				note(l)
			}
		}
	}
}
