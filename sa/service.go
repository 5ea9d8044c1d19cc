package sa

import (
	"heddle/mad"
	"heddle/store"
)

// services owns the registered services.
type services struct{}

func (x *services) load(c *Core, r *store.Record) error { return nil }
func (x *services) request(c *Core, q *query, m []byte) { c.reply(q.req, refuse(nil, m, 0x000C)) }
func (x *services) view(v *View)                        {}
func (x *services) expire(c *Core)                      {}
func (x *services) nextTimer() mad.Time                 { return mad.Never }

func serviceRecords(q *query) {}
