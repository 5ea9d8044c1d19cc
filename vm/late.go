package vm

import (
	"maps"
	"slices"
	"time"

	"heddle/mad"
	"heddle/store"
	"heddle/subnet"
)

// What a finish stores before it begins is a redo record: a manager that starts with it moves the
// address to the same place, where it may be already. So the end of a finish that succeeded need
// not be stored before it is answered. The next write to the store takes it along, or one that
// follows within lateBy. Everything else is stored before it is published, so each refusal and
// rollback too.
//
// A finish that is found in the store at the start may thus have been answered as done. It is
// rolled back only if its address is seen at the old place, which gives the address up before the
// new place gets it, or if somebody asks for that and the address is not seen at the new place.

// lateBy is how long the store may lack the end of a finish.
const lateBy = 100 * time.Millisecond

// late is what the store lacks.
type late struct {
	names map[string]struct{} // interfaces whose finishes are in progress in the store alone
	due   mad.Time            // when they are stored by themselves; 0 if there are none
}

func (l *late) init() { l.names, l.due = map[string]struct{}{}, 0 }

func (l *late) add(names []string, now mad.Time) {
	for _, name := range names {
		l.names[name] = struct{}{}
	}
	if l.due == 0 && len(l.names) > 0 {
		l.due = now.Add(lateBy)
	}
}

// hurry has what is late stored now.
func (l *late) hurry(now mad.Time) {
	if l.due != 0 {
		l.due = now
	}
}

// retry has what is late stored again, if it must be, after a write that failed.
func (l *late) retry(now mad.Time) {
	if l.due != 0 {
		l.due = now.Add(retryStore)
	}
}

// catchUp stores what is late in a transaction of its own, if that is due.
func (c *Core) catchUp() {
	if c.tx != nil || c.late.due == 0 || c.now < c.late.due {
		return
	}
	c.tx = &tx{before: map[string]*entry{}}
	c.persist(nil)
}

// lateOps are the late records of interfaces that the transaction does not write itself.
func (c *Core) lateOps() []store.Op {
	names := maps.Clone(c.late.names)
	for _, name := range c.changes() {
		delete(names, name)
	}
	return c.interfaceOps(slices.Sorted(maps.Keys(names)))
}

// followAll reports whether what the transaction makes of interfaces follows from what is stored.
func (c *Core) followAll(names []string) bool {
	for _, name := range names {
		was, is := c.tx.before[name], c.named[name]
		if was == nil || is == nil || !was.leadsTo(is) {
			return false
		}
	}
	return true
}

// learn notes what a report says of a finish that an earlier manager began.
func (c *Core) learn(e *entry, r *subnet.PlacementReport) *entry {
	resumed, unsure := e.resumed, e.unsure
	switch {
	case !resumed || r.State == subnet.PlacementPlaced || r.Held == e.Dest:
	case r.Held == e.Place:
		resumed, unsure = false, false
	case r.Cause != subnet.CauseFunctionsUnread && r.Cause != subnet.CauseFunctionUnread:
		unsure = false
	}
	if resumed == e.resumed && unsure == e.unsure {
		return e
	}
	return c.update(e, func(e *entry) { e.resumed, e.unsure = resumed, unsure })
}

// arrive ends the finish of e: it is at its destination.
func (e *entry) arrive() {
	e.State, e.Place, e.Dest, e.last = Attached, e.Dest, subnet.Place{}, finished
	e.Doing, e.before, e.anyFunction, e.why = "", Created, false, ""
}

// leadsTo reports whether a manager that starts with the record of e comes to that of n. A LID that
// e shares follows from its place.
func (e *entry) leadsTo(n *entry) bool {
	if e.Doing != DoingFinish {
		return false
	}
	f := *e
	if f.arrive(); f.LIDKind == subnet.SharedLID {
		f.LID = n.LID
	}
	return f.storedAs(n)
}
