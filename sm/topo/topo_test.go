package topo

import (
	"testing"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/subnet"
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

// TestThrottled: a link is throttled if both of its ends can do more than it does.
func TestThrottled(t *testing.T) {
	f := &Topology{ByGUID: map[ib.GUID]int32{}}
	for i := range 2 {
		f.AddNode(&smp.NodeInfo{NodeType: ib.NodeSwitch, NumPorts: 1, NodeGUID: ib.GUID(i + 1), PortGUID: ib.GUID(i + 1)}, f.AddPath([]byte{1, byte(i)}))
	}
	p, q := f.PortOf(0, 1), f.PortOf(1, 1)
	p.Peer, q.Peer = subnet.Ref{Node: 1, Port: 1}, subnet.Ref{Node: 0, Port: 1}
	for _, c := range []struct {
		own, peer ib.LinkWidth
		active    ib.LinkWidth
		ownSpeed  ib.SpeedBits
		peerSpeed ib.SpeedBits
		is        ib.SpeedBits
		want      bool
	}{
		{ib.Width1x | ib.Width4x, ib.Width1x | ib.Width4x, ib.Width4x, ib.SpeedBitSDR | ib.SpeedBitQDR, ib.SpeedBitSDR | ib.SpeedBitQDR, ib.SpeedBitQDR, false},
		{ib.Width1x | ib.Width4x, ib.Width1x | ib.Width4x, ib.Width1x, ib.SpeedBitSDR | ib.SpeedBitQDR, ib.SpeedBitSDR | ib.SpeedBitQDR, ib.SpeedBitQDR, true},
		{ib.Width1x | ib.Width4x, ib.Width1x, ib.Width1x, ib.SpeedBitSDR | ib.SpeedBitQDR, ib.SpeedBitSDR | ib.SpeedBitQDR, ib.SpeedBitQDR, false},
		{ib.Width1x | ib.Width4x, ib.Width1x | ib.Width4x, ib.Width4x, ib.SpeedBitSDR | ib.SpeedBitQDR, ib.SpeedBitSDR | ib.SpeedBitQDR, ib.SpeedBitSDR, true},
		{ib.Width1x | ib.Width4x, ib.Width1x | ib.Width4x, ib.Width4x, ib.SpeedBitSDR | ib.SpeedBitQDR, ib.SpeedBitSDR, ib.SpeedBitSDR, false},
	} {
		p.Info = smp.PortInfo{LinkWidthSupported: c.own, LinkWidthActive: c.active, LinkSpeedSupported: c.ownSpeed, LinkSpeedActive: c.is}
		q.Info = smp.PortInfo{LinkWidthSupported: c.peer, LinkWidthActive: c.active, LinkSpeedSupported: c.peerSpeed, LinkSpeedActive: c.is}
		if f.Throttled(p) != c.want || f.Throttled(q) != c.want {
			t.Errorf("%+v: %v and %v", c, f.Throttled(p), f.Throttled(q))
		}
	}
}
