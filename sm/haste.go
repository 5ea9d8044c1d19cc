package sm

import (
	"time"

	"heddle/mad"
	"heddle/subnet"
)

// A request to a node that does not answer is given up after SMPTimeout and SMPRetries, 3 s
// as a rule. Nobody else waits for that: where a join, a lease or a fault elsewhere waits
// for a sweep to end, the sweep is in haste. Its requests, those under way included, have
// hasteTimeout and hasteRetries. Who does not answer in time is asked nothing more in this
// sweep. If it was there before it stays as it was last read (unseen.go); a light sweep
// that follows at once, and for which nobody waits, tells whether it answers.

const (
	// hasteTimeout is how long the first try of a request in haste waits; that doubles with
	// every further one.
	hasteTimeout = 10 * time.Millisecond
	// hasteRetries: 70 ms in all. An answer to any try counts.
	hasteRetries = 2
)

// waitedFor reports whether something waits that the next sweep is to do.
func (c *Core) waitedFor() bool {
	return c.wantGroups || len(c.suspects) > 0 || len(c.leases.dirty) > 0 || c.leases.step != batchIdle
}

// startHaste is called when a sweep starts, before it takes over what it is to do.
func (c *Core) startHaste() {
	c.endHaste()
	c.haste = c.running() && c.waitedFor()
}

// hasten makes the sweep under way, or the move, one in haste if something waits for it.
func (c *Core) hasten() {
	switch c.phase {
	case PhaseDiscover, PhaseAssign, PhaseReadback, PhaseDiscard, PhaseDistribute, PhaseTop, PhaseLanes, PhaseArm, PhaseActivate:
		if c.haste || !c.hasteful() || !c.waitedFor() {
			return
		}
	case PhaseMove:
		if c.haste || !c.wantSweep {
			return
		}
	default:
		return
	}
	c.haste = true
	var sent []item
	c.eng.Pending(func(token uint64, _ bool) {
		if it := item(token); !it.beside() {
			sent = append(sent, it)
		}
	})
	for _, it := range sent {
		for range c.eng.Cancel(uint64(it), uint64(it)) {
			c.todo.push(it)
		}
	}
}

// hasteful reports whether the subnet was up before the sweep under way, whose discovery
// may not have come to our own port yet.
func (c *Core) hasteful() bool {
	return c.state == subnet.Master && c.up && !c.firstTime && !c.waitHand && !c.cfg.PlanOnly
}

// hurry gives a request of a sweep in haste its time.
func (c *Core) hurry(it item, r *mad.Request) {
	if !c.haste || it.beside() {
		return
	}
	r.Timeout = min(hasteTimeout, c.cfg.SMPTimeout)
	if r.Retries == 0 {
		r.Retries = hasteRetries
	} else { // it has fewer tries than others
		r.Timeout = min(2*hasteTimeout, c.cfg.SMPTimeout)
	}
}

// lateIn notes that a node did not answer in time: nothing more of this sweep waits for it.
func (c *Core) lateIn(it item, comp *mad.Completion) {
	n := it.node()
	if !c.haste || n < 0 || !mad.Unanswered(comp.Err) || it.op() == opNodeInfo || it.op() == opLightProbe {
		return
	}
	if nd := &c.f.nodes[n]; nd.flags&nLate == 0 {
		nd.flags |= nLate
		c.errs++ // it is asked again by a sweep for which nobody waits
	}
}

// endHaste has the nodes that were late asked again at once.
func (c *Core) endHaste() {
	if !c.haste {
		return
	}
	c.haste = false
	for i := range c.f.nodes {
		if n := &c.f.nodes[i]; n.flags&(nLate|nUnseen) != 0 {
			n.flags &^= nLate
			c.lookNow = true
		}
	}
}
