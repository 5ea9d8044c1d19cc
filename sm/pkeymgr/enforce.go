package pkeymgr

import (
	"strconv"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sm/config"
	"heddle/sm/notice"
	"heddle/sm/topo"
	"heddle/sm/work"
	"heddle/subnet"
)

// enforcement is PartitionEnforcementInbound and -Outbound of a PortInfo.
type enforcement struct{ in, out bool }

func enforced(pi *smp.PortInfo) enforcement {
	return enforcement{pi.PartitionEnforcementInbound, pi.PartitionEnforcementOutbound}
}

// enforcing reports whether switches enforce partitions at all.
func (m *Manager) enforcing() bool { return m.Config.PartEnforce != config.EnforceOff && !m.trivial }

// enforceWanted is what the port of a switch is to enforce.
func (m *Manager) enforceWanted(p *topo.Port) (e enforcement) {
	// A manager that cannot know what another one enforced neither ends it nor begins it.
	same := m.trivial && m.Config.PartEnforce != config.EnforceOff && m.needs.Keeper.Keeps()
	if !m.enforcing() && !same || !m.edge(p) {
		return e
	}
	sw := &m.Fabric.Nodes[p.Node].Switch
	e = m.canEnforce(p)
	if now := enforced(&p.Info); same {
		e.in, e.out = e.in && now.in, e.out && now.out
	}
	if p.PKeys != nil && p.PKeys.Refused {
		return enforcement{}
	}
	if e.in || e.out {
		if need, room := len(m.edgeWanted(p)), int(sw.PartitionEnforcementCap); need > room {
			m.tell("enforce", holder{p: p}, notice.Notice{
				Kind: notice.KindEnforceOff, Level: notice.Warn,
				Text: "the switch does not enforce partitions at this port: it would have to hold " + strconv.Itoa(need) +
					" P_Keys and has room for " + strconv.Itoa(room),
			})
			return enforcement{}
		}
	}
	return e
}

// canEnforce is what the port of a switch can enforce and is to, if the policy is not trivial.
func (m *Manager) canEnforce(p *topo.Port) enforcement {
	sw := &m.Fabric.Nodes[p.Node].Switch
	in, out := m.Config.PartEnforce.Sides()
	return enforcement{in && sw.InboundEnforcementCap, out && sw.OutboundEnforcementCap}
}

// EnforceNow says whether the port of a switch may be told now to enforce partitions on what
// comes in by it, and on what goes out.
func (m *Manager) EnforceNow(p *topo.Port) (in, out bool) {
	e := m.enforceNow(p)
	return e.in, e.out
}

// enforceNow is what the port of a switch may be told to enforce now. On a link that carries data that
// is no more than before, until its table is known to hold the keys of the end port and of all virtual
// ports there.
func (m *Manager) enforceNow(p *topo.Port) enforcement {
	e := m.enforceWanted(p)
	if e == (enforcement{}) || p.Info.PortState <= ib.StateInit || m.settled(holder{p: p}) {
		return e
	}
	now := enforced(&p.Info)
	return enforcement{e.in && now.in, e.out && now.out}
}

// enforceStep turns enforcement at a switch port on or off, if that is due.
func (m *Manager) enforceStep(p *topo.Port) bool {
	t := m.portTable(p)
	verify := t.VerifyAt != 0 && t.VerifyAt <= m.Now
	o := work.OpEnforce
	switch {
	case t.Asked, t.RetryAt > m.Now:
		return false
	case m.enforceNow(p) != enforced(&p.Info):
	case verify:
		o = work.OpEnforced
		t.VerifyAt = 0
	default:
		return false
	}
	t.Asked = true
	m.asked = append(m.asked, t)
	m.Add(work.Make(o, p.Node, p.Num, 0))
	return true
}

// answeredEnforce takes the answer to a Set(PortInfo) that changes enforcement, or to a Get that
// verifies it.
func (m *Manager) answeredEnforce(it work.Item, comp *mad.Completion) {
	p := m.Fabric.PortOf(it.Node(), it.Port())
	t := m.portTable(p)
	t.Asked = false
	var pi smp.PortInfo
	err := comp.Err
	if err == nil {
		err = pi.Decode(smp.Data(comp.MAD))
	}
	if err == nil && pi.PortState == ib.StateNoChange {
		err = work.Unchanged(comp) // refused whole: the answer is what we sent
	}
	if err == nil {
		err = m.needs.Discovery.Plausible(p, &pi)
	}
	if err != nil {
		text := "enforcement of partitions could not be changed; it is tried again"
		if !mad.Unanswered(err) {
			text = "the switch refuses to change what it enforces; it is tried again"
		}
		m.retryLater(holder{p: p}, text, err)
		return
	}
	pi.ClientReregister = false
	before := p.Info.PortState
	if enforced(&pi) != enforced(&p.Info) {
		m.shown = append(m.shown, subnet.Ref{Node: p.Node, Port: p.Num})
	}
	p.Info = pi
	if pi.PortState != before {
		m.needs.Discovery.AskRegion(it.Node(), "port changed state: "+m.Fabric.Where(it.Node(), int(it.Port())).String())
	}
	if it.Op() == work.OpEnforced {
		if m.enforceStep(p) { // it was undone
			return
		}
	} else {
		t.VerifyAt = m.Now.Add(mad.LateCopy)
		m.retry = min(m.retry, t.VerifyAt)
	}
	if m.enforceNow(p) != enforced(&p.Info) {
		m.retryLater(holder{p: p}, "the switch does not enforce partitions as set; the Set is retried", nil)
		return
	}
	if m.settled(holder{p: p}) {
		m.settle(holder{p: p})
	}
}
