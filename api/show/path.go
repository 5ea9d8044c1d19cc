package show

import (
	"fmt"
	"strconv"
	"strings"

	"heddle/api"
	"heddle/ib"
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
	a, err := findEnd(s, v, from)
	if err != nil {
		return api.Path{}, err
	}
	b, err := findEnd(s, v, to)
	if err != nil {
		return api.Path{}, err
	}
	p, q := s.Ports[a], s.Ports[b]
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
