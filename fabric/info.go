package fabric

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"heddle/ib"
)

// Info counts and describes a fabric.
type Info struct {
	Switches   int            `json:"switches"`
	CAs        int            `json:"cas"`
	Routers    int            `json:"routers"`
	Ports      int            `json:"ports"`        // of all nodes, port 0 not counted
	EndPorts   int            `json:"endports"`     // switches, and cabled CA and router ports
	Links      int            `json:"links"`        // links
	SwitchLink int            `json:"switch_links"` // of them between switches
	LinkTypes  map[string]int `json:"link_types"`   // links by width and speed
	Components int            `json:"components"`   // connected components
	Diameter   int            `json:"diameter"`     // longest distance between two switches of one component, in links
	MinDegree  int            `json:"min_degree"`   // links to other switches, over the switches
	MaxDegree  int            `json:"max_degree"`
	Degrees    map[int]int    `json:"degrees"` // switches by degree
	Levels     []int          `json:"levels"`  // switches by Layout level, leaves first
	// every link between switches joins adjacent levels, and hosts are on the first only
	FatTree bool `json:"fat_tree"`
}

// Info examines the fabric. Its cost is one breadth-first search for each
// switch.
func (f *Fabric) Info() Info {
	in := Info{LinkTypes: map[string]int{}, Degrees: map[int]int{}}
	level := f.Layout()
	index := make([]int32, len(f.Nodes)) // of switches, -1 for others
	var adj [][]int32
	for i := range f.Nodes {
		n := &f.Nodes[i]
		index[i] = -1
		in.Ports += n.NumPorts
		switch n.Type {
		case ib.NodeSwitch:
			index[i] = int32(in.Switches)
			in.Switches++
			in.EndPorts++
			adj = append(adj, nil)
		case ib.NodeRouter:
			in.Routers++
		default:
			in.CAs++
		}
		if n.Type == ib.NodeSwitch {
			continue
		}
		for p := 1; p <= n.NumPorts; p++ {
			if n.Ports[p].Cabled() {
				in.EndPorts++
			}
		}
	}
	in.FatTree = in.Switches > 0
	for a, b := range f.Links {
		in.Links++
		p := f.Port(a)
		in.LinkTypes[fmt.Sprintf("%v %v", p.Width, p.Speed)]++
		x, y := index[a.Node], index[b.Node]
		if x < 0 || y < 0 {
			if s := max(x, y); s >= 0 && level[a.Node] > 1 || s >= 0 && level[b.Node] > 1 {
				in.FatTree = false // a host above the leaves
			}
			continue
		}
		in.SwitchLink++
		if d := level[a.Node] - level[b.Node]; d != 1 && d != -1 {
			in.FatTree = false
		}
		if x != y {
			adj[x], adj[y] = append(adj[x], y), append(adj[y], x)
		}
	}
	in.MinDegree = -1
	for s := range adj {
		if d := len(adj[s]); in.MinDegree < 0 || d < in.MinDegree {
			in.MinDegree = d
		}
		in.MaxDegree = max(in.MaxDegree, len(adj[s]))
		in.Degrees[len(adj[s])]++
	}
	in.MinDegree = max(in.MinDegree, 0)
	for i := range f.Nodes {
		if l := level[i]; l > 0 {
			for len(in.Levels) < l {
				in.Levels = append(in.Levels, 0)
			}
			in.Levels[l-1]++
		}
	}
	in.Components = f.components()
	in.Diameter = diameter(adj)
	return in
}

// diameter is the longest of all shortest paths between two switches.
func diameter(adj [][]int32) (most int) {
	dist, queue := make([]int32, len(adj)), make([]int32, 0, len(adj))
	for s := range adj {
		for i := range dist {
			dist[i] = -1
		}
		dist[s] = 0
		queue = append(queue[:0], int32(s))
		for k := 0; k < len(queue); k++ {
			for _, t := range adj[queue[k]] {
				if dist[t] < 0 {
					dist[t] = dist[queue[k]] + 1
					queue = append(queue, t)
				}
			}
		}
		most = max(most, int(dist[queue[len(queue)-1]]))
	}
	return most
}

// components counts the connected components of the fabric.
func (f *Fabric) components() (n int) {
	root := make([]int32, len(f.Nodes))
	for i := range root {
		root[i] = int32(i)
	}
	find := func(i int32) int32 {
		for root[i] != i {
			root[i] = root[root[i]]
			i = root[i]
		}
		return i
	}
	n = len(f.Nodes)
	for a, b := range f.Links {
		if x, y := find(a.Node), find(b.Node); x != y {
			root[x] = y
			n--
		}
	}
	return n
}

// Layout assigns levels to the switches, by node index, from 1: those with CAs
// or routers are on the first, every other one above its lowest adjacent
// switch. Other nodes, and switches that no host reaches, are on level 0. In a
// fat tree these are its levels; a torus has only one.
func (f *Fabric) Layout() []int {
	level := make([]int, len(f.Nodes))
	var queue []int32
	for i := range f.Nodes {
		n := &f.Nodes[i]
		if !n.IsSwitch() {
			continue
		}
		for p := 1; p <= n.NumPorts; p++ {
			if q := n.Ports[p].Peer; q.Valid() && !f.Nodes[q.Node].IsSwitch() {
				level[i] = 1
				queue = append(queue, int32(i))
				break
			}
		}
	}
	for k := 0; k < len(queue); k++ {
		n := &f.Nodes[queue[k]]
		for p := 1; p <= n.NumPorts; p++ {
			if q := n.Ports[p].Peer; q.Valid() && f.Nodes[q.Node].IsSwitch() && level[q.Node] == 0 {
				level[q.Node] = level[queue[k]] + 1
				queue = append(queue, q.Node)
			}
		}
	}
	return level
}

// String formats the information in lines.
func (in Info) String() string {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "nodes\t%d switches, %d CAs, %d routers\n", in.Switches, in.CAs, in.Routers)
	fmt.Fprintf(t, "ports\t%d, %d of them end ports\n", in.Ports, in.EndPorts)
	fmt.Fprintf(t, "cables\t%d, %d of them between switches\n", in.Links, in.SwitchLink)
	for _, k := range sortedKeys(in.LinkTypes) {
		fmt.Fprintf(t, "\t%d at %s\n", in.LinkTypes[k], k)
	}
	fmt.Fprintf(t, "degree\t%d to %d other switches\n", in.MinDegree, in.MaxDegree)
	fmt.Fprintf(t, "diameter\t%d cables between switches\n", in.Diameter)
	fmt.Fprintf(t, "parts\t%d\n", in.Components)
	fmt.Fprintf(t, "levels\t%v switches from the leaves up", in.Levels)
	if in.FatTree {
		fmt.Fprint(t, ": a fat tree")
	}
	fmt.Fprintln(t)
	t.Flush()
	return b.String()
}

func sortedKeys(m map[string]int) []string { return slices.Sorted(maps.Keys(m)) }
