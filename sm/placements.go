package sm

import (
	"heddle/ib"
	"heddle/route/move"
	"heddle/sm/notice"
	"heddle/sm/topo"
	"heddle/subnet"
)

// What placements (sm/placement) need of the rest of the manager: their LIDs routed, the LIDs of
// shared ports set, and snapshots published.

// Owner implements placement.Router.
func (l wiring) Owner(lid ib.LID) ib.GUID { return l.c.router.Owner(lid) }

// RoutedAt implements placement.Router.
func (l wiring) RoutedAt(lid ib.LID, port ib.GUID) bool { return l.c.router.RoutedAt(lid, port) }

// WhyNot implements placement.Router.
func (l wiring) WhyNot() string { return l.c.whyNoRoute() }

// RouteAnew implements placement.Router.
func (l wiring) RouteAnew(why string) {
	l.c.router.Want()
	l.c.router.Regrant()
	l.c.AskSweep(why)
}

// RouteGroups implements placement.Router.
func (l wiring) RouteGroups() { l.c.routeMoved() }

// SweepAsked implements placement.Router.
func (l wiring) SweepAsked() bool { return l.c.agenda.Wanted() }

// Move implements placement.Router.
func (l wiring) Move(list []move.Request, placements []ib.GUID) { l.c.mover.Move(list, placements) }

// SetPortLID implements placement.Router.
func (l wiring) SetPortLID(p *topo.Port, begun bool) bool { return l.c.mover.SetPortLID(p, begun) }

// Enter implements install.Sweep and lidmove.Conductor.
func (l wiring) Enter(p notice.Phase) { l.c.enter(p) }

// LIDsMoved implements lidmove.Conductor.
func (l wiring) LIDsMoved() { l.c.shown.moved = true }

// BasesChanged implements lidmove.Conductor.
func (l wiring) BasesChanged() { l.c.shown.ports = true }

// ShowNow implements placement.Snapshots.
func (l wiring) ShowNow() { l.c.showNow() }

// PublishPorts implements placement.Snapshots.
func (l wiring) PublishPorts() {
	if l.c.shown.ports {
		l.c.Publish()
	}
}

// PortsChanged implements placement.Snapshots.
func (l wiring) PortsChanged() bool { return l.c.shown.ports }

// Report implements placement.Snapshots.
func (l wiring) Report(list []subnet.PlacementReport) {
	l.c.out.Placements = append(l.c.out.Placements, list...)
}

// dropMoves gives up the placements and moves under way, because no answer will arrive.
func (c *Core) dropMoves() {
	c.placements.Abort()
	c.mover.Drop()
}

func (c *Core) moveStatus() MoveStatus {
	s, n := MoveStatus{Counts: c.mover.Counts()}, c.placements.Status()
	s.LIDLimit, s.LIDsUsed = n.LIDs.Limit, n.LIDs.Used()
	s.Ports, s.Functions, s.Interfaces = n.LIDs.Ports, n.LIDs.Functions, n.LIDs.Placements
	s.Placements, s.Waiting = n.Placements, n.Nowhere
	return s
}

// whyNoRoute is why a sweep did not route LIDs.
func (c *Core) whyNoRoute() string {
	if c.sweep.refused {
		return "no engine has tables that may be installed"
	}
	return "some switch did not take its part of the forwarding tables, or the port is cut off"
}
