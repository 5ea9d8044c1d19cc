package repath

import (
	"slices"

	"heddle/ib"
	"heddle/mad"
	"heddle/sim/host/adapter"
	"heddle/sim/host/rc"
)

// A queue pair whose path is gone (notices 65 and 68, or the SA knows no path) is
// suspended: SQD, so that it begins no message that would use up its retries. What it has
// begun goes on, and ends it if the path does not return in time. It resumes with the path
// that a notice (64, 69) or a query finds. The handler asks for the path each Config.Retry,
// so that a lost notice does not keep it suspended.

// suspend has a queue pair begin no message.
func (h *Handler) suspend(now mad.Time, c *adapter.Connection) {
	if slices.Contains(h.away, c) {
		return
	}
	if m := h.byConn[c]; m != nil {
		m.stopped = true
		h.moving = slices.DeleteFunc(h.moving, func(x *change) bool { return x == m })
		delete(h.byConn, c)
	}
	if c.QP().State() == rc.ReadyToSend && c.Do(func(q *rc.QP, _ rc.Time) error { return q.Drain() }) != nil {
		return
	}
	if c.QP().State() != rc.SendQueueDrain {
		return
	}
	if len(h.away) == 0 {
		h.awayAt = now.Add(h.cfg.Retry)
	}
	h.away = append(h.away, c)
	h.Count.Suspended++
}

// back reports whether a queue pair was suspended, which ends.
func (h *Handler) back(c *adapter.Connection) bool {
	i := slices.Index(h.away, c)
	if i < 0 {
		return false
	}
	h.away = slices.Delete(h.away, i, i+1)
	h.Count.Resumed++
	return true
}

// lookForAway asks for the paths of suspended queue pairs.
func (h *Handler) lookForAway(now mad.Time) {
	h.away = slices.DeleteFunc(h.away, func(c *adapter.Connection) bool {
		return !h.here(c) || c.QP().State() != rc.SendQueueDrain
	})
	h.awayAt = now.Add(h.cfg.Retry)
	for _, c := range h.away {
		if _, known := h.want.known[c.Peer()]; !known {
			h.want.add(now, c.Peer(), nil)
		}
	}
}

// peersAt are the GIDs that queue pairs reach by a LID.
func (h *Handler) peersAt(l ib.LID) (list []ib.GID) {
	for _, c := range h.a.Connections() {
		if c.QP().Path().DLID == l && !slices.Contains(list, c.Peer()) {
			list = append(list, c.Peer())
		}
	}
	return list
}

// Arrived is for a queue pair that came to the adapter with a virtual machine, or that was
// connected anew: what the host knows of its path was that of another place. One that was
// suspended, or was being drained, where it was goes on here.
func (h *Handler) Arrived(now mad.Time, c *adapter.Connection) {
	if h.byConn[c] == nil && c.QP().State() == rc.SendQueueDrain {
		h.suspend(now, c)
	}
	h.want.add(now, c.Peer(), nil)
	h.run(now)
}

// Migrated is for a queue pair that uses its alternate path: the peer has migrated, or retries were
// used up. If no change of this end is under way, the alternate path may be one that was loaded for
// tables long past, so its path is asked for.
func (h *Handler) Migrated(now mad.Time, c *adapter.Connection) {
	if !h.here(c) || h.byConn[c] != nil || c.QP().Path() == c.QP().Alternate() {
		return
	}
	h.want.add(now, c.Peer(), nil)
	h.run(now)
}

// here reports whether a queue pair is at the adapter: it may have left with a virtual machine.
func (h *Handler) here(c *adapter.Connection) bool {
	return !c.Gone() && !c.Away() && c.Adapter() == h.a
}
