package agent

import (
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

// informs are the subscriptions of a port.
type informs struct {
	state [subscriptions]informState
	at    mad.Time // when to ask next
	pause time.Duration
}

type informState uint8

const (
	informWanted informState = iota
	informAsked
	informHeld
	informRefused
)

func newInforms() informs { return informs{pause: minRetry} }

// restart asks for all subscriptions anew, at once.
func (x *informs) restart() { *x = newInforms() }

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
	if c.cfg.Policy == AsPublished || !c.reachable() || c.port.Deaf {
		return mad.Never
	}
	return x.at
}

// act asks for the subscriptions that are due.
func (x *informs) act(c *Core) {
	if c.now < x.nextTimer(c) {
		return
	}
	refused := slices.Contains(x.state[:], informRefused)
	for i, trap := range subscribed() {
		token := subscriptionToken | uint64(i)
		c.eng.Cancel(token, token)
		r := mad.Request{Addr: c.port.SM, Token: token}
		wire.New(&r.MAD, ib.MethodSet, wire.AttrInformInfo, 0, 0)
		info := wire.InformInfo{
			LIDRangeBegin: wire.InformAllLIDs, IsGeneric: 1, Subscribe: 1, Type: wire.InformAllTypes,
			TrapNumber: trap, QPN: 1, RespTimeValue: respTime, Producer: wire.InformAllProducers,
		}
		info.Put(wire.Data(&r.MAD))
		_ = c.eng.Submit(&r)
		if x.state[i] != informHeld {
			x.state[i] = informAsked
		}
	}
	x.at = c.now.Add(x.pause)
	x.pause = min(2*x.pause, maxRetry)
	if refused || x.confirmed() {
		x.at = c.now.Add(c.cfg.RenewTime)
	}
}

// done takes the end of a request for a subscription.
func (x *informs) done(c *Core, i int, d *mad.Completion) {
	if i >= len(x.state) {
		return
	}
	was := x.confirmed()
	switch {
	case d.Err != nil:
		if was {
			// The SA may have lost it, and notices with it.
			c.gap("the SA does not confirm the subscriptions")
			x.at, x.pause = c.now.Add(minRetry), 2*minRetry
			return
		}
		x.state[i] = informWanted
		return
	case d.MAD.Status() != ib.StatusOK:
		if x.state[i] != informRefused {
			c.notice("refused", "the SA refuses the subscription to trap %d (%s): cached paths live %v", subscribed()[i], d.MAD.Status().Text(ib.ClassSA), c.cfg.BlindAge)
		}
		x.state[i] = informRefused
	default:
		x.state[i] = informHeld
	}
	if !was && x.settled() {
		c.changes.want(c)
	}
	if !was && x.confirmed() {
		x.at, x.pause = c.now.Add(c.cfg.RenewTime), minRetry
		c.notice("subscribed", "the SA at LID %d confirms the subscriptions", c.port.SM.LID)
	}
}
