package congestion

import (
	"slices"
	"time"

	"heddle/ib"
	"heddle/ib/cc"
	"heddle/mad"
)

// Flow is a flow that a switch marked packets of, or that an adapter slowed.
type Flow struct {
	// Switch is set where the log of a switch names it, otherwise that of an adapter.
	Switch   bool
	At       ib.GUID // port GUID of the agent in whose log it is
	SLID     ib.LID
	DLID     ib.LID
	SL       ib.SL
	LocalQP  uint32 // of an adapter's log
	RemoteQP uint32
	// Count is how many events named it. A log has room for the last few of its events only.
	Count uint64
	First mad.Time // when an event with it was read for the first time, and for the last
	Last  mad.Time
}

// maxFlows bounds the flows that are kept. The one that was named the longest time ago leaves.
const maxFlows = 256

// marks is what the log of an agent has said.
type marks struct {
	events uint64      // since the core began
	ports  cc.PortMask // of a switch, in the last log with events
	on     bool        // the last log had events
	at     mad.Time    // the last log with events
	told   bool        // that a switch marks
}

// clockSlack is how far a node's clock may be from where it was expected.
const clockSlack = 10 * time.Second

// clocked takes over the time of an agent's clock. A clock that began anew is a node that did.
func (c *Core) clocked(a *agent, now uint32) {
	if a.clockAt != 0 {
		gone := uint32(c.t.Sub(a.clockAt) / cc.TimeUnit)
		if d := int32(now - a.clock - gone); time.Duration(max(d, -d))*cc.TimeUnit > clockSlack {
			c.st.Restarts++
			a.reborn = true
			if a.stage == logging {
				// Its settings may be gone. Or the times of its logs are not those of its clock.
				a.visit = max(c.t, a.last.Add(clockSlack))
			}
		}
	}
	a.clock, a.clockAt = now, c.t
}

// takeLog takes over the log of an agent.
func (c *Core) takeLog(a *agent, data []byte) {
	a.log = mad.Never
	if a.sw && c.cfg.Logs > 0 {
		a.log = c.t.Add(c.cfg.Logs)
	}
	if a.sw {
		var l cc.SwitchLog
		if l.Decode(data) != nil || l.Type != cc.LogSwitch {
			c.strangeLog(a)
			return
		}
		c.clocked(a, l.Now)
		c.counted(a, uint64(l.Events), &c.st.Marks)
		if l.Events > 0 {
			a.marks.ports = l.Ports
		}
		for i := range min(int(l.Events), len(l.Event)) {
			v := &l.Event[i]
			c.flow(Flow{Switch: true, At: a.guid, SLID: v.SLID, DLID: v.DLID, SL: v.SL})
			c.nameSender(v.SLID)
		}
		c.tellMarking(a, &l)
		return
	}
	var l cc.CALog
	if l.Decode(data) != nil || l.Type != cc.LogCA {
		c.strangeLog(a)
		return
	}
	c.clocked(a, l.Now)
	c.counted(a, uint64(l.Events), &c.st.Slowed)
	for i := range min(int(l.Events), len(l.Event)) {
		v := &l.Event[i]
		c.flow(Flow{At: a.guid, SLID: v.LocalLID, DLID: v.RemoteLID, SL: v.SL, LocalQP: v.LocalQP, RemoteQP: v.RemoteQP})
	}
}

func (c *Core) strangeLog(a *agent) {
	c.st.Strange++
	a.refused[getLog], a.log = true, mad.Never
}

func (c *Core) counted(a *agent, events uint64, all *uint64) {
	*all += events
	a.marks.events += events
	if on := events > 0; on || a.marks.on {
		a.marks.on, c.changed = on, true
	}
	if events > 0 {
		a.marks.at = c.t
	}
}

// flow puts a flow first.
func (c *Core) flow(f Flow) {
	f.Count, f.First, f.Last = 1, c.t, c.t
	i := slices.IndexFunc(c.flows, func(g Flow) bool {
		return g.At == f.At && g.SLID == f.SLID && g.DLID == f.DLID && g.SL == f.SL && g.LocalQP == f.LocalQP && g.RemoteQP == f.RemoteQP
	})
	switch {
	case i >= 0:
		f.Count, f.First = c.flows[i].Count+1, c.flows[i].First
		c.flows = slices.Delete(c.flows, i, i+1)
	case len(c.flows) == maxFlows:
		c.flows = c.flows[:maxFlows-1]
	}
	c.flows = slices.Insert(c.flows, 0, f)
}

// nameSender has the log of an adapter read whose packets were marked.
func (c *Core) nameSender(lid ib.LID) {
	i := c.snap.PortByLID(lid)
	if i < 0 {
		return
	}
	a := c.byPort[c.snap.Ports[i].GUID]
	if a == nil || a.sw || a.state != Managed || a.log != mad.Never || a.refused[getLog] {
		return
	}
	a.log = c.t
	if a.stage == idle {
		c.schedule(a)
	}
}

// tellMarking tells that a switch begins to mark packets, or that it marked none for some time.
func (c *Core) tellMarking(a *agent, l *cc.SwitchLog) {
	m := &a.marks
	switch {
	case l.Events > 0 && !m.told:
		m.told = true
		v := &l.Event[0]
		c.tell(KindMarking, false, "%s marks packets (%d events): from %s to %s, SL %d, among others", c.name(a), l.Events, c.lidName(v.SLID), c.lidName(v.DLID), v.SL)
	case m.told && c.t.Sub(m.at) > quietLogs*c.cfg.Logs:
		m.told = false
		c.tell(KindMarking, false, "%s does not mark packets any more", c.name(a))
	}
}

// quietLogs is how many times between two logs a switch is quiet before it is told.
const quietLogs = 3
