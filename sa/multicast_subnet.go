package sa

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"heddle/ib"
	"heddle/mad"
	"heddle/partition"
	"heddle/subnet"
)

// published updates the groups from a new snapshot. It acts only on snapshots of a
// subnet that this manager has brought up: before that, a missing port may merely be
// undiscovered.
//
// A missing port leaves its groups immediately, as with OpenSM. Waiting would keep
// empty groups alive and delay the traps about them. A port that returns is asked to
// reregister (IBA §14.4.11), which its host would do anyway after a link failure.
// Members are identified by GUID, so a virtual port that merely moved never leaves;
// a missing virtual port keeps its memberships for a while (multicast_away.go).
func (x *multicast) published(c *Core, old, s *subnet.Snapshot) {
	if s.State != subnet.Master || !s.Up {
		if m := s.Master.GUID; m != 0 && m != s.PortGUID && !x.takeover.foreign {
			x.takeover = takeover{foreign: true}
			x.saveState(c)
		}
		if s.Warm {
			x.limit = highestMLID(s)
		}
		return
	}
	if old != nil && (old.State != subnet.Master || !old.Up) {
		old = nil // changes up to then were not processed
	}
	if old == nil || !subnet.SameNodes(old, s) {
		x.limit = highestMLID(s)
	}
	if s.Partitions != nil && (s.Partitions != x.policy || old == nil || old.PacketLife != s.PacketLife) {
		x.apply(c, s)
	}
	if old == nil {
		x.fit(c, nil, s, nil, true)
	} else if ports := c.absent.and(s, x.away.back(s, differing(old, s))); len(ports) > 0 || x.aliases > 0 {
		x.fit(c, old, s, ports, false)
	}
	x.away.soonest()
	x.takeover.begin(c, x)
}

// highestMLID is the highest MLID that the smallest multicast forwarding table
// can hold.
func highestMLID(s *subnet.Snapshot) ib.LID {
	room := int(ib.LIDMaxMulticast-ib.LIDMinMulticast) + 1
	for i := range s.Nodes {
		if n := &s.Nodes[i]; n.OK && n.Info.NodeType == ib.NodeSwitch {
			room = min(room, int(n.Switch.MulticastFDBCap))
		}
	}
	return ib.LID(int(ib.LIDMinMulticast) + room - 1)
}

// differing returns the end ports of old, by ascending GUID, that are missing
// from s or have other P_Keys there.
func differing(old, s *subnet.Snapshot) (out []ib.GUID) {
	if len(old.Ports) == 0 || subnet.SamePorts(old, s) {
		return nil
	}
	look := func(i int32) {
		p := old.Ports[i]
		k := i // most ports keep their index
		if int(k) < len(s.Ports) && s.Ports[k] == p {
			return
		}
		if int(k) >= len(s.Ports) || s.Ports[k].GUID != p.GUID || s.Ports[k].EndPort < 0 {
			k = s.PortByGUID(p.GUID)
		}
		if k < 0 || !sameKeys(p.PKeys, s.Ports[k].PKeys) {
			out = append(out, p.GUID)
		}
	}
	for _, i := range old.EndPortPort {
		look(i)
	}
	for i := old.FirstVPort(); int(i) < len(old.Ports); i++ {
		if old.Ports[i].EndPort >= 0 {
			look(i)
		}
	}
	for _, g := range old.Unsure {
		if !s.IsUnsure(g) {
			out = append(out, g)
		}
	}
	slices.Sort(out)
	return out
}

// sameKeys compares P_Key tables; ports with equal tables share the slice.
func sameKeys(a, b []ib.PKey) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0] || slices.Equal(a, b)) && (a == nil) == (b == nil)
}

// fit removes members whose port is gone or no longer has the group's P_Key.
// Members by hardware GUID are checked if they are in ports, or if all is set.
// Members by alias GUID are always checked, because an alias may have moved to
// another port.
func (x *multicast) fit(c *Core, old, s *subnet.Snapshot, ports []ib.GUID, all bool) {
	var gone []*mcGroup
	left := 0
	for _, g := range x.list {
		k, out := 0, 0 // ports and members both ascend; k is the index in ports
		for i := range g.Members {
			m := &g.Members[i]
			u := m.PortGID.GUID()
			look := all || u != m.PortGUID
			if !look {
				for k < len(ports) && ports[k] < u {
					k++
				}
				look = k < len(ports) && ports[k] == u
			}
			if !look {
				continue
			}
			p := s.PortByGUID(u)
			if p < 0 {
				p = s.PortByGUID(m.PortGUID) // the alias may not be programmed yet
			}
			switch {
			case p < 0 && (c.maybeThere(s, u) || c.maybeThere(s, m.PortGUID)): // it may still be in the subnet
			case p < 0 && x.away.waits(c, old, u):
			case p < 0 || s.Ports[p].PKeys != nil && !s.HasPKey(p, g.PKey): // a P_Key table that was not read proves nothing
				x.touch(c, g)
				x.forget(c, g, &g.Members[i])
				g.Members[i].JoinState = 0
				out++
			case s.Ports[p].GUID != m.PortGUID:
				moved := *m
				moved.PortGUID = s.Ports[p].GUID
				x.setMember(c, g, i, true, moved, x.askedBy(g, m))
			}
		}
		if out > 0 {
			left += out
			g.Members = slices.DeleteFunc(g.Members, func(m Member) bool { return m.JoinState == 0 })
		}
		if g.unkept() {
			gone = append(gone, g)
		}
	}
	for _, g := range gone {
		x.remove(c, g, "the ports of its full members left the subnet or the partition")
	}
	if left > 0 {
		c.notice("members_left", fmt.Sprintf("%d memberships in multicast groups ended: their ports left the subnet or the partition", left))
	}
}

// apply makes the groups of the partitions permanent, those of the default
// partition first, so that its broadcast group gets MLID 0xC000 in a new
// subnet. A group that is no longer permanent stays while it has members that
// keep it alive. An existing group of the same MGID becomes permanent.
func (x *multicast) apply(c *Core, s *subnet.Snapshot) {
	x.policy = s.Partitions
	type wish struct {
		key ib.PKey
		g   *partition.Group
	}
	wanted := map[ib.GID]wish{}
	var order []ib.GID
	list := s.Partitions.Partitions
	def := slices.IndexFunc(list, func(p partition.Partition) bool { return p.PKey == partition.DefaultKey })
	take := func(p *partition.Partition) {
		for i := range p.Groups {
			g := &p.Groups[i]
			if _, twice := wanted[g.MGID]; !twice {
				wanted[g.MGID] = wish{p.PKey, g}
				order = append(order, g.MGID)
			}
		}
	}
	if def >= 0 {
		take(&list[def])
	}
	for i := range list {
		if i != def {
			take(&list[i])
		}
	}
	for _, g := range slices.Clone(x.list) {
		if _, ok := wanted[g.MGID]; ok || !g.WellKnown {
			continue
		}
		x.touch(c, g)
		if g.WellKnown = false; g.unkept() {
			x.remove(c, g, "its partition no longer has it")
		} else {
			x.saveGroup(c, g)
		}
	}
	refused := false
	for _, mgid := range order {
		w := wanted[mgid]
		g := Group{
			MGID: mgid, QKey: w.g.QKey, PKey: w.key | 0x8000, MTU: w.g.MTU, Rate: w.g.Rate, PacketLife: s.PacketLife, SL: w.g.SL,
			TClass: w.g.TClass, FlowLabel: w.g.FlowLabel, HopLimit: w.g.HopLimit, Scope: mgid[1] & 0xF, WellKnown: true,
		}
		have := x.group(mgid)
		if have == nil {
			if g.MLID = x.choose(c, &g, 0, 0); g.MLID == 0 {
				if refused = true; !x.refused {
					c.out.Notices = append(c.out.Notices, Notice{
						Kind: "group_refused", Warn: true,
						Text: "the permanent multicast group " + mgid.String() + " has no MLID: the smallest multicast table of a switch holds " +
							fmt.Sprint(int(x.limit)-int(ib.LIDMinMulticast)+1) + " groups, all in use",
					})
				}
				x.policy = nil // retry with the next snapshot
				continue
			}
			x.create(c, &mcGroup{Group: g}, "permanent group of its partition")
			continue
		}
		g.MLID, g.Members = have.MLID, have.Members
		if sameGroup(&g, &have.Group) {
			continue
		}
		x.touch(c, have)
		g.Members = have.Members
		have.Group = g
		x.saveGroup(c, have)
	}
	x.refused = refused
}

// sameGroup compares everything but the members.
func sameGroup(a, b *Group) bool {
	return a.record() == b.record() && a.WellKnown == b.WellKnown
}

// takeover handles memberships after this manager replaces another master.
// Ports joined and left meanwhile, and they cannot be queried. So all groups
// keep their members and MLIDs, and no packet is lost, while the subnet manager
// asks ports to reregister. A membership that is not confirmed within
// Config.RejoinTime ends.
type takeover struct {
	foreign bool                   // another manager was master, and memberships are not yet confirmed; stored
	pending map[membershipID]uint8 // memberships that await confirmation
	until   mad.Time               // their deadline; valid only with pending
}

type membershipID struct{ mgid, port ib.GID }

// begin starts the wait for ports to reregister, if it is needed.
func (t *takeover) begin(c *Core, x *multicast) {
	if !t.foreign || t.pending != nil {
		return
	}
	t.pending = map[membershipID]uint8{}
	if c.cfg.RejoinTime > 0 {
		for _, g := range x.list {
			for i := range g.Members {
				t.pending[membershipID{g.MGID, g.Members[i].PortGID}] = g.Members[i].JoinState
			}
		}
	}
	t.until = c.now.Add(c.cfg.RejoinTime)
}

// confirm marks a membership as current.
func (t *takeover) confirm(mgid, port ib.GID) {
	if t.pending != nil {
		delete(t.pending, membershipID{mgid, port})
	}
}

// dropUnconfirmed ends the wait. Ports that cannot be asked to reregister keep
// their memberships.
func (x *multicast) dropUnconfirmed(c *Core) {
	late := slices.SortedFunc(maps.Keys(x.takeover.pending), func(a, b membershipID) int {
		return cmp.Or(compareGID(a.mgid, b.mgid), compareGID(a.port, b.port))
	})
	x.takeover = takeover{}
	left := 0
	for _, id := range late {
		g := x.group(id.mgid)
		if g == nil {
			continue
		}
		i, is := g.member(id.port.GUID())
		if !is || !mayRegister(c.snap, g.Members[i].PortGUID) {
			continue
		}
		x.takeOut(c, g, i)
		if left++; g.unkept() {
			x.remove(c, g, "its full members did not join again under this manager")
		}
	}
	x.saveState(c)
	if left > 0 {
		c.notice("members_left", fmt.Sprintf("%d memberships in multicast groups ended: their ports did not rejoin after the change of master", left))
	}
}

func mayRegister(s *subnet.Snapshot, port ib.GUID) bool {
	i := s.PortByGUID(port)
	return i >= 0 && !s.Nodes[s.Ports[i].Node].Unseen && (s.Ports[i].Virtual != nil || s.Ports[i].Info.CapabilityMask.Has(ib.CapIsClientReregistrationSupported))
}
