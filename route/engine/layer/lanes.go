package layer

import (
	"fmt"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
)

// Refuse is the error of an engine that needs more lanes than it may use.
func Refuse(engine string, needs int, g *fabric.Graph, o route.Options) error {
	budget := route.Budget(g, o.MaxVLs)
	need := fmt.Sprintf("%d lanes", needs)
	if needs > Max {
		need = fmt.Sprintf("more than %d lanes, which is all that links can have", Max)
	}
	if o.MaxVLs > 0 && budget == o.MaxVLs {
		return route.Refuse(engine, route.ErrLanes, "needs %s, %d are allowed", need, budget)
	}
	for c := range g.Channels {
		if ch := &g.Channels[c]; int(max(ch.VLs, 1)) == budget {
			return route.Refuse(engine, route.ErrLanes, "needs %s, %d are allowed (link %v port %d has %d)", need, budget, g.Switches[ch.From].GUID, ch.OutPort, budget)
		}
	}
	return route.Refuse(engine, route.ErrLanes, "needs %s, %d are allowed", need, budget)
}

// Spread gives lanes that are left, up to budget, to the fullest layers: any part
// of an acyclic layer is acyclic. Pairs of a layer go to its lanes in turn.
func (l *Layers) Spread(budget int) *Layers {
	if budget <= l.Used {
		return l
	}
	pairs := make([]int64, l.Used)
	l.eachUnit(func(src, class int32) { pairs[l.SL[l.at(src, class)]]++ })
	lanes := make([]int64, l.Used)
	for k := range lanes {
		lanes[k] = 1
	}
	for range budget - l.Used {
		best := 0
		for k := range pairs {
			// The fullest lane is that of the layer with most pairs a lane.
			if pairs[k]*lanes[best] > pairs[best]*lanes[k] {
				best = k
			}
		}
		lanes[best]++
	}
	first := make([]int32, l.Used)
	for k := 1; k < l.Used; k++ {
		first[k] = first[k-1] + int32(lanes[k-1])
	}
	n := &Layers{p: l.p, SL: make([]ib.SL, len(l.SL)), w: l.w}
	for n.Used < budget {
		n.grow()
	}
	l.eachUnit(func(src, class int32) {
		k := l.SL[l.at(src, class)]
		// Alike in both directions.
		at := int(first[k] + (src+class)%int32(lanes[k]))
		n.put(src, class, at)
		n.unit(src, class)
		n.addUnit(n.cdg[at])
	})
	for _, d := range n.cdg {
		d.order()
	}
	return n
}
