// Package routetest builds graphs for the tests and benchmarks of the routing
// packages: by hand, of the usual shapes, or at random. It makes Graphs
// directly, so that engines are tested without the netlist reader.
package routetest

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"heddle/fabric"
	"heddle/ib"
)

// Draws returns a source of numbers in [0, k) that the seeds determine.
// Property tests draw some seeds, because a net drawn link by link is too often
// too small.
func Draws(seeds ...uint64) func(k int) int {
	var a, b uint64
	for _, s := range seeds {
		a, b = (a^s)*0x9E3779B97F4A7C15, b+a>>7
	}
	return rand.New(rand.NewPCG(a, b)).IntN
}

// Net is a fabric being built. Switches are numbered from 0 in the order they
// are made, which is the order of their GUIDs.
type Net struct {
	ports []int // by switch: ports used
	links [][4]int
	hosts []host
	Cap   map[int]int // LinearFDBCap of switches that are not 49,152
}

type host struct {
	at, port, lids int // at -1: cabled to no switch
}

// Switches adds n switches and returns the number of the first.
func (b *Net) Switches(n int) int {
	first := len(b.ports)
	b.ports = append(b.ports, make([]int, n)...)
	return first
}

func (b *Net) port(s int) int {
	b.ports[s]++
	return b.ports[s]
}

// Link links two switches on their next free ports.
func (b *Net) Link(s, t int) { b.links = append(b.links, [4]int{s, b.port(s), t, b.port(t)}) }

// Unlink removes the first link between two switches; their port numbers stay.
func (b *Net) Unlink(s, t int) {
	for i, l := range b.links {
		if l[0] == s && l[2] == t || l[0] == t && l[2] == s {
			b.links = slices.Delete(b.links, i, i+1)
			return
		}
	}
}

// Damaged is b without that many links; draw(k) returns a number in [0, k).
func Damaged(b *Net, cables int, draw func(k int) int) *Net {
	for range cables {
		if len(b.links) > 0 {
			i := draw(len(b.links))
			b.links = slices.Delete(b.links, i, i+1)
		}
	}
	return b
}

// Host hangs a CA port with so many LIDs on a switch; on none if s is -1.
func (b *Net) Host(s, lids int) {
	p := 0
	if s >= 0 {
		p = b.port(s)
	}
	b.hosts = append(b.hosts, host{s, p, lids})
}

// Graph numbers the LIDs by ascending port GUID, CAs first, and returns the
// finished graph.
func (b *Net) Graph() *fabric.Graph {
	g := &fabric.Graph{}
	n := len(b.ports)
	lid := 1
	give := func(e fabric.EndPort, lids int) {
		e.LID = ib.LID(lid)
		for 1<<e.LMC < lids {
			e.LMC++
		}
		for range lids {
			g.LIDOwner = append(g.LIDOwner, int32(len(g.EndPorts)))
		}
		g.EndPorts = append(g.EndPorts, e)
		lid += lids
	}
	g.LIDOwner = append(g.LIDOwner, fabric.NoLID)
	for i, h := range b.hosts {
		guid := ib.GUID(0x100000 + i)
		give(fabric.EndPort{GUID: guid + 1<<32, NodeGUID: guid, Type: ib.NodeCA, PortNum: 1, Switch: int32(h.at), Port: uint8(h.port)}, h.lids)
	}
	for s := range n {
		guid := ib.GUID(0x200000 + s)
		capacity := 49152
		if c, ok := b.Cap[s]; ok {
			capacity = c
		}
		g.Switches = append(g.Switches, fabric.SwitchNode{
			GUID: guid, NumPorts: uint8(b.ports[s]), LinearFDBCap: uint16(capacity), EndPort: int32(len(g.EndPorts)),
		})
		give(fabric.EndPort{GUID: guid + 1<<33, NodeGUID: guid, Type: ib.NodeSwitch, Switch: int32(s)}, 1)
	}
	g.TopLID = ib.LID(lid - 1)

	for _, l := range b.links {
		g.Channels = append(g.Channels,
			fabric.Channel{From: int32(l[0]), OutPort: uint8(l[1]), To: int32(l[2]), InPort: uint8(l[3]), VLs: 8, Gbps: 100},
			fabric.Channel{From: int32(l[2]), OutPort: uint8(l[3]), To: int32(l[0]), InPort: uint8(l[1]), VLs: 8, Gbps: 100})
	}
	slices.SortFunc(g.Channels, func(a, b fabric.Channel) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.OutPort, b.OutPort))
	})
	g.Off = make([]int32, n+1)
	g.PortChannel = make([][]int32, n)
	for s := range n {
		g.PortChannel[s] = make([]int32, b.ports[s]+1)
		for p := range g.PortChannel[s] {
			g.PortChannel[s][p] = -1
		}
	}
	for i := range g.Channels {
		c := &g.Channels[i]
		g.Off[c.From+1] = int32(i) + 1
		g.PortChannel[c.From][c.OutPort] = int32(i)
	}
	for s := range n {
		g.Off[s+1] = max(g.Off[s+1], g.Off[s])
	}
	for i := range g.Channels {
		c := &g.Channels[i]
		c.Rev = g.PortChannel[c.To][c.InPort]
	}
	return g
}

// Tree is a three-level fat tree of k-port switches with pods pods (k at
// most): k/2 leaves and k/2 middle switches in a pod, k/2·k/2 tops, k/2 hosts
// on a leaf. Tree(36, 36) has 1,620 switches and 11,664 hosts.
func Tree(k, pods int) *Net {
	h := k / 2
	return XGFT(h, h, pods, h, h, h*h*pods, 1)
}

// XGFT is the extended generalised fat tree XGFT(3; m1,m2,m3; 1,w2,w3) with
// its first hosts CAs, lids LIDs each (S. Öhring et al., 1995).
func XGFT(m1, m2, m3, w2, w3, hosts, lids int) *Net {
	b := &Net{}
	leaf := b.Switches(m2 * m3)
	mid := b.Switches(w2 * m3)
	top := b.Switches(w2 * w3)
	// Ports: hosts or down links first.
	for i := range hosts {
		b.Host(leaf+i*m2*m3/hosts%(m2*m3), lids)
	}
	for p := range m3 {
		for l := range m2 {
			for m := range w2 {
				b.Link(leaf+p*m2+l, mid+p*w2+m)
			}
		}
	}
	for p := range m3 {
		for m := range w2 {
			for t := range w3 {
				b.Link(mid+p*w2+m, top+m*w3+t)
			}
		}
	}
	return b
}

// FullSubnet is XGFT(3; 18,18,9; 1,18,18) with 2,853 of its hosts, 17 LIDs
// each: 648 switches and 49,149 LIDs.
func FullSubnet() *Net { return XGFT(18, 18, 9, 18, 18, 2853, 17) }

// Tree2 is a two-level fat tree.
func Tree2(leaves, spines, hosts int) *Net {
	b := &Net{}
	b.Switches(leaves + spines)
	for l := range leaves {
		for range hosts {
			b.Host(l, 1)
		}
		for s := range spines {
			b.Link(l, leaves+s)
		}
	}
	return b
}

// Torus is an x × y torus with hosts CAs on each switch; sides of 1 and 2 have
// no closing link.
func Torus(x, y, hosts int) *Net {
	b := &Net{}
	b.Switches(x * y)
	for i := range x {
		for j := range y {
			if x > 2 || i+1 < x {
				b.Link(i*y+j, (i+1)%x*y+j)
			}
			if y > 2 || j+1 < y {
				b.Link(i*y+j, i*y+(j+1)%y)
			}
		}
	}
	for s := range x * y {
		for range hosts {
			b.Host(s, 1)
		}
	}
	return b
}

// Random is a connected net of n switches: a random tree plus extra links, some
// of them parallel, and up to maxHosts CAs on each switch. draw(k) returns a
// number in [0, k).
func Random(n, extra, maxHosts, lids int, draw func(k int) int) *Net {
	b := &Net{}
	b.Switches(n)
	for s := 1; s < n; s++ {
		b.Link(s, draw(s))
	}
	for range extra {
		s, t := draw(n), draw(n)
		if s != t {
			b.Link(s, t)
		}
	}
	for s := range n {
		for range draw(maxHosts + 1) {
			b.Host(s, 1+draw(lids))
		}
	}
	return b
}
