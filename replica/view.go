package replica

import (
	"heddle/ib"
	"heddle/mad"
	"heddle/store/journal"
)

// View is the state of a manager, for display. No decision may depend on it.
type View struct {
	Ready bool // the start is written down
	Role  Role
	Term  journal.Term // newest one known; its own if it is active
	Last  journal.Mark // last durable entry
	// Granted: it is active, and its term has begun.
	Granted bool
	// Paired: it has every entry that counts, and so has the peer.
	Paired bool
	Alone  bool // active; entries count without the peer
	// Heir: active; a standby has every entry that counts, or is about to, and its port works.
	Heir bool
	// Copying: standby; the stream to an active manager is open.
	Copying bool
	Waits   int    // active; changes that do not count yet
	Acked   uint64 // active; number of the last entry that the standby has, 0 if that is not known
	Peer    Sign   // the latest since the start
	// Held: standby; it would take over, but this other manager answers as master. 0: none.
	Held ib.GUID
}

// View returns the state of the manager at now.
func (c *Core) View(now mad.Time) View {
	v := View{Ready: c.ready, Role: c.role, Term: c.term, Last: c.has(), Peer: c.peer}
	if c.role == Active {
		a := &c.active
		v.Granted, v.Alone, v.Waits, v.Acked = a.granted, a.alone, len(a.waiting), a.acked
		v.Heir = a.heir(c)
		v.Paired = a.accepted(c)
		return v
	}
	v.Paired = c.standby.paired && now < c.standby.lease
	v.Held = c.standby.held
	v.Copying = c.standby.open && c.standby.hello && c.peer.Active
	return v
}
