package sm

import (
	"heddle/ib"
	"heddle/route/move"
	"heddle/sm/notice"
	"heddle/sm/topo"
	"heddle/sm/work"
	"heddle/subnet"
)

// What placements (sm/placement) need of the rest of the manager: their LIDs routed, the LIDs of
// shared ports set, and snapshots published.

// Owner implements placement.Router.
func (l link) Owner(lid ib.LID) ib.GUID { return l.c.ownerOf(lid) }

// RoutedAt implements placement.Router.
func (l link) RoutedAt(lid ib.LID, port ib.GUID) bool { return l.c.routedAt(lid, port) }

// WhyNot implements placement.Router.
func (l link) WhyNot() string { return l.c.whyNoRoute() }

// RouteAnew implements placement.Router.
func (l link) RouteAnew(why string) {
	l.c.routing.wantRoute, l.c.routing.regrant = true, true
	l.c.AskSweep(why)
}

// RouteGroups implements placement.Router.
func (l link) RouteGroups() { l.c.routeMoved() }

// SweepAsked implements placement.Router.
func (l link) SweepAsked() bool { return l.c.next.wanted }

// Move implements placement.Router.
func (l link) Move(list []move.Request, placements []ib.GUID) {
	l.c.moveState.now = moves{list: list, by: placements, errs: l.c.Errs}
	l.c.enter(notice.PhaseMove)
	l.c.startMoveJob()
}

// SetPortLID implements placement.Router.
func (l link) SetPortLID(p *topo.Port, begun bool) bool {
	c := l.c
	if p.Info.LID == p.LID {
		return begun
	}
	if !begun {
		c.moveState.now = moves{step: moveFloat, errs: c.Errs}
		c.enter(notice.PhaseMove)
	}
	c.Add(work.Make(work.OpSetPort, p.Node, p.Num, 0))
	return true
}

// ShowNow implements placement.Snapshots.
func (l link) ShowNow() { l.c.showNow() }

// PublishPorts implements placement.Snapshots.
func (l link) PublishPorts() {
	if l.c.shown.ports {
		l.c.Publish()
	}
}

// PortsChanged implements placement.Snapshots.
func (l link) PortsChanged() bool { return l.c.shown.ports }

// Report implements placement.Snapshots.
func (l link) Report(list []subnet.PlacementReport) {
	l.c.out.Placements = append(l.c.out.Placements, list...)
}

// floatsSet ends the phase in which ports got their LIDs.
func (c *Core) floatsSet() {
	failed := c.Errs > c.moveState.now.errs
	if c.placements.PortsSet(failed); failed {
		c.AskFullSweep("a port did not take its LID")
	}
	c.moveState.now = moves{}
	c.enter(notice.PhaseIdle)
	c.baseChanged()
}

// baseChanged brings the graph up to date with the LIDs of ports.
func (c *Core) baseChanged() {
	was := c.Fabric.Graph
	h := c.withBases(was)
	if h == was {
		return
	}
	c.Fabric.Graph = h
	c.install.Regraph(was, h)
	c.shown.ports = true
}

// dropMoves gives up what is under way: answers will not be seen.
func (c *Core) dropMoves() {
	c.placements.Abort()
	c.moveState.now = moves{}
}

func (c *Core) moveStatus() MoveStatus {
	s, n := c.moveState.count, c.placements.Status()
	s.LIDLimit, s.LIDsUsed = n.LIDs.Limit, n.LIDs.Used()
	s.Ports, s.Functions, s.Interfaces = n.LIDs.Ports, n.LIDs.Functions, n.LIDs.Placements
	s.Placements, s.Waiting = n.Placements, n.Nowhere
	return s
}
