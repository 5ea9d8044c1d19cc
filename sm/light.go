package sm

import (
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/sm/discover"
	"heddle/sm/notice"
	"heddle/sm/work"
	"heddle/subnet"
)

// startLight begins a light sweep. Virtual ports and other managers are asked in it, too.
func (c *Core) startLight() {
	if !c.light.Ready() {
		c.AskFullSweep("nothing is known of the subnet")
		return
	}
	c.enter(notice.PhaseLight)
	c.light.Start()
	c.vports.LightSweep()
	c.mastership.AskAll()
}

// startAudit begins an audit.
func (c *Core) startAudit() {
	if c.light.AuditReady() {
		c.enter(notice.PhaseLight)
		c.light.StartAudit()
	}
}

// lightDone ends a light sweep or an audit. What waited for it follows: upkeep goes behind a light sweep that
// is due, and nothing else may happen until the next one.
func (c *Core) lightDone() bool {
	c.enter(notice.PhaseIdle)
	c.light.Done(c.agenda.Wanted())
	return true
}

// stopLight cuts a light sweep or an audit short, because a sweep is due.
func (c *Core) stopLight() {
	c.unanswered(func(it work.Item, _ bool) { c.light.Canceled(it) })
	c.light.CutShort()
	c.enter(notice.PhaseIdle)
}

// releaseLinks has the next sweep read the switches whose links are no longer kept out.
func (c *Core) releaseLinks() {
	ask := func(switches []ib.GUID, why string) {
		for _, g := range switches {
			c.agenda.SuspectSwitch(g)
		}
		if len(c.agenda.Suspects()) > 0 && c.State == subnet.Master {
			c.AskSweep(why)
		}
	}
	goesOn, due := c.links.PutOffDue(), c.links.DueActions()
	released := c.links.Release()
	switch {
	case goesOn:
		ask(due, "a change of routes that gave way goes on")
	case len(due) > 0:
		ask(due, "a drained link is looked at, to disable it")
	}
	if len(released) > 0 || len(due) == 0 {
		ask(released, "a link that failed repeatedly was quiet for long enough")
	}
}

// setPortActions has the next sweep look at the ports of links that are drained, isolated or restored.
func (c *Core) setPortActions(list []subnet.PortAction) {
	if until, ok := c.waits(); ok && c.links.PutOffNew(list, until) {
		c.links.SetActions(list) // further links to drain are no reason to leave the change that waits
		return
	}
	look := c.links.SetActions(list)
	if c.State != subnet.Master || len(look) == 0 {
		return
	}
	for _, p := range look {
		c.agenda.Suspect(p.Node, p.Port)
	}
	c.AskSweep("links are drained, isolated or restored")
}

// SuspectSwitch implements light.Discovery.
func (l wiring) SuspectSwitch(node ib.GUID) { l.c.agenda.SuspectSwitch(node) }

// GiveUp implements light.Discovery.
func (l wiring) GiveUp(why string) { l.c.discovery.GiveUp(why) }

// Sane implements light.Discovery.
func (l wiring) Sane(ni *smp.NodeInfo, own bool) error { return discover.CheckNodeInfo(ni, own) }
