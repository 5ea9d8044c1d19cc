package congestion

import (
	"heddle/ib"
	"heddle/ib/cc"
	"heddle/internal/plural"
	"heddle/mad"
	"heddle/subnet"
)

// View is what a core knows. It is immutable.
type View struct {
	Mode   Mode
	At     mad.Time
	Status Status
	Snap   *subnet.Snapshot // nil: this manager is not the master, or the subnet is not up
	Nodes  []Node           // by port
	Flows  []Flow           // of marked packets, the latest first
}

// Node is an agent: a switch, or a port of an adapter.
type Node struct {
	GUID    ib.GUID // port GUID
	Port    int32   // index in the snapshot
	Switch  bool
	State   State
	Info    cc.CongestionInfo
	Key     cc.CongestionKeyInfo // without Key itself
	HasKey  bool
	Own     bool // the key is that of this manager
	Differs Diff
	Held    *Settings // nil: not read
	Want    *Settings // nil: it has no congestion control
	Read    mad.Time  // 0: never
	Events  uint64    // in its logs
	Marking bool      // its last log had events
	Ports   cc.PortMask
}

// nextView is when a view may be made of what happened since the last one.
func (c *Core) nextView() mad.Time {
	switch {
	case c.viewed == 0:
		return c.t
	case c.changed:
		return c.viewed.Add(viewEvery)
	}
	return c.viewed.Add(readEvery)
}

// publish makes a view of what changed or was read again, and tells when all is as wanted.
func (c *Core) publish() {
	if !c.changed && !c.reread || c.t < c.nextView() {
		return
	}
	c.changed, c.reread, c.viewed = false, false, max(c.t, 1)
	v := &View{Mode: c.mode, At: c.t, Status: c.Status(), Snap: c.snap, Nodes: make([]Node, len(c.order)), Flows: append([]Flow(nil), c.flows...)}
	for i, a := range c.order {
		n := Node{
			GUID: a.guid, Port: a.port, Switch: a.sw, State: a.state, Info: a.info, Key: a.key, HasKey: a.keyRead && (a.key.Key != 0 || a.hidden()),
			Own: a.keyRead && a.key.Key == c.cfg.Key.Key, Differs: a.told, Held: a.held, Want: a.want, Read: a.last,
			Events: a.marks.events, Marking: a.marks.on, Ports: a.marks.ports,
		}
		n.Key.Key = 0
		v.Nodes[i] = n
	}
	c.out.Publish = v
	c.tellDone(&v.Status)
}

// tellDone tells once when all nodes were read and hold what is wanted, or do not.
func (c *Core) tellDone(s *Status) {
	if s.Differs > 0 && c.mode.writes() {
		c.complete = false
	}
	if c.complete || c.snap == nil || c.mode == Off || s.Pending > 0 || s.Managed+s.Locked == 0 || s.Differs > 0 && c.mode.writes() {
		return
	}
	c.complete = true
	rest := ""
	if n := s.Without + s.Silent; n > 0 {
		rest = ", the other " + plural.Of(n, "agent") + " without congestion control"
	}
	switch {
	case s.Differs == 0 && c.mode == Withdraw:
		c.tell(KindDone, false, "congestion control is off at %s%s", plural.Of(s.Managed, "agent"), rest)
	case s.Differs == 0:
		c.tell(KindDone, false, "%s %s the settings that are wanted%s", plural.Of(s.Managed, "agent"), plural.Verb(s.Managed, "holds", "hold"), rest)
	default:
		c.tell(KindDone, false, "%d of %s %s other settings than wanted%s; nothing is written: see 'heddle ctl congestion show'", s.Differs, plural.Of(s.Managed, "agent"), plural.Verb(s.Differs, "holds", "hold"), rest)
	}
}
