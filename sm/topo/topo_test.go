package topo

import (
	"testing"

	"heddle/ib"
	"heddle/ib/smp"
)

// TestWhereOfAPortThatIsNotThere: a twin may speak of a port that the first
// node with its GUID does not have.
func TestWhereOfAPortThatIsNotThere(t *testing.T) {
	for _, typ := range []ib.NodeType{ib.NodeCA, ib.NodeSwitch} {
		f := &Topology{ByGUID: map[ib.GUID]int32{}}
		n := f.AddNode(&smp.NodeInfo{NodeType: typ, NumPorts: 2, NodeGUID: 5, PortGUID: 6}, f.AddPath([]byte{1, 2}))
		for _, p := range []int{-1, 0, 2, 3, 245} {
			if w := f.Where(n, p); w.Port != p || w.Node != 5 || PathString(w.Path) != "0,1,2" {
				t.Errorf("port %d of a %v: %+v", p, typ, w)
			}
		}
	}
}
