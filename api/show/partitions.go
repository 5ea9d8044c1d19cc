package show

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"heddle/api"
	"heddle/ib"
	"heddle/partition"
	"heddle/sm"
	"heddle/subnet"
	"heddle/vm"
)

// Partitions shows the editable policy, base, and the partitions in force, p,
// which include the members of virtual machines; the P_Keys that the ports have,
// and the state of the programming.
func Partitions(s *subnet.Snapshot, base, p *partition.Policy, st *sm.PartitionStatus) api.Partitions {
	var text strings.Builder
	_ = base.Format(&text) // a Builder takes everything
	out := api.Partitions{Config: text.String(), Revision: api.Revision(text.String()), Settled: st.Settled, Pending: st.Pending, Partitions: make([]api.Partition, len(p.Partitions))}
	for _, k := range st.Quarantined {
		out.Quarantined = append(out.Quarantined, k.String())
	}
	at := make(map[ib.PKey]*api.Partition, len(p.Partitions))
	for i := range p.Partitions {
		x := &p.Partitions[i]
		row := &out.Partitions[i]
		row.Name, row.PKey = x.Name, x.PKey.String()
		for _, g := range x.Groups {
			row.Groups = append(row.Groups, g.MGID.String())
		}
		at[x.PKey.Base()] = row
	}
	for i := range s.Ports {
		if s.Ports[i].EndPort < 0 {
			continue
		}
		for _, k := range s.Ports[i].PKeys {
			row := at[k.Base()]
			switch {
			case row == nil || k.IsEmpty():
			case k.IsFull():
				row.Full++
			default:
				row.Limited++
			}
		}
	}
	return out
}

// maxNamed is how many GUIDs a PartitionReady names of each kind.
const maxNamed = 1000

// PartitionReady reports the state of a P_Key in the hardware of its members; v
// may be nil.
func PartitionReady(s *subnet.Snapshot, v *vm.View, key ib.PKey) (api.PartitionReady, error) {
	members, known := partitionMembers(s, v, key)
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

// partitionMembers maps the port GUIDs of a partition's members to full
// membership: those that the policy names, directly or by a class, the added ones,
// and interfaces. known is false if no partition has the P_Key.
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
					if x.GUID != 0 { // otherwise it will have a function's, and is on none
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
			q := s.Ports[i]
			t := s.Nodes[q.Node].Info.NodeType
			if m.Kind == partition.All || m.Kind == partition.AllCAs && t == ib.NodeCA || m.Kind == partition.AllSwitches && t == ib.NodeSwitch ||
				m.Kind == partition.AllRouters && t == ib.NodeRouter || m.Kind == partition.Self && q.GUID == s.PortGUID {
				full[q.GUID] = as
			}
		}
	}
	return full, true
}
