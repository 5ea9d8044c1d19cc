package process

import (
	"context"
	"time"

	"heddle/shell"
)

// hangs watches the loop of a manager, for as long as ctx.
type hangs struct {
	every time.Duration                   // from one question to the next
	turns func(ctx context.Context) error // returns nil when the loop has turned
	leads func() bool                     // the manager is master
	tell  func(hung bool)                 // the others
	doubt func()                          // that this process is still master
}

// watch tells the others that the loop of a master hangs when it has not turned for as long as SMInfo is
// answered in its place. From then on another manager may take over, so this one looks at its port before
// it sends anything, also when the loop turns again. A loop that waits for the store is one that turns.
func (h *hangs) watch(ctx context.Context) {
	if h.turns(ctx) != nil { // it has not begun
		return
	}
	defer h.tell(false)
	tick := time.NewTicker(h.every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if !h.leads() {
			continue
		}
		for limit := shell.StandInTime; !h.turned(ctx, limit); limit = lookTick {
			if ctx.Err() != nil {
				return
			}
			h.doubt()
			h.tell(true)
		}
		h.tell(false)
	}
}

func (h *hangs) turned(ctx context.Context, limit time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return h.turns(ctx) == nil
}

// watch watches the loop of the manager of a mandate.
func (q *Quorum) watch(ctx context.Context, turns func(ctx context.Context) error) {
	q.mu.Lock()
	kept := q.kept
	q.mu.Unlock()
	h := hangs{
		every: q.look(), turns: turns, tell: q.Members.Hang, doubt: kept.look.doubt,
		leads: func() bool {
			q.mu.Lock()
			defer q.mu.Unlock()
			return q.stop != nil
		},
	}
	h.watch(ctx)
}
