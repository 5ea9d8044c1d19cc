package show

import (
	"fmt"
	"strconv"
	"strings"

	"heddle/api"
	"heddle/ib"
	"heddle/route"
	"heddle/subnet"
	"heddle/vm"
)

// findPort resolves the name of an end port: LID, GUID (port or alias), GID, or
// node description. A node with several ports stands for its first.
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
				return -1, fmt.Errorf("%q: several nodes have this description; use a LID or GUID", name)
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
func findEnd(s *subnet.Snapshot, v *vm.View, name string) (int32, error) {
	i, err := findPort(s, name)
	if x, ok := Interface(v, name); err != nil && ok && s != nil {
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

// Path is the path from one end port to another, each named by LID, GUID, GID,
// node description or name of an interface; s and v may be nil.
func Path(s *subnet.Snapshot, v *vm.View, from, to string) (api.Path, error) {
	a, b, err := pathEnds(s, v, from, to)
	if err != nil {
		return api.Path{}, err
	}
	out := way(s, a, b)
	if out.Broken != "" {
		return out, fmt.Errorf("there is no path from %s to %s: %s", name(s, s.Ports[a]), name(s, s.Ports[b]), out.Broken)
	}
	return out, nil
}

// Trace is Path with the way back. A way that ends before the other end is no error: the path says so.
func Trace(s *subnet.Snapshot, v *vm.View, from, to string) (api.Path, error) {
	a, b, err := pathEnds(s, v, from, to)
	if err != nil {
		return api.Path{}, err
	}
	out, back := way(s, a, b), way(s, b, a)
	out.Back, out.Differs = &back, len(out.Hops) != len(back.Hops)
	for i := range out.Hops {
		if h, k := &out.Hops[i], len(back.Hops)-1-i; !out.Differs {
			out.Differs = h.GUID != back.Hops[k].GUID || h.In != back.Hops[k].Out || h.Out != back.Hops[k].In
		}
	}
	return out, nil
}

func pathEnds(s *subnet.Snapshot, v *vm.View, from, to string) (a, b int32, err error) {
	if a, err = findEnd(s, v, from); err == nil {
		b, err = findEnd(s, v, to)
	}
	return a, b, err
}

// way follows the tables from one port to the LID of another, switch by switch.
func way(s *subnet.Snapshot, a, b int32) api.Path {
	p, q := s.Ports[a], s.Ports[b]
	out := api.Path{From: pathEnd(s, p), To: pathEnd(s, q), Hops: []api.PathHop{}}
	hops, ok := s.Trace(a, q.LID, nil)
	attr, _ := s.Path(a, q.LID)
	sl := attr.SL
	if !ok {
		if hops, out.Loop = untilAgain(hops); len(hops) > 0 {
			sl = s.Tables.PathSL(s.Nodes[hops[0].Node].SwitchIndex, q.LID)
		}
		out.Broken = broken(s, p, q.LID, hops, out.Loop)
	}
	if src := s.Ports[s.Physical(a)]; src.Num != 0 && a != b {
		out.VL = lane(s, src.Node, 0, src.Num, sl)
	}
	for _, h := range hops {
		n := &s.Nodes[h.Node]
		x := api.PathHop{GUID: n.Info.NodeGUID.String(), Description: n.Desc, In: int(h.In), Out: int(h.Out)}
		if h.Out != 0 {
			x.VL = lane(s, h.Node, h.In, h.Out, sl)
		}
		out.Hops = append(out.Hops, x)
	}
	out.SL, out.MTU, out.Rate = int(sl), attr.MTU.Bytes(), attr.Rate.String()
	if k := s.SharedPKey(a, b); k != 0 {
		out.PKey = k.String()
	}
	_, out.Reverse = s.Path(b, p.LID)
	return out
}

// lane is the data lane of packets that cross a node; nil: it is not known.
func lane(s *subnet.Snapshot, node int32, in, out uint8, sl ib.SL) *int {
	t, ok := s.SLtoVL(node, in, out)
	vl := int(t[sl])
	switch p := s.Port(subnet.Ref{Node: node, Port: out}); {
	case ok:
	case p != nil && p.Known && ib.VLsOf(p.Info.OperationalVLs) == 1:
		vl = 0 // whatever the table has
	default:
		return nil
	}
	return &vl
}

// untilAgain are the hops until a switch comes again, and whether one does.
func untilAgain(hops []subnet.Hop) (list []subnet.Hop, loop bool) {
	for i := range hops {
		for k := range i {
			if hops[k].Node == hops[i].Node {
				return hops[:i+1], true
			}
		}
	}
	return hops, false
}

// broken says why packets do not get farther than the last hop.
func broken(s *subnet.Snapshot, from *subnet.Port, lid ib.LID, hops []subnet.Hop, loop bool) string {
	link := func(p *subnet.Port) (far *subnet.Port, why string) {
		at := fmt.Sprintf("port %d of %q", p.Num, s.Nodes[p.Node].Desc)
		if far = s.Port(p.Peer); far == nil {
			return nil, at + " has no cable"
		}
		if p.State() != ib.StateActive || far.State() != ib.StateActive {
			return nil, "the cable of " + at + " is not active"
		}
		return far, ""
	}
	if loop {
		return fmt.Sprintf("the tables lead in a circle: packets come to %q again after %d switches", s.Nodes[hops[len(hops)-1].Node].Desc, len(hops)-1)
	}
	at := from
	if len(hops) > 0 {
		h := hops[len(hops)-1]
		if h.Out == 0 {
			return fmt.Sprintf("%q keeps the packets: its entry for LID %v is its own port 0", s.Nodes[h.Node].Desc, lid)
		}
		at = s.Port(subnet.Ref{Node: h.Node, Port: h.Out})
	}
	node := at.Node
	if at.Num != 0 || s.Nodes[node].SwitchIndex < 0 {
		far, why := link(at)
		if far == nil {
			return why
		}
		node = far.Node
	}
	n := &s.Nodes[node]
	switch {
	case n.SwitchIndex < 0:
		return fmt.Sprintf("the tables lead to %q, which does not have LID %v", n.Desc, lid)
	case s.Tables == nil || int(n.SwitchIndex) >= s.Tables.Switches():
		return fmt.Sprintf("the table of %q is not known", n.Desc)
	}
	if e := s.Tables.Entry(n.SwitchIndex, lid); e != route.Drop {
		return fmt.Sprintf("%q has the entry %d for LID %v, which is no port of it", n.Desc, e, lid)
	}
	return fmt.Sprintf("%q has no entry for LID %v", n.Desc, lid)
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
	return api.PathEnd{GUID: p.GUID.String(), Node: s.Nodes[p.Node].Info.NodeGUID.String(), Description: description(s, p), LID: int(p.LID), Port: int(p.Num)}
}
