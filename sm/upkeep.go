package sm

import (
	"slices"

	"heddle/mad"
	"heddle/sm/notice"
	"heddle/subnet"
)

// Upkeep is what is done between sweeps and concerns no route: writing alias
// GUIDs, bringing virtual ports up, and reading tables that somebody asked for. It goes on in portions, so
// that a sweep, or a light one that is due, waits for one of them at most.

// upkeepPortion is how many requests are made before sweeps have their turn
// again: some 4 windows.
const upkeepPortion = 128

// startUpkeep begins a portion. It reports whether there is one.
func (c *Core) startUpkeep() bool {
	if !c.MayUpkeep() {
		return false
	}
	if !c.guids.Due() && c.lanes.Next() > c.Now && !c.pkeys.Due() && !c.vports.Due() {
		return false
	}
	if c.idleTimer() <= c.Now {
		return false // what is due goes first
	}
	c.enter(notice.PhaseUpkeep)
	if c.placements.FunctionsRead() {
		c.pkeys.Upkeep(upkeepPortion) // else it would revoke those of virtual machines, and give them back
	}
	c.guids.Upkeep(upkeepPortion)
	c.vports.Upkeep(upkeepPortion)
	c.lanes.Upkeep(upkeepPortion)
	return true
}

// upkeepDone ends a portion.
func (c *Core) upkeepDone() bool {
	c.enter(notice.PhaseIdle)
	c.guids.UpkeepDone()
	c.settleKept()
	c.publishHeld()
	if !c.placements.Midway() || !c.shown.moved { // its end shows them
		c.vports.ShowLater()
	}
	return true
}

// idleTimer is when the next thing is due that is done between sweeps.
func (c *Core) idleTimer() mad.Time {
	t := mad.Never
	for _, u := range [...]mad.Time{c.light.Next(), c.schedule.retryAt, c.light.NextAudit(), c.schedule.reactivateAt, c.links.NextRelease(), c.nextImprovement(), c.schedule.fullAt} {
		t = min(t, u)
	}
	return t
}

// nextImprovement is when better tables are looked for. While links are put off they would be those of a graph that is
// about to change.
func (c *Core) nextImprovement() mad.Time {
	if c.links.PuttingOff() {
		return mad.Never
	}
	return c.router.Next()
}

// publishHeld publishes what upkeep changed. A fabric that has no graph, as where our own
// port has no link, has no nodes for the virtual ports of the one before: what is
// not shown of them waits for the next that has.
func (c *Core) publishHeld() {
	if c.Fabric == nil || c.Fabric.Graph == nil {
		return // it is not ours to manage: what was known is of another fabric
	}
	if len(c.guids.Changed()) == 0 && !c.lanes.ToShow() && !c.pkeys.ToShow() && !c.vports.ToShow() && !c.shown.moved && !c.shown.ports && !c.absent.ToShow() || c.Snapshot == nil || c.SnapshotFabric != c.Fabric {
		return
	}
	if c.placements.Midway() && c.shown.moved {
		return // the LIDs lead to places that are not what they are to be
	}
	if c.shown.ports {
		c.Publish()
		return
	}
	old := c.Snapshot
	s := &subnet.Snapshot{}
	*s = *old
	c.fillHead(s)
	if c.shown.moved {
		s.Graph, s.Tables = c.Fabric.Graph, c.install.Told()
		c.shown.moved = false
	}
	c.lanes.Shown()
	c.lanes.Update(s, old)
	c.install.UpdateMulticast(s, old)
	nodes, vports := c.showHeld(s, old, nil)
	if c.absent.ToShow() {
		c.absent.Show(s)
	}
	s.Carry(old, nodes, vports...)
	c.shown.gen++
	s.Gen = c.shown.gen
	c.Snapshot = s
	c.out.Publish = s
}

// showNow publishes changes of virtual ports at once.
func (c *Core) showNow() {
	c.vports.Flush()
	c.publishHeld()
}

// showHeld brings a copy of the last snapshot up to date with what ports are
// known to hold. It appends the nodes that it changed and lists the virtual ports,
// which Carry wants.
func (c *Core) showHeld(s, old *subnet.Snapshot, nodes []int32) (changed, vports []int32) {
	if s.Graph != old.Graph {
		c.placements.ShowEntries()
	}
	for _, port := range c.guids.Changed() {
		i := s.PortByPortGUID(port)
		if i < 0 {
			continue
		}
		s.Edit(old, i).Aliases = c.placements.AliasesArriving(s, i, c.placements.AliasesShown(port))
		if n := s.Ports[i].Node; !slices.Contains(nodes, n) {
			nodes = append(nodes, n)
		}
	}
	c.guids.AllShown()
	c.pkeys.Update(s, old)
	return nodes, c.vports.Update(s, old)
}
