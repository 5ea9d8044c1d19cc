package routetest

import (
	"heddle/fabric"
	"heddle/ib"
)

// VMs is g with additional LIDs outside the ranges of its CA ports, with gaps,
// up to a few times as high as g's: at most most for each port, like those of
// virtual machines with own LIDs after a time of creation, migration and
// deletion.
func VMs(g *fabric.Graph, most int, draw func(k int) int) *fabric.Graph {
	top := min((most+2)*int(g.TopLID), int(ib.LIDMaxUnicast)) // enough for all
	taken := make([]bool, top+1)
	for l, e := range g.LIDOwner {
		taken[l] = e != fabric.NoLID
	}
	var more []fabric.LIDGrant
	for e := range g.EndPorts {
		if p := &g.EndPorts[e]; p.Type != ib.NodeCA || p.LID == 0 {
			continue
		}
		for range draw(most + 1) {
			l := 1 + draw(top)
			for taken[l] {
				if l++; l > top {
					l = 1
				}
			}
			taken[l] = true
			more = append(more, fabric.LIDGrant{LID: ib.LID(l), EndPort: int32(e)})
		}
	}
	g, err := g.WithLIDs(more)
	if err != nil {
		panic(err)
	}
	return g
}
