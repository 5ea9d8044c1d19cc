package show

import (
	"fmt"
	"strings"

	"heddle/api"
	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/sa"
)

// Groups shows the multicast groups of the SA; v may be nil.
func Groups(v *sa.View) []api.Group {
	if v == nil {
		return nil
	}
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

// Services shows the registered services, without their keys; v may be nil.
func Services(v *sa.View) []api.Service {
	if v == nil {
		return nil
	}
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

// Subscriptions lists the subscriptions to notices; v may be nil.
func Subscriptions(v *sa.View) []api.Subscription {
	if v == nil {
		return nil
	}
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

// SAKey shows the key that makes SA requests trusted.
func SAKey(o *sa.Options) api.SAKey {
	k := api.SAKey{OwnHost: o.TrustLocal}
	if o.SAKey != 0 {
		k.Key = fmt.Sprintf("0x%016x", o.SAKey)
	}
	return k
}
