package routetest

import "heddle/fabric"

// Without is fabric.Graph.Without for switches, by index, and links, by one of
// their two channels.
func Without(g *fabric.Graph, switches, cables []int32) *fabric.Graph {
	return g.Without(fabric.Loss{Switches: switches, Channels: cables})
}
