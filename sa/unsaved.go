package sa

import (
	"time"

	"heddle/mad"
	"heddle/store"
)

const (
	// retryStore is how long the core waits before it tries again to store what
	// the store did not take; the first write that succeeds has it tried at once.
	retryStore = 10 * time.Second
	// maxUnsaved bounds what is kept for that. What is more is lost at a restart.
	maxUnsaved = 1 << 18
)

// unsaved are changes that the store did not take, the last one of each record.
// They are not given up: a Delete that is lost would bring a service or a
// membership back at the next restart, and a group that is lost would take the
// members that were stored later with it.
type unsaved struct {
	ops   []store.Op // a zero Op was overtaken
	at    map[unsavedKey]int
	retry mad.Time // meaningful if at is not empty
	full  bool     // and that was told
}

type unsavedKey struct {
	table store.Table
	key   string
}

func keyOf(o *store.Op) unsavedKey { return unsavedKey{o.Record.Table, string(o.Record.Key)} }

// add keeps ops that failed, and reports whether there was room for all.
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

// overtake drops what newer ops change again.
func (u *unsaved) overtake(ops []store.Op) {
	for i := 0; i < len(ops) && len(u.at) > 0; i++ {
		k := keyOf(&ops[i])
		if j, ok := u.at[k]; ok {
			u.ops[j] = store.Op{}
			delete(u.at, k)
		}
	}
}

// take returns what is to be tried again now.
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

// Unsaved is how many changes were acknowledged and wait for the store, which did not take
// them. It may be called between Steps.
func (c *Core) Unsaved() int { return len(c.unsaved.at) }

func (u *unsaved) nextTimer() mad.Time {
	if len(u.at) == 0 {
		return mad.Never
	}
	return u.retry
}
