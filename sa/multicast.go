package sa

import (
	"heddle/store"
	"heddle/subnet"
)

// multicast owns the groups and their members.
type multicast struct{}

func (x *multicast) load(c *Core, r *store.Record) error          { return nil }
func (x *multicast) published(c *Core, old, now *subnet.Snapshot) {}
func (x *multicast) request(c *Core, q *query, m []byte)          { c.reply(q.req, refuse(nil, m, 0x000C)) }
func (x *multicast) view(v *View)                                 {}
func (x *multicast) routed() []subnet.Group                       { return nil }

func memberRecords(q *query) {}
