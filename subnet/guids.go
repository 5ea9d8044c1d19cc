package subnet

import (
	"cmp"
	"slices"

	"heddle/ib"
)

func byGUID(a, b guidRef) int {
	switch {
	case a.guid != b.guid:
		return cmp.Compare(a.guid, b.guid)
	case a.alias != b.alias:
		if b.alias {
			return -1
		}
		return 1
	}
	return cmp.Compare(a.port, b.port)
}

// Alias is the alias GUID that the port acknowledged at an index of its
// GUIDInfo table, 0 if there is none.
func (p *Port) Alias(index uint8) ib.GUID {
	if int(index) >= len(p.Aliases) {
		return 0
	}
	return p.Aliases[index]
}

func appendAliases(list []guidRef, p *Port, i int32) []guidRef {
	for _, a := range p.Aliases {
		if a != 0 {
			list = append(list, guidRef{a, i, true})
		}
	}
	return list
}

// carryAliases replaces the aliases of some nodes' ports in guidPort, which s
// shares with old until then.
func (s *Snapshot) carryAliases(old *Snapshot, nodes []int32) {
	changed := map[int32]bool{}
	var added []guidRef
	for _, n := range nodes {
		ports, before := s.NodePorts(n), old.NodePorts(n)
		for k := range ports {
			if i := s.Nodes[n].First + int32(k); ports[k].EndPort >= 0 && !slices.Equal(ports[k].Aliases, before[k].Aliases) {
				changed[i] = true
				added = appendAliases(added, &ports[k], i)
			}
		}
	}
	if len(changed) == 0 {
		return
	}
	slices.SortFunc(added, byGUID)
	list := make([]guidRef, 0, len(old.guidPort)+len(added))
	for _, r := range old.guidPort {
		if r.alias && changed[r.port] {
			continue
		}
		for len(added) > 0 && byGUID(added[0], r) < 0 {
			list, added = append(list, added[0]), added[1:]
		}
		list = append(list, r)
	}
	s.guidPort = append(list, added...)
}

// PortByPortGUID returns the index in Ports of the end port whose own GUID it
// is, or -1.
func (s *Snapshot) PortByPortGUID(g ib.GUID) int32 {
	i, ok := slices.BinarySearchFunc(s.guidPort, g, func(r guidRef, g ib.GUID) int { return cmp.Compare(r.guid, g) })
	if !ok || s.guidPort[i].alias {
		return -1
	}
	return s.guidPort[i].port
}

// DiffEndPorts compares the end ports of two snapshots by port GUID: gone is
// called for each that new does not have, with its index in old.Ports, and came
// for each that old does not have, with its index in new.Ports, both in ascending
// order of GUIDs. Either snapshot may be nil, which has none. Where the two share
// their list, as snapshots do between which no end port came or went and no
// alias changed, nothing is compared; else it takes time proportional to the end
// ports.
func DiffEndPorts(old, new *Snapshot, gone, came func(i int32)) { //nolint:revive // old and new are what they are
	var a, b []guidRef
	if old != nil {
		a = old.guidPort
	}
	if new != nil {
		b = new.guidPort
	}
	if len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) {
		return
	}
	for len(a) > 0 || len(b) > 0 {
		switch {
		case len(a) > 0 && a[0].alias:
			a = a[1:]
		case len(b) > 0 && b[0].alias:
			b = b[1:]
		case len(b) == 0 || len(a) > 0 && a[0].guid < b[0].guid:
			gone(a[0].port)
			a = a[1:]
		case len(a) == 0 || a[0].guid > b[0].guid:
			came(b[0].port)
			b = b[1:]
		default:
			a, b = a[1:], b[1:]
		}
	}
}
