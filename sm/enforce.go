package sm

import (
	"strconv"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/partition"
	"heddle/sm/config"
	"heddle/sm/notice"
	"heddle/sm/topo"
	"heddle/sm/work"
)

// enforcement is the two bits of PortInfo.
type enforcement struct{ in, out bool }

func enforced(pi *smp.PortInfo) enforcement {
	return enforcement{pi.PartitionEnforcementInbound, pi.PartitionEnforcementOutbound}
}

// trivialPolicy reports whether every port is a full member of the only
// partition.
func trivialPolicy(p *partition.Policy) bool {
	if len(p.Partitions) != 1 {
		return false
	}
	for _, m := range p.Partitions[0].Members {
		if m.As != partition.Full {
			return false
		}
	}
	return true
}

// enforcing reports whether switches enforce partitions at all.
func (c *Core) enforcing() bool { return c.Config.PartEnforce != config.EnforceOff && !c.pk.trivial }

// enforceWanted is what the port of a switch is to enforce.
func (c *Core) enforceWanted(p *topo.Port) (e enforcement) {
	if !c.enforcing() || !c.edge(p) {
		return e
	}
	sw := &c.Fabric.Nodes[p.Node].Switch
	e.in = sw.InboundEnforcementCap && c.Config.PartEnforce != config.EnforceOut
	e.out = sw.OutboundEnforcementCap && c.Config.PartEnforce != config.EnforceIn
	if p.PKeys != nil && p.PKeys.Refused {
		return enforcement{}
	}
	if e.in || e.out {
		if need, room := len(c.edgeWanted(p)), int(sw.PartitionEnforcementCap); need > room {
			c.tellHolder("enforce", holder{p: p}, notice.Notice{
				Kind: notice.KindEnforceOff, Level: notice.Warn,
				Text: "the switch does not enforce partitions at this port: it would have to hold " + strconv.Itoa(need) + " P_Keys and has room for " + strconv.Itoa(room),
			})
			return enforcement{}
		}
	}
	return e
}

// enforceBits is what the port of a switch may be told to enforce now: on a
// link that carries data no more than before until its table is known to hold
// the keys of the end port and of all virtual ports there.
func (c *Core) enforceBits(p *topo.Port) enforcement {
	e := c.enforceWanted(p)
	if e == (enforcement{}) || p.Info.PortState <= ib.StateInit || c.settled(holder{p: p}) {
		return e
	}
	now := enforced(&p.Info)
	return enforcement{e.in && now.in, e.out && now.out}
}

// enforceStep turns enforcement at a switch port on or off, if that is due.
func (c *Core) enforceStep(p *topo.Port) bool {
	t := c.pTable(p)
	verify := t.VerifyAt != 0 && t.VerifyAt <= c.Now
	o := work.OpEnforce
	switch {
	case t.Asked, t.RetryAt > c.Now:
		return false
	case c.enforceBits(p) != enforced(&p.Info):
	case verify:
		o = work.OpEnforced
		t.VerifyAt = 0
	default:
		return false
	}
	t.Asked = true
	c.pk.asked = append(c.pk.asked, t)
	c.Add(work.Make(o, p.Node, p.Num, 0))
	return true
}

// onEnforce takes the answer to a Set(PortInfo) that changes enforcement, or to
// a Get that sees whether it still is so.
func (c *Core) onEnforce(it work.Item, comp *mad.Completion) {
	p := c.Fabric.PortOf(it.Node(), it.Port())
	t := c.pTable(p)
	t.Asked = false
	var pi smp.PortInfo
	err := comp.Err
	if err == nil {
		err = pi.Decode(smp.Data(comp.MAD))
	}
	if err == nil && pi.PortState == ib.StateNoChange {
		err = statusOf(comp) // refused whole: the answer is what we sent
	}
	if err == nil && c.changedNature(p, &pi) {
		err = errNature
	}
	if err != nil {
		text := "enforcement of partitions could not be changed; it is tried again"
		if !mad.Unanswered(err) {
			text = "the switch does not change what it enforces; it is tried again"
		}
		c.pkeyRetry(holder{p: p}, text, err)
		return
	}
	pi.ClientReregister = false
	before := p.Info.PortState
	p.Info = pi
	if pi.PortState != before {
		c.askRegion(it.Node(), "port changed state: "+c.Fabric.Where(it.Node(), int(it.Port())).String())
	}
	if it.Op() == work.OpEnforced {
		if c.enforceStep(p) { // it was undone
			return
		}
	} else {
		t.VerifyAt = c.Now.Add(mad.LateCopy)
		c.pk.retry = min(c.pk.retry, t.VerifyAt)
	}
	if c.enforceBits(p) != enforced(&p.Info) {
		c.pkeyRetry(holder{p: p}, "the switch does not take what it is to enforce; it is tried again", nil)
		return
	}
	if c.settled(holder{p: p}) {
		c.pkeySettled(holder{p: p})
	}
}
