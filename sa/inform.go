package sa

import (
	"heddle/mad"
	"heddle/store"
	"heddle/subnet"
)

// informs owns the subscriptions, and the Reports on their way.
type informs struct{}

func (x *informs) init(cfg Config)                              {}
func (x *informs) load(c *Core, r *store.Record) error          { return nil }
func (x *informs) request(c *Core, q *query, m []byte)          { c.reply(q.req, refuse(nil, m, 0x000C)) }
func (x *informs) view(v *View)                                 {}
func (x *informs) published(c *Core, old, now *subnet.Snapshot) {}
func (x *informs) received(c *Core, p *mad.Packet)              {}
func (x *informs) trap(c *Core, t *Trap)                        {}
func (x *informs) timers(c *Core)                               {}
func (x *informs) nextTimer() mad.Time                          { return mad.Never }

// groupEvent tells subscribers that a group was created (trap 66) or deleted
// (trap 67).
func (x *informs) groupEvent(c *Core, trap uint16, g *Group) {}

func informRecords(q *query) {}
