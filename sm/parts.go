package sm

import (
	"slices"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/sm/guid"
	"heddle/sm/pkey"
	"heddle/sm/pkeymgr"
	"heddle/sm/topo"
	"heddle/sm/vport"
	"heddle/subnet"
)

// wire makes the parts of a manager and connects them. Each part names what it needs of others
// in small interfaces, which link implements as long as the other one has no package of its own.
func (c *Core) wire() {
	l := link{c}
	c.guids = guid.New(&c.Env, l, l, l)
	c.vports = vport.New(&c.Env, vport.Needs{Placements: l, PKeys: l, Groups: l, Aliases: c.guids, Discovery: l})
	c.pkeys = pkeymgr.New(&c.Env, pkeymgr.Needs{Aliases: c.guids, VPorts: c.vports, Placements: l, Discovery: l})
}

// link connects parts with each other.
type link struct{ c *Core }

// Touch implements guid.PKeys.
func (l link) Touch(port ib.GUID) { l.c.pkeys.Touch(port) }

// Names implements guid.PKeys.
func (l link) Names(g ib.GUID) bool { return l.c.pkeys.Names(g) }

// MemberMoved implements guid.Groups.
func (l link) MemberMoved(g ib.GUID) { l.c.memberMoved(g) }

// AliasesHeld implements guid.Placements.
func (l link) AliasesHeld(port ib.GUID, old []ib.GUID) { l.c.aliasesHeld(port, old) }

// Elsewhere implements guid.Placements.
func (l link) Elsewhere(g ib.GUID, p subnet.Place) bool { return l.c.leasedElsewhere(g, p) }

// FloatBase implements guid.Placements.
func (l link) FloatBase(port ib.GUID) ib.LID { return l.c.floatBase(port) }

// Wanted implements vport.Placements.
func (l link) Wanted(r vport.Ref) vport.Want { return l.c.functionWanted(r) }

// Changed implements vport.Placements.
func (l link) Changed(r vport.Ref) { l.c.functionChanged(r) }

// AdapterChanged implements vport.Placements.
func (l link) AdapterChanged(a *vport.Adapter) { l.c.adapterChanged(a) }

// Refused implements vport.Placements.
func (l link) Refused(r vport.Ref, err error) { l.c.functionRefused(r, err) }

// Entry implements vport.Placements.
func (l link) Entry(s *subnet.Snapshot, r vport.Ref, port int32) (subnet.Port, bool) {
	if h := l.c.entryAt(s, r, port); h != nil {
		return h.as(s, r, port), true
	}
	return subnet.Port{}, false
}

// ShownElsewhere implements vport.Placements.
func (l link) ShownElsewhere(g ib.GUID, p subnet.Place) bool { return l.c.entryElsewhere(g, p) }

// Ready implements vport.PKeys.
func (l link) Ready(r vport.Ref) bool { return l.c.pkeys.Ready(r) }

// Shown implements vport.PKeys.
func (l link) Shown(t *pkey.Table) []ib.PKey { return l.c.pkeys.Shown(t) }

// AdapterMet implements vport.Discovery.
func (l link) AdapterMet() { l.c.veilMoved() }

// PlacedAt implements pkeymgr.Placements.
func (l link) PlacedAt(g ib.GUID) ib.GUID {
	if p := l.c.leases.byGUID[g]; p != nil {
		return p.holds.Port
	}
	return 0
}

// PlacedWith implements pkeymgr.Placements.
func (l link) PlacedWith(named func(ib.GUID) bool, fn func(port ib.GUID)) {
	for _, p := range l.c.leases.list {
		if slices.ContainsFunc(p.Aliases, named) {
			fn(p.holds.Port)
		}
	}
}

// Last implements pkeymgr.Discovery.
func (l link) Last() *topo.Topology { return l.c.last }

// Plausible implements pkeymgr.Discovery.
func (l link) Plausible(p *topo.Port, info *smp.PortInfo) error {
	if l.c.changedNature(p, info) {
		return errNature
	}
	return nil
}

// AskRegion implements pkeymgr.Discovery.
func (l link) AskRegion(node int32, why string) { l.c.askRegion(node, why) }

// Publish implements pkeymgr.Discovery.
func (l link) Publish() { l.c.publishHeld() }
