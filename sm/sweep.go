package sm

import (
	"slices"
	"strconv"

	"heddle/internal/plural"
	"heddle/mad"
	"heddle/sm/notice"
	"heddle/sm/topo"
	"heddle/sm/work"
	"heddle/subnet"
)

// maxAttempts is how many sweeps follow each other immediately because something failed or changed
// meanwhile, before the subnet is declared up without it.
const maxAttempts = 3

// endSweep closes a sweep: it publishes what was reached, reports that the subnet is up, and sets
// the times of what comes next.
func (c *Core) endSweep() {
	finished := c.Phase == notice.PhaseActivate
	c.unbroken(finished)
	c.enter(notice.PhaseIdle)
	c.Sweeps++
	if !c.Region {
		c.FullSweeps++
	}
	defer c.forgetNew()
	c.pkeys.LookAll()
	// Refused routes do not make the subnet less known, but links that came up are still to be
	// brought up.
	c.sweep.sound = c.Errs == 0 && (finished || c.sweep.refused)
	if c.sweep.sound && c.sweep.refused {
		c.sweep.armAll = true
	}
	if c.Errs > 0 {
		c.agenda.ReadAll()
	}
	_, again := c.agenda.Demanded()
	c.router.EndRepair(c.sweep.refused, again)
	r := c.closeReport()
	c.Prune()
	c.discovery.ReportChanges()
	if finished {
		c.FirstSweep = c.FirstSweep && c.Errs > 0
	}
	r.Again = c.repeats()
	c.hurry.SweepEnded(c.agenda.RoutesGroups() || c.hurry.Wanted() && r.Again)
	wasUp := c.Snapshot != nil && c.Snapshot.Up
	// Hosts may join in every sweep. The next one is for them, and reads nothing then.
	if c.State == subnet.Master && finished && (!r.Again || c.Errs == 0 && c.agenda.GroupsAlone()) {
		c.Up = true
	}
	c.Notify(notice.Notice{Kind: notice.KindSweepEnd, Level: notice.Info, Dur: r.Took, Text: r.Summary(), Report: r})
	c.sweep.lastReport = r
	c.settleTakeover(r.Again)
	c.publishSweep()
	c.lanes.ReadSmall()
	if !r.Region {
		c.light.AllRead()
	}
	if c.discovery.LostLinks() {
		c.cutEndsHoldTraps()
		c.light.Watch()
	}
	c.discovery.EndRegion()
	if c.Up && !wasUp && c.State == subnet.Master {
		counts := c.Snapshot.Counts
		c.sweep.upCounts = counts
		c.Notify(notice.Notice{Kind: notice.KindSubnetUp, Level: notice.Info, Dur: r.Took, Up: &counts, Report: r, Text: countsText(counts)})
		c.traps.BroughtUp()
	}
	c.keepSmall(finished)
	c.planNext(r.Again)
	c.light.Arm(c.agenda.Wanted())
	if c.Config.FullInterval > 0 && c.schedule.fullAt == mad.Never {
		c.schedule.fullAt = c.Now.Add(c.Config.FullInterval)
	}
}

// closeReport completes the report of the sweep.
func (c *Core) closeReport() *notice.SweepReport {
	r := c.Report
	r.Took = c.Now.Sub(c.sweep.start)
	c.statSweep(&r)
	r.Problems = len(c.Fabric.Problems)
	return &r
}

// repeats reports whether the next sweep follows immediately, because something failed or changed
// in this one. The same subnet gives the same tables, so a refusal of routes is no reason.
func (c *Core) repeats() bool {
	_, again := c.agenda.Demanded()
	if again && c.State != subnet.Standby {
		return c.sweep.attempts < maxAttempts
	}
	return (c.Errs > 0 || again) && c.State == subnet.Master && c.sweep.attempts < maxAttempts
}

// planNext asks for the next sweep, immediately or at a time.
func (c *Core) planNext(immediately bool) {
	againWhy, again := c.agenda.Demanded()
	mendable := c.Errs > 0 || again || c.sweep.refused
	switch {
	case immediately:
		c.sweep.attempts++
		if !again {
			againWhy = "something failed in the previous sweep"
		}
		c.agenda.Want(againWhy)
	case again && c.State == subnet.Master:
		c.traps.SweepAt(c.Now.Add(c.Config.TrapMinGap))
		c.agenda.Because(againWhy)
	case mendable && !c.sweep.refused || c.Errs > 0 || len(c.Fabric.Problems) > 0:
		// Excluded for now; the interval grows while nothing changes.
		if c.schedule.retryAt == mad.Never {
			c.schedule.retryAt = c.Now.Add(c.Config.RetryInterval << min(c.schedule.retryWait, 4))
			c.schedule.retryWait++
		}
	default:
		c.schedule.retryAt, c.schedule.retryWait = mad.Never, 0
	}
	if !mendable {
		c.sweep.attempts = 0
	}
	c.agenda.Ended()
}

// forgetNew clears the new-node marks of a full sweep.
func (c *Core) forgetNew() {
	for i := range c.Fabric.Nodes {
		c.Fabric.Nodes[i].Flags &^= topo.NodeNew | topo.NodeAgain
	}
}

// keepSmall drops what is not needed between sweeps.
func (c *Core) keepSmall(finished bool) {
	if finished && c.State == subnet.Master {
		c.Last = nil
	}
	if len(c.Todo.Buf) > 4096 {
		c.Todo = work.Queue{}
	}
	c.install.Drop()
}

// countsText is what the subnet has, for people.
func countsText(n subnet.Counts) string {
	s := plural.Of(n.Switches, "switch") + ", " + plural.Of(n.CAs, "CA") + ", " + strconv.Itoa(n.LinksActive) + " of " +
		plural.Of(n.Links, "link") + " active, " + plural.Of(n.LIDs, "LID")
	if n.Routers > 0 {
		s += ", " + plural.Of(n.Routers, "router")
	}
	if n.Problems > 0 {
		s += ", " + plural.Of(n.Problems, "problem")
	}
	return s
}

// statSweep adds to a report what the transaction engine and the tables counted in the sweep.
func (c *Core) statSweep(r *notice.SweepReport) {
	n := c.install.Counts()
	r.BlocksSent, r.GroupBlocks, r.TopsSent = n.LFT, n.Multicast, n.Tops
	var st mad.Stats
	c.Engine.Stats(&st)
	for _, a := range st.Attrs {
		r.SMPs += a.Sent - a.Retried
		r.Retried += a.Retried
		r.TimedOut += a.TimedOut
	}
	for _, a := range c.sweep.madBase.Attrs {
		r.SMPs -= a.Sent - a.Retried
		r.Retried -= a.Retried
		r.TimedOut -= a.TimedOut
	}
}

// publishSweep publishes what a sweep found. After a sweep of a region that changed no node and no
// address, the last snapshot is updated incrementally.
func (c *Core) publishSweep() {
	old := c.Snapshot
	if c.takeover.Answers() || c.State == subnet.Master && c.Up && c.Fabric.Graph == nil && old != nil {
		// The sweep read nothing, as when our own node did not answer: nothing says that the
		// subnet has changed.
		c.PublishState()
		return
	}
	if !c.Region || old == nil || c.SnapshotFabric != c.Fabric || c.discovery.Joined() || c.discovery.Left() || c.regionLIDs.anew || c.discovery.Moved() || c.discovery.Wide() || c.shown.ports || old.Graph == nil {
		c.Publish()
		return
	}
	f := c.Fabric
	s := &subnet.Snapshot{}
	*s = *old
	c.fillHead(s)
	s.SweepNanos = int64(c.Now.Sub(c.sweep.start))
	s.Problems = append(c.links.Problems(), f.Problems...)
	s.Graph, s.Tables = f.Graph, c.install.Told()
	c.shown.moved = false
	touched := make([]int32, 0, len(c.discovery.Nodes()))
	if len(c.discovery.Nodes()) > 0 {
		s.Nodes = slices.Clone(old.Nodes)
	}
	for _, n := range c.discovery.Nodes() {
		if f.Nodes[n].Flags&topo.NodeGone != 0 {
			continue
		}
		i := c.SnapshotIndex[n]
		nd := &s.Nodes[i]
		nd.Switch = f.Nodes[n].Switch
		touched = append(touched, i)
		ports := f.NodePorts(n)
		for k := range ports {
			q := s.Edit(old, nd.First+int32(k))
			e := q.EndPort
			*q = c.snapPort(c.SnapshotIndex, &ports[k])
			q.EndPort = e
		}
	}
	c.lanes.Update(s, old)
	c.install.UpdateMulticast(s, old)
	touched, vports := c.showHeld(s, old, touched)
	if old.Veiled || len(old.Unsure) > 0 {
		c.absent.Show(s)
	}
	s.Carry(old, touched, vports...)
	c.shown.gen++
	s.Gen = c.shown.gen
	c.Snapshot = s
	c.out.Publish = s
}
