package congestion

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"heddle/ib"
	"heddle/ib/cc"
	"heddle/mad"
	"heddle/subnet"
)

// begin starts a visit to an agent, or the reading of its log alone.
func (c *Core) begin(a *agent) {
	to, ok := c.where(a)
	if !ok { // the manager knows and tells
		a.visit, a.log = c.t.Add(noPathPause), max(a.log, c.t.Add(noPathPause))
		c.schedule(a)
		return
	}
	a.addr, a.writes, a.redirect.hops, a.todo = to, 0, 0, a.todo[:0]
	c.active++
	if a.state == Managed && a.visit > c.t {
		a.stage, a.todo = logging, append(a.todo, request{op: getLog})
	} else {
		c.probe(a)
	}
	c.ask(a)
}

// probe begins a visit with whether the agent has congestion control.
func (c *Core) probe(a *agent) {
	a.refused = [numOps]bool{}
	a.visit = mad.Never // if it is to be read again meanwhile, it says so
	a.stage, a.have, a.todo = probing, nil, append(a.todo[:0], request{op: getInfo})
	if a.classAsked < classTries {
		c.plan(a, getClass)
	}
}

// classTries is how often ClassPortInfo is asked for that is not answered. Some agents have none.
const classTries = 5

// noPathPause is how long an agent without a path to it is left alone.
const noPathPause = 5 * time.Second

// where finds the way to an agent, or to the one that it redirects to. It reports false if there is
// none.
func (c *Core) where(a *agent) (mad.Addr, bool) {
	if a.redirect.to != nil {
		if to, err := c.snap.Redirected(c.self, a.redirect.to); err == nil {
			return redirected(&to), true
		}
		c.direct(a)
	}
	to, ok := c.snap.Agent(c.self, a.port, 0)
	return mad.Addr{LID: to.LID, QP: 1, SL: to.SL, PKeyIndex: to.PKeyIndex}, ok
}

func redirected(r *subnet.Redirect) mad.Addr {
	return mad.Addr{LID: r.LID, QP: r.QP, QKey: r.QKey, SL: r.SL, PKeyIndex: r.PKeyIndex}
}

// direct has an agent asked where its node is.
func (c *Core) direct(a *agent) {
	if a.redirect.to != nil {
		a.redirect.to, a.classAsked = nil, 0 // which may redirect again
	}
}

// maxRedirects bounds the redirections of a visit, also where answers come between them: an agent may
// redirect one attribute alone, and each redirection begins the visit anew.
const maxRedirects = 4

// redirect follows a ClassPortInfo to another agent (IBA §13.5.2), and begins the visit anew there.
func (c *Core) redirect(a *agent, ci *cc.ClassPortInfo) {
	to, err := c.snap.Redirected(c.self, ci)
	if a.redirect.hops++; a.redirect.hops > maxRedirects {
		err = fmt.Errorf("redirects more than %d times", maxRedirects)
	}
	if err != nil {
		if a.misses == 0 {
			c.tell(KindRedirect, true, "%s %v: it is taken to have no congestion control, and asked again at growing intervals", c.name(a), err)
		}
		c.giveUp(a, Without, err.Error())
		return
	}
	if a.redirect.to == nil || *a.redirect.to != *ci {
		c.tell(KindRedirect, false, "%s redirects requests for congestion control to LID %v, QP %d", c.name(a), to.LID, to.QP)
	}
	a.redirect.to, a.addr = ci, redirected(&to)
	c.probe(a)
}

// advance goes to the next stage of a visit whose requests have all been answered.
func (c *Core) advance(a *agent) {
	switch a.stage {
	case probing:
		c.supported(a)
		a.stage, a.have = reading, &Settings{}
		for _, o := range []op{getTime, getKey, getSwitch, getPorts, getCA, getTable} {
			c.plan(a, o)
		}
	case reading:
		c.settle(a)
		c.examine(a)
		if d := a.told; c.mode.writes() && d != 0 && c.mayWrite(a) {
			c.write(a, d)
			return
		}
		c.readLog(a)
	case writing:
		have := *a.held
		have.Ports, have.Table = slices.Clone(have.Ports), slices.Clone(have.Table)
		a.stage, a.have = proving, &have
		c.plan(a, getKey)
		c.prove(a)
	case proving:
		c.settle(a)
		c.proved(a)
	case logging:
		a.misses = 0
		next := a.visit
		if next == mad.Never {
			next = c.t.Add(c.cfg.Interval)
		}
		c.end(a, next)
	}
}

// supported takes note that an agent has congestion control, and of what it is to hold.
func (c *Core) supported(a *agent) {
	if a.state != Managed && a.state != Locked {
		a.state, a.unread, c.changed = Managed, true, true
	}
	a.sends = a.info.ControlTableCap > 0 && (!a.sw || a.port0)
	was := a.want
	c.wanted(a)
	if was == nil || was != a.want && !was.same(a.want) {
		a.good, c.changed = false, true // it is to hold something else now
	}
	if t := &c.cfg.Policy.Table; t.Is && a.sends && len(t.Value) > len(a.want.Table) && c.mode == Act && !c.capacity {
		c.capacity = true
		c.tell(KindCapacity, true, "the table has %d entries, and %s has room for %d: the rest is left out there; give --cc-table fewer", len(t.Value), c.name(a), len(a.want.Table))
	}
}

// plan adds the requests of an op to a visit, unless the agent does not have the attribute.
func (c *Core) plan(a *agent, o op) {
	n := 1
	switch o {
	case getSwitch, setSwitch:
		n = btoi(a.sw)
	case getPorts, setPorts:
		n = btoi(a.sw) * c.portBlocks(a)
	case getCA, setCA:
		n = btoi(a.sends)
	case getTable:
		n = btoi(a.sends) * min(int(a.info.ControlTableCap), max(blocks(len(a.want.Table)), blocks(autoEntries)))
	case setTable:
		n = btoi(a.sends) * blocks(len(a.want.Table))
	}
	for b := range n {
		if !a.refused[o] {
			a.todo = append(a.todo, request{o, uint8(b)})
		}
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// settle makes what was read what the agent holds.
func (c *Core) settle(a *agent) {
	h, was := a.have, a.held
	h.Table = h.Table[:min(len(h.Table), int(h.Limit)+1)]
	for len(h.Ports) > 0 && h.Ports[len(h.Ports)-1] == (cc.PortSetting{}) {
		h.Ports = h.Ports[:len(h.Ports)-1]
	}
	if a.held = h; h.same(a.want) {
		a.held = a.want // one copy for all that hold the same
	}
	a.have, a.last, c.reread = nil, c.t, true
	c.changed = c.changed || was == nil || was != a.held && !was.same(a.held)
}

// same reports whether two settings are the same in every field.
func (x *Settings) same(y *Settings) bool {
	return x.Switch == y.Switch && x.CA == y.CA && x.Limit == y.Limit && slices.Equal(x.Ports, y.Ports) && slices.Equal(x.Table, y.Table)
}

// examine compares what an agent holds with what is wanted.
func (c *Core) examine(a *agent) {
	d := c.differs(a)
	if d != a.told {
		c.changed = true
	}
	if d != 0 && a.good {
		c.st.Repairs++
		why := "another tool wrote them"
		if a.reborn {
			why = "it restarted"
		}
		then := "nothing is written"
		if c.mode.writes() {
			then = "they are written again"
		}
		c.tell(KindForeign, !a.reborn, "%s holds other settings than before (%s): %s; %s", c.name(a), strings.Join(d.Names(), ", "), why, then)
	}
	c.changed = c.changed || a.unread
	a.told, a.good, a.reborn, a.unread = d, d == 0, false, false
	if d == 0 {
		a.stuck = false
		if a.state == Locked {
			c.unlock(a)
		}
	}
}

// hidden reports whether an agent hides its key from this manager.
func (a *agent) hidden() bool { return a.keyRead && a.key.Protect && a.key.Key == 0 }

// mayWrite reports whether a Set may be of use: one with a wrong key is counted by the node, and has
// the lease of the key begin, if it has one.
func (c *Core) mayWrite(a *agent) bool {
	return a.state != Locked || !a.hidden() || a.key.LeasePeriod > 0
}

// write adds the Sets for the attributes in d to a visit. An adapter gets its table before what
// refers to it.
func (c *Core) write(a *agent, d Diff) {
	a.stage = writing
	a.writes++
	a.why = ""
	if a.state == Locked && a.hidden() { // one is enough for the lease
		a.todo = append(a.todo, request{op: firstOf(d)})
		return
	}
	order := []struct {
		in Diff
		op op
	}{{DiffKey, setKey}, {DiffPorts, setPorts}, {DiffTable, setTable}, {DiffCA, setCA}, {DiffSwitch, setSwitch}}
	if c.mode == Withdraw { // the key is needed until then
		order = append(order[1:], order[0])
	}
	for _, x := range order {
		if d&x.in != 0 {
			c.plan(a, x.op)
		}
	}
}

func firstOf(d Diff) op {
	switch {
	case d&DiffSwitch != 0:
		return setSwitch
	case d&DiffCA != 0:
		return setCA
	case d&DiffTable != 0:
		return setTable
	case d&DiffPorts != 0:
		return setPorts
	}
	return setKey
}

// prove reads what was written back.
func (c *Core) prove(a *agent) {
	for _, x := range []struct {
		in Diff
		op op
	}{{DiffPorts, getPorts}, {DiffTable, getTable}, {DiffCA, getCA}, {DiffSwitch, getSwitch}} {
		if a.told&x.in != 0 {
			c.plan(a, x.op)
		}
	}
}

// maxWrites is how often settings are written in one visit.
const maxWrites = 3

// proved compares what was read back.
func (c *Core) proved(a *agent) {
	d := c.differs(a)
	if d != a.told {
		c.changed = true
	}
	was := a.told
	a.told = d
	switch {
	case d == 0:
		a.good, a.stuck = true, false
		if a.state == Locked {
			c.unlock(a)
		}
	case a.hidden():
		c.lock(a)
	case a.writes < maxWrites && (d != was || a.lost):
		a.lost = false
		c.write(a, d)
		return
	case !a.stuck:
		a.stuck = true
		why := "it says that it has written them"
		if a.why != "" {
			why = a.why
		}
		c.tell(KindUnkept, true, "%s does not keep what is written (%s): %s; it is tried again every %v", c.name(a), strings.Join(d.Names(), ", "), why, c.cfg.Interval)
	}
	a.lost = false
	c.readLog(a)
}

// lock takes note that an agent hides its key and takes no settings.
func (c *Core) lock(a *agent) {
	if a.state != Locked {
		a.state, c.changed = Locked, true
		then := "it has no lease: give its key with --cc-key, or restart the node"
		if n := a.key.LeasePeriod; n > 0 {
			then = fmt.Sprintf("give its key with --cc-key, or wait: it shows its key after %d s, unless the manager that it belongs to asks for something", n)
		}
		c.tell(KindKey, true, "%s has another CC_Key, which it hides, and takes no settings; %s", c.name(a), then)
	}
	if n := a.key.LeasePeriod; n > 0 {
		a.visit = min(a.visit, c.t.Add(min(time.Duration(n)*time.Second+time.Second, c.cfg.Interval)))
	}
}

// unlock takes note that an agent takes settings again.
func (c *Core) unlock(a *agent) {
	a.state, c.changed = Managed, true
	c.tell(KindKey, false, "%s takes settings again", c.name(a))
}

// readLog ends a visit with the log, if it is to be read.
func (c *Core) readLog(a *agent) {
	a.stage = logging
	if c.cfg.Logs > 0 && a.sw {
		c.plan(a, getLog)
	}
}

// end ends a visit; the next one is at a time.
func (c *Core) end(a *agent, at mad.Time) {
	a.stage, a.todo, a.have = idle, a.todo[:0], nil
	c.active--
	a.visit = min(a.visit, at)
	if a.log <= c.t {
		a.log = c.t.Add(logAgain)
	}
	c.schedule(a)
}

// logAgain is when a log is asked for again that was not read.
const logAgain = time.Second

// giveUp ends a visit that was not answered.
func (c *Core) giveUp(a *agent, s State, why string) {
	c.direct(a)
	a.misses = min(a.misses+1, 30)
	if s == Silent && a.misses < silentAfter {
		s = a.state
	}
	if a.state != s {
		if a.state == Managed || a.state == Locked {
			c.tell(KindSilent, true, "%s %s; it is asked again at growing intervals", c.name(a), why)
		}
		a.state, a.told, a.good, c.changed = s, 0, false, true
	}
	c.end(a, c.t.Add(c.pause(a.misses)))
}

// silentAfter is how many visits in a row an agent does not answer before it is taken to be silent.
const silentAfter = 3

// failed takes a request that was not answered, or not with what it asked for.
func (c *Core) failed(a *agent, r request, err error) {
	c.st.Failed++
	var wrong *mad.AnswerError
	if errors.As(err, &wrong) {
		c.st.Strange++
	}
	switch {
	case r.op.sets():
		a.lost, a.todo = true, a.todo[:0] // what it holds now, and with which key, is read
	case r.op == getClass:
		a.classAsked++
	case r.op == getTime || r.op == getLog || r.op == getKey:
		if a.stage == logging {
			a.log = c.t.Add(c.cfg.Interval)
		}
	default:
		c.giveUp(a, Silent, "does not answer requests for congestion control")
	}
}

// refuse takes an answer with an error status.
func (c *Core) refuse(a *agent, r request, status ib.Status) {
	c.st.Failed++
	switch {
	case r.op == getInfo:
		c.giveUp(a, Without, fmt.Sprintf("refuses CongestionInfo: %v", status))
	case r.op.sets() && !a.took && (status == ib.StatusBadVersion || status == ib.StatusBadMethod || status == ib.StatusBadMethodAttr):
		// It answers Gets of what it does not have, as ibsim's nodes do. OpenSM decides the same. One
		// that ever took a Set holds what it got, and perhaps the key: it is not given up.
		if !a.stuck {
			a.stuck = true
			c.tell(KindUnkept, true, "%s refuses %s (%v): it is taken to have no congestion control, and asked again at growing intervals", c.name(a), r.op.name(), status)
		}
		a.misses = min(a.misses+1, 30)
		a.state, a.told, a.good, c.changed = Without, 0, false, true
		c.end(a, c.t.Add(c.pause(a.misses)))
	case r.op.sets():
		a.why = fmt.Sprintf("it refuses %s: %v", r.op.name(), status)
	default:
		if a.refused[r.op] = true; r.op == getLog {
			a.log = mad.Never
		}
		a.todo = slices.DeleteFunc(a.todo, func(x request) bool { return x.op == r.op })
	}
}

// take takes over an answer.
func (c *Core) take(a *agent, r request, m *ib.MAD) {
	data, h := cc.Data(m), a.have
	a.took = a.took || r.op.sets()
	switch r.op {
	case getInfo:
		was := a.info
		_ = a.info.Decode(data) // the data area is never too short
		c.changed = c.changed || a.info != was
	case getClass:
		var v cc.ClassPortInfo
		_ = v.Decode(data)
		if subnet.Redirects(&v) && a.redirect.to == nil {
			c.redirect(a, &v)
			return
		}
		if a.classAsked = 0; !a.sw {
			a.classAsked = classTries // it says nothing about an adapter
		}
		a.port0 = v.CapabilityMask&cc.CapEnhancedPort0 != 0
	case getKey:
		was := a.key
		_ = a.key.Decode(data)
		c.changed = c.changed || a.key != was
		a.keyRead = true
	case getTime:
		var v cc.TimeStamp
		_ = v.Decode(data)
		c.clocked(a, v.Time)
	case getLog:
		c.takeLog(a, cc.Log(m))
	case getSwitch:
		_ = h.Switch.Decode(data)
	case getPorts:
		var v cc.SwitchPortCongestionSetting
		_ = v.Decode(data)
		first := int(r.block) * cc.PortsPerBlock
		last := min(first+cc.PortsPerBlock, int(c.snap.Nodes[a.node].Info.NumPorts)+1)
		for i := first; i < last; i++ {
			for len(h.Ports) <= i {
				h.Ports = append(h.Ports, cc.PortSetting{})
			}
			h.Ports[i] = v.Port[i-first]
		}
	case getCA:
		_ = h.CA.Decode(data)
	case getTable:
		var v cc.CongestionControlTable
		_ = v.Decode(data)
		h.Limit = v.Limit
		first := int(r.block) * cc.EntriesPerBlock
		for len(h.Table) < first+cc.EntriesPerBlock {
			h.Table = append(h.Table, 0)
		}
		copy(h.Table[first:], v.Entry[:])
	}
}
