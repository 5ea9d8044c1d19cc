package show

import (
	"fmt"
	"strconv"
	"time"

	"heddle/api"
	"heddle/congestion"
	"heddle/ib"
	"heddle/ib/cc"
)

// Congestion is /v1/congestion. began is when the manager's time was 0; a nil view: the congestion
// control manager has not begun.
func Congestion(v *congestion.View, began time.Time, q api.CongestionQuery) (api.Congestion, error) {
	out := api.Congestion{Mode: congestion.Off.String(), Nodes: []api.CongestionNode{}, Flows: []api.CongestionFlow{}}
	guid, err := uint64(0), error(nil)
	if q.Node != "" {
		if guid, err = strconv.ParseUint(q.Node, 0, 64); err != nil {
			return out, fmt.Errorf("%q is no GUID", q.Node)
		}
	}
	if v == nil {
		return out, nil
	}
	s := &v.Status
	out.Mode, out.Senders, out.Agents, out.Managed, out.Without = v.Mode.String(), s.Senders, s.Agents, s.Managed, s.Without
	out.Silent, out.Locked, out.Pending, out.Differs = s.Silent, s.Locked, s.Pending, s.Differs
	out.Requests, out.Sets, out.Failed, out.Repairs, out.Restarts = s.Requests, s.Sets, s.Failed, s.Repairs, s.Restarts
	out.Marks, out.Slowed = s.Marks, s.Slowed
	if v.Snap == nil {
		return out, nil
	}
	out.Wanted = wantedCongestion(v)
	for i := range v.Nodes {
		n := &v.Nodes[i]
		node := v.Snap.Ports[n.Port].Node
		switch {
		case q.Node != "":
			if guid == uint64(n.GUID) || guid == uint64(v.Snap.Nodes[node].Info.NodeGUID) {
				x := congestionNode(v, n, began)
				x.Held, x.Wanted = congestionSettings(n, n.Held), congestionSettings(n, n.Want)
				out.Nodes = append(out.Nodes, x)
			}
		case q.All, n.Differs != 0, n.State == congestion.Locked, n.Marking:
			out.Nodes = append(out.Nodes, congestionNode(v, n, began))
		}
	}
	if q.Node != "" && len(out.Nodes) == 0 {
		return out, fmt.Errorf("no switch or port of an adapter has the GUID %s", q.Node)
	}
	for i := range v.Flows {
		out.Flows = append(out.Flows, congestionFlow(v, &v.Flows[i], began))
	}
	return out, nil
}

// wantedCongestion is what the first switch and the first adapter are to hold.
func wantedCongestion(v *congestion.View) *api.CongestionSettings {
	w := &api.CongestionSettings{}
	for i := range v.Nodes {
		n := &v.Nodes[i]
		x := congestionSettings(n, n.Want)
		if x != nil && w.Switch == nil && n.Switch {
			w.Switch = x.Switch
		}
		if x != nil && w.CA == nil && !n.Switch {
			w.CA = x.CA
		}
	}
	return w
}

func congestionNode(v *congestion.View, n *congestion.Node, began time.Time) api.CongestionNode {
	p := v.Snap.Ports[n.Port]
	node := &v.Snap.Nodes[p.Node]
	x := api.CongestionNode{
		GUID: node.Info.NodeGUID.String(), Description: node.Desc, Port: int(p.Num), LID: int(p.LID), State: n.State.String(),
		Differs: n.Differs.Names(), Blocks: int(n.Info.ControlTableCap), Violations: int(n.Key.Violations), Events: n.Events, Marking: n.Marking,
		Key: "none",
	}
	if x.Differs == nil {
		x.Differs = []string{}
	}
	switch {
	case n.HasKey && n.Own:
		x.Key = "own"
	case n.HasKey && n.Key.Protect:
		x.Key = "hidden"
	case n.HasKey:
		x.Key = "other"
	}
	if n.Read != 0 {
		t := began.Add(time.Duration(n.Read)).UTC()
		x.Read = &t
	}
	if n.Switch && n.Events > 0 {
		x.Ports = maskPorts(&n.Ports)
	}
	return x
}

func maskPorts(m *cc.PortMask) []int {
	list := []int{}
	for p := range 256 {
		if m.Has(uint8(p)) {
			list = append(list, p)
		}
	}
	return list
}

func delayText(d cc.Delay) string { return fmt.Sprintf("%d:%d", d.Shift(), d.Multiplier()) }

// congestionSettings are those of a node; nil: unknown.
func congestionSettings(n *congestion.Node, s *congestion.Settings) *api.CongestionSettings {
	if s == nil {
		return nil
	}
	out := &api.CongestionSettings{}
	if n.Switch {
		w := &s.Switch
		out.Switch = &api.SwitchCongestion{
			Threshold: int(w.Threshold), PacketSize: int(w.PacketSize), MarkingRate: int(w.MarkingRate), VictimPorts: maskPorts(&w.VictimMask),
			CreditPorts: maskPorts(&w.CreditMask), StarvationThreshold: int(w.CSThreshold), StarvationDelay: delayText(w.CSReturnDelay),
			Ports: []api.PortCongestion{},
		}
		for i, p := range s.Ports {
			if p.Valid {
				out.Switch.Ports = append(out.Switch.Ports, api.PortCongestion{
					Port: i, Starvation: p.Starvation, Threshold: int(p.Threshold), PacketSize: int(p.PacketSize), Parameter: int(p.Parameter),
				})
			}
		}
	}
	if len(s.Table) > 0 {
		out.CA = &api.CACongestion{Control: "qp", Limit: int(s.Limit), Levels: congestionLevels(&s.CA)}
		if s.CA.PortControl&cc.PortControlSL != 0 {
			out.CA.Control = "sl"
		}
		for _, d := range s.Table {
			out.CA.Table = append(out.CA.Table, delayText(d))
		}
	}
	return out
}

// congestionLevels has service levels with the same settings together.
func congestionLevels(c *cc.CACongestionSetting) (list []api.SLCongestion) {
	at := map[cc.SLSetting]int{}
	for sl, s := range c.SL {
		i, ok := at[s]
		if !ok {
			i = len(list)
			at[s] = i
			list = append(list, api.SLCongestion{Timer: int(s.Timer), Increase: int(s.Increase), Trigger: int(s.Trigger), Min: int(s.Min)})
		}
		list[i].SLs = append(list[i].SLs, sl)
	}
	return list
}

func congestionFlow(v *congestion.View, f *congestion.Flow, began time.Time) api.CongestionFlow {
	at := func(t time.Duration) time.Time { return began.Add(t).UTC() }
	name := func(lid ib.LID) string {
		if i := v.Snap.PortByLID(lid); i >= 0 {
			return v.Snap.Nodes[v.Snap.Ports[i].Node].Desc
		}
		return ""
	}
	x := api.CongestionFlow{
		Log: "adapter", From: name(f.SLID), FromLID: int(f.SLID), To: name(f.DLID), ToLID: int(f.DLID), SL: int(f.SL),
		LocalQP: f.LocalQP, RemoteQP: f.RemoteQP, Count: f.Count, First: at(time.Duration(f.First)), Last: at(time.Duration(f.Last)),
	}
	if f.Switch {
		x.Log = "switch"
	}
	if i := v.Snap.PortByGUID(f.At); i >= 0 {
		p := v.Snap.Ports[i]
		x.At = api.FindingEnd{GUID: v.Snap.Nodes[p.Node].Info.NodeGUID.String(), Port: int(p.Num), Description: v.Snap.Nodes[p.Node].Desc}
	}
	return x
}
