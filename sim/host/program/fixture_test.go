package program

import (
	"testing"

	"heddle/fabric"
	"heddle/ib"
	"heddle/sim/dataplane"
	"heddle/sim/host/adapter"
	"heddle/sim/host/rc"
)

// testbed is a tree: a leaf switch for each host and two spines, the first for the
// hosts of even number; on two lanes.
type testbed struct {
	e     *dataplane.Engine
	p     *dataplane.Plain
	hosts []*adapter.Adapter
	cable []fabric.Ref // of leaf i to spine j: 2i + j
}

func newTestbed(t testing.TB, n int) *testbed {
	t.Helper()
	top := &dataplane.Topology{}
	for range n {
		top.Nodes = append(top.Nodes, dataplane.Node{Name: "host", Ports: 1})
	}
	for range n {
		top.Nodes = append(top.Nodes, dataplane.Node{Name: "leaf", Switch: true, Ports: 3})
	}
	for range 2 {
		top.Nodes = append(top.Nodes, dataplane.Node{Name: "spine", Switch: true, Ports: n})
	}
	b := &testbed{}
	rate := dataplane.LinkRate(ib.Width4x, ib.SpeedQDR)
	link := func(a, ap, z, zp int) fabric.Ref {
		x, y := fabric.Ref{Node: int32(a), Port: uint8(ap)}, fabric.Ref{Node: int32(z), Port: uint8(zp)}
		top.Links = append(top.Links, dataplane.Link{A: x, B: y, Rate: rate, Delay: dataplane.DefaultCable})
		return x
	}
	for i := range n {
		link(i, 1, n+i, 1)
		b.cable = append(b.cable, link(n+i, 2, 2*n, i+1), link(n+i, 3, 2*n+1, i+1))
	}
	b.p = dataplane.NewPlain(top, 2)
	for d := range n {
		lid := b.p.Attr[d][1].LID
		for s := range n {
			port := uint8(2 + d%2)
			if s == d {
				port = 1
			}
			b.p.SetRoute(int32(n+s), lid, port)
		}
		b.p.SetRoute(int32(2*n+d%2), lid, uint8(d+1))
	}
	c := dataplane.Defaults()
	c.Lanes = 2
	var err error
	if b.e, err = dataplane.New(top, b.p, c); err != nil {
		t.Fatal(err)
	}
	for h := range b.e.NumHosts() {
		a, err := adapter.New(b.e, h)
		if err != nil {
			t.Fatal(err)
		}
		b.hosts = append(b.hosts, a)
	}
	return b
}

// links connects hosts by lane 0.
func (b *testbed) links() Links {
	return Links{
		Options: adapter.Options{MTU: 2048, Window: 64, AckEvery: 16},
		Sender:  rc.Sender{Timeout: 7, Retries: 7, RNRRetries: 7},
		Path:    func(_, to *adapter.Adapter) (rc.Path, error) { return rc.Path{DLID: to.LID()}, nil },
		Local:   dataplane.Microsecond,
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
