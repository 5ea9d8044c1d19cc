package sa

import (
	"encoding/binary"

	"heddle/mad"
	"heddle/store"
)

// Kept counts what the core holds of joins, services, subscriptions and Reports,
// wherever: a test that does and undoes things sees what is left.
func (c *Core) Kept() int {
	n := len(c.groups.joins) + len(c.groups.proxies) + len(c.services.all.list) + c.services.leases.Len() + len(c.services.byPort)
	x := &c.subscriptions.reports
	n += len(c.subscriptions.all.list) + len(x.peers) + len(x.byToken) + cap(x.ready) + cap(x.fresh) + x.eng.Outstanding() + x.eng.Queued()
	for _, list := range c.aliases.ports {
		n += len(list)
	}
	n += cap(c.signals.due[0]) + cap(c.signals.due[1]) + cap(c.signals.paused) + len(c.signals.stale)
	return n + len(c.aliases.used) + cap(c.aliases.waiting) + cap(c.held)
}

// Parked is how many bytes of queries wait for tables.
func (c *Core) Parked() (n int) {
	for i := range c.wait.list {
		n += cap(c.wait.list[i].req.Data)
	}
	return n
}

// Reports says what has become of Reports so far. It may be called between
// Steps.
func (c *Core) Reports() ReportStats {
	s := c.subscriptions.reports.stats
	s.Peers = len(c.subscriptions.reports.peers)
	for _, p := range c.subscriptions.reports.peers {
		s.Waiting += len(p.queue)
	}
	return s
}

// BusyInstead is the answer BUSY in the place of another one.
var BusyInstead = busy

// FillUnsaved makes as many changes wait for the store as requests may.
func (c *Core) FillUnsaved() {
	ops := make([]store.Op, maxUnsaved/2)
	for i := range ops {
		ops[i] = store.Op{Kind: store.DeleteRecord, Record: store.Record{Table: store.TableServices, Key: binary.BigEndian.AppendUint64(nil, uint64(i))}}
	}
	c.unsaved.add(ops, mad.Never)
}
