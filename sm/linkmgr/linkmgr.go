// Package linkmgr is the part of a subnet manager that configures ports and brings links up. It
// sets the PortInfo of ports and the SwitchInfo of switches, moves links from Init to Armed and
// Active (IBA §14.2.5.6, §7.2.7), takes them down where a plan asks for it, and keeps flapping
// links out of the subnet.
//
// Inputs are the discovered subnet, the configuration, and what agents answer. Outputs are Sets
// and what topo.Port shows afterwards: what the agent answered, not what was asked for. The report of
// the sweep counts them.
package linkmgr

import (
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sm/damp"
	"heddle/sm/env"
	"heddle/sm/topo"
	"heddle/sm/work"
)

// Discovery reads the subnet.
type Discovery interface {
	// AskRegion asks for a sweep that looks at a node.
	AskRegion(node int32, why string)
}

// Identity knows what nodes and ports said of themselves before.
type Identity interface {
	// Plausible returns an error if a PortInfo cannot be that of a port that was read before.
	Plausible(p *topo.Port, info *smp.PortInfo) error
	// PlausibleSwitch returns an error if a SwitchInfo cannot be that of a node that had was before.
	PlausibleSwitch(n *topo.Node, was, now *smp.SwitchInfo) error
}

// Tables knows the tables that switches are to hold.
type Tables interface {
	// Top and MulticastTop are the LinearFDBTop and the MulticastFDBTop that a switch is to have.
	Top() ib.LID
	MulticastTop(node int32) ib.LID
	// TopSet is called when a switch has acknowledged LinearFDBTop, NotTaken when it has not.
	TopSet(n *topo.Node, sw *smp.SwitchInfo)
	NotTaken()
}

// PKeys decides which switch ports enforce partitions.
type PKeys interface {
	// EnforceNow returns what a switch port may enforce now: inbound, outbound.
	EnforceNow(p *topo.Port) (in, out bool)
}

// Needs are the parts that a Manager depends on.
type Needs struct {
	Discovery Discovery
	Identity  Identity
	Tables    Tables
	PKeys     PKeys
}

// Manager configures ports and brings links up.
type Manager struct {
	*env.Env
	needs   Needs
	damped  *damp.Links
	actions actions
	told    map[ib.GUID]bool // ports that learned of us before the first sweep read them
	info    smp.PortInfo     // of the answer in hand, so that it is not allocated for each
}

// New returns a manager that has no flapping link.
func New(e *env.Env, needs Needs) *Manager {
	return &Manager{Env: e, needs: needs, damped: damp.New(damping(e))}
}

func damping(e *env.Env) damp.Config {
	cfg := &e.Config
	return damp.Config{Free: cfg.DampFree, Hold: cfg.DampHold, Delay: cfg.DampDelay, Quiet: cfg.DampQuiet}
}

// SetDamping takes other settings of damping from the configuration.
func (m *Manager) SetDamping() { m.damped.SetConfig(damping(m.Env)) }

// SetOwn lists the Set of our own port, which comes before all others: a port without a LID
// cannot be reached.
func (m *Manager) SetOwn() {
	f := m.Fabric
	m.setPort(f.AgentPort(f.Self.Node, f.Self.Port))
}

// SetPort lists the Set of a port, if it differs from what it is to be.
func (m *Manager) SetPort(p *topo.Port) { m.setPort(p) }

// SetSwitch lists the Set of a switch that shows PortStateChange or another packet lifetime.
func (m *Manager) SetSwitch(ni int32, n *topo.Node) {
	if n.IsSwitch() && n.OK() && m.SwitchDiffers(n) {
		m.Add(work.Make(work.OpSetSwitch, ni, 0, 1))
	}
}

// SwitchDiffers reports whether a switch needs a Set(SwitchInfo).
func (m *Manager) SwitchDiffers(n *topo.Node) bool {
	return n.Switch.PortStateChange || n.Switch.LifeTimeValue != m.Config.PacketLife
}

// SetPorts lists the Sets of all other ports in the scope of the sweep, end ports first.
func (m *Manager) SetPorts() {
	own := m.Fabric.AgentPort(m.Fabric.Self.Node, m.Fabric.Self.Port)
	for _, ends := range [2]bool{true, false} {
		m.Sweeper.Scope(func(p *topo.Port) {
			if p != own && p.Has(topo.PortEnd) == ends {
				m.setPort(p)
			}
		})
	}
}

// setPort lists the Set of a port that differs from what it is to be.
func (m *Manager) setPort(p *topo.Port) {
	if !m.Fabric.Nodes[p.Node].OK() || !p.Has(topo.PortKnown) {
		return
	}
	w, ext, ok := m.wanted(p)
	if !ok || !differs(&w, &p.Info, ext) {
		return
	}
	m.Report.PortSets++
	if p.Has(topo.PortEnd) && w.LID != p.Info.LID {
		m.Report.LIDsSet++
	}
	m.Add(work.Make(work.OpSetPort, p.Node, p.Num, 0))
}

// Differs reports whether a port needs a Set(PortInfo), its state apart.
func (m *Manager) Differs(p *topo.Port) bool {
	w, ext, ok := m.wanted(p)
	return ok && differs(&w, &p.Info, ext)
}

// OnlyAsks reports whether a Set(PortInfo) of a port would only ask its host to register again.
func (m *Manager) OnlyAsks(p *topo.Port) bool {
	w, ext, ok := m.wanted(p)
	if !ok || !w.ClientReregister {
		return false
	}
	w.ClientReregister = false
	return !differs(&w, &p.Info, ext)
}

// Build turns an item into a request. It reports whether one is needed.
func (m *Manager) Build(it work.Item, get func(ib.AttrID, uint32), set func(ib.AttrID, uint32) []byte) bool {
	p := m.Fabric.PortOf(it.Node(), it.Port())
	switch it.Op() {
	case work.OpPortAgain:
		get(smp.AttrPortInfo, smp.PortInfoMod(p.Num, !p.Has(topo.PortNoExt)))
	case work.OpSetSwitch:
		m.buildSwitch(it.Node(), it.Extra(), set(smp.AttrSwitchInfo, 0))
	case work.OpSetPort, work.OpEnforce:
		w, ext, ok := m.wanted(p)
		if !ok {
			return false
		}
		w.Put(set(smp.AttrPortInfo, smp.PortInfoMod(p.Num, ext)))
	case work.OpTell:
		return m.buildTell(p, set)
	case work.OpArm:
		m.buildState(p, ib.StateArmed, set)
	case work.OpActive:
		m.buildState(p, ib.StateActive, set)
	case work.OpDown:
		m.buildState(p, ib.StateDown, set)
	case work.OpDisable:
		m.buildPhysical(p, ib.PhysDisabled, set)
	case work.OpEnable:
		m.buildPhysical(p, ib.PhysPolling, set)
	}
	return true
}

// Answered takes the end of a request.
func (m *Manager) Answered(it work.Item, comp *mad.Completion) {
	switch it.Op() {
	case work.OpPortAgain:
		m.answeredAgain(it, comp)
	case work.OpSetSwitch:
		m.answeredSwitch(it, comp)
	case work.OpSetPort:
		m.answeredPort(it, comp)
	case work.OpArm:
		m.answeredState(it, comp, ib.StateArmed)
	case work.OpActive:
		m.answeredState(it, comp, ib.StateActive)
	case work.OpDown:
		m.answeredDown(it, comp)
	case work.OpDisable:
		m.answeredPhysical(it, comp, "the port was disabled")
	case work.OpEnable:
		m.answeredPhysical(it, comp, "the port was enabled")
	}
}
