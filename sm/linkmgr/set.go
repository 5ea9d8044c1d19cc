package linkmgr

import (
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sm/notice"
	"heddle/sm/topo"
	"heddle/sm/work"
)

// answeredPort takes the answer to a Set of a port's parameters.
func (m *Manager) answeredPort(it work.Item, comp *mad.Completion) {
	const what = "Set(PortInfo)"
	f := m.Fabric
	n, num := it.Node(), it.Port()
	p := f.PortOf(n, num)
	err := m.decode(comp)
	pi := &m.info
	if err == nil && num != 0 && pi.PortState == ib.StateNoChange {
		err = work.Unchanged(comp) // the agent refused the Set and returned it as it was sent
	}
	if err == nil {
		err = m.needs.Identity.Plausible(p, pi)
	}
	if err != nil {
		m.Sweeper.SetFailed(n, int(num), what, err)
		return
	}
	pi.ClientReregister = false
	before := p.Info
	p.Info = *pi
	if num != 0 && (pi.PortState < before.PortState || before.PortState == ib.StateDown && pi.PortState != ib.StateDown) {
		// The PortStateChange that reported it may be cleared already.
		m.needs.Discovery.AskRegion(n, "port changed state during the sweep: "+f.Where(n, int(num)).String())
	}
	if f.AgentPort(n, num) == p {
		p.MKey = pi.MKey
		if pi.MKey == 0 && pi.MKeyProtectBits == 1 {
			p.MKey = m.Config.MKey
		}
	}
	if p.Has(topo.PortEnd) && (pi.LID != p.LID || pi.LMC != p.LMC) {
		m.Sweeper.SetFailed(n, int(num), "assigning LID "+p.LID.String(), work.Unchanged(comp))
		return
	}
	// An agent may apply part of a Set and answer with an error status. Another sweep would
	// not change that.
	if st := smp.StatusOf(comp.MAD); st != 0 && before.PortState == pi.PortState {
		m.Notify(notice.Notice{
			Kind: notice.KindSetFailed, Level: notice.Debug, Where: f.Where(n, int(num)), Err: &work.StatusError{Status: st},
			Text: "Set(PortInfo) was answered with an error; the values that the port shows are used",
		})
	}
}

// decode decodes the PortInfo in an answer, whatever its status.
func (m *Manager) decode(comp *mad.Completion) error {
	if comp.Err != nil {
		return comp.Err
	}
	return m.info.Decode(smp.Data(comp.MAD))
}

// buildSwitch fills in Set(SwitchInfo). Kind 1 clears PortStateChange and sets the packet
// lifetime. Kinds 2 and 3 set LinearFDBTop, and do not clear a PortStateChange that was not seen.
func (m *Manager) buildSwitch(n int32, kind uint32, b []byte) {
	sw := m.Fabric.Nodes[n].Switch
	sw.LifeTimeValue = m.Config.PacketLife
	if kind != 1 {
		sw.PortStateChange = false
		sw.LinearFDBTop = m.needs.Tables.Top()
		sw.MulticastFDBTop = m.needs.Tables.MulticastTop(n)
	}
	sw.Put(b)
}

// answeredSwitch takes the answer to a Set(SwitchInfo).
func (m *Manager) answeredSwitch(it work.Item, comp *mad.Completion) {
	n := &m.Fabric.Nodes[it.Node()]
	var sw smp.SwitchInfo
	err := work.Answer(comp)
	if err == nil {
		err = sw.Decode(smp.Data(comp.MAD))
	}
	if err == nil {
		err = m.needs.Identity.PlausibleSwitch(n, &n.Switch, &sw)
	}
	if it.Extra() == 1 {
		if err != nil {
			m.Sweeper.SetFailed(it.Node(), -1, "Set(SwitchInfo)", err)
			return
		}
		if n.Switch.PortStateChange {
			m.readAgain(it.Node())
		}
		n.Switch = sw
		return
	}
	if err == nil && sw.LinearFDBTop != m.needs.Tables.Top() {
		err = &work.StatusError{Status: ib.StatusInvalidField}
	}
	if err != nil {
		m.needs.Tables.NotTaken()
		m.Sweeper.SetFailed(it.Node(), -1, "Set(SwitchInfo) of LinearFDBTop", err)
		return
	}
	n.Switch = sw
	m.needs.Tables.TopSet(n, &sw)
	if sw.PortStateChange {
		where := m.Fabric.Where(it.Node(), -1).String()
		m.needs.Discovery.AskRegion(it.Node(), "a port of "+where+" changed state during the sweep")
	}
}

// readAgain reads the ports of a switch once more whose PortStateChange was cleared: nothing else
// would report a change between reading a port and clearing the bit. Ports in Init are left out,
// because the answers to the Sets that arm them show their state. Port 0 is read in a full sweep
// if its LID is not set after this. A switch that was reset has none, and where no link was Armed
// before, Arm does not read it. So bringing up a fresh fabric costs one more Get for each port
// without a cable.
func (m *Manager) readAgain(n int32) {
	full := !m.Region
	ports := m.Fabric.NodePorts(n)
	for i := range ports {
		p := &ports[i]
		again := p.Num != 0 && p.Info.PortState != ib.StateInit
		if p.Num == 0 {
			again = full && p.LID != 0 && p.Info.LID == p.LID
		}
		if p.Has(topo.PortKnown) && again {
			m.Add(work.Make(work.OpPortAgain, n, p.Num, 0))
		}
	}
}

// answeredAgain takes the PortInfo of a port that was read once more.
func (m *Manager) answeredAgain(it work.Item, comp *mad.Completion) {
	var pi smp.PortInfo
	if err := work.Answer(comp); err != nil || pi.Decode(smp.Data(comp.MAD)) != nil {
		m.Failed()
		return
	}
	p := m.Fabric.PortOf(it.Node(), it.Port())
	if pi.PortState != p.Info.PortState || p.Num == 0 && pi.LID != p.Info.LID {
		where := m.Fabric.Where(it.Node(), int(it.Port())).String()
		m.needs.Discovery.AskRegion(it.Node(), "port changed state during the sweep: "+where)
	}
}
