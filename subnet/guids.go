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
	var x, y ib.GUID // the last of each: where two ports show a GUID, that is one address
	for {
		for len(a) > 0 && (a[0].alias || a[0].guid == x) {
			a = a[1:]
		}
		for len(b) > 0 && (b[0].alias || b[0].guid == y) {
			b = b[1:]
		}
		switch {
		case len(a) == 0 && len(b) == 0:
			return
		case len(b) == 0 || len(a) > 0 && a[0].guid < b[0].guid:
			x = a[0].guid
			gone(a[0].port)
		case len(a) == 0 || a[0].guid > b[0].guid:
			y = b[0].guid
			came(b[0].port)
		default:
			x, y = a[0].guid, b[0].guid
		}
	}
}
