package sa

import (
	"slices"
	"time"

	"heddle/ib"
	"heddle/mad"
	"heddle/subnet"
)

// A subnet manager that needs no lanes reads no SL-to-VL and no VL arbitration
// tables, which are thousands for a switch. A query for them has those of its
// nodes read, and is answered when they are in: with what the devices hold, and
// not with what might be expected of them.

const (
	// maxUnread is how many nodes one query may have read; for more it is refused
	// with NO_RESOURCES: ask switch by switch.
	maxUnread = 64
	// maxParked bounds the queries that wait, and maxParkedPerPort those of one
	// port; the next is answered BUSY.
	maxParked        = 256
	maxParkedPerPort = 16
	// waitTime is how long a query waits for its tables.
	waitTime = 4 * time.Second
)

// waiting are the queries that wait for tables to be read.
type waiting struct {
	list []waitingQuery
	read []ib.GUID // nodes to be read, asked for in this step
}

type waitingQuery struct {
	req   Request
	by    ib.GUID // the requester's port, 0: not known
	until mad.Time
}

// unread notes that the lane tables of a node are needed and not known, and
// reports whether that is so.
func (q *query) unreadLanes(node int32) bool {
	if q.s.LanesComplete(node) {
		return false
	}
	if g := q.s.Nodes[node].Info.NodeGUID; !slices.Contains(q.unread, g) {
		q.unread = append(q.unread, g)
	}
	if len(q.unread) > maxUnread {
		q.status, q.full = statusNoResources, true
	}
	return true
}

// park takes a query that Answer could not answer.
func (x *waiting) park(c *Core, q *query, m []byte, nodes []ib.GUID) {
	w := waitingQuery{req: *q.req, until: c.now.Add(waitTime)}
	if q.me >= 0 {
		w.by = q.s.Ports[q.me].GUID
	}
	mine := 0
	for i := range x.list {
		if x.list[i].by == w.by {
			mine++
		}
	}
	if mine >= maxParkedPerPort || len(x.list) >= maxParked {
		c.reply(q.req, refuse(nil, m, ib.StatusBusy))
		return
	}
	// One MAD: a request that came in segments may have megabytes behind it.
	w.req.Data = slices.Clone(m)
	x.list = append(x.list, w)
	x.read = append(x.read, nodes...)
}

// published answers what can be answered now.
func (x *waiting) published(c *Core, s *subnet.Snapshot) {
	x.list = slices.DeleteFunc(x.list, func(w waitingQuery) bool {
		out, v, _ := answer(c.source(), &w.req, nil)
		if v == Answered {
			c.reply(&w.req, out)
		}
		return v != ForCore
	})
}

// expire refuses what has waited long enough: a node does not answer.
func (x *waiting) expire(c *Core) {
	x.list = slices.DeleteFunc(x.list, func(w waitingQuery) bool {
		if w.until > c.now {
			return false
		}
		c.reply(&w.req, refuse(nil, w.req.Data[:ib.MADLen], statusNoResources))
		return true
	})
}

func (x *waiting) nextTimer() mad.Time {
	t := mad.Never
	for i := range x.list {
		t = min(t, x.list[i].until)
	}
	return t
}

// source is what the core answers from.
func (c *Core) source() *Source {
	return &Source{Snap: c.snap, View: c.view, Opt: &Options{SAKey: c.cfg.SAKey, TrustLocal: c.cfg.TrustLocal}}
}
