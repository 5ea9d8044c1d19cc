package sa

import (
	"slices"

	"heddle/ib"
	"heddle/subnet"
)

// migrations lists the GIDs of virtual machines that moved between two snapshots.
type migrations struct {
	// relocated GIDs have another LID; ascending GUID. GIDs that kept their own
	// LID, or use a physical port's, are not listed: their paths are reported by
	// LID.
	relocated []migration
	// carried GIDs kept their LIDs; ascending LID.
	carried []migration
	uniform bool // all paths of the subnet carry the same values
	walks   int  // remaining budget of path comparisons
}

type migration struct {
	guid    ib.GUID
	lid     ib.LID // the new LID
	was, is int32  // indices in Ports
}

// maxMoveWalks bounds the paths compared one by one (about 300 ns each) if paths
// carry different values. Beyond it, a subscriber is notified that all paths from
// its port may have changed.
const maxMoveWalks = 1 << 16

func newMigrations(old, now *subnet.Snapshot) *migrations {
	m := &migrations{walks: maxMoveWalks}
	subnet.DiffPlaces(old, now, func(g ib.GUID, was, is int32) {
		p, q := old.Ports[was], now.Ports[is]
		x := migration{g, q.LID, was, is}
		own := func(s *subnet.Snapshot, i int32) bool {
			return s.PortByLID(s.Ports[i].LID) == i && s.Ports[i].GUID == g
		}
		switch {
		case p.LID == q.LID:
			if own(old, was) && own(now, is) {
				m.carried = append(m.carried, x)
			}
		case !own(old, was) || !own(now, is):
			m.relocated = append(m.relocated, x)
		}
	})
	slices.SortFunc(m.carried, func(a, b migration) int { return int(a.lid) - int(b.lid) })
	if len(m.carried) > 0 {
		m.uniform = uniform(old) && uniform(now)
	}
	return m
}

// find returns the migration that kept a LID.
func (m *migrations) find(lid ib.LID) (*migration, bool) {
	i, ok := slices.BinarySearchFunc(m.carried, lid, func(x migration, l ib.LID) int { return int(x.lid) - int(l) })
	if !ok {
		return nil, false
	}
	return &m.carried[i], true
}

// uniform reports whether all links of a subnet carry the same values, and all paths
// have one service level.
func uniform(s *subnet.Snapshot) bool {
	if s.Graph == nil || s.Tables == nil || s.Tables.SL != nil {
		return false
	}
	g := s.Graph
	var mtu ib.MTU
	var gbps float32
	same := func(m ib.MTU, r float32) bool {
		if m == 0 && r == 0 { // port 0 of a switch
			return true
		}
		if mtu == 0 && gbps == 0 {
			mtu, gbps = m, r
		}
		return m == mtu && r == gbps
	}
	for i := range g.Channels {
		if !same(g.Channels[i].MTU, g.Channels[i].Gbps) {
			return false
		}
	}
	for i := range g.EndPorts {
		if !same(g.EndPorts[i].MTU, g.EndPorts[i].Gbps) {
			return false
		}
	}
	return true
}

// from lists the changed paths of a port to virtual machines that moved. all reports
// that any of its paths may have changed, because the port itself moved.
func (m *migrations) from(old, now *subnet.Snapshot, port int32) (list []change, all bool) {
	if len(m.relocated)+len(m.carried) == 0 {
		return nil, false
	}
	before := old.PortByPortGUID(now.Ports[port].GUID)
	if before < 0 || old.Ports[before].LID != now.Ports[port].LID {
		return nil, true
	}
	p, q := old.Ports[before], now.Ports[port]
	if old.Ports[old.Physical(before)].GUID != now.Ports[now.Physical(port)].GUID && !m.uniform {
		return nil, true
	}
	if p.MTU != q.MTU || p.Rate != q.Rate {
		return nil, true
	}
	for _, x := range m.relocated {
		if x.is != port && now.Share(port, x.is) {
			list = append(list, change{dgid: ib.MakeGID(now.Prefix, x.guid)})
		}
	}
	for _, x := range m.carried {
		if x.is == port || !now.Share(port, x.is) {
			continue
		}
		if m.uniform && now.Ports[x.is].EndPort >= 0 {
			continue
		}
		if m.walks--; m.walks < 0 {
			return nil, true
		}
		a, had := old.Path(before, x.lid)
		b, has := now.Path(port, x.lid)
		if has != had || has && (a.MTU != b.MTU || a.Rate != b.Rate || a.SL != b.SL) {
			list = append(list, change{lid: x.lid, dgid: now.GID(x.is), lost: !has})
		}
	}
	return list, len(list) > maxPathReports
}
