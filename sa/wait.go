package sa

import (
	"bytes"
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
	// maxParked bounds the queries that wait, and maxParkedPerPort those of one
	// port; the next is answered BUSY.
	maxParked        = 256
	maxParkedPerPort = 16
	// waitTime is how long a query waits while no tables come. Those of the
	// largest subnet, two million, take a minute.
	waitTime = 4 * time.Second
	// maxWaitTime is how long a query waits in all.
	maxWaitTime = 10 * time.Minute
	// answeredAtOnce is how many bytes of answers one step makes of queries that
	// have waited, or a single answer: they may be 128 MiB each.
	answeredAtOnce = 1 << 20
)

// waiting are the queries that wait for tables to be read.
type waiting struct {
	list  []waitingQuery
	read  []ib.GUID // nodes to be read, asked for in this step
	known int       // nodes whose tables the snapshot shows
	more  bool      // there are further ones that may be answered now
}

type waitingQuery struct {
	req     Request
	by      ib.GUID // the requester's port, 0: not known
	since   mad.Time
	until   mad.Time
	missing ib.GUID // a node without whose tables there is no answer
}

// unreadLanes notes that the lane tables of a node are needed and not known, and
// reports whether there are any such: then no records are made.
func (q *query) unreadLanes(node int32) bool {
	if !q.s.LanesComplete(node) {
		g := q.s.Nodes[node].Info.NodeGUID
		if n := len(q.unread); n == 0 || q.unread[n-1] != g {
			q.unread = append(q.unread, g)
		}
	}
	return len(q.unread) > 0
}

// park takes a query that Answer could not answer. One that is repeated while
// it waits is answered once.
func (x *waiting) park(c *Core, q *query, m []byte, nodes []ib.GUID) {
	w := waitingQuery{req: *q.req, since: c.now, until: c.now.Add(waitTime), missing: nodes[len(nodes)-1]}
	if q.me >= 0 {
		w.by = q.s.Ports[q.me].GUID
	}
	mine := 0
	for i := range x.list {
		o := &x.list[i]
		if o.by != w.by {
			continue
		}
		if o.req.From == w.req.From && bytes.Equal(o.req.Data, m) {
			return
		}
		mine++
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
	if !s.Up || s.State != subnet.Master {
		x.list, x.more = nil, false // we answer nobody any more
	}
	if len(x.list) == 0 {
		x.known = 0
		return
	}
	known := 0
	for i := range s.Nodes {
		if s.LanesComplete(int32(i)) {
			known++
		}
	}
	if known > x.known { // it goes on
		for i := range x.list {
			w := &x.list[i]
			w.until = min(c.now.Add(waitTime), w.since.Add(maxWaitTime))
		}
	}
	x.known = known
	x.answer(c)
}

// answer answers queries whose tables are known, as many as one step may.
func (x *waiting) answer(c *Core) {
	x.more = false
	made := 0
	for i := 0; i < len(x.list); {
		w := &x.list[i]
		if n := c.snap.NodeByGUID(w.missing); n >= 0 && !c.snap.LanesComplete(n) {
			i++
			continue
		}
		if made >= answeredAtOnce {
			x.more = true
			return
		}
		out, v, nodes := answer(c.source(), &w.req, nil)
		if v == ForCore {
			w.missing = nodes[len(nodes)-1]
			i++
			continue
		}
		if v == Answered {
			made += len(out)
			c.reply(&w.req, out)
		}
		x.list = slices.Delete(x.list, i, i+1)
	}
}

// expire goes on with answers, and refuses what has waited long enough: a node
// does not answer.
func (x *waiting) expire(c *Core) {
	if x.more {
		x.answer(c)
	}
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
	if x.more {
		return 0 // at once
	}
	for i := range x.list {
		t = min(t, x.list[i].until)
	}
	return t
}

// source is what the core answers from.
func (c *Core) source() *Source {
	return &Source{Snap: c.snap, View: c.view, Opt: &Options{SAKey: c.cfg.SAKey, TrustLocal: c.cfg.TrustLocal}}
}
