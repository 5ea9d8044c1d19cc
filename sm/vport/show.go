package vport

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/sm/notice"
	"heddle/sm/topo"
	"heddle/subnet"
)

// VPorts in snapshots, in Status and in notices. A VPort that has been up has an entry as long as its
// port is in the subnet, so a change of one VPort changes one entry.

// showEvery is how often changes of VPorts are published, unless somebody waits for them: hosts
// bring up and take down many VPorts at a time.
const showEvery = 50 * time.Millisecond

// Show has the entry of a VPort brought up to date in the next snapshot.
func (m *Manager) Show(r Ref) {
	if v := r.VPort(); v != nil && !v.entered {
		if v.state <= ib.StateDown {
			return
		}
		v.entered = true
	}
	if n := len(m.shown); n == 0 || m.shown[n-1] != r {
		m.shown = append(m.shown, r)
	}
}

// showAdapter has the entry of an adapter's port brought up to date.
func (m *Manager) showAdapter(a *Adapter) {
	var s *subnet.Adapter
	if a.kind != noKind {
		s = &subnet.Adapter{Model: a.kind.model, Info: a.info, Functions: a.functions}
	}
	if s == nil && a.shows == nil || s != nil && a.shows != nil && *s == *a.shows {
		return
	}
	a.shows = s
	m.shown = append(m.shown, Ref{a, 0})
}

// ShownAdapter is what a snapshot shows of the functions of a port.
func (m *Manager) ShownAdapter(p *topo.Port) *subnet.Adapter {
	if p.LID == 0 || p.Num == 0 || m.Fabric.Nodes[p.Node].Info.NodeType != ib.NodeCA {
		return nil
	}
	if a := m.byPort[p.GUID]; a != nil && a.at == (subnet.Ref{Node: p.Node, Port: p.Num}) {
		return a.shows
	}
	return nil
}

// Append appends the VPorts to a new snapshot, ordered by the index of their port and their own.
func (m *Manager) Append(s *subnet.Snapshot) {
	m.first, m.odd = int32(len(s.Ports)), m.odd[:0]
	type at struct {
		port int32
		a    *Adapter
	}
	var list []at
	for _, a := range m.list {
		if a.at.Node >= 0 && len(a.vports) > 0 {
			list = append(list, at{s.Nodes[m.SnapshotIndex[a.at.Node]].First + int32(a.at.Port), a})
		}
	}
	slices.SortFunc(list, func(a, b at) int { return cmp.Compare(a.port, b.port) })
	for _, x := range list {
		for _, v := range x.a.vports {
			if v != nil && v.entered {
				p := m.entry(s, Ref{x.a, v.index}, x.port)
				s.Ports = append(s.Ports, &p)
				if i := int32(len(s.Ports) - 1); misled(s, i) {
					m.odd = append(m.odd, Ref{x.a, v.index})
				}
			}
		}
	}
	m.allShown()
}

func (m *Manager) allShown() {
	m.shown, m.relist, m.flush, m.shownAt = m.shown[:0], false, false, m.Now
	for _, a := range m.unseen {
		m.queue(a)
	}
	m.unseen = m.unseen[:0]
}

// entry is the entry of a VPort behind the port with an index in s.Ports.
func (m *Manager) entry(s *subnet.Snapshot, r Ref, port int32) subnet.Port {
	if p, ok := m.needs.Placements.Entry(s, r, port); ok {
		return p
	}
	v := r.VPort()
	q := *s.Ports[port]
	lid, wait := m.lidOf(r)
	if wait && !v.info.LIDRequired && v.state < ib.StateArmed {
		lid = 0
	}
	q.Adapter = nil
	q.GUID, q.LID, q.LMC, q.Placed = v.info.PortGUID, lid, 0, m.needs.Placements.LIDOwner(lid)
	q.Info.PortState, q.Info.LID, q.Info.LMC = v.state, lid, 0
	q.Info.GUIDCap = v.info.GUIDCap
	q.Info.PKeyViolations, q.Info.QKeyViolations = v.info.PKeyViolations, v.info.QKeyViolations
	q.Info.CapabilityMask = q.Info.CapabilityMask&^ownCapabilities | portCaps(v.info.CapabilityMask)
	q.Aliases = nil
	q.PKeys = m.needs.PKeys.Shown(v.Keys)
	if len(v.guids) > 0 {
		q.Aliases = v.guids
	}
	if m.byGUID[v.info.PortGUID] != r || m.needs.Placements.ShownElsewhere(v.info.PortGUID, r.Place()) ||
		v.state < ib.StateArmed || lid == 0 || v.info.LIDRequired && !LeadsTo(s, lid, q.EndPort) {
		q.EndPort = -1
	}
	own := v.info.LIDRequired && lid != 0
	x := subnet.Virtual{Port: port, Index: v.index, OwnLID: own, Info: v.info, Node: v.node, Desc: v.desc}
	if v.shows == nil || *v.shows != x {
		v.shows = &x
	}
	q.Virtual = v.shows
	return q
}

// LeadsTo reports whether the graph of a snapshot has a LID at an end port. A VPort whose own LID does
// not lead to its port cannot be reached.
func LeadsTo(s *subnet.Snapshot, l ib.LID, end int32) bool {
	return s.Graph != nil && int(l) < len(s.Graph.LIDOwner) && s.Graph.LIDOwner[l] == end
}

// misled reports whether an entry shows a VPort as reachable whose LID does not lead to it, or one as
// not reachable whose LID does.
func misled(s *subnet.Snapshot, i int32) bool {
	p := s.Ports[i]
	return p.Virtual.OwnLID && p.State() >= ib.StateArmed &&
		LeadsTo(s, p.LID, s.Ports[p.Virtual.Port].EndPort) != (p.EndPort >= 0)
}

// showRouted has the entries updated of VPorts that the graph of s, which is another one than that of
// old, has made reachable, or cut off.
func (m *Manager) showRouted(s, old *subnet.Snapshot) {
	show := func(i int32) {
		v := s.Ports[i].Virtual
		if a := m.byPort[s.Ports[v.Port].GUID]; misled(s, i) && a != nil && int(v.Index) < len(a.vports) && a.vports[v.Index] != nil {
			m.Show(Ref{a, v.Index})
		}
	}
	lids, ok := s.Moved(old)
	if !ok || len(lids) > len(s.Ports)/64 {
		for i := m.first; int(i) < len(s.Ports); i++ {
			show(i)
		}
		return
	}
	// Those that were so before, whatever for, and those at the ports that lost or got a LID.
	for _, r := range m.odd {
		if r.Adapter.at.Node < 0 {
			continue
		}
		if i := s.VPort(s.Nodes[m.SnapshotIndex[r.Adapter.at.Node]].First+int32(r.Adapter.at.Port), r.Index); i >= 0 {
			show(i)
		}
	}
	for _, l := range lids {
		for _, x := range [2]*subnet.Snapshot{old, s} {
			g := x.Graph
			if int(l) >= len(g.LIDOwner) || g.LIDOwner[l] < 0 {
				continue
			}
			for i := range s.VPortsOf(s.EndPortPort[g.LIDOwner[l]]) {
				show(i)
			}
		}
	}
}

// noteOdd notes whether the entry of a VPort, the one with index i in s, is as its LID leads.
func (m *Manager) noteOdd(s *subnet.Snapshot, r Ref, i int32) {
	switch at := slices.Index(m.odd, r); {
	case misled(s, i) && at < 0:
		m.odd = append(m.odd, r)
	case !misled(s, i) && at >= 0:
		m.odd = slices.Delete(m.odd, at, at+1)
	}
}

// capabilities pairs the capabilities of a VPort with those of a port.
var capabilities = [...]struct {
	v    ib.VPortCapMask
	port ib.CapMask
}{
	{ib.VPortCapIsCommunicationManagementSupported, ib.CapIsCommunicationManagementSupported},
	{ib.VPortCapIsSNMPTunnelingSupported, ib.CapIsSNMPTunnelingSupported},
	{ib.VPortCapIsDeviceManagementSupported, ib.CapIsDeviceManagementSupported},
	{ib.VPortCapIsVendorClassSupported, ib.CapIsVendorClassSupported},
	{ib.VPortCapIsBootManagementSupported, ib.CapIsBootManagementSupported},
	{ib.VPortCapIsSM, ib.CapIsSM},
	{ib.VPortCapIsSMDisabled, ib.CapIsSMDisabled},
}

// ownCapabilities are the capabilities that a VPort has for itself.
var ownCapabilities = portCaps(0xFFFF)

// portCaps are capabilities of a VPort as those of a port.
func portCaps(m ib.VPortCapMask) (p ib.CapMask) {
	for _, x := range capabilities {
		if m&x.v != 0 {
			p |= x.port
		}
	}
	return p
}

// ToShow reports whether changes of virtual ports are to be published now.
func (m *Manager) ToShow() bool {
	return m.Unshown() && (m.flush || m.Now.Sub(m.shownAt) >= showEvery)
}

// Unshown reports whether there are changes that no snapshot has.
func (m *Manager) Unshown() bool { return m.relist || len(m.shown) > 0 }

// Flush has all changes published at the next opportunity.
func (m *Manager) Flush() { m.flush = m.Unshown() }

// ShowLater has changes published later that were not published now.
func (m *Manager) ShowLater() {
	if m.Unshown() {
		m.retry = min(m.retry, max(m.shownAt.Add(showEvery), m.Now))
	}
}

// Update updates the VPorts of s, which is a copy of the last snapshot, old. It returns the indices of
// the entries that changed, nil if all may have.
func (m *Manager) Update(s, old *subnet.Snapshot) (changed []int32) {
	if s.Graph != old.Graph {
		m.showRouted(s, old)
	}
	if !m.relist && len(m.shown) == 0 {
		return nil
	}
	for _, r := range m.shown {
		if r.Adapter.at.Node < 0 {
			continue
		}
		port := s.Nodes[m.SnapshotIndex[r.Adapter.at.Node]].First + int32(r.Adapter.at.Port)
		switch {
		case r.Index == 0:
			s.Edit(old, port).Adapter = r.Adapter.shows
		case m.relist || !r.VPort().entered:
		default:
			p := m.entry(s, r, port)
			i := s.VPort(port, r.Index)
			if i >= 0 {
				*s.Edit(old, i) = p
			} else if i = s.AddVPort(old, &p); i < 0 {
				m.relist = true
			}
			if i >= 0 {
				m.noteOdd(s, r, i)
			}
			changed = append(changed, i)
		}
	}
	if m.relist {
		s.Ports = slices.Clone(s.Ports[:m.first])
		m.Append(s)
		return nil
	}
	m.allShown()
	slices.Sort(changed)
	return slices.Compact(changed)
}

// Status counts the adapters of a subnet and their VPorts.
type Status struct {
	Adapters    int // ports with virtual ports or vSwitch functions that are turned on
	SharedPorts int // ports that hold functions in their GUID table alone
	Refused     int // ports whose virtual ports are left alone: unknown, refused, or turned off
	Functions   int // that the adapters have now
	// VPorts by their state; what is neither is Down.
	Init, Armed, Active int
}

// Status counts what is known.
func (m *Manager) Status() (s Status) {
	for _, a := range m.list {
		switch {
		case a.at.Node < 0:
			continue
		case a.kind.shared:
			s.SharedPorts++
			continue
		case a.step == adapterRefused:
			s.Refused++
			continue
		case a.info.VirtualizationEnable:
			s.Adapters++
			s.Functions += int(a.info.VPortIndexTop)
		}
	}
	up := &m.states
	s.Init, s.Armed, s.Active = up[ib.StateInit], up[ib.StateArmed], up[ib.StateActive]
	return s
}

// tell emits a notice about a VPort that shows info.
func (m *Manager) tell(kind notice.Kind, r Ref, info *smp.VPortInfo, text string, err error) {
	n := notice.Notice{Kind: kind, Level: notice.Info, Err: err}
	n.Text = "VPort " + strconv.Itoa(int(r.Index))
	if at := r.Adapter.at; m.Fabric.Has(at) && m.Fabric.Port(at).GUID == r.Adapter.port {
		n.Where = m.Fabric.Where(at.Node, int(at.Port))
	} else { // it was of an earlier discovery
		n.Text += " of port " + r.Adapter.port.String()
	}
	if info.PortGUID != 0 {
		n.Text += " GUID " + info.PortGUID.String()
	}
	if info.LIDRequired && info.VPortLID != 0 {
		n.Text += " LID " + info.VPortLID.String()
	}
	n.Text += ": " + text
	switch {
	case kind != notice.KindVPortUp && kind != notice.KindVPortDown:
		n.Level = notice.Warn
	case r.Adapter.first:
		n.Level = notice.Debug // all of an adapter that came, or of a new master: the counts say it
	}
	m.Notify(n)
}

// trouble emits a notice about a VPort that is not as it should be, once.
func (m *Manager) trouble(kind notice.Kind, r Ref, text string, err error) {
	if m.NoteOnce(kind.String() + r.Place().String() + text) {
		m.tell(kind, r, &r.VPort().info, text, err)
	}
}
