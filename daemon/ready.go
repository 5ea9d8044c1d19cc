package daemon

import (
	"fmt"
	"maps"
	"slices"

	"heddle/api"
	"heddle/ib"
	"heddle/partition"
	"heddle/subnet"
	"heddle/vm"
)

// maxNamed is how many GUIDs a PartitionReady names of each kind.
const maxNamed = 1000

// PartitionReady implements api.Machines.
func (d *Daemon) PartitionReady(pkey string) (api.PartitionReady, error) {
	key, err := plainKey(pkey)
	if err != nil {
		return api.PartitionReady{}, err
	}
	if err := d.master(); err != nil {
		return api.PartitionReady{}, err
	}
	s := d.Snapshot()
	members, known := partitionMembers(s, d.Interfaces(), key)
	if !known {
		return api.PartitionReady{}, fmt.Errorf("%v: %w", key, api.ErrNoPartition)
	}
	var as [2][]ib.GUID // limited, full
	for _, g := range slices.Sorted(maps.Keys(members)) {
		as[btoi(members[g])] = append(as[btoi(members[g])], g)
	}
	out := api.PartitionReady{PKey: key.String(), Members: len(members), Ready: s.Up}
	for full, guids := range as {
		r := s.Ready(key|ib.PKey(full)<<15, guids)
		out.Present += len(r.Members) - r.Absent
		out.Ready = out.Ready && r.Done()
		for i := range r.Members {
			m := &r.Members[i]
			switch g := m.GUID.String(); {
			case m.State == subnet.MemberAbsent && len(out.Absent) < maxNamed:
				out.Absent = append(out.Absent, g)
			case m.State == subnet.MemberPending && len(out.Pending) < maxNamed:
				out.Pending = append(out.Pending, api.PendingMember{GUID: g, Why: m.Why})
			}
		}
	}
	return out, nil
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// partitionMembers are the port GUIDs that are members of a partition, and whether
// full ones: those that the policy names, or means by a class, those that were
// added, and interfaces. known is false if nobody has the P_Key.
func partitionMembers(s *subnet.Snapshot, v *vm.View, key ib.PKey) (full map[ib.GUID]bool, known bool) {
	full = map[ib.GUID]bool{}
	if v != nil {
		for i := range v.Partitions {
			if p := &v.Partitions[i]; p.PKey == key {
				known = true
				for _, g := range p.Limited {
					full[g] = false
				}
				for _, g := range p.Full {
					full[g] = true
				}
			}
		}
		for x := range v.All() {
			for _, k := range x.Keys {
				if k.PKey == key {
					known = true
					if x.GUID != 0 { // else it is to have a function's, and is nowhere
						full[x.GUID] = full[x.GUID] || k.Full
					}
				}
			}
		}
	}
	if s.Partitions == nil {
		return full, known
	}
	p := s.Partitions.Find(key)
	if p == nil {
		return full, known
	}
	for _, m := range p.Members { // a later one overrides
		as := m.As != partition.Limited
		if m.Kind == partition.Port {
			full[m.GUID] = as
			continue
		}
		for _, i := range s.EndPortPort {
			q := &s.Ports[i]
			t := s.Nodes[q.Node].Info.NodeType
			if m.Kind == partition.All || m.Kind == partition.AllCAs && t == ib.NodeCA || m.Kind == partition.AllSwitches && t == ib.NodeSwitch ||
				m.Kind == partition.AllRouters && t == ib.NodeRouter || m.Kind == partition.Self && q.GUID == s.PortGUID {
				full[q.GUID] = as
			}
		}
	}
	return full, true
}
