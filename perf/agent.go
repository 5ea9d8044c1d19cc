package perf

import (
	"fmt"
	"time"

	"heddle/ib"
	"heddle/ib/pm"
	"heddle/mad"
	"heddle/subnet"
)

// agent is one performance management agent: that of a switch, which answers for all its ports, or
// that of one port of a channel adapter or router.
type agent struct {
	guid ib.GUID // port GUID
	node int32
	// first and last are the indices of its ports; main is the one that has the LID.
	first, last, main int32
	id                int32 // in Core.agents, constant while the agent exists

	// known: ClassPortInfo was read; caps are of it.
	known bool
	ietf  bool // it counts unicast and multicast packets
	wide  bool // it has PortCountersExtended
	full  bool // which has error counters too
	wait  bool // PortCounters has PortXmitWait
	qp1   bool // PortCounters has QP1Dropped
	virt  bool // it counts by virtual port
	// refused are attributes that it does not have.
	refused ops
	// unanswered is how many requests for attributes that it need not have were not answered: some
	// agents, and all of ibsim, are silent where others refuse. plain: it is taken to have no
	// ClassPortInfo, because it did not answer that.
	unanswered [numOps]uint8
	plain      bool
	// to, if redirected, is where it has its requests sent; hops counts the redirections
	// since its port was begun.
	redirected bool
	hops       uint8
	to         mad.Addr

	// misses are requests in a row that were not answered, bad those rounds.
	misses uint8
	bad    uint8
	until  uint64 // the round in which it is asked again; 0: now
	probe  bool   // it is asked for one port only, until it answers
	told   bool   // that it does not answer

	// The chain of requests: one at a time. Ports from next on that the pace has released wait;
	// released is the end of them.
	busy     bool
	skip     bool // it is set aside for the rest of the round
	whole    bool // all its ports are released, whatever the pace is: it answers again
	next     int32
	released int32
	port     int32 // that is being read
	vport    int32 // index of the virtual port that is being read there, 0: none yet
	todo     ops
	got      values
	addr     mad.Addr // of the chain
}

// maxRedirects bounds redirections for one port, also where answers come between them: an agent may
// redirect one attribute alone, and each redirection begins the port anew.
const maxRedirects = 4

// maxPause is the longest time that a silent agent is set aside, in rounds.
const maxPause = 32

// where finds the address of an agent: path, service level and P_Key as for any other datagram of
// this manager. It reports false if there is none.
func (c *Core) where(a *agent) (to mad.Addr, ok bool) {
	if a.redirected {
		return a.to, true
	}
	return c.address(a.main)
}

// address finds the way to the agent of a port of the snapshot.
func (c *Core) address(i int32) (mad.Addr, bool) {
	a, ok := c.snap.Agent(c.self, i, 0)
	return mad.Addr{LID: a.LID, QP: 1, SL: a.SL, PKeyIndex: a.PKeyIndex}, ok
}

// classInfo takes over the ClassPortInfo of an agent.
func (c *Core) classInfo(a *agent, data []byte) {
	var ci pm.ClassPortInfo
	if ci.Decode(data) != nil {
		return
	}
	if subnet.Redirects(&ci) && !a.redirected {
		c.redirect(a, &ci)
		return
	}
	m := ci.CapabilityMask
	a.known = true
	a.wide = m&(pm.CapExtendedWidth|pm.CapExtendedWidthNoIETF) != 0
	a.ietf = m&pm.CapExtendedWidth != 0
	a.wait, a.qp1 = m&pm.CapXmitWait != 0, m&pm.CapQP1Dropped != 0
	if m&ib.ClassCapCapMask2 != 0 {
		a.full = a.wide && ci.CapabilityMask2&pm.Cap2ExtendedCounters != 0
		a.virt = ci.CapabilityMask2&pm.Cap2Virtualization != 0
	}
}

// redirect follows a ClassPortInfo to another agent (IBA §13.5.2). It must be a port of the subnet,
// and this manager must have its P_Key.
func (c *Core) redirect(a *agent, ci *pm.ClassPortInfo) {
	a.known = false
	if a.hops++; a.hops > maxRedirects {
		c.setAside(a, fmt.Sprintf("redirects more than %d times", maxRedirects))
		return
	}
	to, err := c.snap.Redirected(c.self, ci)
	if err != nil {
		c.setAside(a, err.Error())
		return
	}
	addr := mad.Addr{LID: to.LID, QP: to.QP, QKey: to.QKey, SL: to.SL, PKeyIndex: to.PKeyIndex}
	c.tell(KindRedirect, false, "the agent of %s redirects to LID %v, QP %d", c.name(a.main), addr.LID, addr.QP)
	a.redirected, a.to, a.addr = true, addr, addr
}

// setAside asks an agent no more in this round, and for twice as many rounds as the last time.
func (c *Core) setAside(a *agent, why string) {
	a.skip, a.todo, a.misses = true, 0, 0
	a.bad = min(a.bad+1, 16)
	pause := min(uint64(1)<<(a.bad-1), maxPause)
	a.until, a.probe = c.number+pause, true
	a.known, a.redirected = false, false
	for i := a.first; i <= a.last; i++ {
		c.now.flags[i] |= Silent
	}
	if !a.told {
		a.told = true
		c.silent++
		c.tell(KindSilent, true, "the performance agent of %s %s; it is asked again in %v, and then at growing intervals", c.name(a.main), why, c.cfg.Period*time.Duration(pause))
	}
}

// answered takes note that an agent gives its counters.
func (c *Core) answered(a *agent) {
	if a.bad == 0 {
		return
	}
	a.bad, a.until, a.probe = 0, 0, false
	a.whole, a.released = true, a.last+1 // its other ports have waited long enough
	for i := a.first; i <= a.last; i++ {
		c.now.flags[i] &^= Silent
	}
	if a.told {
		a.told = false
		c.silent--
		c.tell(KindSilent, false, "the performance agent of %s answers again", c.name(a.main))
	}
}

// name is a port as notices have it.
func (c *Core) name(i int32) string {
	p := c.snap.Ports[i]
	n := &c.snap.Nodes[p.Node]
	return fmt.Sprintf("%v %q port %d, LID %v", n.Info.NodeGUID, n.Desc, p.Num, p.LID)
}

// polled reports whether port i of the snapshot is to be read in this round.
func (c *Core) polled(i int32) bool {
	switch c.kind(i) {
	case alwaysRead:
		return true
	case seldomRead:
		return c.now.at(i) == 0 || (c.number+uint64(i))%downEvery == 0
	}
	return false
}

// usable reports whether ports of a snapshot are to be polled.
func usable(s *subnet.Snapshot) bool {
	return s != nil && s.Up && s.State == subnet.Master && s.Tables != nil && s.Self != subnet.NoRef()
}
