// Package takeover is the first step of a manager that succeeds another one and has its last
// published snapshot: the SA answers from the snapshot, the manager checks it against the subnet,
// and notifies hosts of their new manager, before the subnet is read.
//
// The snapshot of a predecessor is a hint. The manager uses it for two things only. The SA answers
// from it, as the predecessor would have done. And ports of hosts are notified of their new
// manager: by the Set that a sweep would send as well, built from the port's own answer a moment
// ago, and only if the Set changes nothing else. All other actions wait for the full sweep that
// follows, which reads the whole subnet and does not use the hint.
//
// The check reads NodeInfo and SwitchInfo of each switch. Another node, or another port of it, in
// the place of a switch means that the snapshot is of another fabric: it is dropped, and no more
// hosts are notified before the sweep. A switch that does not answer, or has lost its tables, and
// links that are down, are marked in the snapshot, so that no path over them is answered. Switches
// with hosts are checked first, the nearest ones before others; the hosts of a switch are notified
// as soon as it has been checked.
//
// A manager that was restarted succeeds itself: the snapshot is what it published before it was
// stopped, which may be a minute ago. So the switches are checked before the SA answers, and the ports of
// hosts after that. Hosts know their manager: none is told, unless it names another one by then. If our
// own port does, another manager was master meanwhile, and the map is not used.
//
// Inputs are the snapshot, the moment of succession, and answers. Outputs are items of work, and
// when no item is pending a Result.
package takeover

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sm/env"
	"heddle/sm/lid"
	"heddle/sm/topo"
	"heddle/sm/work"
	"heddle/subnet"
)

// Keys know the M_Keys of ports.
type Keys interface {
	// Of is the key that a port requires in a header.
	Of(port ib.GUID) ib.MKey
}

// Ports sets up ports.
type Ports interface {
	// Lacks reports whether a port that was just read needs no change except the LID of its
	// manager.
	Lacks(p *topo.Port) bool
}

// LIDs are the LIDs of the subnet.
type LIDs interface {
	// Floating returns the LIDs that our port is to have because they float, and those of the partner's
	// port.
	Floating() (own, partner lid.Range, ok bool)
}

// Machine is the takeover of one manager.
type Machine struct {
	*env.Env
	keys  Keys
	ports Ports
	lids  LIDs

	warm   *subnet.Snapshot // what the master publishes; nil: unknown
	plan   *Float           // of warm; nil: unknown
	armed  bool             // the next sweep of a manager that is not master yet is a succession
	gone   ib.GUID          // whom it succeeds; 0: not known
	living []ib.GUID        // managers that are known to live, whatever the snapshot shows

	// Of the takeover under way:
	s       *subnet.Snapshot
	chart   chart
	asking  bool      // the managers and our own port are asked
	ahead   bool      // the check is still to begin, or to go on: the snapshot is published first
	first   bool      // the switches are checked, and the snapshot is published after that
	drawn   bool      // the chart has all nodes, and checks was made
	checks  []int32   // switches that are to be asked, in their order
	tells   []ref     // ports of hosts that are to be read and told
	reads   []ref     // ports of switches that report a change, to be read
	state   []checked // by node
	found   []found   // what differs from the snapshot
	result  Result
	refusal string
	float   *floatRun // nil: the LID of our port stays

	answers bool // the SA answers from what the predecessor published
}

type ref = subnet.Ref

// checked says which answers of a switch are in.
type checked uint8

const (
	sawNode checked = 1 << iota
	sawSwitch
	lost // it does not answer, or has lost its tables
)

// found is a port whose state is not that of the snapshot.
type found struct {
	port  int32 // index in the snapshot's Ports
	state ib.PortState
}

// Result has the counts of a takeover.
type Result struct {
	Restarted      bool // the snapshot was that of this manager, before it was restarted
	Switches, Lost int  // switches that were asked; that do not answer or have no tables
	Hosts, Told    int  // ports of hosts that were read; that were told
	Changed        int  // ports whose link is not as the snapshot has it
}

// New returns the takeover of a manager that has no snapshot.
func New(e *env.Env, keys Keys, ports Ports, lids LIDs) *Machine {
	return &Machine{Env: e, keys: keys, ports: ports, lids: lids}
}

// Set replaces the master's snapshot; nil: it is unknown. x moves its LIDs to our port; nil: the
// moves are unknown.
func (m *Machine) Set(s *subnet.Snapshot, x *Float) {
	if m.State != subnet.Master {
		m.warm, m.plan = s, x
	}
}

// Living replaces the list of managers that are known to be alive, which the snapshot may lack.
func (m *Machine) Living(list []ib.GUID) { m.living = list }

// Arm makes the next sweep begin with a takeover: our master is gone, or has handed over. gone is
// the port of that master, 0 if it is not known.
func (m *Machine) Arm(gone ib.GUID) { m.armed, m.gone = true, gone }

// Wanted reports whether the next sweep is to begin with a takeover.
func (m *Machine) Wanted() bool { return m.armed && m.warm != nil && !m.Config.PlanOnly }

// Drop ends a takeover and its answers: the manager is not to be master now.
func (m *Machine) Drop() {
	m.armed, m.answers = false, false
	m.end()
}

// Answers reports whether the SA answers from the predecessor's snapshot. Settled ends that.
func (m *Machine) Answers() bool { return m.answers && m.State == subnet.Master }

// Settled ends the answers: the subnet was read.
func (m *Machine) Settled() { m.answers = false }

// Begin begins the takeover: it asks our own port, and other managers that the predecessor knew. If
// the snapshot is unusable, it returns the reason and only drops the snapshot.
func (m *Machine) Begin() (why string) {
	s := m.warm
	m.warm, m.armed = nil, false
	if s.Tables == nil || s.State != subnet.Master {
		return "it has no tables"
	}
	m.s, m.asking = s, true
	m.result, m.refusal = Result{Restarted: m.restarted()}, ""
	if s.PortByPortGUID(m.Config.PortGUID) >= 0 {
		why = m.planFloat()
	}
	// To know the way to all nodes takes time, in which the SA could answer.
	if why == "" && !m.draw(len(m.others()) == 0 && m.float == nil) {
		why = "it does not show our own port with an Active link"
	}
	if m.plan = nil; why != "" {
		m.end()
	}
	return why
}

// draw makes the chart: of our own node alone if near is set.
func (m *Machine) draw(near bool) (ok bool) {
	if m.chart, ok = draw(m.s, m.Config.PortGUID, m.keys.Of, near); !ok {
		return false
	}
	m.state = make([]checked, len(m.chart.f.Nodes))
	if !m.asking { // our port was read
		m.chart.f.Port(m.chart.f.Self).Info = m.Fabric.Port(m.Fabric.Self).Info
	}
	m.Fabric, m.Last = m.chart.f, nil
	return true
}

// others are the ports, as indices in the snapshot's Ports, of the managers that are to be asked.
func (m *Machine) others() (list []int32) {
	add := func(guid ib.GUID) {
		p := m.s.PortByPortGUID(guid)
		if p >= 0 && guid != m.Config.PortGUID && guid != m.gone && !slices.Contains(list, p) {
			list = append(list, p)
		}
	}
	for i := range m.s.SMs {
		add(m.s.SMs[i].GUID)
	}
	for _, guid := range m.living {
		add(guid)
	}
	return list
}

// restarted reports whether the snapshot is what this manager published before it was restarted. A
// mastership that was granted succeeds another one, and may have the LIDs of that one.
func (m *Machine) restarted() bool {
	return m.s.PortGUID == m.Config.PortGUID && !m.Config.Granted
}

// Ask lists the first requests, in the phase of the takeover.
func (m *Machine) Ask() {
	f := m.chart.f
	m.Add(work.Make(work.OpMapPort, f.Self.Node, f.Self.Port, 0))
	m.askFloat()
	for _, p := range m.others() {
		if n, ok := f.Find(m.s.Nodes[m.s.Ports[p].Node].Info.NodeGUID); ok && f.Nodes[n].Path.Set {
			m.Add(work.Make(work.OpSMInfo, n, m.s.Ports[p].Num, 0))
		}
	}
}

// Asking reports whether the first requests are in flight; Refused returns the reason if their
// answers forbid the takeover.
func (m *Machine) Asking() bool    { return m.asking }
func (m *Machine) Refused() string { return m.refusal }

// CheckFirst begins the check of the switches if the snapshot is to be published after that. It reports
// whether it has.
func (m *Machine) CheckFirst() bool {
	if !m.restarted() || m.refusal != "" {
		return false
	}
	m.asking, m.first = false, true
	m.Check()
	return true
}

// Checked reports whether the switches were checked, and the snapshot is to be published now.
func (m *Machine) Checked() bool { return m.first }

// Serve returns the snapshot to be published, from which the SA answers from now on. Check is to be
// called when it is published.
func (m *Machine) Serve() *subnet.Snapshot {
	m.asking, m.first, m.answers, m.ahead = false, false, true, true
	s := &subnet.Snapshot{}
	*s = *m.s
	s.Self = m.shown(m.chart.f.Self)
	// What it lacks may be in the subnet, so that nobody's registrations end.
	s.Veiled, s.Gone = true, nil
	s.Graph, s.Problems = nil, nil
	m.floated(s)
	m.show(s, m.s)
	m.s = s
	return s
}

// show shows in a snapshot that is made of another one what was found since that.
func (m *Machine) show(s, of *subnet.Snapshot) {
	if len(m.found) == 0 {
		return
	}
	var nodes []int32
	for _, x := range m.found {
		p := s.Edit(of, x.port)
		p.Info.PortState = min(p.Info.PortState, x.state)
		if nodes = append(nodes, p.Node); p.Peer.Node >= 0 {
			nodes = append(nodes, p.Peer.Node)
		}
	}
	slices.Sort(nodes)
	s.Carry(of, slices.Compact(nodes))
	m.found = nil
}

// Next is when Check or More is to be called, mad.Never if neither is.
func (m *Machine) Next() mad.Time {
	switch {
	case m.ahead:
		return m.Now
	case m.asking && m.float != nil && m.float.step == floatDrains:
		return m.float.until
	}
	return mad.Never
}

// Check lists the requests of the check, or those that are left of it.
func (m *Machine) Check() {
	m.ahead = false
	if !m.drawn {
		if m.drawn = m.draw(false); !m.drawn { // it was possible before
			return
		}
		m.checks = m.chart.order()
	}
	m.feed()
}

// shown is a port of the chart in the snapshot.
func (m *Machine) shown(r ref) ref { return ref{Node: m.chart.at[r.Node], Port: r.Port} }

// feed keeps as many items on the work list as the window may need: hosts come before the next
// switches.
func (m *Machine) feed() {
	for m.Todo.N < m.Config.MaxWindow {
		switch {
		case len(m.tells) > 0 && !m.first:
			r := m.tells[0]
			m.tells = m.tells[1:]
			m.result.Hosts++
			m.Add(work.Make(work.OpMapPort, r.Node, r.Port, 0))
		case len(m.reads) > 0:
			r := m.reads[0]
			m.reads = m.reads[1:]
			m.Add(work.Make(work.OpMapPort, r.Node, r.Port, 0))
		case len(m.checks) > 0:
			n := m.checks[0]
			m.checks = m.checks[1:]
			m.result.Switches++
			m.Add(work.Make(work.OpMapNode, n, 0, 0))
			m.Add(work.Make(work.OpMapSwitch, n, 0, 0))
		default:
			return
		}
	}
}

// askTimeout is that of the first of two questions to another manager. One that does not answer may be
// dead too, and hosts wait.
const askTimeout = 60 * time.Millisecond

// Hasten sets the time-outs of a request to another manager.
func (m *Machine) Hasten(r *mad.Request) {
	r.Timeout, r.Retries = min(askTimeout, m.Config.SMPTimeout), 1
}

// Build turns an item into a request; Sets are for Ports. A request is repeated once, except that
// to our own port: nodes that do not answer are left to the sweep.
func (m *Machine) Build(it work.Item, r *mad.Request, get func(ib.AttrID, uint32)) {
	switch it.Op() {
	case work.OpMapNode:
		get(smp.AttrNodeInfo, 0)
	case work.OpMapSwitch:
		get(smp.AttrSwitchInfo, 0)
	case work.OpMapPort:
		get(smp.AttrPortInfo, smp.PortInfoMod(it.Port(), it.Extra() == 0))
	case work.OpMapBlock:
		get(smp.AttrLFT, it.Extra())
	}
	if !m.asking {
		r.Retries = 1
	}
}

// Answered takes the end of a request. It reports false if the map is of another fabric: the
// takeover has ended.
func (m *Machine) Answered(it work.Item, comp *mad.Completion) bool {
	if m.s == nil {
		return true
	}
	var err error
	switch it.Op() {
	case work.OpMapNode:
		err = m.nodeInfo(it.Node(), comp)
	case work.OpMapSwitch:
		m.switchInfo(it.Node(), comp)
	case work.OpMapPort:
		m.portInfo(it, comp)
	case work.OpMapBlock:
		m.blockRead(it, comp)
	case work.OpMapWrite:
		m.blockWritten(it, comp)
	}
	if err != nil {
		m.refusal = err.Error()
		m.answers = false
		m.end()
		return false
	}
	if !m.asking {
		m.feed()
	}
	return true
}

// Told is called when a port has answered the Set that notifies it; knows: the Set succeeded.
func (m *Machine) Told(knows bool) {
	if m.asking {
		m.floatTold(knows)
		return
	}
	if knows {
		m.result.Told++
	}
	m.feed()
}

func (m *Machine) nodeInfo(n int32, comp *mad.Completion) error {
	var ni smp.NodeInfo
	nd := &m.chart.f.Nodes[n]
	if work.Answer(comp) != nil || ni.Decode(smp.Data(comp.MAD)) != nil {
		m.lose(n)
		return nil
	}
	in := uint8(0)
	if nd.Via.Node >= 0 {
		in = m.chart.f.Port(nd.Via).Peer.Port
	}
	switch {
	case ni.NodeGUID != nd.Info.NodeGUID:
		return fmt.Errorf("node %v is where %v was", ni.NodeGUID, m.chart.f.Where(n, -1))
	case ni.NodeType != nd.Info.NodeType || ni.NumPorts != nd.Info.NumPorts || ni.PortGUID != nd.Info.PortGUID:
		return fmt.Errorf("%v is not the switch that it was", m.chart.f.Where(n, -1))
	case in != 0 && ni.LocalPortNum != in:
		return fmt.Errorf("%v is reached by its port %d, not by port %d", m.chart.f.Where(n, -1), ni.LocalPortNum, in)
	}
	m.seen(n, sawNode)
	return nil
}

func (m *Machine) switchInfo(n int32, comp *mad.Completion) {
	var sw smp.SwitchInfo
	if work.Answer(comp) != nil || sw.Decode(smp.Data(comp.MAD)) != nil ||
		sw.LinearFDBTop == 0 && m.chart.f.Nodes[n].Switch.LinearFDBTop != 0 {
		m.lose(n)
		return
	}
	if sw.PortStateChange {
		for k := range m.chart.f.NodePorts(n) {
			if p := m.chart.f.PortOf(n, uint8(k)); p.Num > 0 && p.Has(topo.PortLinked) {
				m.reads = append(m.reads, ref{Node: n, Port: p.Num})
			}
		}
	}
	m.seen(n, sawSwitch)
}

// seen notes an answer of a switch. When all are in its hosts are told.
func (m *Machine) seen(n int32, what checked) {
	if m.state[n] |= what; m.state[n] != sawNode|sawSwitch || m.float != nil && m.Inherits {
		return // without a change nobody is to be told
	}
	for k := range m.chart.f.NodePorts(n) {
		p := m.chart.f.PortOf(n, uint8(k))
		if p.Has(topo.PortLinked) && p.Num > 0 && m.chart.f.Port(p.Peer).Has(topo.PortEnd) && !m.chart.f.Nodes[p.Peer.Node].IsSwitch() {
			m.tells = append(m.tells, p.Peer)
		}
	}
}

// lose notes that a switch forwards nothing.
func (m *Machine) lose(n int32) {
	if m.state[n]&lost != 0 {
		return
	}
	m.state[n] |= lost
	m.result.Lost++
	for k := range m.chart.f.NodePorts(n) {
		if p := m.chart.f.PortOf(n, uint8(k)); p.Num > 0 && p.Has(topo.PortLinked) {
			m.differs(ref{Node: n, Port: p.Num}, ib.StateDown)
		}
	}
}

func (m *Machine) differs(r ref, to ib.PortState) {
	m.found = append(m.found, found{m.s.PortIndex(m.shown(r)), to})
}

var errOwn = errors.New("our own port is not as the predecessor left it")

// portInfo takes the state of a port: our own, that of a host, or one of a switch that reports a
// change.
func (m *Machine) portInfo(it work.Item, comp *mad.Completion) {
	r := ref{Node: it.Node(), Port: it.Port()}
	p := m.chart.f.Port(r)
	err := work.Answer(comp)
	if se := (*work.StatusError)(nil); errors.As(err, &se) && it.Extra() == 0 {
		m.Add(work.Make(work.OpMapPort, r.Node, r.Port, 1)) // it may not know the extended-speed bit
		return
	}
	var pi smp.PortInfo
	if err == nil {
		err = pi.Decode(smp.Data(comp.MAD))
	}
	if m.asking && r != m.chart.f.Self {
		m.floatPort(r, &pi, err)
		return
	}
	if m.asking {
		lids := lid.Range{Base: p.LID, LMC: p.LMC}
		if m.float != nil {
			lids = m.float.previous
		}
		if err != nil || pi.PortState != ib.StateActive || pi.LID != lids.Base || pi.LMC != lids.LMC {
			m.refusal = errOwn.Error()
			return
		}
		if m.restarted() && pi.MasterSMLID != lids.Base {
			m.refusal = fmt.Sprintf("our own port names LID %v as that of its master, so another manager was master", pi.MasterSMLID)
			return
		}
		p.Info = pi
		return
	}
	if err != nil {
		return
	}
	if it.Extra() != 0 {
		p.Flags |= topo.PortNoExt
	}
	end := p.Has(topo.PortEnd)
	if pi.PortState != ib.StateActive || end && (pi.LID != p.LID || pi.LMC != p.LMC) {
		m.result.Changed++
		m.differs(r, min(pi.PortState, ib.StateInit))
		return
	}
	if p.Info = pi; end && m.ports.Lacks(p) {
		m.Add(work.Make(work.OpTell, r.Node, r.Port, 0))
	}
}

// End ends the check. It returns the result of the takeover, and a snapshot with the findings, made
// from the published one, or nil if the published one is correct.
func (m *Machine) End(published *subnet.Snapshot) (r Result, s *subnet.Snapshot) {
	if len(m.found) > 0 {
		s = &subnet.Snapshot{}
		*s = *published
		m.show(s, published)
	}
	r = m.result
	m.end()
	return r, s
}

func (m *Machine) end() {
	m.s, m.chart, m.state, m.asking, m.ahead, m.float = nil, chart{}, nil, false, false, nil
	m.first, m.drawn = false, false
	m.checks, m.tells, m.reads, m.found = nil, nil, nil, nil
}
