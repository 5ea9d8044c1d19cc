package vm

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"heddle/ib"
	"heddle/mad"
	"heddle/store"
	"heddle/subnet"
)

const (
	// patience is how long an operation waits for the subnet manager before it is
	// answered as Waiting.
	patience = 5 * time.Second
	// retryStore is how long the core waits between attempts to store reports of the subnet
	// manager after the store failed.
	retryStore = 10 * time.Second
)

// Core is the address manager. One transaction is in progress at a time. Events that arrive
// while it is being stored wait; together they form the next transaction. A transaction changes
// the tables of the Core immediately, and undoes the changes if they cannot be stored. The
// published View shows only what is stored, or what follows from it (late.go).
type Core struct {
	cfg     Config
	now     mad.Time
	out     *Output
	snap    *subnet.Snapshot
	started bool

	state     // interfaces
	members   members
	functions functions
	pool      pool

	queue []item // not processed yet
	look  bool   // the snapshot has not been compared with the operations in progress
	// retryAt is when reports that could not be stored may be tried again.
	retryAt mad.Time
	late    late
	tx      *tx // in progress; nil: none
	gen     uint64

	waits map[string][]waiter // replies that are due when an operation ends, by interface
	due   []deadline          // ascending; of those in waits, and of some that have been answered

	view    *View
	changed bool // the view has changed since it was published
	fading  map[ib.GUID]bool
}

// item is a request or a report.
type item struct {
	req *Request
	rep *subnet.PlacementReport
}

// waiter is a request that is answered when an operation has ended.
type waiter struct {
	tag uint64
	op  string   // one of the Doing constants
	at  mad.Time // when it is answered as Waiting
	// create: the request is a Create, whose interface exists even if the attach fails.
	create bool
}

type deadline struct {
	at   mad.Time
	name string
}

// New returns a core that waits for Start.
func New(cfg Config) *Core {
	if cfg.GUIDFirst == 0 && cfg.GUIDLast == 0 {
		cfg = Defaults()
	}
	c := &Core{cfg: cfg, waits: map[string][]waiter{}, fading: map[ib.GUID]bool{}}
	c.state.init()
	c.members.init()
	c.functions.init()
	c.pool.init(cfg)
	c.late.init()
	return c
}

// Step applies one event at time now, which never goes back, and fills out,
// which the caller has reset.
func (c *Core) Step(now mad.Time, ev Event, out *Output) {
	c.now, c.out = max(now, c.now), out
	switch ev := ev.(type) {
	case Start:
		c.onStart(ev.Records)
	case Published:
		c.snap, c.look = ev.Snap, true
	case Reports:
		for i := range ev.List {
			r := ev.List[i] // a copy: the list belongs to the caller
			c.queue = append(c.queue, item{rep: &r})
		}
	case Requests:
		for i := range ev.List {
			r := ev.List[i]
			c.queue = append(c.queue, item{req: &r})
		}
	case Persisted:
		if c.tx != nil && ev.Gen == c.gen {
			c.onPersisted(ev.Err)
			c.publish() // before the next transaction changes anything
		}
	case Timer:
	case Stop:
		c.late.hurry(c.now)
	}
	c.work()
	if c.tx == nil {
		c.expire()
	}
	c.publish()
	c.catchUp()
	out.Timer = c.nextTimer()
	c.out = nil
}

// onStart loads the stored records and passes all placements to the subnet manager.
func (c *Core) onStart(records []store.Record) {
	if c.started {
		return
	}
	c.started = true
	for i := range records {
		if r := &records[i]; r.Table == store.TableFunctionGUIDs {
			if err := c.loadFunction(r); err != nil {
				c.tell("vm_record", true, "store: %v", err)
			}
		}
	}
	for i := range records {
		r := &records[i]
		var err error
		switch r.Table {
		case store.TableInterfaces:
			err = c.loadInterface(r)
		case store.TableMemberships:
			err = c.loadMembership(r)
		}
		if err != nil {
			c.tell("vm_record", true, "store: %v", err)
		}
	}
	for e := range c.list.all() {
		if l, ok := e.placement(); ok {
			c.out.Put = append(c.out.Put, l)
		}
	}
	c.out.All, c.out.PlacementsChanged = true, true
	c.out.Partitions, c.out.PartitionsChanged = c.members.commit(), true
	if n := len(c.busy); n > 0 {
		c.tell("vm_resumed", false, "%d operations that were not finished go on", n)
	}
	c.changed = true
}

func (c *Core) loadInterface(r *store.Record) error {
	e, err := decodeInterface(r.Key, r.Value)
	if err == nil {
		e.resumed = e.Doing == DoingFinish
		e.unsure = e.resumed
		c.take(e)
		err = c.clash(e)
	}
	if err != nil {
		c.unread[string(r.Key)] = true
		return fmt.Errorf("interface %q: %w: it is left alone, and is not in force", r.Key, err)
	}
	c.replace(nil, e)
	return nil
}

// clash reports the name, address or place of e that belongs to another interface.
func (c *Core) clash(e *entry) error {
	if c.named[e.Name] != nil {
		return errors.New("it is there twice")
	}
	for _, g := range e.guids() {
		if name, ok := c.byGUID[g]; ok {
			return conflict("GUID %v is interface %q's", g, name)
		}
		if p, ok := c.functions.owner[g]; ok && e.GUIDKind != FunctionGUID {
			return conflict("GUID %v is that of function %v", g, p)
		}
	}
	for p := range e.places {
		if name, ok := c.byPlace[p]; ok {
			return conflict("%v is interface %q's", p, name)
		}
		if e.GUIDKind == FunctionGUID && e.Doing != DoingAttach && c.functions.guid[p] == 0 {
			return fmt.Errorf("function %v has no GUID", p)
		}
	}
	return nil
}

// work processes the queue as one transaction.
func (c *Core) work() {
	if !c.started || c.tx != nil || !c.look && len(c.queue) == 0 {
		return
	}
	if c.retryAt != 0 && c.now < c.retryAt && !c.asked() {
		return
	}
	c.tx = &tx{before: map[string]*entry{}}
	c.retryAt = 0
	if c.look {
		c.look = false
		c.snapshotChanged()
	}
	items := c.queue
	c.queue = nil
	for i := range items {
		if r := items[i].req; r != nil {
			c.request(r)
		} else {
			c.report(items[i].rep)
			c.tx.reports = append(c.tx.reports, items[i])
		}
	}
	c.settleIdle()
	changed := c.changes()
	ops := slices.Concat(c.functions.ops(), c.interfaceOps(changed), c.members.ops)
	if len(ops) == len(changed) && c.followAll(changed) { // also if there are none
		c.tx.late = changed
		c.commit()
		return
	}
	c.persist(ops)
}

// persist writes ops, and what is late.
func (c *Core) persist(ops []store.Op) {
	c.gen++
	c.tx.caughtUp = true
	c.out.Persist = append(append(c.out.Persist, ops...), c.lateOps()...)
	c.out.PersistGen = c.gen
}

// asked reports whether a request is in the queue. It is tried immediately, together with
// reports that could not be stored.
func (c *Core) asked() bool {
	for i := range c.queue {
		if c.queue[i].req != nil {
			return true
		}
	}
	return false
}

func (c *Core) onPersisted(err error) {
	if err == nil {
		c.commit()
		return
	}
	// Nothing was published or passed on, so the state is as before. Requests are answered with
	// the error. Reports of the subnet manager remain true and are tried again.
	t := c.tx
	c.undo()
	c.late.retry(c.now)
	if len(t.order)+len(t.acts)+len(t.reports) == 0 { // only what is late was to be stored
		c.tell("vm_store", true, "the ends of %d moves could not be stored; a manager that starts now carries them out again: %v", len(c.late.names), err)
		return
	}
	c.look = true
	for i := range t.acts {
		a := &t.acts[i]
		switch {
		case a.kind == actEnd || a.kind == actStill:
		case a.kind == actReply && a.err != nil && !a.rests:
			c.out.Replies = append(c.out.Replies, Reply{Tag: a.tag, Err: a.err, Interface: c.shown(a.name)})
		default:
			c.out.Replies = append(c.out.Replies, Reply{Tag: a.tag, Err: fmt.Errorf("%w: nothing is changed: %w", ErrStore, err), Interface: c.shown(a.name)})
		}
	}
	c.queue = append(lastReports(t.reports), c.queue...)
	c.retryAt = c.now.Add(retryStore)
	c.tell("vm_store", true, "what changed of interfaces could not be stored, and is as before: %v", err)
}

// lastReports keeps the last report of each GUID, in their order, so that the list stays
// bounded while the store fails.
func lastReports(list []item) []item {
	last := make(map[ib.GUID]int, len(list))
	for i := range list {
		last[list[i].rep.GUID] = i
	}
	out := make([]item, 0, len(last))
	for i := range list {
		if last[list[i].rep.GUID] == i {
			out = append(out, list[i])
		}
	}
	return out
}

// shown is the interface of that name, the zero value if there is none.
func (c *Core) shown(name string) Interface {
	if e := c.named[name]; e != nil {
		return e.Interface
	}
	return Interface{Name: ""}
}

// expire answers requests whose time is over.
func (c *Core) expire() {
	for len(c.due) > 0 && c.due[0].at <= c.now {
		c.answerWaiting(c.due[0].name, c.due[0].at)
		c.due = c.due[1:]
	}
}

// answerWaiting answers requests that wait for an interface with a deadline up to then. Their
// operation continues.
func (c *Core) answerWaiting(name string, until mad.Time) {
	list := c.waits[name]
	left := list[:0]
	for _, w := range list {
		if w.at > until {
			left = append(left, w)
			continue
		}
		c.out.Replies = append(c.out.Replies, Reply{Tag: w.tag, Interface: c.shown(name), Waiting: true})
	}
	if len(left) == 0 {
		delete(c.waits, name)
		return
	}
	c.waits[name] = left
}

func (c *Core) nextTimer() mad.Time {
	t := mad.Never
	if c.tx != nil {
		return t // the Persisted event comes first
	}
	if len(c.due) > 0 {
		t = c.due[0].at
	}
	if c.retryAt != 0 {
		t = min(t, c.retryAt)
	}
	if c.late.due != 0 {
		t = min(t, c.late.due)
	}
	return t
}

// publish publishes the stored state.
func (c *Core) publish() {
	if !c.started || c.tx != nil || !c.changed {
		return
	}
	c.changed = false
	gen := uint64(1)
	if c.view != nil {
		gen = c.view.Gen + 1
	}
	c.view = &View{Gen: gen, Partitions: c.members.shown, Functions: c.functions.shown, Journal: len(c.busy), Pools: c.pools(), list: c.list.freeze()}
	c.out.Publish = c.view
}

func (c *Core) tell(kind string, warn bool, format string, args ...any) {
	n := Notice{Kind: kind, Warn: warn, Text: fmt.Sprintf(format, args...)}
	if c.tx != nil {
		c.tx.notices = append(c.tx.notices, n)
		return
	}
	c.out.Notices = append(c.out.Notices, n)
}
