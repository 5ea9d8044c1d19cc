package subnet

import (
	"cmp"

	"heddle/ib"
	"heddle/internal/pages"
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

// PortByPortGUID returns the index in Ports of the end port with that port
// GUID, or -1.
func (s *Snapshot) PortByPortGUID(g ib.GUID) int32 {
	if r, ok := s.guidPort.Find(func(r guidRef) bool { return r.guid < g }); ok && r.guid == g && !r.alias {
		return r.port
	}
	return -1
}

// SameGUIDs reports whether two snapshots share their list of GUIDs, which they do if
// no end port was added, removed or changed an address.
func SameGUIDs(a, b *Snapshot) bool { return a.guidPort.Same(b.guidPort) }

// DiffEndPorts compares the end ports of two snapshots by port GUID: gone is
// called for each that new does not have, with its index in old.Ports, and came
// for each that old does not have, with its index in new.Ports, both in ascending
// order of GUIDs. Either snapshot may be nil, which has none. If the two share
// their list, because no end port was added or removed and no alias changed,
// nothing is compared; if new was derived from old by Carry, only the
// differences; otherwise it takes time proportional to the end ports.
func DiffEndPorts(old, new *Snapshot, gone, came func(i int32)) { //nolint:revive // old and new are what they are
	a, b := differing(old, new)
	var x, y ib.GUID // the last of each: two ports with one GUID are one address
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
			if x = a[0].guid; new == nil || new.PortByPortGUID(x) < 0 {
				gone(a[0].port)
			}
		case len(a) == 0 || a[0].guid > b[0].guid:
			if y = b[0].guid; old == nil || old.PortByPortGUID(y) < 0 {
				came(b[0].port)
			}
		default:
			x, y = a[0].guid, b[0].guid
		}
	}
}

// differing are the parts of the lists of GUIDs of two snapshots, either of which may
// be nil, that can differ.
func differing(old, new *Snapshot) (gone, came []guidRef) { //nolint:revive // old and new are what they are
	var a, b pages.List[guidRef]
	if old != nil {
		a = old.guidPort
	}
	if new != nil {
		b = new.guidPort
	}
	switch {
	case a.Same(b):
		return nil, nil
	case a.Len() > 0 && new != nil && new.delta.from.Same(a):
		return new.delta.gone, new.delta.came
	}
	return a.Values(), b.Values()
}

// DiffPlaces calls moved, in ascending order, for the GUIDs that end ports have in both
// snapshots, as their own or as an alias, but with another LID or at another physical
// port; was and is are the indices in Ports of their ports. It calls gone for those that no
// end port has any more. It takes the time of DiffEndPorts.
func DiffPlaces(old, new *Snapshot, moved func(g ib.GUID, was, is int32), gone func(g ib.GUID, was int32)) { //nolint:revive // old and new are what they are
	a, b := differing(old, new)
	for len(a) > 0 {
		g := a[0].guid
		for len(b) > 0 && b[0].guid < g {
			b = b[1:]
		}
		switch {
		case len(b) > 0 && b[0].guid == g:
			was, is := old.PortByGUID(g), new.PortByGUID(g)
			p, q := old.Ports[was], new.Ports[is]
			if p.LID != q.LID || old.Ports[old.Physical(was)].GUID != new.Ports[new.Physical(is)].GUID {
				moved(g, was, is)
			}
		case new.PortByGUID(g) < 0:
			gone(g, old.PortByGUID(g))
		}
		for len(a) > 0 && a[0].guid == g {
			a = a[1:]
		}
	}
}
