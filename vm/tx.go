package vm

import (
	"slices"

	"heddle/ib"
	"heddle/mad"
	"heddle/store"
	"heddle/subnet"
)

// tx is a transaction: the changes of one or more events, until they are stored.
type tx struct {
	before  map[string]*entry // the interfaces that it touches, as they were; nil: not there
	order   []string          // their names, as they were touched
	acts    []act
	notices []Notice
	reports []item   // that caused it
	late    []string // interfaces whose finishes end in it; they are not stored with it
	// caughtUp: everything that was late is stored with it.
	caughtUp bool
}

// act is what is done for requests once the transaction is stored.
type act struct {
	kind actKind
	name string
	tag  uint64
	op   string // actWait, and actEnd: the operation that requests wait for; "" all
	err  error
	wait bool // actReply: Waiting
	// rests: the reply, although an error, is valid only if the transaction is stored.
	rests bool
	// create: actWait: the request is a Create, whose interface exists even if the attach
	// fails.
	create bool
}

type actKind uint8

const (
	actReply actKind = iota // the request is answered
	actWait                 // it is answered when the operation has ended
	actEnd                  // waiting requests are answered
	actStill                // waiting requests are answered as Waiting
)

// change replaces an interface in this transaction. old is its present state, nil if it is new;
// new is nil if it ends.
func (c *Core) change(old, new *entry) { //nolint:revive // old and new are what they are
	e := old
	if e == nil {
		e = new
	}
	if _, ok := c.tx.before[e.Name]; !ok {
		c.tx.before[e.Name] = old
		c.tx.order = append(c.tx.order, e.Name)
	}
	c.replace(old, new)
}

// update replaces e by a copy that f has changed.
func (c *Core) update(e *entry, f func(*entry)) *entry {
	n := *e
	f(&n)
	c.take(&n)
	c.change(e, &n)
	return &n
}

// undo reverts the transaction.
func (c *Core) undo() {
	t := c.tx
	c.tx = nil
	for _, name := range slices.Backward(t.order) {
		if now := c.named[name]; now != nil {
			c.replace(now, nil)
		}
	}
	for _, name := range t.order {
		if was := t.before[name]; was != nil {
			c.replace(nil, was)
		}
	}
	c.members.undo()
	c.functions.undo(&c.pool)
}

// changes are the interfaces whose records differ from before.
func (c *Core) changes() (names []string) {
	for _, name := range c.tx.order {
		was, is := c.tx.before[name], c.named[name]
		if (was == nil) != (is == nil) || was != nil && !was.storedAs(is) {
			names = append(names, name)
		}
	}
	return names
}

// interfaceOps are the records of interfaces as they are now.
func (c *Core) interfaceOps(names []string) []store.Op {
	var ops []store.Op
	for _, name := range names {
		if is := c.named[name]; is != nil {
			ops = append(ops, putInterface(is))
		} else {
			ops = append(ops, dropInterface(name))
		}
	}
	return ops
}

// settleIdle ends operations that this transaction both began and undid. The subnet manager
// sees no change, so it would not report them.
func (c *Core) settleIdle() {
	for _, name := range c.tx.order {
		was, is := c.tx.before[name], c.named[name]
		if is == nil || is.Doing != DoingRollBack && is.Doing != DoingDetach || was != nil && was.Doing == is.Doing {
			continue
		}
		old, had := placementOf(was)
		l, has := is.placement()
		if has == had && equalPlacement(&old, &l) {
			c.settle(is, &subnet.PlacementReport{GUID: is.GUID, Place: l.Place, State: subnet.PlacementPlaced, LID: is.LID})
		}
	}
}

func placementOf(e *entry) (l subnet.Placement, ok bool) {
	if e == nil {
		return l, false
	}
	return e.placement()
}

func equalPlacement(a, b *subnet.Placement) bool {
	return a.GUID == b.GUID && a.Place == b.Place && a.LIDKind == b.LIDKind && a.LID == b.LID && a.Mode == b.Mode &&
		slices.Equal(a.Aliases, b.Aliases)
}

// commit carries out the acts of a stored transaction.
func (c *Core) commit() {
	t := c.tx
	c.tx = nil
	if t.caughtUp {
		c.late.init()
	}
	c.late.add(t.late, c.now)
	c.functions.commit()
	for _, name := range t.order {
		was, is := t.before[name], c.named[name]
		old, had := placementOf(was)
		l, has := placementOf(is)
		switch {
		case has && (!had || !equalPlacement(&old, &l)):
			c.out.Put = append(c.out.Put, l)
		case had && !has:
			c.out.Drop = append(c.out.Drop, old.GUID)
		}
		if had && has && old.GUID != l.GUID { // deleted, and created again under that name
			c.out.Drop = append(c.out.Drop, old.GUID)
		}
		if had {
			for _, g := range was.guids() {
				if _, ok := c.byGUID[g]; !ok {
					c.fading[g] = true
				}
			}
		}
	}
	// A GUID that passed from one interface to another has a new placement.
	c.out.Drop = slices.DeleteFunc(c.out.Drop, func(g ib.GUID) bool {
		e := c.named[c.byGUID[g]]
		if e == nil || e.GUID != g {
			return false
		}
		_, has := e.placement()
		return has
	})
	c.out.PlacementsChanged = c.out.PlacementsChanged || len(c.out.Put)+len(c.out.Drop) > 0
	if c.members.dirty() {
		c.out.Partitions, c.out.PartitionsChanged = c.members.commit(), true
		c.changed = true
	}
	c.changed = c.changed || len(t.order) > 0
	for i := range t.acts {
		c.act(&t.acts[i])
	}
	c.out.Notices = append(c.out.Notices, t.notices...)
}

func (c *Core) act(a *act) {
	switch a.kind {
	case actReply:
		c.out.Replies = append(c.out.Replies, Reply{Tag: a.tag, Err: a.err, Interface: c.shown(a.name), Waiting: a.wait})
	case actWait:
		c.waits[a.name] = append(c.waits[a.name], waiter{a.tag, a.op, c.now.Add(patience), a.create})
		c.due = append(c.due, deadline{c.now.Add(patience), a.name})
	case actEnd:
		left := c.waits[a.name][:0]
		for _, w := range c.waits[a.name] {
			if a.op != "" && a.op != w.op {
				left = append(left, w)
				continue
			}
			err := a.err
			if w.create && err != nil {
				err = notAttached(err)
			}
			c.out.Replies = append(c.out.Replies, Reply{Tag: w.tag, Err: err, Interface: c.shown(a.name)})
		}
		if len(left) == 0 {
			delete(c.waits, a.name)
		} else {
			c.waits[a.name] = left
		}
	case actStill:
		c.answerWaiting(a.name, mad.Never)
	}
}

// reply answers a request when the transaction is stored.
func (c *Core) reply(r *Request, name string, err error) {
	c.tx.acts = append(c.tx.acts, act{kind: actReply, name: name, tag: r.Tag, err: err})
}

// await answers a request when the operation has ended.
func (c *Core) await(r *Request, name, op string) {
	_, create := r.Op.(Create)
	c.tx.acts = append(c.tx.acts, act{kind: actWait, name: name, tag: r.Tag, op: op, create: create})
}

// still answers requests that wait for an interface as Waiting, because the operation takes
// longer.
func (c *Core) still(name string) {
	c.tx.acts = append(c.tx.acts, act{kind: actStill, name: name})
}

// end answers requests that wait for an operation on an interface, or with "" for any
// operation.
func (c *Core) end(name, op string, err error) {
	c.tx.acts = append(c.tx.acts, act{kind: actEnd, name: name, op: op, err: err})
}
