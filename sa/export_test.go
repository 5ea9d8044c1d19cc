package sa

// Kept counts what the core holds of joins, services, subscriptions and Reports,
// wherever: a test that does and undoes things sees what is left.
func (c *Core) Kept() int {
	n := len(c.mc.joins) + len(c.mc.proxies) + len(c.svc.all.list) + c.svc.leases.Len() + len(c.svc.byPort)
	x := &c.inform.reports
	n += len(c.inform.all.list) + len(x.peers) + len(x.byToken) + cap(x.ready) + cap(x.fresh) + x.eng.Outstanding() + x.eng.Queued()
	for _, list := range c.alias.ports {
		n += len(list)
	}
	return n + len(c.alias.used) + cap(c.alias.waiting) + cap(c.held)
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
	s := c.inform.reports.stats
	s.Peers = len(c.inform.reports.peers)
	for _, p := range c.inform.reports.peers {
		s.Waiting += len(p.queue)
	}
	return s
}
