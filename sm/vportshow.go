package sm

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

// Virtual ports in snapshots, in Status and in notices. Once a VPort has been up it
// has an entry as long as its port is in the subnet, so that a change of one is a
// change of one entry.

// showEvery is how often changes of virtual ports are published, unless somebody waits
// to see them: each snapshot has a copy of all ports, and hosts bring up and take down
// many VPorts at a time.
const showEvery = 50 * time.Millisecond

// showVPort has the entry of a VPort brought up to date in the next snapshot.
func (c *Core) showVPort(r vportRef) {
	k := &c.virt
	if v := r.vport(); v != nil && !v.entered {
		if v.state <= ib.StateDown {
			return
		}
		v.entered, k.relist = true, true
	}
	if n := len(k.shown); n == 0 || k.shown[n-1] != r {
		k.shown = append(k.shown, r)
	}
}

// showAdapter has the entry of an adapter's port brought up to date.
func (c *Core) showAdapter(a *adapter) {
	var s *subnet.Adapter
	if a.model != subnet.NoFunctions {
		s = &subnet.Adapter{Model: a.model, Info: a.info, Functions: a.functions}
	}
	if s == nil && a.shows == nil || s != nil && a.shows != nil && *s == *a.shows {
		return
	}
	a.shows = s
	c.virt.shown = append(c.virt.shown, vportRef{a, 0})
}

// adapterOf is what a snapshot shows of the functions of a port.
func (c *Core) adapterOf(p *topo.Port) *subnet.Adapter {
	if p.LID == 0 || p.Num == 0 || c.Fabric.Nodes[p.Node].Info.NodeType != ib.NodeCA {
		return nil
	}
	if a := c.virt.byPort[p.GUID]; a != nil && a.at == (ref{Node: p.Node, Port: p.Num}) {
		return a.shows
	}
	return nil
}

// showVPorts appends the virtual ports to a new snapshot, by the index of their
// port and their own.
func (c *Core) showVPorts(s *subnet.Snapshot) {
	k := &c.virt
	k.first = int32(len(s.Ports))
	type at struct {
		port int32
		a    *adapter
	}
	var list []at
	for _, a := range k.list {
		if a.at.Node >= 0 && len(a.vports) > 0 {
			list = append(list, at{s.Nodes[c.SnapshotIndex[a.at.Node]].First + int32(a.at.Port), a})
		}
	}
	slices.SortFunc(list, func(a, b at) int { return cmp.Compare(a.port, b.port) })
	for _, x := range list {
		for _, v := range x.a.vports {
			if v != nil && v.entered {
				s.Ports = append(s.Ports, c.vportEntry(s, vportRef{x.a, v.index}, x.port))
			}
		}
	}
	c.allVirtualsShown()
}

func (c *Core) allVirtualsShown() {
	k := &c.virt
	k.shown, k.relist, k.flush, k.shownAt = k.shown[:0], false, false, c.Now
	for _, a := range k.unseen {
		c.queueAdapter(a)
	}
	k.unseen = k.unseen[:0]
}

// vportEntry is the entry of a VPort behind the port with an index in s.Ports.
func (c *Core) vportEntry(s *subnet.Snapshot, r vportRef, port int32) subnet.Port {
	if h := c.entryAt(s, r, port); h != nil {
		return h.as(s, r, port)
	}
	v := r.vport()
	q := s.Ports[port]
	lid, wait := c.lidOfVPort(r)
	if wait && !v.info.LIDRequired && v.state < ib.StateArmed {
		lid = 0
	}
	q.Adapter = nil
	q.GUID, q.LID, q.LMC = v.info.PortGUID, lid, 0
	q.Info.PortState, q.Info.LID, q.Info.LMC = v.state, lid, 0
	q.Info.GUIDCap, q.Info.PKeyViolations, q.Info.QKeyViolations = v.info.GUIDCap, v.info.PKeyViolations, v.info.QKeyViolations
	q.Info.CapabilityMask = q.Info.CapabilityMask&^vportOwnCaps | portCaps(v.info.CapabilityMask)
	q.Aliases = nil
	q.PKeys = c.vportPKeys(v)
	if len(v.guids) > 0 {
		q.Aliases = v.guids
	}
	if c.virt.byGUID[v.info.PortGUID] != r || c.entryElsewhere(v.info.PortGUID, r.place()) || v.state < ib.StateArmed || lid == 0 || v.info.LIDRequired && !leadsTo(s, lid, q.EndPort) {
		q.EndPort = -1
	}
	x := subnet.Virtual{Port: port, Index: v.index, OwnLID: v.info.LIDRequired && lid != 0, Info: v.info, Node: v.node, Desc: v.desc}
	if v.shows == nil || *v.shows != x {
		v.shows = &x
	}
	q.Virtual = v.shows
	return q
}

// leadsTo reports whether the graph of a snapshot has a LID at an end port: a VPort
// whose own LID is not routed to it, or not any more, cannot be reached.
func leadsTo(s *subnet.Snapshot, l ib.LID, end int32) bool {
	return s.Graph != nil && int(l) < len(s.Graph.LIDOwner) && s.Graph.LIDOwner[l] == end
}

// showRouted has the entries of VPorts looked at again that another graph has made
// reachable, or cut off.
func (c *Core) showRouted(s *subnet.Snapshot) {
	for i := int(c.virt.first); i < len(s.Ports); i++ {
		p := &s.Ports[i]
		if !p.Virtual.OwnLID || p.State() < ib.StateArmed {
			continue
		}
		phys := &s.Ports[p.Virtual.Port]
		if leadsTo(s, p.LID, phys.EndPort) == (p.EndPort >= 0) {
			continue
		}
		if a := c.virt.byPort[phys.GUID]; a != nil && int(p.Virtual.Index) < len(a.vports) && a.vports[p.Virtual.Index] != nil {
			c.showVPort(vportRef{a, p.Virtual.Index})
		}
	}
}

// vportCaps pairs the capabilities of a VPort with those of a port.
var vportCaps = [...]struct {
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

// vportOwnCaps are the capabilities that a VPort has for itself.
var vportOwnCaps = portCaps(0xFFFF)

// portCaps are capabilities of a VPort as those of a port.
func portCaps(m ib.VPortCapMask) (p ib.CapMask) {
	for _, x := range vportCaps {
		if m&x.v != 0 {
			p |= x.port
		}
	}
	return p
}

// virtualsToShow reports whether changes of virtual ports are to be published now.
func (c *Core) virtualsToShow() bool {
	k := &c.virt
	return k.unshown() && (k.flush || c.Now.Sub(k.shownAt) >= showEvery)
}

// unshown reports whether there are changes that no snapshot has.
func (k *virtuals) unshown() bool { return k.relist || len(k.shown) > 0 }

// showNow publishes changes at once.
func (c *Core) showNow() {
	c.virt.flush = c.virt.unshown()
	c.publishHeld()
}

// showLater sees to it that changes that were not published now are in time.
func (c *Core) showLater() {
	if k := &c.virt; k.unshown() {
		k.retry = min(k.retry, max(k.shownAt.Add(showEvery), c.Now))
	}
}

// showVirtuals brings a copy of the last snapshot up to date with virtual ports. It
// returns the indices of the entries that changed, nil if all may have.
func (c *Core) showVirtuals(s, old *subnet.Snapshot) (changed []int32) {
	k := &c.virt
	if s.Graph != old.Graph {
		c.showRouted(s)
	}
	if !k.relist && len(k.shown) == 0 {
		return nil
	}
	if len(s.Ports) > 0 && &s.Ports[0] == &old.Ports[0] {
		s.Ports = slices.Clone(old.Ports)
	}
	for _, r := range k.shown {
		if r.a.at.Node < 0 {
			continue
		}
		port := s.Nodes[c.SnapshotIndex[r.a.at.Node]].First + int32(r.a.at.Port)
		switch {
		case r.index == 0:
			s.Ports[port].Adapter = r.a.shows
		case k.relist || !r.vport().entered:
		default:
			if i := old.VPort(port, r.index); i >= 0 {
				s.Ports[i] = c.vportEntry(s, r, port)
				changed = append(changed, i)
			}
		}
	}
	if k.relist {
		s.Ports = s.Ports[:k.first]
		c.showVPorts(s)
		return nil
	}
	c.allVirtualsShown()
	slices.Sort(changed)
	return slices.Compact(changed)
}

// virtualStatus counts what is known.
func (c *Core) virtualStatus() (s VirtualStatus) {
	for _, a := range c.virt.list {
		switch {
		case a.at.Node < 0:
			continue
		case a.model == subnet.SharedPort:
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
	up := &c.virt.up
	s.Init, s.Armed, s.Active = up[ib.StateInit], up[ib.StateArmed], up[ib.StateActive]
	return s
}

// vportNotice tells something about a VPort that shows info.
func (c *Core) vportNotice(kind notice.Kind, r vportRef, info *smp.VPortInfo, text string, err error) {
	n := notice.Notice{Kind: kind, Level: notice.Info, Err: err}
	n.Text = "VPort " + strconv.Itoa(int(r.index))
	if at := r.a.at; c.Fabric.Has(at) && c.Fabric.Port(at).GUID == r.a.port {
		n.Where = c.Fabric.Where(at.Node, int(at.Port))
	} else { // it was of an earlier discovery
		n.Text += " of port " + r.a.port.String()
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
	case r.a.first:
		n.Level = notice.Debug // all of an adapter that came, or of a new master: the counts say it
	}
	c.Notify(n)
}

// vportTrouble tells something about a VPort that is not as it should be, once.
func (c *Core) vportTrouble(kind notice.Kind, r vportRef, text string, err error) {
	if c.NoteOnce(kind.String() + r.place().String() + text) {
		c.vportNotice(kind, r, &r.vport().info, text, err)
	}
}
