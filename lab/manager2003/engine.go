package manager2003

import (
	"cmp"
	"slices"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
)

// Engine is the routing of the report, §2.3, on one thread and from nothing: all
// legal up*/down* routes; where a port down leads to a destination, the ports up
// are ignored; of what is left the shortest route is taken, and of equally short
// ones the lowest port. Nothing is balanced.
//
// The report does not name the root. Here it is the switch with the lowest GUID;
// a switch is above another if it is nearer to the root or, at the same distance,
// has the lower GUID.
type Engine struct{}

var _ route.Engine = Engine{}

// Name is "updn2003".
func (Engine) Name() string { return "updn2003" }

// Compute implements route.Engine. It uses no options.
func (Engine) Compute(g *fabric.Graph, _ route.Options) (*route.Tables, error) {
	n := len(g.Switches)
	order := levels(g)
	pos := make([]int32, n)
	for i, s := range order {
		pos[s] = int32(i)
	}
	length := (int(g.TopLID)/route.BlockLen + 1) * route.BlockLen
	t := &route.Tables{Engine: "updn2003", TopLID: g.TopLID, NumVLs: 1, LFT: make([][]byte, n)}
	for s := range t.LFT {
		t.LFT[s] = slices.Repeat([]byte{route.Drop}, length)
	}
	by := make([][]ib.LID, n) // LIDs of end ports, by their switch
	for l := range g.LIDOwner {
		if e := g.LIDOwner[l]; e != fabric.NoLID && g.EndPorts[e].Switch >= 0 {
			by[g.EndPorts[e].Switch] = append(by[g.EndPorts[e].Switch], ib.LID(l))
		}
	}
	out := make([]uint8, n)
	for d := range int32(n) {
		if len(by[d]) == 0 {
			continue
		}
		routesTo(g, order, pos, d, out)
		for s := range t.LFT {
			for _, l := range by[d] {
				t.LFT[s][l] = out[s]
			}
		}
		for _, l := range by[d] {
			t.LFT[d][l] = g.EndPorts[g.LIDOwner[l]].Port
		}
	}
	return t, nil
}

// levels are the switches from the top down. Switches that the root does not
// reach come last.
func levels(g *fabric.Graph) []int32 {
	n := len(g.Switches)
	level := make([]int, n)
	order := make([]int32, n)
	for s := range level {
		level[s], order[s] = n, int32(s)
	}
	if n == 0 {
		return order
	}
	level[0] = 0 // Switches are in the order of GUIDs
	queue := append(make([]int32, 0, n), 0)
	for h := 0; h < len(queue); h++ {
		u := queue[h]
		for c := g.Off[u]; c < g.Off[u+1]; c++ {
			if v := g.Channels[c].To; level[v] == n {
				level[v] = level[u] + 1
				queue = append(queue, v)
			}
		}
	}
	slices.SortFunc(order, func(a, b int32) int { return cmp.Or(cmp.Compare(level[a], level[b]), cmp.Compare(a, b)) })
	return order
}

const far = 1 << 30

// routesTo sets the output of every switch towards switch d, Drop where no legal
// route leads there.
func routesTo(g *fabric.Graph, order, pos []int32, d int32, out []uint8) {
	dist := make([]int32, len(order))
	for s := range dist {
		dist[s], out[s] = far, route.Drop
	}
	dist[d] = 0
	choose := func(s int32, up bool) {
		for c := g.Off[s]; c < g.Off[s+1]; c++ { // in the order of ports
			ch := &g.Channels[c]
			if pos[ch.To] < pos[s] == up && dist[ch.To]+1 < dist[s] {
				dist[s], out[s] = dist[ch.To]+1, ch.OutPort
			}
		}
	}
	// From the bottom up: routes that only go down.
	for _, s := range slices.Backward(order) {
		if s != d && pos[s] < pos[d] {
			choose(s, false)
		}
	}
	// From the top down: the others begin with a port up, behind which all is settled.
	for _, s := range order {
		if s != d && dist[s] >= far {
			choose(s, true)
		}
	}
}
