package dataplane

import (
	"slices"

	"heddle/sim/dataplane/divide"
)

// split divides the switches among n parts, by node.
func split(t *Topology, n int) []uint8 {
	isSwitch, links := make([]bool, len(t.Nodes)), make([][2]int32, len(t.Links))
	for i := range t.Nodes {
		isSwitch[i] = t.Nodes[i].Switch
	}
	for i, l := range t.Links {
		links[i] = [2]int32{l.A.Node, l.B.Node}
	}
	return divide.Switches(isSwitch, links, n)
}

// owners gives each port to the part of its switch, or of the switch at the far
// end, and says how many parts there are.
func (e *Engine) owners(part []uint8) ([]uint8, int) {
	owner := make([]uint8, len(e.out))
	for i := range e.out {
		o := &e.out[i]
		nd := &e.nodes[o.node]
		switch {
		case nd.sw || e.top.Nodes[nd.ref].Switch: // or its management port
			owner[i] = part[nd.ref]
		case o.peer >= 0 && e.nodes[e.out[o.peer].node].sw:
			owner[i] = part[e.nodes[e.out[o.peer].node].ref]
		}
	}
	return owner, int(slices.Max(part)) + 1
}
