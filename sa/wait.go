package sa

import (
	"bytes"
	"slices"
	"time"

	"heddle/ib"
	"heddle/mad"
	"heddle/subnet"
)

// A subnet manager that needs no lanes does not read SL-to-VL and VL
// arbitration tables, of which a switch has thousands. A query for them
// triggers the read, and is answered from the devices' contents once they
// arrive.

const (
	// maxParked bounds the waiting queries, maxParkedPerPort those of one port;
	// further ones get BUSY.
	maxParked        = 256
	maxParkedPerPort = 16
	// waitTime is how long a query waits without progress. The tables of the
	// largest subnet, two million, take a minute.
	waitTime = 4 * time.Second
	// maxWaitTime bounds a query's total wait.
	maxWaitTime = 10 * time.Minute
	// answeredAtOnce is how many bytes of waiting answers one step produces, or a
	// single answer, which may be 128 MiB.
	answeredAtOnce = 1 << 20
)

// waiting holds the queries that wait for tables.
type waiting struct {
	list  []waitingQuery
	read  []ib.GUID // nodes to read, requested in this step
	known int       // nodes whose tables are in the snapshot
	more  bool      // further queries may be answered now
}

type waitingQuery struct {
	req     Request
	by      ib.GUID // the requester's port; 0: unknown
	since   mad.Time
	until   mad.Time
	missing ib.GUID // a node whose tables the answer still needs
}

// unreadLanes records that the answer needs a node's lane tables, if they are
// unknown. It reports whether any are missing; then the query makes no records.
func (q *query) unreadLanes(node int32) bool {
	if !q.s.LanesComplete(node) {
		g := q.s.Nodes[node].Info.NodeGUID
		if n := len(q.unread); n == 0 || q.unread[n-1] != g {
			q.unread = append(q.unread, g)
		}
	}
	return len(q.unread) > 0
}

// park keeps a query until its tables are read. A retry of a waiting query is
// answered once.
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
	// Keep one MAD: a segmented request may have megabytes after it.
	w.req.Data = slices.Clone(m)
	x.list = append(x.list, w)
	x.read = append(x.read, nodes...)
}

// published answers the queries whose tables have arrived.
func (x *waiting) published(c *Core, s *subnet.Snapshot) {
	if !s.Up || s.State != subnet.Master {
		x.list, x.more = nil, false // no longer master
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
	if known > x.known { // the read makes progress
		for i := range x.list {
			w := &x.list[i]
			w.until = min(c.now.Add(waitTime), w.since.Add(maxWaitTime))
		}
	}
	x.known = known
	x.answer(c)
}

// answer answers queries whose tables are known, up to the limit of one step.
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

// expire continues with answers, and refuses queries whose wait is over because
// a node did not respond.
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
		return 0 // immediately
	}
	for i := range x.list {
		t = min(t, x.list[i].until)
	}
	return t
}

// source is the current Source of the core's own answers.
func (c *Core) source() *Source {
	v := c.view
	if v != nil && v.Slow != c.slow.paths { // this step has changed them
		w := *v
		w.Slow = c.slow.paths
		v = &w
	}
	return &Source{Snap: c.snap, View: v, Opt: &Options{
		SAKey: c.cfg.SAKey, TrustLocal: c.cfg.TrustLocal, PathCaching: c.cfg.PathCaching, VirtHopLimit: c.cfg.VirtHopLimit,
	}}
}
