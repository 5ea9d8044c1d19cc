package vm

import (
	"math/rand/v2"
	"slices"
	"testing"

	"heddle/fabric"
	"heddle/subnet"
)

// TestPoolLook: the counts of snapshots that follow each other are those that each of them alone
// gives, whatever they share.
func TestPoolLook(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	c := New(Defaults())
	nodes := func() []subnet.Node {
		list := make([]subnet.Node, 3)
		for i := range list {
			list[i].OK, list[i].Switch.LinearFDBCap = rnd.IntN(4) > 0, uint16(100+rnd.IntN(100))
		}
		return list
	}
	s := &subnet.Snapshot{Nodes: nodes(), Graph: &fabric.Graph{EndPorts: make([]fabric.EndPort, 4), LIDOwner: make([]int32, 90)}}
	for range 2000 {
		n := *s
		switch rnd.IntN(6) {
		case 0:
			n.Nodes = nodes()
		case 1:
			n.Graph = nil
		case 2:
			n.Graph = &fabric.Graph{EndPorts: make([]fabric.EndPort, 4), LIDOwner: make([]int32, rnd.IntN(90))}
		case 3: // the same
		default:
			if s.Graph != nil {
				g := *s.Graph
				g.LIDOwner = slices.Clone(g.LIDOwner)
				for range 2 {
					if k := len(g.LIDOwner); k > 0 {
						g.LIDOwner[rnd.IntN(k)] = int32(rnd.IntN(3)) - 1
					}
				}
				n.Graph = &g
			}
		}
		s = &n
		c.snap = s
		c.pool.look(c)
		alone := New(Defaults())
		alone.snap = s
		alone.pool.look(alone)
		if got, want := c.pools(), alone.pools(); got != want {
			t.Fatalf("%+v, want %+v", got, want)
		}
	}
}
