package sa

import (
	"time"

	"heddle/mad"
	"heddle/store"
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

// hiding keeps back what shows changes that are not stored, with Config.MustSave: a manager that takes
// over does not know them, and nobody may rely on what one asker was refused.
type hiding struct {
	shown           *View // the last one that was published
	view            *View // one that has changes which are not stored; nil: all is shown
	groups, aliases bool  // they changed
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

// pass lets changes of groups and aliases out if all changes are stored, and keeps them otherwise.
func (h *hiding) pass(out *Output, stored bool) {
	h.groups, h.aliases = h.groups || out.GroupsChanged, h.aliases || out.AliasesChanged
	out.GroupsChanged, out.AliasesChanged = stored && h.groups, stored && h.aliases
	if stored {
		h.groups, h.aliases = false, false
	}
}
