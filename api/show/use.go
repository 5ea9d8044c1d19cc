package show

import (
	"cmp"
	"math"
	"slices"
	"time"

	"heddle/api"
	"heddle/ib"
	"heddle/subnet"
)

// Meter knows how busy links are; the page colors cables by it. 'heddle up' has one
// that reads the simulator. Whoever polls the performance agents of a real subnet is
// to be another.
type Meter interface {
	// Measure returns what ports have sent lately. It may be called from many
	// goroutines, and must not block on the fabric.
	Measure() Measurement
}

// Measurement is what a Meter has measured.
type Measurement struct {
	Source string        // where it comes from, for people
	Span   time.Duration // over which it is a mean
	Sent   []Sent        // ports that were not measured are left out
}

// Sent is what a port has sent.
type Sent struct {
	Node  ib.GUID
	Port  uint8
	Share float64 // of the data rate of its link, 0 to 1
	Gbps  float64 // data rate of its link
}

// Use joins a measurement with the links of the drawing of s. s and m may be nil.
func Use(s *subnet.Snapshot, m Meter) api.Use {
	out := api.Use{Links: []api.LinkUse{}, Hosts: []api.HostUse{}}
	if s == nil || m == nil {
		return out
	}
	x := m.Measure()
	out.Generation, out.Source, out.Seconds = s.Gen, x.Source, x.Span.Seconds()
	links, hosts := map[[2]int]*api.LinkUse{}, map[int]*api.HostUse{}
	for i := range x.Sent {
		sent := &x.Sent[i]
		node := s.NodeByGUID(sent.Node)
		if node < 0 {
			continue
		}
		p := s.Port(subnet.Ref{Node: node, Port: sent.Port})
		if p == nil || s.Port(p.Peer) == nil {
			continue
		}
		from, to := int(node), int(p.Peer.Node)
		share := math.Round(min(max(sent.Share, 0), 1)*1e9) / 1e9 // short in JSON
		fromSwitch, toSwitch := s.Nodes[from].SwitchIndex >= 0, s.Nodes[to].SwitchIndex >= 0
		switch {
		case from == to:
		case fromSwitch && toSwitch:
			k := [2]int{min(from, to), max(from, to)}
			l := links[k]
			if l == nil {
				l = &api.LinkUse{A: k[0], B: k[1]}
				links[k] = l
			}
			l.Gbps = sent.Gbps
			if from == l.A {
				l.AB = max(l.AB, share)
			} else {
				l.BA = max(l.BA, share)
			}
		case fromSwitch:
			use(hosts, from).Down = max(use(hosts, from).Down, share)
		case toSwitch:
			use(hosts, to).Up = max(use(hosts, to).Up, share)
		}
	}
	for _, l := range links {
		out.Links = append(out.Links, *l)
	}
	for _, h := range hosts {
		out.Hosts = append(out.Hosts, *h)
	}
	slices.SortFunc(out.Links, func(a, b api.LinkUse) int { return cmp.Or(cmp.Compare(a.A, b.A), cmp.Compare(a.B, b.B)) })
	slices.SortFunc(out.Hosts, func(a, b api.HostUse) int { return cmp.Compare(a.Switch, b.Switch) })
	return out
}

func use(m map[int]*api.HostUse, sw int) *api.HostUse {
	if m[sw] == nil {
		m[sw] = &api.HostUse{Switch: sw}
	}
	return m[sw]
}
