package routetest

import (
	"cmp"
	"slices"

	"heddle/fabric"
)

// Shuffle is g with its switches in another order and the links of each switch
// on other ports, so that GUIDs and port numbers carry no information; draw(k)
// returns a number in [0, k). CA ports keep GUIDs and LIDs.
func Shuffle(g *fabric.Graph, draw func(k int) int) *fabric.Graph {
	n := len(g.Switches)
	perm := func(k int) []int {
		p := make([]int, k)
		for i := range p {
			j := draw(i + 1)
			p[i] = p[j]
			p[j] = i
		}
		return p
	}
	place := perm(n) // by old switch: its index now
	r := &fabric.Graph{
		TopLID: g.TopLID, LIDOwner: g.LIDOwner, EndPorts: slices.Clone(g.EndPorts),
		Switches: slices.Clone(g.Switches), PortChannel: make([][]int32, n), Off: make([]int32, n+1),
	}
	port := make([][]uint8, n) // by old switch, old port
	for s, to := range place {
		ports := int(g.Switches[s].NumPorts)
		port[s] = make([]uint8, ports+1)
		for i, p := range perm(ports) {
			port[s][i+1] = uint8(p) + 1
		}
		r.Switches[to].NumPorts = g.Switches[s].NumPorts
		r.Switches[to].LinearFDBCap = g.Switches[s].LinearFDBCap
		r.PortChannel[to] = slices.Repeat([]int32{-1}, ports+1)
	}
	for _, c := range g.Channels {
		r.Channels = append(r.Channels, fabric.Channel{
			From: int32(place[c.From]), To: int32(place[c.To]), OutPort: port[c.From][c.OutPort], InPort: port[c.To][c.InPort],
			VLs: c.VLs, Gbps: c.Gbps,
		})
	}
	slices.SortFunc(r.Channels, func(a, b fabric.Channel) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.OutPort, b.OutPort))
	})
	for i, c := range r.Channels {
		r.Off[c.From+1] = int32(i) + 1
		r.PortChannel[c.From][c.OutPort] = int32(i)
	}
	for s := range n {
		r.Off[s+1] = max(r.Off[s+1], r.Off[s])
	}
	for i := range r.Channels {
		c := &r.Channels[i]
		c.Rev = r.PortChannel[c.To][c.InPort]
	}
	for i := range r.EndPorts {
		if e := &r.EndPorts[i]; e.Switch >= 0 && e.Port > 0 {
			e.Port = port[e.Switch][e.Port]
			e.Switch = int32(place[e.Switch])
		}
	}
	return r
}
