package perf

import (
	"errors"
	"fmt"
	"time"

	"heddle/ib"
	"heddle/ib/pm"
	"heddle/mad"
	"heddle/subnet"
)

// Core is the performance manager. It belongs to one goroutine.
type Core struct {
	cfg    Config
	engine *mad.Engine
	t      mad.Time
	out    *Output
	at     mad.Time // when the agent is taken to have read what is being processed

	snap *subnet.Snapshot // usable; nil: nothing is polled
	self int32            // index of this manager's port
	// kinds is what kindsOf says of polling each port.
	kinds   []uint8
	kindsOf *subnet.Snapshot
	layout  []ib.GUID // node GUIDs of the indices
	firsts  []int32   // Node.First of each

	agents []*agent // by id; nil: free
	order  []*agent // by port
	byPort map[ib.GUID]*agent
	silent int
	watch  []ib.GUID // agents that are read last, ascending
	moved  bool      // order is not by port, because of watch

	now, before columns // the round that is being filled, and the last one
	tick        []uint8
	history     *history
	points      []point // of the round
	vports      map[vkey]*vstate
	cleared     []int32
	last        *Round

	// The round: ports are released evenly.
	number   uint64
	began    mad.Time
	period   time.Duration
	slots    int // ports of the round
	released int
	walk     int   // agent of order that is being released
	walkPort int32 // its next port
	longTold bool
	gap      time.Duration // between two steps while there is something to send
	batch    int           // requests that a step sends at most

	st Status
}

// noSample is the time of a sample that there is not.
const noSample mad.Time = 0

// New returns a core that waits for a snapshot.
func New(cfg Config) *Core {
	d := Defaults()
	if cfg.Period <= 0 {
		cfg.Period = d.Period
	}
	if cfg.Rate <= 0 {
		cfg.Rate = d.Rate
	}
	if cfg.Window <= 0 {
		cfg.Window = d.Window
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = d.Timeout
	}
	if cfg.History < 0 {
		cfg.History = 0
	}
	retries := cfg.Retries
	if retries == 0 {
		retries = -1
	}
	return &Core{
		cfg: cfg, gap: maxGap, batch: fewest, byPort: map[ib.GUID]*agent{}, vports: map[vkey]*vstate{}, self: -1,
		engine: mad.NewEngine(mad.Config{
			Window: min(8, cfg.Window), MaxWindow: cfg.Window, Timeout: cfg.Timeout, MaxTimeout: cfg.Timeout, Retries: retries,
			TransportTimed: cfg.TransportTimed, FirstTID: cfg.FirstTID, MaxQueued: 1 << 16,
		}),
	}
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
				c.complete(done)
			case mad.KindStale, mad.KindUnsolicited:
				c.st.Strange++
			}
		}
	case Watch:
		c.watch = ev.Agents
	case Configure:
		if n := &ev.Config; n.Period > 0 && n.Rate > 0 {
			c.cfg.Period, c.cfg.Rate, c.cfg.Details, c.cfg.Lanes = n.Period, n.Rate, n.Details, n.Lanes
		}
	case Timer:
	}
	c.engine.Expire(c.t, c.complete)
	c.release()
	more := c.engine.PollSome(c.t, c.batch, func(p *mad.Packet) { out.Sends = append(out.Sends, *p) })
	out.Timer = min(c.engine.NextTimer(), c.nextRelease())
	if more {
		out.Timer = min(out.Timer, c.t.Add(c.gap))
	}
	c.out = nil
}

// Status is the state of the core.
func (c *Core) Status() Status {
	s := c.st
	s.Period, s.Ports, s.Agents, s.Silent = c.period, c.slots, len(c.order), c.silent
	s.Window, s.InFlight = c.engine.Window(), c.engine.Outstanding()
	return s
}

// Ends is when the round under way ends if the fabric keeps up; noSample: none has begun.
func (c *Core) Ends() mad.Time {
	if c.number == 0 {
		return noSample
	}
	return c.began.Add(c.period)
}

// Waiting reports whether requests are in flight.
func (c *Core) Waiting() bool { return c.engine.Outstanding() > 0 }

// Gap is how long answers may wait until a step takes them: as long as new requests wait.
func (c *Core) Gap() time.Duration { return c.gap }

// Newest is the last round, nil before the first.
func (c *Core) Newest() *Round { return c.last }

func (c *Core) tell(kind string, warn bool, format string, args ...any) {
	c.out.Notices = append(c.out.Notices, Notice{kind, warn, fmt.Sprintf(format, args...)})
}

// token is the key of a request: which agent, port and request.
func token(a *agent, o op) uint64 {
	return uint64(a.id)<<32 | uint64(uint32(a.port))<<8&0xFFFFFF00 | uint64(o)
}

// ask sends the next request of the agent's chain, if there is one.
func (c *Core) ask(a *agent) {
	for !a.busy {
		if a.todo == 0 && !c.begin(a) {
			return
		}
		o := op(0)
		for !a.todo.has(o) {
			o++
		}
		r := mad.Request{Addr: a.addr, Token: token(a, o)}
		pm.New(&r.MAD, ib.MethodGet, opAttr[o], 0)
		port := c.snap.Ports[a.port].Num
		switch o {
		case opClassInfo:
		case opVPort:
			pm.Data(&r.MAD)[1] = port
			in := pm.VPortCountersExtended{PortSelect: port, CounterSelect: pm.SelVPortAll, VPortIndex: uint16(a.vport)}
			in.Put(pm.Data(&r.MAD))
		default:
			pm.SetPortSelect(&r.MAD, port)
			selectAll(o, pm.Data(&r.MAD))
		}
		if c.engine.Submit(&r) != nil {
			a.todo = 0 // the queue is full, which the pace prevents
			continue
		}
		a.busy = true
		c.st.Requests++
	}
}

// selectAll fills the select fields of a Get with all ones, as perfquery does: agents ignore them.
func selectAll(o op, d []byte) {
	switch o {
	case opTick:
	case opSpeeds:
		for i := range 8 {
			d[8+i] = 0xFF
		}
	default:
		d[2], d[3] = 0xFF, 0xFF
	}
}

// begin takes the next released port of an agent. It reports false if none waits.
func (c *Core) begin(a *agent) bool {
	for a.next < a.released && !a.skip {
		i := a.next
		a.next++
		if !c.polled(i) {
			continue
		}
		to, ok := c.where(a)
		if !ok {
			a.skip = true // there is no path now; the manager knows and tells
			return false
		}
		a.addr, a.port, a.vport, a.hops = to, i, 0, 0
		a.got = values{}
		a.todo = c.sample(a, i)
		return true
	}
	return false
}

// sample are the requests that make a sample of port i.
func (c *Core) sample(a *agent, i int32) (o ops) {
	switch {
	case a.known:
	case a.plain:
		a.known, a.wide, a.ietf, a.full, a.wait, a.qp1, a.virt = true, false, false, false, false, false, false
	default:
		return 1 << opClassInfo // the rest is known then
	}
	if c.tick[i] == 0 && !a.refused.has(opTick) && (a.wait || a.full) {
		o |= 1 << opTick
	}
	if a.wide && !a.refused.has(opExtended) {
		o |= 1 << opExtended
	}
	if !a.full || a.refused.has(opExtended) {
		o |= 1 << opNarrow
	}
	return o
}

// complete takes the end of a request.
func (c *Core) complete(done mad.Completion) {
	id, o := int32(done.Token>>32), op(done.Token)
	if int(id) >= len(c.agents) || c.agents[id] == nil || c.snap == nil {
		return
	}
	a := c.agents[id]
	a.busy = false
	if done.Err != nil {
		c.failed(a, o, done.Err)
		c.ask(a)
		return
	}
	a.misses = 0
	c.at = c.t - mad.Time(done.RTT/2)
	status, data := done.MAD.Status(), pm.Data(done.MAD)
	switch {
	case status&ib.StatusRedirect != 0:
		var ci pm.ClassPortInfo
		if ci.Decode(data) == nil {
			c.redirect(a, &ci)
		}
		a.todo = 0
		if !a.skip {
			a.todo = c.sample(a, a.port)
		}
	case status&^(ib.StatusBusy|ib.StatusRedirect) != 0:
		c.refuse(a, o, status)
	case o != opClassInfo && data[1] != c.snap.Ports[a.port].Num:
		c.st.Strange++ // an answer about another port
		a.todo = 0
	case status&ib.StatusBusy != 0:
		a.todo = 0
	default:
		a.todo &^= 1 << o
		a.unanswered[o] = 0
		c.take(a, o, data)
	}
	c.ask(a)
}

// optional are attributes that an agent need not have.
const optional ops = 1<<opTick | 1<<opRcvDetails | 1<<opDiscards | 1<<opVLWait | 1<<opVLData | 1<<opVLPackets | 1<<opSpeeds | 1<<opVPort

// failed takes a request that was not answered, or not with what it asked for.
func (c *Core) failed(a *agent, o op, err error) {
	c.st.Failed++
	var wrong *mad.AnswerError
	if errors.As(err, &wrong) {
		c.st.Strange++
	}
	if optional.has(o) && a.known {
		a.todo &^= 1 << o
		if a.unanswered[o]++; a.unanswered[o] >= 2 {
			a.refused |= 1 << o
		}
		return // whether it is silent, the next request shows
	}
	a.todo = 0
	a.plain = o == opClassInfo
	if a.misses++; a.misses >= 2 || !a.known || a.probe {
		why := "does not answer"
		if wrong != nil {
			why = "answers wrongly: " + wrong.Error()
		}
		c.setAside(a, why)
	}
}

// refuse takes an answer with an error: the agent does not have the attribute, or the port.
func (c *Core) refuse(a *agent, o op, status ib.Status) {
	c.st.Failed++
	a.todo &^= 1 << o
	switch o {
	case opNarrow:
		a.todo = 0
		if !a.told {
			a.told = true
			c.silent++
			c.tell(KindRefused, true, "the performance agent of %s refuses PortCounters: %v", c.name(a.port), status)
		}
		c.setAside(a, "refuses PortCounters")
	case opClassInfo:
		// Agents without ClassPortInfo have what all must have.
		a.known = true
		a.todo = c.sample(a, a.port)
	case opExtended:
		a.refused |= 1 << o
		a.todo |= 1 << opNarrow
	default:
		a.refused |= 1 << o
	}
}

// take takes over an answer.
func (c *Core) take(a *agent, o op, data []byte) {
	i := a.port
	switch o {
	case opClassInfo:
		c.classInfo(a, data)
		switch {
		case a.skip:
		case a.known:
			a.todo = c.sample(a, i)
		default: // redirected
			a.todo = 1 << opClassInfo
		}
		return
	case opTick:
		var p pm.PortSamplesControl
		if p.Decode(data) == nil {
			c.tick[i] = uint8(min(int(p.Tick)+1, 255))
		}
		return
	case opExtended:
		var p pm.PortCountersExtended
		if p.Decode(data) == nil {
			a.got.extended(&p, a.ietf, a.full)
		}
	case opNarrow:
		var p pm.PortCounters
		if p.Decode(data) == nil {
			a.got.narrow(&p, a.wait, a.qp1)
		}
	case opVPort:
		c.takeVPort(a, data)
		c.nextVPort(a)
		return
	default:
		c.takeDetails(i, o, data)
		return
	}
	if a.todo&(1<<opExtended|1<<opNarrow) == 0 {
		c.answered(a)
		c.apply(i, &a.got)
		c.note(i)
		a.todo |= c.wanted(a, i)
		c.nextVPort(a)
	}
}
