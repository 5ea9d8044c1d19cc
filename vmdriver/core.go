package vmdriver

import (
	"fmt"
	"maps"
	"slices"

	"heddle/ib"
	"heddle/mad"
)

// Core decides what hypervisors do. See the package.
type Core struct {
	cfg     Config
	now     mad.Time
	out     *Output
	ready   bool // the inventory is known
	online  bool // and the manager's notices are read
	listing bool
	again   bool     // list again when the list under way has come
	relist  mad.Time // when to list again, as the last list was not answered; 0: not
	ports   map[ib.GUID]bool
	records map[string]*record
	late    map[string]*record // those with a deadline
	queue   []string           // those that wait for others to leave their hypervisor, in order
	leaving map[ib.GUID]int    // guests that are on their way from a port
	freed   bool               // fewer than before
}

// record is what is known about an interface or a guest.
type record struct {
	name   string
	view   Interface
	known  bool // view, or that there is none, is as of the last answer
	exists bool
	stale  bool // something changed since
	seen   bool // a notice said that it was deleted
	asking bool // a call is under way
	mute   bool // the last one was not answered
	stamp  uint64

	guest    Guest
	here     bool // there is a guest
	ordered  bool // an order is under way
	failed   string
	failedTo Place
	refusals int     // in a row
	leaves   ib.GUID // the port that counts it in Core.leaving; 0: none

	retry  mad.Time // nothing is tried before
	halted mad.Time // when it was stopped; Never: it runs

	wanted    Progress // what the manager is to show
	unsent    bool
	ends      bool // wanted is an end that no report has told yet
	reporting bool
	after     mad.Time // no report before
	due       mad.Time // when something is to be done without an event
}

// New returns a core. Its first event is an Inventory.
func New(c Config) *Core {
	return &Core{cfg: c, records: map[string]*record{}, late: map[string]*record{}, ports: map[ib.GUID]bool{}, leaving: map[ib.GUID]int{}}
}

// Step handles an event at a time and writes what to do into out, whose slices it
// overwrites.
func (c *Core) Step(now mad.Time, e Event, out *Output) {
	out.Orders, out.Calls, out.Timer = out.Orders[:0], out.Calls[:0], mad.Never
	c.now, c.out = now, out
	switch e := e.(type) {
	case Inventory:
		c.inventory(e)
	case Status:
		r := c.record(e.Guest.Name)
		r.ordered = false
		c.status(r, e)
		c.decide(r)
	case Changed:
		r := c.record(e.Name)
		r.stale, r.seen = true, r.seen || e.Deleted
		c.decide(r)
	case Connected:
		c.online = true
		c.list()
	case Answer:
		c.answer(&e)
	case Timer:
	}
	c.advance()
	c.timers()
	c.out = nil
}

func (c *Core) record(name string) *record {
	r := c.records[name]
	if r == nil {
		r = &record{name: name, halted: mad.Never}
		c.records[name] = r
	}
	return r
}

func (c *Core) inventory(e Inventory) {
	clear(c.ports)
	for _, p := range e.Ports {
		c.ports[p] = true
	}
	for i := range e.Guests {
		r := c.record(e.Guests[i].Name)
		c.status(r, Status{Guest: e.Guests[i]})
	}
	c.ready = true
	c.all()
}

// all decides about every record, by name.
func (c *Core) all() {
	for _, name := range slices.Sorted(maps.Keys(c.records)) {
		c.decide(c.records[name])
	}
}

// list asks for all interfaces.
func (c *Core) list() {
	if c.listing {
		c.again = true
		return
	}
	c.listing, c.again, c.relist = true, false, 0
	for _, r := range c.records {
		r.stamp = 0
	}
	c.out.Calls = append(c.out.Calls, Call{Verb: List})
}

// status takes over what the hypervisors say of a guest.
func (c *Core) status(r *record, e Status) {
	was := r.guest
	r.guest, r.here = e.Guest, !e.Gone
	if e.Guest.Failed != "" {
		r.failed = e.Guest.Failed
		if e.Gone { // nothing else can be tried
			r.retry = c.now.Add(10 * c.cfg.Retry)
		}
	}
	if r.guest.Phase == Copied && was.Phase != Copied {
		r.stale = true // it is stopped only while the manager answers
	}
	switch {
	case e.Gone || r.guest.Phase < Stopping:
		r.halted = mad.Never
	case was.Phase < Stopping || r.halted == mad.Never:
		r.halted = c.now
	}
}

// later lets a while pass before the next attempt.
func (c *Core) later(r *record) { r.retry = c.now.Add(c.cfg.Retry) }

func (c *Core) answer(e *Answer) {
	switch e.Call.Verb {
	case List:
		c.listed(e)
		return
	case Report:
		r := c.record(e.Call.Name)
		r.reporting = false
		switch {
		case e.Result == Unknown:
			r.unsent, r.after = true, c.now.Add(c.cfg.Retry)
		case e.Result != Done: // the manager will not have it: what it is about matters more
		}
		c.decide(r)
		return
	}
	r := c.record(e.Call.Name)
	r.asking, r.mute = false, e.Result == Unknown
	switch e.Result {
	case Done:
		r.view, r.exists, r.known, r.seen, r.refusals = e.View, true, true, false, 0
		r.stamp++
		finished := e.Call.Verb == Finish && e.View.At == e.Call.Place // and the next migration may have begun
		if e.Call.Verb != Get && !finished && (e.View.State == Migrating || e.View.Doing != Nothing) {
			c.later(r) // it continues; a notice says when it is over
		}
	case Absent:
		r.view, r.exists, r.known = Interface{}, false, true
		r.stamp++
	case Refused:
		r.stale = true
		if e.Call.Verb == Finish {
			r.failed, r.failedTo = e.Reason, e.Call.Place
		}
		if r.refusals++; r.refusals > 1 {
			c.later(r)
		}
	case Unknown:
		r.stale = true
		c.later(r)
	}
	c.decide(r)
}

// listed takes over a list of all interfaces, but not of those of which more has been
// heard since it was asked for.
func (c *Core) listed(e *Answer) {
	c.listing = false
	if e.Result != Done {
		c.relist = c.now.Add(c.cfg.Retry)
		return
	}
	there := map[string]bool{}
	for i := range e.List {
		v := &e.List[i]
		there[v.Name] = true
		if r := c.record(v.Name); r.stamp == 0 && !r.asking {
			r.view, r.exists, r.known, r.seen = *v, true, true, false
		}
	}
	for name, r := range c.records {
		if !there[name] && r.stamp == 0 && !r.asking {
			r.view, r.exists, r.known = Interface{}, false, true
		}
		if r.wanted.Stage != "" && !r.wanted.Stage.Over() {
			r.unsent = true // a manager that has started again does not know it
		}
	}
	c.all()
	if c.again {
		c.list()
	}
}

// call asks the manager about r.
func (c *Core) call(r *record, v Verb, at Place) {
	r.asking, r.stale = true, false
	c.out.Calls = append(c.out.Calls, Call{Verb: v, Name: r.name, Place: at})
}

// order has the hypervisors do something with the guest of r.
func (c *Core) order(r *record, k Kind, at Place) {
	r.ordered = true
	r.failed, r.failedTo = "", at
	c.out.Orders = append(c.out.Orders, Order{Kind: k, Name: r.name, Place: at, GUID: r.view.GUID, OwnLID: r.view.OwnLID})
}

// owns reports whether a place is at one of the hypervisors.
func (c *Core) owns(p Place) bool { return c.ports[p.Port] }

// decide does what follows from the states of r.
func (c *Core) decide(r *record) {
	if !c.ready || !c.online {
		return
	}
	c.report(r)
	switch {
	case r.asking || r.ordered || c.now < r.retry:
	case r.here && r.guest.Phase == Stopped && r.mute && c.now.Sub(r.halted) >= c.cfg.FinishTime:
		// The manager does not answer. At the source it has its address, or had it.
		c.order(r, Resume, r.guest.At)
	case !r.known || r.stale:
		c.call(r, Get, Place{})
	default:
		c.act(r)
	}
	c.count(r)
	if r.due = c.deadline(r); r.due != mad.Never {
		c.late[r.name] = r
		return
	}
	delete(c.late, r.name)
	if !r.asking && !r.ordered && !r.here && !r.reporting && !r.unsent && (!r.exists || !c.owns(r.view.At) && !c.owns(r.view.To)) {
		delete(c.records, r.name) // nothing of ours
	}
}

// count keeps Core.leaving.
func (c *Core) count(r *record) {
	from := ib.GUID(0)
	if r.here && (r.guest.To != Place{} || r.ordered && r.failedTo != r.guest.At) {
		from = r.guest.At.Port
	}
	if from == r.leaves {
		return
	}
	if r.leaves != 0 {
		c.leaving[r.leaves]--
		c.freed = true
	}
	if r.leaves = from; from != 0 {
		c.leaving[from]++
	}
}

// advance lets those go on that waited for others to leave.
func (c *Core) advance() {
	if !c.freed {
		return
	}
	c.freed = false
	list := c.queue
	c.queue = nil
	for _, name := range list {
		if r := c.records[name]; r != nil {
			c.decide(r)
		}
	}
}

func (c *Core) act(r *record) {
	switch v := &r.view; {
	case !r.exists:
		if r.here && r.seen { // a manager without its store is no reason to end guests
			c.order(r, End, Place{})
		}
	case v.State == Created || v.State == Detached || v.Doing == Detaching:
		if r.here {
			c.order(r, End, Place{})
		}
	case v.State == Migrating:
		c.migrating(r)
	case c.owns(v.At) && v.At.Function != 0:
		c.attached(r)
	}
}

// attached has the guest run where its interface is.
func (c *Core) attached(r *record) {
	v, g := &r.view, &r.guest
	switch {
	case v.Doing == RollingBack && r.here && g.At == v.At: // its address is on its way back
	case !r.here:
		c.tell(r, "", "")
		c.order(r, Start, v.At)
	case g.At == v.At:
		switch {
		case g.Phase == Stopping: // it ends soon, in any way
		case g.Phase != Running || g.To != Place{}:
			c.order(r, Resume, g.At)
		default:
			c.over(r)
		}
	case g.Phase == Stopped && g.To == v.At: // finished
		c.order(r, Resume, v.At)
	case g.Phase == Stopping:
	case g.Phase == Broken:
		c.order(r, Resume, g.At)
	case r.failed != "" && r.failedTo == v.At: // it cannot get there: its address comes to it
		r.failed = ""
		c.later(r)
		c.call(r, Move, g.At)
	default: // its interface moved without it
		c.begin(r, v.At)
		c.order(r, Halt, v.At)
	}
}

// over reports the end of a migration, if there was one.
func (c *Core) over(r *record) {
	r.failed = ""
	switch w := &r.wanted; {
	case w.Stage == "" || w.Stage.Over():
	case w.To == r.view.At:
		c.tell(r, StageResumed, "")
	default:
		c.tell(r, StageFailed, because(w.Reason, r.view.Reason, "rolled back"))
	}
}

// because is the first reason that is known.
func because(reasons ...string) string {
	for _, s := range reasons {
		if s != "" {
			return s
		}
	}
	return ""
}

// migrating brings the guest to the place that is reserved for its interface.
func (c *Core) migrating(r *record) {
	v, g := &r.view, &r.guest
	switch {
	case !c.owns(v.At) && !c.owns(v.To):
	case !r.here && v.Doing == Finishing && c.owns(v.To): // its host died: where its address goes
		c.order(r, Start, v.To)
	case !r.here:
		if c.owns(v.At) {
			c.order(r, Start, v.At)
		}
	case !c.owns(v.To):
		c.rollBack(r, fmt.Sprintf("port %v is not a hypervisor of this driver, which cannot bring the VM there", v.To.Port))
	case g.At == v.To: // it is there
		c.finish(r)
	case g.At != v.At:
		c.behind(r)
	case g.Phase == Broken, r.failed != "" && r.failedTo == v.To: // or finish was refused
		c.rollBack(r, because(r.failed, "its memory could not be copied"))
	case g.Phase == Stopped && g.To == v.To && c.now.Sub(r.halted) >= c.cfg.FinishTime:
		c.rollBack(r, because(v.Reason, fmt.Sprintf("not finished after %v", c.cfg.FinishTime)))
	case g.Phase == Stopped && g.To == v.To:
		c.finish(r)
	default:
		c.bring(r)
	}
}

// behind handles a migration that began before the guest of r runs where the one before it has ended:
// the guest runs there first.
func (c *Core) behind(r *record) {
	v, g := &r.view, &r.guest
	switch {
	case g.To == v.At && g.Phase == Stopping: // it ends soon, in any way
	case g.To == v.At && g.Phase == Stopped:
		c.order(r, Resume, v.At)
	default:
		c.rollBack(r, fmt.Sprintf("the VM is not at %v function %d", v.At.Port, v.At.Function))
	}
}

// bring copies the guest of r to the reserved place, and stops it there when the time
// has come, or when the address is moving already.
func (c *Core) bring(r *record) {
	v, g := &r.view, &r.guest
	if w := &r.wanted; w.Stage != "" && w.To == v.At { // of the migration before this one
		if !w.Stage.Over() {
			c.tell(r, StageResumed, "")
		}
		if r.unsent {
			return // until the report before its end is answered
		}
	}
	switch {
	case g.To != v.To && v.Doing != Finishing:
		if c.leaving[v.At.Port] >= c.cfg.Outbound && r.leaves == 0 {
			c.tellFrom(r, StageQueued)
			if !slices.Contains(c.queue, r.name) {
				c.queue = append(c.queue, r.name)
			}
			return
		}
		c.begin(r, v.To)
		c.order(r, Precopy, v.To)
	case g.To != v.To, g.Phase == Running, g.Phase == Copying && v.Doing == Finishing, g.Phase == Copied:
		c.begin(r, v.To)
		c.order(r, Halt, v.To)
	}
}

func (c *Core) finish(r *record) { c.call(r, Finish, r.view.To) }

func (c *Core) rollBack(r *record, why string) {
	if r.wanted.Stage == "" || r.wanted.Stage.Over() || r.wanted.To != r.view.To {
		c.tellFrom(r, StageCopying)
	}
	r.wanted.Reason = why
	c.call(r, RollBack, Place{})
}
