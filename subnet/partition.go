package subnet

import "heddle/ib"

// Sharing of partitions (IBA §10.9.3): two ports share one if a key of each has
// the same 15 bits and one of the two is a full member. A port always shares
// with itself, and one whose table was not read with everybody.

// Share reports whether two ports, indices in Ports of end ports, share a
// partition.
func (s *Snapshot) Share(a, b int32) bool {
	x, y := s.Ports[a].PKeys, s.Ports[b].PKeys
	return a == b || x == nil || y == nil || sharedKey(x, y) != 0
}

// SharedPKey is the lowest key that two ports share, with bit 15 set if both
// are full members; 0 if there is none. Where a table was not read the other
// one's keys count, and the default partition where neither was.
func (s *Snapshot) SharedPKey(a, b int32) ib.PKey {
	return sharedKey(s.Ports[a].PKeys, s.Ports[b].PKeys)
}

// HasPKey reports whether a port is a member, full or limited, of the
// partition of k.
func (s *Snapshot) HasPKey(port int32, k ib.PKey) bool {
	t := s.Ports[port].PKeys
	if t == nil {
		return true
	}
	for _, x := range t {
		if x.Base() == k.Base() && !x.IsEmpty() {
			return true
		}
	}
	return false
}

func sharedKey(a, b []ib.PKey) ib.PKey {
	switch {
	case a == nil && b == nil:
		return ib.PKeyDefaultFull
	case a == nil:
		a = b
	case b == nil:
		b = a
	}
	if len(a) == 1 && len(b) == 1 && a[0] == ib.PKeyDefaultFull && b[0] == ib.PKeyDefaultFull {
		return ib.PKeyDefaultFull
	}
	best := ib.PKey(0)
	for _, x := range a {
		if x.IsEmpty() {
			continue
		}
		for _, y := range b {
			if x.Base() != y.Base() || !x.IsFull() && !y.IsFull() {
				continue
			}
			k := x & y // full if both are
			switch {
			case best == 0, k.Base() < best.Base():
				best = k
			case k.Base() == best.Base():
				best |= k
			}
		}
	}
	return best
}
