// Package peek looks for further faults while a sweep is under way or LIDs are being moved. Peeks are
// requests that no phase waits for:
//
//   - Trap 128: the switch that sent it is asked for PortStateChange. The sweep has cleared that
//     where it knew of a change, so if it is set there is news, and the ports that lead to other
//     switches are read. The ports on the path to the switch are read at the same time, as the
//     link that is down may be one of them.
//   - A light-sweep interval has passed: all switches are asked in this way.
//   - Answers are awaited and none has come for a while: the ports on the paths to the nodes that
//     owe them are read. The last port that is reached shows where a path is cut.
//
// A port that is read as down, or as trained anew, breaks the sweep off. A trap whose sweep is
// deferred because there were many traps is looked into in the same way.
//
// Peeks owns which switches are to be asked, and when the last answer of the phase came. Outputs
// are requests, and the news that Sweeps receives.
package peek

import (
	"slices"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sm/env"
	"heddle/sm/notice"
	"heddle/sm/topo"
	"heddle/sm/work"
	"heddle/subnet"
)

type ref = subnet.Ref

const (
	// stallPart: paths are read when nothing was answered for this part of SMPTimeout, then at
	// intervals that double.
	stallPart = 8
	// maxStalls is how often the interval doubles.
	maxStalls = 10
	// maxPorts bounds the ports that are read at a time because of a stall.
	maxPorts = 256
)

// Sweeps receives what peeks find.
type Sweeps interface {
	// PortChanged: a switch reports that one of its ports changed state.
	PortChanged(node int32, why string)
	// LinkDown: a port of a switch that leads to another one is down.
	LinkDown(node int32, why string)
}

// Discovery reads ports again during the discovery of a region.
type Discovery interface {
	// LookAt reports whether the port is read by the discovery; asked says that its read is under
	// way.
	LookAt(at subnet.Ref, asked bool) bool
}

// Needs are the parts that Peeks depends on.
type Needs struct {
	Sweeps    Sweeps
	Discovery Discovery
}

// Peeks are the peeks of one manager.
type Peeks struct {
	*env.Env
	needs      Needs
	switches   []ib.GUID // to be asked
	answeredAt mad.Time  // when the last item of the phase ended
	stalls     int       // times that paths were read since
	stalledAt  mad.Time  // when they were read last
}

// New returns peeks that have nothing to ask.
func New(e *env.Env, needs Needs) *Peeks { return &Peeks{Env: e, needs: needs} }

// Useful reports whether the sweep under way has cleared PortStateChange of the switches that it
// knew to have changed: a switch that has it set has news.
func (p *Peeks) Useful() bool {
	switch p.Phase {
	case notice.PhaseReadback, notice.PhaseRoute, notice.PhaseDiscard, notice.PhaseDrain, notice.PhaseDistribute, notice.PhaseTop,
		notice.PhaseLanes, notice.PhaseArm, notice.PhaseActivate, notice.PhaseMove:
		return p.Running() && p.Fabric.Graph != nil
	}
	return false
}

// At has a switch asked that a trap named; 0 is none.
func (p *Peeks) At(g ib.GUID) {
	if g != 0 && !slices.Contains(p.switches, g) {
		p.switches = append(p.switches, g)
	}
}

// NewSweep forgets which switches are to be asked: the sweep that begins reads them.
func (p *Peeks) NewSweep() { p.switches = p.switches[:0] }

// Send asks the switches that traps named.
func (p *Peeks) Send() {
	if len(p.switches) == 0 || !p.Running() || p.Fabric.Graph == nil || p.Phase == notice.PhaseDiscover || p.Phase == notice.PhaseAssign {
		return
	}
	var ports []ref
	for _, g := range p.switches {
		if n, ok := p.Fabric.Find(g); ok && p.Fabric.Nodes[n].IsSwitch() {
			p.Switch(n, mad.Urgent)
			ports = p.onPath(ports, p.Fabric.Nodes[n].Via) // the link that is down may be one of these
		}
	}
	p.switches = p.switches[:0]
	for _, v := range ports {
		p.port(v)
	}
}

// All asks all switches.
func (p *Peeks) All() {
	for _, n := range p.Fabric.SwitchNode {
		p.Switch(n, mad.Normal)
	}
}

// Switch asks a switch whether a port has changed state.
func (p *Peeks) Switch(n int32, priority mad.Priority) {
	p.Ask(work.Make(work.OpPeek, n, 0, 0), smp.AttrSwitchInfo, 0, priority)
}

// port reads a port.
func (p *Peeks) port(at ref) {
	mod := smp.PortInfoMod(at.Port, !p.Fabric.Port(at).Has(topo.PortNoExt))
	p.Ask(work.Make(work.OpPeekPort, at.Node, at.Port, 0), smp.AttrPortInfo, mod, mad.Urgent)
}

// Answered takes the end of a peek.
func (p *Peeks) Answered(it work.Item, comp *mad.Completion) {
	if it.Op() == work.OpPeek {
		p.switchAnswered(it.Node(), comp)
	} else {
		p.portAnswered(ref{Node: it.Node(), Port: it.Port()}, comp)
	}
}

func (p *Peeks) switchAnswered(n int32, comp *mad.Completion) {
	var sw smp.SwitchInfo
	if work.Answer(comp) != nil || sw.Decode(smp.Data(comp.MAD)) != nil || !sw.PortStateChange {
		return
	}
	f := p.Fabric
	if !f.Has(ref{Node: n}) {
		return // asked before a discovery that has begun since
	}
	if p.Useful() && !p.BetweenSweeps() {
		p.needs.Sweeps.PortChanged(n, "a port changed state at "+f.Where(n, -1).String())
	}
	for i := range f.NodePorts(n) {
		if q := f.PortOf(n, uint8(i)); q.Num != 0 && q.Has(topo.PortLinked) && f.Nodes[q.Peer.Node].IsSwitch() {
			p.port(ref{Node: n, Port: q.Num})
		}
	}
}

// portAnswered takes the state of a port that leads to another switch.
func (p *Peeks) portAnswered(at ref, comp *mad.Completion) {
	var pi smp.PortInfo
	if !p.Running() || work.Answer(comp) != nil || pi.Decode(smp.Data(comp.MAD)) != nil {
		return
	}
	if !p.Fabric.Has(at) {
		return // as in switchAnswered
	}
	q := p.Fabric.Port(at)
	if !q.Has(topo.PortKnown) || pi.PortState >= q.Info.PortState || pi.PortState > ib.StateDown && q.Info.PortState < ib.StateArmed {
		return
	}
	if pi.PortState >= ib.StateArmed {
		return // it may have been read before it was made Active
	}
	p.needs.Sweeps.LinkDown(at.Node, "a link went down at "+p.Fabric.Where(at.Node, int(at.Port)).String())
}

// Progress notes that the phase makes progress. An answer that shows a port on a path as it was
// before is no progress: reads of the path to a node that does not answer would never become less
// frequent.
func (p *Peeks) Progress() { p.answeredAt, p.stalls = p.Now, 0 }

// Progressed is when the phase last made progress.
func (p *Peeks) Progressed() mad.Time { return p.answeredAt }

// Next is when the paths are to be read because there is no progress.
func (p *Peeks) Next() mad.Time {
	if p.Pending == 0 || p.Engine.Outstanding() == 0 || !p.Running() {
		return mad.Never
	}
	switch p.Phase {
	case notice.PhaseDiscover, notice.PhaseAssign, notice.PhaseReadback, notice.PhaseDiscard, notice.PhaseDistribute, notice.PhaseTop,
		notice.PhaseLanes, notice.PhaseArm, notice.PhaseActivate, notice.PhaseMove:
		wait := p.Config.SMPTimeout / stallPart
		t := max(p.answeredAt, p.PhaseStart).Add(wait << min(p.stalls, maxStalls))
		if p.stalls > maxStalls { // that is past already
			t = max(t, p.stalledAt.Add(wait<<maxStalls))
		}
		return t
	}
	return mad.Never
}

// onPath appends the ports on the path that ends with v which are not in the list.
func (p *Peeks) onPath(ports []ref, v ref) []ref {
	for v.Node >= 0 && len(ports) < maxPorts && !slices.Contains(ports, v) {
		ports = append(ports, v)
		v = p.Fabric.Nodes[v.Node].Via
	}
	return ports
}

// Stalled reads the ports on the paths to nodes that owe answers.
func (p *Peeks) Stalled() {
	p.stalls++
	p.stalledAt = p.Now
	var ports, asked []ref
	f := p.Fabric
	p.Engine.Pending(func(token uint64, _ bool) {
		it := work.Item(token)
		if it.OutOfPhase() || it.Node() < 0 {
			return
		}
		if it.Op() == work.OpReread {
			asked = append(asked, ref{Node: it.Node(), Port: it.Port()})
		}
		n := it.Node()
		v := f.Nodes[n].Via
		if q := f.PortOf(n, it.Port()); !f.Nodes[n].IsSwitch() && q.Peer != subnet.NoRef() && n != f.Self.Node {
			v = q.Peer
		}
		ports = p.onPath(ports, v)
	})
	for _, v := range ports {
		// In a region discovery the link may have gone down after its port was read.
		if !p.needs.Discovery.LookAt(v, slices.Contains(asked, v)) {
			p.port(v)
		}
	}
}
