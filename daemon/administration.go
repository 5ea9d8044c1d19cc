package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"heddle/api"
	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/partition"
	"heddle/sa"
	"heddle/sm"
	"heddle/subnet"
)

// groupRows shows the multicast groups of the SA.
func groupRows(v *sa.View) []api.Group {
	out := make([]api.Group, 0, len(v.Groups))
	for _, g := range v.Groups {
		row := api.Group{
			MGID: g.MGID.String(), MLID: hex16(uint16(g.MLID)), PKey: g.PKey.String(), QKey: fmt.Sprintf("0x%08x", uint32(g.QKey)),
			MTU: g.MTU.Bytes(), Rate: g.Rate.String(), SL: int(g.SL), WellKnown: g.WellKnown, Members: make([]api.GroupMember, 0, len(g.Members)),
		}
		for _, m := range g.Members {
			row.Members = append(row.Members, api.GroupMember{PortGID: m.PortGID.String(), JoinState: joinStates(m.JoinState), Proxy: m.Proxy})
		}
		out = append(out, row)
	}
	return out
}

func hex16(v uint16) string { return fmt.Sprintf("0x%04x", v) }

func joinStates(b uint8) (names []string) {
	for i, n := range [...]string{"full", "non", "send_only", "send_only_full"} {
		if b&(1<<i) != 0 {
			names = append(names, n)
		}
	}
	return names
}

// serviceRows shows the registered services, without their keys.
func serviceRows(v *sa.View) []api.Service {
	out := make([]api.Service, 0, len(v.Services))
	for _, s := range v.Services {
		r := &s.Record
		out = append(out, api.Service{
			ID: fmt.Sprintf("0x%016x", r.ServiceID), GID: r.ServiceGID.String(), PKey: r.ServicePKey.String(),
			Name: strings.ToValidUTF8(r.Name(), "?"), Lease: r.ServiceLease,
		})
	}
	return out
}

// subscriptionRows shows who wants to hear of notices.
func subscriptionRows(v *sa.View) []api.Subscription {
	out := make([]api.Subscription, 0, len(v.Subs))
	for _, s := range v.Subs {
		i := &s.Info
		row := api.Subscription{
			GID: s.GID.String(), LID: int(s.Addr.LID), QP: s.Addr.QP, Generic: i.IsGeneric != 0,
			Type: int(i.Type), Trap: int(i.TrapNumber), Producer: int(i.Producer),
		}
		switch {
		case i.GID != ib.GID{}:
			row.Source = i.GID.String()
		case i.LIDRangeBegin == wire.InformAllLIDs:
			row.Source = "all"
		default:
			row.Source = fmt.Sprintf("LIDs %v to %v", i.LIDRangeBegin, i.LIDRangeEnd)
		}
		out = append(out, row)
	}
	return out
}

// findPort resolves what people call an end port by: LID, GUID (port or
// alias), GID, or node description. A node with several ports is found by its
// first.
func findPort(s *subnet.Snapshot, name string) (int32, error) {
	if s == nil || !s.Up {
		return -1, fmt.Errorf("the subnet is not up yet")
	}
	if strings.Contains(name, ":") && !strings.HasPrefix(name, "0x") {
		if g, err := ib.ParseGID(name); err == nil {
			if p := s.PortByGID(g); p >= 0 {
				return p, nil
			}
		}
	}
	if v, err := strconv.ParseUint(name, 0, 64); err == nil {
		if v <= 0xBFFF {
			if p := s.PortByLID(ib.LID(v)); p >= 0 {
				return p, nil
			}
		}
		if p := s.PortByGUID(ib.GUID(v)); p >= 0 {
			return p, nil
		}
		if n := s.NodeByGUID(ib.GUID(v)); n >= 0 {
			if p := firstEnd(s, n); p >= 0 {
				return p, nil
			}
		}
	}
	found := int32(-1)
	for i := range s.Nodes {
		if s.Nodes[i].Desc != name {
			continue
		}
		if p := firstEnd(s, int32(i)); p >= 0 {
			if found >= 0 {
				return -1, fmt.Errorf("%q: several nodes are described so; name one by LID or GUID", name)
			}
			found = p
		}
	}
	if found < 0 {
		return -1, fmt.Errorf("%q: no end port has this LID, GUID, GID or node description", name)
	}
	return found, nil
}

func firstEnd(s *subnet.Snapshot, n int32) int32 {
	ports := s.NodePorts(n)
	for i := range ports {
		if ports[i].EndPort >= 0 && ports[i].LID != 0 {
			return s.Nodes[n].First + int32(i)
		}
	}
	return -1
}

// findEnd is findPort for interfaces of virtual machines too, by their name.
func (d *Daemon) findEnd(s *subnet.Snapshot, name string) (int32, error) {
	i, err := findPort(s, name)
	if x, ok := findInterface(d.Interfaces(), name); err != nil && ok && s != nil {
		if x.GUID == 0 {
			return -1, fmt.Errorf("%q: an interface that is %v; it is to have the port GUID of the function where it will be, and has none yet", name, x.State)
		}
		if i := s.PortByGUID(x.GUID); i >= 0 {
			return i, nil
		}
		return -1, fmt.Errorf("%q: an interface that is %v; its port GUID %v cannot be reached on the fabric now", name, x.State, x.GUID)
	}
	return i, err
}

// Path implements api.Administration.
func (d *Daemon) Path(from, to string) (api.Path, error) {
	s := d.Snapshot()
	a, err := d.findEnd(s, from)
	if err != nil {
		return api.Path{}, err
	}
	b, err := d.findEnd(s, to)
	if err != nil {
		return api.Path{}, err
	}
	p, q := &s.Ports[a], &s.Ports[b]
	out := api.Path{From: pathEnd(s, p), To: pathEnd(s, q), Hops: []api.PathHop{}}
	hops, _ := s.Trace(a, q.LID, nil)
	for _, h := range hops {
		n := &s.Nodes[h.Node]
		out.Hops = append(out.Hops, api.PathHop{GUID: n.Info.NodeGUID.String(), Description: n.Desc, Out: int(h.Out)})
	}
	attr, ok := s.Path(a, q.LID)
	if !ok {
		return out, fmt.Errorf("there is no path from %s to %s: after %d switches the tables lead nowhere", name(s, p), name(s, q), len(hops))
	}
	out.SL, out.MTU, out.Rate = int(attr.SL), attr.MTU.Bytes(), attr.Rate.String()
	if k := s.SharedPKey(a, b); k != 0 {
		out.PKey = k.String()
	}
	_, out.Reverse = s.Path(b, p.LID)
	return out, nil
}

func name(s *subnet.Snapshot, p *subnet.Port) string {
	return fmt.Sprintf("%q LID %v", description(s, p), p.LID)
}

// description is that of the port's node; of a virtual port its own node's and
// where that is.
func description(s *subnet.Snapshot, p *subnet.Port) string {
	at := s.Nodes[p.Node].Desc
	if p.Virtual == nil {
		return at
	}
	return fmt.Sprintf("%s (virtual port %d of %s)", p.Virtual.Desc, p.Virtual.Index, at)
}

func pathEnd(s *subnet.Snapshot, p *subnet.Port) api.PathEnd {
	return api.PathEnd{GUID: p.GUID.String(), Description: description(s, p), LID: int(p.LID), Port: int(p.Num)}
}

// SAKey implements api.Administration.
func (d *Daemon) SAKey() api.SAKey {
	k := api.SAKey{OwnHost: d.cfg.SA.TrustLocal}
	if d.cfg.SA.SAKey != 0 {
		k.Key = fmt.Sprintf("0x%016x", d.cfg.SA.SAKey)
	}
	return k
}

// Groups implements api.Administration.
func (d *Daemon) Groups() []api.Group {
	if v := d.View(); v != nil {
		return groupRows(v)
	}
	return nil
}

// Services implements api.Administration.
func (d *Daemon) Services() []api.Service {
	if v := d.View(); v != nil {
		return serviceRows(v)
	}
	return nil
}

// Subscriptions implements api.Administration.
func (d *Daemon) Subscriptions() []api.Subscription {
	if v := d.View(); v != nil {
		return subscriptionRows(v)
	}
	return nil
}

// Partitions implements api.Administration.
func (d *Daemon) Partitions() api.Partitions {
	st := d.fresh()
	s := d.Snapshot()
	if s == nil || s.Partitions == nil {
		return api.Partitions{Partitions: []api.Partition{}}
	}
	return partitionRows(s, cmp.Or(s.BasePartitions, s.Partitions), s.Partitions, &st.Partitions)
}

// partitionRows shows a policy as people may change it, base, and the partitions
// that are in force, p, which have the members that virtual machines add; what the
// ports of the subnet have of them, and how far they are carried out.
func partitionRows(s *subnet.Snapshot, base, p *partition.Policy, st *sm.PartitionStatus) api.Partitions {
	var text strings.Builder
	_ = base.Format(&text) // a Builder takes everything
	out := api.Partitions{Config: text.String(), Settled: st.Settled, Pending: st.Pending, Partitions: make([]api.Partition, len(p.Partitions))}
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

// SetPartitions implements api.Administration.
func (d *Daemon) SetPartitions(ctx context.Context, name, config string) (api.Partitions, error) {
	p, warnings, err := partition.Parse(strings.NewReader(config), cmp.Or(name, "partitions"))
	if err != nil {
		return api.Partitions{}, fmt.Errorf("nothing was changed: %w", err)
	}
	s := d.Snapshot()
	if s == nil || s.State != subnet.Master {
		return api.Partitions{}, errors.New("nothing was changed: this manager is not the master of a subnet; ask the one that is")
	}
	if err := d.ApplyPartitions(ctx, p); err != nil {
		return api.Partitions{}, err
	}
	st := d.fresh()
	inForce := p
	if s = d.Snapshot(); s.BasePartitions == p {
		inForce = s.Partitions
	}
	out := partitionRows(s, p, inForce, &st.Partitions)
	for _, w := range warnings {
		out.Warnings = append(out.Warnings, w.String())
	}
	return out, nil
}
