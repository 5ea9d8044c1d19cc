package sm

import (
	"heddle/ib"
	"heddle/sm/notice"
	"heddle/store"
)

// configure assigns LIDs and sets the parameters of every port, without moving the state of any
// port. It runs after a discovery, if we are the master.
func (c *Core) configure() bool {
	c.enter(notice.PhaseAssign)
	c.sweep.exchanged, c.sweep.exchanging = false, false
	var ops []store.Op
	c.links.MarkDrained(func(n int32) {
		if c.Region {
			c.discovery.Touch(n)
		}
	})
	if c.Region {
		var fits bool
		if ops, fits = c.assignRegion(); !fits {
			return c.discovered()
		}
	} else {
		ops = c.assignLIDs()
	}
	ops = append(ops, c.mkeys.Ops(!c.Region)...)
	if !c.Config.PlanOnly && (len(ops)+len(c.Unsaved) > 0 || c.unstored.lacks) {
		c.persist(ops)
		return false
	}
	c.assignedLIDs()
	return true
}

// assignedLIDs goes on when the LIDs that ports are to have are stored: it lists the graph.
func (c *Core) assignedLIDs() {
	c.placements.AssignFloating()
	if c.Region {
		c.graphRegion()
	} else {
		c.Fabric.ListGraph()
		c.router.BuildGraph()
		c.router.Change()
	}
	c.takeTables()
	c.guids.Discovered(!c.Region)
	c.vports.Discovered(!c.Region)
	c.install.ForgetLanes()
	c.lanes.Discovered(!c.Region)
	if c.Config.PlanOnly {
		c.enter(notice.PhaseReadback)
		return
	}
	c.startSets()
}

// startSets lists the Sets that do not change the state of a port: our own port first, then
// switches, P_Key tables, end ports and external switch ports.
func (c *Core) startSets() {
	if c.sweep.exchanging = c.exchange(); c.sweep.exchanging {
		return
	}
	c.links.SetOwn()
	c.ScopeNodes(c.links.SetSwitch)
	c.Scope(c.pkeys.Sweep)
	c.links.SetPorts()
	// Routing can be computed while the ports are being configured, unless it has to wait for
	// what switches hold.
	if c.router.Changed() && !c.needReadback() {
		c.router.Start()
	}
}

// assigned ends the phase of Sets.
func (c *Core) assigned() bool {
	if c.sweep.persistWait {
		return false
	}
	if c.sweep.exchanging {
		c.startSets()
		return true
	}
	if own := c.Fabric.AgentPort(c.Fabric.Self.Node, c.Fabric.Self.Port); own.LID == 0 || own.Info.LID != own.LID {
		c.endSweep() // without a LID of our own no answer reaches us; the failed Set was reported
		return true
	}
	if c.needReadback() {
		c.enter(notice.PhaseReadback)
		return true
	}
	c.enter(notice.PhaseRoute)
	return true
}

// startArm moves every link of the subnet that is in Init to Armed.
func (c *Core) startArm() {
	c.enter(notice.PhaseArm)
	if c.sweep.armAll {
		c.discovery.Widen()
	}
	c.sweep.armAll = false
	c.bothEnds()
	c.links.SetLevels()
	c.links.Arm(!c.install.Quiet())
	c.links.CarryOut(c.install.Flight())
}

// bothEnds adds the far end of each link of the region that is not Active to the region: an
// earlier sweep may have moved that end alone.
func (c *Core) bothEnds() {
	if !c.Region || c.discovery.Wide() {
		return
	}
	for _, n := range c.discovery.Nodes() { // not of those that this adds
		ports := c.Fabric.NodePorts(n)
		for i := range ports {
			if p := &ports[i]; p.Num != 0 && c.links.Moves(p) {
				if q := c.Fabric.Port(p.Peer); p.Info.PortState < ib.StateActive || q.Info.PortState < ib.StateActive {
					c.discovery.Touch(q.Node)
				}
			}
		}
	}
}

// armed ends the phase in which links become Armed.
func (c *Core) armed() bool {
	c.enter(notice.PhaseActivate)
	c.links.Activate()
	return true
}

// activated ends the configuring part of a sweep.
func (c *Core) activated() bool {
	c.endSweep()
	return true
}
