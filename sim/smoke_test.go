package sim

import (
	"testing"

	"heddle/fabric"
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
)

// pair is H1[1] - S1[1], S1[2] - S2[1], S2[2] - H2[1].
func pair() *fabric.Fabric {
	none := fabric.Ref{Node: -1}
	p := func(n int32, q uint8) fabric.Port {
		return fabric.Port{Peer: fabric.Ref{Node: n, Port: q}, Width: ib.Width4x, Speed: ib.SpeedEDR}
	}
	free := fabric.Port{Peer: none}
	return &fabric.Fabric{Nodes: []fabric.Node{
		{ID: "H1", Desc: "host one", Type: ib.NodeCA, GUID: 0x100, NumPorts: 2, Ports: []fabric.Port{free, p(1, 1), free}},
		{ID: "S1", Desc: "switch one", Type: ib.NodeSwitch, GUID: 0x200, NumPorts: 3, Ports: []fabric.Port{free, p(0, 1), p(2, 1), free}},
		{ID: "S2", Desc: "switch two", Type: ib.NodeSwitch, GUID: 0x201, NumPorts: 3, Ports: []fabric.Port{free, p(1, 2), p(3, 1), free}},
		{ID: "H2", Desc: "host two", Type: ib.NodeCA, GUID: 0x110, NumPorts: 1, Ports: []fabric.Port{free, p(2, 2)}},
	}}
}

func TestDirectedRouteGet(t *testing.T) {
	s, err := New(pair(), Config{})
	if err != nil {
		t.Fatal(err)
	}
	e, err := s.Attach("H1")
	if err != nil {
		t.Fatal(err)
	}
	var got *ib.MAD
	e.OnPacket = func(p *mad.Packet) { m := ib.MAD(p.Data); got = &m }
	var m ib.MAD
	smp.NewDR(&m, ib.MethodGet, smp.AttrNodeInfo, 0, 0, []byte{1, 2, 2})
	m.SetTID(7)
	e.Send(&mad.Packet{Addr: mad.Addr{LID: ib.LIDPermissive}, Data: m[:]})
	if got == nil {
		t.Fatal("no answer")
	}
	var ni smp.NodeInfo
	if err := ni.Decode(smp.Data(got)); err != nil {
		t.Fatal(err)
	}
	if ni.NodeGUID != 0x110 || ni.LocalPortNum != 1 || got.TID() != 1<<48|7 {
		t.Fatalf("%+v TID %x", ni, got.TID())
	}
}
