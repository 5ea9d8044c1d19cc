package subnet

import "heddle/ib"

// Sharing of partitions (IBA §10.9.3): two ports share one if a key of each has
// the same 15 bits and one of the two is a full member. A port always shares
// with itself. A port with an unread table counts as full member of the default
// partition only: that is every port's initial table (IBA §10.9.1), and a
// silent agent gains access to no tenant's partition.

var unread = []ib.PKey{ib.PKeyDefaultFull}

// Keys are the P_Keys that a port counts as having: its table, or the default
// key where that was not read.
func (p *Port) Keys() []ib.PKey {
	if p.PKeys == nil {
		return unread
	}
	return p.PKeys
}

// Share reports whether two ports, indices in Ports of end ports, share a
// partition.
func (s *Snapshot) Share(a, b int32) bool {
	return a == b || sharedKey(s.Ports[a].Keys(), s.Ports[b].Keys()) != 0
}

// ShareKeys reports whether ports with these P_Keys share a partition.
func ShareKeys(a, b []ib.PKey) bool { return sharedKey(a, b) != 0 }

// SharedPKey is the lowest key that two ports share, with bit 15 set if both
// are full members; 0 if there is none.
func (s *Snapshot) SharedPKey(a, b int32) ib.PKey {
	return sharedKey(s.Ports[a].Keys(), s.Ports[b].Keys())
}

// HasPKey reports whether a port is a member, full or limited, of the
// partition of k.
func (s *Snapshot) HasPKey(port int32, k ib.PKey) bool {
	for _, x := range s.Ports[port].Keys() {
		if x.Base() == k.Base() && !x.IsEmpty() {
			return true
		}
	}
	return false
}

func sharedKey(a, b []ib.PKey) ib.PKey {
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
