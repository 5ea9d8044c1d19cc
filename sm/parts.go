package sm

import (
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/route/transition"
	"heddle/sm/absent"
	"heddle/sm/agenda"
	"heddle/sm/discover"
	"heddle/sm/guid"
	"heddle/sm/hurry"
	"heddle/sm/job"
	"heddle/sm/lane"
	"heddle/sm/lidmove"
	"heddle/sm/light"
	"heddle/sm/linkmgr"
	"heddle/sm/notice"
	"heddle/sm/peek"
	"heddle/sm/pkey"
	"heddle/sm/pkeymgr"
	"heddle/sm/placement"
	"heddle/sm/routing"
	"heddle/sm/takeover"
	"heddle/sm/tenure"
	"heddle/sm/topo"
	"heddle/sm/trap"
	"heddle/sm/vport"
	"heddle/subnet"
)

// wire makes the parts of a manager and connects them. Each part names what it needs of others
// in small interfaces. wiring implements those that the conductor serves, and those of parts that
// need each other.
func (c *Core) wire() {
	l := wiring{c}
	c.tenure = tenure.New(&c.Env)
	c.placements = placement.New(&c.Env, c.lids)
	c.guids = guid.New(&c.Env, l, l, c.placements)
	c.vports = vport.New(&c.Env, vport.Needs{Placements: c.placements, PKeys: l, Groups: l, Aliases: c.guids, Discovery: l})
	c.pkeys = pkeymgr.New(&c.Env, pkeymgr.Needs{Aliases: c.guids, VPorts: c.vports, Placements: c.placements, Discovery: l, Keeper: c.tenure})
	c.absent = absent.New(&c.Env, absent.Needs{Keys: c.mkeys, LIDs: c.lids, VPorts: c.vports})
	c.links = linkmgr.New(&c.Env, linkmgr.Needs{Discovery: l, Identity: c.absent, Tables: c.install, PKeys: c.pkeys})
	c.lanes = lane.New(&c.Env, c.install, l, c.links)
	c.router = routing.New(&c.Env, c.install, routing.Needs{Groups: c.groups, LIDs: c.lids, Placements: c.placements, Lanes: c.lanes, Jobs: l})
	c.agenda = agenda.New(&c.Env, c.router)
	c.mover = lidmove.New(&c.Env, c.install, lidmove.Needs{Router: c.router, Groups: c.groups, Placements: c.placements, Conductor: l})
	c.light = light.New(&c.Env, light.Needs{Discovery: l, Absent: c.absent, Keys: c.mkeys, Publisher: c})
	c.traps = trap.New(&c.Env, trap.Needs{Sweeps: l, Light: c.light, VPorts: c.vports, Subscribers: l, Publisher: c, Managers: c.mastership})
	c.discovery = discover.New(&c.Env, discover.Needs{Absent: c.absent, Keys: c.mkeys, Links: c.links, Managers: c.mastership, PKeys: c.pkeys, Sweeps: l})
	c.peeks = peek.New(&c.Env, peek.Needs{Sweeps: l, Discovery: c.discovery})
	c.hurry = hurry.New(&c.Env, c.absent)
	c.takeover = takeover.New(&c.Env, c.mkeys, c.links, c.lids)
	c.placements.Connect(placement.Needs{Functions: c.vports, Tables: c.guids, Router: l, Snapshots: l, Keeper: c.tenure})
}

// wiring connects parts with each other.
type wiring struct{ c *Core }

// Touch implements guid.PKeys.
func (l wiring) Touch(port ib.GUID) { l.c.pkeys.Touch(port) }

// Names implements guid.PKeys.
func (l wiring) Names(g ib.GUID) bool { return l.c.pkeys.Names(g) }

// MemberMoved implements guid.Groups.
func (l wiring) MemberMoved(g ib.GUID) { l.c.groups.MemberMoved(g) }

// Ready implements vport.PKeys.
func (l wiring) Ready(r vport.Ref) bool { return l.c.pkeys.Ready(r) }

// Shown implements vport.PKeys.
func (l wiring) Shown(t *pkey.Table) []ib.PKey { return l.c.pkeys.Shown(t) }

// AdapterMet implements vport.Discovery.
func (l wiring) AdapterMet() { l.c.absent.AdapterMet() }

// BeginFull implements discover.Sweeps.
func (l wiring) BeginFull() { l.c.beginFull() }

// SettleMute implements discover.Sweeps.
func (l wiring) SettleMute() { l.c.light.SettleMute() }

// PortChanged implements peek.Sweeps.
func (l wiring) PortChanged(node int32, why string) { l.c.agenda.AskRegion(node, why) }

// LinkDown implements peek.Sweeps.
func (l wiring) LinkDown(node int32, why string) { l.c.linkDown(node, why) }

// Problem implements env.Sweeper.
func (c *Core) Problem(at notice.Where, n notice.Notice) { c.discovery.Problem(at, n) }

// Scope implements env.Sweeper.
func (c *Core) Scope(fn func(p *topo.Port)) { c.discovery.Scope(fn) }

// ScopeNodes implements install.Sweep.
func (c *Core) ScopeNodes(fn func(n int32, nd *topo.Node)) { c.discovery.ScopeNodes(fn) }

// Last implements pkeymgr.Discovery.
func (l wiring) Last() *topo.Topology { return l.c.Last }

// Plausible implements pkeymgr.Discovery.
func (l wiring) Plausible(p *topo.Port, info *smp.PortInfo) error {
	return l.c.absent.Plausible(p, info)
}

// AskRegion implements pkeymgr.Discovery.
func (l wiring) AskRegion(node int32, why string) { l.c.agenda.AskRegion(node, why) }

// Publish implements pkeymgr.Discovery.
func (l wiring) Publish() { l.c.publishHeld() }

// ScopeNodes implements install.Sweep and lane.Sweep.
func (l wiring) ScopeNodes(fn func(ni int32, n *topo.Node)) { l.c.ScopeNodes(fn) }

// TakeDown implements install.Sweep.
func (l wiring) TakeDown() {
	l.c.enter(notice.PhaseDiscard)
	l.c.discovery.Widen()
	l.c.links.TakeDown()
}

// TookDown implements install.Sweep.
func (l wiring) TookDown() int { return l.c.Report.Downed }

// AddLanes implements install.Sweep.
func (l wiring) AddLanes(list []transition.LaneTable) { l.c.lanes.Stage(list) }

// PublishTold implements install.Sweep.
func (l wiring) PublishTold() {
	l.c.takeover.Settled() // answers would have service levels of before
	l.c.publishSweep()
	l.c.shown.told = l.c.shown.gen
}

// AuditAt implements install.Sweep.
func (l wiring) AuditAt(at mad.Time) { l.c.light.AuditAt(at) }

// BlockWritten implements install.Sweep.
func (l wiring) BlockWritten(s int32, block int) { l.c.router.Written(s, block) }

// GroupsChanged implements install.Sweep.
func (l wiring) GroupsChanged(block uint16) { l.c.groups.BlockChanged(block) }

// RunJob implements routing.Jobs.
func (l wiring) RunJob(j *job.Job) { l.c.out.Jobs = append(l.c.out.Jobs, j) }

// PortOf implements group.Locator.
func (l wiring) PortOf(member ib.GUID) ib.GUID {
	if r, ok := l.c.vports.Find(member); ok {
		return r.Adapter.PortGUID()
	}
	return l.c.guids.Holder(member)
}

// setGroups takes the multicast groups of the subnet.
func (c *Core) setGroups(groups []Group) {
	c.groups.Set(groups)
	c.agenda.RouteGroups()
	c.hurry.Want()
	if c.State == subnet.Master && c.started {
		c.agenda.AskGroups("the multicast groups changed")
	}
}

// routeMoved has groups routed anew of which a member came to another port.
func (c *Core) routeMoved() {
	if c.groups.Moved() {
		c.agenda.RouteGroups()
		c.hurry.Want()
		c.agenda.AskGroups("a member of a multicast group is at another port")
	}
}
