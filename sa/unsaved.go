package sa

import (
	"time"

	"heddle/ib"
	"heddle/mad"
	"heddle/store"
	"heddle/subnet"
)

const (
	// retryStore is the delay before the core retries a failed store write. The
	// first write that succeeds triggers a retry immediately.
	retryStore = 10 * time.Second
	// maxUnsaved bounds the changes kept for a retry. Further changes are lost at
	// a restart.
	maxUnsaved = 1 << 18
)

// unsaved holds changes that the store rejected, the latest for each record.
// They must be kept: a lost Delete would restore a service or a membership at
// the next restart, and a lost group would take its stored members with it.
type unsaved struct {
	ops   []store.Op // a zero Op was superseded
	at    map[unsavedKey]int
	retry mad.Time // valid if at is not empty
	full  bool     // the limit was reached, and this was logged
}

type unsavedKey struct {
	table store.Table
	key   string
}

func keyOf(o *store.Op) unsavedKey { return unsavedKey{o.Record.Table, string(o.Record.Key)} }

// add keeps failed ops, and reports whether all fit.
func (u *unsaved) add(ops []store.Op, retry mad.Time) bool {
	if u.at == nil {
		u.at = map[unsavedKey]int{}
	}
	u.retry = retry
	for i := range ops {
		k := keyOf(&ops[i])
		if j, ok := u.at[k]; ok {
			u.ops[j] = ops[i]
			continue
		}
		if len(u.ops) >= maxUnsaved {
			return false
		}
		u.at[k] = len(u.ops)
		u.ops = append(u.ops, ops[i])
	}
	return true
}

// overtake removes changes that newer ops supersede.
func (u *unsaved) overtake(ops []store.Op) {
	for i := 0; i < len(ops) && len(u.at) > 0; i++ {
		k := keyOf(&ops[i])
		if j, ok := u.at[k]; ok {
			u.ops[j] = store.Op{}
			delete(u.at, k)
		}
	}
}

// take returns the ops to retry now.
func (u *unsaved) take(now mad.Time) []store.Op {
	if len(u.at) == 0 || u.retry > now {
		return nil
	}
	list := make([]store.Op, 0, len(u.at))
	for i := range u.ops {
		if u.ops[i].Record.Key != nil {
			list = append(list, u.ops[i])
		}
	}
	u.ops, u.at = nil, nil
	return list
}

// Unsaved returns the number of acknowledged changes that still wait for the store after a
// failed write. It may be called between Steps.
func (c *Core) Unsaved() int { return len(c.unsaved.at) }

func (u *unsaved) nextTimer() mad.Time {
	if len(u.at) == 0 {
		return mad.Never
	}
	return u.retry
}

// pendingKeys counts the changes of each record that are under way to the store or wait for it.
type pendingKeys map[unsavedKey]int

func (p *pendingKeys) add(o *store.Op) {
	if *p == nil {
		*p = pendingKeys{}
	}
	(*p)[keyOf(o)]++
}

func (p pendingKeys) remove(o *store.Op) {
	k := keyOf(o)
	if p[k]--; p[k] == 0 {
		delete(p, k)
	}
}

// isStored reports whether a record is stored as the core has it.
func (c *Core) isStored(t store.Table, key []byte) bool {
	if len(c.pending) > 0 && c.pending[unsavedKey{t, string(key)}] > 0 {
		return false
	}
	if !c.mustWait() {
		return true
	}
	_, failed := c.unsaved.at[unsavedKey{t, string(key)}]
	return !failed
}

// waitingReplies counts the answers that wait for the store.
type waitingReplies struct {
	by map[ib.LID]int // answers to each LID
	n  int
}

func (w *waitingReplies) add(to ib.LID) {
	if w.by == nil {
		w.by = map[ib.LID]int{}
	}
	w.by[to]++
	w.n++
}

func (w *waitingReplies) remove(to ib.LID) {
	if w.by[to]--; w.by[to] == 0 {
		delete(w.by, to)
	}
	w.n--
}

// Waiting returns the number of answers that wait for the store. It may be called between Steps.
func (c *Core) Waiting() int { return c.waits.n }

// hiding keeps back what shows changes that are not stored, with Config.MustSave: a manager that takes
// over does not know them, and nobody may rely on what one asker was refused.
type hiding struct {
	shown           *View  // the last one that was published
	view            *View  // one that has changes which are not stored; nil: all is shown
	groups, aliases bool   // they changed since the last write began
	out             routed // what is stored since this step
}

// routed are groups and aliases for the subnet manager, if they changed.
type routed struct {
	groups         []subnet.Group
	aliases        []subnet.Alias
	group, aliased bool // they changed
}

// mustWait reports whether changes are not stored that nobody may see before.
func (c *Core) mustWait() bool { return c.cfg.MustSave && len(c.unsaved.at) > 0 }

// publish publishes a view. One that has to wait leaves its paths, which rest on the subnet alone, to
// the last one that did not.
func (c *Core) publish(v *View) {
	h := &c.hiding
	h.view = nil
	if c.mustWait() {
		h.view = v
		w := View{}
		if h.shown != nil {
			w = *h.shown
		}
		w.Paths, w.Slow = v.Paths, v.Slow
		v = &w
	}
	h.shown, c.out.Publish = v, v
}

// hide ends a step with Config.MustSave. Changes of groups and aliases go out when the write has ended
// that has all of them, also if further changes wait for the next one.
func (c *Core) hide() {
	h, out := &c.hiding, c.out
	h.groups, h.aliases = h.groups || out.GroupsChanged, h.aliases || out.AliasesChanged
	now := h.out
	h.out = routed{}
	switch {
	case out.PersistGen != 0: // all that changed so far is written
		c.writing.hidden = c.takeHidden(routed{})
	case c.writing.gen == 0 && len(c.unsaved.at) == 0:
		now = c.takeHidden(now)
	}
	out.Groups, out.GroupsChanged = now.groups, now.group
	out.Aliases, out.AliasesChanged = now.aliases, now.aliased
}

// takeHidden replaces in r what changed since the last write began.
func (c *Core) takeHidden(r routed) routed {
	if c.hiding.groups {
		r.groups, r.group = c.groups.routed(), true
	}
	if c.hiding.aliases {
		r.aliases, r.aliased = c.aliases.wanted(), true
	}
	c.hiding.groups, c.hiding.aliases = false, false
	return r
}

// keepHidden takes back what a write had that failed, or that did not have all changes.
func (h *hiding) keepHidden(r *routed) {
	h.groups, h.aliases = h.groups || r.group, h.aliases || r.aliased
}
