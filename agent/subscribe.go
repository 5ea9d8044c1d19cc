package agent

import (
	"math/rand/v2"
	"slices"
	"time"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/ib/smp"
	"heddle/mad"
)

const subscriptions = 4

// subscribed are the notices that change paths. The SA compares paths only for those who name
// traps 68 and 69.
func subscribed() [subscriptions]uint16 {
	return [...]uint16{smp.TrapGIDInService, smp.TrapGIDOutOfService, smp.TrapUnPath, smp.TrapRePath}
}

// subscriptionToken marks the engine's tokens of subscriptions.
const subscriptionToken = 1 << 63

func subscriptionOf(token uint64) (i int, ok bool) {
	return int(token &^ subscriptionToken), token&subscriptionToken != 0
}

// respTime of a subscription is how long the SA waits at least for a response to a Report, before it
// repeats it: 4.096 µs × 2^13, 34 ms. A Report that comes twice does no harm, so this is what an
// answer commonly takes and not what it may take.
const respTime = 13

// minRetry and maxRetry bound the pause after a subscription that the SA did not confirm.
const (
	minRetry = time.Second
	maxRetry = 30 * time.Second
)

// informs are the subscriptions of a port. They are asked for one after the other: the SA stores
// each before it confirms it, so the hosts of a subnet that all begin at one instant have as many
// requests at the SA as there are hosts, and each host waits no longer than its turn takes.
type informs struct {
	state  [subscriptions]informState
	turn   int  // the one that is asked for, or is to be asked for next
	asking bool // it is in flight
	at     mad.Time
	pause  time.Duration // after the next failure
	rng    *rand.Rand    // spreads pauses; from the port's GUID
}

type informState uint8

const (
	informWanted informState = iota
	informHeld
	informRefused
)

func newInforms() informs { return informs{pause: minRetry} }

// restart asks for all subscriptions anew, at once.
func (x *informs) restart(c *Core) {
	c.eng.Cancel(subscriptionToken, subscriptionToken|subscriptions)
	*x = informs{pause: minRetry, rng: x.rng}
}

// probe renews the subscriptions soon: an SA that does not answer may be another one when it
// answers again.
func (x *informs) probe(c *Core) { x.at = min(x.at, c.now.Add(minRetry)) }

// confirmed reports whether the SA confirmed all subscriptions. A renewal under way does not
// count against it.
func (x *informs) confirmed() bool {
	for _, s := range x.state {
		if s != informHeld {
			return false
		}
	}
	return true
}

// settled reports whether the SA confirmed or refused each subscription.
func (x *informs) settled() bool {
	return !slices.ContainsFunc(x.state[:], func(s informState) bool { return s != informHeld && s != informRefused })
}

// nextTimer is when act has something to do.
func (x *informs) nextTimer(c *Core) mad.Time {
	if c.cfg.Policy == AsPublished || !c.reachable() || c.port.Deaf || x.asking {
		return mad.Never
	}
	return x.at
}

// act asks for the next subscription if it is time.
func (x *informs) act(c *Core) {
	if c.now < x.nextTimer(c) {
		return
	}
	r := mad.Request{Addr: c.port.SM, Token: subscriptionToken | uint64(x.turn)}
	wire.New(&r.MAD, ib.MethodSet, wire.AttrInformInfo, 0, 0)
	info := wire.InformInfo{
		LIDRangeBegin: wire.InformAllLIDs, IsGeneric: 1, Subscribe: 1, Type: wire.InformAllTypes,
		TrapNumber: subscribed()[x.turn], QPN: 1, RespTimeValue: respTime, Producer: wire.InformAllProducers,
	}
	info.Put(wire.Data(&r.MAD))
	if x.asking = c.eng.Submit(&r) == nil; !x.asking {
		x.again(c)
	}
}

// again asks for the same subscription after a pause.
func (x *informs) again(c *Core) {
	x.at = c.now.Add(x.spread(c, x.pause, x.pause/2))
	x.pause = min(2*x.pause, maxRetry)
}

// spread returns a time of at most most, and less by up to by: many hosts that have begun at one
// instant do not go on together.
func (x *informs) spread(c *Core, most, by time.Duration) time.Duration {
	if x.rng == nil {
		x.rng = rand.New(rand.NewPCG(uint64(c.port.GIDs[0].GUID()), subscriptions))
	}
	return most - time.Duration(x.rng.Int64N(int64(by)+1))
}

// done takes the end of a request for a subscription.
func (x *informs) done(c *Core, i int, d *mad.Completion) {
	if i != x.turn || !x.asking {
		return
	}
	x.asking = false
	was := x.confirmed()
	switch {
	case d.Err != nil && was:
		c.gap("the SA does not confirm the subscriptions") // it may have lost them, and notices
		x.again(c)
		return
	case d.Err != nil || d.MAD.Status()&ib.StatusBusy != 0:
		if !was {
			x.state[i] = informWanted
		}
		x.again(c)
		return
	case d.MAD.Status() != ib.StatusOK:
		if x.state[i] != informRefused {
			c.notice("refused", "the SA refuses the subscription to trap %d (%s): cached paths live %v", subscribed()[i], d.MAD.Status().Text(ib.ClassSA), c.cfg.BlindAge)
		}
		x.state[i] = informRefused
	default:
		x.state[i] = informHeld
	}
	x.turn, x.at, x.pause = x.turn+1, c.now, minRetry
	if x.turn == subscriptions {
		x.turn, x.at = 0, c.now.Add(x.spread(c, c.cfg.RenewTime, c.cfg.RenewTime/4))
	}
	if was || !x.settled() {
		return
	}
	c.changes.want(c)
	if x.confirmed() {
		c.notice("subscribed", "the SA at LID %d confirms the subscriptions", c.port.SM.LID)
	}
}
