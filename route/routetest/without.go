package routetest

import (
	"slices"

	"heddle/fabric"
)

// Without is g after some of its switches and cables have failed: switches
// are given by index, cables by one of their two channels. End ports keep
// their LIDs; those of failed switches, and on them, are gone.
func Without(g *fabric.Graph, switches, cables []int32) *fabric.Graph {
	r := &fabric.Graph{TopLID: g.TopLID}
	index := make([]int32, len(g.Switches))
	var kept []int32
	for s := range index {
		index[s] = -1
		if !slices.Contains(switches, int32(s)) {
			index[s] = int32(len(kept))
			kept = append(kept, int32(s))
		}
	}
	down := make([]bool, len(g.Channels))
	for _, c := range cables {
		down[c], down[g.Channels[c].Rev] = true, true
	}
	r.Off = make([]int32, 1, len(kept)+1)
	for _, s := range kept {
		to := slices.Repeat([]int32{-1}, len(g.PortChannel[s]))
		for c := g.Off[s]; c < g.Off[s+1]; c++ {
			ch := g.Channels[c]
			if down[c] || index[ch.To] < 0 {
				continue
			}
			to[ch.OutPort] = int32(len(r.Channels))
			ch.From, ch.To = index[ch.From], index[ch.To]
			r.Channels = append(r.Channels, ch)
		}
		r.PortChannel = append(r.PortChannel, to)
		r.Off = append(r.Off, int32(len(r.Channels)))
		r.Switches = append(r.Switches, g.Switches[s])
	}
	for i := range r.Channels {
		c := &r.Channels[i]
		c.Rev = r.PortChannel[c.To][c.InPort]
	}
	end := make([]int32, len(g.EndPorts))
	for i, e := range g.EndPorts {
		end[i] = fabric.NoLID
		if e.Switch >= 0 && index[e.Switch] < 0 {
			continue
		}
		end[i] = int32(len(r.EndPorts))
		if e.Switch >= 0 {
			if e.Port == 0 {
				r.Switches[index[e.Switch]].EndPort = end[i]
			}
			e.Switch = index[e.Switch]
		}
		r.EndPorts = append(r.EndPorts, e)
	}
	r.LIDOwner = make([]int32, len(g.LIDOwner))
	for l, e := range g.LIDOwner {
		r.LIDOwner[l] = fabric.NoLID
		if e != fabric.NoLID {
			r.LIDOwner[l] = end[e]
		}
	}
	return r
}
