package sa

import (
	"heddle/ib"
	"heddle/partition"
	"heddle/subnet"
)

// A service ends when its partition is removed or renamed, and when the port that registered
// or offers it is no longer a member. Otherwise the next user of the P_Key would see the
// services of the previous one. A missing port keeps its services while the policy lists it
// in the partition.

// published ends services that the new snapshot leaves without a partition.
func (x *services) published(c *Core, old, s *subnet.Snapshot) {
	if !serves(s) {
		return
	}
	was := x.policy
	if x.policy != s.Partitions {
		x.policy, x.grants = s.Partitions, nil
	}
	if was == x.policy && serves(old) && subnet.SamePorts(old, s) {
		return
	}
	for i := 0; i < len(x.all.list); i++ {
		v := x.all.list[i]
		if k := v.Record.ServicePKey; !k.IsEmpty() && k.Base() != partition.DefaultKey && (renamed(was, x.policy, k) || !x.entitled(s, v)) {
			x.drop(c, i, "service_ended")
			i--
		}
	}
}

// renamed reports whether a P_Key now belongs to a partition of another name, or to
// none.
func renamed(was, now *partition.Policy, k ib.PKey) bool {
	if was == nil || now == nil {
		return false
	}
	a, b := was.Find(k), now.Find(k)
	return a != nil && (b == nil || a.Name != b.Name)
}

// entitled reports whether the ports of a service are members of its partition: the
// registering port, and the offering port if it is in the subnet.
func (x *services) entitled(s *subnet.Snapshot, v *Service) bool {
	offers := v.Record.ServiceGID.GUID()
	if v.Record.ServiceGID.IsMulticast() || offers != v.By && v.By != 0 && s.PortByGUID(offers) < 0 {
		offers = 0
	}
	for _, g := range [2]ib.GUID{v.By, offers} {
		if g != 0 && !x.member(s, g, v.Record.ServicePKey) {
			return false
		}
	}
	return true
}

// member reports whether a port belongs to a partition, by its P_Key table or by the
// policy. The port may be missing, or its table may not be written yet.
func (x *services) member(s *subnet.Snapshot, g ib.GUID, k ib.PKey) bool {
	i := s.PortByGUID(g)
	switch {
	case i >= 0 && s.HasPKey(i, k):
		return true
	case x.policy == nil:
		return i < 0 || s.Ports[i].PKeys == nil
	case x.grants == nil:
		x.grants = partition.Resolve(x.policy)
	}
	for _, h := range x.grants.Of(partition.CA, g, nil, g == s.PortGUID) {
		if h.Base() == k.Base() {
			return true
		}
	}
	return false
}
