package sa

import (
	"heddle/store"
	"heddle/subnet"
)

// aliases owns the alias GUIDs.
type aliases struct{}

func (x *aliases) load(c *Core, r *store.Record) error          { return nil }
func (x *aliases) published(c *Core, old, now *subnet.Snapshot) {}
func (x *aliases) request(c *Core, q *query, m []byte)          { c.reply(q.req, refuse(nil, m, 0x000C)) }
func (x *aliases) wanted() []subnet.Alias                       { return nil }
