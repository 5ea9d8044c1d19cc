package congestion

import (
	"fmt"
	"time"

	"heddle/ib"
	"heddle/ib/cc"
	"heddle/internal/heap"
	"heddle/mad"
	"heddle/subnet"
)

// Core is the congestion control manager. It belongs to one goroutine.
type Core struct {
	cfg    Config
	mode   Mode
	engine *mad.Engine
	t      mad.Time
	out    *Output

	newest *subnet.Snapshot // the last one that was published
	snap   *subnet.Snapshot // the same, if it is usable; nil: nobody is asked
	self   int32            // index of this manager's port

	agents []*agent // by id; nil: free
	spare  []int32  // free ids
	order  []*agent // by port
	byPort map[ib.GUID]*agent
	shared map[port]*Settings // of adapters
	// due are agents that are not being visited, by the time of their next visit.
	due     heap.Heap[mad.Time, *agent]
	turns   uint64
	active  int      // visits under way
	gate    mad.Time // no visit begins before
	senders int

	flows    []Flow // of marked packets, the latest first
	complete bool   // all hold what is wanted; told
	changed  bool   // since the last view
	reread   bool   // settings were read since the last view, maybe the same as before
	viewed   mad.Time
	capacity bool // that a table does not fit was told
	st       Status
}

// The shortest time between two views, and between two that differ in the times of readings alone.
const (
	viewEvery = time.Second
	readEvery = 10 * time.Second
)

// New returns a core that waits for a snapshot.
func New(cfg Config) *Core {
	d := Defaults()
	if cfg.Interval <= 0 {
		cfg.Interval = d.Interval
	}
	if cfg.Window <= 0 {
		cfg.Window = d.Window
	}
	if cfg.Rate <= 0 {
		cfg.Rate = d.Rate
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = d.Timeout
	}
	retries := cfg.Retries
	if retries == 0 {
		retries = -1
	}
	c := &Core{
		cfg: cfg, mode: cfg.Mode, byPort: map[ib.GUID]*agent{}, shared: map[port]*Settings{}, self: -1,
		engine: mad.NewEngine(mad.Config{
			Window: cfg.Window, MaxWindow: cfg.Window, Timeout: cfg.Timeout, MaxTimeout: cfg.Timeout, Retries: retries,
			TransportTimed: cfg.TransportTimed, FirstTID: cfg.FirstTID, MaxQueued: 2 * cfg.Window,
		}),
	}
	c.due.Moved = func(a *agent, place int) { a.place = place }
	return c
}

// Step applies one event at time now, which never goes back, and fills out, which the caller has
// reset.
func (c *Core) Step(now mad.Time, ev Event, out *Output) {
	c.t, c.out = max(now, c.t), out
	switch ev := ev.(type) {
	case Published:
		c.onSnapshot(ev.Snap)
	case Received:
		for _, p := range ev.List {
			switch done, kind := c.engine.Receive(c.t, p); kind {
			case mad.KindCompletion:
				c.completed(done)
			case mad.KindStale, mad.KindUnsolicited:
				c.st.Strange++
			}
		}
	case SetMode:
		c.setMode(ev.Mode)
	case Timer:
	}
	c.engine.Expire(c.t, c.completed)
	c.release()
	c.engine.Poll(c.t, func(p *mad.Packet) { out.Sends = append(out.Sends, *p) })
	c.publish()
	out.Timer = c.nextTimer()
	c.out = nil
}

// Status is the state of the core.
func (c *Core) Status() Status {
	s := c.st
	s.Agents, s.Senders, s.InFlight = len(c.order), c.senders, c.engine.Outstanding()
	for _, a := range c.order {
		switch a.state {
		case Pending:
			s.Pending++
		case Managed:
			if a.unread {
				s.Pending++
			} else {
				s.Managed++
			}
		case Without:
			s.Without++
		case Silent:
			s.Silent++
		case Locked:
			s.Locked++
		}
		if a.told != 0 {
			s.Differs++
		}
	}
	return s
}

// Mode is the present one.
func (c *Core) Mode() Mode { return c.mode }

// Waiting reports whether requests are in flight.
func (c *Core) Waiting() bool { return c.engine.Outstanding() > 0 }

func (c *Core) tell(kind string, warn bool, format string, args ...any) {
	c.out.Notices = append(c.out.Notices, Notice{kind, warn, fmt.Sprintf(format, args...)})
}

// setMode has all nodes read again, for what the new mode wants.
func (c *Core) setMode(m Mode) {
	if m == c.mode {
		return
	}
	c.tell(KindMode, false, "congestion control: %v, was %v", m, c.mode)
	c.mode, c.changed, c.complete = m, true, false
	clear(c.shared)
	c.stop() // tries of a Set must not follow
	for _, a := range c.order {
		a.good, a.stuck, a.told = false, false, 0
		if a.state == Managed {
			a.state = Pending // until it is compared with what is wanted now
		}
		c.again(a, c.t)
	}
	c.viewed = 0 // who changed it sees that
	c.onSnapshot(c.newest)
}

// stop ends all visits.
func (c *Core) stop() {
	c.engine.CancelAll()
	for _, a := range c.order {
		a.busy, a.stage, a.todo = false, idle, a.todo[:0]
		if a.place >= 0 {
			c.due.Remove(a.place)
		}
	}
	c.active = 0
}

// again has an agent visited at a time, or earlier.
func (c *Core) again(a *agent, at mad.Time) {
	a.visit = min(a.visit, at)
	if a.stage == idle {
		c.schedule(a)
	}
}

// schedule puts an agent that is not being visited into the queue.
func (c *Core) schedule(a *agent) {
	if a.place >= 0 {
		c.due.Remove(a.place)
	}
	if !a.here || c.mode == Off {
		return
	}
	c.turns++
	at := a.visit
	if a.state == Managed {
		at = min(at, a.log)
	}
	c.due.Push(at, c.turns, a)
}

// release begins the visits whose time has come, while the window and the rate permit it.
func (c *Core) release() {
	if c.snap == nil || c.mode == Off {
		return
	}
	for c.active < c.cfg.Window && c.due.Len() > 0 && c.due.Min().Key <= c.t && c.gate <= c.t {
		a := c.due.Pop().Value
		c.begin(a)
	}
}

// nextTimer is when Step is to be called next.
func (c *Core) nextTimer() mad.Time {
	t := c.engine.NextTimer()
	if c.snap != nil && c.active < c.cfg.Window && c.due.Len() > 0 {
		t = min(t, max(c.due.Min().Key, c.gate, c.t))
	}
	if c.changed || c.reread {
		t = min(t, max(c.nextView(), c.t))
	}
	return t
}

// token is the key of a request.
func token(a *agent, r request) uint64 {
	return uint64(a.id)<<32 | uint64(r.block)<<8 | uint64(r.op)
}

// ask sends the next request of a visit, or goes on to its next stage.
func (c *Core) ask(a *agent) {
	for a.stage != idle && len(a.todo) == 0 {
		c.advance(a)
	}
	if a.stage == idle || a.busy {
		return
	}
	r := a.todo[0]
	q := mad.Request{Addr: a.addr, Token: token(a, r)}
	method := ib.MethodGet
	if r.op.sets() {
		method = ib.MethodSet
		c.st.Sets++
	}
	key := c.keyOf(a)
	if r.op == getKey { // the node shows its key to this manager if it took it
		key = c.cfg.Key.Key
	}
	cc.New(&q.MAD, method, r.op.attr(), uint32(r.block), key)
	c.put(a, r, cc.Data(&q.MAD))
	if a.stage == probing && a.state != Managed {
		q.Retries = -1 // most nodes that do not answer have no such agent; it is asked again
	}
	if c.engine.Submit(&q) != nil {
		c.end(a, c.t.Add(c.cfg.Timeout)) // which the window prevents
		return
	}
	a.busy = true
	c.st.Requests++
	c.gate = max(c.gate, c.t.Add(-rateBurst)).Add(time.Second / time.Duration(c.cfg.Rate))
}

// rateBurst is for how long the rate may have been unused to be made up for.
const rateBurst = 10 * time.Millisecond

// completed takes the end of a request.
func (c *Core) completed(done mad.Completion) {
	id, r := int32(done.Token>>32), request{op: op(done.Token), block: uint8(done.Token >> 8)}
	if int(id) >= len(c.agents) || c.agents[id] == nil || c.snap == nil {
		return
	}
	a := c.agents[id]
	a.busy = false
	if a.stage == idle || len(a.todo) == 0 || a.todo[0] != r {
		return
	}
	a.todo = a.todo[1:]
	switch {
	case done.Err != nil:
		c.failed(a, r, done.Err)
	case done.MAD.Status()&ib.StatusRedirect != 0:
		ci := &cc.ClassPortInfo{}
		_ = ci.Decode(cc.Data(done.MAD)) // the data area is never too short
		c.redirect(a, ci)
	case done.MAD.Status()&^ib.StatusBusy != 0:
		c.refuse(a, r, done.MAD.Status())
	case done.MAD.Status() != 0: // busy, after all tries
		c.st.Failed++
		c.end(a, c.t.Add(c.pause(a.misses)))
	default:
		c.take(a, r, done.MAD)
	}
	c.ask(a)
}

// longestPause is how long an agent is left alone at most that does not answer, in Config.Interval.
const longestPause = 12

// pause is how long an agent is left alone after so many visits in a row that it did not answer.
func (c *Core) pause(misses uint8) time.Duration {
	return min(time.Second<<min(misses, 20), longestPause*c.cfg.Interval)
}
