package partition

import "heddle/ib"

// Changed lists the GUIDs by which ports may have other keys, or other places for
// them, under a policy than under the one before; all says that it may be any
// port. Names, service levels and groups do not count. A GUID may be there more
// than once. It takes time in proportion to the members of partitions that are not
// the same.
func Changed(old, p *Policy) (guids []ib.GUID, all bool) {
	a, b := old.Partitions, p.Partitions
	for len(a) > 0 || len(b) > 0 {
		var x, y Partition // of one P_Key; empty if it has none
		first := len(b) == 0 || len(a) > 0 && a[0].PKey <= b[0].PKey
		second := len(a) == 0 || len(b) > 0 && b[0].PKey <= a[0].PKey
		if first {
			x, a = a[0], a[1:]
		}
		if second {
			y, b = b[0], b[1:]
		}
		if x.Index0 != y.Index0 {
			return nil, true
		}
		l, m := apart(x.Members, y.Members)
		for _, list := range [2][]Member{l, m} {
			for _, who := range list {
				if who.Kind != Port {
					return nil, true
				}
				guids = append(guids, who.GUID)
			}
		}
	}
	return guids, false
}

// apart cuts the lines off two lists that are the same at their beginnings and
// ends. What a line that remains names is all that may differ: as long as no class
// is among them, the order of the others is the same.
func apart(a, b []Member) (l, m []Member) {
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	return a, b
}
