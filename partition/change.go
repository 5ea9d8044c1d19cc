package partition

import "heddle/ib"

// Changed lists the GUIDs whose ports may get other keys, or other indices for
// them, under p than under old; all says that any port may. Names, service levels
// and groups do not count. A GUID may occur more than once. It takes time
// proportional to the members of changed partitions.
func Changed(old, p *Policy) (guids []ib.GUID, all bool) {
	a, b := old.Partitions, p.Partitions
	for len(a) > 0 || len(b) > 0 {
		var x, y Partition // of one P_Key; empty if missing
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

// apart removes common lines from the beginnings and ends of two lists. Only ports
// that the remaining lines name may differ: as long as these contain no class, the
// order of the others is the same.
func apart(a, b []Member) (l, m []Member) {
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	return a, b
}
