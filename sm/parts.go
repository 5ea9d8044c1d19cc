package sm

import (
	"heddle/ib"
	"heddle/sm/guid"
	"heddle/subnet"
)

// wire makes the parts of a manager and connects them. Each part names what it needs of others
// in small interfaces, which link implements as long as the other one has no package of its own.
func (c *Core) wire() {
	l := link{c}
	c.guids = guid.New(&c.Env, l, l, l)
}

// link connects parts with each other.
type link struct{ c *Core }

// Touch implements guid.PKeys.
func (l link) Touch(port ib.GUID) { l.c.touchPKeys(port) }

// Names implements guid.PKeys.
func (l link) Names(g ib.GUID) bool { return l.c.pk.grants.Names(g) }

// MemberMoved implements guid.Groups.
func (l link) MemberMoved(g ib.GUID) { l.c.memberMoved(g) }

// AliasesHeld implements guid.Placements.
func (l link) AliasesHeld(port ib.GUID, old []ib.GUID) { l.c.aliasesHeld(port, old) }

// Elsewhere implements guid.Placements.
func (l link) Elsewhere(g ib.GUID, p subnet.Place) bool { return l.c.leasedElsewhere(g, p) }

// FloatBase implements guid.Placements.
func (l link) FloatBase(port ib.GUID) ib.LID { return l.c.floatBase(port) }
